"""An archive is unpacked as it is, and never leaves its folder whatever it tries."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from orchestrator.source import members
from orchestrator.source.members import ArchiveBrokenError, ArchiveTooLargeError
from orchestrator.source.unpack import ArchiveUnsafeError, unpack

FILES = {"top/a.txt": b"a", "top/in/b.txt": b"bb" * 3000, "top/in/er/c": b""}

Entry = tuple[str, bytes, str]  # name, tar type, link target


def tar_bytes(
    files: dict[str, bytes], entries: tuple[Entry, ...] = (), form: int = tarfile.PAX_FORMAT
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o4777
            tar.addfile(info, io.BytesIO(content))
        for name, kind, target in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            tar.addfile(info)
    return buffer.getvalue()


def zip_bytes(files: dict[str, bytes], modes: dict[str, int] | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.external_attr = (modes or {}).get(name, stat.S_IFREG | 0o644) << 16
            archive.writestr(info, content)
    return buffer.getvalue()


def unpacked(tmp_path: Path, content: bytes, **options: object) -> dict[str, bytes]:
    file, into = tmp_path / "archive", tmp_path / "into"
    file.write_bytes(content)
    into.mkdir()
    unpack(file, into, **options)  # type: ignore[arg-type]
    return {f.relative_to(into).as_posix(): f.read_bytes() for f in into.rglob("*") if f.is_file()}


def refused(tmp_path: Path, content: bytes, **options: object) -> str:
    """What the error saw; nothing may be left, inside the folder or outside of it."""
    with pytest.raises(ArchiveUnsafeError) as caught:
        unpacked(tmp_path, content, **options)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "archive", tmp_path / "into"]
    assert caught.value.what == "the archive contains a member that is not safe to unpack"
    assert caught.value.place
    assert caught.value.place.file == str(tmp_path / "archive")
    assert caught.value.seen
    return caught.value.seen


@pytest.mark.parametrize(
    "pack",
    [
        lambda data: data,
        gzip.compress,
        bz2.compress,
        lzma.compress,
        zstandard.ZstdCompressor().compress,
    ],
    ids=["tar", "gz", "bz2", "xz", "zst"],
)
def test_tar_in_every_compression(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    found = unpacked(tmp_path, pack(tar_bytes(FILES)))
    assert found == {"a.txt": b"a", "in/b.txt": b"bb" * 3000, "in/er/c": b""}


def test_zip(tmp_path: Path) -> None:
    found = unpacked(tmp_path, zip_bytes({"top/": b""} | FILES))
    assert found == {"a.txt": b"a", "in/b.txt": b"bb" * 3000, "in/er/c": b""}


def test_only_what_is_wanted_is_written(tmp_path: Path) -> None:
    found = unpacked(tmp_path, tar_bytes(FILES), wanted=lambda path: path == "in/er/c")
    assert found == {"in/er/c": b""}


def test_names_with_a_leading_dot_slash(tmp_path: Path) -> None:
    entries = (("./", tarfile.DIRTYPE, ""), ("./top", tarfile.DIRTYPE, ""))
    assert unpacked(tmp_path, tar_bytes({"./top/a": b"1"}, entries)) == {"a": b"1"}


def test_an_archive_without_a_folder_at_its_top(tmp_path: Path) -> None:
    hard = (("b", tarfile.LNKTYPE, "in/a"),)
    flat = tar_bytes({".x": b"0", "in/a": b"1"}, hard)
    assert unpacked(tmp_path, flat, flat=True) == {".x": b"0", "in/a": b"1", "b": b"1"}


def test_a_flat_archive_is_as_safe(tmp_path: Path) -> None:
    assert refused(tmp_path, tar_bytes({"../a": b"1"}), flat=True)


def test_modes_are_not_taken_over(tmp_path: Path) -> None:
    unpacked(tmp_path, tar_bytes(FILES))
    assert stat.S_IMODE((tmp_path / "into/a.txt").stat().st_mode) & 0o7111 == 0


def test_a_hard_link_becomes_a_copy(tmp_path: Path) -> None:
    entries = (
        ("top/hard", tarfile.LNKTYPE, "top/in/b.txt"),
        ("top/harder", tarfile.LNKTYPE, "./top/hard"),
    )
    found = unpacked(tmp_path, tar_bytes(FILES, entries))
    assert found["hard"] == found["harder"] == FILES["top/in/b.txt"]
    assert (tmp_path / "into/hard").stat().st_nlink == 1


def counts(path: str) -> bool:
    """As in a source tree: what is wanted is known by its name."""
    return path.endswith((".txt", "c"))


TARGETS = ["a.txt", "/etc/passwd", "../../x", "", "x" * 5000, "a\0b"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_symbolic_link_that_nobody_wants_is_left_out(tmp_path: Path, target: str) -> None:
    """As four of PyTorch's are: where they lead does not matter."""
    content = tar_bytes(FILES, (("top/soft", tarfile.SYMTYPE, target),))
    found = unpacked(tmp_path, content, wanted=counts)
    assert found == {"a.txt": b"a", "in/b.txt": b"bb" * 3000, "in/er/c": b""}
    assert not (tmp_path / "into/soft").is_symlink()


