"""Outputs that prove nothing: all of their numbers are the same, or there are none.

Contract: pure. A kernel that writes nothing, or zeros, would give the same. Only floating-point and
quantised tensors count: of lengths and classes equal ones are usual.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from orchestrator.values.elements import FORMATS
from orchestrator.verify.compare import UNSTEADY, key_text, numbers_of

_COUNTED: Final = ("float", "bfloat", "q")


def flat_outputs(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The places of such outputs in all runs of a method: `forward output[1] (all 0)`."""
    found = dict[str, list[float] | None]()
    for run in result["runs"]:
        output = run["output"] or {"none": True}
        for place, tensor in _tensors(output, f"{run['method']} output"):
            known = found.setdefault(place, [])
            if known is not None:
                data = base64.b64decode(tensor["data"])
                found[place] = _joined(known, numbers_of(tensor["dtype"], data))
    return tuple(
        f"{place} ({f'all {known[0]:g}' if known else 'none'})"
        for place, known in found.items()
        if known is not None and (len(known) != 1 or known[0] == 0)
    )


def flat_line(places: Sequence[str]) -> str:
    """Text of `trace`, `build` and `verify` about them."""
    return f"numbers that are all the same prove nothing: {', '.join(places)}"


def _joined(known: list[float], numbers: Sequence[float]) -> list[float] | None:
    """Up to two of these numbers, if all are the same; None if they are not."""
    some = [*known, *numbers[:2]]
    first = some[0] if some else 0.0
    # NaN equals no number, not even itself
    if first != first:
        same = all(one != one for one in (*some, *numbers))
    else:
        same = all(one == first for one in (*some, *numbers))
    return some[:2] if same else None


def _tensors(value: Mapping[str, Any], place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    kind, content = next(iter(value.items()))
    if kind == "tensor":
        dtype = content["dtype"]
        # of those that pack several into a byte the numbers are not known
        if UNSTEADY not in content and dtype in FORMATS and dtype.startswith(_COUNTED):
            yield place, content
    elif kind in ("list", "tuple"):
        for index, item in enumerate(content):
            yield from _tensors(item, f"{place}[{index}]")
    elif kind == "dict":
        for key, item in content:
            yield from _tensors(item, f"{place}[{key_text(key)}]")
