"""What a PyTorch pickle may say, as values that do nothing.

`Value` is the type of everything that `read_pickle` returns. The names that a pickle may mention
are those of `Unpickler::readGlobal` in `torch/csrc/jit/serialization/unpickler.cpp`.
"""

from __future__ import annotations

from dataclasses import dataclass
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
_SCALAR_TYPES: Final = (
    *("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double", "Bool"),
    *("ComplexHalf", "ComplexFloat", "ComplexDouble", "BFloat16"),
    *("QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4"),
)
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
            *(f"{scalar}Storage" for scalar in _SCALAR_TYPES),
        }
    ),
}


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
        """Whether this is a class of the model's own, or a custom class of the runtime."""
        return self.module == _MODEL_CLASSES or self.module.startswith(_MODEL_CLASSES + ".")

    @property
    def is_known(self) -> bool:
        """Whether PyTorch's reader takes the name."""
        return self.is_model_class or self.name in _KNOWN.get(self.module, ())

    @property
    def types_a_list(self) -> bool:
        """Whether a call of it gives its first argument back, with an element type."""
        return self.module == _LISTS and self.name in _TYPED_LISTS


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """What would be built: a tensor, an object with its attributes, a storage."""

    function: Global
    argument: Value


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """A dictionary as its pairs in order; keys are not hashed, for they may be anything."""

    entries: list[tuple[Value, Value]]


Value: TypeAlias = (
    "bool | int | float | str | tuple[Value, ...] | list[Value] | Global | Call | Pairs | None"
)
