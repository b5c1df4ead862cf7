"""PyTorch's pickles, read as data: nothing is imported, called or built.

Contract: `read_pickle(data, ...)` turns a pickle into inert `Value`s and the class names that it
mentions, or raises `UnsafePickleError` or `DamagedModelError`. Time and memory are bounded by
`MAX_STEPS`; nothing here recurses, so a deep nesting costs no stack.

This is an interpreter of the opcodes that PyTorch's own reader knows
(`torch/csrc/jit/serialization/unpickler.cpp`, `readInstruction`), not a restricted
`pickle.Unpickler`: that one would still accept opcodes which PyTorch refuses, allocate a memo table
as long as a hostile index says, and hash attacker-made keys. What is refused here is what the
runtime refuses as well, so a file that reads here also reads there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import DamagedModelError
from orchestrator.models.inert import Call, Global, Pairs, Value

# A large scripted detector takes about 200,000 opcodes.
MAX_STEPS = 2_000_000


class UnsafePickleError(OrchestratorError):
    """A pickle in the model asks for an object or an opcode that no model needs."""


_STORAGE: Final = Global("torch", "storage")


@dataclass(frozen=True)
class Pickle:
    """A pickle's value, and every model or custom class that it names (`__torch__....`), sorted."""

    value: Value
    classes: tuple[str, ...]


def read_pickle(data: bytes, record: str, place: Place) -> Pickle:
    """The value of one pickle; `record` is its path in the archive, for messages."""
    machine = _Machine(data, record, place)
    try:
        value = machine.run()
    except (IndexError, KeyError, struct.error) as error:
        raise machine.damaged("it ends early or refers to what is not there") from error
    return Pickle(value, tuple(sorted(machine.classes)))


