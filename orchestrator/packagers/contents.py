"""Reads packages: the manifests in a folder, a tarball, a Debian package, an AAR or an XCFramework.

Contract: `read_packages` returns the manifest of every variant in a package, or raises one of the
errors here, whatever the bytes are: a package may come from anywhere. The content decides the kind
of package, not the name. Memory and time are bounded by the limits below, not by what the file
claims. Nothing is unpacked except what `take_library` and `take_model` are asked for.

Each library is compared with the digest in its manifest, so that the manifest's facts hold for the
library next to it; for a universal file (`binary/macho_universal.py`), each of its parts is.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Final, cast

import zstandard
from pydantic import ValidationError

from orchestrator.binary.macho_universal import split_universal
from orchestrator.deliver.manifest import BILL, MANIFEST, MAX_MANIFEST, Manifest, ModelFact
from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.reading import open_file, parse_json, readable_sha256
from orchestrator.system.tar import TarDamagedError, tar_members

# Of all that a package unpacks to, and of one library.
MAX_UNPACKED: Final = 4 * 2**30
MAX_LIBRARY: Final = 2**30
MAX_MEMBERS: Final = 100_000
# Libraries pack to a third or a tenth. What packs better than this by far is made to do harm ...
MAX_RATIO: Final = 100
# ... but a small package costs little.
LEAST_UNPACKED: Final = 2**26
# JSON objects and values of a manifest: each takes 2 to 3 KB to refuse.
MAX_OBJECTS: Final = 50_000
MAX_VALUES: Final = 150_000
# Of a zip's table of contents, which the standard library reads in one piece: MAX_MEMBERS of them.
MAX_TABLE: Final = 16 * 2**20
_SERIAL: Final = re.compile(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_CHUNK: Final = 2**20
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_AR: Final = b"!<arch>\n"
_ZIP: Final = b"PK\x03\x04"
# Endings of the files that can be read.
ENDINGS: Final = (".tar.zst", ".deb", ".aar", ".whl", ".zip")
# What can be read, for messages.
_PACKAGES: Final = "a delivered folder, a .tar.zst, a .deb, an .aar, a .whl or an .xcframework.zip"
# tar(5): blocks, at the end two of nothing
_BLOCK: Final = 512
# a header of `ar`: name, time, owner, group, mode, size, end
_MEMBER: Final = struct.Struct("16s12s6s6s8s10s2s")
# The magic number and the number of parts of a universal file: it has one for each processor.
_UNIVERSAL: Final = struct.Struct(">II")
_UNIVERSAL_MAGIC: Final = 0xCAFEBABE
_MOST_PARTS: Final = 4
# What the readers of the standard library raise for damaged bytes.
_DAMAGE: Final = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    TarDamagedError,
    zstandard.ZstdError,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


class NotAPackageError(OrchestratorError):
    """A file or folder that is none of the packages that we write."""


class DamagedPackageError(OrchestratorError):
    """A package of ours that is truncated, damaged or was changed."""


class NoLibraryError(OrchestratorError):
    """A package of ours that goes with a library, and holds none: symbols, or headers."""


@dataclass(frozen=True)
class Packaged:
    """A variant in a package.

    path     the package
    inside   the library's path in it; of a folder, in the folder
    """

    path: Path
    manifest: Manifest
    inside: str


@dataclass
class _Members:
    """Members read so far from a package: manifests with their paths, and the libraries' digests.

    libraries  base name -> path inside -> the digests of the file, and of its parts
    """

    place: Place
    manifests: list[tuple[str, Manifest]] = field(default_factory=list)
    libraries: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)
    left: int = field(default_factory=lambda: MAX_UNPACKED)
    count: int = 0

    def counted(self, size: int) -> None:
        """Counts a member against the limits."""
        self.count += 1
        self.left -= size
        if self.count > MAX_MEMBERS or self.left < 0:
            raise too_large(self.place)

    def wants(self, path: str) -> bool:
        """True if a member must be read: a manifest, or a library that apps link."""
        name = path.rpartition("/")[2]
        parts = ("_core.a", "_registrations.a")
        return name == MANIFEST or (name.endswith((".so", ".a")) and not name.endswith(parts))

    def meet(self, path: str, size: int, content: IO[bytes]) -> None:
        """Looks at a member that it wants."""
        name = PurePosixPath(path).name
        if name == MANIFEST:
            self._manifests_in(path, bounded(content, size, MAX_MANIFEST, path, self.place))
        else:
            self.libraries.setdefault(name, {})[path] = _digests(content, size, path, self.place)

    def _manifests_in(self, path: str, data: bytes) -> None:
        for text in _texts_in(data, path, self.place):
            try:
                self.manifests.append((path, Manifest.parse(text)))
            except ValidationError as cause:
                raise damaged(
                    Place(f"{self.place}!{path}"),
                    "the manifest of a variant, of this version of the orchestrator or an older",
                    _fault(cause),
                ) from None

    def packaged(self, path: Path) -> tuple[Packaged, ...]:
        """The variants that were met, each with its library, by ABI."""
        if not self.manifests:
            raise _not_ours(self.place, "an archive without a manifest.json of ours")
        found: dict[str, Packaged] = {}
        for inside, manifest in self.manifests:
            library = self._library_of(manifest, inside)
            found.setdefault(manifest.abi, Packaged(path, manifest, library))
        return tuple(found[abi] for abi in sorted(found))

    def _library_of(self, manifest: Manifest, inside: str) -> str:
        """The path of the very library that a manifest is of."""
        wanted = manifest.files.get(manifest.library.file)
        name = PurePosixPath(manifest.library.file).name
        here = self.libraries.get(name, {})
        if wanted is None:
            raise damaged(
                Place(f"{self.place}!{inside}"), f"the digest of {manifest.library.file}", "none"
            )
        for path in sorted(here):
            if wanted.sha256 in here[path]:
                return path
        if not here:
            raise NoLibraryError(
                "this package holds no library",
                place=self.place,
                expected=f"{name} of {manifest.package_name}",
                seen=f"the manifest of {manifest.app} for {manifest.abi} alone",
                hint="name the library's own package: not that of its symbols, headers or sources",
            )
        raise damaged(
            Place(f"{self.place}!{min(here)}"),
            f"the library that its manifest is of, sha256 {wanted.sha256}",
            "another one",
        )


def read_packages(path: Path) -> tuple[Packaged, ...]:
    """The variants in a package, sorted by ABI.

    A folder is a delivered one (`dist/<app>/<abi>`), or one of such (`dist/<app>`). Raises
    NotAPackageError, DamagedPackageError, NoLibraryError.
    """
    place = Place(str(path))
    try:
        if path.is_dir():
            return _folders(path, place)
        members = _Members(place)
        _meet_all(path, members)
        return members.packaged(path)
    except OSError as cause:
        raise NotAPackageError(
            "this package cannot be read",
            place=place,
            expected=_PACKAGES,
            seen=cause.strerror or type(cause).__name__,
            hint="check the path",
        ) from cause


def take_library(one: Packaged, into: Path) -> None:
    """Writes a variant's shared library to a file. Raises what `read_packages` raises."""
    if one.path.is_dir():
        into.write_bytes((one.path / one.inside).read_bytes())
        return
    members = _Taking(Place(str(one.path)), one.inside, into)
    _meet_all(one.path, members)
    digest = hashlib.sha256(into.read_bytes()).hexdigest() if into.is_file() else ""
    wanted = one.manifest.files[one.manifest.library.file].sha256
    if digest != wanted:
        raise damaged(members.place, f"sha256 {wanted}", "the package has changed since")


