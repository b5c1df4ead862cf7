"""Branches of a model's bytecode that go one way in every run, whatever its inputs.

Contract: pure. `settled_branches` takes what the file holds as inert values, and returns for each
function the branches that are proven. What is not proven is missing: a branch that is missing may
be settled, one that is there is.

A forward data flow over each function, in which a value is known (a constant, an attribute that
nothing sets, what follows from both) or is not. Attributes are those of the objects in the file.
Two things set them: `SET_ATTR`, of which the flow knows the object or takes it to be any, and
operators that are not PyTorch's, which get an object only where `_escapes` says so. The C API sets
none: it takes tensors, numbers, texts and containers of them, and no object
(native/capi/libtorch_app.h). What an app sets through PyTorch's C++ API, such as `training` by
`train()`, is not followed: docs/guide/trace.md. Setting counts where it can run; so the flow starts
with no attribute set, and is made again with those that it found, until it finds no others.

`native/kernels/rewrite.cpp` asks the same of a loaded model, by fewer operators: decision 0087.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.models.inert import Call, Global, Pairs, Value

# Instructions that the flow takes and values that it copies, in all rounds: a few seconds.
MOST_STEPS: Final = 5_000_000
# Objects of one class for which its methods are followed one by one.
_MOST_OBJECTS: Final = 32
# Characters of a text; of longer ones nothing is asked, since that costs time by their length.
_LONGEST_TEXT: Final = 10_000
_SETSTATE: Final = "__setstate__"
_CUSTOM: Final = "__torch__.torch.classes."
_INT64: Final = range(-(2**63), 2**63)

# A value that may be any, in place of an inert value.
_ANY: Final = Global("", "any value")


class _Unknown(Exception):
    """The flow ends without a result: too long, or not as the exporter writes it."""


def settled_branches(code: Sequence[Value], data: Value) -> Mapping[str, Mapping[int, bool]]:
    """Function -> branch (the number of its instruction) -> whether its condition holds.

    code, data: the functions of `bytecode.pkl`, and the value of `data.pkl`
    """
    try:
        functions = {one.name: one for row in code if (one := _function(row)) is not None}
        flow = _Flow(functions, _Objects(data, frozenset(functions)))
        while flow.round():
            pass
    except _Unknown:
        return {}
    found = {}
    for name, ways in flow.ways.items():
        settled = {at: next(iter(one)) for at, one in sorted(ways.items()) if len(one) == 1}
        if settled:
            found[name] = settled
    return found


@dataclass(frozen=True)
class _Function:
    """operators: names with how many arguments each takes, -1 where the file does not say."""

    name: str
    rows: tuple[tuple[str, int, int], ...]
    operators: tuple[tuple[str, int], ...]
    constants: tuple[Value, ...]
    types: tuple[str, ...]

    @property
    def owner(self) -> str:
        """The class whose method it is."""
        return self.name.rpartition(".")[0]


def _function(row: Value) -> _Function | None:
    """A function of the record, which `read_model` has checked."""
    match row:
        case (
            str(name),
            (
                ("instructions", tuple(rows)),
                ("operators", tuple(named)),
                ("constants", tuple(constants)),
                ("types", tuple(types)),
                *_,
            ),
            *_,
        ):
            return _Function(
                name,
                tuple(_instruction(row) for row in rows),
                tuple(_operator(row) for row in named),
                constants,
                tuple(map(str, types)),
            )
    return None


def _instruction(row: Value) -> tuple[str, int, int]:
    match row:
        case (str(name), int(x), int(n)):
            return name, x, n
    raise _Unknown


def _operator(row: Value) -> tuple[str, int]:
    match row:
        case (str(name), str(overload), *count):
            known = count[0] if count and isinstance(count[0], int) else -1
            return f"{name}.{overload}" if overload else name, known
    return "", -1


class _Objects:
    """The objects of a file, and what of them is set.

    any_set   slots that an unknown object is given
    escaped   whether code that is not the model's may set any attribute
    """

    def __init__(self, data: Value, functions: frozenset[str]) -> None:
        self._slots: dict[int, tuple[Value, ...]] = {}
        self.of_class: dict[str, list[Call]] = {}
        self._set: set[tuple[int, int]] = set()
        self._any_set: set[int] = set()
        self.escaped = False
        for one in _calls(data):
            name = one.function.qualified
            if not self.is_object(one):
                continue
            self.of_class.setdefault(name, []).append(one)
            # one with a method that reads its state has the attributes that this sets
            if f"{name}.{_SETSTATE}" not in functions and isinstance(one.argument, Pairs):
                keys = [key for key, _ in one.argument.entries]
                names = {key for key in keys if isinstance(key, str)}
                # the runtime keeps one of two with the same name
                if len(names) == len(keys):
                    self._slots[id(one)] = tuple(value for _, value in one.argument.entries)

    def is_object(self, value: Value) -> bool:
        """True for an object of a class of the model, whose attributes are those of its file."""
        return (
            isinstance(value, Call)
            and value.function.is_model_class
            and not value.function.qualified.startswith(_CUSTOM)
        )

    def attribute(self, value: Value, slot: int) -> Value:
        """The value of an attribute in every run; any value where it may be set."""
        slots = self._slots.get(id(value), ())
        if slot >= len(slots) or self.escaped or slot in self._any_set:
            return _ANY
        return _ANY if (id(value), slot) in self._set else slots[slot]

    def set(self, value: Value, slot: int) -> None:
        """An attribute may be set; of an object that is not known, of every one."""
        if self.is_object(value):
            self._set.add((id(value), slot))
        else:
            self._any_set.add(slot)

    @property
    def extent(self) -> tuple[int, int, bool]:
        """Grows with what is set."""
        return len(self._set), len(self._any_set), self.escaped


def _calls(root: Value) -> Iterator[Call]:
    """Yield all calls in a value, each once."""
    seen, left = set[int](), [root]
    while left:
        value = left.pop()
        if not isinstance(value, Call | Pairs | list | tuple) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Call):
            yield value
            left.append(value.argument)
        elif isinstance(value, Pairs):
            for pair in value.entries:
                left += pair
        else:
            left += value


@dataclass
class _State:
    """The values that are known before an instruction.

    stack  the values on top; below them, where `open`, may be any others
    """

    stack: list[Value] = field(default_factory=list)
    registers: dict[int, Value] = field(default_factory=dict)
    open: bool = False

    @property
    def size(self) -> int:
        """The number of values that it has."""
        return len(self.stack) + len(self.registers)

    def copy(self) -> _State:
        return _State([*self.stack], dict(self.registers), self.open)

    def push(self, *values: Value) -> None:
        self.stack += values

    def pop(self) -> Value:
        if self.stack:
            return self.stack.pop()
        self.open = True
        return _ANY

    def take(self, count: int) -> list[Value]:
        """The values on top, the lowest first."""
        return [self.pop() for _ in range(count)][::-1]

    def forget_stack(self) -> None:
        self.stack, self.open = [], True

    def join(self, other: _State) -> bool:
        """Keep what is so in both; True if that is less than before."""
        before = (len(self.stack), self.open, self._known())
        common = min(len(self.stack), len(other.stack))
        self.open = self.open or other.open or len(self.stack) != len(other.stack)
        ours = self.stack[len(self.stack) - common :]
        theirs = other.stack[len(other.stack) - common :]
        self.stack = [a if _same(a, b) else _ANY for a, b in zip(ours, theirs, strict=True)]
        self.registers = {
            at: value
            for at, value in self.registers.items()
            if at in other.registers and _same(value, other.registers[at])
        }
        return before != (len(self.stack), self.open, self._known())

    def _known(self) -> int:
        return len(self.registers) + sum(value is not _ANY for value in self.stack)


def _same(one: Value, other: Value) -> bool:
    if one is other:
        return True
    if type(one) is not type(other) or not isinstance(one, bool | int | float | str):
        return False
    if isinstance(one, str) and len(one) > _LONGEST_TEXT:
        return False
    # 0.0 and -0.0 are equal, and not the same; a NaN is never equal
    return repr(one) == repr(other) if isinstance(one, float) else one == other


class _Flow:
    """The data flow through all functions.

    ways  function -> branch -> the ways that it can go
    """

    def __init__(self, functions: Mapping[str, _Function], objects: _Objects) -> None:
        self._functions = functions
        self._objects = objects
        self._steps = MOST_STEPS
        self.ways: dict[str, dict[int, set[bool]]] = {}

    def round(self) -> bool:
        """Follow every function; True if it found attributes that are set and were not known to
        be: then what it found before is not so."""
        before = self._objects.extent
        self.ways = {name: {} for name in self._functions}
        for function in self._functions.values():
            instances = self._objects.of_class.get(function.owner, [])
            one_by_one = 0 < len(instances) <= _MOST_OBJECTS
            for self_value in instances if one_by_one else [_ANY]:
                self._follow(function, self_value)
        return self._objects.extent != before

    def _follow(self, function: _Function, self_value: Value) -> None:
        rows, ways = function.rows, self.ways[function.name]
        if not rows:
            return
        # its first instruction stores what it is called with, and the first of that is `self`
        name, _, count = rows[0]
        taken = count if name == "STOREN" else 1 if name == "STORE" else 0
        start = _State(open=True)
        if taken:
            start = _State([self_value, *[_ANY] * (taken - 1)])
        states = {0: start}
        leaders = {at + x for at, (op, x, _) in enumerate(rows) if op in _JUMPS}
        leaders |= {at + 1 for at, (op, *_) in enumerate(rows) if op in _JUMPS}
        waiting = [0]
        while waiting:
            at = waiting.pop()
            state = states[at].copy()
            self._spend(state.size)
            while True:
                self._spend(_values_of(rows[at]))
                next_ones = self._after(function, at, state, ways)
                if not all(0 <= one < len(rows) for one in next_ones):
                    raise _Unknown
                if len(next_ones) == 1 and next_ones[0] not in leaders:
                    at = next_ones[0]
                    continue
                break
            for target in next_ones:
                self._spend(state.size)
                if target not in states:
                    states[target] = state.copy()
                    waiting.append(target)
                elif states[target].join(state):
                    waiting.append(target)

    def _spend(self, steps: int) -> None:
        self._steps -= 1 + steps
        if self._steps < 0:
            raise _Unknown

    def _after(
        self, function: _Function, at: int, state: _State, ways: dict[int, set[bool]]
    ) -> tuple[int, ...]:
        """Take one instruction; return those that may follow it."""
        name, x, _ = function.rows[at]
        match name:
            case "JF":
                held = state.pop()
                seen = (held,) if isinstance(held, bool) else (True, False)
                ways.setdefault(at, set()).update(seen)
                return tuple(at + 1 if way else at + x for way in seen)
            case "JMP":
                return (at + x,)
            case "LOOP":
                # the body finds a number there, what follows does not
                state.forget_stack()
                return (at + 1, at + x)
            case "RET" | "RAISE_EXCEPTION":
                return ()
        self._step(function, at, state)
        return (at + 1,)

    def _step(self, function: _Function, at: int, state: _State) -> None:
        name, x, n = function.rows[at]
        match name:
            case "LOAD":
                state.push(state.registers.get(x, _ANY))
            case "MOVE":
                state.push(state.registers.pop(x, _ANY))
            case "STORE" | "STOREN":
                count = n if name == "STOREN" else 1
                for number, value in enumerate(state.take(count), x):
                    state.registers.pop(number, None)
                    if value is not _ANY:
                        state.registers[number] = value
            case "DROP":
                state.pop()
            case "DROPR":
                state.registers.pop(x, None)
            case "LOADC":
                state.push(function.constants[x])
            case "GET_ATTR":
                state.push(self._objects.attribute(state.pop(), x))
            case "SET_ATTR":
                _, target = state.pop(), state.pop()
                self._objects.set(target, x)
            case "OP" | "OPN":
                self._call_operator(function, at, state)
            case "INTERFACE_CALL":
                self._call_method(function.constants[x], state.take(n), state)
            case "ISINSTANCE":
                state.push(_is_instance(state.pop(), function.types[x : x + n]))
            case "__IS__" | "__ISNOT__" | "__NOT__":
                operator = f"aten::{name.lower()}"
                count, evaluate = _EVALUATED[operator]
                state.push(_evaluated(evaluate, state.take(count)))
            case "LIST_CONSTRUCT" | "DICT_CONSTRUCT" | "NAMED_TUPLE_CONSTRUCT":
                self._escape(state.take(n))
                state.push(_ANY)
            case "TUPLE_CONSTRUCT" | "FORMAT":
                self._escape(state.take(x))
                state.push(_ANY)
            case "LIST_UNPACK":
                state.pop()
                state.push(*[_ANY] * x)
            case "WARN":
                state.take(2)
            case "UN_INITIALIZED":
                state.push(_ANY)
            case _ if name in _TAKES:
                state.take(_TAKES[name])
                state.push(_ANY)
            case _:
                # makes an object, or calls a function that the file does not name
                self._objects.escaped = True
                state.forget_stack()

    def _call_operator(self, function: _Function, at: int, state: _State) -> None:
        name, x, n = function.rows[at]
        operator, count = function.operators[x]
        if name == "OPN":
            count = n
        self._spend(max(count, 0))
        evaluated = _EVALUATED.get(operator)
        if evaluated is not None and evaluated[0] == count:
            state.push(_evaluated(evaluated[1], state.take(count)))
            return
        if count < 0:
            self._escape(state.stack)
            state.forget_stack()
            return
        self._escape(state.take(count))
        namespace, _, short = operator.partition("::")
        # the results of one that has several are stored
        stored = at + 1 < len(function.rows) and function.rows[at + 1][0] == "STOREN"
        if (
            stored
            or namespace not in ("aten", "quantized")
            or short.startswith("_")
            or short.partition(".")[0] in WITHOUT_RESULT
        ):
            state.forget_stack()
        else:
            state.push(_ANY)

    def _call_method(self, method: Value, taken: Sequence[Value], state: _State) -> None:
        target = taken[0] if taken else _ANY
        known = (
            isinstance(target, Call)
            and isinstance(method, str)
            and len(method) <= _LONGEST_TEXT
            and f"{target.function.qualified}.{method}" in self._functions
        )
        if not known:
            self._escape(taken[1:])
        state.push(_ANY)

    def _escape(self, values: Sequence[Value]) -> None:
        """An object in a container, or given to code that is not the model's, may be anywhere."""
        if any(map(self._objects.is_object, values)):
            self._objects.escaped = True


