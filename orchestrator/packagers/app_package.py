"""Reads an Android app's package, an APK, a bundle or an AAR: which libraries and models are in it.

Contract: whatever the bytes are, `opened_app` yields an `AppPackage` or raises NotAnAppPackageError
or DamagedPackageError, and so do its methods. The limits are those of `contents`: memory and time
are bounded by them, not by what the file claims. Nothing is unpacked but what is asked for, and
nothing of it is run.
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.packagers.contents import (
    LEAST_UNPACKED,
    MAX_LIBRARY,
    MAX_MEMBERS,
    MAX_RATIO,
    MAX_UNPACKED,
    Table,
    bounded,
    damaged,
    readable,
    require_inside,
    too_large,
)
from orchestrator.system.reading import open_file

MODEL_SUFFIXES: Final = (".ptl", ".pt", ".pt2", ".pte")
# `lib/` of an APK, `base/lib/` of a bundle, `jni/` of an AAR
_LIBRARY: Final = re.compile(r"(?:.*/)?(?:lib|jni)/(?P<abi>[^/]+)/[^/]+\.so")
_ZIP: Final = b"PK\x03\x04"
# A file that each package has, but an .apks or .xapk lacks: of an APK and an AAR, and of a bundle.
_OF_A_PACKAGE: Final = frozenset({"AndroidManifest.xml", "BundleConfig.pb"})
# What the header of a member ends with: the lengths of its name and of what is behind it
# (APPNOTE.TXT, 4.3.7).
_LOCAL: Final = struct.Struct("<4s22xHH")


class NotAnAppPackageError(OrchestratorError):
    """The file cannot be read, is no zip archive, or a zip of something else."""


@dataclass(frozen=True)
class Member:
    """A file in a package.

    abi     Android's name of the ABI that a library is for; empty for others
    placed  where its bytes begin in the package, if they are not compressed
    """

    path: str
    size: int
    abi: str = ""
    placed: int | None = None

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


@dataclass(frozen=True)
class AppPackage:
    """An open package; libraries and models are sorted by path."""

    place: Place
    libraries: tuple[Member, ...]
    models: tuple[Member, ...]
    _zip: zipfile.ZipFile

    def read(self, member: Member) -> bytes:
        """The whole of a member. Raises DamagedPackageError."""
        with readable(self.place), self._zip.open(member.path) as content:
            return bounded(content, member.size, MAX_LIBRARY, member.path, self.place)


@contextmanager
def opened_app(path: Path) -> Iterator[AppPackage]:
    """A package, open; see the module for what is raised."""
    place = Place(str(path))
    try:
        file = open_file(path)
    except OSError as cause:
        raise _not_one(place, cause.strerror or type(cause).__name__) from cause
    with file:
        head = file.read(len(_ZIP))
        if head != _ZIP:
            raise _not_one(place, f"a file of {head.hex(' ')}..." if head else "an empty file")
        with readable(place):
            table = Table(file.fileno(), closefd=False)
            archive = zipfile.ZipFile(table)
        with table, archive:
            yield _package(file, archive, place)


def _package(file: BinaryIO, archive: zipfile.ZipFile, place: Place) -> AppPackage:
    size = os.fstat(file.fileno()).st_size
    left = min(MAX_UNPACKED, max(MAX_RATIO * size, LEAST_UNPACKED))
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS or sum(one.file_size for one in entries) > left:
        raise too_large(place)
    require_inside(entries, size, place)
    names = {one.filename for one in entries}
    inner = min((name for name in names if name.endswith(".apk")), default=None)
    if inner is not None and not names & _OF_A_PACKAGE:
        raise NotAnAppPackageError(
            "this is a set of Android packages",
            place=place,
            expected="an .apk, an .aab or an .aar",
            seen=f"{inner} in it",
            hint="unpack it, and name each .apk that has libraries or models",
        )
    libraries: dict[str, Member] = {}
    models: dict[str, Member] = {}
    for entry in entries:
        library = _LIBRARY.fullmatch(entry.filename)
        model = PurePosixPath(entry.filename).suffix in MODEL_SUFFIXES
        # in this order: is_dir fails for a file without a name
        if not (library or model) or entry.is_dir():
            continue
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise damaged(place, "stored or deflated files", f"method {entry.compress_type}")
        found = libraries if library else models
        if entry.filename in found:
            raise damaged(place, "each file once", f"{entry.filename} twice")
        found[entry.filename] = Member(
            entry.filename,
            entry.file_size,
            library["abi"] if library else "",
            _begin(file, entry, place) if entry.compress_type == zipfile.ZIP_STORED else None,
        )
    if not names & _OF_A_PACKAGE:
        # of any other zip, `no PyTorch` says nothing; libraries that somebody packed are looked at
        if any(name.startswith("Payload/") for name in names):
            raise _not_one(place, "an app of iOS")
        if not libraries and not models:
            raise _not_one(place, "a zip without AndroidManifest.xml")
    return AppPackage(
        place,
        tuple(libraries[name] for name in sorted(libraries)),
        tuple(models[name] for name in sorted(models)),
        archive,
    )


def _begin(file: BinaryIO, entry: zipfile.ZipInfo, place: Place) -> int:
    """Return the offset of an uncompressed member's bytes."""
    with readable(place):
        file.seek(entry.header_offset)
        magic, name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
        if magic != _ZIP:
            raise ValueError(f"no header of {entry.filename}")
    return entry.header_offset + _LOCAL.size + int(name) + int(extra)


def _not_one(place: Place, seen: str) -> NotAnAppPackageError:
    return NotAnAppPackageError(
        "this is not an Android package",
        place=place,
        expected="an .apk, an .aab or an .aar",
        seen=seen,
        hint="name the file that is uploaded, or a dependency's .aar",
    )
