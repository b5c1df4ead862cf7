from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from orchestrator.deliver import files
from orchestrator.deliver.files import (
    EPOCH,
    RECORD,
    DuplicateFileError,
    File,
    ForeignFileError,
    ForeignFolderError,
    UnwritableError,
    replacing_folder,
    tidy_folder,
    write_folder,
    write_package,
)
from orchestrator.system.exchange import exchange
from orchestrator.system.folders import MARKER, is_ours
from orchestrator.system.reading import file_sha256


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MARKER
    }


def put(folder: Path, texts: dict[str, bytes]) -> None:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_bytes(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_folder_holds_exactly_the_files(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"copied")
    target = tmp_path / "dist/camera/linux"
    write_folder(target, [File("b/c", b"C"), File("a", source)])
    write_folder(target, [File("b/d", b"D"), File("a", source)])
    assert tree(target) == {"a": b"copied", "b/d": b"D"}
    assert is_ours(target)
    assert names(target.parent) == ["linux"]


def test_times_and_modes_are_fixed_whatever_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        write_folder(tmp_path / "out", [File("lib/x.so", b"", executable=True), File("y", b"")])
    finally:
        os.umask(mask)
    modes = {
        str(path.relative_to(tmp_path)): (oct(path.stat().st_mode & 0o777), path.stat().st_mtime)
        for path in (tmp_path / "out", *(tmp_path / "out").rglob("*"))
    }
    assert modes == {
        "out": ("0o755", EPOCH),
        f"out/{MARKER}": ("0o644", EPOCH),
        "out/lib": ("0o755", EPOCH),
        "out/lib/x.so": ("0o755", EPOCH),
        "out/y": ("0o644", EPOCH),
    }


def test_someone_elses_folder_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "thesis.txt").write_text("years of work")
    with pytest.raises(ForeignFolderError) as caught:
        write_folder(target, [File("a", b"")])
    assert caught.value.render() == (
        f"{target}: error: this was not written by the orchestrator, so it is not replaced\n"
        f"  expected: nothing, or a folder with the file {MARKER}\n"
        "  seen:     a folder without it\n"
        "  do:       move it away, or deliver to another folder"
    )
    assert tree(target) == {"thesis.txt": b"years of work"}


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_or_a_link_in_the_way_is_left_alone(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    other = tmp_path / "other"
    other.mkdir()
    if kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to(other)
    with pytest.raises(ForeignFolderError) as caught:
        write_folder(target, [File("a", b"")])
    assert caught.value.seen == f"a {kind}"
    assert names(other) == []


def test_two_files_of_one_path_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(DuplicateFileError) as caught:
        write_folder(tmp_path / "out", [File("a", b"1"), File("a", b"2")])
    assert caught.value.seen == "a"
    assert names(tmp_path) == []


def test_a_full_disk_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    write_folder(target, [File("a", b"old")])

    def full(self: File, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(File, "write", full)
    with pytest.raises(UnwritableError) as caught:
        write_folder(target, [File("a", b"new")])
    assert caught.value.seen == "No space left on device"
    assert tree(target) == {"a": b"old"}
    assert names(tmp_path) == ["out"]


def test_what_a_killed_delivery_left_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "dist/linux"
    write_folder(target, [File("a", b"1")])
    # killed between two renames, and before it had written anything
    target.rename(target.with_name(".linux.old-1234"))
    target.with_name(".linux.new-5678").mkdir()
    # not ours, and another's
    for name in (".linux.old-mine", ".linux-arm64.old-1"):
        target.with_name(name).mkdir()
        (target.with_name(name) / "kept").touch()
    write_folder(target, [File("a", b"2")])
    assert names(target.parent) == [".linux-arm64.old-1", ".linux.old-mine", "linux"]
    assert (target / "a").read_bytes() == b"2"


@pytest.fixture(params=["in one step", "by two renames"])
def swapped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a folder takes another's place: a file system may know no exchange."""
    if request.param == "by two renames":
        monkeypatch.setattr(files, "exchange", lambda one, other: False)
    return str(request.param)


def test_this_machine_exchanges_names_in_one_step(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a/file").read_text() == "b"
    assert (tmp_path / "b/file").read_text() == "a"
    assert not exchange(tmp_path / "a", tmp_path / "none")
    assert names(tmp_path) == ["a", "b"]


def test_a_folder_takes_its_place_when_it_was_looked_at(tmp_path: Path, swapped: str) -> None:
    target = tmp_path / "out"
    write_folder(target, [File("a", b"old")])
    with replacing_folder(target, [File("a", b"new")]) as stage:
        assert stage.parent == target.parent
        assert tree(stage) == {"a": b"new"}
        assert tree(target) == {"a": b"old"}
    assert tree(target) == {"a": b"new"}
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("before", [True, False])
def test_what_is_raised_while_it_is_looked_at_leaves_the_old_one(
    tmp_path: Path, before: bool
) -> None:
    target = tmp_path / "out"
    if before:
        write_folder(target, [File("a", b"old")])
    # an error of the disk that is not about the delivery
    with pytest.raises(FileNotFoundError), replacing_folder(target, [File("a", b"new")]):
        raise FileNotFoundError
    assert names(tmp_path) == (["out"] if before else [])
    assert not before or tree(target) == {"a": b"old"}


def test_what_somebody_puts_there_meanwhile_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "out"
    work = {"thesis.txt": b"years of work"}
    with pytest.raises(ForeignFolderError), replacing_folder(target, [File("a", b"new")]):
        put(target, work)
    assert tree(target) == work
    assert names(tmp_path) == ["out"]


def test_a_failing_rename_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"
    write_folder(target, [File("a", b"old")])
    rename = Path.rename

    def failing(self: Path, other: Path) -> Path:
        if ".new-" in self.name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return rename(self, other)

    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(UnwritableError, match="the delivery cannot be written"):
        write_folder(target, [File("a", b"new")])
    assert tree(target) == {"a": b"old"}
    assert names(tmp_path) == ["out"]


def test_a_swap_that_was_killed_between_two_renames_is_undone(tmp_path: Path) -> None:
    target = tmp_path / "out"
    write_folder(target, [File("a", b"old")])
    target.rename(tmp_path / ".out.old-12")
    (tmp_path / ".out.old-mine").mkdir()
    (tmp_path / ".out.old-mine/kept").touch()
    write_folder(tmp_path / ".out.new-34", [File("a", b"new")])
    tidy_folder(target)
    assert tree(target) == {"a": b"old"}
    assert names(tmp_path) == [".out.old-mine", "out"]


def test_package_is_made_once_and_again_when_its_parts_change(tmp_path: Path) -> None:
    target = tmp_path / "dist/p.tar"
    assert write_package(target, "digest 1", lambda file: file.write(b"one"))
    assert not write_package(target, "digest 1", lambda file: pytest.fail("made again"))
    assert write_package(target, "digest 2", lambda file: file.write(b"two"))
    assert target.read_bytes() == b"two"
    assert target.stat().st_mtime == EPOCH
    assert json.loads((target.parent / RECORD).read_text()) == {
        "p.tar": {
            "made_of": "digest 2",
            "sha256": File("", b"two").sha256(),
            "before": File("", b"one").sha256(),
        }
    }


def test_what_a_killed_package_left_is_removed_though_nothing_is_made_again(tmp_path: Path) -> None:
    target = tmp_path / "p.tar"
    write_package(target, "digest 1", lambda file: file.write(b"one"))
    for left in (
        ".p.tar.new-a1b2c3d4",
        f".{RECORD}.new-a1b2c3d4",
        ".mine.new-a1b2c3d4",
        "p.tar.new-1",
    ):
        (tmp_path / left).write_bytes(b"half")
    assert not write_package(target, "digest 1", lambda file: pytest.fail("made again"))
    assert names(tmp_path) == [".mine.new-a1b2c3d4", RECORD, "p.tar", "p.tar.new-1"]


@pytest.mark.parametrize("before", ["foreign", "changed"])
def test_a_file_that_is_not_ours_is_left_alone(before: str, tmp_path: Path) -> None:
    target = tmp_path / "p.tar"
    if before == "changed":
        write_package(target, "digest 1", lambda file: file.write(b"one"))
    target.write_bytes(b"mine")
    with pytest.raises(ForeignFileError) as caught:
        write_package(target, "digest 2", lambda file: file.write(b"two"))
    assert caught.value.seen == f"a file with sha256 {File('', b'mine').sha256()}"
    assert target.read_bytes() == b"mine"


def test_an_interrupted_package_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "p.tar"
    write_package(target, "digest 1", lambda file: file.write(b"one"))

    def interrupted(file: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_package(target, "digest 2", interrupted)
    assert target.read_bytes() == b"one"
    assert names(tmp_path) == [RECORD, "p.tar"]


def test_a_crash_between_record_and_package_does_not_disown_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "p.tar"
    write_package(target, "digest 1", lambda file: file.write(b"one"))
    replace = Path.replace

    def killed(self: Path, other: Path) -> Path:
        if other == target:
            raise KeyboardInterrupt
        return replace(self, other)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write_package(target, "digest 2", lambda file: file.write(b"two"))
    assert target.read_bytes() == b"one"
    assert write_package(target, "digest 2", lambda file: file.write(b"two"))
    assert target.read_bytes() == b"two"


@pytest.mark.parametrize("record", ["{", None])
def test_without_its_record_a_package_is_replaced_only_by_the_same(
    record: str | None, tmp_path: Path
) -> None:
    target = tmp_path / "p.tar"
    write_package(target, "digest 1", lambda file: file.write(b"one"))
    written = (tmp_path / RECORD).read_text()
    (tmp_path / RECORD).unlink()
    if record is not None:
        (tmp_path / RECORD).write_text(record)
    with pytest.raises(ForeignFileError):
        write_package(target, "digest 1", lambda file: file.write(b"two"))
    assert target.read_bytes() == b"one"
    assert write_package(target, "digest 1", lambda file: file.write(b"one"))
    assert json.loads((tmp_path / RECORD).read_text())["p.tar"].items() >= (
        json.loads(written)["p.tar"].items()
    )
    assert not write_package(target, "digest 1", lambda file: pytest.fail("made again"))


def settled(path: Path, content: bytes) -> None:
    """Write a file, and wait until the kernel's clock for files has gone on."""
    path.write_bytes(content)
    time.sleep(2 * files._CLOCK_STEP_NS / 1e9)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are read for their digests."""
    read: list[Path] = []

    def noted(path: Path) -> str:
        read.append(path)
        return file_sha256(path)

    monkeypatch.setattr(files, "file_sha256", noted)
    monkeypatch.setattr(files, "_DIGESTS", {})
    return read


def test_a_digest_is_remembered_while_the_file_is_as_it_was(
    tmp_path: Path, reads: list[Path]
) -> None:
    path = tmp_path / "a"
    settled(path, b"one")
    digests = {File("", path).sha256() for _ in range(3)}
    assert (digests, reads) == ({hashlib.sha256(b"one").hexdigest()}, [path])
    times = path.stat()
    settled(path, b"two")
    # its own time is set back: that of the change cannot be
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert File("", path).sha256() == hashlib.sha256(b"two").hexdigest()


def test_the_digest_of_a_file_that_has_only_just_changed_is_not_remembered(
    tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel's clock for files stands still, a second change leaves the same times."""
    monkeypatch.setattr(files, "_CLOCK_STEP_NS", 3_600_000_000_000)
    path = tmp_path / "a"
    for content in (b"one", b"two"):
        path.write_bytes(content)
        assert File("", path).sha256() == hashlib.sha256(content).hexdigest()
        assert File("", path).sha256() == hashlib.sha256(content).hexdigest()
    assert reads == [path] * 4


def test_no_more_digests_are_remembered_than_a_few_megabytes(
    tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOST_DIGESTS", 3)
    paths = [tmp_path / str(number) for number in range(5)]
    for path in paths:
        path.write_bytes(b"")
    time.sleep(2 * files._CLOCK_STEP_NS / 1e9)
    for path in paths:
        File("", path).sha256()
    assert len(files._DIGESTS) == 2
    assert len(reads) == 5
