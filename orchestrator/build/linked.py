"""Linked files of a workspace: compared with their digests before ninja takes them for done.

ninja judges an output by its time. An archive that was damaged after its link, by a disk or by
somebody's hand, would be delivered; no model runs in it. So the digest of each is noted when its
link has ended, and a file that is another one now, or of which nothing is known, is linked again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from orchestrator.system.reading import open_file, read_json
from orchestrator.system.staging import remove, write_text

_FORMAT = 1
# What a write changes of a file: inode, size, time of the last change in nanoseconds.
_State = tuple[int, int, int]


@dataclass(frozen=True)
class Checked:
    """What is known of linked files when ninja starts.

    digests  file -> its state and the sha256 of its content, of those that stay
    changed  files that were removed though their content was known: they had another
    """

    digests: Mapping[Path, tuple[_State, str]]
    changed: tuple[Path, ...]


def remove_unknown(note: Path, files: Iterable[Path]) -> Checked:
    """Remove each file that is not as `note` says, so that ninja makes it. Raises OSError."""
    known = _read(note)
    seen = _digests(files)
    stay = {p: one for p, one in seen.items() if one is not None and known.get(p) == one[1]}
    for path in seen.keys() - stay.keys():
        remove(path)
    changed = (path for path, one in seen.items() if one is not None and path not in stay)
    return Checked(stay, tuple(sorted(path for path in changed if path in known)))


def note_linked(note: Path, files: Iterable[Path], before: Checked) -> None:
    """Note the digests of files that ninja has made or left; see `remove_unknown`.

    Files of other builds that the note has stay in it while they are there. Raises OSError.
    """
    files = tuple(files)
    as_before = {p: d for p, (state, d) in before.digests.items() if _state(p) == state}
    made = _digests(path for path in files if path not in as_before)
    others = {p: d for p, d in _read(note).items() if p not in files and p.is_file()}
    digests = {**others, **as_before, **{p: one[1] for p, one in made.items() if one is not None}}
    linked = {os.path.relpath(path, note.parent): digests[path] for path in sorted(digests)}
    write_text(note, json.dumps({"format": _FORMAT, "linked": linked}, indent=1) + "\n")


def _read(note: Path) -> dict[Path, str]:
    """File -> sha256; nothing where there is no note, or a damaged one."""
    try:
        value = read_json(note)
        if value["format"] != _FORMAT:
            return {}
        return {
            Path(os.path.normpath(note.parent / str(name))): str(digest)
            for name, digest in value["linked"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _digests(files: Iterable[Path]) -> dict[Path, tuple[_State, str] | None]:
    """None for what is there and no plain file that can be read; without files that are missing."""
    there = [path for path in files if os.path.lexists(path)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(there, pool.map(_digest, there), strict=True))


def _digest(path: Path) -> tuple[_State, str] | None:
    try:
        if path.is_symlink():
            return None
        with open_file(path) as file:
            return _of(os.fstat(file.fileno())), hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _state(path: Path) -> _State | None:
    try:
        return _of(path.lstat())
    except OSError:
        return None


def _of(facts: os.stat_result) -> _State:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
