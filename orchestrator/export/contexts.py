"""Takes away `with` where it changes no result: the lite interpreter has no such instruction.

A model that does not learn computes the same with gradients and without, and when it is timed.
"""

from __future__ import annotations

import re
from typing import Any, Final

import torch

from orchestrator.export.graphs import Graph, Node, nodes

# As TorchScript names the class of what is entered.
_IDLE: Final = re.compile(
    r"__torch__\.torch\.(autograd\.grad_mode\.(no_grad|enable_grad|set_grad_enabled)"
    r"|autograd\.profiler\.record_function)"
)
# What its own method, which makes it, sets beside.
_MAKES: Final = ("prim::Enter", "prim::Exit", "prim::SetAttr")


def without_contexts(module: Any) -> None:
    """Changes the methods of a TorchScript module and of its parts, which nobody else uses."""
    for part in module.modules():
        for method in part._c._method_names():
            _leave(part._c._get_method(method).graph)


def _leave(graph: Graph) -> None:
    entered = [node.inputsAt(0) for node in nodes(graph) if node.kind() == "prim::Enter"]
    for one in entered:
        users = [use.user for use in one.uses()]
        if _IDLE.fullmatch(one.type().str()) and all(map(_only_makes, users)):
            for node in users:
                node.destroy()
            one.node().destroy()
    if entered:
        torch._C._jit_pass_dce(graph)


def _only_makes(node: Node) -> bool:
    kind = node.kind()
    made = kind in _MAKES or (kind == "prim::CallMethod" and node.s("name") == "__init__")
    return made and not any(value.uses() for value in node.outputs())
