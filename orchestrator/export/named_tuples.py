"""Makes plain tuples of named ones: where a named one lies in a list, a dictionary or a signature,
its definition is not in the file (torch/csrc/jit/serialization/export_bytecode.cpp).

A field that is read by name is read by number already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import torch
from torch.jit._recursive import wrap_cpp_module

from orchestrator.export.freezing import inlined
from orchestrator.export.graphs import MADE_OF_ONE, Graph, Type, parts, values


def without_named_tuples(module: Any, methods: Sequence[str]) -> Any:
    """The TorchScript module, which nobody else uses, or one in its place."""
    copies = [module._c._get_method(method).graph.copy() for method in methods]
    for graph in copies:
        torch._C._jit_pass_inline(graph)
    if not any(_has(value.type()) for graph in copies for value in values(graph)):
        return module
    graphs = dict(zip(methods, inlined(module, methods), strict=True))
    told = [
        method
        for method, graph in graphs.items()
        if any(_has(one.type()) for one in (*graph.inputs(), *graph.outputs()))
    ]
    for graph in graphs.values():
        for value in values(graph):
            if _has(value.type()):
                value.setType(_plain(value.type()))
    return _with_signatures(module, {name: graphs[name] for name in told}) if told else module


def _with_signatures(module: Any, graphs: Mapping[str, Graph]) -> Any:
    """A module whose methods take and give what their graphs say: a method's signature is fixed."""
    made = torch._C._hack_do_not_use_clone_module_with_class(module._c, list(graphs), [])
    pairs = zip(_types(module._c), _types(made), strict=True)
    types = {old.annotation_str: new for old, new in pairs}
    its = wrap_cpp_module(made)
    for name, body in graphs.items():
        schema = module._c._get_method(name).schema
        its.define(_stub(schema))
        graph = made._get_method(name).graph
        old = list(graph.nodes())
        body = body.copy()
        for value in values(body):
            if value.type().kind() == "ClassType":
                value.setType(types.get(value.type().annotation_str, value.type()))
        with graph.insert_point_guard(old[0]):
            (result,) = graph.insertGraph(body, list(graph.inputs()))
        graph.eraseOutput(0)
        graph.registerOutput(result)
        for node in reversed(old):
            node.destroy()
    return its


def _stub(schema: Any) -> str:
    """The source of a method with this signature, without what it computes."""
    arguments = schema.arguments[1:]
    defaults = [one.default_value for one in arguments if one.has_default_value()]
    # others, as a tensor is one, cannot be written
    written = all(_is_literal(one) for one in defaults)
    given = ["self"]
    for one in arguments:
        default = f" = {one.default_value!r}" if written and one.has_default_value() else ""
        given.append(f"{one.name}: {_plain(one.type).annotation_str}{default}")
    (result,) = schema.returns
    head = f"def {schema.name}({', '.join(given)}) -> {_plain(result.type).annotation_str}:"
    return f"{head}\n    raise RuntimeError('')\n"


def _is_literal(value: Any) -> bool:
    return isinstance(value, int | str | None) or (isinstance(value, float) and isfinite(value))


def _types(module: Any) -> list[Type]:
    """Return the types of a module and its parts, in an order that copies have too."""
    inner = [one for _, one in torch._C.ModuleDict(module).items()]
    return [module._type(), *(its for part in inner for its in _types(part))]


def _has(its: Type) -> bool:
    return _is_named(its) or any(map(_has, parts(its)))


def _is_named(its: Type) -> bool:
    return its.kind() == "TupleType" and not its.annotation_str.startswith("Tuple[")


def _plain(its: Type) -> Type:
    if not _has(its):
        return its
    kind, made = its.kind(), [*map(_plain, parts(its))]
    if kind in MADE_OF_ONE:
        return MADE_OF_ONE[kind](_plain(its.getElementType()))
    if kind == "DictType":
        return torch._C.DictType(*made)
    return torch._C.TupleType(made) if kind == "TupleType" else its
