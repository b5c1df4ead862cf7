"""Archives made at random and damaged: unpacked, or refused by an error of ours; never more.

Whatever the bytes are: no file outside of the folder, none copied into it from there, no link, none
left of a refused archive; no more than 2 seconds and 500 MB.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import re
import resource
import shutil
import tarfile
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import zstandard
from harness import Campaign

from orchestrator.errors import OrchestratorError
from orchestrator.source.tree import TreeRules, digest_files, tree_files
from orchestrator.source.unpack import unpack
from orchestrator.system.tar import tar_members

SECONDS: Final = 2.0
MEGABYTES: Final = 500
OUTCOMES: Final = {
    *("unpacked", "ArchiveBrokenError", "ArchiveUnsafeError", "ArchiveTooLargeError"),
}
SECRET: Final = b"beside the folder"

NAMES: Final = (
    *("t/a", "t/b.h", "t/d/c.h", "t/d", "t", "t/l", "t/l/x", "t/l/l", "t/d/l/../x", "./t/z", "u/x"),
    *("t/..", "../x", "/abs", "t//y", "t/./q", ".", "", "t/é", "t/a\nb", "t/\udcff", "t/a\\b"),
    *(
        "t/" + "n" * 120,
        "t/" + "n" * 300,
        "t/" + "d/" * 150 + "x",
        "t/" + "d" * 200 + "/" + "e" * 99,
    ),
)
TARGETS: Final = (
    *(
        "a",
        "t/a",
        "./t/a",
        "../t/a",
        "..",
        "../..",
        ".",
        "",
        "/etc/passwd",
        "t/d",
        "b.h",
        "l",
        "t/l",
    ),
    *("x/../t/a", "d/../../t", "t/../secret", "../secret", "into/../secret", "x" * 200, "x" * 5000),
)
TYPES: Final = (b"0", b"5", b"2", b"1", b"\0", b"7", b"3", b"6", b"S", b"L", b"K", b"x", b"g", b"V")
PAX_KEYS: Final = (
    *("path", "size", "linkpath", "mtime", "uid", "hdrcharset", "comment", "SCHILY.xattr.user.x"),
    *("GNU.sparse.map", "GNU.sparse.size", "GNU.sparse.major", "GNU.sparse.minor"),
    *("GNU.sparse.realsize", "GNU.sparse.numblocks", "GNU.sparse.name"),
)
PAX_VALUES: Final = (
    *("1", "0", "-1", "x", "9" * 30, "9" * 5000, "t/zz", "../zz", "0,5,10,1", "0,1,4000000000,0"),
    *("nan", "inf", "1e400", "BINARY", "a\0b", "t/a"),
)
MODES: Final = (0, 0o100644, 0o120777, 0o040755, 0o020000, 0o010000)
# What stands in a header where a number should be.
NUMBERS: Final = (
    *(b"\xff" * 12, b"\x80" + bytes(10) + b"\x05", b"\x80" + b"\x01" * 11, b"77777777777\0"),
    *(bytes(12), b" " * 12, b"00000000001\0", b"99999999999\0", b"-0000000001\0"),
)
RECORD: Final = re.compile(rb"\d+ [A-Za-z.]+=[^\n]*\n")
PACKERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "tar": bytes,
    "gz": lambda data: gzip.compress(data, 1),
    "bz2": lambda data: bz2.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": zstandard.ZstdCompressor().compress,
}


def test_damaged_archives(campaign: Campaign, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes: set[str] = set()
    for number, rng in campaign.tries(short=200, long=20_000):
        box = tmp_path / "box"
        into = box / "staging" / "into"
        into.mkdir(parents=True)
        beside = {into.parent / "secret": SECRET, into.parent / "t/a": SECRET, box / "x": b""}
        for path, content in beside.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        archive = tmp_path / "archive"
        archive.write_bytes(made(rng))
        began = time.process_time()
        outcome = unpacked(archive, into, rng)
        outcomes.add(outcome)
        spent = time.process_time() - began
        used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        where = f"seed {campaign.seed}, try {number}"
        assert spent < SECONDS, where
        assert used < MEGABYTES, where
        assert_contained(box, into, beside, outcome != "unpacked", where)
        shutil.rmtree(box)
    # Nothing is tried where all archives end alike.
    assert outcomes >= OUTCOMES or campaign.only is not None


def test_the_reader_agrees_with_pythons(campaign: Campaign) -> None:
    """On archives that are not damaged; on others Python's raises whatever it meets."""
    compared = 0
    for number, rng in campaign.tries(short=200, long=20_000):
        data = tar(rng, sane=True)
        with tarfile.open(fileobj=io.BytesIO(data)) as theirs:
            expected = [
                (info.name, info.type, info.linkname, content(theirs, info)) for info in theirs
            ]
        kinds = {"file": b"0", "folder": b"5", "symlink": b"2", "hardlink": b"1", "other": b"?"}
        seen = [
            (m.name.rstrip("/"), kinds[m.kind], m.target, b"".join(m.chunks()))
            for m in tar_members(io.BytesIO(data).read)
        ]
        assert seen == expected, f"seed {campaign.seed}, try {number}"
        compared += len(seen)
    assert compared or campaign.only is not None


