"""Refusal of TorchScript that no model can have, with its line, before torch refuses it without
one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from orchestrator.export.places import place_in
from orchestrator.export.refusal import Refused

_OF_CPP = "__torch__.torch.classes."
_FORKS = ("prim::fork", "aten::wait", "prim::awaitable", "prim::awaitable_wait")


def require_writable(module: Any) -> None:
    """Raises Refused, with the line of the first such thing."""
    for graph in _graphs(module):
        for node in _nodes(graph):
            why = _why_not(node)
            if why:
                raise Refused("program", why, scripted=True, **place_in(node.sourceRange()))


def _why_not(node: Any) -> str:
    if node.kind() in _FORKS:
        return "a model is run by one thread, without torch.jit.fork and wait"
    for output in node.outputs():
        its = output.type()
        while its.kind() in ("OptionalType", "ListType"):
            its = its.getElementType()
        if its.kind() == "EnumType":
            return f"a model has no enumerations, as {_name(its.annotation_str)} is one"
        made = node.kind() == "prim::CreateObject" and its.kind() == "ClassType"
        # those of C++ are in the app's library
        if made and not its.annotation_str.startswith(_OF_CPP):
            return f"a model makes no objects of its own classes, as {_name(its.name())} is one"
    return ""


def _name(qualified: str) -> str:
    return qualified.rstrip(">").rpartition(".")[2]


def _graphs(module: Any) -> Iterator[Any]:
    """Yield the graphs of methods, with what they call."""
    its = module._c if isinstance(module, torch.jit.ScriptModule) else module
    for name in its._method_names():
        graph = its._get_method(name).graph.copy()
        torch._C._jit_pass_inline(graph)
        yield graph


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)
