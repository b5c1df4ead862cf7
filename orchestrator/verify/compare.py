"""Compares a model's outputs in two runtimes: two results of the model runner, value by value.

Contract: pure. A result is the model runner's JSON (format: `native/driver/driver.h` and
`values.h`), parsed. Floating-point values may differ by a tolerance for their dtype, since one
runtime is compiled for size and the other for speed; integers and bools may not. NaN equals NaN,
and an infinity equals itself. A quantised value may differ by one step. The arguments and times in
the results are ignored.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from orchestrator.errors import OrchestratorError
from orchestrator.export.tolerances import LUCK, NO_ROUNDING, TELLING, TOLERANCES
from orchestrator.values.elements import FORMATS


class MalformedResultError(OrchestratorError):
    """A text is not a result of the model runner."""


@dataclass(frozen=True)
class Tolerance:
    """`seen` may differ from `expected` by `atol + rtol * (|expected| + largest / 10)`.

    largest: the largest finite number of the expected tensor. Where an element is the small
    difference of numbers as large as that, its rounding error is theirs.
    """

    rtol: float
    atol: float

    def for_numbers_up_to(self, largest: float) -> Tolerance:
        """The tolerance of a tensor: not an absolute one where that is larger than all of its
        numbers, and these are smaller than any rounding error of usual ones."""
        if 0 < largest < NO_ROUNDING * self.atol and self.rtol:
            return replace(self, atol=TELLING * largest)
        return self

    def for_rounding(self, largest: float, error: float) -> Tolerance:
        """The tolerance of a tensor whose rounding error is known: not an absolute one that is more
        than that, and more than what tells of its numbers."""
        return replace(self, atol=min(self.atol, max(TELLING * largest, LUCK * error)))

    def holds(self, expected: float, seen: float, largest: float = 0.0) -> bool:
        if math.isnan(expected) or math.isnan(seen):
            return math.isnan(expected) and math.isnan(seen)
        if math.isinf(expected) or math.isinf(seen):
            return expected == seen
        allowed = self.atol + self.rtol * (abs(expected) + largest / 10)
        return abs(expected - seen) <= allowed


# Call and place of a tensor (`forward[0] output[1]`) -> its rounding error, if that is known.
Rounding = Callable[[str], float | None]
# What stands for a value that differs from run to run: see verify/nondeterminism.py.
UNSTEADY: Final = "unsteady"
EXACT: Final = Tolerance(0, 0)
# A Python float in a model was computed from tensors, mostly of float32.
_DOUBLE: Final = Tolerance(*TOLERANCES["float32"])

_DTYPES: Final[Mapping[str, tuple[str, int, Tolerance]]] = {
    name: (*form, Tolerance(*TOLERANCES[name])) for name, form in FORMATS.items()
}


@dataclass(frozen=True)
class Difference:
    """One place where two results differ.

    `run` is the call (`forward[0]`; empty where the lists of calls differ), `path` the place in its
    output (`output[1]["boxes"]`), `kind` what differs: `runs`, `error`, `kind`, `length`, `key`,
    `dtype`, `shape`, `scale`, `value`. For tensors `expected` and `seen` are of the worst element,
    whose index ends the path, `max_abs` is the largest difference among the finite elements, of
    quantised ones in steps of `scale`, and `tensor` the call and the place of the tensor.
    """

    run: str
    path: str
    kind: str
    expected: str
    seen: str
    max_abs: float | None = None
    tensor: str = ""
    scale: str = ""

    @property
    def text(self) -> str:
        """The difference without the run's name."""
        steps = f" steps of {self.scale}" if self.scale else ""
        worst = "" if self.max_abs is None else f", at most {self.max_abs:.3g}{steps} apart"
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.kind}: expected {self.expected}, seen {self.seen}{worst}"

    def __str__(self) -> str:
        return " ".join(part for part in (self.run, self.text) if part)


def compare_results(
    expected: Mapping[str, Any],
    seen: Mapping[str, Any],
    *,
    exact: bool = False,
    rounding: Rounding | None = None,
) -> list[Difference]:
    """All differences of two results, in the order of the runs; empty where they agree.

    exact: without tolerances
    rounding: of `rounding_of`; the absolute tolerance is not more than what it says
    Raises `MalformedResultError`.
    """
    try:
        return list(_results(expected, seen, exact, rounding))
    except (KeyError, TypeError, ValueError, IndexError, binascii.Error, struct.error) as cause:
        raise MalformedResultError(
            "this is not a result of the model runner",
            expected="runs with values as documented in native/driver/values.h",
            seen=f"{type(cause).__name__}: {cause}",
            hint="the model runner may be from another version: build again",
        ) from cause


