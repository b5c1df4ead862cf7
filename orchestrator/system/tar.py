"""Reads a tar archive as a stream, with bounded time and memory whatever its bytes are.

The formats are POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header", and the two
additions of GNU tar that archives of sources hold: long names (types L and K) and numbers in base
256 (GNU tar's manual, "Basic Tar Format" and "Extensions").

Why not Python's `tarfile`: it reads an extended header in one piece, whatever size it claims,
searches it in quadratic time (CVE-2024-6232, fixed in 3.11.10: 64 KB take 6 s), recurses once per
header, and raises a dozen kinds of exceptions for damaged bytes. All of this happens before a
caller could refuse the file. tests/campaigns/test_archives.py compares the two readers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["file", "folder", "symlink", "hardlink", "sparse", "other"]

# Long names, access lists, extended attributes: of one member, all together.
MAX_EXTENDED: Final = 2**20

_BLOCK: Final = 512
_CHUNK: Final = 2**16
_KINDS: Final[Mapping[bytes, Kind]] = {
    b"0": "file",
    b"\0": "file",  # before POSIX
    b"7": "file",  # "contiguous", on a system that had such
    b"5": "folder",
    b"2": "symlink",
    b"1": "hardlink",
    b"S": "sparse",  # GNU's old form
}
_EXTENDED: Final = b"xXgLK"
_SPARSE: Final = b"GNU.sparse."


class TarDamagedError(Exception):
    """The bytes are no tar archive, or a damaged one; the text says how."""


@dataclass(frozen=True)
class Member:
    """An entry of an archive: `target` is the text of a link, `chunks` gives a file's bytes, once,
    as does `data` in pieces of any size.

    Names are as in the archive; bytes that are no UTF-8 are surrogates, as in os.fsdecode.
    """

    name: str
    kind: Kind
    target: str
    chunks: Callable[[], Iterator[bytes]]
    data: Data | None = None


def tar_members(read: Callable[[int], bytes]) -> Iterator[Member]:
    """The members in their order; a file's bytes must be asked for before the next member is.

    `read` gives as many bytes as it is asked for, fewer at the end. What it raises is let through.
    Raises `TarDamagedError`.
    """
    while (header := _next_header(read)) is not None:
        name, kind, target, size = header
        # of all other kinds no bytes follow, whatever their headers say
        data = Data(read, size if kind == "file" else 0)
        yield Member(name, kind, target, data.chunks, data)
        data.skip()


class Data:
    """The bytes of one member, and what fills its last block up."""

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        self.size = size
        self._read = read
        self._left = size

    def read(self, size: int) -> bytes:
        """The next bytes; fewer at the end."""
        data = _whole(self._read, min(size, self._left))
        self._left -= len(data)
        return data

    def chunks(self) -> Iterator[bytes]:
        while self._left:
            yield self.read(_CHUNK)

    def skip(self) -> None:
        for _ in self.chunks():
            pass
        _whole(self._read, -self.size % _BLOCK)


def _next_header(read: Callable[[int], bytes]) -> tuple[str, Kind, str, int] | None:
    """Name, kind, target and size of the next member, None at the end of the archive."""
    pax: dict[bytes, bytes] = {}
    long: dict[bytes, bytes] = {}
    room = MAX_EXTENDED
    while True:
        block = read(_BLOCK)
        if not block.strip(b"\0") and len(block) in (0, _BLOCK):
            # The end is two empty blocks; that of a file counts too, as with other readers.
            if pax or long:
                raise TarDamagedError("nothing follows an extended header")
            return None
        kind, size = _checked(block)
        if kind not in _EXTENDED:
            return _described(block, _KINDS.get(kind, "other"), size, pax, long)
        room -= size + _BLOCK
        if room < 0:
            raise TarDamagedError(f"extended headers of more than {MAX_EXTENDED:,} bytes")
        data = _whole(read, size + -size % _BLOCK)[:size]
        if kind in b"LK":
            long[kind] = data.partition(b"\0")[0]
        elif kind == b"g":
            _check_global(_records(data))
        else:
            pax |= _records(data)


def _checked(block: bytes) -> tuple[bytes, int]:
    """Type and size of a header whose checksum is right."""
    if len(block) < _BLOCK:
        raise TarDamagedError("truncated header")
    # The sum is over the header with blanks in its own place; old writers took bytes as signed.
    others = block[:148] + b" " * 8 + block[156:]
    seen, unsigned = _number(block[148:156]), sum(others)
    if seen != unsigned and seen != unsigned - 256 * sum(byte > 127 for byte in others):
        raise TarDamagedError("a header with a wrong checksum")
    return block[156:157], _number(block[124:136])


def _described(
    block: bytes, kind: Kind, size: int, pax: Mapping[bytes, bytes], long: Mapping[bytes, bytes]
) -> tuple[str, Kind, str, int]:
    name = block[:100].partition(b"\0")[0]
    # GNU's own format has other things where POSIX has the name's first part
    prefix = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    name = prefix + b"/" + name if prefix else name
    name = pax.get(b"path") or long.get(b"L") or name
    target = pax.get(b"linkpath") or long.get(b"K") or block[157:257].partition(b"\0")[0]
    if b"size" in pax:
        if not re.fullmatch(rb"[0-9]{1,20}", pax[b"size"]):
            raise TarDamagedError("a size that is no number")
        size = int(pax[b"size"])
    if any(key.startswith(_SPARSE) for key in pax):
        kind = "sparse"
    elif kind == "file" and block[156:157] == b"\0" and name.endswith(b"/"):
        kind = "folder"  # as it was written before POSIX
    return _text(name), kind, _text(target), size


_LENGTH: Final = re.compile(rb"([0-9]{1,7}) ")


def _records(data: bytes) -> dict[bytes, bytes]:
    """The records of a pax header: `<length> <key>=<value>\\n`, the length of all of it."""
    found: dict[bytes, bytes] = {}
    at = 0
    # some writers fill up with zeros
    while at < len(data) and data[at]:
        head = _LENGTH.match(data, at)
        end = at + int(head[1]) if head else 0
        key, equals, value = data[head.end() if head else 0 : max(end - 1, 0)].partition(b"=")
        # `equals` is behind the length, so that every record ends behind where it began
        if not equals or end > len(data) or data[end - 1] != ord("\n"):
            raise TarDamagedError("a damaged extended header")
        found[key] = value
        at = end
    return found


def _check_global(records: Mapping[bytes, bytes]) -> None:
    """A header for all that follow may have a comment (git's has); names and sizes are of one."""
    if any(key in (b"path", b"linkpath", b"size") or key.startswith(_SPARSE) for key in records):
        raise TarDamagedError("one name or size for all members")


def _number(field: bytes) -> int:
    """Octal digits, or GNU's base 256, which the first bit tells."""
    if field[0] & 0x80:
        if field[0] & 0x40:
            raise TarDamagedError("a negative number in a header")
        return int.from_bytes(bytes([field[0] & 0x3F]) + field[1:])
    digits = field.partition(b"\0")[0].strip(b" ")
    if not re.fullmatch(rb"[0-7]*", digits):
        raise TarDamagedError("a damaged number in a header")
    return int(digits or b"0", 8)


def _whole(read: Callable[[int], bytes], size: int) -> bytes:
    data = read(size)
    if len(data) < size:
        raise TarDamagedError("unexpected end of data")
    return data


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