@pytest.mark.parametrize("target", TARGETS)
def test_a_symbolic_link_that_is_wanted_is_refused(tmp_path: Path, target: str) -> None:
    content = tar_bytes(FILES, (("top/soft.txt", tarfile.SYMTYPE, target),))
    seen = refused(tmp_path, content, wanted=counts)
    assert seen == "top/soft.txt: a symbolic link where a file should be"


def test_a_symbolic_link_in_zip(tmp_path: Path) -> None:
    modes = {"top/soft.txt": stat.S_IFLNK | 0o777}
    content = zip_bytes(FILES | {"top/soft.txt": b"../../x"}, modes)
    assert refused(tmp_path, content, wanted=counts).startswith("top/soft.txt: a symbolic link")
    (tmp_path / "into").rmdir()
    content = zip_bytes(FILES | {"top/soft": b"../../x"}, {"top/soft": stat.S_IFLNK | 0o777})
    assert "soft" not in unpacked(tmp_path, content, wanted=counts)


# The first link leads to the top, the second through it out of the archive; the third lies below.
CHAIN = {
    "top/a/b/c/l.txt": "../../..",
    "top/m.txt": "a/b/c/l.txt/../..",
    "top/m.txt/site-packages/evil.txt": "anywhere",
}


@pytest.mark.parametrize("suffix", [".txt", ""], ids=["wanted", "not wanted"])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_chain_of_links_leads_nowhere(tmp_path: Path, kind: str, suffix: str) -> None:
    chain = {name.replace(".txt", suffix): to.replace(".txt", suffix) for name, to in CHAIN.items()}
    if kind == "tar":
        content = tar_bytes(FILES, tuple((n, tarfile.SYMTYPE, to) for n, to in chain.items()))
    else:
        modes = dict.fromkeys(chain, stat.S_IFLNK | 0o777)
        content = zip_bytes(FILES | {n: to.encode() for n, to in chain.items()}, modes)
    if suffix:
        refused(tmp_path, content, wanted=counts)
    else:
        assert len(unpacked(tmp_path, content, wanted=counts)) == 3
        assert {entry.name for entry in tmp_path.iterdir()} == {"archive", "into"}
        assert {entry.name for entry in (tmp_path / "into").iterdir()} == {"a.txt", "in"}


EVIL_NAMES = ["/etc/x", "../x", "top/../../x", "top/../x", "..", "top//x", "top/./x"]


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_a_path_that_leaves_is_refused_in_tar(tmp_path: Path, name: str) -> None:
    seen = refused(tmp_path, tar_bytes({"top/a": b"", name: b"evil"}))
    assert seen == f"{name}: a path that leaves the archive's folder"


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_a_path_that_leaves_is_refused_in_zip(tmp_path: Path, name: str) -> None:
    seen = refused(tmp_path, zip_bytes({"top/a": b"", name: b"evil"}))
    assert seen == f"{name}: a path that leaves the archive's folder"


LEAVING = ["/etc/passwd", "../../etc/passwd", "../x", "in/../../../x", "top/in/../a.txt", ""]


@pytest.mark.parametrize("target", LEAVING)
def test_a_hard_link_that_leaves_is_refused(tmp_path: Path, target: str) -> None:
    seen = refused(tmp_path, tar_bytes(FILES, (("top/link", tarfile.LNKTYPE, target),)))
    assert seen == f"top/link: a link to {target}, outside the archive's folder"


