"""Linked files of a workspace: compared with their digests before ninja takes them for done.

ninja judges an output by its time. An archive that was damaged after its link, by a disk or by
somebody's hand, would be delivered; no model runs in it. So the digest of each is noted when its
link has ended, and a file that is another one now, or of which nothing is known, is linked again.

A file that is known by the identity of its link (`build.stored_links`) may have come from the
cache. Of it ninja's log knows nothing, or tells of what was there before; so it is made older than
everything that it could be linked of, and ninja links it whatever the log tells.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from orchestrator.system.reading import open_file, read_json
from orchestrator.system.staging import part_of, remove, write_text

_FORMAT = 2
# What a write changes of a file: inode, size, time of the last change in nanoseconds.
_State = tuple[int, int, int]
# Older than any file that is there; 0 would be ninja's word for none.
_OLD_SECONDS = 1


@dataclass(frozen=True)
class Known:
    """A linked file as it is noted: sha256 of its content, and the identity of its link; None where
    it has none."""

    sha256: str
    identity: str | None = None


@dataclass(frozen=True)
class Checked:
    """Linked files of the workspace at ninja's start.

    digests  file that stays -> its state and its note
    changed  files that were removed since their content differed from their note
    """

    digests: Mapping[Path, tuple[_State, Known]]
    changed: tuple[Path, ...]


def remove_unknown(note: Path, files: Iterable[Path]) -> Checked:
    """Remove each file that is not as `note` says, so that ninja makes it. Raises OSError."""
    known = _read(note)
    seen = _digests(files)
    stay = dict[Path, tuple[_State, Known]]()
    for path, one in seen.items():
        if one is not None and path in known and known[path].sha256 == one[1]:
            stay[path] = (one[0], known[path])
        else:
            remove(path)
    changed = (path for path, one in seen.items() if one is not None and path not in stay)
    return Checked(stay, tuple(sorted(path for path in changed if path in known)))


def outdated(before: Checked, files: Iterable[Path]) -> Checked:
    """Have ninja link files again that are as they were noted; until it has, they are there.

    Raises OSError.
    """
    digests = dict(before.digests)
    for path in (path for path in files if path in digests):
        part = part_of(path)
        try:
            # the cache, and other workspaces, may have links to the file itself
            shutil.copy(path, part)
            os.utime(part, (_OLD_SECONDS, _OLD_SECONDS))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        digests[path] = (_of(path.lstat()), digests[path][1])
    return Checked(digests, before.changed)


def as_noted(note: Path, identities: Mapping[Path, str]) -> dict[Path, Known]:
    """Files whose content and identity of the link are those in `note`.

    Raises OSError.
    """
    known = _read(note)
    wanted = [p for p, one in identities.items() if p in known and known[p].identity == one]
    seen = _digests(wanted)
    return {p: known[p] for p, one in seen.items() if one is not None and one[1] == known[p].sha256}


def made_files(files: Iterable[Path], before: Checked) -> dict[Path, str]:
    """The digests of those of the files that ninja has made; see `remove_unknown`."""
    stay = before.digests
    made = (path for path in files if path not in stay or _state(path) != stay[path][0])
    return {path: one[1] for path, one in _digests(made).items() if one is not None}


def note_linked(
    note: Path, files: Iterable[Path], before: Checked, made: Mapping[Path, Known]
) -> None:
    """Note the digests of files that ninja has made or left, `made` those that it has made.

    Files of other builds that the note has stay in it while they are there. Raises OSError.
    """
    files = {*files, *made}
    stay = {p: one for p, (state, one) in before.digests.items() if _state(p) == state}
    others = {p: one for p, one in _read(note).items() if p not in files and p.is_file()}
    known = {**others, **stay, **made}
    linked = {
        os.path.relpath(path, note.parent): [known[path].sha256, known[path].identity]
        for path in sorted(known)
    }
    write_text(note, json.dumps({"format": _FORMAT, "linked": linked}, indent=1) + "\n")


def _read(note: Path) -> dict[Path, Known]:
    """Nothing where there is no note, or a damaged one."""
    try:
        value = read_json(note)
        if value["format"] != _FORMAT:
            return {}
        return {
            Path(os.path.normpath(note.parent / str(name))): Known(
                str(digest), None if identity is None else str(identity)
            )
            for name, (digest, identity) in value["linked"].items()
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
