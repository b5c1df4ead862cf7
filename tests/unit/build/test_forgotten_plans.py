"""What planning needs most memory for is freed once an app's or a runtime's variants are
planned."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from core_toy import FACTS, make_index, spec
from toy_natives import natives

import orchestrator.build.plan as module
from orchestrator.build.plan import plan_variants, planned
from orchestrator.build.prepare import PreparedRuntime
from orchestrator.build.session import RuntimeSession, Session
from orchestrator.index.model import RuntimeIndex
from orchestrator.plan.graph import VariantObjects
from orchestrator.plan.planner import Planner
from orchestrator.select.closure import Registry
from orchestrator.select.needs import Needed, needed
from orchestrator.values.labels import VariantLabel
from orchestrator.values.selection import Selection

RUNTIMES = {"one": "a", "other": "b"}


def test_lookups_are_not_made_unless_asked_for() -> None:
    index = make_index()
    needed(index, Registry({}), entry=[0], operators=(), follow_calls=False)
    assert "by_name" not in index.__dict__
    assert index.names[index.by_name[index.names[1]]] == index.names[1]


def test_what_is_needed_is_freed_with_its_registry() -> None:
    index, kernels = make_index(), Registry({})
    needed(index, kernels, entry=[0], operators=(), follow_calls=False)
    (kept,) = map(weakref.ref, kernels.kept.values())
    gc.disable()  # its count of references alone frees it
    try:
        del kernels
        assert kept() is None
    finally:
        gc.enable()


class _Workspace:
    """A session of two runtimes, each with an app; the index of each is the toy's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = list[str]()
        self.held = dict[str, weakref.ref[RuntimeIndex]]()
        keys = SimpleNamespace(alias=frozenset(), backend_select="", non_functional="", host="CPU")
        context: Any = SimpleNamespace(root=Path("/w"))
        self.session = Session(context, lambda line: None)
        defaults = SimpleNamespace(backends=("CPU",))
        apps = {
            app: SimpleNamespace(runtime=name, config=SimpleNamespace(sources=None))
            for name, app in RUNTIMES.items()
        }
        self.session._found.__dict__["workspace"] = SimpleNamespace(
            apps=apps, config=SimpleNamespace(defaults=defaults)
        )
        for name in RUNTIMES:
            none: Any = None
            dialect: Any = SimpleNamespace(keys=keys)
            fetched: Any = SimpleNamespace(digest="")
            runtime = PreparedRuntime(
                name, none, dialect, fetched, Path(), Path(), {}, {}, none, natives(), {}
            )
            self.session.on(name).__dict__["runtime"] = runtime
        monkeypatch.setattr("orchestrator.build.prepare.whole_index", self._index)
        monkeypatch.setattr(module, "_plan_on", self._plan)
        self.together = 0

    def _index(self, dialect: object, tree: str, name: str) -> RuntimeIndex:
        self.read.append(name)
        index = make_index()
        self.held[name] = weakref.ref(index)
        return index

    def _plan(
        self, on: RuntimeSession, labels: list[VariantLabel], generate: bool
    ) -> dict[VariantLabel, Any]:
        needed(on.runtime.index, on.kernels, entry=[0], operators=(), follow_calls=False)
        _ = on.planner, on.kernels_for(())
        self.together = max(self.together, len(self.indexes))
        return dict.fromkeys(labels)

    @property
    def indexes(self) -> list[str]:
        """The runtimes whose index is in memory."""
        return [name for name, index in self.held.items() if index() is not None]


LABELS = [VariantLabel(app, "linux-x86_64") for app in RUNTIMES.values()]


def test_one_index_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = _Workspace(monkeypatch)
    plan_variants(workspace.session, LABELS, last=True)
    assert (workspace.together, workspace.indexes) == (1, [])
    for app in RUNTIMES.values():
        on = workspace.session.of(app)
        _ = on.kernels, on.kernels_for(()), on.unit_paths
    assert workspace.read == [*RUNTIMES], "what a delivery asks for is still known"


def test_an_apps_layer_is_freed_before_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what they are layers over after all of them: it is read once."""
    events = list[str]()

    def runtime(name: str) -> SimpleNamespace:
        index = SimpleNamespace(forget_index=lambda: events.append(f"free {name}"))
        return SimpleNamespace(name="one", runtime=index, forget_plans=lambda: None, shown=name)

    base, layers = runtime("base"), [runtime("a"), runtime("c")]
    groups = [(layers[0], ["a"]), (base, ["b"]), (layers[1], ["c"])]
    session: Any = SimpleNamespace(on=lambda name: base, grouped=lambda apps: groups)

    def plan(on: Any, labels: list[VariantLabel], generate: bool) -> dict[VariantLabel, Any]:
        events.append(f"plan {on.shown}")
        return dict.fromkeys(labels)

    monkeypatch.setattr(module, "_plan_on", plan)
    labels = [VariantLabel(app, "linux-x86_64") for app in "abc"]
    plan_variants(session, labels, last=True)
    assert events == ["plan a", "free a", "plan base", "plan c", "free c", "free base"]


def test_indexes_stay_for_more_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = _Workspace(monkeypatch)
    plan_variants(workspace.session, LABELS)
    assert workspace.indexes == [*RUNTIMES]
    _ = [workspace.session.of(app).runtime.index for app in RUNTIMES.values()]
    assert workspace.read == [*RUNTIMES]


def test_a_plan_holds_what_one_app_needs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"app{n}" for n in range(6)]
    planner, kernels = Planner(make_index(), FACTS), Registry({})
    made, held = list[weakref.ref[Needed]](), list[int]()

    def plan_all(on: object, prepared: object, requests: Any, **_: object) -> Any:
        held.append(sum(one() is not None for one in made))
        (request,) = requests
        plan = planner.plan(kernels, Selection({"aten::linear": frozenset()}), spec())
        made.append(weakref.ref(plan.needed))
        return {request.label: VariantObjects(plan, (), ())}

    config = SimpleNamespace(budgets={})
    session: Any = SimpleNamespace(
        workspace=SimpleNamespace(apps={name: SimpleNamespace(config=config) for name in names}),
        runtime=SimpleNamespace(index=planner.index),
        planner=planner,
        prepare_planning=lambda abis: None,
        cpu_levels=lambda abi: (),
    )
    session.grouped = lambda apps: [(session, tuple(apps))]
    monkeypatch.setattr(module, "plan_all", plan_all)
    monkeypatch.setattr(module, "read_traces", lambda on, app: ())
    monkeypatch.setattr(module, "runner_compiles", lambda *of: ())
    monkeypatch.setattr(module, "_present", lambda on, compiles: frozenset())
    monkeypatch.setattr(
        module, "variant_requests", lambda on, own, traces: [SimpleNamespace(label=str(own[0]))]
    )
    gc.disable()  # as the verb has it
    try:
        report = planned(session, [VariantLabel(name, "linux-x86_64") for name in names])
    finally:
        gc.enable()
    assert [row.app for row in report.variants] == names
    # the app before is held until the next one takes its place
    assert held == [0, 1, 1, 1, 1, 1]
