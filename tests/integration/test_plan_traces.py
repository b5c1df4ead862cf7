"""Planning this repository's own apps from their committed traces; nothing is compiled."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from real import ROOT

from orchestrator.build.planning.plan import Variant, plan_variants
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.cli import make_context
from orchestrator.execute.ninja_file import Tools, ninja_text
from orchestrator.plan.graph import action_graph
from orchestrator.select.policy import select
from orchestrator.values.action import ActionGraph, count_units
from orchestrator.values.labels import VariantLabel

pytestmark = pytest.mark.real
# apps of the default runtime
APPS = ("assistant", "keyboard", "reader", "scanner", "translator")
HOST = "linux-x86_64"
TOOLS: dict[str, Tools] = {HOST: {"cxx": "/x/cxx", "cc": "/x/cc", "ar": "/x/ar", "link": ()}}


def loaded() -> Invocation:
    context = make_context(argparse.Namespace(workspace=None), os.environ, ROOT)
    return load(context, lambda line: None)


def planned(here: Invocation) -> dict[str, Variant]:
    labels = [VariantLabel(app, HOST) for app in APPS]
    return {variant.label.app: variant for variant in plan_variants(here, labels)}


def graph(variants: dict[str, Variant]) -> ActionGraph:
    links = [link for variant in variants.values() for link in variant.links.all]
    return action_graph((variant.objects for variant in variants.values()), links)


def text(here: Invocation, variants: dict[str, Variant]) -> str:
    return ninja_text(graph(variants), folders=here.runtimes.folders, toolchains=TOOLS, present=())


@pytest.fixture(scope="module")
def here() -> Invocation:
    return loaded()


@pytest.fixture(scope="module")
def variants(here: Invocation) -> dict[str, Variant]:
    return planned(here)


def test_planning_twice_gives_the_same_text(here: Invocation, variants: dict[str, Variant]) -> None:
    again = loaded()
    assert text(again, planned(again)) == text(here, variants)


def test_no_path_of_this_machine_below_the_head(
    here: Invocation, variants: dict[str, Variant]
) -> None:
    rest = text(here, variants).partition("\npool heavy")[2]
    for folder in (str(ROOT), str(Path.home()), str(here.context.cache)):
        assert folder not in rest


def test_most_objects_are_shared(variants: dict[str, Variant]) -> None:
    every = {c.object: c for variant in variants.values() for c in variant.objects.compiles}
    users = Counter(
        key for variant in variants.values() for key in {c.object for c in variant.objects.compiles}
    )
    by_all = [every[key] for key, count in users.items() if count == len(APPS)]
    assert count_units(by_all) >= 120
    total = sum(count_units(variant.objects.compiles) for variant in variants.values())
    assert count_units(every.values()) < 0.35 * total


def test_a_plan_has_each_unit_once_and_every_source_exists(
    here: Invocation, variants: dict[str, Variant]
) -> None:
    for variant in variants.values():
        units = [unit for action in variant.objects.compiles for unit in action.units]
        assert len(units) == len(set(units))
        for action in variant.objects.compiles:
            # a shard's own source is written by the build
            for source in action.members or (action,):
                assert Path(here.runtimes.fill(source.source)).is_file(), source.source
        assert not set(variant.objects.whole) & set(variant.objects.on_demand)


def test_every_selected_operator_is_registered_or_called_directly(
    here: Invocation, variants: dict[str, Variant]
) -> None:
    for app, variant in variants.items():
        objects = variant.objects
        request = objects.plan.request
        generated = {*request.operators, *dict(request.resolved)}
        units = {action.unit for action in objects.plan.compiles}
        index = here.runtimes.default.index
        by_hand = {r.operator for r in index.registrations if index.units[r.unit].path in units}
        missing = variant.selection.operators.keys() - generated - by_hand
        # what is in none of the two is named by no model, and called by no live code
        assert not missing & {*variant.selection.root_operators, *request.calls}, app
        assert variant.selection.root_operators <= {*request.operators, *by_hand}, app


def test_another_dtype_recompiles_only_what_mentions_its_tag(
    here: Invocation, variants: dict[str, Variant]
) -> None:
    scanner = variants["scanner"]
    tag = next(
        tag
        for tag in sorted(scanner.traces[0].kernel_tags)
        if "Double" not in scanner.traces[0].kernel_tags[tag]
    )
    tags = scanner.traces[0].kernel_tags
    trace = replace(scanner.traces[0], kernel_tags={**tags, tag: {**tags[tag], "Double": 1}})
    runtime = here.runtimes.default
    kernels, spec = runtime.kernels_for(trace.root_operators), scanner.objects.plan.spec
    # without other layouts, for which copies have the dtypes that a model computes in
    old, new = (
        runtime.planner.plan(
            kernels, select(runtime.index, kernels, [one], scanner.app.selection), spec
        )
        for one in (scanner.traces[0], trace)
    )
    assert [c.unit for c in new.compiles] == [c.unit for c in old.compiles]
    moved = {
        a.unit for a, b in zip(new.compiles, old.compiles, strict=True) if a.object != b.object
    }
    mentioning = {u.path for u in runtime.index.units if tag in u.tags or u.open_tags}
    assert moved
    assert moved == mentioning & {c.unit for c in old.compiles}
