"""Objects that take symbols from a library."""

from __future__ import annotations

import pytest
from elf_objects import (
    FUNCTION,
    GLOBAL,
    LOCAL,
    NONE,
    OBJECT,
    THREAD,
    WEAK,
    Symbol,
    elf_object,
    symbols_of,
)

from orchestrator.binary.elf_imports import (
    NotObjectError,
    defined_names,
    importing,
    linked_names,
)

HAS = {"had": "l_a", "inlined": "l_b", "data": "l_c", "own": "l_d", "thread": "l_e"}
OBJECT_FILE = elf_object(
    [
        Symbol("had"),
        Symbol("inlined", bind=WEAK),
        Symbol("data", kind=OBJECT),
        Symbol("thread", kind=THREAD, section=0),
        Symbol("own", bind=LOCAL),
        Symbol("new"),
        Symbol("elsewhere", section=0, kind=NONE, visibility=0),
    ]
)


def test_what_the_library_has_is_taken_from_it_by_its_name_there() -> None:
    found = symbols_of(importing(OBJECT_FILE, HAS.get))
    # defined no more, no weak reference (which may stay without a definition), and visible
    assert found["l_a"] == (GLOBAL, NONE, 0, 0)
    assert found["l_b"] == (GLOBAL, NONE, 0, 0)
    assert found["l_c"] == (GLOBAL, NONE, 0, 0)
    assert found["l_e"] == (GLOBAL, THREAD, 0, 0)
    # the rest is as it was: also a symbol of the object's own with such a name
    assert found["own"] == (LOCAL, FUNCTION, 2, 1)
    assert found["new"] == (GLOBAL, FUNCTION, 2, 1)
    assert found["elsewhere"] == (GLOBAL, NONE, 0, 0)
    assert not found.keys() & {"had", "inlined", "data", "thread"}


def test_hidden_data_stay_because_code_reaches_them_without_a_table() -> None:
    found = symbols_of(importing(OBJECT_FILE, HAS.get, hidden=True))
    assert found["data"] == (GLOBAL, OBJECT, 2, 1)
    assert found["l_a"] == (GLOBAL, NONE, 0, 0)


def test_an_object_of_which_the_library_has_nothing_stays_byte_for_byte() -> None:
    assert importing(OBJECT_FILE, lambda name: None) == OBJECT_FILE


def test_inline_functions_are_nobodys_own() -> None:
    assert defined_names(OBJECT_FILE) == {"had", "data", "new"}


def test_a_link_sees_inline_functions_and_what_must_be_found_elsewhere() -> None:
    found = linked_names(
        elf_object(
            [
                Symbol("had"),
                Symbol("inlined", bind=WEAK),
                Symbol("own", bind=LOCAL),
                Symbol("elsewhere", section=0, kind=NONE, visibility=0),
                # may stay without a definition
                Symbol("perhaps", bind=WEAK, section=0, kind=NONE, visibility=0),
            ]
        )
    )
    assert found.defined == {"had", "inlined"}
    assert found.wanted == {"elsewhere"}


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"", "a file of 0 bytes (no little-endian ELF file)"),
        (OBJECT_FILE[:200], "a file of 200 bytes (not 5 section headers of 64 bytes)"),
        (elf_object([], kind=3), "(a linked file)"),
        (OBJECT_FILE.replace(b"elsewhere\0", b"elsewhere!"), "(names that do not end)"),
    ],
)
def test_what_is_no_object_is_refused(data: bytes, seen: str) -> None:
    with pytest.raises(NotObjectError) as caught:
        importing(data, HAS.get)
    assert seen in str(caught.value.seen)


def test_every_cut_of_an_object_is_refused_or_read_and_crashes_nothing() -> None:
    for size in range(len(OBJECT_FILE)):
        try:
            importing(OBJECT_FILE[:size], HAS.get)
        except NotObjectError:
            continue
