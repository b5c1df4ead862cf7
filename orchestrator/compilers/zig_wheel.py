"""The installed zig, identified by the content of its wheel, not by its version string.

An installed wheel lists its files with their sha256 (`RECORD`; packaging.python.org, "Recording
installed projects"). The digest of that list, of the files in the package alone, is the same
wherever the same wheel is installed: it excludes what installers write themselves (`INSTALLER`,
launchers, bytecode). zig's program and library are 20,000 files of 370 MB, so they are compared
with the list once for each installation; after that, only the size, timestamps and inode of the
program and of the list are.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.installation import pip
from orchestrator.system.reading import read_json, readable_sha256
from orchestrator.system.staging import write_text

_PACKAGE = "ziglang"
# Beside what zig keeps for this installation.
_NOTE = "wheel.json"


class ZigUnrecordedError(OrchestratorError):
    """The installed ziglang has no list of its files, so nothing tells which zig it is."""


class ZigAlteredError(OrchestratorError):
    """A file of zig is not the one that its wheel brought."""


@dataclass(frozen=True)
class Wheel:
    """An installed ziglang: its version for people, and the digest of its files."""

    version: str
    digest: str

    @property
    def identity(self) -> str:
        """Text that distinguishes this zig's objects from those of any other."""
        return f"{_PACKAGE} {self.version}, sha256 {self.digest}"


def wheel_of(program: Path, notes: Path, place: Place) -> Wheel:
    """The wheel that `program` was installed from.

    notes: the folder where it is noted that the files were read.
    Raises ZigUnrecordedError, ZigAlteredError.
    """
    site = program.parents[1]
    installed = next(iter(metadata.distributions(name=_PACKAGE, path=[str(site)])), None)
    version = installed.version if installed else "of unknown version"
    # the folder's name: packaging.python.org, "The .dist-info directory"
    record = site / f"{_PACKAGE}-{version}.dist-info" / "RECORD"
    now = {"record": _state(record), "program": _state(program)}
    known = _read(notes / _NOTE)
    read = known.get("read") == "all"
    if read and known.get("state") == now and isinstance(known.get("digest"), str):
        return Wheel(version, str(known["digest"]))
    files = _files(record)
    expected = files.get(f"{_PACKAGE}/{program.name}")
    if not expected:
        raise ZigUnrecordedError(
            "the installed ziglang cannot be verified",
            place=place,
            expected=f"a RECORD next to the package that lists {_PACKAGE}/{program.name}",
            seen="none that does",
            hint=_again(version),
        )
    altered = _altered(record, *now["record"], *now["program"])
    if altered is not None:
        path, seen = altered
        raise ZigAlteredError(
            f"{site / path} is not the file that zig's package brought",
            place=place,
            expected=f"sha256 {files[path]}",
            seen=f"sha256 {seen}" if seen else "no such file",
            hint=_again(version),
        )
    digest = digest_of(files)
    # a cache that can only be read serves too
    with suppress(OSError):
        note = {"state": now, "read": "all", "digest": digest}
        write_text(notes / _NOTE, json.dumps(note) + "\n")
    return Wheel(version, digest)


def _again(version: str) -> str:
    return (
        "install it again, from where you trust it:"
        f" `{pip()} install --force-reinstall --no-cache-dir {_PACKAGE}=={version}`"
    )


def digest_of(files: dict[str, str]) -> str:
    """One digest for a package's files: path -> sha256."""
    lines = "".join(f"{path},{files[path]}\n" for path in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


def _files(record: Path) -> dict[str, str]:
    """path -> sha256 of the package's files, as far as RECORD tells."""
    found: dict[str, str] = {}
    # what is damaged tells nothing
    with suppress(OSError, ValueError, csv.Error):
        for row in csv.reader(record.read_text(encoding="utf-8").splitlines()):
            path, coded = (*row, "", "")[:2]
            algorithm, _, text = coded.partition("=")
            ours = path.startswith(f"{_PACKAGE}/") and not path.endswith(".pyc")
            if ours and algorithm == "sha256":
                found[path] = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
    return found


def _state(path: Path) -> list[int]:
    """Return numbers that change whenever a file changes; empty if there is no file.

    It has two timestamps, since the modification time can be set back.
    """
    try:
        stat = path.stat()
    except OSError:
        return []
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


@cache
def _altered(record: Path, *_state: int) -> tuple[str, str] | None:
    """The first file that is not as RECORD tells, and its digest: "" of what cannot be read. Looked
    for once in a process, while the list and the program are as they were."""
    files = _files(record)
    paths = sorted(files)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = pool.map(lambda path: readable_sha256(record.parents[1] / path), paths)
        pairs = zip(paths, seen, strict=True)
        return next(((path, one) for path, one in pairs if one != files[path]), None)


def _read(path: Path) -> dict[str, object]:
    try:
        value = read_json(path)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