def test_a_hard_link_to_a_file_beside_the_folder(tmp_path: Path) -> None:
    """The top folder is stripped: what is then left of the target may lead out again."""
    (tmp_path / "secret").write_text("secret")
    content = tar_bytes({"top/f": b""}, (("top/got", tarfile.LNKTYPE, "x/../top/../../secret"),))
    with pytest.raises(ArchiveUnsafeError):
        unpacked(tmp_path, content)
    assert list((tmp_path / "into").iterdir()) == []
    # `sibling` is the archive's top and the name of a folder beside it
    (tmp_path / "sibling").mkdir()
    (tmp_path / "sibling/secret").write_text("secret")
    (tmp_path / "into").rmdir()
    entries = (("sibling/got", tarfile.LNKTYPE, "x/../sibling/secret"),)
    with pytest.raises(ArchiveUnsafeError):
        unpacked(tmp_path, tar_bytes({"sibling/f": b""}, entries))
    assert list((tmp_path / "into").iterdir()) == []


def test_a_file_below_a_link_lies_in_a_folder_of_ours(tmp_path: Path) -> None:
    """The classic: a link to a folder first, then a file that would be written through it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        link = tarfile.TarInfo("top/link")
        link.type, link.linkname = tarfile.SYMTYPE, "in"
        tar.addfile(link)
        below = tarfile.TarInfo("top/link/x.txt")
        below.size = 4
        tar.addfile(below, io.BytesIO(b"evil"))
    assert unpacked(tmp_path, buffer.getvalue(), wanted=counts) == {"link/x.txt": b"evil"}
    assert not (tmp_path / "into/link").is_symlink()


def test_a_hard_link_to_nothing_is_refused(tmp_path: Path) -> None:
    seen = refused(tmp_path, tar_bytes(FILES, (("top/link", tarfile.LNKTYPE, "top/gone"),)))
    assert seen == "top/link: a hard link to top/gone, which was not unpacked"


def test_a_hard_link_to_a_file_that_comes_later_is_refused(tmp_path: Path) -> None:
    entries = (("top/link", tarfile.LNKTYPE, "top/a.txt"), ("top/a.txt", tarfile.REGTYPE, ""))
    seen = refused(tmp_path, tar_bytes({}, entries))
    assert seen == "top/link: a hard link to top/a.txt, which was not unpacked"


def test_hard_links_count_as_what_they_copy(tmp_path: Path) -> None:
    links = tuple((f"top/{n}", tarfile.LNKTYPE, "top/big") for n in range(20))
    with pytest.raises(ArchiveTooLargeError):
        unpacked(tmp_path, gzip.compress(tar_bytes({"top/big": bytes(2**20)}, links)))
    assert list((tmp_path / "into").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_special_files_are_refused_in_tar(tmp_path: Path, kind: bytes) -> None:
    seen = refused(tmp_path, tar_bytes(FILES, (("top/dev", kind, ""),)))
    assert seen == "top/dev: a device, pipe or other special file"


def test_special_files_are_refused_in_zip(tmp_path: Path) -> None:
    content = zip_bytes({"top/dev": b""}, {"top/dev": stat.S_IFCHR | 0o666})
    assert refused(tmp_path, content) == "top/dev: a device, pipe or other special file"


def test_a_member_that_is_not_wanted_is_judged_too(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnsafeError):
        unpacked(tmp_path, tar_bytes({"top/a": b"", "top/../../x": b""}), wanted=lambda path: False)


def test_a_file_named_twice_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for content in (b"1", b"2"):
            info = tarfile.TarInfo("top/a")
            info.size = 1
            tar.addfile(info, io.BytesIO(content))
    assert refused(tmp_path, buffer.getvalue()) == "top/a: a duplicate path"


def test_a_file_below_a_file_is_refused(tmp_path: Path) -> None:
    seen = refused(tmp_path, tar_bytes({"top/a": b"", "top/a/b": b""}))
    assert seen == "top/a/b: a duplicate path"


def test_too_many_bytes(tmp_path: Path) -> None:
    with pytest.raises(ArchiveTooLargeError) as caught:
        unpacked(tmp_path, tar_bytes(FILES), max_bytes=6000)
    assert caught.value.expected == "at most 500,000 members and 6,000 bytes"


def test_too_many_bytes_that_are_not_wanted(tmp_path: Path) -> None:
    with pytest.raises(ArchiveTooLargeError):
        unpacked(tmp_path, zip_bytes(FILES), max_bytes=6000, wanted=lambda path: False)


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MAX_MEMBERS", 2)
    with pytest.raises(ArchiveTooLargeError) as caught:
        unpacked(tmp_path, tar_bytes(FILES))
    assert caught.value.expected == "at most 2 members and 16,777,216 bytes"


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"]
)
@pytest.mark.parametrize("wanted", [True, False])
def test_what_packs_too_well_is_refused_early(
    tmp_path: Path, pack: Callable[[bytes], bytes], wanted: bool
) -> None:
    content = pack(tar_bytes({"top/zeros": bytes(20 * 2**20)}))
    with pytest.raises(ArchiveTooLargeError) as caught:
        unpacked(tmp_path, content, wanted=lambda path: wanted)
    assert caught.value.expected == "at most 500,000 members and 16,777,216 bytes"
    assert list((tmp_path / "into").iterdir()) == []


def test_xz_that_wants_gigabytes_is_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**20}]
    content = bytearray(lzma.compress(tar_bytes(FILES), filters=filters))
    # The block's header: its size in words, flags, the filter, one byte of properties (xz file
    # format, 3.1 and 5.3.1): a dictionary of 3 GB.
    header = content[12 : 12 + (content[12] + 1) * 4]
    header[header.index(0x21) + 2] = 39
    header[-4:] = zlib.crc32(header[:-4]).to_bytes(4, "little")
    content[12 : 12 + len(header)] = header
    with pytest.raises(ArchiveBrokenError) as caught:
        unpacked(tmp_path, bytes(content))
    assert caught.value.seen == "Memory usage limit exceeded"


def test_xz_of_several_streams(tmp_path: Path) -> None:
    data = tar_bytes(FILES)
    streams = [lzma.compress(data[:1000]), bytes(8), lzma.compress(data[1000:])]
    assert unpacked(tmp_path, b"".join(streams))["in/b.txt"] == b"bb" * 3000


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_members_that_zipfile_unpacks_whole_are_refused(tmp_path: Path, method: int) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("top/a", bytes(10**6))
    with pytest.raises(ArchiveBrokenError) as caught:
        unpacked(tmp_path, buffer.getvalue())
    assert caught.value.seen == f"a member is packed by method {method}"
    assert list((tmp_path / "into").iterdir()) == []


def test_a_zip_with_a_table_of_contents_beyond_reason(tmp_path: Path) -> None:
    """As small as it can be made: the table is claimed, and there are as many zeros."""
    with (tmp_path / "archive").open("wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(64 * 2**20)
        file.seek(0, 2)
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, 60 * 2**20, 2**20, 0))
    (tmp_path / "into").mkdir()
    with pytest.raises(ArchiveBrokenError) as caught:
        unpack(tmp_path / "archive", tmp_path / "into")
    assert caught.value.seen == "a central directory larger than any archive needs"


@pytest.mark.parametrize("name", ["n" * 300 + ".txt", "/".join(["d" * 200] * 30) + "/a.txt"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    seen = refused(tmp_path, tar_bytes({f"top/{name}": b""}))
    assert seen.endswith(": a name that the file system does not support")
    assert len(seen) < 400
    (tmp_path / "into").rmdir()
    content = tar_bytes({f"top/{name}": b"", "top/fine": b""})
    assert unpacked(tmp_path, content, wanted=lambda path: path == "fine") == {"fine": b""}


def test_a_path_of_too_many_folders(tmp_path: Path) -> None:
    seen = refused(tmp_path, tar_bytes({"top/" + "d/" * 1500 + "a": b""}))
    assert seen.endswith(": a path of more than 100 folders")


def test_a_fault_late_in_the_archive_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ArchiveBrokenError):
        unpacked(tmp_path, tar_bytes(FILES)[:6000])
    assert list((tmp_path / "into").iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive at all",
        lzma.compress(tar_bytes(FILES))[:80],
        gzip.compress(tar_bytes(FILES))[:60],
        zstandard.ZstdCompressor().compress(os.urandom(5000))[:900],
        gzip.compress(tar_bytes(FILES)[:1800]),
        zip_bytes(FILES)[:-30],
        tar_bytes({}),
    ],
    ids=["empty", "text", "xz cut", "gz cut", "zst cut", "tar cut", "zip cut", "no member"],
)
def test_damaged_archives(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ArchiveBrokenError) as caught:
        unpacked(tmp_path, content)
    assert caught.value.place


def test_an_archive_of_several_folders(tmp_path: Path) -> None:
    with pytest.raises(ArchiveBrokenError) as caught:
        unpacked(tmp_path, tar_bytes({"top/a": b"", "other/b": b""}))
    assert caught.value.render() == (
        f"{tmp_path}/archive: error: the archive has more than one top-level folder\n"
        "  expected: every member inside top/\n"
        "  seen:     other/b"
    )


def test_an_archive_without_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ArchiveBrokenError) as caught:
        unpacked(tmp_path, tar_bytes({"a": b""}))
    assert caught.value.what == "the archive has more than one top-level folder"
