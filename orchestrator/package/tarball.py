"""`<package name>-<version>-<abi>.tar.zst`: a delivered folder as one file.

Contract: see `delivered.Packager`. The archive has one folder at its top, named as the file is, and
can be unpacked anywhere: the CMake and pkg-config files in it are relative.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.package.archives import write_tar_zst
from orchestrator.package.delivered import NOT_FOR_RELEASE, read_delivery
from orchestrator.package.files import write_package
from orchestrator.package.manifest import Manifest


def names(manifest: Manifest) -> tuple[str, ...]:
    """The one file's name."""
    return (f"{_stem(manifest)}.tar.zst",)


def pack(folder: Path, into: Path) -> tuple[Path, ...]:
    """Makes the tarball of a delivered folder; raises what `read_delivery`, `write_package` do."""
    delivery = read_delivery(folder)
    (name,) = names(delivery.manifest)
    write_package(
        into / name,
        f"tarball 1 {delivery.digest}",
        lambda file: write_tar_zst(file, delivery.files.values(), f"{_stem(delivery.manifest)}/"),
    )
    return (into / name,)


def _stem(manifest: Manifest) -> str:
    stem = f"{manifest.package_name}-{manifest.version}-{manifest.abi}"
    return stem if manifest.for_release else f"{stem}-{NOT_FOR_RELEASE}"