def _values_of(row: tuple[str, int, int]) -> int:
    """At least as many values as an instruction takes and gives, but for an operator's."""
    name, x, n = row
    return n + (x if name in ("TUPLE_CONSTRUCT", "FORMAT", "LIST_UNPACK") else 0)


_JUMPS: Final = frozenset({"JF", "JMP", "LOOP"})
# Instructions that take so many values and give one that is not known.
_TAKES: Final = {
    "TUPLE_SLICE": 1,
    "TUPLE_INDEX": 2,
    "DICT_INDEX": 2,
    "TO_LIST": 3,
    "NUM_TO_TENSOR": 1,
    "DEVICE": 1,
    "DTYPE": 1,
    "DIM": 1,
    "IS_CUDA": 1,
}
# Of `aten`, some overloads of these give nothing back; and of those whose name starts with `_`.
WITHOUT_RESULT: Final = frozenset(
    {
        *("Delete", "clear", "extend", "insert", "remove", "reverse", "sort", "update"),
        *("backward", "dist_backward", "lstm_mps_backward", "miopen_rnn_backward"),
        *("dequantize", "quantize_per_tensor", "split_copy", "split_with_sizes_copy"),
        *("unbind_copy", "unsafe_split", "unsafe_split_with_sizes"),
        *("manual_seed", "record_stream", "retain_grad", "save", "set_data", "set_grad_enabled"),
        *("sym_constrain_range", "sym_constrain_range_for_size", "warn"),
    }
)