def holds(one: Packaged, text: bytes) -> bool:
    """True if a text is in a variant's library. Raises what `read_packages` raises."""
    if one.path.is_dir():
        return text in (one.path / one.inside).read_bytes()
    members = _Searching(Place(str(one.path)), one.inside, text)
    _meet_all(one.path, members)
    return members.found


def bills_in(path: Path) -> tuple[str, ...]:
    """The serial numbers of the bills of materials in a package, sorted: `urn:uuid:...`. What is
    none of ours has none that counts. Raises what `read_packages` raises."""
    place = Place(str(path))
    members = _Bills(place)
    if path.is_dir():
        for file in sorted(path.rglob(BILL)):
            if not file.is_symlink() and file.is_file():
                with file.open("rb") as content:
                    members.meet(file.name, file.stat().st_size, content)
    else:
        _meet_all(path, members)
    return tuple(sorted(members.serials))


def take_model(one: Packaged, model: ModelFact, into: Path) -> bool:
    """Writes a delivered model to a file; False where the package does not hold it.

    Packages put models into folders of their own: its name and its digest tell which it is. Raises
    what `read_packages` raises.
    """
    delivered = one.manifest.files.get(model.delivered or "")
    if model.delivered is None or delivered is None:
        return False
    if one.path.is_dir():
        path = one.path / model.delivered
        # a manifest may say anything
        inside = path.resolve().is_relative_to(one.path.resolve())
        if not inside or readable_sha256(path) != delivered.sha256:
            return False
        into.write_bytes(path.read_bytes())
        return True
    name = PurePosixPath(model.delivered).name
    members = _TakingDigest(Place(str(one.path)), name, delivered.sha256, into)
    _meet_all(one.path, members)
    return into.is_file()


