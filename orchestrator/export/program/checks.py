"""Assumptions of a program about its inputs, as checks at the beginning of a method.

The exporter fixes the conditions on sizes that the module's source asked for, and leaves the rest
open, within ranges. A call outside of them stops with a text that names the argument and the size;
it computes nothing wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import Max

from orchestrator.export.graphs import Value
from orchestrator.export.places import is_torchs
from orchestrator.export.program.emission import Writer
from orchestrator.export.refusal import Refused
from orchestrator.export.running import DTYPES
from orchestrator.export.values import DTYPE_NAMES

_INT, _BOOL = torch._C.IntType.get(), torch._C.BoolType.get()
# Where torch itself asks of sizes while it computes those of results: its operators ask again when
# they run. What else asks is a module's way.
_OPERATORS = tuple(
    str(Path(torch.__file__).parent / part)
    for part in (
        *("_prims", "_refs", "_subclasses", "_meta_registrations.py", "_decomp", "fx", "_ops.py"),
        *("_inductor", "_higher_order_ops", "_export", "export", "_functorch", "_dispatch"),
        *("_tensor.py", "_library", "_dynamo", "utils/_"),
    )
)
# The exporter takes no size below for granted that it can be: 0 and 1 count as 2 there.
_LEAST = 2


@dataclass(frozen=True)
class Input:
    """A leaf of the arguments: its name, what the program knows of it, and its value's own."""

    name: str
    known: Any


@dataclass(frozen=True)
class Fixed:
    """A size that a model takes alone. `why` is the line that asked, or empty."""

    argument: str
    dimension: int
    size: int
    why: str = ""


@dataclass(frozen=True)
class Least:
    """Small sizes with which a program is right: none below `floor`; those below `size` where the
    sizes of the symbols `beside` are the same, as those of a batch are."""

    size: int
    beside: tuple[str, ...] = ()
    floor: int = 0


@dataclass
class Asked:
    """Conditions on the inputs of a program.

    guards   conditions that the module's source asked for, with their places
    ranges   symbol -> least and largest, None if there is no limit
    least    symbol -> the small sizes that give right results, if those are known
    """

    inputs: Sequence[Input]
    guards: Sequence[tuple[Any, str]]
    ranges: Mapping[Any, tuple[int, int | None]]
    least: Mapping[str, Least] = field(default_factory=dict)

    def fixed(self, specialised: Mapping[tuple[str, int], str]) -> list[Fixed]:
        """Sizes that are numbers; specialised: (argument, dimension) -> where that was asked."""
        return [
            Fixed(one.name, dim, size, specialised.get((one.name, dim), ""))
            for one in self.inputs
            if isinstance(one.known, torch.Tensor)
            for dim, size in enumerate(one.known.shape)
            if isinstance(size, int)
        ]


def asked_of(
    program: Any, names: Sequence[str], least: Mapping[str, Least], operators: bool = False
) -> Asked:
    """Return the conditions of a program of torch.export; names: of its user inputs.

    operators  True if conditions of torch's operators count
    """
    kept = user_values(program)
    inputs = [Input(name, known) for name, known in zip(names, kept, strict=True)]
    ranges = {symbol: _range(its) for symbol, its in program.range_constraints.items()}
    return Asked(inputs, list(_guards(kept, operators)), ranges, least)


def user_values(program: Any) -> list[Any]:
    """Return for each leaf of an exported program's arguments the value that the program knows of
    it."""
    held = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    specs = program.graph_signature.input_specs
    return [held[spec.arg.name] for spec in specs if spec.kind.name == "USER_INPUT"]


def _range(its: Any) -> tuple[int, int | None]:
    def number(bound: Any) -> int | None:
        try:
            return int(bound)
        except (TypeError, ValueError, OverflowError, AttributeError):
            return None

    low, high = number(its.lower), number(its.upper)
    return low or 0, high if high is None or high < 2**62 else None