def _evaluated(evaluate: Callable[..., Any], taken: Sequence[Value]) -> Value:
    """The value that an operator gives; any value where it is not known."""
    if any(value is _ANY for value in taken):
        return _ANY
    found: Value = evaluate(*taken)
    if isinstance(found, int):
        return found if found in _INT64 else _ANY
    return _ANY if isinstance(found, str) and len(found) > _LONGEST_TEXT else found


def _is_none(one: Value, other: Value) -> Value:
    # of two others it is not known whether they are one
    return one is other if one is None or other is None else _ANY


def _is_not_none(one: Value, other: Value) -> Value:
    return one is not other if one is None or other is None else _ANY


def _on(kind: type, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of values of one type, and of no other."""

    def of_kind(*values: Value) -> Value:
        return function(*values) if all(type(value) is kind for value in values) else _ANY

    return of_kind


def _on_bytes(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of texts as PyTorch has them, which are bytes."""

    def of_texts(*texts: Value) -> Value:
        if not all(isinstance(one, str) and len(one) <= _LONGEST_TEXT for one in texts):
            return _ANY
        found = function(*(str(one).encode("utf-8", "surrogateescape") for one in texts))
        return found.decode("utf-8", "surrogateescape") if isinstance(found, bytes) else found

    return of_texts


_COMPARED: Final[Mapping[str, Callable[..., Any]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_NUMBERS: Final[Mapping[str, type]] = {"int": int, "float": float, "bool": bool}
# Operator -> how many values it takes, and what it gives for known ones.
_EVALUATED: Final[Mapping[str, tuple[int, Callable[..., Any]]]] = {
    **{
        f"aten::{name}.{short}": (2, _on(kind, function))
        for name, function in _COMPARED.items()
        for short, kind in _NUMBERS.items()
    },
    **{f"aten::{name}.str": (2, _on_bytes(function)) for name, function in _COMPARED.items()},
    "aten::__is__": (2, _is_none),
    "aten::__isnot__": (2, _is_not_none),
    "aten::__not__": (1, _on(bool, lambda a: not a)),
    "aten::__and__.bool": (2, _on(bool, lambda a, b: a and b)),
    "aten::__or__.bool": (2, _on(bool, lambda a, b: a or b)),
    "aten::__xor__.bool": (2, _on(bool, lambda a, b: a != b)),
    "aten::Bool.int": (1, _on(int, lambda a: a != 0)),
    "aten::Bool.float": (1, _on(float, lambda a: a != 0)),
    "aten::add.int": (2, _on(int, lambda a, b: a + b)),
    "aten::sub.int": (2, _on(int, lambda a, b: a - b)),
    "aten::mul.int": (2, _on(int, lambda a, b: a * b)),
    "aten::add.str": (2, _on_bytes(lambda a, b: a + b)),
    "aten::len.str": (1, _on_bytes(len)),
    "prim::unchecked_cast": (1, lambda a: a),
}
_TYPES: Final[Mapping[str, type]] = {**_NUMBERS, "str": str, "NoneType": type(None)}


def _is_instance(value: Value, types: Sequence[str]) -> Value:
    """True if a value has one of the types, False if not; any value where either is not plain."""
    if not isinstance(value, bool | int | float | str | None) or not {*types} <= _TYPES.keys():
        return _ANY
    return any(type(value) is _TYPES[one] for one in types)