def _meet_all(path: Path, members: _Members) -> None:
    """Shows the members of a package to `members`, which takes what it wants."""
    with open_file(path) as file, readable(members.place):
        most = MAX_RATIO * os.fstat(file.fileno()).st_size
        members.left = min(members.left, max(most, LEAST_UNPACKED))
        head = file.read(8)
        file.seek(0)
        _reader(head, members.place)(file, members)


class _Taking(_Members):
    """Writes one member to a file, and ignores all others."""

    def __init__(self, place: Place, inside: str, into: Path) -> None:
        super().__init__(place)
        self._inside, self._into = inside, into

    def wants(self, path: str) -> bool:
        return path == self._inside

    def meet(self, path: str, size: int, content: IO[bytes]) -> None:
        data = bounded(content, size, MAX_LIBRARY, path, self.place)
        self._into.write_bytes(data)


class _Searching(_Members):
    """Looks for a text in one member, and ignores all others."""

    def __init__(self, place: Place, inside: str, text: bytes) -> None:
        super().__init__(place)
        self.found = False
        self._inside, self._text = inside, text

    def wants(self, path: str) -> bool:
        return path == self._inside

    def meet(self, path: str, size: int, content: IO[bytes]) -> None:
        self.found = self._text in bounded(content, size, MAX_LIBRARY, path, self.place)


