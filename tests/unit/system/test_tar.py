"""The tar reader: every form that archives of sources have, and no more than is bounded."""

from __future__ import annotations

import io
import random
import tarfile
import time
from contextlib import suppress

import pytest

from orchestrator.system.tar import MAX_EXTENDED, TarDamagedError, tar_members

Seen = tuple[str, str, str, bytes]  # name, kind, target, bytes

LONG = "top/" + "folder/" * 40 + "file.h"
FORMS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
END = bytes(1024)


def seen(data: bytes) -> list[Seen]:
    """All members; bytes of files are read, those of the rest left alone."""
    return [
        (m.name, m.kind, m.target, b"".join(m.chunks()) if m.kind == "file" else b"")
        for m in tar_members(io.BytesIO(data).read)
    ]


def fault(data: bytes) -> str:
    with pytest.raises(TarDamagedError) as caught:
        seen(data)
    return str(caught.value)


def header(
    name: bytes, size: int | bytes = 0, kind: bytes = b"0", magic: bytes = b"ustar\x0000"
) -> bytes:
    """A header with a right checksum; a size as bytes is taken as it is."""
    block = bytearray(512)
    block[: len(name)] = name
    block[124:136] = size if isinstance(size, bytes) else b"%011o\0" % size
    block[156:157] = kind
    block[257:265] = magic
    return summed(block)


def summed(block: bytearray) -> bytes:
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def pax(*records: bytes, kind: bytes = b"x") -> bytes:
    """An extended header of whole records."""
    data = b"".join(records)
    return header(b"pax", len(data), kind) + data + bytes(-len(data) % 512)


