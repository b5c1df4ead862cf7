"""An archive is unpacked as it is, and never leaves its folder whatever it tries."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from orchestrator.runtime import archive as module
from orchestrator.runtime.archive import (
    ArchiveBrokenError,
    ArchiveTooLargeError,
    ArchiveUnsafeError,
    unpack,
)

FILES = {"top/a.txt": b"a", "top/in/b.txt": b"bb" * 3000, "top/in/er/c": b""}

Entry = tuple[str, bytes, str]  # name, tar type, link target


def tar_bytes(files: dict[str, bytes], entries: tuple[Entry, ...] = ()) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
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


def refused(tmp_path: Path, content: bytes) -> str:
    """What the error saw; nothing may be outside the folder, nor under the refused name."""
    with pytest.raises(ArchiveUnsafeError) as caught:
        unpacked(tmp_path, content)
    assert {entry.name for entry in tmp_path.iterdir()} == {"archive", "into"}
    assert caught.value.what == "the archive holds a member that is not safe to unpack"
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


def test_modes_are_not_taken_over(tmp_path: Path) -> None:
    unpacked(tmp_path, tar_bytes(FILES))
    assert stat.S_IMODE((tmp_path / "into/a.txt").stat().st_mode) & 0o7111 == 0


def test_links_that_stay_inside(tmp_path: Path) -> None:
    entries = (
        ("top/in/soft", tarfile.SYMTYPE, "../a.txt"),
        ("top/hard", tarfile.LNKTYPE, "top/in/b.txt"),
    )
    found = unpacked(tmp_path, tar_bytes(FILES, entries))
    assert found["in/soft"] == b"a"
    assert (tmp_path / "into/in/soft").is_symlink()
    assert found["hard"] == FILES["top/in/b.txt"]


EVIL_NAMES = ["/etc/x", "../x", "top/../../x", "top/../x", "..", "top//x", "top/./x"]


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_a_path_that_leaves_is_refused_in_tar(tmp_path: Path, name: str) -> None:
    seen = refused(tmp_path, tar_bytes({"top/a": b"", name: b"evil"}))
    assert seen == f"{name}: a path that leaves the archive's folder"


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_a_path_that_leaves_is_refused_in_zip(tmp_path: Path, name: str) -> None:
    seen = refused(tmp_path, zip_bytes({"top/a": b"", name: b"evil"}))
    assert seen == f"{name}: a path that leaves the archive's folder"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE], ids=["symlink", "hardlink"])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../etc/passwd", "../x", "in/../../../x"])
def test_a_link_that_leaves_is_refused(tmp_path: Path, kind: bytes, target: str) -> None:
    seen = refused(tmp_path, tar_bytes(FILES, (("top/link", kind, target),)))
    assert seen == f"top/link: a link to {target}, outside the archive's folder"


def test_a_link_that_leaves_is_refused_in_zip(tmp_path: Path) -> None:
    content = zip_bytes({"top/link": b"../../x"}, {"top/link": stat.S_IFLNK | 0o777})
    assert refused(tmp_path, content).startswith("top/link: a link to ../../x, outside")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """The classic: a link to a folder first, then a file below it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        link = tarfile.TarInfo("top/link")
        link.type, link.linkname = tarfile.SYMTYPE, "in"
        tar.addfile(link)
        below = tarfile.TarInfo("top/link/x")
        below.size = 4
        tar.addfile(below, io.BytesIO(b"evil"))
    assert refused(tmp_path, buffer.getvalue()) == "top/link: a path that is there already"
    assert not (tmp_path / "into/in").exists()
    assert not (tmp_path / "into/link").is_symlink()


def test_a_hard_link_to_nothing_is_refused(tmp_path: Path) -> None:
    seen = refused(tmp_path, tar_bytes(FILES, (("top/link", tarfile.LNKTYPE, "top/gone"),)))
    assert seen == "top/link: a hard link to top/gone, which was not unpacked"


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
    assert refused(tmp_path, buffer.getvalue()) == "top/a: a path that is there already"


def test_a_file_below_a_file_is_refused(tmp_path: Path) -> None:
    seen = refused(tmp_path, tar_bytes({"top/a": b"", "top/a/b": b""}))
    assert seen == "top/a/b: a path that is there already"


def test_too_many_bytes(tmp_path: Path) -> None:
    with pytest.raises(ArchiveTooLargeError) as caught:
        unpacked(tmp_path, tar_bytes(FILES), max_bytes=6000)
    assert caught.value.expected == "at most 500,000 members and 6,000 bytes"


def test_too_many_bytes_that_are_not_wanted(tmp_path: Path) -> None:
    with pytest.raises(ArchiveTooLargeError):
        unpacked(tmp_path, zip_bytes(FILES), max_bytes=6000, wanted=lambda path: False)


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMBERS", 2)
    with pytest.raises(ArchiveTooLargeError):
        unpacked(tmp_path, tar_bytes(FILES))


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
        f"{tmp_path}/archive: error: the archive is not one folder\n"
        "  expected: every member inside top/\n"
        "  seen:     other/b"
    )


def test_an_archive_without_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ArchiveBrokenError) as caught:
        unpacked(tmp_path, tar_bytes({"a": b""}))
    assert caught.value.what == "the archive is not one folder"