class _Machine:
    """A stack machine over one pickle. IndexError, KeyError and struct.error mean damage."""

    def __init__(self, data: bytes, record: str, place: Place) -> None:
        self._data = data
        self._at = 0
        self._record = record
        self._place = place
        self._stack: list[Value] = []
        self._marks: list[int] = []
        self._memo: dict[int, Value] = {}
        self.classes: set[str] = set()

    def run(self) -> Value:
        if self._take(2) != b"\x80\x02":
            raise self.damaged("it does not begin as a pickle of protocol 2")
        for _ in range(MAX_STEPS):
            opcode = self._data[self._at]
            self._at += 1
            if opcode == _STOP:
                return self._only_value()
            handler = _HANDLERS.get(opcode)
            if handler is None:
                raise self._unsafe(f"the pickle opcode 0x{opcode:02x}")
            handler(self)
        raise self._unsafe(f"a pickle of more than {MAX_STEPS} steps")

    def damaged(self, why: str) -> DamagedModelError:
        return DamagedModelError(
            "this model is truncated or damaged",
            place=self._place,
            expected=f"a readable {self._record}",
            seen=why,
            hint="copy the file again, or export it again",
        )

    def _unsafe(self, seen: str) -> UnsafePickleError:
        return UnsafePickleError(
            "this model asks for something that no model needs",
            place=self._place,
            expected=f"only tensors, lists and the model's own classes in {self._record}",
            seen=seen,
            hint="do not load this file anywhere; get the model from its author again",
        )

    def _only_value(self) -> Value:
        if len(self._stack) != 1:
            raise self.damaged(f"it leaves {len(self._stack)} values in place of one")
        return self._stack[0]

    def _take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) != count:
            raise IndexError("past the end")
        self._at += count
        return piece

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise IndexError("past the end")
        line = self._data[self._at : end]
        self._at = end + 1
        return line.decode("utf-8", "backslashreplace")

    def _number(self, layout: struct.Struct) -> int:
        value = layout.unpack(self._take(layout.size))[0]
        return int(value)

    def _since_mark(self) -> list[Value]:
        start = self._marks.pop()
        values = self._stack[start:]
        del self._stack[start:]
        return values

    def push(self, value: Value) -> None:
        self._stack.append(value)

    def push_number(self, layout: struct.Struct) -> None:
        self._stack.append(self._number(layout))

    def push_long(self) -> None:
        if self._number(_U1) != 8:
            raise self.damaged("an integer that is not 8 bytes long")
        self._stack.append(self._number(_I8))

    def push_float(self) -> None:
        self._stack.append(float(_F8.unpack(self._take(8))[0]))

    def push_text(self) -> None:
        # A string is bytes to PyTorch; what is not UTF-8 must still come through.
        text = self._take(self._number(_U4)).decode("utf-8", "surrogateescape")
        self._stack.append(text)

    def push_global(self) -> None:
        found = Global(self._line(), self._line())
        if not found.is_known:
            raise self._unsafe(f"the Python object {found.qualified[:120]!r}")
        if found.is_model_class:
            self.classes.add(found.qualified)
        self._stack.append(found)

    def put(self, layout: struct.Struct) -> None:
        self._memo[self._number(layout)] = self._stack[-1]

    def get(self, layout: struct.Struct) -> None:
        self._stack.append(self._memo[self._number(layout)])

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def tuple_of(self, count: int) -> None:
        if count > len(self._stack):
            raise IndexError("stack underflow")
        values = tuple(self._stack[-count:])
        del self._stack[-count:]
        self._stack.append(values)

    def tuple_since_mark(self) -> None:
        self._stack.append(tuple(self._since_mark()))

    def list_since_mark(self) -> None:
        self._stack.append(self._since_mark())

    def append_since_mark(self) -> None:
        values = self._since_mark()
        target = self._stack[-1]
        if not isinstance(target, list):
            raise self.damaged("an append to what is not a list")
        target.extend(values)

    def dict_since_mark(self) -> None:
        self._stack.append(Pairs(self._paired(self._since_mark())))

    def set_since_mark(self) -> None:
        values = self._since_mark()
        target = self._stack[-1]
        if not isinstance(target, Pairs):
            raise self.damaged("an item set in what is not a dictionary")
        target.entries.extend(self._paired(values))

    def _paired(self, values: list[Value]) -> list[tuple[Value, Value]]:
        if len(values) % 2:
            raise self.damaged("a dictionary with a key and no value")
        return list(zip(values[::2], values[1::2], strict=True))

    def new_object(self) -> None:
        # The attributes come with BUILD; the empty argument tuple means nothing.
        self._stack.pop()

    def call(self) -> None:
        argument, function = self._stack.pop(), self._stack.pop()
        if not isinstance(function, Global):
            raise self._unsafe("a call of what is not a named class")
        if function.types_a_list:
            # The element type is all that the call would add.
            if not isinstance(argument, tuple):
                raise self.damaged(f"{function.name} without its arguments")
            self._stack.append(argument[0])
        else:
            self._stack.append(Call(function, argument))

    def persistent(self) -> None:
        self._stack.append(Call(_STORAGE, self._stack.pop()))


_U1, _U2, _U4 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I")
_I4, _I8, _F8 = struct.Struct("<i"), struct.Struct("<q"), struct.Struct(">d")
_STOP: Final = ord(".")
# The cases of Unpickler::readInstruction.
_HANDLERS: Final[dict[int, Callable[[_Machine], None]]] = {
    ord("]"): lambda m: m.push([]),
    ord(")"): lambda m: m.push(()),
    ord("}"): lambda m: m.push(Pairs([])),
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    ord("K"): lambda m: m.push_number(_U1),
    ord("M"): lambda m: m.push_number(_U2),
    ord("J"): lambda m: m.push_number(_I4),
    0x8A: _Machine.push_long,
    ord("G"): _Machine.push_float,
    ord("X"): _Machine.push_text,
    ord("c"): _Machine.push_global,
    ord("q"): lambda m: m.put(_U1),
    ord("r"): lambda m: m.put(_U4),
    ord("h"): lambda m: m.get(_U1),
    ord("j"): lambda m: m.get(_U4),
    ord("("): _Machine.mark,
    ord("t"): _Machine.tuple_since_mark,
    0x85: lambda m: m.tuple_of(1),
    0x86: lambda m: m.tuple_of(2),
    0x87: lambda m: m.tuple_of(3),
    ord("l"): _Machine.list_since_mark,
    ord("e"): _Machine.append_since_mark,
    ord("d"): _Machine.dict_since_mark,
    ord("u"): _Machine.set_since_mark,
    0x81: _Machine.new_object,
    ord("b"): _Machine.call,
    ord("R"): _Machine.call,
    ord("Q"): _Machine.persistent,
}