def record(key: bytes, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    length += len(str(length + len(str(length))))
    return b"%d %s=%s\n" % (length, key, value)


def written(form: int, *members: tuple[str, bytes, str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name, kind, target, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, target, len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(form: int) -> None:
    name = "top/ä" if form == tarfile.USTAR_FORMAT else LONG
    data = written(
        form,
        ("top", tarfile.DIRTYPE, "", b""),
        (name, tarfile.REGTYPE, "", b"1" * 700),
        ("top/soft", tarfile.SYMTYPE, name, b""),
        ("top/hard", tarfile.LNKTYPE, name, b""),
        ("top/pipe", tarfile.FIFOTYPE, "", b""),
        ("top/last", tarfile.REGTYPE, "", b"2"),
    )
    assert [(m[0].rstrip("/"), *m[1:]) for m in seen(data)] == [
        ("top", "folder", "", b""),
        (name, "file", "", b"1" * 700),
        ("top/soft", "symlink", name, b""),
        ("top/hard", "hardlink", name, b""),
        ("top/pipe", "other", "", b""),
        ("top/last", "file", "", b"2"),
    ]


def test_a_name_in_two_parts() -> None:
    name = "top/" + "d" * 90 + "/" + "e" * 90
    assert seen(written(tarfile.USTAR_FORMAT, (name, tarfile.REGTYPE, "", b"x")))[0][0] == name
    # what stands there in GNU's own form is no part of the name
    block = bytearray(header(b"top/a", magic=b"ustar  \0"))
    block[345:355] = b"1234567890"
    assert seen(summed(block) + END)[0][0] == "top/a"


def test_what_was_written_before_posix() -> None:
    data = header(b"top/", kind=b"\0", magic=bytes(8)) + header(b"top/a", 1, b"\0", bytes(8))
    assert seen(data + b"x" + bytes(511) + END) == [
        ("top/", "folder", "", b""),
        ("top/a", "file", "", b"x"),
    ]


def test_a_checksum_over_signed_bytes() -> None:
    block = bytearray(header(b"top/\xe4"))
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % (sum(block) - 256)
    assert seen(bytes(block) + END)[0][0] == "top/\udce4"


def test_names_that_are_no_utf8_survive() -> None:
    assert seen(pax(record(b"path", b"top/\xff")) + header(b"x") + END)[0][0] == "top/\udcff"


def test_a_size_in_base_256_or_in_an_extended_header() -> None:
    data = b"x" + bytes(511) + END
    assert seen(header(b"top/a", b"\x80" + (1).to_bytes(11)) + data)[0][3] == b"x"
    assert seen(pax(record(b"size", b"1")) + header(b"top/a") + data)[0][3] == b"x"


def test_a_comment_for_all() -> None:
    """What `git archive` writes in front."""
    data = pax(record(b"comment", b"0" * 40), kind=b"g") + header(b"top/a") + END
    assert seen(data) == [("top/a", "file", "", b"")]


def test_the_end_of_the_file_is_an_end() -> None:
    assert seen(header(b"top/a")) == [("top/a", "file", "", b"")]
    assert seen(header(b"top/a") + bytes(512)) == [("top/a", "file", "", b"")]
    assert seen(b"") == []


SPARSE = [
    record(b"GNU.sparse.map", b"a,b") + record(b"GNU.sparse.size", b"5"),
    record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.minor", b"0"),
    record(b"GNU.sparse.numblocks", b"x"),
    record(b"GNU.sparse.map", b"0,1,4000000000,0") + record(b"GNU.sparse.size", b"4000000000"),
]


@pytest.mark.parametrize("records", SPARSE)
def test_files_with_holes_are_known(records: bytes) -> None:
    assert seen(pax(records) + header(b"top/a") + END) == [("top/a", "sparse", "", b"")]


def test_a_file_with_holes_in_the_old_form() -> None:
    assert seen(header(b"top/a", 512, b"S") + bytes(512) + END)[0][1] == "sparse"


class Zeros:
    """An archive that begins with these bytes and never ends; counts what is read of it."""

    def __init__(self, head: bytes) -> None:
        self.head = io.BytesIO(head)
        self.count = 0

    def read(self, size: int) -> bytes:
        self.count += size
        data = self.head.read(size)
        return data + bytes(size - len(data))


@pytest.mark.parametrize("kind", [b"x", b"X", b"g", b"L", b"K"])
@pytest.mark.parametrize("size", [MAX_EXTENDED, 1200 * 2**20, 2**80])
def test_an_extended_header_beyond_reason_is_not_read(kind: bytes, size: int) -> None:
    zeros = Zeros(header(b"pax", b"\x80" + size.to_bytes(11), kind))
    with pytest.raises(TarDamagedError, match="extended headers of more than 1,048,576 bytes"):
        list(tar_members(zeros.read))
    assert zeros.count == 512


def test_extended_headers_are_limited_together() -> None:
    """Any number of them may stand in front of a member; none calls for another."""
    assert fault(header(b"x", kind=b"L") * 5000).startswith("extended headers of more than")
    many = pax(record(b"comment", b"c" * 9000)) * 100
    assert seen((many + header(b"top/a")) * 3 + END) == [("top/a", "file", "", b"")] * 3


@pytest.mark.parametrize(
    "records",
    [
        b"1" * (MAX_EXTENDED - 2048),
        b"5 a=\n" * ((MAX_EXTENDED - 2048) // 5),
        b"1" * 300 + b" a=b\n",
        b"0 a=b\n",
        b"-5 a=b\n",
        b"99999999999999999999 a=b\n",
        b"6 a=b",
        b"5 ab\n",
        b"=",
    ],
    ids=lambda records: str(records[:24]),
)
def test_an_extended_header_takes_linear_time(records: bytes) -> None:
    """Python 3.11.7's own reader takes 6 s for 64 KB of the first, half an hour for all of it."""
    data = pax(records) + header(b"top/a") + END
    before = time.process_time()
    if records.startswith(b"5 a=\n"):
        assert seen(data) == [("top/a", "file", "", b"")]
    else:
        assert fault(data) == "a damaged extended header"
    assert time.process_time() - before < 2


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"no archive", "truncated header"),
        (b"x" * 512, "a damaged number in a header"),
        (header(b"top/a")[:100] + b"1" + header(b"top/a")[101:], "a header with a wrong checksum"),
        (header(b"top/a", b"x" * 12), "a damaged number in a header"),
        (header(b"top/a", b"\xff" * 12), "a negative number in a header"),
        (header(b"top/a", 600) + bytes(512), "unexpected end of data"),
        (header(b"top/a", 600) + bytes(800), "unexpected end of data"),
        (header(b"top/a", b"\x80" + (2**80).to_bytes(11)) + END, "unexpected end of data"),
        (pax(record(b"path", b"top/a")), "nothing follows an extended header"),
        (pax(record(b"path", b"top/a")) + END, "nothing follows an extended header"),
        (pax(record(b"size", b"-1")) + header(b"top/a") + END, "a size that is no number"),
        (pax(record(b"size", b"9" * 5000)) + header(b"top/a") + END, "a size that is no number"),
        (pax(record(b"path", b"x"), kind=b"g"), "one name or size for all members"),
        (pax(record(b"GNU.sparse.map", b"1"), kind=b"g"), "one name or size for all members"),
    ],
)
def test_damaged_headers(data: bytes, text: str) -> None:
    assert fault(data) == text


def test_bytes_that_nobody_asks_for_are_passed_over() -> None:
    data = written(tarfile.USTAR_FORMAT, *((f"top/{n}", b"0", "", b"x" * 600) for n in range(3)))
    names = [member.name for member in tar_members(io.BytesIO(data).read)]
    assert names == ["top/0", "top/1", "top/2"]


def test_a_file_is_given_in_pieces() -> None:
    data = written(tarfile.GNU_FORMAT, ("top/a", b"0", "", b"x" * 200_000))
    sizes = []

    def read(size: int) -> bytes:
        sizes.append(size)
        return stream.read(size)

    stream = io.BytesIO(data)
    assert sum(len(c) for m in tar_members(read) for c in m.chunks()) == 200_000
    assert max(sizes) == 2**16


@pytest.mark.parametrize(
    "tail", [b"x" * 11, b"12345678 path=b\n", b"3 =\n", b" 9 a=b\n", b"0 a=b\n"]
)
def test_a_record_behind_a_good_one_that_ends_nowhere(tail: bytes) -> None:
    """It was read again and again, without end: its length was taken for 0."""
    data = record(b"path", b"ab") + tail
    member = header(b"pax", len(data), b"x") + data + bytes(-len(data) % 512)
    assert fault(member + header(b"x") + END) == "a damaged extended header"


def test_damaged_records_end() -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        data = bytearray(record(b"path", b"top/a") + record(b"size", b"12"))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(b"0123456789 =\nax")
        with suppress(TarDamagedError):
            seen(
                header(b"pax", len(data), b"x") + bytes(data).ljust(512, b"\0") + header(b"x") + END
            )
