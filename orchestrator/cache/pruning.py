"""Contents of the user's cache folder, their age, and the entries that can be pruned.

Finished objects, linked files and precompiled headers are pruned: they grow without bound, and a
build that finds one gone makes it again. That is safe during builds: ninja works on names of the
files in its workspace (`cache/store.py`), which stay. An entry to which a workspace has a link
stays: removing it frees nothing, and the next build there would compile it again.

Sources and other texts of ours (`TEXTS`) grow too, far slower, and commands read them in place:
only a process with exclusive use of the cache prunes them (`prune_texts`). A process that misses
one writes it again. Trees, files generated from them, toolchains and zig's own libraries stay.

An entry's age counts from its creation or last use: a link changes its `st_ctime`, and where the
store makes none, it sets the time. The workspaces that have used the cache are noted in
`workspaces/`, a file each.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from orchestrator.cache.store import ENTRY
from orchestrator.system.staging import remove as remove_path
from orchestrator.system.staging import write_text

PRUNED: Final = ("objects", "links", "pch", "shards")
# Folders of generated texts, each of whose entries a command writes where it is missing.
TEXTS: Final = (
    *("addons", "anchors", "exports", "headers", "kept", "layers", "native", "native-headers"),
    *(
        "overlays",
        "programs",
        "projections",
        "registrations",
        "selections",
        "sources",
        "stubs",
        "unity",
    ),
)
# Of these a workspace has a link for each that it ever used, by the same name. Of the others it has
# one for each variant, and lets shards go itself.
_KEPT_BY_NAME: Final = frozenset({"objects", "pch"})
WORKSPACES: Final = "workspaces"
# Precompiled headers may have this part of a full cache: one is of a single checkout, takes tens of
# megabytes and is made again in seconds, where as much in objects takes minutes.
_OF_HEADERS: Final = 0.25
# And so much texts.
_OF_TEXTS: Final = 0.05


@dataclass(frozen=True)
class Part:
    """A folder of the cache: its files, their bytes, and of these the bytes of files that
    workspaces link; `used` is the newest time of a file, in seconds since the epoch."""

    name: str
    files: int
    bytes: int
    held: int
    used: float


@dataclass(frozen=True)
class Entry:
    """A finished file of the store; `is_held` while a workspace links it."""

    path: Path
    bytes: int
    used: float
    is_held: bool

    @property
    def is_header(self) -> bool:
        """True if it is a precompiled header."""
        return self.path.parent.parent.name == "pch"


@dataclass(frozen=True)
class Removed:
    """Number of removed entries, and their bytes."""

    entries: int
    bytes: int


@dataclass(frozen=True)
class User:
    """A workspace that has used the cache, and when last; `exists` while the workspace does."""

    root: Path
    used: float
    exists: bool


def note_workspace(cache: Path, root: Path) -> None:
    """Note that a workspace uses the cache now; nothing where the cache cannot be written."""
    with suppress(OSError):
        write_text(_note(cache, root), f"{root}\n")


def _note(cache: Path, root: Path) -> Path:
    return cache / WORKSPACES / hashlib.sha256(os.fsencode(root)).hexdigest()[:16]


def workspaces(cache: Path) -> tuple[User, ...]:
    """The noted workspaces, the last user first."""
    found = []
    for file in sorted((cache / WORKSPACES).glob("*")):
        with suppress(OSError, UnicodeDecodeError):
            root = Path(file.read_text(encoding="utf-8").removesuffix("\n"))
            exists = root.is_absolute() and (root / "WORKSPACE").is_file()
            found.append(User(root, file.stat().st_mtime, exists))
    return tuple(sorted(found, key=lambda user: (-user.used, user.root)))


def forget_gone(cache: Path) -> None:
    """Remove the records of workspaces that no longer exist."""
    for user in workspaces(cache):
        if not user.exists:
            with suppress(OSError):
                _note(cache, user.root).unlink()


def parts(cache: Path) -> tuple[Part, ...]:
    """The folders of the cache, sorted by name; files that vanish meanwhile are skipped."""
    names = sorted(entry.name for entry in os.scandir(cache) if entry.is_dir(follow_symlinks=False))
    return tuple(_part(cache / name) for name in names)


def entries(cache: Path) -> tuple[Entry, ...]:
    """The store's entries, sorted by path."""
    found = []
    for kind in PRUNED:
        for path in sorted((cache / kind).glob("*/*")):
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and ENTRY.fullmatch(path.name):
                    used = max(status.st_mtime, status.st_ctime)
                    found.append(Entry(path, status.st_size, used, status.st_nlink > 1))
    return tuple(found)


