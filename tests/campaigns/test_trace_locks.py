"""Trace locks and recorded runs, damaged at random: read, or refused by an error of ours.

What is read can be planned, written again and rendered into C++, and compared with a run. No other
exception, at most 2 CPU seconds and 500 MB, nothing written and no process started.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import zstandard
from bounds import bounded
from harness import Campaign
from mutations import damaged

from orchestrator.build.workshop.trace_identity import vocabulary_of
from orchestrator.codegen.projection import projection_text
from orchestrator.errors import OrchestratorError
from orchestrator.index.model import UnitFacts, load_index
from orchestrator.models.coverage import methods_covered
from orchestrator.pytorch.dialects import load_version
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.policy import traced_selection
from orchestrator.trace.lock import (
    lock_path,
    lock_text,
    parse_lock,
    read_lock,
    read_runs,
    runs_path,
)
from orchestrator.values.labels import AppLabel
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace
from orchestrator.verify.compare import MalformedResultError
from orchestrator.verify.verdict import RunnerResult, verify

VERSION: Final = "1.13.1"
ROOT: Final = Path(__file__).parents[2]
# A unit that gets all that a selection has: see `projection_text`.
OPEN: Final = UnitFacts(
    "u.cpp", 1.0, open_tags=True, open_classes=True, operators=(Op("aten::add.Tensor"),)
)
# All that a projection's line may be when names are no code.
LINE: Final = re.compile(r'  if \(tag\.compare\("[\w.<>]+"\) == 0\) \{|    return [\w: =|]+;|  \}')
HOSTILE: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        -1,
        0,
        2**70,
        10**400,
        1.5,
        float("nan"),
        float("inf"),
        "",
        "x",
        "nan",
        "\x1b]0;x",
    ),
    *([], {}, [[]], [None], {"tensor": {}}, {"list": [{}]}, {"dict": [[]]}, {"unsteady": "any"}),
    *({"double": 10**400}, {"double": "inf"}, {"int": None}, {"other": True}, {"none": True}),
    *("AADAPw==", "float32", "bfloat16", "quint8", "complex64", "bits8"),
)


def test_damaged_locks(campaign: Campaign, tmp_path: Path) -> None:
    known = vocabulary_of(load_index(DIALECT.index), load_version(VERSION))
    locks = sorted(ROOT.glob("apps/*/traces/*.yaml"))
    outcomes: set[str] = set()
    for number, rng in campaign.tries(short=900, long=20_000):
        lock = rng.choice(locks)
        app, model = lock.parents[1].name, lock.stem
        path = lock_path(tmp_path / "apps" / app, model)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(damaged(rng, lock.read_bytes()))
        right = parse_lock(lock.read_text(), lock.name)
        try:
            with bounded(tmp_path):
                try:
                    trace = read_lock(
                        path.parents[1], model, right.identity, AppLabel("x"), tmp_path, known
                    )
                except OrchestratorError as error:
                    outcomes.add(type(error).__name__ if error.render() else "")
                else:
                    outcomes.add("read")
                    use(trace)
        except BaseException as error:
            error.add_note(f"seed {campaign.seed}, try {number}: {path}")
            raise
    least = {"read", "TraceDamagedError", "TraceUnknownError", "TraceConflictError"}
    assert outcomes >= least or campaign.only is not None


def use(trace: Trace) -> None:
    """What a plan and a tracer do with a lock that was read."""
    assert parse_lock(lock_text(trace), "again") == trace
    text = projection_text(OPEN, traced_selection(trace))
    assert text is not None
    body = text.partition("C10_UNUSED = c10::string_view(kernel_tag);\n")[2]
    lines = body.partition("  return false;\n}\n")[0].splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    covered = methods_covered(trace.coverage or {}, ())
    assert all(line for method in covered for line in method.missing)


def test_damaged_runs(campaign: Campaign, tmp_path: Path) -> None:
    """Bytes that a merge or a disk damaged; and JSON that someone wrote, with its digest."""
    locks = sorted(ROOT.glob("apps/*/traces/*.yaml"))
    outcomes: set[str] = set()
    for number, rng in campaign.tries(short=300, long=20_000):
        lock = rng.choice(locks)
        trace = parse_lock(lock.read_text(), lock.name)
        packed = runs_path(lock.parents[1], trace.model).read_bytes()
        text = zstandard.ZstdDecompressor().decompress(packed)
        right = json.loads(text)
        path = runs_path(tmp_path / "apps" / trace.app, trace.model)
        path.parent.mkdir(parents=True, exist_ok=True)
        if rng.random() < 0.3:
            path.write_bytes(damaged(rng, packed))
        else:
            text = hostile(rng, text)
            path.write_bytes(zstandard.ZstdCompressor(level=1).compress(text))
        trace = Trace(**{**vars(trace), "outputs": hashlib.sha256(text).hexdigest()})
        try:
            with bounded(tmp_path):
                outcomes.add(compared(tmp_path, trace, right))
        except BaseException as error:
            error.add_note(f"seed {campaign.seed}, try {number}: {path}")
            raise
    least = {"ok", "failed", "TraceDamagedError", "MalformedResultError"}
    assert outcomes >= least or campaign.only is not None


def hostile(rng: random.Random, text: bytes) -> bytes:
    """JSON with other values in it, or bytes that are none any more."""
    if rng.random() < 0.3:
        return damaged(rng, text)
    value = json.loads(text)
    for _ in range(rng.choice([1, 1, 2, 5])):
        holders = list(inside(value))
        holder = rng.choice(holders)
        if isinstance(holder, list) and holder:
            holder[rng.randrange(len(holder))] = deepcopy(rng.choice(HOSTILE))
        elif isinstance(holder, dict) and holder:
            key = rng.choice(list(holder))
            if rng.random() < 0.2:
                holder[rng.choice(["list", "dict", "x", "tensor"])] = holder.pop(key)
            else:
                holder[key] = deepcopy(rng.choice(HOSTILE))
    with suppress(ValueError):  # a number of more digits than Python writes
        return json.dumps(value, sort_keys=rng.random() < 0.5).encode()
    return text


def inside(value: Any) -> list[Any]:
    """All lists and mappings of a value."""
    found = [value]
    for one in found:
        parts = one.values() if isinstance(one, Mapping) else one
        found += [part for part in parts if isinstance(part, dict | list)]
    return found


def compared(root: Path, trace: Trace, right: Mapping[str, Any]) -> str:
    """How reading and comparing ended; an exception of another kind ends the campaign."""
    try:
        expected = read_runs(root / "apps" / trace.app, trace, root)
        result = verify(trace.model, expected, RunnerResult(0, right))
    except (OrchestratorError, MalformedResultError) as error:
        return type(error).__name__ if error.render() else ""
    assert all(str(failure) for failure in result.failures)
    return result.status
