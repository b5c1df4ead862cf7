"""Linked add-ons are finished: the library's build id, and no initialisers for the loader."""

from __future__ import annotations

import struct

import pytest
from elf_objects import elf

from orchestrator.binary.elf_addon import NOTE_SECTION, finish
from orchestrator.binary.elf_imports import NotObjectError

BUILD_ID = "e122bdb6cc92d19a50835612917f609c3140af10"
NOTE = struct.pack("<III4sI", 4, 132, 1, b"LTA\0", 1) + bytes(128)
# DT_NEEDED, DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_SYMTAB, DT_NULL
ENTRIES = [(1, 5), (12, 7), (25, 0x58), (27, 8), (6, 0x328), (0, 0)]
DYNAMIC = b"".join(struct.pack("<QQ", *entry) for entry in ENTRIES)


def linked(note: bytes = NOTE, dynamic: bytes | None = DYNAMIC) -> bytes:
    sections = {".text": (1, b"\xc3", 0), NOTE_SECTION: (7, note, 0)}
    if dynamic is not None:
        sections[".dynamic"] = (6, dynamic, 0)
    return elf(sections, kind=3)


def test_the_note_tells_which_library_it_is_for() -> None:
    done = finish(linked(), BUILD_ID, "camera 1.0.0 for linux-x86_64")
    at = done.index(b"LTA\0") + 8
    assert done[at : at + 20].hex() == BUILD_ID
    assert done[at + 20 : at + 128] == b"camera 1.0.0 for linux-x86_64".ljust(108, b"\0")
    assert len(done) == len(linked())


def test_a_long_name_is_cut_and_still_ends() -> None:
    done = finish(linked(), BUILD_ID, "x" * 300)
    at = done.index(b"LTA\0") + 28
    assert done[at : at + 108] == b"x" * 107 + b"\0"


def test_the_loader_finds_no_initialisers() -> None:
    done = finish(linked(), BUILD_ID, "camera")
    at = linked().index(DYNAMIC)
    rows = list(struct.iter_unpack("<QQ", done[at : at + len(DYNAMIC)]))
    assert rows == [(1, 5), (6, 0x328), (0, 0), (0, 0), (0, 0), (0, 0)]


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (linked(note=NOTE[:100]), "a note of 100 bytes"),
        (linked(dynamic=None), "no dynamic section"),
        (elf({".dynamic": (6, DYNAMIC, 0)}, kind=3), f"no {NOTE_SECTION}"),
        (linked()[:90], "requires a buffer"),
    ],
)
def test_what_is_no_add_on_is_refused(data: bytes, seen: str) -> None:
    with pytest.raises(NotObjectError) as caught:
        finish(data, BUILD_ID, "camera")
    assert seen in str(caught.value.seen)
