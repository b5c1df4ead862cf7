"""Folders and files that we write: atomic, reproducible, and never over foreign files.

Contract: a folder that we write carries the marker of `execute.folders`; a package file that we
write is listed with its sha256 in the `RECORD` next to it. Only a folder with the marker or a
listed file is replaced, or one with the same content: a copy of `dist` may lack the record, whose
name begins with a dot. Files get mode 0644 or 0755 and the fixed time `EPOCH`, whatever the umask
and the clock say, so that the content does not depend on when or by whom it was made.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.exchange import exchange
from orchestrator.system.folders import MARKER, is_ours, remove_folder
from orchestrator.system.reading import file_sha256, plain_status, read_json

RECORD: Final = ".packages.json"
# 2023-01-01: after 1980 (zip's first year), and in nobody's future.
EPOCH: Final = 1672531200
# sha256 by the state of a file: several packages hold one delivery, and deliveries have headers in
# common. A few megabytes, which is seven deliveries with headers.
_DIGESTS: Final = dict[tuple[int, ...], str]()
_MOST_DIGESTS: Final = 1 << 15
# The kernel's clock for files goes in steps (at most 10 ms, CONFIG_HZ=100).
_CLOCK_STEP_NS: Final = 20_000_000
# Between the name of what is written and random characters: staged, not yet in its place.
_NEW: Final = ".new-"
_MARKER_TEXT: Final = "This folder is written, replaced and removed by the orchestrator.\n"


class ForeignFolderError(OrchestratorError):
    """The folder to write exists and does not carry our marker."""


class ForeignFileError(OrchestratorError):
    """The package to write exists with other content, and not as we wrote it before."""


class UnwritableError(OrchestratorError):
    """The destination cannot be written: full, read-only or not permitted."""


class DuplicateFileError(OrchestratorError):
    """Two files claim one path of a delivery."""


@dataclass(frozen=True)
class File:
    """One file to write: `path` is relative to the folder, with `/`.

    `content` is its bytes, or the file to copy them from: archives are too large to be held.
    """

    path: str
    content: bytes | Path
    executable: bool = False

    @property
    def mode(self) -> int:
        """The permission bits of the written file: 0o755 for programs and shared libraries, else
        0o644."""
        return 0o755 if self.executable else 0o644

    def size(self) -> int:
        """The size in bytes. Raises OSError where the file to copy does not exist."""
        if isinstance(self.content, bytes):
            return len(self.content)
        return self.content.stat().st_size

    def sha256(self) -> str:
        """Digest of the content; raises `OSError` where the file to copy cannot be read."""
        if isinstance(self.content, bytes):
            return hashlib.sha256(self.content).hexdigest()
        return _sha256_of(self.content)

    def write(self, target: Path) -> None:
        """Write the content to `target`, which is overwritten; permissions are not set. Raises
        OSError."""
        if isinstance(self.content, bytes):
            target.write_bytes(self.content)
        else:
            shutil.copyfile(self.content, target)


def _sha256_of(path: Path) -> str:
    """The digest of a file, which is not read again while it is as it was.

    A state is an inode with its size and times; `st_ctime` cannot be set. A file that has only just
    changed may change again within the same step of the kernel's clock: it is not remembered.
    """
    status = plain_status(path)
    state = (
        *(status.st_dev, status.st_ino, status.st_size),
        *(status.st_mtime_ns, status.st_ctime_ns),
    )
    digest = _DIGESTS.get(state)
    if digest is None:
        settled = time.time_ns() - _CLOCK_STEP_NS > status.st_ctime_ns
        digest = file_sha256(path)
        if settled:
            if len(_DIGESTS) >= _MOST_DIGESTS:
                _DIGESTS.clear()
            _DIGESTS[state] = digest
    return digest


def in_order(files: Iterable[File]) -> tuple[File, ...]:
    """The files sorted by path; raises `DuplicateFileError` where two have one path."""
    ordered = sorted(files, key=lambda file: file.path)
    for one, other in pairwise(ordered):
        if one.path == other.path:
            raise DuplicateFileError(
                "two files of the delivery have the same path",
                expected="one source for each path",
                seen=one.path,
            )
    return tuple(ordered)


def write_folder(target: Path, files: Iterable[File]) -> None:
    """Makes `target` hold exactly `files` and the marker; the old folder stays until the end.

    Raises `ForeignFolderError`, `DuplicateFileError`, `UnwritableError`; then nothing has changed.
    """
    with replacing_folder(target, files):
        pass


@contextmanager
def replacing_folder(target: Path, files: Iterable[File]) -> Iterator[Path]:
    """A folder next to `target` with `files` and the marker, to check; at the end it is `target`.

    What is raised inside leaves `target` as it was, and so does a kill at any moment: see `_swap`.
    Raises what `write_folder` raises.
    """
    ordered = in_order([*files, File(MARKER, _MARKER_TEXT.encode())])
    refuse_foreign_folder(target)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        tidy_folder(target)
        stage = Path(tempfile.mkdtemp(prefix=f".{target.name}{_NEW}", dir=target.parent))
    try:
        with writing(target):
            _fill(stage, ordered)
        yield stage
        # The check took time.
        refuse_foreign_folder(target)
        with writing(target):
            _swap(stage, target)
    finally:
        with suppress(OSError):
            _discard(stage)


def tidy_folder(target: Path) -> None:
    """Removes the leftovers of a killed delivery next to `target`, and restores what it moved.

    Only for the process that delivers there: it would remove another one's staging folder. Raises
    `OSError`.
    """
    for old in target.parent.glob(f".{target.name}.old-*"):
        if not os.path.lexists(target) and is_ours(old):
            old.rename(target)
    _sweep(target)


def files_below(folder: Path) -> Iterator[str]:
    """Paths of all that is not a folder below `folder`, relative to it, with `/`.

    A link is not followed. Nothing where there is no such folder.
    """
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]
        inner = os.path.relpath(place, folder)
        yield from (name if inner == "." else f"{inner}/{name}" for name in (*names, *links))


def refuse_foreign_folder(target: Path) -> None:
    """Raises `ForeignFolderError` unless `target` is missing, empty, or ours."""
    if not target.exists() and not target.is_symlink():
        return
    if target.is_dir() and not target.is_symlink():
        if is_ours(target) or not any(target.iterdir()):
            return
        seen = "a folder without it"
    else:
        seen = "a link" if target.is_symlink() else "a file"
    raise ForeignFolderError(
        "this was not written by the orchestrator, so it is not replaced",
        place=Place(str(target)),
        expected=f"nothing, or a folder with the file {MARKER}",
        seen=seen,
        hint="move it away, or deliver to another folder",
    )


def write_package(
    target: Path,
    made_of: str,
    write: Callable[[BinaryIO], object],
    *,
    hint: str = "move it away, or give the app another package_name or version",
) -> bool:
    """Writes a package file and lists it in the `RECORD` next to it; False where it was up to date.

    `made_of` is a digest of all that the package is made of: one with the same is not made again.
    `write` gets the file to write to. Raises `ForeignFileError`, with this hint, where another file
    is in the way, and `UnwritableError`; then nothing has changed.
    """
    record = target.parent / RECORD
    known = read_record(record)
    entry = known.get(target.name, {})
    with writing(target):
        _sweep_files(target.parent, {RECORD, target.name, *known})
    seen = None
    if target.exists() or target.is_symlink():
        seen = "a link" if target.is_symlink() else sha256_of(target)
        if entry.get("made_of") == made_of and entry.get("sha256") == seen:
            return False
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _replacing(target) as stage:
            with stage.open("wb") as file:
                write(file)
            made = sha256_of(stage)
            if seen not in (None, made, entry.get("sha256"), entry.get("before")):
                raise ForeignFileError(
                    "this file was not written by the orchestrator, so it is not replaced",
                    place=Place(str(target)),
                    expected="no file, or the package that was written before",
                    seen=seen if target.is_symlink() else f"a file with sha256 {seen}",
                    hint=hint,
                )
            _own(record, known, target.name, made_of, made, seen)
    return True


def write_package_folder(
    target: Path,
    made_of: str,
    files: Callable[[], Iterable[File]],
    *,
    hint: str = "move it away, and build again",
) -> bool:
    """Writes a package that is a folder; otherwise as `write_package`, which see.

    Its digest in the record is `folder_digest`: a folder with added files is foreign.
    """
    record = target.parent / RECORD
    known = read_record(record)
    entry = known.get(target.name, {})
    seen = None
    plain = target.is_dir() and not target.is_symlink()
    if os.path.lexists(target) and not (plain and not any(target.iterdir())):
        seen = folder_digest(target) if plain and is_ours(target) else ""
        if entry.get("made_of") == made_of and entry.get("sha256") == seen:
            return False
    with replacing_folder(target, files()) as stage, writing(target):
        made = folder_digest(stage)
        if seen not in (None, made, entry.get("sha256"), entry.get("before")):
            raise ForeignFileError(
                "this folder was not written by the orchestrator, so it is not replaced",
                place=Place(str(target)),
                expected="no folder, or the package that was written before",
                seen="other files, or a modified file",
                hint=hint,
            )
        _own(record, known, target.name, made_of, made, seen)
    return True


def _own(
    record: Path,
    known: dict[str, dict[str, str]],
    name: str,
    made_of: str,
    sha256: str,
    before: str | None,
) -> None:
    """List a package in its record before it takes its place.

    The record lists the old one too, so that a crash in between orphans neither.
    """
    written = {"made_of": made_of, "sha256": sha256}
    if before is not None:
        written["before"] = before
    if "slot" in known.get(name, {}):
        written["slot"] = known[name]["slot"]
    known[name] = written
    write_record(record, known)


def folder_digest(folder: Path) -> str:
    """Digest of the paths and contents of all files in a folder that we wrote, without the
    marker."""
    names = sorted(name for name in files_below(folder) if name != MARKER)
    lines = "".join(f"{sha256_of(folder / name)}  {name}\n" for name in names)
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


def read_record(record: Path) -> dict[str, dict[str, str]]:
    """Read a `RECORD`: file name -> made_of, sha256, before, slot; empty if it is damaged."""
    try:
        seen = read_json(record)
    except (OSError, ValueError):
        return {}
    if not isinstance(seen, dict):
        return {}
    return {str(name): entry for name, entry in seen.items() if isinstance(entry, dict)}


def write_record(record: Path, known: dict[str, dict[str, str]]) -> None:
    """Write a `RECORD` as JSON, all or nothing: file name -> facts about it. Raises OSError."""
    with _replacing(record) as stage:
        stage.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def sha256_of(path: Path) -> str:
    """sha256 (hex) of a file; where it cannot be read, `unknown (...)` with the reason, for
    messages."""
    try:
        return File("", path).sha256()
    except OSError as cause:
        return f"unknown ({cause.strerror})"


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A temporary file next to `target`, which replaces it at the end or is removed."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}{_NEW}", dir=target.parent)
    os.close(handle)
    stage = Path(name)
    try:
        yield stage
        _set_mode(stage, 0o644)
        stage.replace(target)
    finally:
        stage.unlink(missing_ok=True)


def _sweep(target: Path) -> None:
    """Remove the leftovers of a killed delivery next to `target`: ours by marker, or empty."""
    for kind in ("new", "old"):
        for left in target.parent.glob(f".{target.name}.{kind}-*"):
            _discard(left)


def _sweep_files(folder: Path, names: Container[str]) -> None:
    """Remove what writes of these files that were killed left in a folder; see `_replacing`."""
    if not folder.is_dir():
        return
    for left in list(folder.iterdir()):
        name, part, _ = left.name.removeprefix(".").rpartition(_NEW)
        if part and left.name.startswith(".") and name in names and not left.is_dir():
            left.unlink()


def _discard(folder: Path) -> None:
    """Remove a folder that is ours or empty; interrupted half-way, it keeps its marker."""
    if folder.is_symlink() or not folder.is_dir():
        return
    if is_ours(folder):
        remove_folder(folder)
    elif not any(folder.iterdir()):
        folder.rmdir()


def _fill(stage: Path, files: Iterable[File]) -> None:
    folders = {""}
    for file in files:
        for folder in _new_folders(file.path, folders):
            (stage / folder).mkdir()
            folders.add(folder)
        path = stage / file.path
        file.write(path)
        _set_mode(path, file.mode)
    # Inner ones first: a folder's time changes when something is put into it.
    for folder in sorted(folders, reverse=True):
        _set_mode(stage / folder, 0o755)


def _new_folders(path: str, known: Container[str]) -> list[str]:
    """The folders above a file that are not among `known`, outermost first."""
    missing = []
    folder = path.rpartition("/")[0]
    while folder not in known:
        missing.append(folder)
        folder = folder.rpartition("/")[0]
    return missing[::-1]


def _set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)
    os.utime(path, (EPOCH, EPOCH))


def _swap(stage: Path, target: Path) -> None:
    """Puts `stage` where `target` is; what was there is at `stage` then, if anything was.

    In one step where the system can. Else in two, since POSIX replaces no folder that holds files;
    the old folder has a name of its own between them, by which `tidy_folder` finds it.
    """
    if not os.path.lexists(target):
        stage.rename(target)
    elif not exchange(stage, target):
        old = target.with_name(f".{target.name}.old-{secrets.token_hex(8)}")
        target.rename(old)
        try:
            stage.rename(target)
        except BaseException:
            old.rename(target)
            raise
        # A half-removed folder must not be found.
        old.rename(stage)


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn an OSError inside of the block into UnwritableError at `target`; the message says that
    nothing was changed, so what is inside must stage its files."""
    try:
        yield
    except OSError as cause:
        raise UnwritableError(
            "the delivery cannot be written",
            place=Place(str(target)),
            expected="a writable folder with free space",
            seen=cause.strerror or str(cause),
            hint="nothing was changed; free some space or change the permissions, and build again",
        ) from cause
