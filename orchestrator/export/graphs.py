"""Graphs of TorchScript, as torch._C has them: what is asked of them everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

Value = Any  # torch._C.Value
Node = Any  # torch._C.Node
Graph = Any  # torch._C.Graph
Type = Any  # torch._C.Type

MADE_OF_ONE: Final = {"OptionalType": torch._C.OptionalType, "ListType": torch._C.ListType}


def nodes(block: Any) -> Iterator[Node]:
    """All nodes of a graph or block; those inside of a node come before it."""
    for node in list(block.nodes()):
        for inner in node.blocks():
            yield from nodes(inner)
        yield node


def values(block: Any) -> Iterator[Value]:
    """All values of a graph or block, its inputs first."""
    yield from block.inputs()
    for node in block.nodes():
        yield from node.outputs()
        for inner in node.blocks():
            yield from values(inner)


def parts(its: Type) -> list[Type]:
    """The types in a container's type."""
    return list(its.containedTypes()) if its.kind() != "ClassType" else []


def operator_of(node: Node) -> str:
    """`aten::add.Tensor`; of a node without a schema, its kind."""
    schema: str = node.schema()
    return str(node.kind()) if schema == "(no schema)" else schema.partition("(")[0]
