"""Pickles as data: what PyTorch's reader takes is read, everything else is refused."""

from __future__ import annotations

import pickle
import struct

import pytest

from orchestrator.errors import Place
from orchestrator.models import bytecode, pickles
from orchestrator.models.archive import DamagedModelError
from orchestrator.models.bytecode import OperatorUse, parse_bytecode
from orchestrator.models.inert import Call, Global, Pairs, Value
from orchestrator.models.pickles import UnsafePickleError, read_pickle
from orchestrator.values.operators import OperatorName

HERE = Place("model.ptl")
VERSIONS = range(4, 10)


def read(body: bytes) -> Value:
    return read_pickle(b"\x80\x02" + body, "data.pkl", HERE).value


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"K\x07.", 7),
        (b"M\x00\x01.", 256),
        (b"J\xff\xff\xff\xff.", -1),
        (b"\x8a\x08\x00\x00\x00\x00\x01\x00\x00\x00.", 2**32),
        (b"G\x3f\xf8\x00\x00\x00\x00\x00\x00.", 1.5),
        (b"X\x02\x00\x00\x00hi.", "hi"),
        (b"X\x01\x00\x00\x00\xff.", "\udcff"),
        (b"N.", None),
        (b"\x88.", True),
        (b"\x89.", False),
        (b").", ()),
        (b"K\x01\x85.", (1,)),
        (b"K\x01K\x02\x86.", (1, 2)),
        (b"K\x01K\x02K\x03\x87.", (1, 2, 3)),
        (b"(K\x01K\x02t.", (1, 2)),
        (b"(K\x01l.", [1]),
        (b"](K\x01K\x02e.", [1, 2]),
        (b"K\x05q\x00h\x00\x86.", (5, 5)),
        (b"K\x05r\x00\x01\x00\x00j\x00\x01\x00\x00\x86.", (5, 5)),
        (b"c__torch__.net\nNet\n.", Global("__torch__.net", "Net")),
        (b"ctorch.jit._pickle\nbuild_intlist\n](K\x01e\x85R.", [1]),
        (b"ctorch.jit._pickle\nrestore_type_tag\n]X\x01\x00\x00\x00L\x86R.", []),
    ],
)
def test_values(body: bytes, value: object) -> None:
    assert read(body) == value


def test_an_object_with_attributes_stays_a_name_and_pairs() -> None:
    body = b"c__torch__\nNet\n)\x81}(X\x01\x00\x00\x00aK\x01ub."
    value = read(body)
    assert isinstance(value, Call)
    assert value.function == Global("__torch__", "Net")
    assert isinstance(value.argument, Pairs)
    assert value.argument.entries == [("a", 1)]
    assert read_pickle(b"\x80\x02" + body, "data.pkl", HERE).classes == ("__torch__.Net",)


def test_a_dictionary_takes_keys_that_cannot_be_hashed() -> None:
    value = read(b"(]K\x01d.")
    assert isinstance(value, Pairs)
    assert value.entries == [([], 1)]


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (b"cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", "the Python object 'os.system'"),
        (b"cbuiltins\neval\n.", "the Python object 'builtins.eval'"),
        (b"ctorch\nload\n.", "the Python object 'torch.load'"),
        (b"c__torch__evil\nNet\n.", "the Python object '__torch__evil.Net'"),
        (b"(X\x02\x00\x00\x00lsios\nsystem\n.", "the pickle opcode 0x69"),
        (b"X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93.", "the pickle opcode 0x93"),
        (b"K\x012.", "the pickle opcode 0x32"),
        # what CVE-2026-24747 sets an item of no dictionary with
        (b"K\x01K\x02K\x03s.", "the pickle opcode 0x73"),
        (b"K\x01K\x02R.", "a call of something other than a named class"),
    ],
)
def test_unsafe(body: bytes, seen: str) -> None:
    with pytest.raises(UnsafePickleError) as caught:
        read(body)
    assert caught.value.seen == seen


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"K",
        b"K\x01",
        b".",
        b"K\x01K\x02.",
        b"\x86.",
        b"t.",
        b"h\x00.",
        b"X\xff\xff\xff\xffhi.",
        b"cos",
        b"K\x01(K\x02e.",
        b"K\x01(K\x02K\x03u.",
        b"}(K\x02u.",
        b"\x8a\x01\x00.",
        b"ctorch.jit._pickle\nbuild_intlist\nK\x01R.",
        b"ctorch.jit._pickle\nbuild_intlist\n)R.",
    ],
)
def test_damaged(body: bytes) -> None:
    with pytest.raises(DamagedModelError):
        read(body)