def rounding_of(
    seen: Mapping[str, Any] | None, nudged: Mapping[str, Any] | None
) -> Rounding | None:
    """Return a function: tensor -> the largest change of its numbers if each float of the inputs
    becomes the next one; None for a tensor that does not change. None without such runs."""
    if seen is None or nudged is None:
        return None
    found = compare_results(seen, nudged, exact=True)
    return {one.tensor: one.max_abs for one in found if one.max_abs is not None}.get


def needs_rounding(expected: Mapping[str, Any], seen: Mapping[str, Any] | None) -> bool:
    """True if some numbers are so small that they agree only within the absolute tolerance."""
    if seen is None:
        return False
    strict = compare_results(expected, seen, rounding=lambda tensor: 0.0)
    return len(strict) > len(compare_results(expected, seen, rounding=lambda tensor: math.inf))


def same_value(expected: Mapping[str, Any], seen: Mapping[str, Any]) -> bool:
    """True if two values of results agree."""
    return not any(_values(_Place("", ""), expected, seen))


def run_name(run: Mapping[str, Any]) -> str:
    """The name of a call in messages: `forward[0]`."""
    return f"{run['method']}[{run['index']}]"


def _results(
    expected: Mapping[str, Any], seen: Mapping[str, Any], exact: bool, rounding: Rounding | None
) -> Iterator[Difference]:
    wanted = {run_name(run): run for run in expected["runs"]}
    found = {run_name(run): run for run in seen["runs"]}
    if list(wanted) != list(found):
        yield Difference("", "", "runs", _listed(wanted), _listed(found))
    for name, run in wanted.items():
        if name in found:
            yield from _runs(_Place(name, "output", exact, rounding), run, found[name])


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "none"


def _runs(at: _Place, expected: Mapping[str, Any], seen: Mapping[str, Any]) -> Iterator[Difference]:
    codes = [run["error"]["code"] if run["error"] else "none" for run in (expected, seen)]
    if codes[0] != codes[1]:
        yield Difference(at.run, "", "error", codes[0], codes[1])
    elif codes[0] == "none":
        yield from _values(at, expected["output"], seen["output"])


@dataclass(frozen=True)
class _Place:
    run: str
    path: str
    exact: bool = False
    rounding: Rounding | None = None

    def inner(self, index: object) -> _Place:
        return replace(self, path=f"{self.path}[{index}]")

    @property
    def tensor(self) -> str:
        return f"{self.run} {self.path}"

    @property
    def known(self) -> float | None:
        """The rounding error of the tensor here."""
        return None if self.rounding is None else self.rounding(self.tensor)

    def tolerance(self, usual: Tolerance) -> Tolerance:
        return EXACT if self.exact else usual

    def differs(self, kind: str, expected: object, seen: object) -> Difference:
        return Difference(self.run, self.path, kind, str(expected), str(seen))


def _values(
    at: _Place, expected: Mapping[str, Any], seen: Mapping[str, Any]
) -> Iterator[Difference]:
    (kind, *_), (other, *_) = expected, seen
    if kind == UNSTEADY:
        if expected[kind] not in ("any", other):
            yield at.differs("kind", expected[kind], other)
        return
    if kind != other:
        yield at.differs("kind", kind, other)
        return
    left, right = expected[kind], seen[kind]
    if kind == "tensor":
        yield from _tensors(at, left, right)
    elif kind in ("list", "tuple"):
        yield from _items(at, left, right)
    elif kind == "dict":
        yield from _entries(at, left, right)
    elif kind == "double":
        # JSON has no words for these: the model runner writes "nan", "inf" and "-inf".
        if not at.tolerance(_DOUBLE).holds(float(left), float(right)):
            yield at.differs("value", left, right)
    elif left != right:
        yield at.differs("value", left, right)


def _items(at: _Place, expected: Sequence[Any], seen: Sequence[Any]) -> Iterator[Difference]:
    if len(expected) != len(seen):
        yield at.differs("length", len(expected), len(seen))
        return
    for index, (left, right) in enumerate(zip(expected, seen, strict=True)):
        yield from _values(at.inner(index), left, right)


def _entries(at: _Place, expected: Sequence[Any], seen: Sequence[Any]) -> Iterator[Difference]:
    """Dicts keep the order of insertion, which is part of what a model returns."""
    if len(expected) != len(seen):
        yield at.differs("length", len(expected), len(seen))
        return
    for (left_key, left), (right_key, right) in zip(expected, seen, strict=True):
        if list(_values(at, left_key, right_key)):
            yield at.differs("key", key_text(left_key), key_text(right_key))
        else:
            yield from _values(at.inner(key_text(left_key)), left, right)


