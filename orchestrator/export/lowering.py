"""Lowers operators that a runtime does not have: calls become the graphs of functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch

import orchestrator.export.decompositions as decompositions
from orchestrator.export.graphs import Graph, Node, nodes, operator_of
from orchestrator.export.lowering_table import LOWERINGS, lowered_for


@cache
def _graph(name: str) -> Graph:
    """The graph of a function, with what it calls inlined."""
    graph = torch.jit.script(getattr(decompositions, name)).graph.copy()
    torch._C._jit_pass_inline(graph)
    return graph


def operators_of(operator: str) -> tuple[str, ...]:
    """The operators that one is lowered to, sorted; not those of numbers and lists."""
    found = {
        operator_of(node)
        for node in nodes(_graph(LOWERINGS[operator].becomes))
        if any(value.type().kind() == "TensorType" for value in (*node.inputs(), *node.outputs()))
        and node.kind().startswith("aten::")
    }
    return tuple(sorted(found))


def lower(graphs: Sequence[Graph], version: str | None) -> Iterator[str]:
    """Replace each call of an operator that this PyTorch version lacks; gives the operators.

    version  of the runtime; None: nothing is lowered
    """
    wanted = frozenset() if version is None else lowered_for(version)
    for graph in graphs:
        for node in list(nodes(graph)):
            operator = operator_of(node)
            if operator in wanted:
                replace_by(graph, node, _graph(LOWERINGS[operator].becomes))
                yield operator


def replace_by(graph: Graph, node: Node, by: Graph) -> None:
    """Put a function's graph in place of a call with the same arguments."""
    with graph.insert_point_guard(node):
        made: list[Any] = list(graph.insertGraph(by, list(node.inputs())))
    outputs = list(node.outputs())
    if len(outputs) != len(made):
        # a function's tuple is one value
        made = list(made[0].node().inputs())
    for old, new in zip(outputs, made, strict=True):
        old.replaceAllUsesWith(new)
    node.destroy()
