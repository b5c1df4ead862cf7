"""Trace locks: the same bytes for the same trace, told clearly where stale, damaged or missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
import zstandard
from core_toy import GOLDEN, ROOT, session
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import OrchestratorError
from orchestrator.trace.lock import (
    TraceDamagedError,
    TraceMissingError,
    TraceStaleError,
    changes,
    hot_tags_before,
    lock_path,
    lock_text,
    pack_runs,
    parse_lock,
    read_lock,
    read_runs,
    runs_path,
    write_lock,
)
from orchestrator.values.trace import Trace, TraceIdentity

RESULT = {"runs": [{"method": "forward", "output": {"tensor": [1.5, None]}}], "error": None}
RUNS, DIGEST = pack_runs(RESULT)
IDENTITY = TraceIdentity("a" * 64, "b" * 64, "bundled", ("CPU", "QuantizedCPU"), "c" * 16)
TRACE = Trace(
    app="camera",
    model="classifier",
    identity=IDENTITY,
    root_operators=("aten::add.Tensor", "aten::len.t"),
    called_operators={"aten::add.Tensor": 3, "aten::copy_": 12},
    kernel_tags={"add_stub": {"Float": 3, "Long": 1}, "copy_": {"Bool": 2}},
    custom_classes=("quantized.Linear",),
    build_features=("PROTOBUF",),
    hot_tags=("add_stub",),
    outputs=DIGEST,
)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    folder = tmp_path / "apps/camera"
    write_lock(folder, TRACE, RUNS)
    return folder


def read(app: Path, identity: TraceIdentity = IDENTITY) -> Trace:
    return read_lock(app, "classifier", identity, "//apps/camera", app.parents[1])


def refused(app: Path, identity: TraceIdentity = IDENTITY) -> OrchestratorError:
    with pytest.raises(OrchestratorError) as caught:
        read(app, identity)
    return caught.value


def test_the_exact_text() -> None:
    assert lock_text(TRACE) == (GOLDEN / "classifier.yaml").read_text()


def test_what_is_written_is_read(app: Path) -> None:
    assert read(app) == TRACE
    assert read_runs(app, TRACE, app.parents[1]) == RESULT
    assert sorted(p.name for p in (app / "traces").iterdir()) == [
        "classifier.runs.zst",
        "classifier.yaml",
    ]


def test_what_was_hot_before(app: Path) -> None:
    assert hot_tags_before(app, "classifier") == ("add_stub",)
    assert hot_tags_before(app, "another") is None
    lock_path(app, "classifier").write_bytes(b"format: \xff")
    assert hot_tags_before(app, "classifier") is None
    lock_path(app, "classifier").write_text("format: 0\n")
    assert hot_tags_before(app, "classifier") is None


# Names that YAML could take for something else.
words = st.sampled_from(
    ["yes", "null", "1e5", "0x12", "12", "~", "1.5", "2020-01-01", "a: b", "é", "-", "", "1_0"]
) | st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=8)
tables = st.dictionaries(words, st.integers(0, 2**40), max_size=3)


@settings(deadline=None)
@given(
    st.builds(TraceIdentity, words, words, words, st.lists(words, max_size=2).map(tuple), words),
    st.sets(words, max_size=3),
    tables,
    st.dictionaries(words, tables, max_size=2),
)
def test_every_trace_survives_its_file(
    identity: TraceIdentity,
    roots: set[str],
    called: dict[str, int],
    tags: dict[str, dict[str, int]],
) -> None:
    trace = replace(
        TRACE,
        identity=identity,
        root_operators=tuple(sorted(roots)),
        called_operators={name: called[name] for name in sorted(called)},
        kernel_tags=tags,
    )
    assert parse_lock(lock_text(trace), "x") == trace


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("model", "d" * 64),
        ("runtime", "d" * 64),
        ("inputs", "d" * 64),
        ("backends", ("CPU",)),
        ("tracer", "d" * 16),
    ],
)
def test_a_stale_trace_names_what_changed(app: Path, part: str, value: object) -> None:
    error = refused(app, replace(IDENTITY, **{part: value}))  # type: ignore[arg-type]
    assert isinstance(error, TraceStaleError)
    assert error.render() == (
        f"apps/camera/traces/classifier.yaml: error: the trace of classifier is stale: {part}"
        " changed since\n"
        "  do:       run: ./orchestrate trace //apps/camera"
    )


def test_several_changes_are_all_named() -> None:
    other = replace(IDENTITY, tracer="x", model="y")
    assert changes(IDENTITY, other) == ["model", "tracer"]
    assert changes(IDENTITY, IDENTITY) == []


def test_a_missing_trace(app: Path) -> None:
    lock_path(app, "classifier").unlink()
    error = refused(app)
    assert isinstance(error, TraceMissingError)
    assert error.render() == (
        "error: the model classifier of //apps/camera has not been traced\n"
        "  expected: apps/camera/traces/classifier.yaml\n"
        "  do:       run: ./orchestrate trace //apps/camera"
    )


GOOD = lock_text(TRACE)
PARTS = "ValueError: its parts do not agree"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (b"", "TypeError: 'NoneType' object is not subscriptable"),
        (b"a: [", "ParserError: while parsing a flow node"),
        (b"\xff\xfe", "TypeError: string indices must be integers, not 'str'"),
        (GOOD.replace("aten::copy_:\n", "aten::other:\n").encode(), PARTS),
        (GOOD.replace("    - Long\n", "").encode(), PARTS),
        (GOOD.replace("- aten::len.t", "- aten::relu").encode(), PARTS),
        (b"- 1", "TypeError: list indices must be integers or slices, not str"),
        (GOOD.replace("format: 1", "format: 2").encode(), "ValueError: format 2"),
        (GOOD.replace("outputs:", "output:").encode(), "KeyError: 'outputs'"),
        (GOOD[: GOOD.index("selected_operators:\n")].encode(), "KeyError: 'selected_operators'"),
    ],
)
def test_a_damaged_trace(app: Path, text: bytes, seen: str) -> None:
    lock_path(app, "classifier").write_bytes(text)
    error = refused(app)
    assert isinstance(error, TraceDamagedError)
    head, expected, shown, hint = error.render().splitlines()
    assert head == "apps/camera/traces/classifier.yaml: error: this trace cannot be read"
    assert expected == "  expected: a lock file of format 1"
    assert shown.startswith(f"  seen:     {seen}")
    assert hint == "  do:       trace the model again: orchestrator trace"


def test_a_truncated_trace_never_loses_anything_silently(app: Path) -> None:
    refused = 0
    for cut in range(0, len(GOOD), 7):
        try:
            trace = parse_lock(GOOD[:cut], "x")
        except TraceDamagedError:
            refused += 1
        else:
            # what upstream's reader wants in the last lines
            assert (trace, cut > len(GOOD) - 120) == (TRACE, True)
    assert refused > 150


@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage", "another run"])
def test_runs_that_are_not_the_locks(app: Path, damage: str) -> None:
    path = runs_path(app, "classifier")
    if damage == "missing":
        path.unlink()
    else:
        other, _ = pack_runs({"runs": []})
        path.write_bytes({"truncated": RUNS[:-4], "garbage": b"no", "another run": other}[damage])
    with pytest.raises(TraceDamagedError) as caught:
        read_runs(app, TRACE, app.parents[1])
    lines = caught.value.render().splitlines()
    assert lines[:2] == [
        "apps/camera/traces/classifier.runs.zst: error: the recorded runs of classifier are not"
        " those of its trace",
        f"  expected: {DIGEST}",
    ]
    assert lines[-1] == "  do:       run: ./orchestrate trace //apps/camera"


def test_runs_are_packed_the_same_whatever_the_order() -> None:
    turned = json.loads(json.dumps({"error": None, "runs": RESULT["runs"]}))
    assert pack_runs(turned) == (RUNS, DIGEST)
    assert json.loads(zstandard.ZstdDecompressor().decompress(RUNS)) == RESULT


def test_tracing_again_replaces_both_files(app: Path) -> None:
    runs, digest = pack_runs({"runs": [], "error": None})
    again = replace(TRACE, outputs=digest)
    write_lock(app, again, runs)
    assert read(app) == again
    assert read_runs(app, again, app.parents[1]) == {"runs": [], "error": None}
    assert len(list((app / "traces").iterdir())) == 2


SELECTOR = """
import json, sys, yaml
from torchgen.selective_build.selector import SelectiveBuilder
selector = SelectiveBuilder.from_yaml_dict(yaml.safe_load(sys.stdin)["selected_operators"])
print(json.dumps({
    "roots": sorted(n for n in selector.operators if selector.is_root_operator(n)),
    "selected": [selector.is_operator_selected(n) for n in sys.argv[1:]],
    "kernels": {t: sorted(d) for t, d in selector.kernel_metadata.items()},
    "float": selector.is_kernel_dtype_selected("add_stub", "Float"),
    "half": selector.is_kernel_dtype_selected("add_stub", "Half"),
    "all": selector.include_all_operators,
}))
"""


@pytest.mark.real
def test_pytorchs_own_selective_builder_reads_it() -> None:
    tree = session().runtime.fetched.tree
    done = subprocess.run(
        [sys.executable, "-c", SELECTOR, "aten::add.Tensor", "aten::copy_", "aten::mul.Tensor"],
        input=lock_text(TRACE),
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {
        "roots": ["aten::add.Tensor", "aten::len.t"],
        "selected": [True, True, False],
        "kernels": {"add_stub": ["Float", "Long"], "copy_": ["Bool"]},
        "float": True,
        "half": False,
        "all": False,
    }


COMMITTED = sorted((ROOT / "apps").glob("*/traces/*.yaml"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_traces_are_what_we_write(path: Path) -> None:
    app = path.parents[1]
    trace = parse_lock(path.read_text(), path.name)
    assert (trace.app, trace.model) == (app.name, path.stem)
    assert lock_text(trace) == path.read_text()
    assert read_runs(app, trace, ROOT)["runs"]
    value = yaml.safe_load(path.read_text())
    assert sorted(value["selected_operators"]["operators"]) == sorted(
        {*trace.root_operators, *trace.called_operators}
    )


def test_traces_are_committed() -> None:
    assert COMMITTED
