"""Finds and reads the files of an app's own sources: only inside of its folder, and no links."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.values.config.app import SourcesConfig
from orchestrator.values.own_sources import OwnSources

HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp")
# Together; a mebibyte of C++ takes a compiler minutes.
MOST_BYTES = 2**24
MOST_FILES = 2000
_FIT = re.compile(r"[A-Za-z0-9_.+-]{1,255}")


class MissingSourceError(OrchestratorError):
    """An app names sources, headers or a licence that do not exist."""


class SourceUnfitError(OrchestratorError):
    """A source is a link, has a name that cannot be passed on, is no text, or is too large."""


@dataclass(frozen=True)
class FoundSources:
    """Paths relative to the app's folder, sorted: C++ files, headers that they may read, and files
    of elementwise kernels."""

    files: tuple[str, ...]
    headers: tuple[str, ...]
    kernels: tuple[str, ...]
    faults: tuple[OrchestratorError, ...]


def found_sources(app: App, config: SourcesConfig) -> FoundSources:
    """Find the files that an app's `sources` name, and the faults among them."""
    files, headers = dict[str, Place](), dict[str, Place]()
    faults = list[OrchestratorError]()
    kernels = dict[str, Place]()
    if not config.files and config.kernels is None and not config.operators:
        place = app.places.key(("sources",))
        hint = (
            "name C++ files under `files`, elementwise operators under `kernels`, or operators of"
            " other libraries under `operators`"
        )
        faults.append(MissingSourceError("no sources are named", place=place, hint=hint))
    for into, key, patterns in (
        (files, ("files",), config.files),
        (kernels, ("kernels", "files"), config.kernels.files if config.kernels else ()),
    ):
        for number, pattern in enumerate(patterns):
            place = app.places.value(("sources", *key, number))
            matches = {path for path in app.folder.glob(pattern) if path.is_file()}
            into |= dict.fromkeys((_relative(app, path) for path in matches), place)
            if not matches:
                faults.append(_missing("no source has this name", place, pattern))
    folders = {path.rpartition("/")[0]: place for path, place in files.items()}
    for number, folder in enumerate(config.include):
        place = app.places.value(("sources", "include", number))
        folders[folder.rstrip("/")] = place
        if not (app.folder / folder).is_dir():
            faults.append(_missing("the include folder does not exist", place, folder))
    for folder, place in folders.items():
        for path in (app.folder / folder).rglob("*"):
            if path.suffix in HEADERS and path.is_file():
                headers.setdefault(_relative(app, path), place)
    if config.licence is not None:
        place, text = app.places.value(("sources", "licence", "file")), config.licence.file
        if (app.folder / text).is_file():
            faults += _unfit(app, text, place)
        else:
            faults.append(_missing("the licence's text does not exist", place, text))
    for name, place in {**headers, **files, **kernels}.items():
        faults += _unfit(app, name, place)
    if len(files) + len(headers) + len(kernels) > MOST_FILES:
        place = app.places.key(("sources",))
        faults.append(
            SourceUnfitError(
                "the app has too many sources",
                place=place,
                expected=f"at most {MOST_FILES:,} files, headers among them",
                seen=f"{len(files) + len(headers) + len(kernels):,}",
            )
        )
    return FoundSources(
        tuple(sorted(files)), tuple(sorted(headers)), tuple(sorted(kernels)), tuple(faults)
    )


def files_on_disk(app: App) -> frozenset[Path]:
    """The files that are there now of those that an app's `sources` name, whatever is wrong in
    them: what `found_sources` and the readers of the files look at.

    Raises nothing: folders may come and go while they are listed.
    """
    config = app.config.sources
    if config is None:
        return frozenset()
    files, found = set[Path](), set[Path]()
    for pattern in config.files:
        files |= _matches(app, pattern)
    for pattern in config.kernels.files if config.kernels else ():
        found |= _matches(app, pattern)
    folders = {path.parent for path in files}
    for folder in {*folders, *(app.folder / name for name in config.include)}:
        for parent, _, names in os.walk(folder):
            found |= {Path(parent, name) for name in names if name.endswith(HEADERS)}
    if config.licence is not None:
        found.add(app.folder / config.licence.file)
    return frozenset(files | found)


def _matches(app: App, pattern: str) -> set[Path]:
    found = set[Path]()
    with suppress(OSError):
        found |= {path for path in app.folder.glob(pattern) if path.is_file()}
    return found


def _relative(app: App, path: Path) -> str:
    return path.relative_to(app.folder).as_posix()


def _missing(what: str, place: Place, seen: str) -> MissingSourceError:
    hint = "correct the path; it is relative to the app's folder"
    return MissingSourceError(what, place=place, seen=seen, hint=hint)


def _unfit(app: App, path: str, place: Place) -> Iterator[OrchestratorError]:
    if not all(map(_FIT.fullmatch, path.split("/"))):
        yield SourceUnfitError(
            "a source's name cannot be passed on to a compiler",
            place=place,
            expected="names of letters, digits, `_`, `.`, `+` and `-`",
            seen=path,
            hint="rename it",
        )
    elif (app.folder / path).resolve() != app.folder.resolve() / path:
        yield SourceUnfitError(
            "a source is a symbolic link, or is behind one",
            place=place,
            expected="files inside of the app's folder",
            seen=path,
            hint="copy what it leads to into the app",
        )


def read_sources(app: App) -> OwnSources | None:
    """An app's own sources; None where it has none.

    Raises SourceUnfitError, MissingSourceError.
    """
    config = app.config.sources
    if config is None:
        return None
    found = found_sources(app, config)
    for fault in found.faults:
        raise fault
    texts = read_texts(app, (*found.files, *found.headers))
    return OwnSources(app.name, texts, found.files, config.include, config.flags)


def read_texts(app: App, paths: Iterable[str]) -> dict[str, str]:
    """The texts of files in an app's folder. Raises SourceUnfitError."""
    texts, left = dict[str, str](), MOST_BYTES
    for path in sorted(set(paths)):
        with (app.folder / path).open("rb") as file:
            data = file.read(left + 1)
        left -= len(data)
        try:
            texts[path] = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _no_text(app, path, "UTF-8", f"byte 0x{error.object[error.start]:02x}") from None
        if left < 0:
            raise _no_text(app, path, f"at most {MOST_BYTES:,} bytes in all sources", "more")
    return texts


def _no_text(app: App, path: str, expected: str, seen: str) -> SourceUnfitError:
    place = Place(f"{app.place.file.rpartition('/')[0]}/{path}")
    what = "a source cannot be read"
    return SourceUnfitError(what, place=place, expected=expected, seen=seen)
