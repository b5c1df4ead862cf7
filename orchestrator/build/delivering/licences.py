"""The licences of a variant's contents: parts of PyTorch by its units, libraries by its symbols."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path, PurePosixPath

from orchestrator.binary.elf_symbols import defined_symbols
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.libraries import PreparedLibrary
from orchestrator.build.workshop.native import NATIVE
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.compilers.driver import LinkedPart
from orchestrator.deliver.files import File
from orchestrator.deliver.manifest import SourceFact
from orchestrator.deliver.sbom import PYTORCH
from orchestrator.deliver.variant import Licence
from orchestrator.load.advisories import OWN, read_advisories
from orchestrator.load.declared import Workspace
from orchestrator.pytorch.versions import LicenceRule, VersionData
from orchestrator.source.tree import (
    TreeEmptyError,
    TreeLinkError,
    TreeRules,
    digest_files,
    digest_of,
    tree_files,
)
from orchestrator.values.advisories import Advisory
from orchestrator.values.own_sources import OwnSources

# This project's, as pyproject.toml says it; the text is a copy of the one at the root.
OWN_LICENCE = "BSD-3-Clause"
_OURSELVES = "libtorch-orchestrator"


def licences(
    here: Invocation, runtime: Runtime, abi: str, units: Collection[str], linked: Path | None
) -> tuple[Licence, ...]:
    """The licences of a variant of these units, and of what its linker put into it.

    `linked` is the unstripped shared library; None where archives alone are delivered, into which
    a linker puts nothing.
    """
    return (
        own_licence(),
        *_of_runtime(runtime, units),
        *_of_library(runtime, units),
        *_of_app(here.workspace, runtime),
        *(of_linked(here.toolchains.of(abi).driver.linked, linked) if linked else ()),
    )


def own_licence() -> Licence:
    """The orchestrator's own licence: every library contains our C API and code that we
    generate."""
    return Licence(
        _OURSELVES,
        metadata.version(_OURSELVES),
        OWN_LICENCE,
        {"LICENSE": NATIVE / "LICENSE"},
        source_of(NATIVE.parent, ("native/**",)),
    )


def held_parts(rules: Iterable[LicenceRule], units: Collection[str]) -> Iterator[LicenceRule]:
    """The rules of those parts of PyTorch of which at least one unit is linked.

    units: paths relative to PyTorch's tree; a rule's `units` are globs of such paths
    """
    for rule in rules:
        holding = TreeRules(rule.units)
        if any(holding.counts(unit) for unit in units):
            yield rule


def mended_in(version: VersionData, units: Collection[str]) -> tuple[str, ...]:
    """Names of the advisories against which a header of ours stands before one of the units."""
    headers = {rule.header for rule in version.include if rule.unit in units}
    return tuple(
        one.id
        for one in _advisories()
        if one.mended and one.mended.header in headers and one.concerns(version.version)
    )


@cache
def _advisories() -> tuple[Advisory, ...]:
    return read_advisories(OWN)


def of_linked(parts: Iterable[LinkedPart], library: Path) -> Iterator[Licence]:
    """The toolchain's libraries that an unstripped library holds: one of their symbols tells."""
    symbols = defined_symbols(library)
    for part in parts:
        if any(symbol.startswith(part.witnesses) for symbol in symbols):
            source = source_of(part.folder, part.sources)
            yield Licence(part.name, part.version, part.licence, part.texts, source)


@cache
def source_of(folder: Path, globs: Sequence[str]) -> SourceFact | None:
    """The digest of the files below `folder` that match; None where there are none."""
    try:
        files = tree_files(folder, TreeRules(tuple(globs))) if globs else ()
    except (TreeEmptyError, TreeLinkError):
        return None
    if not files:
        return None
    one = File("", folder / files[0]).sha256() if len(files) == 1 else None
    return SourceFact(sha256=one or digest_files(folder, files), files=tuple(globs))


def source_of_app(sources: OwnSources) -> SourceFact:
    """The digest of an app's own sources, with those that were generated or added for it."""
    files = {
        path: hashlib.sha256(text.encode()).hexdigest()
        for path, text in sorted(sources.texts.items())
    }
    one = next(iter(files.values())) if len(files) == 1 else None
    return SourceFact(sha256=one or digest_of(files), files=tuple(files))


def _of_runtime(runtime: Runtime, units: Collection[str]) -> Iterator[Licence]:
    for rule in held_parts(runtime.version.licences, units):
        folder = _folder(runtime, rule.third_party)
        yield Licence(
            rule.component,
            rule.version,
            rule.licence,
            {name: text.read(folder) for name, text in rule.texts.items()},
            _source(runtime, folder, rule),
            mended_in(runtime.version, units) if rule.component == PYTORCH else (),
        )


def _of_library(runtime: Runtime, units: Collection[str]) -> Iterator[Licence]:
    """The parts of a library of kernels, where one of its units is linked."""
    library = runtime.library
    linked = [unit for unit in units if library and unit.startswith(tuple(_folders(library)))]
    if library is None or not linked:
        return
    for rule in library.data.licences:
        holding = TreeRules(rule.units)
        if any(holding.counts(unit) for unit in linked):
            yield Licence(
                rule.component,
                rule.version,
                rule.licence,
                {rule.text: (library.trees[rule.tree] / rule.text).read_bytes()},
                SourceFact(sha256=library.pinned[rule.tree]),
            )


def _of_app(workspace: Workspace, runtime: Runtime) -> Iterator[Licence]:
    """That of the app's own sources, where it is declared."""
    if runtime.sources is None:
        return
    app = workspace.apps[runtime.sources.app]
    declared = app.config.sources and app.config.sources.licence
    if declared:
        text = app.folder / declared.file
        yield Licence(
            f"{app.name}-sources",
            app.config.version,
            declared.expression,
            {text.name: text},
            source_of_app(runtime.sources),
        )


def _folders(library: PreparedLibrary) -> Iterator[str]:
    """Prefixes of the names of a library's units."""
    return (f"{tree}/" for tree in library.trees)


def _source(runtime: Runtime, folder: Path, rule: LicenceRule) -> SourceFact:
    """Source that a part of PyTorch was compiled from: its files, or a tree that WORKSPACE pins."""
    if rule.files:
        found = source_of(folder, rule.files)
        assert found, f"{rule.component} has no file in the tree"
        return found
    pin = runtime.pin
    third_party = rule.third_party
    return SourceFact(sha256=pin.third_party[third_party].tree if third_party else pin.tree)


def _folder(runtime: Runtime, third_party: str | None) -> Path:
    """The folder that a rule's texts are relative to; a header set's lies above its `include`."""
    fetched = runtime.fetched
    if third_party is None:
        return fetched.tree
    include = runtime.pin.third_party[third_party].include
    return fetched.third_party[third_party].parents[len(PurePosixPath(include).parts) - 1]
