"""A delivered folder as the packagers read it: what its manifest lists, and nothing else.

Contract: the files are those of the manifest, with the digests that it gives; a folder that was
modified by hand is refused, so that a package always matches its manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from orchestrator.deliver.files import File
from orchestrator.deliver.manifest import MANIFEST, Manifest, read_manifest
from orchestrator.errors import OrchestratorError, Place

NOT_FOR_RELEASE: Final = "NOT-FOR-RELEASE"
# For packagers that start no program.
NO_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType({})


class ChangedDeliveryError(OrchestratorError):
    """A file of a delivered folder is missing or is not what the manifest says."""


class Packager(Protocol):
    """A kind of package. Modules satisfy it: `packagers.tarball`, `packagers.deb`.

    JOINS_ABIS  whether one package holds all of an app's ABIs; else each ABI has its own

    `names` and `pack` take variants of one app, exactly one where ABIs are not joined; what they
    take was read once for all kinds. env: the
    environment's variables, which say where a packager's tools are (a JDK, for an AAR).
    """

    JOINS_ABIS: bool

    def names(self, manifests: Sequence[Manifest], env: Mapping[str, str]) -> tuple[str, ...]:
        """The packages' file names, the main one first; raises what `pack` raises about it."""

    def pack(
        self, deliveries: Sequence[Delivery], into: Path, env: Mapping[str, str]
    ) -> tuple[Path, ...]:
        """Makes the packages of deliveries in the folder `into`; returns their paths.

        An existing package with the same inputs stays as it is.
        """


@dataclass(frozen=True)
class Delivery:
    """A folder's manifest, and its files by path; `digest` identifies the whole."""

    manifest: Manifest
    files: dict[str, File]
    digest: str


def read_delivery(folder: Path) -> Delivery:
    """The delivery in a folder; raises `UnreadableManifestError`, `ChangedDeliveryError`."""
    manifest = read_manifest(folder)
    files = {path: File(path, folder / path) for path in sorted(manifest.files)}
    library = manifest.library.file
    files[library] = File(library, folder / library, executable=not manifest.library.is_static)
    wrong = [line for path, file in files.items() if (line := _problem(manifest, path, file))]
    if wrong:
        raise _changed(folder, manifest, wrong)
    files[MANIFEST] = File(MANIFEST, folder / MANIFEST)
    return Delivery(manifest, files, files[MANIFEST].sha256())


def _problem(manifest: Manifest, path: str, file: File) -> str | None:
    """Describe the fault of a file; None if it is as the manifest has it."""
    fact = manifest.files.get(path)
    if fact is None:
        return f"{path} is not in the manifest"
    try:
        if file.sha256() == fact.sha256:
            return None
        size = file.size()
    except OSError as cause:
        return f"{path}: {cause.strerror}"
    if size != fact.bytes:
        return f"{path} has {size:,} bytes, not {fact.bytes:,}"
    return f"{path} has different content"


def _changed(folder: Path, manifest: Manifest, wrong: Sequence[str]) -> ChangedDeliveryError:
    return ChangedDeliveryError(
        "the delivered folder was modified",
        place=Place(str(folder)),
        expected="the files that its manifest lists, with their digests",
        seen=", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else ""),
        hint=f"build the variant again: ./orchestrate build {manifest.label}",
    )
