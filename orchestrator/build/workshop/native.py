"""Our own C and C++ files: where they are, and what they include of each other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from orchestrator.plan.native_files import NativeFiles, native_files
from orchestrator.plan.variant import OwnHeader

NATIVE: Final = Path(__file__).parents[2] / "native"
_SUFFIXES: Final = frozenset({".h", ".cpp", ".c"})


@cache
def own_native_files(overlay: Path | None = None) -> NativeFiles:
    """Our own sources and headers in C and C++ (`.h`, `.cpp`, `.c`): those under native/, and those
    of a PyTorch version's overlay."""
    texts = dict(_texts(NATIVE, ""))
    if overlay is not None:
        texts |= _texts(overlay, "overlay/")
    return native_files(texts)


def _texts(folder: Path, start: str) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.suffix in _SUFFIXES:
            yield start + path.relative_to(folder).as_posix(), path.read_bytes()


def own_header(
    files: NativeFiles,
    name: str,
    by_choice: bool = False,
    *,
    behind: bool = False,
    first: bool = False,
) -> OwnHeader:
    """A header of ours, by its name among `files`; the digest covers what it may include as well.

    by_choice  only variants whose specification asks for it are compiled with it
    behind     the unit reads it after its projection
    first      the unit reads it before every other header
    Raises KeyError.
    """
    return OwnHeader(name, files.digest_of(name), by_choice, behind, first)
