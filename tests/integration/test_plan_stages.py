"""Planning changes nothing: when all is prepared it starts no process and writes no file."""

from __future__ import annotations

from dataclasses import replace

import core_toy
import pytest
from refused import RefusingRunner, effects_refused

from orchestrator.build.planning.links import links_of
from orchestrator.build.planning.plan import plan_variants, planned, variant_requests
from orchestrator.build.planning.variants import plan_objects, plan_units, registration_units
from orchestrator.build.workshop.invocation import Invocation, invocation
from orchestrator.build.workshop.traced import read_app, read_traces
from orchestrator.plan.graph import action_graph, texts_of
from orchestrator.values.labels import VariantLabel

# Every form of a library: shared, with a part of a toolchain's C++ library, static with anchors.
LABELS = tuple(
    VariantLabel("camera", abi) for abi in ("linux-x86_64", "linux-arm64-musl", "ios-arm64")
)


@pytest.fixture
def here() -> Invocation:
    """This checkout, prepared for the labels, with a runner that refuses from then on."""
    ready = core_toy.this_checkout()
    prepared = ready.prepare(ready.runtimes.of("camera"), (label.abi for label in LABELS))
    context = replace(ready.context, runner=RefusingRunner())
    return invocation(
        ready.workspace,
        context,
        ready.log,
        ready=ready.runtimes.prepared,
        found=prepared.toolchains,
    )


@pytest.mark.real
def test_the_plan_verb_changes_nothing(here: Invocation) -> None:
    with effects_refused():
        report = planned(here, LABELS)
    assert [(one.app, one.abi) for one in report.variants] == [
        (label.app, label.abi) for label in sorted(LABELS, key=str)
    ]


@pytest.mark.real
def test_a_build_plans_in_stages_of_which_one_generates(here: Invocation) -> None:
    runtime = here.runtimes.of("camera")
    app = here.workspace.apps["camera"]
    read = {"camera": read_app(here, app, read_traces(here, app))}
    with effects_refused():
        prepared = here.prepare(runtime, (label.abi for label in LABELS))
        wanted = variant_requests(prepared, LABELS, read)
        units = plan_units(prepared, wanted)
    able = core_toy.this_checkout()
    generating = replace(prepared, context=able.context)
    registrations = registration_units(generating, units.values(), generate=True)
    with effects_refused():
        objects = plan_objects(prepared, wanted, units, registrations)
        # camera limits its memory
        links = [links_of(prepared, "camera", one, memory=True) for one in objects.values()]
        graph = action_graph(objects.values(), (link for some in links for link in some.all))
        texts = texts_of(objects.values())
    whole = plan_variants(able, LABELS)
    all_links = [link for variant in whole for link in variant.links.all]
    assert graph == action_graph((variant.objects for variant in whole), all_links)
    # what must be written is there as texts, and is what the actions read
    folders = {file.split("/")[1] for file in texts}
    assert folders == {"projections", "selections", "stubs", "anchors"}
    sources = {action.source for action in graph.compiles.values()}
    assert {file for file in texts if file.endswith(".cpp")} <= sources
