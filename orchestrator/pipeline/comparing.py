"""What cannot run here is compared with the variant of the same app that ran: how it is made."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from orchestrator.package.macho import read_archive
from orchestrator.package.manifest import read_manifest
from orchestrator.package.symbols import defined_symbols
from orchestrator.pipeline.packaging import is_proven
from orchestrator.pipeline.session import Session
from orchestrator.plan.graph import VariantObjects
from orchestrator.report.structural import Structure, require_same, structure_of
from orchestrator.values.labels import Label


def comparable(session: Session, label: Label, ran: Label) -> bool:
    """Whether `ran` has been delivered and has run, and is cut for the same models as `label`."""
    dist = session.context.dist
    folders = [dist / one.app / str(one.abi) for one in (label, ran)]
    if not all((folder / "manifest.json").is_file() for folder in folders):
        return False
    ours, theirs = (read_manifest(folder).fingerprint for folder in folders)
    return bool(ours) and ours == theirs and is_proven(session, ran)


def require_same_structure(
    session: Session,
    label: Label,
    objects: VariantObjects,
    ran: Label,
    objects_that_ran: VariantObjects,
) -> None:
    """Raises StructureDiffersError where delivered `label` is not made as delivered `ran`."""
    registering = frozenset(
        PurePosixPath(compile.unit).name
        for plan in (objects, objects_that_ran)
        for compile in (*plan.plan.whole, *plan.registrations)
    )
    require_same(
        str(label),
        str(ran),
        _structure(session, ran, objects_that_ran, registering),
        _structure(session, label, objects, registering),
    )


def _structure(
    session: Session, label: Label, objects: VariantObjects, registering: frozenset[str]
) -> Structure:
    folder = session.context.dist / label.app / str(label.abi)
    library = read_manifest(folder).library
    return structure_of(
        _symbols(folder / library.file, library.symbols and folder / library.symbols),
        (folder / library.file).read_bytes(),
        registering=registering,
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
