"""Limits of the memory that models take: what fails, and where it is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from memory_toy import MEMORY
from toy_workspace import toy_invocation

from orchestrator.build.delivering import memory as measuring
from orchestrator.build.delivering.memory import (
    NotMeasuredError,
    OverMemoryError,
    check_memory,
    measured,
    over,
)
from orchestrator.build.delivering.verify import DeliveredLibrary
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.values.labels import VariantLabel
from orchestrator.verify.verdict import RunnerResult

ABI, PHONE = "linux-x86_64", "android-arm64-v8a"
APP = "models: [{{file: models/net.ptl}}]\ntargets: [{targets}]\nmemory: {limits}\n"


def workspace(root: Path, limits: str, log: list[str], *targets: str) -> Invocation:
    def compiler(prefix: tuple[str, ...] | None) -> Any:
        runs = SimpleNamespace(prefix=prefix, why_not="" if prefix == () else "no emulator")
        return SimpleNamespace(running=lambda *_: runs)

    text = APP.format(targets=", ".join(targets or (ABI,)), limits=limits)
    found = {ABI: compiler(()), PHONE: compiler(None)}
    return toy_invocation(root, {"app": text}, found=found, log=log.append)


def library(here: Invocation, root: Path, abi: str = ABI) -> DeliveredLibrary:
    app = here.workspace.apps["app"]
    file = root / "dist/libapp_torch.so"
    return DeliveredLibrary(VariantLabel("app", abi), app, file, root / "driver", (), {}, None)


def faults(limits: str, root: Path) -> list[OverMemoryError]:
    app = workspace(root, limits, []).workspace.apps["app"]
    return list(over(VariantLabel("app", ABI), app, MEMORY))


def test_a_peak_over_its_budget_names_who_reached_it(tmp_path: Path) -> None:
    (fault,) = faults("5MB", tmp_path)
    assert fault.render().replace(str(tmp_path), "") == (
        "apps/app/app.yaml:3:1: error: net takes more memory in //apps/app:linux-x86_64 than its"
        " budget\n"
        "  expected: at most 5,000,000 bytes at once\n"
        "  seen:     5,200,000 bytes in forward[0], aten::relu, forward at net.py:13\n"
        "  do:       raise the budget, or make the tensors smaller that are there at once:"
        " ./orchestrate memory //apps/app:linux-x86_64\n"
        "  | the largest at the peak of forward[0]:\n"
        "  |   3,211,264 bytes: float32 [1, 64, 112, 112], aten::conv2d, forward at net.py:12\n"
        "  |   800,000 bytes: kept by kernels, aten::conv2d, forward at net.py:12\n"
        "  |   600,000 bytes: float32 [64, 3, 7, 7]\n"
        "  |   100,000 bytes: other memory"
    )
    assert fault.facts == {"peak_bytes": 5_200_000, "budget_bytes": 5_000_000}


@pytest.mark.parametrize(
    ("limits", "passed"),
    [
        ("5.2MB", []),
        ("{peak: 5MB, kept: 1MB}", [(3, 5_000_000), (3, 1_000_000)]),
        ("{kept: 1.4MB}", []),
        # a model's own limit goes before that of all
        ("{peak: 1MB, models: {net: 6MB}}", []),
        ("{peak: 9MB, models: {net: 2MB}}", [(3, 2_000_000)]),
    ],
)
def test_limits(limits: str, passed: list[tuple[int, int]], tmp_path: Path) -> None:
    found = faults(limits, tmp_path)
    assert [
        (one.place.line if one.place else None, one.facts["budget_bytes"]) for one in found
    ] == passed


def test_a_check_measures_each_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = workspace(tmp_path, "5MB", [])
    monkeypatch.setattr(measuring, "memory_in", lambda *_: (replace(MEMORY, runs=()), MEMORY))
    with pytest.raises(OverMemoryError):
        check_memory(here, library(here, tmp_path))


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ((ABI, PHONE), ", but for linux-x86_64"),
        ((PHONE,), ", and none of its targets runs here: linux-x86_64 would"),
    ],
)
def test_where_a_library_does_not_run_it_is_said(
    targets: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    log = list[str]()
    here = workspace(tmp_path, "1B", log, *targets)
    check_memory(here, library(here, tmp_path, PHONE))
    assert log == [f"//apps/app:{PHONE}: memory is not measured here{said}"]
    label = VariantLabel("app", PHONE)
    (found,) = measured(here, [label], jobs=None, view=None)  # type: ignore[arg-type]
    assert (found.models, found.why_not) == ((), "no emulator")


def test_a_runner_that_is_not_there(tmp_path: Path) -> None:
    here = workspace(tmp_path, "1B", [])
    with pytest.raises(NotMeasuredError) as caught:
        check_memory(here, library(here, tmp_path))
    assert caught.value.render() == (
        "error: the program that measures memory in //apps/app:linux-x86_64 has not been built\n"
        "  seen:     no memory\n"
        "  do:       run: ./orchestrate build //apps/app:linux-x86_64"
    )


@pytest.mark.parametrize(
    ("result", "seen"),
    [
        (RunnerResult(-11, None, "oops\n"), "was killed by SIGSEGV"),
        (
            RunnerResult(0, {"runs": [], "error": None}),
            "memory: Input should be a valid dictionary or instance of _Memory",
        ),
    ],
)
def test_a_model_that_does_not_run(
    result: RunnerResult, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = workspace(tmp_path, "1B", [])
    (tmp_path / "memory").touch()
    monkeypatch.setattr(measuring, "run_model", lambda *_, **__: result)
    monkeypatch.setattr(measuring, "stored_bytes", lambda _: 0)
    monkeypatch.setattr(measuring, "open_archive", lambda *_: SimpleArchive())
    with pytest.raises(NotMeasuredError) as caught:
        check_memory(here, library(here, tmp_path))
    assert caught.value.what == "the memory of net in //apps/app:linux-x86_64 cannot be measured"
    assert caught.value.seen == seen


class SimpleArchive:
    """An archive without records."""

    sizes: dict[str, int] = {}  # noqa: RUF012

    def __enter__(self) -> SimpleArchive:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""
