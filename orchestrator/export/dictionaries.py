"""Builds dictionaries of lists of pairs, as `OrderedDict([(key, value)])` does, pair by pair.

The operator `aten::dict` looks at the type of the list, which lists of the lite interpreter do not
have in the form that it expects (torch/csrc/jit/runtime/register_prim_ops.cpp,
`dictConstructFromList`): it fails there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from orchestrator.export.freezing import inlined
from orchestrator.export.graphs import Graph, Node, nodes
from orchestrator.export.lowering import replace_by


def without_pairs(module: Any, methods: Sequence[str]) -> None:
    """Changes methods of a TorchScript module that nobody else uses."""
    graphs = [module._c._get_method(method).graph.copy() for method in methods]
    for graph in graphs:
        torch._C._jit_pass_inline(graph)
    if not any(_is_of_pairs(node) for graph in graphs for node in nodes(graph)):
        return
    for graph in inlined(module, methods):
        for node in nodes(graph):
            if _is_of_pairs(node):
                types = node.inputsAt(0).type(), node.output().type()
                replace_by(graph, node, _builder(*(its.annotation_str for its in types)))


def _is_of_pairs(node: Node) -> bool:
    return bool(node.kind() == "aten::dict" and "[] inputs" in node.schema())


@cache
def _builder(pairs: str, made: str) -> Graph:
    unit = torch.jit.CompilationUnit(f"""
def build(pairs: {pairs}):
    made: {made} = {{}}
    for key, value in pairs:
        made[key] = value
    return made
""")
    return unit.build.graph
