"""Packages in a build's report: those made, and those not made because an ABI is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PackageFile:
    """A package: its path relative to the workspace, its bytes, and its digest, which is also the
    checksum of `swift package compute-checksum`; None of one that is a folder."""

    path: str
    bytes: int
    sha256: str | None = None


@dataclass(frozen=True)
class MissingAbi:
    """An ABI that belongs to a package and cannot be included, and a short reason."""

    abi: str
    why: str


@dataclass(frozen=True)
class PackageReport:
    """The packages of one kind and of these ABIs, the main file first.

    Where ABIs are missing it was not made, and there are no files.
    """

    app: str
    kind: str
    abis: tuple[str, ...]
    files: tuple[PackageFile, ...] = ()
    missing: tuple[MissingAbi, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)

    def why_not(self) -> str:
        """One line about what is missing."""
        parts = ", ".join(f"{one.abi} {one.why}" for one in self.missing)
        return f"//apps/{self.app}: no {self.kind}: {parts}; build //apps/{self.app} to make it"

    def checksum(self) -> str | None:
        """One line with what `.binaryTarget(url:checksum:)` asks for, of a kind that has one."""
        if self.kind != "xcframework" or not self.files:
            return None
        return f"checksum of {self.files[0].path}: {self.files[0].sha256}"

    def to_json(self) -> dict[str, Any]:
        """{"app": s, "kind": s, "abis": [s], "files": [{"path": s, "bytes": n,
        "sha256": s or null}],
        "missing": [{"abi": s, "why": s}]}"""
        return {
            "app": self.app,
            "kind": self.kind,
            "abis": list(self.abis),
            "files": [
                {"path": file.path, "bytes": file.bytes, "sha256": file.sha256}
                for file in self.files
            ],
            "missing": [{"abi": one.abi, "why": one.why} for one in self.missing],
        }