class _Bills(_Members):
    """Reads the serial numbers of bills, and ignores all else."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.serials = set[str]()

    def wants(self, path: str) -> bool:
        return path.rpartition("/")[2] == BILL

    def meet(self, path: str, size: int, content: IO[bytes]) -> None:
        try:
            bill = parse_json(bounded(content, size, MAX_MANIFEST, path, self.place))
        except ValueError:
            return
        serial = bill.get("serialNumber") if isinstance(bill, dict) else None
        if isinstance(serial, str) and _SERIAL.fullmatch(serial):
            self.serials.add(serial)


class _TakingDigest(_Members):
    """Writes the member of a name and a digest to a file, and ignores all others."""

    def __init__(self, place: Place, name: str, digest: str, into: Path) -> None:
        super().__init__(place)
        self._name, self._digest, self._into = name, digest, into

    def wants(self, path: str) -> bool:
        return path.rpartition("/")[2] == self._name

    def meet(self, path: str, size: int, content: IO[bytes]) -> None:
        data = bounded(content, size, MAX_LIBRARY, path, self.place)
        if hashlib.sha256(data).hexdigest() == self._digest:
            self._into.write_bytes(data)


def _folders(path: Path, place: Place) -> tuple[Packaged, ...]:
    inside = [path] if (path / MANIFEST).is_file() else []
    if not inside and any(path.glob("*.xcframework")):
        inside = sorted(path.glob("*.xcframework"))
    inside = inside or sorted(one.parent for one in path.glob(f"*/{MANIFEST}"))
    if not inside:
        raise _not_ours(place, "a folder without manifest.json")
    found: list[Packaged] = []
    for folder in inside:
        members = _Members(Place(str(folder)))
        for file in sorted(folder.rglob("*")):
            name = file.relative_to(folder).as_posix()
            if not members.wants(name) or file.is_symlink() or not file.is_file():
                continue
            size = file.stat().st_size
            members.counted(0)
            with file.open("rb") as content, readable(members.place):
                members.meet(name, size, content)
        found += members.packaged(folder)
    return tuple(found)


def _reader(head: bytes, place: Place) -> Callable[[BinaryIO, _Members], None]:
    if head.startswith(_ZSTD):
        return _tar_zst
    if head.startswith(_AR):
        return _deb
    if head.startswith(_ZIP):
        return _zip
    raise _not_ours(place, "an empty file" if not head else f"a file of {head[:4].hex(' ')}...")


def _tar_zst(file: IO[bytes], members: _Members) -> None:
    """The members of a tar in a zstd frame."""
    stream = _Inflating(file, members)
    for member in tar_members(stream.take):
        members.counted(0)
        path = os.fsencode(member.name).decode("utf-8", "replace").removeprefix("./")
        data = member.data
        if data is not None and member.kind == "file" and members.wants(path):
            members.meet(path, data.size, cast(IO[bytes], data))
    stream.finish()


class _Inflating:
    """A zstd frame as a stream, a bounded part of it at a time: a few bytes may hold gigabytes."""

    def __init__(self, file: IO[bytes], members: _Members) -> None:
        self._members = members
        inflater = zstandard.ZstdDecompressor(max_window_size=2**27)
        self._stream = inflater.stream_reader(file, closefd=False)
        self._data, self._at = b"", 0

    def take(self, size: int) -> bytes:
        """So many bytes. Raises EOFError where there are fewer."""
        while len(self._data) - self._at < size:
            more = self._stream.read(max(size, _CHUNK))
            if not more:
                raise EOFError("it ends too early")
            self._members.left -= len(more)
            if self._members.left < 0:
                raise too_large(self._members.place)
            self._data, self._at = self._data[self._at :] + more, 0
        self._at += size
        return self._data[self._at - size : self._at]

    def finish(self) -> None:
        """Reads what fills the last blocks: there is one more of nothing at least, so that a frame
        that is cut off is found, which zstd does not tell. Behind them is the frame's checksum."""
        if any(self.take(_BLOCK)):
            raise ValueError("something behind its end")
        with suppress(EOFError):
            while not any(self.take(_BLOCK)):
                pass
            raise ValueError("something behind its end")


def _deb(file: BinaryIO, members: _Members) -> None:
    """Read the data member of an `ar` archive (deb(5))."""
    file.seek(len(_AR))
    found = False
    while header := file.read(_MEMBER.size):
        name, *_, size, _ = _MEMBER.unpack(header)
        length = int(size)
        if length < 0:
            raise ValueError("a member of less than no bytes")
        end = file.tell() + length + length % 2
        if name.rstrip() in (b"data.tar.zst", b"data.tar.zst/"):
            found = True
            _tar_zst(cast(BinaryIO, _Slice(file, length)), members)
        if file.seek(0, 2) < end - length % 2:
            raise EOFError("it ends too early")
        file.seek(end)
    if not found:
        raise _not_ours(members.place, "an ar archive without data.tar.zst")


class _Slice:
    """The next bytes of a file, and no more."""

    def __init__(self, file: IO[bytes], left: int) -> None:
        self._file, self._left = file, left

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


