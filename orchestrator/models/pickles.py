"""PyTorch's pickles, read as data: nothing is imported, called or built.

Contract: `read_pickle(data, ...)` turns a pickle into inert `Value`s and the class names that it
mentions, or raises `UnsafePickleError` or `DamagedModelError`. Time and memory are bounded by the
`Steps` that all pickles of a model share; nothing here recurses, so a deep nesting costs no stack.

This is an interpreter of the opcodes that PyTorch's own reader knows
(`torch/csrc/jit/serialization/unpickler.cpp`, `readInstruction`), not a restricted
`pickle.Unpickler`: that one would still accept opcodes which PyTorch refuses, allocate a memo table
as long as a hostile index says, and hash attacker-made keys. This refuses whatever the runtime
refuses, and whatever would harm it: memo indices that would make it allocate memory, values nested
so deep that freeing them overflows the stack, values that contain themselves, tensors outside of
their storage.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import DamagedModelError
from orchestrator.models.calls import called
from orchestrator.models.inert import (
    IN_ITSELF,
    STORAGE_SIZES,
    Call,
    Fault,
    Global,
    Pairs,
    Value,
    device_of,
    nesting_fault,
)
from orchestrator.models.tensors import STORAGE, TENSORS, Tensors

# A large scripted detector takes about 200,000 opcodes, a vocabulary four for each word.
MAX_STEPS = 1_000_000
# One for each class of a module.
MAX_CLASSES = 10_000
# Tensors, and their storages.
MAX_TENSORS = 20_000


# Names of lowered modules: torch/csrc/jit/backends/backend_detail.cpp, codegen_backend_module.
_LOWERED: Final = re.compile(
    r"torch\.jit\.(?:(?P<older>\w+)LoweredModule|LoweredModule\.(?P<newer>\w+)\..*)"
)


class UnsafePickleError(OrchestratorError):
    """A pickle in the model references an object or an opcode that no model needs."""


class LoweredModelError(OrchestratorError):
    """A part of the model was lowered to a delegate, such as Core ML."""


class UnknownDtypeError(OrchestratorError):
    """A model holds a tensor of a dtype that the runtimes' readers do not know."""


@dataclass
class Steps:
    """Number of opcodes that the pickles of one model may still take, all together."""

    left: int


@dataclass(frozen=True)
class Pickle:
    """A pickle's value, every model or custom class that it names (`__torch__....`), sorted, the
    most attributes that any of its objects has, and (class, version) where an object's state begins
    with a number or a text: what packs weights says so in which format they are.

    enums  the classes of enums that it holds a member of
    types  the type texts of its lists and dictionaries
    devices  those that it names
    """

    value: Value
    classes: tuple[str, ...]
    attributes: int
    versions: frozenset[tuple[str, str]]
    enums: frozenset[str]
    types: frozenset[str]
    devices: frozenset[str]


def read_pickle(
    data: bytes,
    record: str,
    place: Place,
    *,
    tensors: Tensors | None = None,
    steps: Steps | None = None,
) -> Pickle:
    """The value of one pickle; `record` is its path in the archive, for messages.

    tensors: what its tensors may refer to, nothing by default. steps: `MAX_STEPS` by default.
    """
    machine = _Machine(data, record, place, tensors or Tensors({}, ""))
    try:
        value = machine.run(steps or Steps(MAX_STEPS))
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise machine.damaged("it is truncated or refers to a missing value") from error
    except Fault as fault:
        raise machine.damaged(str(fault)) from fault
    classes = {known.qualified for known in machine.globals.values() if known.is_model_class}
    return Pickle(
        value,
        tuple(sorted(classes)),
        machine.attributes,
        frozenset(machine.versions),
        frozenset(machine.enums),
        frozenset(machine.types.values()),
        frozenset(machine.devices),
    )


