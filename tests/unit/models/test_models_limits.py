"""Small files that stand for much: each is refused, by what it would cost, before it costs it.

How long the worst files take that are still read, and how much memory, is in
tests/campaigns/test_models.py.
"""

from __future__ import annotations

import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import OrchestratorError
from orchestrator.models.archive import DamagedModelError, OversizedModelError
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.models.pickles import UnsafePickleError
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.operators import OperatorName
from tests.ptl import (
    EMPTY,
    argument,
    bytecode,
    call,
    code,
    function,
    get,
    list_of,
    model,
    module,
    named,
    number,
    operator,
    pickled,
    put,
    schema,
    storage,
    text,
    tuple_of,
)

MEGABYTE = "a" * 2**20
ROW, TYPE = operator("aten::" + MEGABYTE), text("__torch__." + MEGABYTE)


@pytest.fixture
def read(tmp_path: Path) -> Callable[[bytes], ModelInfo]:
    """Reads bytes as a model."""

    def of(data: bytes) -> ModelInfo:
        path = tmp_path / "model.ptl"
        path.write_bytes(data)
        return read_model(path, DIALECT.models, name="model.ptl")

    return of


Read = Callable[[bytes], ModelInfo]


def operators(*rows: bytes) -> bytes:
    return model(bytecode(function(tables=code(operators=tuple_of(*rows)))))


def types(*rows: bytes) -> bytes:
    return model(bytecode(function(tables=code(types=tuple_of(*rows)))))


def data(piece: bytes) -> bytes:
    return model(data_record=pickled(piece))


def table_only(count: int) -> bytes:
    """An archive of nothing but a table of contents, in the larger form."""
    first = b"PK\x03\x04" + struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 0, 0, 0, 0, 4, 0) + b"a/00"
    row = b"PK\x01\x02" + struct.pack("<HHHHHHIIIHHHHHII", *(0,) * 9, 3, *(0,) * 6) + b"a/b"
    table = row * count
    end = len(first) + len(table)
    large = struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(table), len(first))
    locator = struct.pack("<IQI", 0, end, 1)
    tail = struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    marks = (b"PK\x06\x06", b"PK\x06\x07", b"PK\x05\x06")
    parts = zip(marks, (large, locator, tail), strict=True)
    return first + table + b"".join(mark + part for mark, part in parts)


@pytest.mark.parametrize(
    ("made", "error", "seen"),
    [
        # 1.5 KB that stood for 2.5 GB
        (
            lambda: operators(put(ROW, 7), get(7, 2500)),
            DamagedModelError,
            "an operator's name of 1048582 characters",
        ),
        (lambda: operators(operator("aten::a", "b" * 257)), DamagedModelError,
         "an operator's overload of 257 characters"),
        # 1.7 KB that stood for minutes
        (lambda: types(put(TYPE, 7), get(7, 20_000)), DamagedModelError,
         "a type of 1048586 characters"),
        (
            lambda: types(put(text("a" * 2**16), 7), get(7, 128)),
            DamagedModelError,
            "more than 8388608 characters in its tables",
        ),
        (lambda: types(text("List[" * 65 + "]" * 65)), DamagedModelError,
         "a type nested more than 64 deep"),
        (
            lambda: model(
                bytecode(function(signature=schema(tuple_of(argument("x", "a" * 65_537)))))
            ),
            DamagedModelError,
            "a type of 65537 characters",
        ),
        (
            lambda: model(
                bytecode(function(signature=schema(tuple_of(argument("x" * 257, "Tensor")))))
            ),
            DamagedModelError,
            "an argument's name of 257 characters",
        ),
        (lambda: operators(put(operator("aten::add"), 7), get(7, 250_000)), DamagedModelError,
         "more than 250000 rows in its tables"),
        (lambda: model(bytecode(put(function(), 7), get(7, 10_000))), DamagedModelError,
         "more than 10000 functions"),
        (
            lambda: operators(*(operator(f"aten::a{n}") for n in range(10_001))),
            DamagedModelError,
            "more than 10000 operators",
        ),
        (lambda: model(bytecode(function(tables=code(registers=number(2**40))))),
         DamagedModelError, "an invalid register count: 1099511627776"),
        (lambda: data(tuple_of(*(named("__torch__", f"A{n}") for n in range(10_001)))),
         UnsafePickleError, "more than 10000 classes"),
        (lambda: data(tuple_of(storage(elements=0) * 20_001)), UnsafePickleError,
         "more than 20000 tensors and storages"),
        (lambda: data(EMPTY + b"r" + struct.pack("<I", 2**32 - 1)), DamagedModelError,
         "value number 4294967295, where there are no 1000000"),
        (lambda: data(tuple_of(text("a" * 2**24))), OversizedModelError,
         "data.pkl with 16777226 bytes"),
        (lambda: table_only(50_001), OversizedModelError, "50001 records"),
    ],
)  # fmt: skip
def test_a_bound(
    made: Callable[[], bytes], error: type[OrchestratorError], seen: str, read: Read
) -> None:
    file = made()
    begun = time.process_time()
    with pytest.raises(error) as caught:
        read(file)
    assert caught.value.seen == seen
    assert time.process_time() - begun < 2


