"""Planning changes nothing: when all is prepared it starts no process and writes no file."""

from __future__ import annotations

from dataclasses import replace

import core_toy
import pytest
from refused import RefusingRunner, effects_refused

from orchestrator.build.links import links_of
from orchestrator.build.plan import plan_variants, planned, variant_requests
from orchestrator.build.session import Session
from orchestrator.build.traced import read_traces
from orchestrator.build.variants import plan_objects, plan_units, registration_units
from orchestrator.plan.graph import action_graph, texts_of
from orchestrator.values.labels import VariantLabel

# Every form of a library: shared, with a part of a toolchain's C++ library, static with anchors.
LABELS = tuple(
    VariantLabel("camera", abi) for abi in ("linux-x86_64", "linux-arm64-musl", "ios-arm64")
)


@pytest.fixture
def session() -> Session:
    """A session that is prepared for the labels, and whose runner refuses from then on."""
    here = core_toy.session()
    here.of("camera").prepare_planning(label.abi for label in LABELS)
    here.context = replace(here.context, runner=RefusingRunner())
    here.of("camera").context = here.context
    return here


@pytest.mark.real
def test_the_plan_verb_changes_nothing(session: Session) -> None:
    with effects_refused():
        report = planned(session, LABELS)
    assert [(one.app, one.abi) for one in report.variants] == [
        (label.app, label.abi) for label in sorted(LABELS, key=str)
    ]


@pytest.mark.real
def test_a_build_plans_in_stages_of_which_one_generates(session: Session) -> None:
    on = session.of("camera")
    traces = {"camera": read_traces(on, session.workspace.apps["camera"])}
    with effects_refused():
        prepared = on.prepare_planning(label.abi for label in LABELS)
        wanted = variant_requests(on, LABELS, traces)
        units = plan_units(on, prepared, wanted)
    generating = core_toy.session()
    registrations = registration_units(generating.of("camera"), units.values(), generate=True)
    with effects_refused():
        objects = plan_objects(on, prepared, wanted, units, registrations)
        links = [links_of(on, prepared, "camera", one) for one in objects.values()]
        graph = action_graph(objects.values(), (link for some in links for link in some.all))
        texts = texts_of(objects.values())
    whole = plan_variants(generating, LABELS)
    all_links = [link for variant in whole for link in variant.links.all]
    assert graph == action_graph((variant.objects for variant in whole), all_links)
    # what must be written is there as texts, and is what the actions read
    folders = {file.split("/")[1] for file in texts}
    assert folders == {"projections", "selections", "stubs", "anchors"}
    sources = {action.source for action in graph.compiles.values()}
    assert {file for file in texts if file.endswith(".cpp")} <= sources
