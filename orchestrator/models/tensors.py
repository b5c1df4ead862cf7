"""The tensors that a pickle describes: each within its storage, each storage within its record.

Contract: pure. `read_pickle` asks here whenever a pickle makes a storage (`Tensors.check_storage`)
or a tensor (`check_tensor`); faults are raised as `Fault`. The runtime trusts these
numbers: it uses lengths, offsets, sizes and strides unchecked (`Unpickler::readInstruction`,
case BINPERSID, and `Unpickler::rebuildTensor` in `torch/csrc/jit/serialization/unpickler.cpp`), and
kernels read and write by them. The checks here keep all of it inside the record, and
every product inside an int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from operator import mul
from typing import Final

from orchestrator.models.inert import STORAGE_SIZES, Call, Fault, Global, Value

STORAGE: Final = Global("torch", "storage")
TENSORS: Final = "torch._utils"
# Kernels refuse more (TensorIterator, at::kDimsToUse), and some recurse once a dimension.
MAX_DIMENSIONS: Final = 64
_LIMIT: Final = 2**63
# Elements in one byte of a storage.
_PACKED: Final = {"QUInt4x2Storage": 2, "QUInt2x4Storage": 4}
_PER_CHANNEL: Final = ("per_channel_affine", "per_channel_affine_float_qparams")
# c10::Layout
_SPARSE, _SPARSE_CSR = 1, 2


@dataclass(frozen=True)
class _Tensor:
    type: str
    sizes: tuple[int, ...]


def constants_folder(records: Iterable[str]) -> str:
    """Folder of the storages of `bytecode.pkl` (torch/csrc/jit/mobile/import.cpp,
    BytecodeDeserializer::readArchive)."""
    return "bytecode/" if any("bytecode/" in name for name in records) else "constants/"


def stored_bytes(records: Mapping[str, int]) -> int:
    """Bytes of all storages of a model, from its archive's records."""
    folders = ("data/", constants_folder(records))
    return sum(size for name, size in records.items() if name.startswith(folders))


@dataclass(frozen=True)
class Tensors:
    """Storages that the tensors of one pickle may refer to.

    records  the archive's records -> bytes
    folder   folder of this pickle's storages among them, such as `data/`
    """

    records: Mapping[str, int]
    folder: str

    def check_storage(self, argument: Value) -> None:
        """A storage: `("storage", type, key, device, elements)`, a persistent id of the pickle."""
        match argument:
            case tuple(("storage", Global("torch", name), str(key), str(), count, *_)):
                pass
            case _:
                raise Fault("a storage without its type, key, device and length")
        if name not in STORAGE_SIZES:
            raise Fault(f"a storage of torch.{name}")
        claimed = STORAGE_SIZES[name] * _number(count, "a storage's length")
        record = self.folder + key
        # The runtime does not look for the record of an empty one.
        if claimed > self.records.get(record, 0):
            held = f"has {self.records[record]}" if record in self.records else "does not exist"
            raise Fault(f"a storage of {claimed} bytes in {record[:120]!r}, which {held}")


def check_tensor(call: Call) -> None:
    """Check a call of `torch._utils` that makes a tensor; its storages were checked when they were
    made."""
    argument = call.argument if isinstance(call.argument, tuple) else ()
    match call.function.name, argument:
        case "_rebuild_tensor_v2", _:
            _plain(call)
        case "_rebuild_qtensor", (storage, offset, sizes, strides, scheme, bool(), *_):
            _check_quantised(_strided(storage, offset, sizes, strides), scheme)
        case "_rebuild_sparse_tensor", (layout, sizes, bool(), *parts):
            _check_sparse(layout, sizes, parts)
        case _:
            raise Fault("a tensor without its storage, sizes and strides")


def _plain(value: Value) -> _Tensor:
    """An ordinary tensor; no other kind may be a part of one, so nothing here recurses."""
    match value:
        case Call(
            Global("torch._utils", "_rebuild_tensor_v2"),
            tuple((storage, offset, sizes, strides, bool(), *_)),
        ):
            tensor = _strided(storage, offset, sizes, strides)
        case _:
            raise Fault("a tensor without its storage, sizes and strides")
    if tensor.type.startswith("Q"):
        raise Fault("quantised numbers in an ordinary tensor")
    return tensor


def _strided(storage: Value, offset: Value, sizes: Value, strides: Value) -> _Tensor:
    match storage:
        case Call(function, tuple((_, Global(_, name), _, _, int(elements), *_))) if (
            function == STORAGE
        ):
            pass
        case _:
            raise Fault("a tensor without a storage")
    shape, steps = _numbers(sizes, "a size"), _numbers(strides, "a stride")
    if len(shape) != len(steps):
        raise Fault(f"a tensor with {len(shape)} sizes and {len(steps)} strides")
    _check_product(shape, STORAGE_SIZES[name])
    end = _number(offset, "an offset")
    if 0 not in shape:
        # the last element's place, and one
        end += 1 + sum(map(mul, shape, steps)) - sum(steps)
    held = elements * _PACKED.get(name, 1)
    if end > held:
        raise Fault(f"a tensor that ends at element {end} of a storage of {held}")
    return _Tensor(name, shape)


def _check_quantised(tensor: _Tensor, scheme: Value) -> None:
    """The parameters of a quantised tensor: one pair, or one for each channel."""
    if not tensor.type.startswith("Q"):
        raise Fault("ordinary numbers in a quantised tensor")
    match scheme:
        case tuple((Global("torch", "per_tensor_affine"), float(), int(), *_)):
            return
        case tuple((Global("torch", name), scales, zero_points, axis, *_)) if name in _PER_CHANNEL:
            channel = _number(axis, "a channel axis")
        case _:
            raise Fault("a quantised tensor without its parameters")
    if channel >= len(tensor.sizes):
        raise Fault(f"channel axis {channel} of {len(tensor.sizes)} dimensions")
    for parameters in (_plain(scales), _plain(zero_points)):
        if parameters.sizes != (tensor.sizes[channel],):
            raise Fault(
                f"parameters of shape {list(parameters.sizes)} for {tensor.sizes[channel]} channels"
            )


def _check_sparse(layout: Value, sizes: Value, parts: list[Value]) -> None:
    """Indices and values; the contents of the indices are in their records, and are not read."""
    needed = {_SPARSE: 2, _SPARSE_CSR: 3}.get(_number(layout, "a layout"))
    if needed is None or len(parts) < needed:
        raise Fault("a sparse tensor without its indices and values")
    *indices, values = [_plain(part) for part in parts[:needed]]
    if any(index.type not in ("LongStorage", "IntStorage") for index in indices):
        raise Fault("a sparse tensor whose indices are not integers")
    _check_product(_numbers(sizes, "a size"), STORAGE_SIZES[values.type])


def _check_product(sizes: tuple[int, ...], item: int) -> None:
    # A size of 0 does not excuse the others: PyTorch multiplies some of them alone.
    if prod(filter(None, sizes)) * item >= _LIMIT:
        raise Fault("a tensor of 2**63 bytes or more")


def _numbers(value: Value, what: str) -> tuple[int, ...]:
    if not isinstance(value, tuple):
        raise Fault(f"{what} that is not in a tuple")
    if len(value) > MAX_DIMENSIONS:
        raise Fault(f"a tensor of {len(value)} dimensions")
    return tuple(_number(one, what) for one in value)


def _number(value: Value, what: str) -> int:
    # no bool, which the runtime does not take for a number
    if type(value) is not int:
        raise Fault(f"{what} that is not a number")
    if value < 0:
        raise Fault(f"{what} below 0: {value}")
    return value
