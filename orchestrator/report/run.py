"""The report of `run`: a model's outputs, as text and as JSON. Pure."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.errors import visible
from orchestrator.report.table import human_bytes
from orchestrator.values.elements import FORMATS
from orchestrator.values.growth import Growth
from orchestrator.verify.verdict import VerifyResult

_MOST_VALUES: Final = 6
_MOST_ITEMS: Final = 4
_MOST_OPERATORS: Final = 12
_MOST_KERNELS: Final = 12
_DEEPEST: Final = 6
_LONGEST: Final = 80


@dataclass(frozen=True)
class MadeShard:
    """A shard that the model ran with.

    operators  that it registers; missing: that came up missing in it
    units      of PyTorch's; compiled: names of units, now; None where it came from the store
    """

    operators: int
    units: int
    bytes: int
    compiled: tuple[str, ...] | None
    missing: tuple[str, ...]
    made_seconds: float
    ran_seconds: float


@dataclass(frozen=True)
class MadeLibrary:
    """The library that a model was timed in. units: that it is made of; compiled: which of them
    now."""

    units: int
    compiled: tuple[str, ...]
    made_seconds: float


@dataclass(frozen=True)
class EstimatedLibrary:
    """Size of a library that was not built. of_app: the app's, by its traces; else one of the model
    alone."""

    abi: str
    bytes: int
    of_app: bool


@dataclass(frozen=True)
class RunReport:
    """One model's runs.

    result         the model runner's (native/driver/driver.h)
    timed          the library that its times are of; None where nobody asked for times
    growth         of its app's library; None for a model of no app, and for an app without traces
    library        estimated; None where nobody asked
    """

    model: str
    path: str
    pytorch: str
    roots: int
    base_units: int
    base_compiled: tuple[str, ...] | None
    shards: tuple[MadeShard, ...]
    result: Mapping[str, Any]
    verdict: VerifyResult | None
    growth: Growth | None
    timed: MadeLibrary | None = None
    library: EstimatedLibrary | None = None

    def text(self, table: bool = True) -> str:
        """For people; ends with a newline. table: with the operators that ran."""
        return "".join(f"{visible(line)}\n" for line in self._lines(table))

    def _lines(self, table: bool) -> Iterator[str]:
        yield f"{self.model}: PyTorch {self.pytorch}, {self.roots} operators named"
        yield f"  base: {self.base_units} units, {_origin(self.base_compiled)}"
        for shard in self.shards:
            yield (
                f"  shard: {shard.operators} operators, {shard.units} units,"
                f" {human_bytes(shard.bytes)}, {_origin(shard.compiled)}"
                f" in {shard.made_seconds:.1f} s"
            )
            if shard.missing:
                yield f"    missing when it ran: {', '.join(shard.missing)}"
        if self.timed is not None:
            yield (
                f"  timed in a library as delivered: {self.timed.units} units,"
                f" {_origin(self.timed.compiled)} in {self.timed.made_seconds:.1f} s"
            )
        for run in self.result["runs"]:
            yield f"  {run['method']}[{run['index']}]: {shown_value(run['output'])}"
            if run.get("microseconds") is not None:
                yield (
                    f"    {milliseconds(run['microseconds'])} a run,"
                    f" {milliseconds(run['microseconds_min'])} at least"
                )
        if table:
            yield from self._operators()
        if self.verdict is not None:
            yield f"  {compared(self.verdict)}"
        if self.library is not None:
            whose = "the app's library" if self.library.of_app else "a library of this model alone"
            size = human_bytes(self.library.bytes)
            yield f"  {whose} for {self.library.abi} would have about {size}"
        if self.growth is not None and self.growth != Growth():
            yield f"  not in the app's traces: {_grown(self.growth)}"

    def _operators(self) -> Iterator[str]:
        called = self.result.get("operators") or {}
        rows = sorted(called.items(), key=lambda row: (-row[1]["microseconds"], row[0]))
        yield f"  {len(rows)} operators ran"
        for name, seen in rows[:_MOST_OPERATORS]:
            calls = f"{seen['calls']} call{'' if seen['calls'] == 1 else 's'}"
            yield f"    {milliseconds(seen['microseconds']):>12}  {calls:>10}  {name}"
        if len(rows) > _MOST_OPERATORS:
            rest = sum(seen["microseconds"] for _, seen in rows[_MOST_OPERATORS:])
            yield f"    {milliseconds(rest):>12}  {'':>10}  {len(rows) - _MOST_OPERATORS} others"

    def to_value(self) -> dict[str, Any]:
        """As a JSON value."""
        return {
            "model": self.model,
            "path": self.path,
            "pytorch": self.pytorch,
            "named_operators": self.roots,
            "base": {"units": self.base_units, **_compiled(self.base_compiled)},
            "shards": [
                {
                    "operators": one.operators,
                    "units": one.units,
                    "bytes": one.bytes,
                    **_compiled(one.compiled),
                    "missing": list(one.missing),
                    "made_seconds": round(one.made_seconds, 3),
                    "ran_seconds": round(one.ran_seconds, 3),
                }
                for one in self.shards
            ],
            "timed": None
            if self.timed is None
            else {
                "units": self.timed.units,
                **_compiled(self.timed.compiled),
                "made_seconds": round(self.timed.made_seconds, 3),
            },
            "runs": list(self.result["runs"]),
            "operators": self.result.get("operators") or {},
            "as_recorded": None if self.verdict is None else self.verdict.status,
            "growth": None if self.growth is None else _growth_value(self.growth),
            "library": None
            if self.library is None
            else {
                "abi": self.library.abi,
                "estimated_bytes": self.library.bytes,
                "of_app": self.library.of_app,
            },
        }


def _origin(compiled: Sequence[str] | None) -> str:
    return "from the store" if compiled is None else f"{len(compiled)} compiled"


def _compiled(names: Sequence[str] | None) -> dict[str, Any]:
    if names is None:
        return {"compiled": None, "compiled_units": []}
    return {"compiled": len(names), "compiled_units": list(names)}


def _grown(growth: Growth) -> str:
    """`aten::gcd, copy_ for Half; with them its library grows by 6.4 kB at most`."""
    kernels = [f"{one.tag} for {dtype}" for one in growth.kernel_dtypes for dtype in one.dtypes]
    names = [*growth.operators, *kernels[:_MOST_KERNELS]]
    if len(kernels) > _MOST_KERNELS:
        names.append(f"{len(kernels) - _MOST_KERNELS} other dtypes of kernels")
    unpriced = [one.tag for one in growth.kernel_dtypes if one.bytes is None]
    left = f", without {', '.join(unpriced)}, of which the index does not tell" if unpriced else ""
    size = human_bytes(growth.bytes)
    return f"{', '.join(names)}; with them its library grows by {size} at most{left}"


def _growth_value(growth: Growth) -> dict[str, Any]:
    return {
        "operators": list(growth.operators),
        "kernel_dtypes": [
            {"kernel_tag": one.tag, "dtypes": list(one.dtypes), "bytes": one.bytes}
            for one in growth.kernel_dtypes
        ],
        "bytes": growth.bytes,
    }


def compared(verdict: VerifyResult) -> str:
    """Describe the result of comparing the outputs with the recorded ones."""
    if verdict.failures:
        return f"not as it was traced: {verdict.failures[0]}"
    return "as it was traced" + (" in part" if verdict.status == "ok in part" else "")


def milliseconds(microseconds: float) -> str:
    """`1.234 ms`."""
    return f"{microseconds / 1000:,.3f} ms"


def shown_value(value: Mapping[str, Any] | None, depth: int = 0) -> str:
    """A value of native/driver/values.h in one line: kind, dtype, shape, first elements."""
    if value is None:
        return "nothing"
    kind, held = next(iter(value.items()))
    if kind == "tensor":
        return _tensor(held)
    if kind in ("list", "tuple", "dict"):
        return _container(kind, held, depth)
    return "None" if kind == "none" else f"{kind} {str(held)[:_LONGEST]}"


def _container(kind: str, held: Sequence[Any], depth: int) -> str:
    if depth == _DEEPEST:
        return f"{kind} of {len(held)}"
    if kind == "dict":
        items = [
            f"{shown_value(key, depth + 1)}: {shown_value(one, depth + 1)}"
            for key, one in held[:_MOST_ITEMS]
        ]
    else:
        items = [shown_value(one, depth + 1) for one in held[:_MOST_ITEMS]]
    if len(held) > _MOST_ITEMS:
        items.append("...")
    return f"{kind} of {len(held)} ({'; '.join(items)})"


def _tensor(held: Mapping[str, Any]) -> str:
    dtype, shape = held["dtype"], held["shape"]
    head = f"tensor {dtype} {list(shape)}"
    form, numbers = FORMATS.get(dtype, ("", 0))
    if numbers != 1 or dtype == "bfloat16":  # Python has no such number
        return head
    size = struct.calcsize(form)
    # four characters of base64 are three bytes
    text = held["data"][: 4 * (-(-(_MOST_VALUES + 1) * size // 3))]
    data = base64.b64decode(text)
    count = min(len(data) // size, _MOST_VALUES)
    values = struct.unpack(f"<{count}{form}", data[: count * size])
    more = len(data) // size > count
    return f"{head}: {' '.join(map(_number, values))}{' ...' if more else ''}"


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
