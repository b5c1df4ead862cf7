"""The results of the model runner that counts memory are checked, and get the model's lines."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from orchestrator.values.memory import Site
from orchestrator.verify.memory import Located, MemoryUnreadableError, memory_of

PLACE = {"function": 0, "instruction": 7, "operator": "aten::relu"}
RUN: dict[str, Any] = {
    "method": "forward",
    "index": 0,
    "again": False,
    "ended": True,
    "before": 100,
    "inputs": 40,
    "peak": 360,
    "at": PLACE,
    "of": {"model": 100, "earlier": 0, "run": 260},
    "blocks": [
        {
            "bytes": 256,
            "of": "run",
            "stays": False,
            "at": PLACE,
            "dtype": "float32",
            "shape": [8, 8],
        },
        {"bytes": 64, "of": "model", "stays": True, "at": None, "dtype": None, "shape": None},
    ],
    "others": {"blocks": 3, "bytes": 40},
    "after": {"model": 90, "runs": 30},
}
MEMORY: dict[str, Any] = {
    "library": 5000,
    "loaded": {"heap": 20, "mapped": 80, "peak": 140},
    "runs": [RUN, {**RUN, "again": True, "peak": 370, "before": -8}, {**RUN, "ended": False}],
}


def site(at: Located) -> str:
    return f"forward at net.py:{at.instruction}"


def test_what_is_told() -> None:
    found = memory_of("net", 96, {"memory": MEMORY}, site)
    assert (found.file, found.library, found.loaded, found.mapped) == (96, 5000, 100, 80)
    # a run that did not end says nothing of a peak
    assert [run.name for run in found.runs] == ["forward[0]", "forward[0] again"]
    assert (found.peak, found.worst, found.kept) == (370, found.runs[1], 120)
    assert found.runs[0].at == Site("aten::relu", "forward at net.py:7")
    relu, weights = found.runs[0].blocks
    assert (relu.contents, weights.contents) == ("float32 [8, 8]", "other memory")
    assert (relu.at, weights.at) == (found.runs[0].at, None)


def test_loading_may_take_most() -> None:
    loaded = {**MEMORY["loaded"], "peak": 371}
    found = memory_of("net", 96, {"memory": {**MEMORY, "loaded": loaded}}, site)
    assert (found.peak, found.worst, found.largest) == (371, None, found.runs[1])
    without = memory_of("net", 96, {"memory": {**MEMORY, "runs": []}}, site)
    assert (without.peak, without.kept, without.largest) == (140, 100, None)


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("library",), -1, "library: Input should be greater than or equal to 0"),
        (("loaded", "peak"), "1", "loaded.peak: Input should be a valid integer"),
        (("runs", 0, "at"), {}, "runs.0.at.function: Field required"),
        (
            ("runs", 0, "blocks", 0, "of"),
            "me",
            "runs.0.blocks.0.of: Input should be 'model', 'earlier' or 'run'",
        ),
        (
            ("runs", 0, "blocks", 0, "shape"),
            [-1],
            "runs.0.blocks.0.shape.0: Input should be greater than or equal to 0",
        ),
        (("more",), 1, "more: Extra inputs are not permitted"),
    ],
)
def test_what_is_not_told_so_is_refused(path: tuple[Any, ...], value: Any, fault: str) -> None:
    told = copy.deepcopy(MEMORY)
    part: Any = told
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(MemoryUnreadableError) as caught:
        memory_of("net", 96, {"memory": told}, site)
    assert str(caught.value) == fault


def test_a_runner_that_told_nothing() -> None:
    results: tuple[dict[str, Any] | None, ...] = (None, {"runs": []})
    for result in results:
        with pytest.raises(MemoryUnreadableError) as caught:
            memory_of("net", 96, result, site)
        assert "memory: " in str(caught.value)
