"""Verifying what was delivered: with how many threads, and which files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy_workspace import toy_invocation

from orchestrator.build.delivering import verify as story
from orchestrator.build.delivering.verify import (
    DeliveredLibrary,
    verified_threads,
    verify_library,
)
from orchestrator.build.planning.selected import (
    OtherSelectionError,
    require_held,
    require_selection,
)
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.errors import Place
from orchestrator.values.config.forms import CORES
from orchestrator.values.labels import VariantLabel
from orchestrator.verify.verdict import RunnerResult, VerifyResult


@pytest.mark.parametrize(
    ("declared", "cores", "verified"),
    [
        (1, 4, 1),
        (3, 4, 3),
        (CORES, 4, 4),
        # more than this machine has, and a machine that has one: two show what several do
        (64, 4, 2),
        (1024, 1, 2),
        (CORES, 1, 2),
    ],
)
def test_the_threads_that_models_are_verified_with(
    declared: int, cores: int, verified: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    app = SimpleNamespace(threads=declared)
    assert verified_threads(app) == verified  # type: ignore[arg-type]


ABI = "linux-x86_64"
APP = f"""\
models: [{{file: models/net.ptl}}]
targets: [{ABI}]
"""


def invocation(root: Path) -> Invocation:
    """An invocation with an app of one model, whose variants run on this machine."""
    compiler: Any = SimpleNamespace(running=lambda *_: SimpleNamespace(prefix=()))
    return toy_invocation(root, {"app": APP}, found={ABI: compiler})


def library_of(here: Invocation) -> DeliveredLibrary:
    """Its library, with one CPU level, and without models beside it."""
    app, file = here.workspace.apps["app"], Path("lib/libapp_torch.so")
    return DeliveredLibrary(VariantLabel("app", ABI), app, file, Path("driver"), (), {}, None)


@pytest.mark.parametrize(("given", "status"), [(1, "ok"), (2, "failed")])
def test_the_delivered_file_is_run_besides_the_original(
    given: int, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`given`: what the delivered file's run gives, where 1 was recorded."""

    def runs(output: int) -> dict[str, Any]:
        run = {"method": "forward", "index": 0, "output": {"int": output}, "error": None}
        return {"runs": [run], "error": None}

    original = tmp_path / "apps/app/models/net.ptl"
    delivered = Path("dist/share/app/models/net.ptl")
    ran, layouts = list[Path](), list[object]()

    def run_model(argv: object, file: Path, *_: object, **how: object) -> RunnerResult:
        if how["layout"] is None:
            ran.append(file)
        else:
            layouts.append(how["layout"])
        return RunnerResult(0, runs(given if file == delivered else 1))

    monkeypatch.setattr(story, "run_model", run_model)
    monkeypatch.setattr(story, "read_runs", lambda *_: runs(1))
    here = invocation(tmp_path)
    trace: Any = SimpleNamespace(model="net")
    with_model = replace(library_of(here), models={"net": delivered})
    (result,) = verify_library(here, with_model, [trace])
    assert ran == [original, delivered]
    assert result.status == status
    (without,) = verify_library(here, library_of(here), [trace])
    assert (without.status, ran[2:]) == ("ok", [original])
    assert layouts == ["part", "channels-last"] * 2


OF_ITS_OWN, OF_ANOTHER = 64 * "a", 64 * "b"


@pytest.mark.parametrize(
    ("said", "seen"),
    [(OF_ANOTHER, OF_ANOTHER), (None, "a library that does not say its selection")],
)
def test_a_library_that_says_another_selection_than_its_manifest_is_refused(
    said: str | None, seen: str
) -> None:
    ran = RunnerResult(0, {"runs": [], "error": None}, selection=said)
    with pytest.raises(OtherSelectionError) as caught:
        require_selection(OF_ITS_OWN, ran, Place("lib/libapp_torch.so"))
    assert caught.value.render() == (
        "lib/libapp_torch.so: error: the library is of another selection than its manifest says\n"
        f"  expected: {OF_ITS_OWN}\n"
        f"  seen:     {seen}\n"
        "  do:       build the variant again, or get the package again from where it was published"
    )


@pytest.mark.parametrize(
    ("digest", "ran"),
    [
        (OF_ITS_OWN, RunnerResult(0, {"runs": []}, selection=OF_ITS_OWN)),
        # a manifest from before
        (None, RunnerResult(0, {"runs": []}, selection=OF_ANOTHER)),
        # what crashed is told in another way
        (OF_ITS_OWN, RunnerResult(-11, None)),
    ],
)
def test_a_library_of_its_own_selection_passes(digest: str | None, ran: RunnerResult) -> None:
    require_selection(digest, ran, Place("lib/libapp_torch.so"))


