"""Branches that go one way whatever the inputs are, from a file's bytecode and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.models import settled
from orchestrator.models.coverage import counted, unreachable_operators
from orchestrator.models.inert import Call, Global, Pairs, Value
from orchestrator.models.listing import Listing
from orchestrator.models.settled import settled_branches

M = "__torch__.M"
Row = tuple[str, int, int]
OPERATORS = (
    ("aten::eq", "int", 2),
    ("aten::ne", "str", 2),
    ("aten::relu", "", 1),
    ("aten::__is__", "", 2),
    ("toy::any", "", 1),
    ("aten::append", "t", 2),
    ("aten::max", "dim", 3),
    ("aten::clear", "t", 1),
    ("aten::add", "int", 2),
    ("aten::__not__", "", 1),
    ("aten::eq", "float", 2),
    ("aten::lt", "int", -1),
    ("aten::len", "str", 1),
    ("aten::lt", "str", 2),
    ("aten::add", "str", 2),
)
EQ, NE, RELU, IS, ANY_ONE, APPEND, MAX, CLEAR, ADD, NOT, EQ_FLOAT, LT = range(12)
LEN_TEXT, LT_TEXT, ADD_TEXT = range(12, len(OPERATORS))
CONSTANTS: tuple[Value, ...] = (12, "zeros", None, True, 1.0)
TWELVE, ZEROS, NONE, TRUE, ONE = range(len(CONSTANTS))
TYPES = ("int", "str", "NoneType", "Tensor")
SELF = ("STOREN", 1, 2)


def row(text: str) -> Row:
    name, *numbers = text.split()
    x, n = (*map(int, numbers), 0, 0)[:2]
    return name, x, n


def rows(text: str) -> tuple[Row, ...]:
    """Of `LOAD 1; JF 2`: what a function does after it has stored `self` and a tensor."""
    return (SELF, *(row(one.strip()) for one in text.split(";")))


def made(text: str, name: str = f"{M}.forward") -> Value:
    return (
        name,
        (
            ("instructions", rows(text)),
            ("operators", OPERATORS),
            ("constants", CONSTANTS),
            ("types", TYPES),
            ("register_size", 9),
        ),
        (),
    )


def thing(of: str = M, **attributes: Any) -> Call:
    module, _, name = of.rpartition(".")
    return Call(Global(module, name), Pairs([*attributes.items()]))


def ways(text: str, data: Value, *others: Value) -> dict[int, bool]:
    """The settled branches of `forward`, by their instruction."""
    return dict(settled_branches((8, made(text), *others), data).get(f"{M}.forward", {}))


# if self.a == 12: ..., for the slot of an attribute
ASKS = f"LOAD 1; GET_ATTR 0; LOADC {TWELVE}; OP {EQ}; JF 2; LOAD 2; RET"
AT = 5


def test_an_attribute_that_nothing_sets_decides() -> None:
    assert ways(ASKS, thing(a=12)) == {AT: True}
    assert ways(ASKS, thing(a=5)) == {AT: False}
    # a list may grow, a bool is no number, and another class has other slots
    for other in ([12], True, 12.0, None, thing()):
        assert ways(ASKS, thing(a=other)) == {}
    assert ways(ASKS, thing("__torch__.N", a=12)) == {}
    assert ways(ASKS, None) == {}


def setter(text: str) -> Value:
    return made(text, f"{M}.change")


@pytest.mark.parametrize(
    "text",
    [
        "LOAD 1; LOAD 2; SET_ATTR 0; RET",
        # of an object that is not known which it is
        "LOAD 2; LOAD 2; SET_ATTR 0; RET",
        # below an operator whose results are not counted, the object is not known either
        f"LOAD 1; LOAD 2; LOAD 2; LOAD 2; OP {MAX}; STOREN 3 2; LOAD 2; SET_ATTR 0; RET",
        # may be called with anything that holds the object
        f"LOAD 1; OP {ANY_ONE}; RET",
        "LOAD 1; LIST_CONSTRUCT 0 1; RET",
        "LOAD 1; TUPLE_CONSTRUCT 1; RET",
        f"LOAD 2; LOAD 1; INTERFACE_CALL {ZEROS} 2; RET",
        # objects of which the file knows nothing
        "CREATE_OBJECT 0; RET",
        # in a loop, or where a branch is not settled
        "LOAD 2; LOAD 2; LOOP 4 2; LOAD 1; LOAD 2; SET_ATTR 0; RET",
        "LOAD 2; JF 4; LOAD 1; LOAD 2; SET_ATTR 0; RET",
    ],
)
def test_an_attribute_that_something_may_set_decides_nothing(text: str) -> None:
    assert ways(ASKS, thing(a=12), setter(text)) == {}


@pytest.mark.parametrize(
    "text",
    [
        "LOAD 1; LOAD 2; SET_ATTR 1; RET",
        "LOAD 1; GET_ATTR 1; LOAD 2; SET_ATTR 0; RET",
        # counted: one more of what was there
        f"LOAD 1; LOAD 1; GET_ATTR 1; LOADC {TWELVE}; OP {ADD}; SET_ATTR 1; RET",
        f"LOAD 1; LOAD 2; LOAD 2; OP {APPEND}; SET_ATTR 1; RET",
        # never, as the attribute itself says
        "LOAD 1; GET_ATTR 2; JF 4; LOAD 1; LOAD 2; SET_ATTR 0; RET",
    ],
)
def test_other_attributes_may_be_set(text: str) -> None:
    data = thing(a=12, b=thing("__torch__.N", a=1), c=False)
    assert ways(ASKS, data, setter(text)) == {AT: True}


def test_what_is_set_by_another_name_is_set() -> None:
    """An object has two names, and each of two objects its own attributes."""
    shared = thing("__torch__.N", a=12)
    asks = f"LOAD 1; GET_ATTR 0; GET_ATTR 0; LOADC {TWELVE}; OP {EQ}; JF 2; LOAD 2; RET"
    sets = setter("LOAD 1; GET_ATTR 1; LOAD 2; SET_ATTR 0; RET")
    assert ways(asks, thing(a=shared, b=shared), sets) == {}
    assert ways(asks, thing(a=shared, b=thing("__torch__.N", a=12)), sets) == {6: True}
    # the object itself may become another one
    moves = setter("LOAD 1; LOAD 2; SET_ATTR 0; RET")
    assert ways(asks, thing(a=shared), moves) == {}


def test_a_method_of_several_objects_is_followed_for_each() -> None:
    asks = made(ASKS, "__torch__.N.one")

    def of(*values: int) -> dict[int, bool]:
        held: dict[str, Any] = {
            f"o{n}": thing("__torch__.N", a=value) for n, value in enumerate(values)
        }
        found = settled_branches((8, asks), thing(**held))
        return dict(found.get("__torch__.N.one", {}))

    assert of(12, 12) == {AT: True}
    assert of(12, 5) == {}
    assert of(*[12] * 33) == {}


def test_an_object_that_reads_its_own_state_has_what_that_sets() -> None:
    of_state = made("LOAD 1; LOAD 2; SET_ATTR 1; RET", f"{M}.__setstate__")
    assert ways(ASKS, thing(a=12), of_state) == {}
    assert ways(ASKS, Call(Global("__torch__", "M"), (12,))) == {}
    twice = Call(Global("__torch__", "M"), Pairs([("a", 12), ("a", 5)]))
    assert ways(ASKS, twice) == {}


def load(slot: int) -> str:
    return f"LOAD 1; GET_ATTR {slot}; "


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        (f"LOADC {TRUE}", True),
        (f"LOADC {TRUE}; __NOT__", False),
        (f"LOADC {TRUE}; OP {NOT}", False),
        (load(0) + f"LOADC {NONE}; __IS__", False),
        (load(0) + f"LOADC {NONE}; __ISNOT__", True),
        (load(2) + f"LOADC {NONE}; OP {IS}", True),
        # a list and a tensor are not None, whatever is in them
        (load(3) + f"LOADC {NONE}; OP {IS}", False),
        (load(4) + f"LOADC {NONE}; OP {IS}", False),
        (load(1) + f"LOADC {ZEROS}; OP {NE}", False),
        (load(5) + f"LOADC {ONE}; OP {EQ_FLOAT}", True),
        (load(0) + f"LOADC {TWELVE}; OP {ADD}; LOADC {TWELVE}; OP {EQ}", False),
        (load(0) + "ISINSTANCE 0 1", True),
        (load(0) + "ISINSTANCE 1 2", False),
        (load(0) + f"STORE 4; LOAD 4; MOVE 4; OP {EQ}", True),
        (load(0) + "STORE 4; LOAD 4; DROPR 4; DROP; " + f"LOADC {TRUE}", True),
    ],
)
def test_conditions_that_are_known(condition: str, held: bool) -> None:
    data = thing(a=12, b="zeros", c=None, d=[], e=Call(Global("torch._utils", "t"), ()), f=1.0)
    at = len(rows(condition))
    assert ways(f"{condition}; JF 2; LOAD 2; RET", data) == {at: held}


@pytest.mark.parametrize(
    "condition",
    [
        "LOAD 2",
        f"LOAD 2; LOADC {NONE}; __IS__",
        # two objects, of which nothing is known but that neither is None
        load(3) + load(3) + "__IS__",
        load(0) + "ISINSTANCE 0 4",
        load(3) + "ISINSTANCE 1 1",
        # an operator that takes what the file does not say
        load(0) + f"LOADC {TWELVE}; OP {LT}",
        # a register of which nothing is known any more
        load(0) + f"STORE 4; LOADC {ZEROS}; STORE 4; LOAD 4; LOADC {TWELVE}; OP {EQ}",
        f"UN_INITIALIZED; LOADC {TWELVE}; OP {EQ}",
        f"LOAD 2; DTYPE; LOADC {TWELVE}; OP {EQ}",
        # too large a number is another one in the runtime
        load(4) + load(4) + f"OP {ADD}; LOADC {TWELVE}; OP {EQ}",
    ],
)
def test_conditions_that_are_not_known(condition: str) -> None:
    data = thing(a=12, b="zeros", c=None, d=[], e=2**62)
    assert ways(f"{condition}; JF 2; LOAD 2; RET", data) == {}


@pytest.mark.parametrize(
    ("texts", "condition", "held"),
    [
        # PyTorch counts and compares bytes; those that are not UTF-8 are surrogates here
        (["\u00e9" * 6], f"OP {LEN_TEXT}; LOADC {TWELVE}; OP {EQ}", True),
        (["\udcff", "\uffff"], f"OP {LT_TEXT}", False),
        (["\u00e9", "z"], f"OP {LT_TEXT}", False),
        (["\udcc3", "\udca9", "\u00e9"], f"OP {ADD_TEXT}; LOAD 1; GET_ATTR 2; OP {NE}", False),
    ],
)
def test_texts_are_bytes(texts: list[str], condition: str, held: bool) -> None:
    data = thing(**{f"a{number}": text for number, text in enumerate(texts)})
    loads = "".join(load(number) for number in range(min(len(texts), 2)))
    at = len(rows(loads + condition))
    assert ways(f"{loads}{condition}; JF 2; LOAD 2; RET", data) == {at: held}


def test_long_texts_are_not_asked() -> None:
    text = "ab" * 10_000
    asks = f"{load(0)}{load(1)}OP {NE}; JF 2; LOAD 2; RET"
    assert ways(asks, thing(a=text, b="ab" * 10_000)) == {}
    # twice as long each time
    doubled = load(0) + f"STORE 3; LOAD 3; LOAD 3; OP {ADD_TEXT}; " * 60
    assert ways(f"{doubled}LOADC {TRUE}; JF 2; LOAD 2; RET", thing(a="ab")) == {
        len(rows(f"{doubled}LOADC {TRUE}")): True
    }


@pytest.mark.parametrize("text", ["LOAD 1", f"LOADC {TRUE}; JF 1", "JMP -9"])
def test_code_that_goes_on_behind_its_end_settles_nothing(text: str) -> None:
    assert ways(text, thing(a=12)) == {}


def test_ways_that_meet_keep_what_both_know() -> None:
    # register 4 is 12 by one way, and 12 or not by the other
    text = (
        f"LOAD 2; JF 4; LOADC {TWELVE}; STORE 4; JMP 3; LOADC {{}}; STORE 4;"
        f" LOAD 4; LOADC {TWELVE}; OP {EQ}; JF 2; LOAD 2; RET"
    )
    assert ways(text.format(TWELVE), thing()) == {11: True}
    assert ways(text.format(ZEROS), thing()) == {}
    # the same on the stack
    text = (
        f"LOAD 2; JF 3; LOADC {TWELVE}; JMP 2; LOADC {{}}; LOADC {TWELVE}; OP {EQ}; JF 2; RET; RET"
    )
    assert ways(text.format(TWELVE), thing()) == {8: True}
    assert ways(text.format(ZEROS), thing()) == {}


def test_what_a_loop_changes_is_not_known_in_it() -> None:
    text = (
        f"LOADC {TWELVE}; STORE 4; LOAD 2; LOAD 2; LOOP 8 2;"
        f" LOAD 4; LOADC {TWELVE}; OP {EQ}; JF 1; LOADC {{}}; STORE {{}}; JMP -7; RET"
    )
    assert ways(text.format(ZEROS, 5), thing()) == {9: True}
    assert ways(text.format(ZEROS, 4), thing()) == {}


def test_results_that_are_not_counted_hide_what_lies_below() -> None:
    for operator, known in ((RELU, True), (CLEAR, False), (ANY_ONE, False), (LT, False)):
        text = f"LOADC {TRUE}; LOAD 2; OP {operator}; STORE 4; JF 2; LOAD 2; RET"
        assert ways(text, thing()) == ({5: True} if known else {}), operator


def test_it_ends_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a result: of a hostile file, too."""
    assert ways("LIST_UNPACK 2000000000; " + ASKS, thing(a=12)) == {}
    assert ways("TUPLE_CONSTRUCT 2000000000; " + ASKS, thing(a=12)) == {}
    assert ways("JMP 99; RET", thing(a=12)) == {}
    monkeypatch.setattr(settled, "MOST_STEPS", 50)
    assert ways(ASKS, thing(a=12)) == {AT: True}
    monkeypatch.setattr(settled, "MOST_STEPS", 5)
    assert ways(ASKS, thing(a=12)) == {}
    assert settled_branches((8, "no function", (1, 2)), None) == {}


