"""Compares the structure of a variant that cannot run here with that of the same app's executed
one."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from orchestrator.binary.elf_symbols import defined_symbols
from orchestrator.binary.macho import read_archive
from orchestrator.build.delivering.package import is_proven
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.deliver.manifest import MANIFEST, read_manifest
from orchestrator.deliver.variant import Delivered
from orchestrator.plan.graph import VariantObjects
from orchestrator.values.labels import VariantLabel
from orchestrator.verify.structural import Structure, require_same, structure_of, wrappers_of


def comparable(here: Invocation, delivered: Delivered, ran: VariantLabel) -> bool:
    """True if `ran` is in dist/, was executed, and was built for the same models as `delivered`."""
    theirs = _folder(here, ran)
    if not (theirs / MANIFEST).is_file():
        return False
    ours = delivered.manifest.fingerprint
    return bool(ours) and ours == read_manifest(theirs).fingerprint and is_proven(here, ran)


def require_same_structure(
    here: Invocation,
    label: VariantLabel,
    delivered: Delivered,
    objects: VariantObjects,
    ran: VariantLabel,
    objects_that_ran: VariantObjects,
) -> None:
    """Raises StructureDiffersError where `label`, as delivered, is not made as `ran` in dist/."""
    registering = frozenset(
        PurePosixPath(compile.unit).name
        for plan in (objects, objects_that_ran)
        for compile in (*plan.plan.whole, *plan.registrations)
    )
    direct = unregistered(objects) | unregistered(objects_that_ran)
    require_same(
        str(label),
        str(ran),
        _structure(_folder(here, ran), objects_that_ran, registering, direct),
        _structure(delivered.folder, objects, registering, direct),
    )


def unregistered(objects: VariantObjects) -> frozenset[str]:
    """The names of the wrappers (`wrappers_of`) of all kernels that a variant's code calls
    directly: these calls pass the dispatcher by, so nothing registers the kernels."""
    request = objects.plan.request
    called = {(operator, key) for key, operators in request.direct for operator in operators}
    return frozenset(name for pair in {*called, *request.resolved} for name in wrappers_of(*pair))


def _folder(here: Invocation, label: VariantLabel) -> Path:
    return here.context.dist / label.delivered


def _structure(
    folder: Path, objects: VariantObjects, registering: frozenset[str], direct: frozenset[str]
) -> Structure:
    library = read_manifest(folder).library
    return structure_of(
        _symbols(folder / library.file, library.symbols and folder / library.symbols),
        (folder / library.file).read_bytes(),
        registering=registering,
        direct=direct,
        dtypes={
            compile.unit: compile.projection
            for compile in objects.plan.compiles
            if compile.projection is not None
        },
        collected=library.symbols is not None,
    )


def _symbols(library: Path, apart: Path | str | None) -> frozenset[str]:
    """All symbols that a library defines: an ELF library's lie apart, an archive has its own."""
    if apart:
        return defined_symbols(Path(apart))
    return frozenset(
        str(symbol.name) for member in read_archive(library) for symbol in member.binary.symbols
    )
