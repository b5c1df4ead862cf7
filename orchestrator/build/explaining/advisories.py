"""Answers what known vulnerabilities of PyTorch mean for apps' libraries, from their plans."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.build.explaining.explain import walked
from orchestrator.build.planning.plan import Variant, plan_variants
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.plan.static_links import StaticLinks
from orchestrator.select.advisories import LinkedCode, verdicts
from orchestrator.values.advisories import Advisory, LibraryVerdicts
from orchestrator.values.labels import VariantLabel


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
    )
    pytorch = runtime.version.version
    found = verdicts(advisories, pytorch, code)
    return LibraryVerdicts(
        variant.label, pytorch, tuple(found.values()), len(advisories) - len(found)
    )
