"""The contents of a PyTorch pickle, as inert values.

`Value` is the type of everything that `read_pickle` returns. The names that a pickle may mention
are those of `Unpickler::readGlobal` in `torch/csrc/jit/serialization/unpickler.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

_MODEL_CLASSES: Final = "__torch__"
_LISTS: Final = "torch.jit._pickle"
_TYPED_LISTS: Final = frozenset(
    {
        "build_intlist",
        "build_tensorlist",
        "build_doublelist",
        "build_boollist",
        "restore_type_tag",
    }
)
# The types that a storage can have, and how many bytes an element takes
# (AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS in c10/core/ScalarType.h).
STORAGE_SIZES: Final = {
    f"{name}Storage": size
    for size, names in {
        1: ("Byte", "Char", "Bool", "QInt8", "QUInt8", "QUInt4x2", "QUInt2x4"),
        2: ("Short", "Half", "BFloat16"),
        4: ("Int", "Float", "ComplexHalf", "QInt32"),
        8: ("Long", "Double", "ComplexFloat"),
        16: ("ComplexDouble",),
    }.items()
    for name in names
}
_KNOWN: Final = {
    "__main__": frozenset({"TensorID", "IntList"}),
    _LISTS: _TYPED_LISTS | {"build_tensor_from_id"},
    "torch._utils": frozenset({"_rebuild_tensor_v2", "_rebuild_qtensor", "_rebuild_sparse_tensor"}),
    "builtins": frozenset({"complex"}),
    "collections": frozenset({"OrderedDict"}),
    "torch": frozenset(
        {
            "device",
            "per_tensor_affine",
            "per_channel_affine",
            "per_tensor_symmetric",
            "per_channel_symmetric",
            "per_channel_affine_float_qparams",
            *STORAGE_SIZES,
        }
    ),
}


class Fault(Exception):
    """A fault of a value; a caller that knows the file turns it into an error."""


@dataclass(frozen=True, slots=True)
class Global:
    """A class or function that a pickle names; only the name, never the object."""

    module: str
    name: str

    @property
    def qualified(self) -> str:
        """Module and name, as `__torch__.net.Classifier`."""
        return f"{self.module}.{self.name}"

    @property
    def is_model_class(self) -> bool:
        """True if this is a class of the model, or a custom class of the runtime."""
        return self.module == _MODEL_CLASSES or self.module.startswith(_MODEL_CLASSES + ".")

    @property
    def is_known(self) -> bool:
        """True if PyTorch's reader accepts the name."""
        return self.is_model_class or self.name in _KNOWN.get(self.module, ())

    @property
    def is_storage(self) -> bool:
        """True if this looks like the storage of a tensor, of whatever dtype."""
        return self.module == "torch" and self.name.endswith("Storage") and self.name.isidentifier()

    @property
    def can_be_called(self) -> bool:
        """True if a call of it makes a value; dtypes and quantisation schemes are only numbers."""
        return self.module != "torch" or self.name == "device"

    @property
    def types_a_list(self) -> bool:
        """True if a call of it returns its first argument, with an element type."""
        return self.module == _LISTS and self.name in _TYPED_LISTS


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call that was read and not made: of a tensor, an object with its attributes, or a
    storage."""

    function: Global
    argument: Value


def device_of(value: object) -> str | None:
    """The device that a value is, `cuda:0`; None for other values."""
    match value:
        case Call(Global("torch", "device"), (str() as kind, *index)):
            return ":".join((kind, *map(str, index)))
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """A dictionary as its pairs in order; keys are not hashed, for they may be anything."""

    entries: list[tuple[Value, Value]]

    def __bool__(self) -> bool:
        return bool(self.entries)


Value: TypeAlias = (
    "bool | int | float | str | tuple[Value, ...] | list[Value] | Global | Call | Pairs | None"
)

# Modules in modules, tuples in lists: a few dozen.
MAX_DEPTH = 200
IN_ITSELF: Final = "a value that contains itself"
# Three for each instruction of a function.
MAX_HOLDERS = 250_000
_HOLDERS: Final = frozenset({tuple, list, Call, Pairs})


def nesting_fault(root: Value) -> str | None:
    """The fault in how values are nested, or None; nothing here recurses."""
    # 0 from the moment a value is entered until all that it holds is known
    heights: dict[int, int] = {}
    todo = _holders((root,))
    while todo:
        value = todo[-1]
        height = heights.get(id(value))
        if height is None:
            inside = _inside(value)
            heights[id(value)] = 0 if inside else 1
            if len(heights) > MAX_HOLDERS:
                return f"more than {MAX_HOLDERS} nested containers"
            if any(heights.get(id(one)) == 0 for one in inside):
                return IN_ITSELF
            if inside:
                todo += [one for one in inside if id(one) not in heights]
                continue
        elif height == 0:
            height = 1 + max(heights[id(one)] for one in _inside(value))
            if height > MAX_DEPTH:
                return f"values nested more than {MAX_DEPTH} deep"
            heights[id(value)] = height
        todo.pop()
    return None


def _inside(value: Value) -> list[Value]:
    """The values in one, but for those that hold nothing."""
    if isinstance(value, Call):
        return _holders((value.argument,))
    if isinstance(value, Pairs):
        return _holders(chain.from_iterable(value.entries))
    return _holders(value) if isinstance(value, tuple | list) else []


def _holders(values: Iterable[Value]) -> list[Value]:
    return [value for value in values if type(value) in _HOLDERS and value]
