"""Records a variant's selection in its manifest and in its library, and compares the two."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from orchestrator.build.workshop.runtime import Runtime
from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.codegen.render import render
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.codegen.units import unit_of
from orchestrator.deliver.manifest import SelectionFact, selection_digest
from orchestrator.errors import OrchestratorError, Place
from orchestrator.select.closure import GENERATED
from orchestrator.values.selection import Selection
from orchestrator.verify.verdict import RunnerResult


class OtherSelectionError(OrchestratorError):
    """A library is of another selection than its manifest says."""


def selection_fact(
    runtime: Runtime, selection: Selection, request: RegistrationRequest
) -> SelectionFact:
    """The selection as the manifest records it: names, dtypes by kernel tag, and as
    `resolved_operators` the selected operators that the variant does not register, since only code
    calls them."""
    return SelectionFact(**_fields(runtime, selection, request))


def selection_unit(
    runtime: Runtime, selection: Selection, request: RegistrationRequest, cache: Path
) -> GeneratedUnit:
    """The unit by which a library says its selection's digest (`lta_selection_digest`)."""
    # not by the fact, which checks names that are a trace's or the index's, one by one
    digest = selection_digest(_fields(runtime, selection, request))
    text = render("selection.cpp.j2", digest=digest, left_out=selection.stubs)
    return unit_of("selection", text, cache / "selections")


def _fields(runtime: Runtime, selection: Selection, request: RegistrationRequest) -> dict[str, Any]:
    """The fields of `selection_fact`, sorted as they are in it."""
    dtypes = selection.kernel_dtypes
    return {
        "operators": _sorted(selection.operators),
        "kernel_dtypes": {tag: _sorted(dtypes[tag]) for tag in dtypes},
        "custom_classes": _sorted(selection.custom_classes),
        "build_features": _sorted(selection.build_features),
        "root_operators": _sorted(selection.root_operators),
        "resolved_operators": _sorted(resolved_operators(runtime, selection, request)),
        "backends": _sorted({*runtime.backends}),
        **({"left_out_operators": selection.stubs} if selection.stubs else {}),
    }


def _sorted(names: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def resolved_operators(
    runtime: Runtime, selection: Selection, request: RegistrationRequest
) -> tuple[str, ...]:
    """The selected operators that the variant does not register: only code calls them."""
    kernels = runtime.kernels_for(selection.root_operators)
    paths = runtime.unit_paths
    registered = set(request.operators)
    return tuple(
        operator
        for operator in selection.operators
        if operator not in registered
        and all(paths[one.unit].startswith(GENERATED) for one in kernels.kernels(operator))
    )


def require_selection(digest: str | None, ran: RunnerResult, place: Place) -> None:
    """Raises OtherSelectionError where a library that ran says another digest than its manifest
    has, or none. Manifests from before have none."""
    if digest is None or ran.result is None or ran.selection == digest:
        return
    raise _other(place, digest, ran.selection or "a library that does not say its selection")


def require_held(digest: str | None, holds: Callable[[bytes], bool], place: Place) -> None:
    """The same of a library that need not run here: its file holds the digest's text."""
    if digest is not None and not holds(digest.encode()):
        raise _other(place, digest, "a library without this text")


def _other(place: Place, digest: str, seen: str) -> OtherSelectionError:
    return OtherSelectionError(
        "the library is of another selection than its manifest says",
        place=place,
        expected=digest,
        seen=seen,
        hint="build the variant again, or get the package again from where it was published",
    )
