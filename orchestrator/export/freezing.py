"""Freezes a module without sharing what it makes fresh.

torch.jit.freeze computes once what depends on no input. A tensor that a call makes and gives away,
to its caller or to an attribute, then is one constant of all calls: whoever writes to it changes
what the next call begins with. Such a tensor stays as it was computed here. Freezing leaves alone
what is written to, so each is marked by a write that does nothing. The mark stays for the passes
that follow: torch's elimination of common subexpressions takes two tensors in a list for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch

from orchestrator.export.graphs import Graph, Node, Value, nodes

# Such a call of the user's own does nothing either, where nobody learns.
_MARK = "aten::requires_grad_"
# What gives its inputs to somebody who is not seen in the graph: attributes, containers, calls.
_GIVES = re.compile(
    r"prim::(SetAttr|CallMethod|CallFunction|fork)|aten::(append|insert|extend|_set_item|add_)(\..*)?"
)


def frozen(module: Any, methods: Sequence[str], fold: bool) -> Any:
    """The frozen module of a TorchScript one in eval mode; `methods`: those that it keeps.

    fold  whether weights are folded where that is not exact
    What is fresh in the graphs of its methods is marked: `unmark` ends that.
    """
    graphs = inlined(module, methods)
    changing = {name for graph in graphs for name in _set_in(graph)}
    for graph in graphs:
        _mark(graph, changing)
    kept = [method for method in methods if method != "forward"]
    try:
        made = torch.jit.freeze(module, preserved_attrs=kept, optimize_numerics=fold)
    finally:
        # modules of one type share their graphs
        for graph in graphs:
            unmark(graph)
    inlined(made, methods)
    return made


def inlined(module: Any, methods: Sequence[str]) -> list[Graph]:
    """The graphs of methods, without calls of others."""
    graphs = [module._c._get_method(method).graph for method in methods]
    for graph in graphs:
        torch._C._jit_pass_inline(graph)
    return graphs


def _set_in(graph: Graph) -> Iterator[str]:
    return (node.s("name") for node in nodes(graph) if node.kind() == "prim::SetAttr")


def _mark(graph: Graph, changing: set[str]) -> None:
    fresh = _computed_once(graph, changing)
    if not fresh:
        return
    aliases, seen = graph.alias_db(), list(given(graph))
    marked = [
        value for value in fresh if any(aliases.may_contain_alias(value, one) for one in seen)
    ]
    for value in marked:
        node = value.node()
        with graph.insert_point_guard(node):
            false = graph.insertConstant(False)
        mark = graph.create(_MARK, [value, false], 1)
        mark.insertAfter(node)
        mark.output().setType(value.type())


def unmark(graph: Graph) -> None:
    for node in nodes(graph):
        if is_mark(node):
            node.destroy()


def is_mark(node: Node) -> bool:
    return node.kind() == _MARK and not node.hasUses()


def given(graph: Graph) -> Iterator[Value]:
    """Yield the values that code outside of the graph can see: its outputs, and inputs of
    attributes, containers and calls."""
    yield from graph.outputs()
    for node in nodes(graph):
        if _GIVES.fullmatch(node.kind()):
            yield from node.inputs()


def _computed_once(graph: Graph, changing: set[str]) -> list[Value]:
    """Tensors that a node makes of nothing but constants, and of attributes that nobody sets."""
    found: list[Value] = []
    varying = {value.unique() for value in list(graph.inputs())[1:]}
    _look(graph, changing, varying, found)
    return found


def _look(block: Any, changing: set[str], varying: set[int], found: list[Value]) -> None:
    for node in block.nodes():
        varies = any(value.unique() in varying for value in node.inputs())
        varies |= node.kind() == "prim::GetAttr" and node.s("name") in changing
        for inner in node.blocks():
            if varies:
                varying.update(value.unique() for value in inner.inputs())
            _look(inner, changing, varying, found)
            varies |= any(value.unique() in varying for value in inner.outputs())
        if varies:
            varying.update(value.unique() for value in node.outputs())
        else:
            found += _made_by(node)


def _made_by(node: Node) -> Iterator[Value]:
    """The tensors of a call's results that are no views of others."""
    schema = node.schema()
    if schema == "(no schema)" or node.kind().startswith("prim::Get"):
        return
    for value, new in zip(node.outputs(), _new(schema), strict=False):
        if new and value.type().isSubtypeOf(torch._C.TensorType.get()):
            yield value


@cache
def _new(schema: str) -> tuple[bool, ...]:
    """Return for each result of a schema: True if it is new memory, no alias of an argument."""
    try:
        returns = torch._C.parse_schema(schema).returns
    except RuntimeError:
        return ()
    return tuple(one.alias_info is None for one in returns)
