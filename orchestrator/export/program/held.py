"""State that a module has in other places than its buffers: in attributes, lists and objects, such
as the cache of keys and values of a `transformers` model.

torch.export takes such a tensor for a constant, also where the program writes into it, and where it
is a buffer by another name. It is a buffer here, named by where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind, InputSpec

from orchestrator.export.refusal import Refused

_DEEPEST = 8
# What each module has, whatever its class.
_OF_MODULES = frozenset(vars(torch.nn.Module()))


def written_to_buffers(exported: Any, module: torch.nn.Module) -> None:
    """Make buffers of the constants of a program that are written, or that a buffer of the module
    holds too. The program is changed.

    Raises Refused where what is written shares its memory with a tensor of another shape.
    """
    signature = exported.graph_signature
    constants = {
        number: spec
        for number, spec in enumerate(signature.input_specs)
        if spec.kind is InputKind.CONSTANT_TENSOR
    }
    if not constants:
        return
    written = _written(exported.graph)
    names = {_memory(one): name for name, one in module.named_buffers()}
    places: dict[Any, str] = {}
    for place, tensor in _tensors(module):
        places.setdefault(_memory(tensor), place)
    for number, spec in constants.items():
        tensor = exported.constants[spec.target]
        name = names.get(_memory(tensor))
        if name is None and spec.arg.name not in written:
            continue
        name = name or places.get(_memory(tensor), spec.target)
        if name not in exported.state_dict:
            exported.constants[name] = tensor
        signature.input_specs[number] = InputSpec(
            InputKind.BUFFER, spec.arg, name, name in exported.state_dict
        )
        _require_apart(exported, signature.input_specs[number], tensor)
    _merge(exported)


def _written(graph: Any) -> frozenset[str]:
    """The placeholders that nodes write into, also through views of them."""
    roots = {node: node for node in graph.nodes if node.op == "placeholder"}
    found: set[str] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if not isinstance(node.target, torch._ops.OpOverload):
            # a branch or a loop may write into what it gets
            found |= {roots[one].name for one in node.all_input_nodes if one in roots}
            continue
        for argument, value in _arguments(node):
            if argument.alias_info is None:
                continue
            for one in value if isinstance(value, list | tuple) else (value,):
                if isinstance(one, torch.fx.Node) and one in roots:
                    roots[node] = roots[one]
                    if argument.alias_info.is_write:
                        found.add(roots[one].name)
    return frozenset(found)


def _arguments(node: Any) -> Iterator[tuple[Any, Any]]:
    """The arguments of a node's schema, with what they are."""
    for number, argument in enumerate(node.target._schema.arguments):
        if number < len(node.args):
            yield argument, node.args[number]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]


def _require_apart(exported: Any, spec: Any, tensor: torch.Tensor) -> None:
    """Raises Refused where another input of the program is part of a tensor's memory."""
    its = tensor.untyped_storage().data_ptr()
    for other in exported.graph_signature.input_specs:
        value = exported.state_dict.get(other.target, exported.constants.get(other.target))
        if not isinstance(value, torch.Tensor) or _memory(value) == _memory(tensor):
            continue
        if its and value.untyped_storage().data_ptr() == its:
            why = f"{spec.target} is written, and {other.target} is a part of the same memory"
            raise Refused("program", why)


def _merge(exported: Any) -> None:
    """One placeholder for each buffer."""
    signature, graph = exported.graph_signature, exported.graph
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    first: dict[str, Any] = {}
    kept = []
    for spec in signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind is not InputKind.BUFFER or spec.target not in first:
            kept.append(spec)
            if spec.kind is InputKind.BUFFER:
                first[spec.target] = node
            continue
        node.replace_all_uses_with(first[spec.target])
        graph.erase_node(node)
    signature.input_specs[:] = kept
    exported.graph_module.recompile()


def _memory(tensor: torch.Tensor) -> Any:
    if not tensor.numel() or tensor.layout is not torch.strided:
        return id(tensor)
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in a module's attributes, also in containers and objects there, with the path to
    each: `cache.layers.0.keys`."""
    seen: set[int] = set()

    def walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
        if isinstance(value, torch.Tensor):
            yield path, value
            return
        items = _items(value)
        if depth == 0 or items is None or id(value) in seen:
            return
        seen.add(id(value))
        for name, one in items.items():
            inner = f"{path}.{name}" if path else str(name)
            yield from walk(one, inner, depth - (not isinstance(value, torch.nn.Module)))

    yield from walk(module, "", _DEEPEST)


def _items(value: Any) -> Mapping[Any, Any] | None:
    """Return the members of a module, a container or an object of a Python class; None for
    others."""
    if isinstance(value, torch.nn.Module):
        own = {name: one for name, one in vars(value).items() if name not in _OF_MODULES}
        return {**own, **value._buffers, **value._modules}
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if isinstance(value, type) or callable(value):
        return None
    return getattr(value, "__dict__", None)