class _Machine:
    """A stack machine over one pickle.

    IndexError, KeyError, struct.error and ValueError (no line's end) mean damage.
    """

    def __init__(self, data: bytes, record: str, place: Place, tensors: Tensors) -> None:
        self._data = data
        self._at = 0
        self._record = record
        self._place = place
        self._tensors = tensors
        self._stack: list[Value] = []
        self._marks: list[int] = []
        self._memo: dict[int, Value] = {}
        self.globals: dict[bytes, Global] = {}
        self.types: dict[int, str] = {}
        self._tensors_left = MAX_TENSORS
        self.attributes = 0
        self.versions: set[tuple[str, str]] = set()
        self.enums: set[str] = set()
        self.devices: set[str] = set()

    def run(self, steps: Steps) -> Value:
        if self._take(2) != b"\x80\x02":
            raise self.damaged("it does not begin as a pickle of protocol 2")
        for step in range(steps.left):
            opcode = self._data[self._at]
            self._at += 1
            if opcode == _STOP:
                steps.left -= step
                return self._only_value()
            handler = _HANDLERS.get(opcode)
            if handler is None:
                raise self._unsafe(f"the pickle opcode 0x{opcode:02x}")
            handler(self)
        raise self._too_much(f"pickles of more than {MAX_STEPS} steps")

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
            "this model's pickle is not safe to load",
            place=self._place,
            expected=f"only tensors, lists and the model's own classes in {self._record}",
            seen=seen,
            hint="do not load this file anywhere; get the model from its author again",
        )

    def _lowered(self, delegate: str) -> LoweredModelError:
        return LoweredModelError(
            "a part of this model was lowered to a delegate, and libraries here have none",
            place=self._place,
            expected="PyTorch's operators, all of which run on the CPU",
            seen=f"the delegate {delegate[:120]!r}",
            hint="export the module as it was before torch._C._jit_to_backend, or a tool that calls"
            " it, such as those for Core ML and NNAPI",
        )

    def _too_much(self, seen: str) -> UnsafePickleError:
        """Return the error for a pickle over the limits. Honest models stay below them, but for
        large vocabularies and very deep modules."""
        return UnsafePickleError(
            "this model's pickle exceeds the limits for a model",
            place=self._place,
            expected=f"a {self._record} that is read within bounds of time and memory",
            seen=seen,
            hint="keep large tables, such as a vocabulary of more than 250,000 words, in a file of"
            " the app's own, and nest modules less deep; where the file is not your own export, do"
            " not trust it",
        )

    def _unknown_dtype(self, storage: Global) -> UnknownDtypeError:
        known = (name.removesuffix("Storage") for name in STORAGE_SIZES)
        return UnknownDtypeError(
            "this model holds a tensor of a dtype that its runtime does not read",
            place=self._place,
            expected=f"one of {', '.join(sorted(known))}",
            seen=f"{storage.name.removesuffix('Storage')[:120]} in {self._record}",
            hint="convert the weight, buffer or bundled input to a wider dtype before the export,"
            " such as torch.int32 for torch.uint16 or torch.bfloat16 for an 8-bit float",
        )

    def _only_value(self) -> Value:
        if len(self._stack) != 1:
            raise self.damaged(f"it leaves {len(self._stack)} values on the stack instead of one")
        # No opcode drops a container: all values are reachable from this one.
        fault = nesting_fault(self._stack[0])
        if fault:
            raise self._unsafe(fault) if fault == IN_ITSELF else self._too_much(fault)
        return self._stack[0]

    def _take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) != count:
            raise IndexError("past the end")
        self._at += count
        return piece

    def _two_lines(self) -> bytes:
        end = self._data.index(b"\n", self._data.index(b"\n", self._at) + 1)
        lines = self._data[self._at : end]
        self._at = end + 1
        return lines

    def _number(self, layout: struct.Struct) -> int:
        value = layout.unpack(self._take(layout.size))[0]
        return int(value)

    def _since_mark(self) -> list[Value]:
        start = self._marks.pop()
        if start > len(self._stack):
            raise IndexError("stack underflow")
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
        lines = self._two_lines()
        found = self.globals.get(lines)
        if found is None:
            found = self.globals[lines] = self._global(lines)
        self._stack.append(found)

    def _global(self, lines: bytes) -> Global:
        module, _, name = lines.decode("utf-8", "backslashreplace").partition("\n")
        found = Global(module, name)
        if not found.is_known and found.is_storage:
            raise self._unknown_dtype(found)
        if not found.is_known and (lowered := _LOWERED.fullmatch(found.qualified)):
            raise self._lowered(lowered["older"] or lowered["newer"])
        if not found.is_known:
            raise self._unsafe(f"the Python object {found.qualified[:120]!r}")
        if len(self.globals) >= MAX_CLASSES:
            raise self._too_much(f"more than {MAX_CLASSES} classes")
        return found

    def put(self, layout: struct.Struct) -> None:
        index = self._number(layout)
        if index > MAX_STEPS:
            raise self.damaged(f"value number {index}, where there are no {MAX_STEPS}")
        self._memo[index] = self._stack[-1]

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
            raise self.damaged("an append to a value that is not a list")
        target.extend(values)

    def dict_since_mark(self) -> None:
        self._stack.append(Pairs(self._paired(self._since_mark())))

    def set_since_mark(self) -> None:
        values = self._since_mark()
        target = self._stack[-1]
        if not isinstance(target, Pairs):
            raise self.damaged("an item set in a value that is not a dictionary")
        target.entries.extend(self._paired(values))

    def _paired(self, values: list[Value]) -> list[tuple[Value, Value]]:
        if len(values) % 2:
            raise self.damaged("a dictionary with a key and no value")
        return list(zip(values[::2], values[1::2], strict=True))

    def new_object(self) -> None:
        # BUILD brings the attributes; the argument tuple is unused, and therefore empty.
        if self._stack.pop() != ():
            raise self.damaged("an object made with arguments")

    def reduce(self) -> None:
        # Only a member of an enum is its class called with a value; objects are made and built
        # (torch/csrc/jit/serialization/pickler.cpp, Pickler::pushIValueImpl).
        function = self._stack[-2]
        if isinstance(function, Global) and function.is_model_class:
            self.enums.add(function.qualified)
        self.call()

    def call(self) -> None:
        argument, function = self._stack.pop(), self._stack.pop()
        if not isinstance(function, Global) or not function.can_be_called:
            raise self._unsafe("a call of something other than a named class")
        if function.is_model_class and isinstance(argument, Pairs):
            self.attributes = max(self.attributes, len(argument.entries))
        if function.is_model_class and isinstance(argument, tuple):
            match argument:
                case (int() | str() as version, *_):
                    self.versions.add((function.qualified, str(version)))
        if function.module == TENSORS:
            self._count_tensor()
        made = called(function, argument, self.types)
        device = device_of(made)
        if device is not None:
            self.devices.add(device)
        self._stack.append(made)

    def persistent(self) -> None:
        self._count_tensor()
        argument = self._stack.pop()
        self._tensors.check_storage(argument)
        self._stack.append(Call(STORAGE, argument))

    def _count_tensor(self) -> None:
        self._tensors_left -= 1
        if self._tensors_left < 0:
            raise self._too_much(f"more than {MAX_TENSORS} tensors and storages")


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
    ord("R"): _Machine.reduce,
    ord("Q"): _Machine.persistent,
}