def unpacked(archive: Path, into: Path, rng: random.Random) -> str:
    """How it ended; an exception of another kind ends the campaign."""
    suffix = rng.choice(["", "", ".h"])
    try:
        unpack(archive, into, lambda path: path.endswith(suffix))
    except OrchestratorError as error:
        return type(error).__name__ if error.render() else ""
    with suppress(OrchestratorError):
        digest_files(into, tree_files(into, TreeRules(("**",))))
    return "unpacked"


def assert_contained(
    box: Path, into: Path, beside: Mapping[Path, bytes], refused: bool, where: str
) -> None:
    inside = sorted(into.rglob("*"))
    others = {path for path in box.rglob("*") if path not in inside and not path.is_dir()}
    assert others == set(beside), where
    assert all(path.read_bytes() == content for path, content in beside.items()), where
    assert not any(path.is_symlink() for path in inside), where
    assert not any(path.read_bytes() == SECRET for path in inside if path.is_file()), where
    assert not (refused and inside), where


def made(rng: random.Random) -> bytes:
    """One archive, whole or damaged inside, packed, and damaged again or not."""
    if rng.random() < 0.2:
        data = zipped(rng)
        return damaged(rng, data) if rng.random() < 0.6 else data
    data = tar(rng)
    if rng.random() < 0.2:
        data = records_damaged(rng, data)
    if rng.random() < 0.5:
        data = summed(damaged(rng, data))
    if rng.random() < 0.03:
        # as large as it may be, or larger; packs to nearly nothing
        data += bytes(rng.choice([2**20, 20 * 2**20]))
    data = PACKERS[rng.choice(["tar", *PACKERS])](data)
    return damaged(rng, data) if rng.random() < 0.2 else data


def tar(rng: random.Random, sane: bool = False) -> bytes:
    """A tar archive; a `sane` one holds what archives of sources do."""
    out = io.BytesIO()
    form = rng.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for _ in range(rng.choice([1, 3, 6])):
            info = tarfile.TarInfo(f"t/f{rng.randrange(9)}")
            if rng.random() < 0.5:
                info.name = rng.choice(NAMES[:10] + NAMES[-4:] if sane else NAMES)
            info.type = rng.choice(TYPES[:4] if sane or rng.random() < 0.6 else TYPES)
            info.linkname = rng.choice(TARGETS) if info.type in b"12" or not sane else ""
            data = rng.randbytes(rng.choice([0, 1, 512, 600, 70_000 if sane else 5000]))
            info.size = len(data) if info.isreg() else 0
            if form == tarfile.PAX_FORMAT and rng.random() < 0.3 and not sane:
                info.pax_headers = {rng.choice(PAX_KEYS): rng.choice(PAX_VALUES)}
            # names that this form cannot write
            with suppress(ValueError):
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    if not info.isreg():
        return b""
    stream = archive.extractfile(info)
    assert stream
    return stream.read()


def zipped(rng: random.Random) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names that are there twice
        with zipfile.ZipFile(out, "w") as archive:
            for _ in range(rng.choice([1, 3, 6])):
                name = rng.choice(NAMES) or "t/q"
                info = zipfile.ZipInfo(name.encode(errors="ignore").decode())
                info.external_attr = rng.choice(MODES) << 16
                info.compress_type = rng.choice([0, 8, 8, 12, 14])
                text = rng.choice(TARGETS).encode()
                archive.writestr(info, text if rng.random() < 0.5 else rng.randbytes(500))
    return out.getvalue()


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Some bytes changed, numbers of headers replaced, pieces cut out, or the end."""
    changed = bytearray(data)
    for _ in range(rng.choice([0, 1, 2, 8])):
        if not changed:
            break
        at = rng.randrange(min(len(changed), rng.choice([600, 3000, 10**6])))
        way = rng.randrange(5)
        if way == 0:
            changed[at] = rng.randrange(256)
        elif way == 1:
            changed[at : at + 12] = rng.choice(NUMBERS)
        elif way == 2:
            size = at // 512 * 512 + 124
            changed[size : size + 12] = rng.choice(NUMBERS)
        elif way == 3:
            del changed[at : at + rng.choice([1, 512])]
        else:
            del changed[at:]
    return bytes(changed)


def records_damaged(rng: random.Random, data: bytes) -> bytes:
    """A record of an extended header (POSIX pax) with another length, key or end, or a bare one."""
    found = [*RECORD.finditer(data)]
    if not found:
        return data
    one = rng.choice(found)
    start, end = one.span()
    other = rng.choice(
        [
            *(b"0 ", b"1 x=", b"-5 a=b\n", b"12", b"  9 a=b\n", b"9" * 60 + b" a=b\n", b"\n\n"),
            b"%d %s=%s" % (rng.choice([3, 5, 4000, 2**33]), b"path", b"t/y"),
        ]
    )
    # the last of a header, or one behind which others stand
    at = rng.choice([start, end])
    return data[:at] + other + data[at + len(other) :]


def summed(data: bytes) -> bytes:
    """With the right checksum in all headers, so that a reader looks at the rest of them."""
    changed = bytearray(data)
    for at in range(0, len(changed) - 511, 512):
        if changed[at + 257 : at + 262] == b"ustar":
            changed[at + 148 : at + 156] = b" " * 8
            changed[at + 148 : at + 156] = b"%06o\0 " % sum(changed[at : at + 512])
    return bytes(changed)
