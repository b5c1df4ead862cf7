"""Tensors of a model's pickles: within their storage, which is within its record."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from orchestrator.models.archive import DamagedModelError
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.models.pickles import UnsafePickleError
from orchestrator.pytorch.v1_13.dialect import DIALECT
from tests.ptl import (
    EMPTY,
    FALSE,
    NONE,
    archive,
    bytecode,
    call,
    code,
    function,
    list_of,
    model,
    module,
    named,
    number,
    numbers,
    pickled,
    real,
    storage,
    tensor,
    text,
    tuple_of,
)

ONE = tensor(storage(), numbers(1), numbers(1))
INDICES = tensor(storage("1", "Long"), numbers(1, 1), numbers(1, 1))
COLUMN = tensor(storage("1", "Long"), numbers(1), numbers(1))
QINT8 = storage("0", "QInt8", 8)
PER_TENSOR = tuple_of(named("torch", "per_tensor_affine"), real(0.5), number(3))


def with_tensor(piece: bytes) -> bytes:
    """A model with one attribute; its records `data/0` and `data/1` have eight bytes each."""
    return model(None, module(t=piece), data__0=bytes(8), data__1=bytes(8))


def read(file: bytes | bytearray, folder: Path) -> ModelInfo:
    path = folder / "model.ptl"
    path.write_bytes(file)
    return read_model(path, DIALECT.models, name="model.ptl")


def strided(held: bytes, *rest: bytes) -> bytes:
    return call("torch._utils", "_rebuild_tensor_v2", held, *rest, FALSE, NONE)


def quantised(held: bytes, scheme: bytes, sizes: bytes = b"", strides: bytes = b"") -> bytes:
    shape = (sizes or numbers(8), strides or numbers(1))
    return call("torch._utils", "_rebuild_qtensor", held, number(0), *shape, scheme, FALSE, NONE)


def channels(scales: bytes, zero_points: bytes, axis: int = 0) -> bytes:
    return tuple_of(named("torch", "per_channel_affine"), scales, zero_points, number(axis))


def sparse(layout: int, *parts: bytes) -> bytes:
    name = ("torch._utils", "_rebuild_sparse_tensor")
    return call(*name, number(layout), numbers(9, 9), FALSE, *parts)


@pytest.mark.parametrize(
    "piece",
    [
        ONE,
        # a scalar, an empty one, one that repeats its only element, one with steps
        tensor(storage(), EMPTY, EMPTY),
        tensor(storage(elements=0, key="none"), numbers(0, 3), numbers(3, 1)),
        tensor(storage(), numbers(2**40), numbers(0)),
        tensor(storage("0", "Byte", 8), numbers(2, 2), numbers(4, 2), 1),
        # of a size of 1 the stride does not matter
        tensor(storage(), numbers(1, 1), numbers(2**62, 7)),
        quantised(QINT8, PER_TENSOR),
        quantised(storage("0", "QUInt4x2", 8), PER_TENSOR, numbers(16)),
        quantised(
            QINT8,
            channels(tensor(storage("1", "Float", 2), numbers(2), numbers(1)),
                     tensor(storage("1", "Int", 2), numbers(2), numbers(1)), 1),
            numbers(4, 2), numbers(2, 1),
        ),
        sparse(1, INDICES, ONE),
        sparse(2, COLUMN, COLUMN, ONE),
    ],
)  # fmt: skip
def test_what_pytorch_writes_is_read(piece: bytes, tmp_path: Path) -> None:
    assert read(with_tensor(piece), tmp_path).methods == ("forward",)


@pytest.mark.parametrize(
    ("piece", "seen"),
    [
        # the record is shorter than what the storage claims: 7,992 bytes of the heap came out
        (tensor(storage(elements=1000), numbers(1000), numbers(1)),
         "a storage of 8000 bytes in 'data/0', which has 8"),
        (storage("7"), "a storage of 8 bytes in 'data/7', which is not there"),
        (storage(elements=-1), "a storage's length below 0: -1"),
        (storage(elements=2**61), "a storage of 18446744073709551616 bytes in 'data/0',"
         " which has 8"),
        (storage(kind="Float", elements=3), "a storage of 12 bytes in 'data/0', which has 8"),
        (tuple_of(text("storage"), text("Float")) + b"Q",
         "a storage without its type, key, device and length"),
        (tuple_of(text("module"), named("torch", "FloatStorage"), text("0"), text("cpu"),
                  number(1)) + b"Q", "a storage without its type, key, device and length"),
        (tuple_of(text("storage"), named("torch", "per_tensor_affine"), text("0"), text("cpu"),
                  number(1)) + b"Q", "a storage of torch.per_tensor_affine"),
        # it ends behind its storage
        (tensor(storage(), numbers(100), numbers(1)),
         "a tensor that ends at element 100 of a storage of 1"),
        (tensor(storage(), numbers(1), numbers(1), 10**9),
         "a tensor that ends at element 1000000001 of a storage of 1"),
        (tensor(storage(), numbers(0), numbers(1), 2),
         "a tensor that ends at element 2 of a storage of 1"),
        (tensor(storage("0", "Byte", 8), numbers(2, 2), numbers(6, 2)),
         "a tensor that ends at element 9 of a storage of 8"),
        (tensor(storage(elements=0), numbers(1), numbers(1)),
         "a tensor that ends at element 1 of a storage of 0"),
        # its bytes leave an int64: 8 bytes were allocated, and written past
        (tensor(storage(), numbers(2**61 + 1), numbers(0)), "a tensor of 2**63 bytes or more"),
        (tensor(storage(), numbers(2**60), numbers(0)), "a tensor of 2**63 bytes or more"),
        (tensor(storage(), numbers(2**32, 2**32), numbers(0, 0)),
         "a tensor of 2**63 bytes or more"),
        (tensor(storage(), numbers(2**32, 2**32, 1), numbers(1, 1, 1)),
         "a tensor of 2**63 bytes or more"),
        (tensor(storage(), numbers(0, 2**62, 4), numbers(1, 1, 1)),
         "a tensor of 2**63 bytes or more"),
        (tensor(storage(), numbers(-5), numbers(1)), "a size below 0: -5"),
        (tensor(storage(), numbers(5), numbers(-1)), "a stride below 0: -1"),
        (tensor(storage(), numbers(1), numbers(1), -8), "an offset below 0: -8"),
        (tensor(storage(), numbers(1, 1, 1), numbers(1)), "a tensor with 3 sizes and 1 strides"),
        (tensor(storage(), numbers(*[1] * 65), numbers(*[1] * 65)), "a tensor of 65 dimensions"),
        (tensor(storage(), list_of(number(1)), numbers(1)), "a size that is not in a tuple"),
        (tensor(storage(), tuple_of(b"\x88"), numbers(1)), "a size that is not a number"),
        (tensor(text("0"), numbers(1), numbers(1)), "a tensor without a storage"),
        (tensor(ONE, numbers(1), numbers(1)), "a tensor without a storage"),
        (strided(storage(), number(0)), "a tensor without its storage, sizes and strides"),
        (named("torch._utils", "_rebuild_tensor_v2") + list_of(storage()) + b"R",
         "a tensor without its storage, sizes and strides"),
        (tensor(QINT8, numbers(8), numbers(1)), "quantised numbers in an ordinary tensor"),
        # quantised: parameters for each of its channels
        (quantised(storage(), PER_TENSOR, numbers(1)), "ordinary numbers in a quantised tensor"),
        (quantised(QINT8, PER_TENSOR, numbers(9)),
         "a tensor that ends at element 9 of a storage of 8"),
        (quantised(storage("0", "QUInt4x2", 8), PER_TENSOR, numbers(17)),
         "a tensor that ends at element 17 of a storage of 16"),
        (quantised(QINT8, tuple_of(named("torch", "per_tensor_affine"), number(1), number(1))),
         "a quantised tensor without its parameters"),
        (quantised(QINT8, tuple_of(named("torch", "per_tensor_symmetric"), real(1), number(1))),
         "a quantised tensor without its parameters"),
        (quantised(QINT8, channels(ONE, ONE)), "parameters of shape [1] for 8 channels"),
        (quantised(QINT8, channels(ONE, ONE, 1)), "channel axis 1 of 1 dimensions"),
        (quantised(QINT8, channels(ONE, ONE, -1)), "a channel axis below 0: -1"),
        (quantised(QINT8, channels(quantised(QINT8, PER_TENSOR), ONE)),
         "a tensor without its storage, sizes and strides"),
        (sparse(1, INDICES), "a sparse tensor without its indices and values"),
        (sparse(3, INDICES, ONE), "a sparse tensor without its indices and values"),
        (sparse(1, ONE, ONE), "a sparse tensor whose indices are no whole numbers"),
        (sparse(1, INDICES, tensor(QINT8, numbers(1), numbers(1))),
         "quantised numbers in an ordinary tensor"),
        # what the other functions of a pickle take
        (named("__main__", "TensorID") + number(0) + b"R", "TensorID without its arguments"),
        (call("torch.jit._pickle", "build_tensor_from_id", number(0)),
         "build_tensor_from_id without its arguments"),
        (call("builtins", "complex", number(1), number(2)), "complex without its arguments"),
        (call("torch", "device", number(1)), "device without its arguments"),
        (named("__main__", "IntList") + EMPTY + b"R", "IntList without its arguments"),
        (call("torch.jit._pickle", "build_intlist", EMPTY), "build_intlist without its arguments"),
        (call("torch.jit._pickle", "restore_type_tag", list_of()),
         "restore_type_tag without its arguments"),
        (call("torch.jit._pickle", "restore_type_tag", list_of(), text("List[" * 65)),
         "a type of more than 64 types in each other"),
        (named("__torch__", "N") + tuple_of(number(1)) + b"\x81}b",
         "an object made with arguments"),
    ],
)  # fmt: skip
def test_what_the_runtime_would_read_or_write_past_is_refused(
    piece: bytes, seen: str, tmp_path: Path
) -> None:
    with pytest.raises(DamagedModelError) as caught:
        read(with_tensor(piece), tmp_path)
    assert caught.value.render() == (
        "model.ptl: error: this model is truncated or damaged\n"
        "  expected: a readable data.pkl\n"
        f"  seen:     {seen}\n"
        "  do:       copy the file again, or export it again"
    )


@pytest.mark.parametrize(
    "piece",
    [
        call("builtins", "complex", real(1), real(2)),
        call("torch", "device", text("cpu")),
        named("__main__", "IntList") + list_of(number(1)) + b"R",
        call("torch.jit._pickle", "restore_type_tag", b"}", text("Dict[str, int]")),
        # a class of the model's may be called what it likes
        named("__torch__", "complex") + b")\x81" + tuple_of(number(1)) + b"b",
    ],
)
def test_what_the_other_functions_take(piece: bytes, tmp_path: Path) -> None:
    assert read(with_tensor(piece), tmp_path).methods == ("forward",)


def test_a_number_is_no_function(tmp_path: Path) -> None:
    """To the runtime a dtype is the number of a function that was named before."""
    with pytest.raises(UnsafePickleError) as caught:
        read(with_tensor(named("torch", "FloatStorage") + EMPTY + b"R"), tmp_path)
    assert caught.value.seen == "a call of what is not a named class"


@pytest.mark.parametrize(
    ("record", "good"),
    [("constants__0", True), ("bytecode__0", True), ("data__0", False)],
)
def test_tensors_of_the_code_have_a_folder_of_their_own(
    record: str, good: bool, tmp_path: Path
) -> None:
    file = model(
        bytecode(function(tables=code(constants=tuple_of(ONE)))),
        pickled(EMPTY),
        **{record: bytes(8)},
    )
    if good:
        assert read(file, tmp_path).methods == ("forward",)
        return
    with pytest.raises(DamagedModelError) as caught:
        read(file, tmp_path)
    assert caught.value.seen == "a storage of 8 bytes in 'constants/0', which is not there"


def test_a_flipped_bit_of_a_weight_is_seen(tmp_path: Path) -> None:
    records = {"data.pkl": module(t=ONE), "bytecode.pkl": bytecode(function()), "version": b"3"}
    file = bytearray(archive({**records, "data/0": b"weights!"}, zipfile.ZIP_STORED))
    assert read(file, tmp_path).methods == ("forward",)
    file[file.index(b"weights!")] ^= 1
    with pytest.raises(DamagedModelError) as caught:
        read(file, tmp_path)
    assert caught.value.seen == "record m/data/0 does not match its checksum"