def to_prune(
    found: Iterable[Entry], *, total: int, most: int | None, before: float | None
) -> tuple[Entry, ...]:
    """The entries to remove, least recently used first; before them, where precompiled headers have
    more than a quarter of `most`, as many of these. Pure.

    total   bytes of the whole cache
    most    bytes that it may have, as far as removing entries gets it there
    before  entries that were not used since this time go in any case
    """
    gone = []
    by_age = sorted(found, key=lambda entry: (entry.used, entry.path))
    for entry in by_age if most is None else _headers_first(by_age, int(most * _OF_HEADERS)):
        is_old = before is not None and entry.used < before
        if not entry.is_held and (is_old or (most is not None and total > most)):
            gone.append(entry)
            total -= entry.bytes
    return tuple(gone)


def _headers_first(by_age: Sequence[Entry], most: int) -> list[Entry]:
    """Entries in the same order, but first the oldest precompiled headers above `most` bytes."""
    excess = sum(entry.bytes for entry in by_age if entry.is_header and not entry.is_held) - most
    first, rest = list[Entry](), list[Entry]()
    for entry in by_age:
        if excess > 0 and entry.is_header and not entry.is_held:
            first.append(entry)
            excess -= entry.bytes
        else:
            rest.append(entry)
    return [*first, *rest]


def remove(gone: Iterable[Entry]) -> int:
    """Remove entries; returns the bytes freed. An entry that is already gone is not an error."""
    freed = 0
    for entry in gone:
        with suppress(FileNotFoundError):
            entry.path.unlink()
            freed += entry.bytes
    return freed


def shrink(store: Path, most: int, *, since: float, state: Path | None) -> Removed:
    """Remove entries of a store, in `to_prune`'s order, until the rest has `most` bytes at most.

    since  entries that were used since this time stay: the caller's command uses them
    state  the state folder of a workspace of which the caller holds the lock. What it alone links
           goes too, with its link. None: what any workspace links stays.
    What other workspaces link does not count: removing it frees nothing, and it must not crowd out
    the rest. Other processes may use, add and remove entries meanwhile. What cannot be removed
    stays.
    """
    links = dict[Path, Path]()
    free = []
    for entry in entries(store):
        link = _only_link(entry, store, state) if entry.is_held and state is not None else None
        if link is not None:
            links[entry.path] = link
        if link is not None or not entry.is_held:
            free.append(replace(entry, is_held=entry.used >= since))
    gone = to_prune(free, total=sum(entry.bytes for entry in free), most=most, before=None)
    removed = freed = 0
    for entry in gone:
        with suppress(OSError):
            # the link first: an entry that is left without one goes the next time
            if entry.path in links:
                links[entry.path].unlink()
            entry.path.unlink()
            removed, freed = removed + 1, freed + entry.bytes
    return Removed(removed, freed)


def prune_texts(cache: Path, most: int) -> Removed:
    """Remove entries of `TEXTS`, the oldest first, above a twentieth of `most` bytes. The caller
    has the cache alone. What cannot be removed stays."""
    found = list[tuple[float, Path, int]]()
    for path in (path for name in TEXTS for path in (cache / name).glob("*")):
        with suppress(OSError):
            inner = _part(path) if path.is_dir() and not path.is_symlink() else None
            status = path.lstat()
            used = max(status.st_mtime, status.st_ctime, inner.used if inner else 0)
            found.append((used, path, inner.bytes if inner else status.st_size))
    total, removed, freed = sum(size for _, _, size in found), 0, 0
    for _used, path, size in sorted(found):
        if total <= most * _OF_TEXTS:
            break
        with suppress(OSError):
            remove_path(path)
            removed, freed, total = removed + 1, freed + size, total - size
    return Removed(removed, freed)


def _only_link(entry: Entry, store: Path, state: Path) -> Path | None:
    """The workspace's name of an entry, where it is the only one besides the entry's own."""
    folder, match = entry.path.parent.relative_to(store), ENTRY.fullmatch(entry.path.name)
    if match is None or folder.parts[0] not in _KEPT_BY_NAME:
        return None
    link = state / folder / f"{match['stem']}{match['suffix']}"
    with suppress(OSError):
        if entry.path.lstat().st_nlink == 2 and os.path.samestat(link.lstat(), entry.path.lstat()):
            return link
    return None


def _part(folder: Path) -> Part:
    files = size = held = 0
    used = 0.0
    for status in _files(folder):
        files += 1
        size += status.st_size
        held += status.st_size if status.st_nlink > 1 else 0
        used = max(used, status.st_mtime, status.st_ctime)
    return Part(folder.name, files, size, held, used)


def _files(folder: Path) -> Iterator[os.stat_result]:
    """Yield the `stat` of each file below a folder; links are not followed."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as inside:
        for entry in inside:
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(Path(entry.path))
                else:
                    yield entry.stat(follow_symlinks=False)
