"""Our own C and C++ files: what an object of each depends on.

So a change of one compiles again what reads it, and nothing else. A file is named by its path under
native/ (`capi/capi.cpp`), one of a PyTorch version's overlay by its path there (`overlay/quiet.h`).
Pure: texts are passed in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

# The name behind `#include`, in quotes or angle brackets; a name that a macro gives has neither.
_INCLUDE: Final = re.compile(
    rb'^[ \t]*#[ \t]*(?:include|include_next|import)\b[ \t]*(?:["<]([^">\n]+)[">])?', re.M
)
_OVERLAY: Final = "overlay/"
_VARIABLE: Final = re.compile(r"\$(?:native/|(?=overlay/))")


@dataclass(frozen=True)
class NativeFiles:
    """All of our own files.

    digest  of them all: sha256 (hex) over each one's name, a zero byte, its content and another
            zero byte, in the order of names
    texts   name (`capi/capi.cpp`) -> content
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

    def found_by(self, flags: Sequence[str]) -> Mapping[str, str]:
        """name -> sha256 (hex) of each of ours that any unit with these flags may read, sorted.

        That is every header below a folder of ours on the include path (`-I$native/fft`), what is
        read first (`-include $native/fft/enabled.h`), and all that these may include. Raises
        `KeyError` where a file that is read first does not exist.
        """
        return _found_by(self, tuple(flags))


def variable_path(name: str) -> str:
    """The path that stands for one of our files in commands: `$native/capi/capi.cpp`."""
    return f"${name}" if name.startswith(_OVERLAY) else f"$native/{name}"


def own_name(path: str) -> str | None:
    """The name of one of our files or folders, of its path in commands; None for others'."""
    found = _VARIABLE.match(path)
    return path[found.end() :] if found else None


def native_files(texts: Mapping[str, bytes]) -> NativeFiles:
    """The files of these texts, by name."""
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
def _found_by(files: NativeFiles, flags: tuple[str, ...]) -> Mapping[str, str]:
    found = dict[str, str]()
    for name in _named_by(files, flags):
        found |= _read_by(files, name)
    return dict(sorted(found.items()))


def _named_by(files: NativeFiles, flags: tuple[str, ...]) -> Iterator[str]:
    for folder in _operands(flags, "-I"):
        names = (name for name in files.texts if name.startswith(f"{folder}/"))
        yield from (name for name in names if name.endswith(".h"))
    yield from _operands(flags, "-include")


def _operands(flags: tuple[str, ...], option: str) -> Iterator[str]:
    """Names of ours behind an option, in the same word or in the next."""
    for flag, following in pairwise((*flags, "")):
        operand = following if flag == option else flag.removeprefix(option)
        if flag.startswith(option) and (name := own_name(operand)) is not None:
            yield name


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
