"""What planning needs most memory for is freed once an app's or a runtime's variants are
planned."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from core_toy import make_index, spec
from toy_workspace import toy_invocation, toy_runtime

import orchestrator.build.planning.plan as module
from orchestrator.build.planning.plan import plan_variants, planned
from orchestrator.build.workshop.invocation import Invocation, Prepared
from orchestrator.build.workshop.own_sources import OwnLayer
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.index.model import RuntimeIndex
from orchestrator.plan.graph import VariantObjects
from orchestrator.select.closure import Registry
from orchestrator.select.needs import Needed, needed
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

RUNTIMES = {"pytorch_1_13": "a", "pytorch_2_6": "b"}


def declared(runtime: str, more: str = "") -> str:
    """The text of an app.yaml."""
    return f"models: [{{file: toy.ptl}}]\ntargets: [linux-x86_64]\nruntime: {runtime}\n{more}"


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
    """A workspace of two runtimes, each with an app; the index of each is the toy's."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = list[str]()
        self.held = dict[str, weakref.ref[RuntimeIndex]]()
        runtimes = [toy_runtime(name) for name in RUNTIMES]
        for runtime in runtimes:
            runtime.forget_index()
        self.here = toy_invocation(
            root, {app: declared(name) for name, app in RUNTIMES.items()}, ready=runtimes
        )
        monkeypatch.setattr("orchestrator.build.workshop.runtime.whole_index", self._index)
        monkeypatch.setattr(module, "_plan_on", self._plan)
        self.together = 0

    def _index(self, dialect: object, tree: str, name: str) -> RuntimeIndex:
        self.read.append(name)
        index = make_index()
        self.held[name] = weakref.ref(index)
        return index

    def _plan(
        self,
        here: Invocation,
        runtime: Runtime,
        labels: list[VariantLabel],
        generate: bool,
        memory: bool,
    ) -> dict[VariantLabel, Any]:
        needed(runtime.index, runtime.kernels, entry=[0], operators=(), follow_calls=False)
        _ = runtime.planner, runtime.kernels_for(())
        self.together = max(self.together, len(self.indexes))
        return dict.fromkeys(labels)

    @property
    def indexes(self) -> list[str]:
        """The runtimes whose index is in memory."""
        return [name for name, index in self.held.items() if index() is not None]


LABELS = [VariantLabel(app, "linux-x86_64") for app in RUNTIMES.values()]


def test_one_index_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = _Workspace(tmp_path, monkeypatch)
    plan_variants(workspace.here, LABELS, last=True)
    assert (workspace.together, workspace.indexes) == (1, [])
    for app in RUNTIMES.values():
        runtime = workspace.here.runtimes.of(app)
        _ = runtime.kernels, runtime.kernels_for(()), runtime.unit_paths
    assert workspace.read == [*RUNTIMES], "what a delivery asks for is still known"


def test_an_apps_layer_is_freed_before_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what they are layers over after all of them: it is read once."""
    events = list[str]()
    own = "sources: {files: [ops.cpp], licence: {expression: MIT, file: COPYING}}\n"
    for app in "ac":
        (tmp_path / "apps" / app).mkdir(parents=True)
        for file in ("ops.cpp", "COPYING"):
            (tmp_path / "apps" / app / file).touch()
    here = toy_invocation(
        tmp_path,
        {app: declared("pytorch_2_6", "" if app == "b" else own) for app in "abc"},
        ready=[toy_runtime()],
    )

    def shown(runtime: Runtime) -> str:
        return "base" if runtime.sources is None else runtime.sources.app

    def plan(
        here: Invocation,
        runtime: Runtime,
        labels: list[VariantLabel],
        generate: bool,
        memory: bool,
    ) -> dict[VariantLabel, Any]:
        events.append(f"plan {shown(runtime)}")
        return dict.fromkeys(labels)

    monkeypatch.setattr(
        "orchestrator.build.workshop.runtimes.own_layer", lambda sources, *_: OwnLayer(sources, ())
    )
    monkeypatch.setattr(Runtime, "forget_index", lambda one: events.append(f"free {shown(one)}"))
    monkeypatch.setattr(module, "_plan_on", plan)
    labels = [VariantLabel(app, "linux-x86_64") for app in "abc"]
    plan_variants(here, labels, last=True)
    assert events == ["plan base", "plan a", "free a", "plan c", "free c", "free base"]


def test_indexes_stay_for_more_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = _Workspace(tmp_path, monkeypatch)
    plan_variants(workspace.here, LABELS)
    assert workspace.indexes == [*RUNTIMES]
    _ = [workspace.here.runtimes.of(app).index for app in RUNTIMES.values()]
    assert workspace.read == [*RUNTIMES]


def test_a_plan_holds_what_one_app_needs_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"app{n}" for n in range(6)]
    runtime, kernels = toy_runtime(), Registry({})
    made, held = list[weakref.ref[Needed]](), list[int]()

    def plan_all(prepared: Prepared, requests: Any, **_: object) -> Any:
        held.append(sum(one() is not None for one in made))
        (label,) = requests
        selection = Selection({Op("aten::linear"): frozenset()})
        plan = prepared.runtime.planner.plan(kernels, selection, spec())
        made.append(weakref.ref(plan.needed))
        return {label: VariantObjects(plan, (), ())}

    compiler: Any = SimpleNamespace(capabilities=None)
    here = toy_invocation(
        tmp_path,
        dict.fromkeys(names, declared("pytorch_2_6")),
        ready=[runtime],
        found={"linux-x86_64": compiler},
    )
    monkeypatch.setattr(module, "plan_all", plan_all)
    monkeypatch.setattr(module, "read_traces", lambda here, app: ())
    monkeypatch.setattr(module, "runner_compiles", lambda *of, **how: ())
    monkeypatch.setattr(module, "_present", lambda here, compiles: frozenset())
    monkeypatch.setattr(
        module,
        "variant_requests",
        lambda prepared, own, apps: dict.fromkeys(own),
    )
    gc.disable()  # as the verb has it
    try:
        report = planned(here, [VariantLabel(name, "linux-x86_64") for name in names])
    finally:
        gc.enable()
    assert [row.app for row in report.variants] == names
    # the app before is held until the next one takes its place
    assert held == [0, 1, 1, 1, 1, 1]