def key_text(value: Mapping[str, Any]) -> str:
    """A dict's key in a place: `\"boxes\"`."""
    content = next(iter(value.values()))
    return f'"{content}"' if "string" in value else str(content)


def _tensors(
    at: _Place, expected: Mapping[str, Any], seen: Mapping[str, Any]
) -> Iterator[Difference]:
    for name in ("dtype", "shape"):
        if expected[name] != seen[name]:
            yield at.differs(name, expected[name], seen[name])
            return
    if UNSTEADY in expected:
        return
    yield from _scales(at, expected, seen)
    left, right = (base64.b64decode(tensor["data"], validate=True) for tensor in (expected, seen))
    if left != right:
        for one in _elements(at, expected["dtype"], expected["shape"], left, right):
            yield replace(one, scale=_scale_of(expected))


def _scales(
    at: _Place, expected: Mapping[str, Any], seen: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield the differences in scale and zero point of quantised tensors: per tensor, or per
    channel."""
    for name in ("scale", "zero_point", "axis", "scales", "zero_points"):
        left, right = expected.get(name), seen.get(name)
        if left is None or right is None:
            same = left is right
        elif name == "scale":
            same = at.tolerance(_DOUBLE).holds(float(left), float(right))
        elif name in ("scales", "zero_points"):
            same = not list(_values(at, left, right))
        else:
            same = left == right
        if not same:
            yield at.differs("scale", f"{name} {left}", f"{name} {right}")


def _scale_of(tensor: Mapping[str, Any]) -> str:
    """A step of a quantised tensor's numbers, in words; empty for other tensors."""
    if not tensor["dtype"].startswith("q"):
        return ""
    return str(tensor["scale"]) if "scale" in tensor else "its channel's scale"


def _elements(
    at: _Place, dtype: str, shape: Sequence[int], expected: bytes, seen: bytes
) -> Iterator[Difference]:
    if dtype not in _DTYPES:
        # Packed or unknown elements: no tolerance is known, so none is allowed.
        yield at.differs("value", f"{len(expected)} bytes of {dtype}", "other bytes")
        return
    left, right = numbers_of(dtype, expected), numbers_of(dtype, seen)
    if len(left) != len(right):
        raise ValueError(f"a tensor of shape {list(shape)} has {len(right)} numbers")
    _, width, usual = _DTYPES[dtype]
    largest = max((abs(a) for a in left if math.isfinite(a)), default=0.0)
    known = at.known
    if known is None:
        usual = usual.for_numbers_up_to(largest)
    elif usual.rtol:
        usual = usual.for_rounding(largest, known)
    tolerance = at.tolerance(usual)
    wrong = [
        i for i, (a, b) in enumerate(zip(left, right, strict=True)) if not tolerance.holds(a, b)
    ]
    if wrong:
        wrong = [i for i in wrong if not tolerance.holds(left[i], right[i], largest)]
    if not wrong:
        return
    worst = max(wrong, key=lambda i: (_distance(left[i], right[i]), -i))
    pairs = [
        (a, b) for a, b in zip(left, right, strict=True) if math.isfinite(a) and math.isfinite(b)
    ]
    place = at.inner(_index(worst // width, shape))
    yield Difference(
        at.run,
        place.path,
        "value",
        repr(left[worst]),
        repr(right[worst]),
        max_abs=max((abs(a - b) for a, b in pairs), default=math.inf),
        tensor=at.tensor,
    )


def _distance(expected: float, seen: float) -> float:
    distance = abs(expected - seen)
    return math.inf if math.isnan(distance) else distance


def _index(flat: int, shape: Sequence[int]) -> str:
    """The index of an element in row-major order: `0, 3, 17`."""
    parts: list[str] = []
    for size in reversed(shape):
        flat, part = divmod(flat, size)
        parts.append(str(part))
    return ", ".join(reversed(parts))


def numbers_of(dtype: str, data: bytes) -> Sequence[float]:
    """A tensor's numbers, of complex ones both parts; of quantised ones the steps."""
    code, _, _ = _DTYPES[dtype]
    numbers = struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)
    if dtype != "bfloat16":
        return numbers
    # bfloat16 is the upper half of a float32.
    shifted = struct.pack(f"<{len(numbers)}I", *(number << 16 for number in numbers))
    return struct.unpack(f"<{len(numbers)}f", shifted)
