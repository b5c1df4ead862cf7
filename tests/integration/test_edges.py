"""What a change costs, told by ninja's own text: the edges that are left when the rest is there.

The real index, the real torchgen, this repository's apps; nothing is compiled.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from real import ROOT, workspace_copy

from orchestrator.build.planning.plan import Variant, plan_variants
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.cli import make_context
from orchestrator.execute.ninja_file import Tools, ninja_text
from orchestrator.plan.graph import action_graph
from orchestrator.trace.lock import lock_path, lock_text, parse_lock
from orchestrator.values.action import ActionGraph, precompiled_headers
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName as Op

pytestmark = pytest.mark.real
# apps of the default runtime
APPS = ("assistant", "keyboard", "reader", "scanner", "translator")
HOST = "linux-x86_64"
TOOLS: dict[str, Tools] = {HOST: {"cxx": "/x/cxx", "cc": "/x/cc", "ar": "/x/ar", "link": ()}}
UNARY = "aten/src/ATen/native/cpu/UnaryOpsKernel.cpp"
CROSS = "aten/src/ATen/native/Cross.cpp"
REGISTRATIONS = "generated/registrations.cpp"
ENTRY_POINTS = "generated/operators.cpp"
SELECTION = "generated/selection.cpp"


@dataclass(frozen=True)
class Edge:
    """One `build` statement: what it makes, by which rule, from what, and its unit's name."""

    output: str
    rule: str
    inputs: tuple[str, ...]
    unit: str


def edges(text: str) -> dict[str, Edge]:
    """The edges of a build.ninja, by output."""
    joined = re.sub(r"\$\n\s*", "", text)
    found = {}
    for head, body in re.findall(r"^build (.*)\n((?:  .*\n)*)", joined, re.MULTILINE):
        output, _, rest = head.partition(": ")
        rule, *inputs = rest.split()
        unit = re.search(r"^  unit = (.*)$", body, re.MULTILINE)
        found[output] = Edge(output, rule, tuple(inputs), unit[1] if unit else "")
    return found


@dataclass(frozen=True)
class Planned:
    """The apps of a workspace in one graph."""

    runtime: Runtime
    variants: Mapping[str, Variant]
    graph: ActionGraph

    def edges(self, present: Mapping[str, object] | None = None) -> dict[str, Edge]:
        """What ninja is told to do where `present` exists already, precompiled headers included."""
        headers = precompiled_headers(self.graph.compiles.values())
        return edges(
            ninja_text(
                self.graph,
                folders=self.runtime.folders,
                toolchains=TOOLS,
                present={*headers, *(present or {})},
            )
        )


def planned(root: Path) -> Planned:
    context = make_context(argparse.Namespace(workspace=str(root)), os.environ, root)
    here = load(context, lambda line: None)
    found = plan_variants(here, [VariantLabel(app, HOST) for app in APPS])
    links = [link for variant in found for link in variant.links.all]
    graph = action_graph((variant.objects for variant in found), links)
    runners = {c.object: c for variant in found for c in variant.links.runner_compiles}
    whole = ActionGraph({**graph.compiles, **runners}, graph.links)
    return Planned(here.runtimes.default, {variant.label.app: variant for variant in found}, whole)


@pytest.fixture(scope="module")
def before() -> Planned:
    return planned(ROOT)


def with_operator(root: Path, app: str, model: str, operator: str, tags: tuple[str, ...]) -> None:
    """Write into a model's trace that one more operator ran, on floats."""
    lock = lock_path(root / "apps" / app, model)
    trace = parse_lock(lock.read_text(), lock.name)
    assert operator not in trace.called_operators
    changed = replace(
        trace,
        root_operators=tuple(sorted({*trace.root_operators, Op(operator)})),
        called_operators={**trace.called_operators, Op(operator): 1},
        kernel_tags={**trace.kernel_tags, **{tag: {"Float": 1} for tag in tags}},
    )
    lock.write_text(lock_text(changed))


