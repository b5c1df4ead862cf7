"""From a selection to the actions of a variant: no process, and nothing written."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from core_toy import FACTS, make_index, spec
from refused import EffectRefusedError, effects_refused
from shipped_index import app_traces, kernels_for, shipped, shipped_facts, shipped_spec
from toy_natives import natives

from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.codegen.stubs import generate_stubs
from orchestrator.codegen.units import unit_of
from orchestrator.execute.ninja_file import Tools, ninja_text
from orchestrator.index.model import RuntimeIndex
from orchestrator.plan.anchors import anchored, anchors_of, anchors_text
from orchestrator.plan.graph import (
    VariantObjects,
    action_graph,
    native_compiles,
    registration_compiles,
    texts_of,
    unwritten,
)
from orchestrator.plan.planner import Planner
from orchestrator.plan.unity import shard_files
from orchestrator.plan.variant import RuntimeFacts, VariantSpec
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import Registry, registry
from orchestrator.select.policy import select
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

M = frozenset({"m"})
CACHE = Path("/nowhere/cache")
TOOLS: dict[str, Tools] = {
    "linux-x86_64": {"cxx": "/x/cxx", "cc": "/x/cc", "ar": "/x/ar", "link": ()}
}


def planned(
    index: RuntimeIndex,
    kernels: Registry,
    selection: Selection,
    facts: RuntimeFacts,
    how: VariantSpec,
) -> tuple[str, dict[str, str]]:
    """build.ninja, and the texts that are to be written before it is run."""
    plan = Planner(index, facts).plan(kernels, selection, how)
    registrations = GeneratedUnit("registrations", CACHE / "registrations/r.cpp", "digest")
    stubs = generate_stubs(plan.needed.stubs, CACHE)
    objects = VariantObjects(
        plan,
        registration_compiles(facts, how, (registrations, *stubs), CACHE),
        native_compiles(facts, how, ("capi/capi.cpp",), natives()),
    )
    unit = unit_of("anchors", anchors_text(anchors_of(objects)), CACHE / "anchors")
    objects = anchored(objects, registration_compiles(facts, how, [unit], CACHE), natives())
    graph = action_graph([objects], [])
    folders = {"cache": str(CACHE), "state": "/nowhere/state"}
    text = ninja_text(graph, folders=folders, toolchains=TOOLS, present=())
    shards = shard_files(facts.unity, graph.compiles.values())
    return text, {**texts_of([objects]), **unwritten([*stubs, unit], CACHE), **shards}


def test_the_toy_is_planned_without_effects() -> None:
    index = make_index()
    selection = Selection(
        operators={Op("aten::linear"): M, Op("toy::conv"): M},
        kernel_dtypes={"linear_tag": {"Float": M}},
    )
    with effects_refused():
        text, texts = planned(
            index, registry(index, ["CPU"], DIALECT.keys), selection, FACTS, spec()
        )
    assert "build " in text
    assert {file.split("/")[1] for file in texts} == {"projections", "anchors"}


@pytest.mark.parametrize("app", ["camera", "keyboard", "scanner"])
def test_an_app_is_planned_without_effects(app: str) -> None:
    """Of this repository, on the shipped index."""
    index, facts, traces = shipped(), shipped_facts(), app_traces(app)
    roots = {operator for trace in traces for operator in trace.root_operators}
    how = shipped_spec(roots)
    with effects_refused():
        kernels = kernels_for(roots)
        selection = select(index, kernels, traces, "guarded")
        text, texts = planned(index, kernels, selection, facts, how)
    assert text.count("\nbuild ") > 50
    assert {file.split("/")[1] for file in texts} >= {"projections", "anchors"}


@pytest.mark.parametrize(
    "effect",
    [
        lambda folder: subprocess.run(["true"]),
        lambda folder: (folder / "new").write_text("x"),
        lambda folder: (folder / "there").open("a"),
        lambda folder: (folder / "there").open("r+"),
        lambda folder: (folder / "there").unlink(),
        lambda folder: (folder / "there").rename(folder / "new"),
        lambda folder: (folder / "there").touch(),
        lambda folder: (folder / "there").chmod(0o600),
        lambda folder: (folder / "new").mkdir(),
        lambda folder: (folder / "new").symlink_to("there"),
        lambda folder: (folder / "new").hardlink_to(folder / "there"),
        lambda folder: shutil.rmtree(folder),
        lambda folder: tempfile.mkdtemp(),
        lambda folder: socket.create_connection(("127.0.0.1", 9)),
    ],
)
def test_what_is_refused(effect: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "there").write_text("content")
    with pytest.raises(EffectRefusedError), effects_refused():
        effect(tmp_path)
    with effects_refused():
        assert (tmp_path / "there").read_text() == "content"
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
