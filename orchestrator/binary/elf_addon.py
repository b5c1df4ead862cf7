"""Finishes a linked add-on: which library it is for, and when its initialisers run.

Contract: `finish` takes the bytes of a linked shared object and returns the same number of bytes.
It writes the library's build id and description into the note of `native/capi/addon_note.h`. It
removes the initialisers' entries from the dynamic section, so that the loader runs none of them:
the library runs them after it has compared the build id, and catches what they throw.
"""

from __future__ import annotations

import struct
from typing import Final

from orchestrator.binary.elf_imports import NotObjectError

NOTE_SECTION: Final = ".note.lta.addon"
# The note's header and name, then the version of its form (see addon_note.h).
_BEFORE: Final = 16 + 4
_BUILD_ID: Final = 20
_TEXT: Final = 108
_DYNAMIC: Final = 6
_INITIALISERS: Final = frozenset((12, 25, 27))  # DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ


def finish(data: bytes, build_id: str, made_for: str) -> bytes:
    """The add-on for the library of a build id (40 hex digits), described for people.

    Raises NotObjectError for what has no such note or no dynamic section.
    """
    out = bytearray(data)
    try:
        note, dynamic = _sections(data)
    except (struct.error, ValueError, IndexError) as cause:
        raise _not_addon(data, str(cause)) from cause
    if note is None or dynamic is None:
        raise _not_addon(data, f"no {NOTE_SECTION if note is None else 'dynamic section'}")
    at, size = note
    if size != _BEFORE + _BUILD_ID + _TEXT:
        raise _not_addon(data, f"a note of {size} bytes")
    text = made_for.encode()[: _TEXT - 1]
    out[at + _BEFORE : at + size] = bytes.fromhex(build_id) + text.ljust(_TEXT, b"\0")
    _drop(out, *dynamic)
    return bytes(out)


def _sections(data: bytes) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    wide = data[4] == 2
    if wide:
        (at,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
    else:
        (at,) = struct.unpack_from("<I", data, 32)
        size, count, names = struct.unpack_from("<HHH", data, 46)
    layout = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    rows = [struct.unpack_from(layout, data, at + i * size) for i in range(count)]
    strings = data[rows[names][4] : rows[names][4] + rows[names][5]]
    note = dynamic = None
    for row in rows:
        name = strings[row[0] : strings.index(b"\0", row[0])].decode()
        if name == NOTE_SECTION:
            note = row[4], row[5]
        elif row[1] == _DYNAMIC:
            dynamic = row[4], row[5]
    return note, dynamic


def _drop(out: bytearray, at: int, size: int) -> None:
    entry = struct.Struct("<QQ" if out[4] == 2 else "<II")
    rows = [row for row in entry.iter_unpack(out[at : at + size]) if row[0] not in _INITIALISERS]
    kept = b"".join(entry.pack(*row) for row in rows)
    out[at : at + size] = kept.ljust(size, b"\0")


def _not_addon(data: bytes, seen: str) -> NotObjectError:
    return NotObjectError(
        "this is not a linked add-on",
        expected="a shared object of native/addon/register.cpp",
        seen=f"a file of {len(data)} bytes ({seen})",
    )
