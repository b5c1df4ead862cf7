"""Our own C and C++ files (`native/`): what an object of each depends on.

So a change of one compiles again what reads it, and nothing else. Pure: texts are passed in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

# The name behind `#include`, in quotes or angle brackets; a name that a macro gives has neither.
_INCLUDE: Final = re.compile(
    rb'^[ \t]*#[ \t]*(?:include|include_next|import)\b[ \t]*(?:["<]([^">\n]+)[">])?', re.M
)


@dataclass(frozen=True)
class NativeFiles:
    """All of our own files.

    digest  of them all: sha256 (hex) over each one's path under native/, a zero byte, its content
            and another zero byte, in the order of paths
    texts   path under native/ (`capi/capi.cpp`) -> content
    """

    digest: str
    texts: Mapping[str, bytes]

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NativeFiles) and self.digest == other.digest

    def read_by(self, source: str) -> Mapping[str, str]:
        """path -> sha256 (hex) of a source, and of all of ours that it may include, sorted.

        May: an include names each file of ours whose path ends with it, whatever folders the
        compiler searches, and a name that a macro gives names all. Raises `KeyError` where there
        is no such source.
        """
        return _read_by(self, source)

    def digest_of(self, source: str) -> str:
        """sha256 (hex) of what `read_by` tells."""
        return _digest_of(self, source)


def native_files(texts: Mapping[str, bytes]) -> NativeFiles:
    """The files of these texts, by path under native/."""
    return NativeFiles(_digest(texts), texts)


@cache
def _digest_of(files: NativeFiles, source: str) -> str:
    return _digest({path: files.texts[path] for path in _read_by(files, source)})


@cache
def _read_by(files: NativeFiles, source: str) -> Mapping[str, str]:
    found, wanted = {source}, [source]
    while wanted:
        for path in _included(files, wanted.pop()):
            if path not in found:
                found.add(path)
                wanted.append(path)
    return {path: hashlib.sha256(files.texts[path]).hexdigest() for path in sorted(found)}


@cache
def _included(files: NativeFiles, path: str) -> tuple[str, ...]:
    names = {match[1] for match in _INCLUDE.finditer(files.texts[path])}
    if None in names:
        return tuple(files.texts)
    return tuple(one for name in sorted(names) for one in _named(files, name.decode()))


def _named(files: NativeFiles, name: str) -> Iterator[str]:
    """The files that an include may mean: `capi/x.h` by `../capi/x.h`, `capi/x.h` or `x.h`."""
    parts = [part for part in name.split("/") if part not in (".", "..", "")]
    ending = "/" + "/".join(parts)
    named = _by_name(files).get(parts[-1], ()) if parts else ()
    yield from (path for path in named if f"/{path}".endswith(ending))


@cache
def _by_name(files: NativeFiles) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(files.texts):
        found.setdefault(path.rpartition("/")[2], []).append(path)
    return found


def _digest(texts: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path, text in sorted(texts.items()):
        digest.update(path.encode() + b"\0" + text + b"\0")
    return digest.hexdigest()
