"""Plans without building: what each variant needs, and what of it is there already."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from orchestrator.pipeline.building import Variant, plan_variants
from orchestrator.pipeline.session import Session
from orchestrator.report.plan import PlannedVariant, PlanReport, plan_report
from orchestrator.values.action import Compile
from orchestrator.values.labels import Label


def planned(session: Session, labels: Sequence[Label]) -> PlanReport:
    """The plan of every label; nothing is generated, compiled or linked.

    Raises what reading traces and planning raise.
    """
    variants = plan_variants(session, labels, generate=False)
    compiles = {variant.label: _compiles(variant) for variant in variants}
    return plan_report(
        (
            PlannedVariant(
                app=variant.label.app,
                abi=str(variant.label.abi),
                compiles=compiles[variant.label],
                estimated_bytes=variant.objects.plan.needed.bytes,
                generated=_is_generated(session, variant),
            )
            for variant in variants
        ),
        present=_present(session, (c for some in compiles.values() for c in some)),
    )


def _compiles(variant: Variant) -> tuple[Compile, ...]:
    """All that a build of the variant compiles, the program that verifies it included."""
    every = (*variant.objects.compiles, *variant.links.driver_compiles)
    return tuple({action.object: action for action in every}.values())


def _is_generated(session: Session, variant: Variant) -> bool:
    return all(
        Path(session.fill(action.source)).is_file() for action in variant.objects.registrations
    )


def _present(session: Session, compiles: Iterable[Compile]) -> frozenset[str]:
    """Which of the objects and precompiled headers exist, by one look at each of their folders."""
    unique = {action.object: action for action in compiles}
    headers = {action.pch.identity: action.pch for action in unique.values() if action.pch}
    wanted = {*unique, *(header.output for header in headers.values())}
    folders: dict[str, list[str]] = {}
    for path in wanted:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name)
    found = set[str]()
    for folder, names in folders.items():
        try:
            there = frozenset(entry.name for entry in os.scandir(session.fill(folder)))
        except FileNotFoundError:
            continue
        found.update(f"{folder}/{name}" for name in names if name in there)
    return frozenset(found)
