"""`<package name>-<version>-<abi>.tar.zst`: a delivered folder as one file, and its symbols apart.

    <name>.tar.zst            all but the symbols
    <name>-symbols.tar.zst    `symbols/`, to be unpacked over the first, with licences and manifest

Contract: see `delivered.Packager`. An archive has one top-level folder, named after the first file,
and can be unpacked anywhere: the CMake and pkg-config files in it use relative paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from orchestrator.deliver import render
from orchestrator.deliver.delivered import NO_ENVIRONMENT, NOT_FOR_RELEASE, Delivery
from orchestrator.deliver.files import File, write_package
from orchestrator.deliver.manifest import MANIFEST, Manifest
from orchestrator.packagers.archives import write_tar_zst

JOINS_ABIS: Final = False

_SYMBOLS: Final = "symbols/"


def names(
    manifests: Sequence[Manifest], env: Mapping[str, str] = NO_ENVIRONMENT
) -> tuple[str, ...]:
    """The archive's name, and that of its symbols."""
    (manifest,) = manifests
    stem = _stem(manifest)
    apart = any(path.startswith(_SYMBOLS) for path in manifest.files)
    return (f"{stem}.tar.zst", *([f"{stem}-symbols.tar.zst"] if apart else []))


def pack(
    deliveries: Sequence[Delivery], into: Path, env: Mapping[str, str] = NO_ENVIRONMENT
) -> tuple[Path, ...]:
    """Makes the archives of a delivery; raises what `write_package` does."""
    (delivery,) = deliveries
    targets = tuple(into / name for name in names([delivery.manifest]))
    contents = (_without_symbols(delivery), _symbols(delivery))
    for target, files in zip(targets, contents, strict=False):
        write_package(
            target,
            f"tarball 2 {delivery.digest}",
            partial(_write, files=files, stem=_stem(delivery.manifest)),
        )
    return targets


def _without_symbols(delivery: Delivery) -> list[File]:
    return [file for path, file in delivery.files.items() if not path.startswith(_SYMBOLS)]


def _symbols(delivery: Delivery) -> list[File]:
    documents = f"share/doc/{render.package_name(delivery.manifest.app)}/"
    return [
        file
        for path, file in delivery.files.items()
        if path.startswith((_SYMBOLS, documents)) or path == MANIFEST
    ]


def _write(target: BinaryIO, files: Iterable[File], stem: str) -> None:
    write_tar_zst(target, files, f"{stem}/")


def _stem(manifest: Manifest) -> str:
    stem = f"{manifest.package_name}-{manifest.version}-{manifest.abi}"
    return stem if manifest.for_release else f"{stem}-{NOT_FOR_RELEASE}"