def test_only_protocol_2() -> None:
    with pytest.raises(DamagedModelError) as caught:
        read_pickle(pickle.dumps((1,), protocol=4), "data.pkl", HERE)
    assert caught.value.seen == "it does not begin as a pickle of protocol 2"


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (b")" + b"\x85" * 201 + b".", "values nested more than 200 deep"),
        (b")" + b"\x85" * 240_000 + b".", "values nested more than 200 deep"),
        # by way of lists that are filled afterwards, the inner one first
        (
            b"(" + b"".join(b"]r" + struct.pack("<I", n) for n in range(300)) + b"t("
            + b"".join(b"j" + struct.pack("<I", n) + b"(j" + struct.pack("<I", n + 1) + b"e"
                       for n in range(299)) + b"t\x86.",
            "values nested more than 200 deep",
        ),
        (b"]q\x00(h\x00e.", "a value that contains itself"),
        (b"}q\x00(K\x01h\x00\x85u.", "a value that contains itself"),
        (b"c__torch__\nNet\n)\x81}q\x00(K\x01h\x00ub.", "a value that contains itself"),
        (b"(" + b"K\x01\x85" * 250_000 + b"t.", "more than 250000 nested containers"),
    ],
)  # fmt: skip
def test_what_the_runtime_would_die_of_freeing_is_refused(body: bytes, seen: str) -> None:
    with pytest.raises(UnsafePickleError) as caught:
        read(body)
    assert caught.value.seen == seen


def test_values_in_each_other_are_read() -> None:
    value = read(b")" + b"\x85" * 200 + b".")
    for _ in range(200):
        assert isinstance(value, tuple)
        value = value[0]
    assert value == ()
    # one list in many others is no nesting
    assert read(b"]q\x00(K\x01eh\x00h\x00\x87.") == ([1], [1], [1])


def test_steps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "MAX_STEPS", 10)
    with pytest.raises(UnsafePickleError) as caught:
        read(b"N" * 11 + b".")
    assert caught.value.seen == "pickles of more than 10 steps"


NO_SCHEMA: Value = (("arguments", ()), ("returns", ()))


def code(operators: Value = (), schema: tuple[Value, ...] = (NO_SCHEMA,)) -> Value:
    table: Value = (
        ("instructions", ()),
        ("operators", operators),
        ("constants", ()),
        ("types", ()),
        ("register_size", 1),
    )
    return ("__torch__.M.forward", table, *schema)


def test_bytecode_without_schema_or_argument_counts() -> None:
    # As PyTorch 1.6 wrote it.
    old = code((("aten::relu", ""),), schema=())
    version, functions = parse_bytecode((4, old), VERSIONS, HERE)
    assert version == 4
    assert functions[0].operators == (OperatorUse(OperatorName("aten::relu"), -1),)
    assert (functions[0].arguments, functions[0].returns) == ((), ())


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (7, "a record that is not a tuple"),
        ((8, 1), "a function that is not a tuple"),
        ((8, ("f",)), "a function of 1 parts"),
        # only the oldest files are without a schema
        ((8, ("f", ())), "a function of 2 parts"),
        ((8, (1, (), ())), "a function's name that is not text"),
        ((8, ("f", 1, ())), "a code table that is not a tuple"),
        ((8, ("f", (), ())), "field 'instructions' is missing or out of order"),
        ((8, code(1)), "a field operators that is not a tuple"),
        ((8, code((("aten::relu",),))), "an operator of 1 parts"),
        ((8, code((("aten::relu", "", "1"),))), "an argument count that is not a number"),
        ((8, code((("relu", ""),))), "the operator name 'relu'"),
        ((8, code(), code()), "two functions with the same name"),
        ((8, code((), ((("arguments", 1),),))), "a field arguments that is not a tuple"),
    ],
)
def test_damaged_bytecode(value: Value, seen: str) -> None:
    with pytest.raises(DamagedModelError) as caught:
        parse_bytecode(value, VERSIONS, HERE)
    assert caught.value.seen == seen


def test_shared_tables_are_counted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "MAX_ROWS", 100)
    operators = (("aten::relu", ""),) * 60
    with pytest.raises(DamagedModelError) as caught:
        parse_bytecode((8, code(operators), code(operators)), VERSIONS, HERE)
    assert caught.value.seen == "more than 100 rows in its tables"