def listed(text: str, operators: dict[int, str], known: dict[int, bool]) -> Listing:
    names = tuple(one.split()[0] for one in text.split(";"))
    jumps = {
        at: at + int(one.split()[1])
        for at, one in enumerate(text.split(";"))
        if one.split()[0] in ("JF", "JMP")
    }
    return Listing(f"{M}.forward", names, jumps, operators, settled=known)


# if c: relu() else: sin(); relu()
IF = "LOAD; JF 3; OP; JMP 2; OP; OP; RET"
CALLED = {2: "aten::relu", 4: "aten::sin", 5: "aten::relu"}


@pytest.mark.parametrize(
    ("known", "names", "instructions", "branches"),
    [
        ({}, [], {0, 1, 2, 3, 4, 5, 6}, 2),
        ({1: True}, ["aten::sin"], {0, 1, 2, 3, 5, 6}, 1),
        # the other call of `relu` runs
        ({1: False}, [], {0, 1, 4, 5, 6}, 1),
    ],
)
def test_what_no_input_can_take_counts_for_nothing(
    known: dict[int, bool], names: Sequence[str], instructions: set[int], branches: int
) -> None:
    of = listed(IF, CALLED, known)
    assert [*unreachable_operators([of])] == [*names]
    found = counted(of)
    assert found.instructions == instructions
    assert len(found.held) + len(found.failed) == branches
    # another function calls it
    assert unreachable_operators([of, listed("OP; RET", {0: "aten::sin"}, {})]) == {}


def test_what_ends_in_an_error_can_be_reached() -> None:
    of = listed("LOAD; JF 3; OP; RAISE_EXCEPTION; RET", {2: "aten::format"}, {})
    assert counted(of).instructions == {0, 1, 4}
    assert unreachable_operators([of]) == {}
