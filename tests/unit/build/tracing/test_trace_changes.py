"""What a new trace changes in a lock: the runtimes by name, and how far the results are apart."""

from __future__ import annotations

import base64
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.build.tracing.trace_changes import changes_in_lock, outputs_apart
from orchestrator.trace.lock import pack_runs, runs_path, write_lock
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace, TraceIdentity

OLD, NEW, NOWHERE = "a" * 64, "b" * 64, "c" * 64
RUNTIMES = {OLD: "pytorch_1_13", NEW: "pytorch_2_6"}
IDENTITY = TraceIdentity("d" * 64, OLD, "bundled", ("CPU",), "e" * 16)


def floats(*numbers: float) -> dict[str, Any]:
    data = base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
    return {"tensor": {"dtype": "float32", "shape": [len(numbers)], "data": data}}


def result(*outputs: dict[str, Any]) -> dict[str, Any]:
    calls = enumerate(outputs)
    runs = [{"method": "forward", "index": n, "output": one, "error": None} for n, one in calls]
    return {"runs": runs, "error": None}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (result(floats(1, 2)), result(floats(1, 2)), "equal values"),
        (
            result(floats(1, 2), floats(0.5)),
            result(floats(1, 2.00003), floats(0.500001)),
            "within the tolerance: forward[0] output[1]: 2.0 -> 2.000030040740967, at most 3e-05"
            " apart, and 1 more",
        ),
        (
            result(floats(1, 2), floats(0.5)),
            result(floats(1, 2.00003), floats(0.75)),
            "beyond the tolerance: forward[1] output[0]: 0.5 -> 0.75, at most 0.25 apart",
        ),
        (
            result(floats(1), floats(0.5)),
            result(floats(9), floats(0.5, 0.5)),
            "beyond the tolerance: forward[1] output: shape [1] -> [2], and 1 more",
        ),
        (
            result({"string": "x"}),
            result({"string": "y" * 50}),
            f"beyond the tolerance: forward[0] output: x -> {'y' * 40}...",
        ),
        (
            result(floats(1)),
            result(),
            "beyond the tolerance: runs forward[0] -> none",
        ),
    ],
)
def test_how_far_results_are_apart(old: dict[str, Any], new: dict[str, Any], told: str) -> None:
    assert outputs_apart(old, new) == told


def traced(folder: Path, identity: TraceIdentity, *outputs: dict[str, Any]) -> Trace:
    """A trace whose lock is written."""
    packed, digest = pack_runs(result(*outputs))
    trace = Trace("a", "m", identity, (Op("x::a"),), {Op("x::a"): 1}, {}, outputs=digest)
    write_lock(folder, trace, packed)
    return trace


def told(folder: Path, identity: TraceIdentity, *outputs: dict[str, Any]) -> list[str] | None:
    """What is told of a newer trace."""
    _, digest = pack_runs(result(*outputs))
    new = Trace(
        "a",
        "m",
        identity,
        (Op("x::a"),),
        {Op("x::a"): 1, Op("x::b"): 2},
        {},
        outputs=digest,
    )
    changes = changes_in_lock(folder, folder, new, result(*outputs), RUNTIMES)
    return None if changes is None else list(map(str, changes))


MOVED = replace(IDENTITY, runtime=NEW)


def test_an_app_that_moves_to_another_runtime(tmp_path: Path) -> None:
    assert told(tmp_path, MOVED, floats(1)) is None
    traced(tmp_path, IDENTITY, floats(1))
    assert told(tmp_path, MOVED, floats(1.00001)) == [
        "operators +x::b",
        "outputs (within the tolerance: forward[0] output[0]: 1.0 -> 1.0000100135803223,"
        " at most 1e-05 apart)",
        "calls",
        "runtime (pytorch_1_13 -> pytorch_2_6)",
    ]
    sizes = {IDENTITY.runtime: 1_710_000, MOVED.runtime: 1_930_000}
    moved = Trace("a", "m", MOVED, (Op("x::a"),), {Op("x::a"): 1}, {})
    (*_, change) = (
        changes_in_lock(
            tmp_path,
            tmp_path,
            moved,
            result(),
            RUNTIMES,
            lambda tree, trace: sizes[tree] if trace.root_operators == ("x::a",) else None,
        )
        or ()
    )
    assert str(change) == (
        "runtime (pytorch_1_13 -> pytorch_2_6; a library of this model alone, with all dtypes,"
        " by the index: 1.71 MB -> 1.93 MB)"
    )
    assert told(tmp_path, MOVED, floats(1)) == [
        "operators +x::b",
        "calls",
        "runtime (pytorch_1_13 -> pytorch_2_6)",
    ]


def test_a_runtime_that_is_pinned_no_more(tmp_path: Path) -> None:
    traced(tmp_path, replace(IDENTITY, runtime=NOWHERE), floats(1))
    changes = told(tmp_path, MOVED, floats(1))
    assert changes is not None
    assert changes[-1] == (
        "runtime (a tree cccccccccccc that WORKSPACE does not pin -> pytorch_2_6)"
    )


@pytest.mark.parametrize(
    "identity", [replace(MOVED, model="f" * 64), replace(MOVED, inputs="f" * 64)]
)
def test_results_of_other_inputs_are_not_compared(tmp_path: Path, identity: TraceIdentity) -> None:
    traced(tmp_path, IDENTITY, floats(1))
    changes = told(tmp_path, identity, floats(2))
    assert changes is not None
    assert "outputs" in changes


def test_recorded_runs_that_are_gone_are_not_compared(tmp_path: Path) -> None:
    traced(tmp_path, IDENTITY, floats(1))
    runs_path(tmp_path, "m").unlink()
    changes = told(tmp_path, MOVED, floats(2))
    assert changes is not None
    assert "outputs" in changes
