"""Finished objects: named by their inputs, checked by their contents.

ninja writes objects into the workspace, where no other process removes them. The store, which all
of a user's workspaces share, keeps each finished object and provides it again, as a hard link if
possible. An entry's name holds both identities:

    <cache>/objects/ab/<fingerprint of the action>.<sha256 of the content>.o

so that it appears atomically with its digest, and two processes that make the same object
cannot mix theirs. Every provided entry is first compared with its name: an entry that was
truncated, emptied or changed is removed, and the object is compiled again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from orchestrator.system.reading import open_file
from orchestrator.system.staging import part_of, remove, sync_folder

# An entry's name: what of it, the digest of its content, what kind.
ENTRY = re.compile(r"(?P<stem>.+)\.(?P<sha256>[0-9a-f]{64})(?P<suffix>\.[a-z]+)")


@dataclass(frozen=True)
class Restored:
    """Entries that the store put back into a workspace.

    digests  the names that are now in the workspace, checked -> sha256 of their content
    damaged  entries whose content did not match their name; they are removed
    """

    digests: Mapping[str, str]
    damaged: tuple[str, ...]

    @property
    def present(self) -> frozenset[str]:
        return frozenset(self.digests)


@dataclass(frozen=True)
class ObjectStore:
    """Folders of finished files: the first that can be written takes new ones, all are looked in.

    A name is a path below a folder, without the digest: `objects/ab/abcd.o`.
    added: takes the folders that took a file
    """

    folders: tuple[Path, ...]
    added: set[Path] = field(default_factory=set, compare=False)

    def listed(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names that have an entry, checked by name only: one listing per folder."""
        return frozenset(self._entries(names))

    def named_digests(self, names: Iterable[str]) -> dict[str, str]:
        """sha256 of the first entry of each name that has one, by the entry's name only."""
        return {name: _named(entries[0]) for name, entries in self._entries(names).items()}

    def restore(self, wanted: dict[str, Path]) -> Restored:
        """Put every name that the store holds in its place in the workspace (name -> path).

        Other files there are removed, so that they are created again. Raises
        OSError where the workspace cannot be written.
        """
        entries = self._entries(wanted)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            done = pool.map(lambda name: _restore(entries.get(name, []), wanted[name]), wanted)
            answers = dict(zip(wanted, done, strict=True))
        return Restored(
            {name: digest for name, (digest, _) in answers.items() if digest is not None},
            tuple(sorted(entry for _, damaged in answers.values() for entry in damaged)),
        )

    def put(self, name: str, path: Path) -> bool:
        """Keep the finished file at `path`; False where no folder can be written to.

        A full disk is no error here: the file is where it was made, and will be made again.
        """
        taken = next((one for one in self.folders if _store(one / name, path)), None)
        if taken is not None:
            self.added.add(taken)
        return taken is not None

    def _entries(self, names: Iterable[str]) -> dict[str, list[Path]]:
        by_folder: dict[str, set[str]] = {}
        for name in names:
            parent, _, last = name.rpartition("/")
            by_folder.setdefault(parent, set()).add(last)
        found: dict[str, list[Path]] = {}
        for store in self.folders:
            for parent, wanted in by_folder.items():
                try:
                    there = sorted(entry.name for entry in os.scandir(store / parent))
                except OSError as error:
                    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                        continue
                    raise
                for entry in there:
                    match = ENTRY.fullmatch(entry)
                    if match and match["stem"] + match["suffix"] in wanted:
                        name = f"{parent}/{match['stem']}{match['suffix']}"
                        found.setdefault(name, []).append(store / parent / entry)
        return found


def _named(entry: Path) -> str:
    return entry.name.split(".")[-2]


def _restore(entries: list[Path], place: Path) -> tuple[str | None, list[str]]:
    """The digest of the entry that is now at `place`, if one is; and those that are damaged."""
    damaged: list[str] = []
    here = _digest(place) if entries else None
    for entry in entries:
        digest = _named(entry)
        if here == digest:
            _put_to_now(place)
            _note_use(entry)
            return digest, damaged
        seen = _digest(entry)
        if seen == digest:
            try:
                _put(entry, place)
            except FileNotFoundError:
                if entry.exists():
                    raise
                continue  # pruned between the two
            return digest, damaged
        if seen is None and not os.path.lexists(entry):
            continue  # pruned since it was listed
        damaged.append(entry.name)
        with suppress(OSError):
            remove(entry)
    remove(place)
    return None, damaged


def _put(entry: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(place)
    try:
        try:
            part.hardlink_to(entry)
        except OSError:
            # another file system, one that links nothing, or a file with too many links
            shutil.copy(entry, part)
            _note_use(entry)
        _put_to_now(part)
        if place.is_dir():
            remove(place)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def _note_use(entry: Path) -> None:
    """Tell when an entry was used: by its `st_ctime` where the workspace has a link to it, whose
    `st_mtime` ninja goes by."""
    with suppress(OSError):
        status = entry.stat()
        if status.st_nlink == 1:
            os.utime(entry)
        else:
            os.utime(entry, ns=(status.st_atime_ns, status.st_mtime_ns))


def _put_to_now(path: Path) -> None:
    """Take a file's time back to now: one from before a clock was set back has a time of the
    future, and ninja would link from it again at every build."""
    if path.stat().st_mtime > time.time():
        with suppress(OSError):
            os.utime(path)


def _store(target: Path, path: Path) -> bool:
    digest = _digest(path, sync=True)
    if digest is None:
        return False
    name = PurePosixPath(target.name)
    entry = target.with_name(f"{name.stem}.{digest}{name.suffix}")
    part = part_of(entry)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        # An entry of the name that is there already may be damaged: ours takes its place.
        try:
            part.hardlink_to(path)
        except OSError:
            shutil.copy(path, part)
            _digest(part, sync=True)
        part.replace(entry)
        # rename(2) of one name of a file to another name of it leaves both
        part.unlink(missing_ok=True)
        sync_folder(entry.parent)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        return False
    return True


def _digest(path: Path, *, sync: bool = False) -> str | None:
    """sha256 of a file; None where it cannot be read, or is a link, whose target may change."""
    try:
        if path.is_symlink():
            return None
        with open_file(path) as file:
            if sync:
                os.fsync(file.fileno())
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
