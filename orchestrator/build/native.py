"""Our own C and C++ files: where they are, and what they include of each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from orchestrator.plan.native_files import NativeFiles, native_files
from orchestrator.plan.variant import OwnHeader
from orchestrator.values.fingerprint import text_digest

NATIVE: Final = Path(__file__).parent.parent / "native"
_QUOTED: Final = re.compile(r'^#include "(.+)"', re.MULTILINE)


def own_native_files() -> NativeFiles:
    """Our own sources and headers in C and C++ (`.h`, `.cpp`, `.c`) under native/."""
    paths = (p for p in NATIVE.rglob("*") if p.suffix in {".h", ".cpp", ".c"})
    return native_files({p.relative_to(NATIVE).as_posix(): p.read_bytes() for p in paths})


def own_header(
    path: str, by_choice: bool = False, *, behind: bool = False, first: bool = False
) -> OwnHeader:
    """A header of ours, by its path under native/; the digest covers what it includes in quotes as
    well.

    by_choice  only variants whose specification asks for it are compiled with it
    behind     the unit reads it after its projection
    first      the unit reads it before every other header
    """
    digest = text_digest("".join(header_texts(NATIVE / path)))
    return OwnHeader(path, digest, by_choice, behind, first)


def header_texts(header: Path) -> tuple[str, ...]:
    """The texts of a header of ours and of all that it includes in quotes, which are ours too."""
    return tuple(headers_read(header).values())


def headers_read(header: Path) -> dict[Path, str]:
    """Path -> text of a header of ours and of all that it includes in quotes, each once.

    Angle brackets are PyTorch's and the system's headers, which have identities of their own.
    """
    texts: dict[Path, str] = {}
    wanted = [header]
    while wanted:
        path = wanted.pop()
        if path not in texts:
            texts[path] = path.read_text()
            wanted += [path.parent / name for name in _QUOTED.findall(texts[path])]
    return texts
