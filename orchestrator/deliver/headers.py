"""The headers of a delivery: those that a translation unit was compiled with.

Contract: `headers_from_depfile` is pure. It reads the dependencies that the compiler wrote (`-MD`;
GNU make's syntax, as clang and gcc write it: one rule, ` \\` at line ends, `\\ ` for a space, `\\#`
for a hash, `$$` for a dollar) and says where each one goes below `include/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from orchestrator.errors import OrchestratorError

_WORD: Final = re.compile(r"(?:\\[ #]|\$\$|[^\s\\]|\\(?!\r?\n))+")
_ESCAPE: Final = re.compile(r"\\([ #])|\$\$")
_SOURCES: Final = frozenset((".c", ".cc", ".cpp", ".cxx", ".S"))


class MalformedDepfileError(OrchestratorError):
    """A text that should be a compiler's dependency file is not one."""


class ShadowedHeaderError(OrchestratorError):
    """Two headers of different folders have the same destination."""


@dataclass(frozen=True, order=True)
class HeaderFile:
    """A header: where it is, and where it goes, relative to `include/`."""

    source: str
    destination: str


def headers_from_depfile(depfile_text: str, roots: Mapping[str, str]) -> list[HeaderFile]:
    """The headers below `roots` that the depfile names, sorted by destination.

    `roots` maps an include folder, as it was given to the compiler, to the folder below `include/`
    that its headers go to (`""`: `include/` itself). Of two roots that hold a header the longer
    wins. Headers below no root are the system's or the compiler's, and are omitted, and so are
    source files. Raises `MalformedDepfileError`, and `ShadowedHeaderError` where two sources meet.
    """
    by_length = sorted(
        ((PurePosixPath(root), prefix) for root, prefix in roots.items()),
        key=lambda entry: (-len(entry[0].parts), str(entry[0])),
    )
    found: dict[str, str] = {}
    for name in _dependencies(depfile_text):
        path = PurePosixPath(_normal(name))
        if path.suffix in _SOURCES:
            continue
        for root, prefix in by_length:
            if path.is_relative_to(root):
                destination = str(PurePosixPath(prefix) / path.relative_to(root))
                _claim(found, destination, str(path))
                break
    return sorted(
        (HeaderFile(source, destination) for destination, source in found.items()),
        key=lambda header: header.destination,
    )


def _claim(found: dict[str, str], destination: str, source: str) -> None:
    known = found.setdefault(destination, source)
    if known != source:
        raise ShadowedHeaderError(
            f"two headers would go to include/{destination}",
            expected="one source for each header",
            seen=f"{known} and {source}",
        )


def _normal(name: str) -> str:
    """The path without `.` and `..` parts, as text: depfiles hold `a/b/../c.h`."""
    parts: list[str] = []
    for part in PurePosixPath(name).parts:
        if part == ".." and parts and parts[-1] not in ("..", "/"):
            parts.pop()
        else:
            parts.append(part)
    return str(PurePosixPath(*parts))


def _dependencies(text: str) -> list[str]:
    words = [_ESCAPE.sub(lambda m: m[1] or "$", word) for word in _WORD.findall(text)]
    target = next((i for i, word in enumerate(words) if word.endswith(":")), None)
    if target is None:
        raise MalformedDepfileError(
            "this is not a compiler's dependency file",
            expected="a rule such as `unit.o: unit.cpp unit.h`",
            seen=repr(text[:80]),
        )
    # Rules without prerequisites follow under -MP: `unit.h:`.
    return [word for word in words[target + 1 :] if not word.endswith(":")]


# A declaration of the C API: `LTA_API lta_status lta_module_load(`
_FUNCTION: Final = re.compile(r"LTA_API\s+[^;]*?\b(lta_\w+)\s*\(")


def api_functions(header: str) -> frozenset[str]:
    """The functions that the text of the C API's header declares: what a library exports."""
    return frozenset(_FUNCTION.findall(header))
