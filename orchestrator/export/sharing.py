"""Constants that are equal in several methods become one tensor, which a file holds once.

Folding makes the weights of a convolution anew for each method that a model keeps. Tensors that a
method writes to, or that somebody else gets to see, stay apart: who writes to one must not change
the others.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator, Sequence

import torch

from orchestrator.export.freezing import given
from orchestrator.export.graphs import Graph, Node, nodes

# Of smaller ones, a record's header is as large.
_LEAST_BYTES = 64


def share_constants(graphs: Sequence[Graph]) -> None:
    found: dict[tuple[object, ...], torch.Tensor] = {}
    for graph in graphs:
        for node in _of_weights(graph):
            tensor = node.t("value")
            one = found.setdefault(_content(tensor), tensor)
            if one is not tensor:
                node.t_("value", one)


def _of_weights(graph: Graph) -> Iterator[Node]:
    """The constants of a graph that nobody writes to."""
    constants = [
        node
        for node in nodes(graph)
        if node.kind() == "prim::Constant"
        and node.hasAttribute("value")
        and node.kindOf("value") == "t"
        and _is_plain(node.t("value"))
    ]
    if not constants:
        return
    aliases, seen = graph.alias_db(), list(given(graph))
    for node in constants:
        value = node.output()
        if aliases.has_writers(value):
            continue
        if not any(aliases.may_contain_alias(value, one) for one in seen):
            yield node


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout == torch.strided
        and not tensor.is_quantized
        and tensor.device.type == "cpu"
        and tensor.numel() * tensor.element_size() >= _LEAST_BYTES
    )


def _content(tensor: torch.Tensor) -> tuple[object, ...]:
    plain = tensor.detach().contiguous()
    data = ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size())
    digest = hashlib.sha256(data).digest()
    return (tensor.dtype, tuple(tensor.shape), tensor.stride(), digest)