@pytest.mark.parametrize(
    ("operator", "tags", "expected"),
    [
        # in a unit that the app has already, which mentions the new tag
        ("aten::sin", ("sin_vml_cpu",), {REGISTRATIONS, SELECTION, UNARY}),
        # in a unit that the app did not have, whose kernel calls another operator
        ("aten::cross", (), {REGISTRATIONS, SELECTION, ENTRY_POINTS, CROSS}),
        # of which nothing but its registration and the selection's digest is new
        ("aten::trace", (), {REGISTRATIONS, SELECTION}),
    ],
)
def test_one_operator_more_compiles_what_mentions_it(
    operator: str, tags: tuple[str, ...], expected: set[str], before: Planned, tmp_path: Path
) -> None:
    root = workspace_copy(tmp_path, *APPS)
    with_operator(root, "scanner", "pages", operator, tags)
    after = planned(root)

    left = after.edges(before.graph.compiles)
    compiles = [edge for edge in left.values() if edge.rule.startswith(("cxx_", "cc_"))]
    assert {edge.unit for edge in compiles} == expected
    assert len(compiles) == len(expected)

    # each of them is scanner's, and mentions what is new, or is new
    index = after.runtime.index
    scanner = after.variants["scanner"].objects
    assert {edge.output for edge in compiles} <= {c.object for c in scanner.compiles}
    had = {c.unit for c in before.variants["scanner"].objects.compiles}
    mentioning = {u.path for u in index.units if {*u.tags} & {*tags} or operator in u.operators}
    written = {REGISTRATIONS, SELECTION, ENTRY_POINTS}
    assert expected <= written | mentioning | {c.unit for c in scanner.compiles} - had

    # and nothing of another app is linked anew
    old_links = {o: edge for o, edge in before.edges().items() if not edge.unit}
    new_links = {o: edge for o, edge in after.edges().items() if not edge.unit}
    assert set(new_links) == set(old_links)
    relinked = {o for o in new_links if new_links[o] != old_links[o]}
    assert relinked
    assert all(o.startswith("$state/variants/scanner/") for o in relinked)
    assert sum(after.graph.compiles[edge.output].cost for edge in compiles) <= 40


def test_nothing_changed_leaves_no_compilation(before: Planned) -> None:
    left = before.edges(before.graph.compiles)
    assert {edge.rule.partition("_")[0] for edge in left.values()} == {
        "shared",
        "archive",
        "executable",
    }
    assert not any(edge.unit for edge in left.values())


def test_the_first_build_has_one_edge_for_each_object(before: Planned) -> None:
    compiles = [e for e in before.edges().values() if e.rule.startswith(("cxx_", "cc_"))]
    assert {edge.output for edge in compiles} == set(before.graph.compiles)
    wanted = sum(len(variant.objects.compiles) for variant in before.variants.values())
    assert len(compiles) < 0.5 * wanted


def test_headers_and_sources_are_shared_and_never_an_apps_own(before: Planned) -> None:
    cached = tuple(f"$cache/{kind}/" for kind in ("registrations", "selections", "stubs", "unity"))
    shared = ("$tree/", "$generated/", "$native/", "$library_", "$zig/", *cached)
    folders = set()
    for action in before.graph.compiles.values():
        assert action.source.startswith(shared), action.source
        assert action.object.startswith("$state/objects/")
        folders.add(tuple(flag for flag in action.flags if flag.startswith("-I$")))
    # our own sources and C have fewer, none has others
    longest = max(folders, key=len)
    ours = {f"-I$native/{name}" for name in ("capi", "driver", "qnnpack")}
    ours |= {f"-I$zig/{name}" for name in ("libcxx/src", "libcxx/libc", "libunwind/include")}
    qnnpack = {f for some in folders for f in some if f.startswith("-I$tree/") and "qnnpack" in f}
    assert [some for some in folders if not set(some) <= {*longest, *ours, *qnnpack}] == []
    assert not any("$state" in flag or "$cache" in flag for some in folders for flag in some)
    # what lies in an app's own folder is linked, never compiled
    own = {o for o in before.edges() if o.startswith("$state/variants/")}
    assert own == {link.output for link in before.graph.links}
