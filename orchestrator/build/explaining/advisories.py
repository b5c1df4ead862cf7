"""Answers what known vulnerabilities of PyTorch mean for libraries: for those of apps from their
plans, for those that were delivered from their manifests.

A manifest has what the walk of a plan begins with: operators, backends, kernels of ours, and the
symbols of PyTorch that the app's own sources refer to. So both give the same verdicts; only the
names of the models that ask for an operator are the plan's alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from orchestrator.build.explaining.explain import walked
from orchestrator.build.planning.plan import Variant, plan_variants
from orchestrator.build.planning.selected import require_held
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.runtime_index import known_runtime
from orchestrator.deliver.manifest import Manifest
from orchestrator.deliver.sbom import PYTORCH
from orchestrator.errors import OrchestratorError, Place
from orchestrator.libraries.features import load_entries
from orchestrator.packagers.contents import ENDINGS, bills_in, holds, read_packages
from orchestrator.plan.static_links import StaticLinks
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.select.advisories import LinkedCode, verdicts
from orchestrator.select.fits import KnownRuntime
from orchestrator.values.advisories import Advisory, LibraryVerdicts
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import Selection

_NOBODY: Final = frozenset[str]()


class UnjudgedLibraryError(OrchestratorError):
    """A delivered library's manifest does not say enough to find out what code is in it."""


def judged(
    here: Invocation, labels: Sequence[VariantLabel], advisories: Sequence[Advisory]
) -> tuple[LibraryVerdicts, ...]:
    """The verdicts on each library, in the order of the labels. Raises what planning raises."""
    planned = {one.label: one for one in plan_variants(here, labels, generate=False)}
    return tuple(_judged(here, planned[label], advisories) for label in labels)


def _judged(here: Invocation, variant: Variant, advisories: Sequence[Advisory]) -> LibraryVerdicts:
    runtime = here.runtimes.of(variant.label.app)
    kernels, walk = walked(runtime, variant)
    code = LinkedCode(
        runtime.index,
        kernels,
        variant.selection,
        walk,
        whole_units=isinstance(variant.links, StaticLinks),
        own=_own_nodes(runtime),
    )
    return _answer(variant.label, runtime.version.version, advisories, code)


def _own_nodes(runtime: Runtime) -> Iterable[int]:
    """The nodes that are live because the app's own units are linked."""
    for unit in runtime.index.units:
        if unit.path in runtime.facts.app_units:
            yield from unit.init


def _answer(
    label: VariantLabel, pytorch: str, advisories: Sequence[Advisory], code: LinkedCode
) -> LibraryVerdicts:
    found = verdicts(advisories, pytorch, code)
    return LibraryVerdicts(label, pytorch, tuple(found.values()), len(advisories) - len(found))


def is_package(subject: str) -> bool:
    """True if a command's argument names a package, and no label. A file that is not there with the
    ending of one is a package too, and no misspelt label."""
    if not subject or subject.startswith("//"):
        return False
    return subject.endswith(ENDINGS) or Path(subject).exists()


@dataclass(frozen=True)
class JudgedPackage:
    """The verdicts on each library in a package, by ABI.

    first  the manifest of the first
    bills  serial numbers of the bills of materials in it
    """

    first: Manifest
    bills: tuple[str, ...]
    libraries: tuple[LibraryVerdicts, ...]


@dataclass(frozen=True)
class Judge:
    """Judges libraries by their manifests; reads each runtime's index once."""

    advisories: Sequence[Advisory]
    _runtimes: dict[tuple[str, str], KnownRuntime | None] = field(default_factory=dict)

    def package(self, path: Path) -> JudgedPackage:
        """The verdicts on each library in a package.

        Raises what `read_packages` raises, OtherSelectionError, and UnjudgedLibraryError.
        """
        place, found = Place(str(path)), read_packages(path)
        for one in found:
            require_held(one.manifest.selection_digest, partial(holds, one), place)
        return JudgedPackage(
            found[0].manifest,
            bills_in(path),
            tuple(replace(self.library(one.manifest, place), package=str(path)) for one in found),
        )

    def library(self, manifest: Manifest, place: Place) -> LibraryVerdicts:
        """The verdicts on the library that a manifest is of. Raises UnjudgedLibraryError."""
        runtime, symbols = self._runtime(manifest, place), _kernel_symbols(manifest, place)
        selected = manifest.selection
        if selected.root_operators is None or not selected.backends:
            raise _unjudged(place, "its operators' backends", "a manifest from before it had them")
        if manifest.sources is not None and not manifest.source_calls:
            raise _unjudged(
                place,
                "what the app's own sources call",
                "a manifest from before it had that",
            )
        roots = [*map(OperatorName.known, selected.root_operators)]
        operators = [*map(OperatorName.known, selected.operators)]
        kernels, walk = runtime.linked(
            operators, roots, selected.backends, {*symbols, *manifest.source_calls}
        )
        code = LinkedCode(
            runtime.index,
            kernels,
            Selection(
                operators=dict.fromkeys(operators, _NOBODY),
                custom_classes=dict.fromkeys(selected.custom_classes, _NOBODY),
            ),
            walk,
            whole_units=manifest.library.is_static,
            own=runtime.index.defining(manifest.source_calls),
            mends=[
                name
                for fact in manifest.licences
                if fact.component == PYTORCH
                for name in fact.mended
            ],
        )
        return _answer(manifest.label, manifest.runtime.pytorch, self.advisories, code)

    def _runtime(self, manifest: Manifest, place: Place) -> KnownRuntime:
        key = (manifest.runtime.pytorch, manifest.runtime.tree)
        if key not in self._runtimes:
            self._runtimes[key] = known_runtime(*key)
        found = self._runtimes[key]
        if found is None:
            raise _unjudged(
                place,
                "a PyTorch whose index this version of the orchestrator has",
                f"PyTorch {key[0]}, tree {key[1]}",
            )
        return found


def _kernel_symbols(manifest: Manifest, place: Place) -> frozenset[str]:
    """Symbols of PyTorch that a library's kernels of ours refer to."""
    if manifest.kernels is None:
        return frozenset()
    entries = load_entries(DIALECTS[manifest.runtime.pytorch])
    unknown = [name for name in manifest.kernels.features if name not in entries]
    if unknown:
        raise _unjudged(
            place, "kernels that this version of the orchestrator has", ", ".join(unknown)
        )
    return frozenset[str]().union(*(entries[name].runtime for name in manifest.kernels.features))


def _unjudged(place: Place, expected: str, seen: str) -> UnjudgedLibraryError:
    return UnjudgedLibraryError(
        "what code is in this library cannot be told from its manifest",
        place=place,
        expected=expected,
        seen=seen,
        hint="build it again, or ask with the version of the orchestrator that built it",
    )