class Table(io.FileIO):
    """A zip file whose table of contents is bounded: nothing else is read in large pieces."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_TABLE:
            raise zipfile.BadZipFile(f"a table of contents of more than {MAX_TABLE:,} bytes")
        return super().read(size) or b""


def _zip(file: BinaryIO, members: _Members) -> None:
    with Table(file.fileno(), closefd=False) as table, zipfile.ZipFile(table) as archive:
        entries = archive.infolist()
        require_inside(entries, os.fstat(file.fileno()).st_size, members.place)
        for entry in entries:
            members.counted(entry.file_size)
            if members.wants(entry.filename) and not entry.is_dir():
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    # zipfile unpacks 4 KB of other methods in one piece: gigabytes
                    raise NotImplementedError(f"a file packed by method {entry.compress_type}")
                with archive.open(entry) as content:
                    members.meet(entry.filename, entry.file_size, content)


def require_inside(entries: Iterable[zipfile.ZipInfo], size: int, place: Place) -> None:
    """Raises DamagedPackageError where a file begins outside of a zip of so many bytes: seeking
    there would be an error of the system's."""
    for entry in entries:
        if not 0 <= entry.header_offset < size:
            raise damaged(place, f"files inside its {size:,} bytes", f"{entry.header_offset:,}")


def bounded(content: IO[bytes], size: int, limit: int, path: str, place: Place) -> bytes:
    data = content.read(min(size, limit) + 1)
    if len(data) != size:
        expected = f"{path} of at most {limit:,} bytes" if size > limit else f"{size:,} bytes"
        raise damaged(place, expected, f"{size:,}" if size > limit else f"{len(data):,}")
    return data


def _digests(content: IO[bytes], size: int, path: str, place: Place) -> frozenset[str]:
    """sha256 of a library, and of each part of a universal one."""
    head = content.read(_UNIVERSAL.size)
    magic, count = _UNIVERSAL.unpack(head) if len(head) == _UNIVERSAL.size else (0, 0)
    if magic == _UNIVERSAL_MAGIC and count <= _MOST_PARTS:
        data = head + bounded(content, size - len(head), MAX_LIBRARY, path, place)
        parts = split_universal(data).values()
        return frozenset(hashlib.sha256(one).hexdigest() for one in (data, *parts))
    digest, length = hashlib.sha256(head), len(head)
    while piece := content.read(_CHUNK):
        digest.update(piece)
        length += len(piece)
        if length > MAX_LIBRARY:
            raise damaged(place, f"libraries of at most {MAX_LIBRARY:,} bytes", path)
    return frozenset({digest.hexdigest()})


def _texts_in(data: bytes, path: str, place: Place) -> Iterator[str]:
    """The manifests in a file: one, or those of an XCFramework by ABI."""
    if data.count(b"{") > MAX_OBJECTS or data.count(b",") + data.count(b"[") > MAX_VALUES:
        most = f"at most {MAX_OBJECTS:,} objects and {MAX_VALUES:,} values"
        raise damaged(Place(f"{place}!{path}"), most, "more")
    try:
        value = parse_json(data)
    except ValueError as cause:
        raise damaged(Place(f"{place}!{path}"), "JSON", str(cause)) from None
    match value:
        case {"format": 1, "variants": dict(variants)} if "app" not in value:
            yield from (json.dumps(variants[abi]) for abi in sorted(variants))
        case {"format": int()}:
            yield data.decode("utf-8")
        # some other program's


def _fault(error: ValidationError) -> str:
    """The first fault of a manifest, as one line."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))[:200]
    return f"{where}: {first['msg']}"[:400]


@contextmanager
def readable(place: Place) -> Iterator[None]:
    """Raises DamagedPackageError for what the readers of the standard library raise."""
    try:
        yield
    except _DAMAGE as cause:
        raise damaged(place, "a whole package", str(cause)[:200] or type(cause).__name__) from cause


def damaged(place: Place, expected: str, seen: str) -> DamagedPackageError:
    return DamagedPackageError(
        "this package is truncated or damaged",
        place=place,
        expected=expected,
        seen=seen,
        hint="get it again from where it was published",
    )


def too_large(place: Place) -> DamagedPackageError:
    most = (
        f"at most {MAX_MEMBERS:,} files of {MAX_UNPACKED // 2**20:,} MiB in all,"
        f" and of {MAX_RATIO} times the package's size"
    )
    return damaged(place, most, "more")


def _not_ours(place: Place, seen: str) -> NotAPackageError:
    return NotAPackageError(
        "this is not a package that `orchestrator build` writes",
        place=place,
        expected=_PACKAGES,
        seen=seen,
        hint="name a folder of dist/, or a package of dist/<app>/packages/",
    )
