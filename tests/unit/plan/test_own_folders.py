"""Two runtimes in one graph: equal actions are one; folders of its own have its variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from shipped_index import app_traces, kernels_for, shipped, shipped_facts, shipped_spec
from toy_natives import natives

from orchestrator.build.workshop.prepare import own_variables, precompiled_folder
from orchestrator.execute.ninja_file import Tools, ninja_text
from orchestrator.plan.graph import VariantObjects, action_graph, native_compiles
from orchestrator.plan.own_folders import objects_in_own_folders
from orchestrator.plan.planner import Planner
from orchestrator.plan.variant import RuntimeFacts
from orchestrator.select.policy import select
from orchestrator.values.action import ActionGraph
from orchestrator.values.config.workspace import RuntimePin

ABI = "linux-x86_64"
HERE = [{"path": "here"}]
THIRD = {"fmt": {"tree": "2" * 64, "include": "include", "sources": HERE}}
LIBRARIES = {"xnnpack": {"tree": "3" * 64, "sources": HERE}}


def pin(tree: str = "1", changes: Mapping[str, object] | None = None) -> RuntimePin:
    values = {"pytorch": "1.13.1", "tree": tree * 64, "sources": HERE, "third_party": THIRD}
    return RuntimePin.model_validate({**values, "libraries": LIBRARIES, **(changes or {})})


def test_what_two_runtimes_have_alike_has_one_variable() -> None:
    assert own_variables("next", pin(), pin()) == {}
    assert own_variables("next", pin("4"), pin()) == {
        name: f"{name}_next" for name in ("tree", "generated", "configured", "pch")
    }


@pytest.mark.parametrize(
    ("changes", "variables"),
    [
        ({"sources": [{"path": "elsewhere"}]}, set()),
        ({"libraries": {}}, set()),
        ({"libraries": {"xnnpack": {"tree": "5" * 64, "sources": HERE}}}, {"library_xnnpack"}),
        ({"third_party": {"fmt": {**THIRD["fmt"], "include": "other"}}}, {"third_party_fmt"}),
        ({"third_party": {"gemm": THIRD["fmt"]}}, {"third_party_gemm"}),
    ],
)
def test_a_tree_of_its_own_has_a_variable(changes: dict[str, object], variables: set[str]) -> None:
    found = own_variables("next", pin(changes=changes), pin())
    assert found == {name: f"{name}_next" for name in variables | ({"pch"} if variables else set())}


def planned(facts: RuntimeFacts) -> VariantObjects:
    """A demo app's variant, as `facts` have it."""
    traces = app_traces("camera")
    roots = {operator for trace in traces for operator in trace.root_operators}
    kernels, spec = kernels_for(roots), shipped_spec(roots)
    selection = select(shipped(), kernels, traces, "guarded")
    plan = Planner(shipped(), facts).plan(kernels, selection, spec)
    native = native_compiles(facts, spec, ("capi/capi.cpp",), natives())
    return VariantObjects(plan, (), native)


def graph_of(*variants: VariantObjects) -> ActionGraph:
    return action_graph(variants, ())


def test_a_runtime_of_another_name_is_planned_to_the_same_actions() -> None:
    first, second = planned(shipped_facts()), planned(replace(shipped_facts()))
    second = objects_in_own_folders(second, own_variables("second", pin(), pin()))
    assert graph_of(first, second) == graph_of(first) == graph_of(second)
    assert len(first.compiles) > 50


def test_another_tree_stands_beside_the_first_in_one_graph() -> None:
    renamed = own_variables("next", pin("4"), pin())
    first = planned(shipped_facts())
    second = objects_in_own_folders(planned(replace(shipped_facts(), identity="e" * 64)), renamed)
    alone, both = graph_of(first), graph_of(first, second)
    assert len(both.compiles) == 2 * len(alone.compiles)
    assert {name: both.compiles[name] for name in alone.compiles} == alone.compiles
    names = ("cache", "state", "native", "third_party_fmt", *renamed, *renamed.values())
    tools: Tools = {"cxx": "cxx", "cc": "cc", "ar": "ar", "link": ()}
    text = ninja_text(
        both,
        folders={name: f"/folders/{name}" for name in names},
        toolchains={ABI: tools},
        present=(),
    )
    defined = set(re.findall(r"^(\w+) = ", text, re.MULTILINE))
    used = set(re.findall(r"\$\{?((?:sh_)?(?:tree|generated|configured|pch)\w*)", text))
    assert used <= defined, "every folder is written for the one who has it"
    own = {name for action in second.compiles for flag in action.flags for name in variables(flag)}
    own |= {name for action in second.compiles for name in variables(action.source)}
    assert own == {
        *("cache", "native", "third_party_fmt"),
        *("tree_next", "generated_next", "configured_next"),
    }
    headers = {action.pch for action in second.compiles if action.pch}
    assert headers
    assert all(header.output.startswith("$pch_next/") for header in headers)


def variables(text: str) -> list[str]:
    return re.findall(r"\$(\w+)", text)


def test_precompiled_headers_lie_apart_for_other_paths_that_they_hold() -> None:
    """A workspace that takes zig from another place cannot use those of before."""
    folders = {"cache": "/c", "native": "/n", "zig": "/venv/zig"}
    here = precompiled_folder(Path("/w/.orchestrator"), folders)
    assert here.startswith("/w/.orchestrator/pch/")
    elsewhere = precompiled_folder(Path("/other"), {**folders, "state": "/other"})
    assert elsewhere.rpartition("/")[2] == here.rpartition("/")[2]
    for name in folders:
        changed = precompiled_folder(Path("/w/.orchestrator"), {**folders, name: "/new"})
        assert changed != here
