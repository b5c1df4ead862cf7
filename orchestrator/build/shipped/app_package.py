"""Looks into an Android app's package without building: which PyTorch is in it, and whether its
models would run in ours.

A package may come from anywhere: it is read within limits, and nothing of it is run.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from orchestrator.binary import elf_pages
from orchestrator.build.shipped.fits import every_version
from orchestrator.build.workshop.offers import offers
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import Workspace
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.models.offers import Offer
from orchestrator.packagers.app_package import AppPackage, Member, opened_app
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.report.app_package import (
    AppPackageReport,
    FoundLibrary,
    FoundModel,
    LibraryKind,
)

# The page that Google Play asks for, of ABIs with 64 bits; those of 32 bits have pages of 4 KB.
PAGE: Final = 0x4000
_WIDE: Final = frozenset({"arm64-v8a", "x86_64"})
# The files of org.pytorch's AARs: of both interpreters, of torchvision, and what they need.
_MOBILE: Final = re.compile(
    r"libpytorch_(?:jni|jni_lite|vision_jni)\.so|libtorch(?:_cpu|-code-gen)?\.so|libc10\.so"
    r"|libfbjni\.so"
)
_EXECUTORCH: Final = re.compile(r"libexecutorch\w*\.so")
# What a library has whatever was stripped off it: a function that we export; the names of types
# that are thrown, c10::Error and executorch::runtime::EValue's, as C++ writes them (Itanium C++
# ABI, 5.1).
_OURS: Final = b"\0lta_module_load\0"
_PYTORCH: Final = b"N3c105ErrorE"
_EXECUTORCH_INSIDE: Final = b"N10executorch"


def app_package(path: Path, workspace: Workspace) -> AppPackageReport:
    """Report the contents of a package. Raises NotAnAppPackageError, DamagedPackageError."""
    with opened_app(path) as package:
        libraries = tuple(_library(package, one) for one in package.libraries)
        models = tuple(_models(package, workspace)) if package.models else ()
    return AppPackageReport(str(path), libraries, models)


def _library(package: AppPackage, member: Member) -> FoundLibrary:
    data = package.read(member)
    wide = member.abi in _WIDE
    faults = tuple(_faults(data)) if wide else ()
    kind = _kind(member.name, data)
    place = _misplaced(member) if wide else None
    return FoundLibrary(member.path, member.name, member.abi, wide, kind, faults, place)


def _kind(name: str, data: bytes) -> LibraryKind:
    if _OURS in data:
        return "ours"
    if _MOBILE.fullmatch(name):
        return "pytorch_mobile"
    if _EXECUTORCH.fullmatch(name) or _EXECUTORCH_INSIDE in data:
        return "executorch"
    return "pytorch_inside" if _PYTORCH in data else "other"


def _faults(data: bytes) -> Iterator[str]:
    """Why a device with larger pages does not load a library."""
    try:
        elf = ELFFile(io.BytesIO(data))
        found = elf_pages.fault(elf, PAGE)
        loads = int(elf["e_phnum"])
    except (ELFError, ValueError, LookupError, OverflowError):
        loads = 0
    if not loads:
        yield "is no ELF file"
        return
    if found is not None:
        yield f"{found.what}: {found.seen}, not {found.expected}"


def _misplaced(member: Member) -> int | None:
    """Return the place of a library in the APK, if it cannot be mapped there.

    Android maps a library that is not compressed; others it unpacks first.
    """
    stored = member.path.startswith("lib/") and member.placed is not None
    return member.placed if stored and (member.placed or 0) % PAGE else None


def _models(package: AppPackage, workspace: Workspace) -> Iterator[FoundModel]:
    config = workspace.config
    offered = tuple(offers(config.pins, config.defaults.backends))
    with tempfile.TemporaryDirectory(prefix="models-") as folder:
        file = Path(folder, "model")
        for member in package.models:
            file.write_bytes(package.read(member))
            yield _model(member.path, file, offered)


def _model(path: str, file: Path, offered: Sequence[Offer]) -> FoundModel:
    try:
        info = read_model(file, every_version(), name=path)
    except OrchestratorError as error:
        return FoundModel(path, error=error)
    asked = frozenset(info.root_operators)
    lacks = {
        offer.version: tuple(sorted(map(str, asked - offer.operators)))
        for offer in offered
        if _reads(offer, info)
    }
    return FoundModel(
        path,
        info.bytecode_version,
        len(asked),
        runs=tuple(version for version, missing in lacks.items() if not missing),
        missing={version: missing for version, missing in lacks.items() if missing},
    )


def _reads(offer: Offer, info: ModelInfo) -> bool:
    """True if a version of PyTorch reads models in the form of this one."""
    versions = DIALECTS[offer.version].models
    return info.bytecode_version in versions.bytecode and info.archive_version in versions.archive