def test_a_library_that_cannot_run_here_holds_the_digest() -> None:
    library, place = b"\x7fELF" + OF_ITS_OWN.encode() + b"\0", Place("libapp_torch.so")
    require_held(OF_ITS_OWN, library.__contains__, place)
    require_held(None, library.__contains__, place)
    with pytest.raises(OtherSelectionError) as caught:
        require_held(OF_ANOTHER, library.__contains__, place)
    assert caught.value.seen == "a library without this text"


VNNI = ("avx2", "avxvnni", "avx512vnni")
Said = tuple[str, ...] | None


class Processor:
    """What runs models, at the levels that it has; `keeps` the variable that names the last one.
    One that is `slow` it uses only where it is named, or a higher one is."""

    def __init__(
        self, has: Said, *, keeps: bool = True, dies_at: str | None = None, slow: str | None = None
    ) -> None:
        self.has, self.keeps, self.dies_at, self.slow = has, keeps, dies_at, slow
        self.asked = list[str | None]()

    def run_model(
        self, *_: object, level: str | None, layout: str | None, **__: object
    ) -> RunnerResult:
        if layout is None:
            self.asked.append(level)
        if level is not None and level == self.dies_at:
            return RunnerResult(-4, None)
        run = {"method": "forward", "index": 0, "output": {"int": 1}, "error": None}
        return RunnerResult(0, {"runs": [run], "error": None}, levels=self._usable(level))

    def _usable(self, level: str | None) -> Said:
        order = ("baseline", "avx2", "avxvnni", "avx512", "avx512vnni")
        if self.has is None:
            return None
        if level is None or not self.keeps:
            return tuple(one for one in self.has if one != self.slow)
        return tuple(one for one in self.has if order.index(one) <= order.index(level))


def verified(
    processor: Processor, levels: tuple[str, ...], root: Path, monkeypatch: pytest.MonkeyPatch
) -> VerifyResult:
    """The verdict on a model in a library with these levels."""
    recorded = {"method": "forward", "index": 0, "output": {"int": 1}, "error": None}
    monkeypatch.setattr(story, "run_model", processor.run_model)
    monkeypatch.setattr(story, "read_runs", lambda *_: {"runs": [recorded], "error": None})
    here = invocation(root)
    trace: Any = SimpleNamespace(model="net")
    (result,) = verify_library(here, replace(library_of(here), levels=levels), [trace])
    return result


@pytest.mark.parametrize(
    ("has", "levels", "at", "lacking"),
    [
        # what runs without being told is at the highest level; all others are asked for
        (("avx2",), ("avx2",), ("baseline",), ()),
        (("avx2", "avxvnni"), VNNI, ("baseline", "avx2"), ("avx512vnni",)),
        (("avx2", "avx512", "avx512vnni"), VNNI, ("baseline", "avx2"), ("avxvnni",)),
        (("avx2",), VNNI, ("baseline",), ("avxvnni", "avx512vnni")),
        ((), ("avx2",), ("baseline",), ("avx2",)),
        (("avx2",), (), (), ()),
        # a runner that does not say it: from an earlier release
        (None, VNNI, ("baseline",), VNNI),
    ],
)
def test_every_level_is_run_that_the_processor_has(
    has: Said,
    levels: tuple[str, ...],
    at: tuple[str, ...],
    lacking: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that runs the model: an emulator's, or another one's behind the kernel."""
    processor = Processor(has)
    result = verified(processor, levels, tmp_path, monkeypatch)
    assert processor.asked[0] is None
    assert {*at} <= {*processor.asked[1:]} <= {"baseline", *levels}
    assert len(processor.asked) == len({*processor.asked})
    assert (result.status, result.levels, result.levels_not_run) == ("ok", at, lacking)


def test_a_level_is_run_that_the_library_uses_only_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AVX-512 where the processor computes 512 bits in two halves."""
    processor = Processor(("avx2", "avx512"), slow="avx512")
    result = verified(processor, ("avx2", "avx512"), tmp_path, monkeypatch)
    assert processor.asked == [None, "baseline", "avx512"]
    assert (result.levels, result.levels_not_run) == (("baseline", "avx512"), ())


def test_a_run_at_another_level_than_it_was_told_counts_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What starts the program drops the variable: all runs are at the highest level."""
    processor = Processor(("avx2", "avxvnni"), keeps=False)
    result = verified(processor, VNNI, tmp_path, monkeypatch)
    assert processor.asked == [None, "baseline", "avx2", "avx512vnni"]
    assert (result.status, result.levels) == ("ok", ())
    assert result.levels_not_run == ("baseline", "avx2", "avx512vnni")


def test_a_run_that_dies_at_a_lower_level_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says of no level, and is not taken for one that did not run."""
    processor = Processor(("avx2", "avxvnni"), dies_at="avx2")
    result = verified(processor, VNNI, tmp_path, monkeypatch)
    assert (result.status, result.levels_not_run) == ("failed", ("avx512vnni",))
    assert [str(failure) for failure in result.failures] == [
        "net, at CPU level avx2: the model runner was killed by SIGILL"
    ]