def test_both_pickles_share_their_steps(read: Read) -> None:
    half = tuple_of(b"]" * 499_000)
    assert read(data(half)).functions
    constants = code(constants=half)
    with pytest.raises(UnsafePickleError) as caught:
        read(model(bytecode(function(tables=constants)), pickled(tuple_of(b"]" * 510_000))))
    assert caught.value.what == "this model's pickle exceeds the limits for a model"
    assert caught.value.seen == "pickles of more than 1000000 steps"


def test_a_long_table_of_contents_with_few_records_is_refused(read: Read) -> None:
    file = table_only(370_000)
    for count in (0, 5):
        at = file.rindex(b"PK\x06\x06")
        changed = file[: at + 24] + struct.pack("<QQ", count, count) + file[at + 40 :]
        with pytest.raises(OversizedModelError) as caught:
            read(changed)
        assert caught.value.seen == "a central directory of 18130000 bytes"


def test_the_number_of_records_is_what_the_table_has(read: Read) -> None:
    file = model()
    at = file.rindex(b"PK\x05\x06")
    with pytest.raises(DamagedModelError) as caught:
        read(file[: at + 8] + struct.pack("<HH", 2, 2) + file[at + 12 :])
    assert caught.value.seen == "3 records in a central directory of 2"


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        # zipfile would look for the table before its end, the runtime where it is said to be
        (lambda file: b"PK\x03\x04" + file, "a central directory with a wrong offset or size"),
        (lambda file: file[:20], "no zip central directory at the end of the file"),
        (lambda file: file[:-10], "no zip central directory at the end of the file"),
    ],
)
def test_the_table_is_where_the_runtime_looks_for_it(
    damage: Callable[[bytes], bytes], seen: str, read: Read
) -> None:
    with pytest.raises(DamagedModelError) as caught:
        read(damage(model()))
    assert caught.value.seen == seen


def test_the_larger_table_is_where_the_runtime_looks_for_it(read: Read) -> None:
    file = table_only(3)
    at = file.rindex(b"PK\x06\x07")
    elsewhere = file[: at + 8] + struct.pack("<Q", 0) + file[at + 16 :]
    with pytest.raises(DamagedModelError) as caught:
        read(elsewhere)
    assert caught.value.seen == "two conflicting central directories"


def test_a_comment_behind_the_table_does_no_harm(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "signed.ptl"
    path.write_bytes(model())
    with zipfile.ZipFile(path, "a") as made:
        made.comment = b"signed" * 10_000
    assert read(path.read_bytes()).methods == ("forward",)


def test_names_that_differ_in_case_are_one_to_the_runtime(read: Read) -> None:
    with pytest.raises(OrchestratorError) as caught:
        read(model(DATA__0=b"", data__0=b""))
    assert (type(caught.value).__name__, caught.value.seen) == (
        "OddRecordPathError",
        "two records named data/0",
    )


def test_a_shared_row_is_parsed_once(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    name_of = OperatorName.of

    def of(name: str, overload: str) -> object:
        parsed.append(name)
        return name_of(name, overload)

    monkeypatch.setattr(OperatorName, "of", of)
    info = read(operators(put(operator("aten::add"), 7), get(7, 9), operator("aten::mul")))
    assert parsed == ["aten::add", "aten::mul"]
    assert len(info.functions[0].operators) == 11


def test_a_shared_table_is_parsed_once_and_counted_each_time(read: Read) -> None:
    tables = put(code(operators=tuple_of(put(operator("aten::add"), 7), get(7, 99_999))), 8)
    signature = put(schema(), 9)

    def functions(count: int) -> bytes:
        others = (tuple_of(text(f"__torch__.M.f{n}"), get(8), get(9)) for n in range(1, count))
        return model(bytecode(function(tables=tables, signature=signature), *others))

    info = read(functions(2))
    assert info.functions[0].operators is info.functions[1].operators
    with pytest.raises(DamagedModelError) as caught:
        read(functions(3))
    assert caught.value.seen == "more than 250000 rows in its tables"


def test_a_bundled_method_finds_its_inputs_among_many_attributes(read: Read) -> None:
    """Each of many methods looked through all of many attributes."""
    names = [f"__torch__.M.get_all_bundled_inputs_for_f{n}" for n in range(5_000)]
    attributes = {f"a{n}": EMPTY for n in range(20_000)}
    record = module(**attributes, _bundled_inputs_deflated_f7=list_of(EMPTY, EMPTY))
    begun = time.process_time()
    info = read(model(bytecode(*(function(name) for name in names)), record))
    assert [found.count for found in info.bundled_inputs if found.method == "f7"] == [2]
    assert time.process_time() - begun < 2


def test_the_text_of_a_tag_is_looked_at_once(read: Read) -> None:
    tag = put(text("[]" * 30_000), 1)
    tagged = call("torch.jit._pickle", "restore_type_tag", b"]", tag)
    again = put(named("torch.jit._pickle", "restore_type_tag"), 2)
    many = (get(2) + b"]" + get(1) + b"\x86R") * 50_000
    begun = time.process_time()
    assert read(data(tuple_of(tagged, again, many))).functions
    assert time.process_time() - begun < 2