def environment(values: Sequence[Any]) -> Any:
    """The environment that symbols of these values are of; None where there is no symbol."""
    for value in values:
        sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
        for size in sizes:
            if isinstance(size, torch.SymInt):
                return size.node.shape_env
    return None


def _guards(values: Sequence[Any], operators: bool) -> Any:
    """Conditions of the module's own, simplified, with the line that asked."""
    env = environment(values)
    for guard in () if env is None else env.guards:
        place: Any = getattr(guard.sloc, "framework_loc", None)
        file = getattr(place, "filename", "")
        if not operators and (file.startswith(_OPERATORS) or _of_strides(guard.expr)):
            continue
        condition = env.simplify(guard.expr)
        if condition not in (True, sympy.true):
            yield condition, "" if is_torchs(file) else f"{Path(file).name}:{place.lineno}"


def _of_strides(condition: Any) -> bool:
    """True if a condition asks about a tensor's strides: only strides count a size of 0 as 1.
    Kernels check that again."""
    return any(sympy.Integer(1) in one.args for one in condition.atoms(Max))


def emit_checks(writer: Writer, asked: Asked, values: Sequence[Any]) -> None:
    """Ask all of that of the values. Raises Refused where a condition cannot be written."""
    _Checks(writer, asked, values).all()


class _Checks:
    def __init__(self, writer: Writer, asked: Asked, values: Sequence[Any]) -> None:
        self.writer, self.asked, self.values = writer, asked, values
        # symbol -> its value, and how people call it
        self.symbols: dict[Any, tuple[Value, str]] = {}

    def all(self) -> None:
        later = []
        for one, value in zip(self.asked.inputs, self.values, strict=True):
            if isinstance(one.known, torch.Tensor):
                later += self._tensor(one, value)
            elif isinstance(one.known, torch.SymInt):
                later += self._size(one.known, value, one.name)
            elif one.known is not None:
                self._constant(one, value)
        for expression, value, name in later:
            told, its = self._told(expression), self._expression(expression)
            self._equal(value, its, f"{name} must be {told}")
        for symbol, (value, name) in self.symbols.items():
            self._within(symbol, value, name)
        for condition, place in self.asked.guards:
            self._guard(condition, place)

    def _tensor(self, one: Input, value: Value) -> list[Any]:
        known, name = one.known, one.name
        dtype = self.writer.node("prim::dtype", [value], [_INT]).output()
        number = DTYPES.index(known.dtype) if known.dtype in DTYPES else -1
        wanted = DTYPE_NAMES.get(known.dtype, str(known.dtype))
        self._equal(dtype, number, f"{name} must be {wanted}")
        rank = self.writer.one("aten::dim", [value], _INT)
        self._equal(rank, known.dim(), f"{name} must have {known.dim()} dimensions")
        later = []
        for dim, size in enumerate(known.shape):
            its = self.writer.one("aten::size", [value, dim], _INT)
            later += self._size(size, its, f"size {dim} of {name}")
        return later

    def _size(self, size: Any, value: Value, name: str) -> list[Any]:
        if not isinstance(size, torch.SymInt):
            self._equal(value, size, f"{name} must be {size}")
            return []
        expression = size.node.expr
        if not isinstance(expression, sympy.Symbol):
            return [(expression, value, name)]
        if expression not in self.symbols:
            self.symbols[expression] = (value, name)
            return []
        first, other = self.symbols[expression]
        self._equal(value, first, f"{name} must be {other}")
        return []

    def _constant(self, one: Input, value: Value) -> None:
        text = f"{one.name} must be {one.known!r}"
        if isinstance(one.known, bool):
            same = self.writer.one("aten::eq", [value, one.known], _BOOL)
            self.writer.require(same, text)
        elif isinstance(one.known, int | float | str):
            self._equal(value, one.known, text)

    def _equal(self, left: Any, right: Any, text: str) -> None:
        self.writer.require(self.writer.one("aten::eq", [left, right], _BOOL), text)

    def _within(self, symbol: Any, value: Value, name: str) -> None:
        low, high = self.asked.ranges.get(symbol, (0, None))
        least = self.asked.least.get(str(symbol), Least(0))
        floor = max(least.floor if least.beside else least.size, low if low > _LEAST else 0)
        if floor > 0:
            holds = self.writer.one("aten::ge", [value, floor], _BOOL)
            self.writer.require(holds, f"{name} must be at least {floor}")
        if least.size > floor:
            others = [its for one, its in self.symbols.items() if str(one) in least.beside]
            same = [self.writer.one("aten::eq", [value, other], _BOOL) for other, _ in others]
            enough = self.writer.one("aten::ge", [value, least.size], _BOOL)
            holds = self.writer.one("aten::__or__", [enough, self._every(same)], _BOOL)
            told = " and ".join(other for _, other in others)
            self.writer.require(holds, f"{name} must be at least {least.size}, or as {told}")
        if high is not None:
            holds = self.writer.one("aten::le", [value, high], _BOOL)
            self.writer.require(holds, f"{name} must be at most {high}")

    def _every(self, conditions: Sequence[Value]) -> Value:
        made = conditions[0]
        for one in conditions[1:]:
            made = self.writer.one("aten::__and__", [made, one], _BOOL)
        return made

    def _guard(self, condition: Any, place: str) -> None:
        try:
            holds = self._expression(condition)
        except Refused:
            # what cannot be asked is not left open
            for symbol in sorted(condition.free_symbols, key=str):
                self._as_in_example(symbol)
            return
        line = f" ({place})" if place else ""
        self.writer.require(
            holds, f"the module takes another way unless {self._told(condition)}{line}"
        )

    def _as_in_example(self, symbol: Any) -> None:
        env = environment([one.known for one in self.asked.inputs])
        value, name = self._symbol(symbol)
        size = int(env.backed_var_to_val[symbol])
        self._equal(value, size, f"{name} must be {size}")

    def _symbol(self, symbol: Any) -> tuple[Value, str]:
        if symbol not in self.symbols:
            raise Refused("program", f"a size {symbol} that no argument has")
        return self.symbols[symbol]

    def _told(self, expression: Any) -> str:
        text = str(expression)
        for symbol in sorted(expression.free_symbols, key=lambda one: -len(str(one))):
            if symbol in self.symbols:
                text = text.replace(str(symbol), f"({self.symbols[symbol][1]})")
        return text

    def _expression(self, expression: Any) -> Any:
        """A value of an expression of sympy's."""
        if isinstance(expression, sympy.Symbol):
            return self._symbol(expression)[0]
        if isinstance(expression, sympy.Integer):
            return int(expression)
        kind = type(expression).__name__
        given = [self._expression(one) for one in expression.args]
        if kind in _COMPARISONS:
            return self.writer.one(_COMPARISONS[kind], given, _BOOL)
        if kind == "Not":
            return self.writer.one("aten::__not__", given, _BOOL)
        if kind == "Pow" and type(given[1]) is int and 1 <= given[1] <= 8:
            kind, given = "Mul", [given[0]] * given[1]
        if kind not in _FUNCTIONS:
            raise Refused("program", f"a condition with {kind}")
        name, its = _FUNCTIONS[kind]
        made = given[0]
        for one in given[1:]:
            made = self.writer.one(name, [made, one], its)
        return made


_COMPARISONS = {
    "Equality": "aten::eq",
    "Unequality": "aten::ne",
    "StrictLessThan": "aten::lt",
    "LessThan": "aten::le",
    "StrictGreaterThan": "aten::gt",
    "GreaterThan": "aten::ge",
}
_FUNCTIONS = {
    "Add": ("aten::add", _INT),
    "Mul": ("aten::mul", _INT),
    "Mod": ("aten::remainder", _INT),
    "PythonMod": ("aten::remainder", _INT),
    "FloorDiv": ("aten::floordiv", _INT),
    "CleanDiv": ("aten::floordiv", _INT),
    "Max": ("prim::max", _INT),
    "Min": ("prim::min", _INT),
    "And": ("aten::__and__", _BOOL),
    "Or": ("aten::__or__", _BOOL),
}
