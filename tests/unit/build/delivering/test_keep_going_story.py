"""Failures of single variants: kept apart and told each, or the first one let through."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_workspace import toy_invocation, toy_runtime

from orchestrator.build.delivering.keep_going import Failures, compiled_of, failed_row
from orchestrator.build.executing.execute import Execution
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.errors import OrchestratorError
from orchestrator.execute.ninja_run import ActionFailedError, NinjaResult
from orchestrator.values.action import ActionGraph, Compile, Link, Precompile
from orchestrator.values.labels import VariantLabel

CAMERA, READER = VariantLabel("camera", "linux-x86_64"), VariantLabel("reader", "linux-x86_64")


class OneError(OrchestratorError):
    """A failure."""


def invocation(root: Path) -> Invocation:
    """An invocation that keeps what a build makes right in `root`."""
    return toy_invocation(root, ready=[toy_runtime(folders={"state": str(root)})], state=root)


def unit(name: str, pch: Precompile | None = None) -> Compile:
    return Compile(f"{name}.cpp", f"$tree/{name}.cpp", "c++", "x", (), None, name * 64, 1.0, pch)


def link(name: str) -> Link:
    return Link(f"$state/{name}.so", "shared", "x", (), ())


SHARED, A, B = unit("c"), unit("a"), unit("b")
GRAPH = ActionGraph({u.object: u for u in (SHARED, A, B)}, (link("camera"), link("reader")))
VARIANTS = [
    (CAMERA, (SHARED, A), (link("camera"),)),
    (READER, (SHARED, B), (link("reader"),)),
]


def after(root: Path, *failed: str, keep_going: bool = True) -> Failures:
    """What is kept of a run in which these outputs failed."""
    here = invocation(root)
    failures = Failures(here, keep_going)
    texts = {here.runtimes.fill(output): f"command\n{output}: error: no" for output in failed}
    execution = Execution(frozenset(GRAPH.compiles), NinjaResult(5, texts))
    failures.of_actions(execution, GRAPH, VARIANTS)
    return failures


def test_nothing_failed(tmp_path: Path) -> None:
    assert after(tmp_path).all == ()


def test_a_units_failure_is_of_the_variants_that_have_it(tmp_path: Path) -> None:
    failures = after(tmp_path, A.object)
    assert list(failures.by_label) == [CAMERA]
    (error,) = failures.all
    assert isinstance(error, ActionFailedError)
    assert error.what == "a.cpp failed to build"
    assert list(after(tmp_path, SHARED.object).by_label) == [CAMERA, READER]


def test_each_variant_is_told_its_own_failure(tmp_path: Path) -> None:
    failures = after(tmp_path, A.object, "$state/reader.so")
    told = {label: error.what for label, error in failures.by_label.items()}
    assert told == {CAMERA: "a.cpp failed to build", READER: "reader.so failed to build"}
    # the log has both
    assert (tmp_path / "failures.log").read_text().count("error: no") == 2


def test_a_precompiled_headers_failure(tmp_path: Path) -> None:
    header = Precompile("$native/aten.h", "x", (), "h")
    with_header = unit("d", header)
    failures = Failures(invocation(tmp_path), keep_going=True)
    texts = {header.output: "command\naten.h: error: no"}
    execution = Execution(frozenset({with_header.object}), NinjaResult(1, texts))
    graph = ActionGraph({with_header.object: with_header})
    failures.of_actions(execution, graph, [(CAMERA, [with_header], []), (READER, [B], [])])
    assert list(failures.by_label) == [CAMERA]


def test_what_ninja_says_of_no_action_is_of_all(tmp_path: Path) -> None:
    assert list(after(tmp_path, "ninja").by_label) == [CAMERA, READER]


def test_without_keep_going_the_first_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ActionFailedError):
        after(tmp_path, B.object, keep_going=False)


def test_errors_are_told_once_and_in_order(tmp_path: Path) -> None:
    failures = Failures(invocation(tmp_path), keep_going=True)
    for labels, what in (
        ((), "packages"),
        ((READER,), "reader"),
        ((CAMERA, VariantLabel("camera", "ios-arm64")), "camera"),
    ):
        with failures.of(*labels):
            raise OneError(what)
    assert [error.what for error in failures.all] == ["camera", "reader", "packages"]


def test_a_bug_is_not_kept(tmp_path: Path) -> None:
    failures = Failures(invocation(tmp_path), keep_going=True)
    with pytest.raises(ZeroDivisionError), failures.of(CAMERA):
        print(1 / 0)


def test_the_row_of_a_variant_that_failed(tmp_path: Path) -> None:
    row = failed_row(CAMERA, OneError("x is broken"), 7, 1, 2)
    assert (row.app, row.abi, row.verified) == ("camera", "linux-x86_64", None)
    assert (row.operators, row.units_compiled, row.units_reused) == (7, 1, 2)
    assert row.problem == "failed: x is broken"


def test_what_was_compiled_before_it_failed(tmp_path: Path) -> None:
    here = invocation(tmp_path)
    made = Path(here.runtimes.fill(A.object))
    made.parent.mkdir(parents=True)
    made.touch()
    execution = Execution(frozenset({A.object, B.object}), NinjaResult(2, {}))
    assert compiled_of(here, execution, [A, B, SHARED]) == (1, 1)
