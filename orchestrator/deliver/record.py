"""Ownership of files in `dist/<app>/packages/`: the files that are ours, and the package of each.

Contract: `write_package` lists the files that it writes in `RECORD`. Here entries get a slot: the
kind of package and its variant (`deb linux-x86_64`). Only listed files that have not changed since
are removed; links are never followed.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from orchestrator.deliver.files import (
    RECORD,
    folder_digest,
    read_record,
    sha256_of,
    write_record,
    writing,
)
from orchestrator.system.folders import is_ours, remove_folder

# Beside an app's delivered folders.
FOLDER: Final = "packages"

_Record = dict[str, dict[str, str]]


def claim_packages(folder: Path, slot: str, names: Collection[str]) -> tuple[str, ...]:
    """Assigns these files of ours to `slot`; returns the names of the files that it removed.

    When an app's version or name changes, its packages get other names, and the ones before must
    not remain. Raises `UnwritableError`.
    """
    known = read_record(folder / RECORD)
    old = [name for name, entry in known.items() if entry.get("slot") == slot]
    removed = _remove(folder, known, set(old).difference(names))
    for name in names:
        known.setdefault(name, {})["slot"] = slot
    _update(folder / RECORD, known)
    return removed


def slot_of(folder: Path, name: str) -> str | None:
    """The slot that a file of ours is assigned to; None where it is not ours, or to none."""
    return read_record(folder / RECORD).get(name, {}).get("slot")


def drop_packages(folder: Path, *, but: Collection[str] = ()) -> tuple[str, ...]:
    """Removes the packages of ours in `folder` whose slot is not in `but`; returns their names.

    A file that was changed since it was written is foreign now, and stays. Raises
    `UnwritableError`.
    """
    known = read_record(folder / RECORD)
    removed = _remove(folder, known, {n for n, e in known.items() if e.get("slot") not in but})
    _update(folder / RECORD, known)
    return removed


def our_packages(folder: Path) -> tuple[str, ...]:
    """The names of the packages in `folder` that we wrote and that have not changed since."""
    known = read_record(folder / RECORD)
    return tuple(name for name in sorted(known) if _is_unchanged(folder / name, known[name]))


def _is_unchanged(path: Path, entry: dict[str, str]) -> bool:
    if path.is_symlink() or not path.exists():
        return False
    if path.is_dir():
        if not is_ours(path):
            return False
        return folder_digest(path) in (entry.get("sha256"), entry.get("before"))
    return sha256_of(path) in (entry.get("sha256"), entry.get("before"))


def _remove(folder: Path, known: _Record, names: Collection[str]) -> tuple[str, ...]:
    """Removes unchanged packages of ours; `known` loses all of the names."""
    removed = []
    for name in sorted(names):
        entry, path = known.pop(name), folder / name
        with writing(path):
            if not _is_unchanged(path, entry):
                continue
            if path.is_dir():
                remove_folder(path)
            else:
                path.unlink()
        removed.append(name)
    return tuple(removed)


def _update(record: Path, known: _Record) -> None:
    """Brings the record up to date; without entries there is none."""
    if known == read_record(record):
        return
    with writing(record):
        if known:
            write_record(record, known)
        else:
            record.unlink(missing_ok=True)
