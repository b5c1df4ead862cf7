"""Changes of a graph: what is asked of values before, and nodes in place of one."""

from __future__ import annotations

import re
from typing import Any

import torch

from orchestrator.export.graphs import Graph, Node, Value


def is_constant(value: Value) -> bool:
    return bool(value.node().kind() == "prim::Constant")


# What changes a list, as far as it is an operator.
_CHANGES_LISTS = re.compile(
    r"aten::(append|extend|insert|pop|remove|clear|reverse|sort|Delete|_set_item|add_)"
)


def is_list(value: Value) -> bool:
    """True if a value is a list that its node makes of inputs, and nothing changes it
    afterwards."""
    return value.node().kind() == "prim::ListConstruct" and stays(value)


def stays(value: Value) -> bool:
    """True if no operator changes a list, or stores it."""
    return all(
        use.user.kind().startswith("aten::") and not _CHANGES_LISTS.fullmatch(use.user.kind())
        for use in value.uses()
    )


def known(value: Value) -> bool:
    """True if `plain` can give the value."""
    if is_list(value):
        return all(is_constant(one) for one in value.node().inputs())
    return is_constant(value)


def plain(value: Value) -> Any:
    if value.node().kind() == "prim::ListConstruct":
        return [one.toIValue() for one in value.node().inputs()]
    return value.toIValue()


class Change:
    """Puts nodes in place of one; `new` and `constant` stand before it."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node

    def constant(self, value: Any) -> Value:
        if isinstance(value, list):
            made = self.graph.create("prim::ListConstruct", [self.constant(v) for v in value])
            made.insertBefore(self.node)
            made.output().setType(torch._C.ListType.ofInts())
            return made.output()
        with self.graph.insert_point_guard(self.node):
            return self.graph.insertConstant(value)

    def new(self, kind: str, *inputs: Any, like: Value | None = None, outputs: int = 1) -> Node:
        """A call; plain values among the inputs become constants."""
        values = [one if isinstance(one, torch._C.Value) else self.constant(one) for one in inputs]
        node = self.graph.create(kind, values, outputs)
        node.insertBefore(self.node)
        node.copyMetadata(self.node)
        for output in node.outputs():
            output.setType(torch._C.TensorType.get() if like is None else like.type())
        return node

    def replace(self, value: Value) -> None:
        self.node.output().replaceAllUsesWith(value)
        self.node.destroy()
