"""Symbols that are to be stubs, and what a generator wrote."""

from __future__ import annotations

from pathlib import Path

STUBS = frozenset(
    {
        "_ZN2at4nameEv",
        "_ZN2at11QTensorImplC2ENS_6TensorE",
        # at::kept(std::optional<long>): the NDK's libc++ has another inline namespace
        "_ZN2at4keptENSt3__18optionalIlEE",
    }
)


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
