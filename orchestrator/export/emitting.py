"""Turns a trace back into a graph of TorchScript, in the place of the one that was traced.

Each call is checked to be of the very overload that the trace has. It gets the source line of the
step that it comes from, in the graph alone: a canonical file has no lines (decision 0055).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from orchestrator.export.graphs import Graph, Node, Value, nodes, operator_of
from orchestrator.export.refusal import Refused
from orchestrator.export.running import ENUMS, constants_of
from orchestrator.export.tracing import LEAVES, Leaf, Trace

_ATEN = torch.ops.aten
# Of sizes, in Python -> in TorchScript.
_SIZES: dict[Any, str] = {
    operator.add: "aten::add",
    operator.sub: "aten::sub",
    operator.mul: "aten::mul",
    operator.floordiv: "aten::floordiv",
    operator.mod: "aten::remainder",
    operator.neg: "aten::neg",
    operator.truediv: "aten::div",
    operator.pow: "aten::pow",
    torch.sym_max: "prim::max",
    torch.sym_min: "prim::min",
    torch.sym_float: "aten::Float",
    torch._sym_sqrt: "aten::sqrt",
    _ATEN.sym_size.int: "aten::size",
    _ATEN.sym_numel.default: "aten::numel",
}
_NOTHING = (_ATEN.detach.default, _ATEN.alias.default, _ATEN.lift_fresh_copy.default)
_VIEWS = (_ATEN.view.default, _ATEN._unsafe_view.default, _ATEN.reshape.default)
_MAKE_CONTIGUOUS = ("reshape", "flatten", "contiguous", "unflatten", "reshape_as", "clone", "ravel")
# (rewrite, from, to, why)
Note = Callable[[str, str, tuple[str, ...], str], None]


def emit(graph: Graph, trace: Trace, without: frozenset[str], note: Note) -> None:
    """Replace a graph's nodes by those of its trace.

    without  names of rewrites that are not to be applied
    note     told of each rewrite
    """
    old = list(graph.nodes())
    emitter = _Emitter(graph, trace, without, note)
    result = emitter.all(next(iter(graph.outputs())).type())
    graph.eraseOutput(0)
    graph.registerOutput(result)
    for node in reversed(old):
        node.destroy()


class _Emitter:
    def __init__(self, graph: Graph, trace: Trace, without: frozenset[str], note: Note) -> None:
        self.graph, self.trace, self.without, self.note = graph, trace, without, note
        self.values: dict[Any, Any] = {}
        kinds = {node.kind().removeprefix("aten::") for node in nodes(graph)}
        # a view of what was made contiguous: here it may not be
        self.reshapes = any(name in kinds for name in _MAKE_CONTIGUOUS)
        self.step: Node = None

    def all(self, result: Any) -> Value:
        """Every node; gives the result, which has this type."""
        self._placeholders()
        outputs: Sequence[Any] = ()
        for node in self.trace.graph.nodes:
            self.step = node.meta.get("step", self.step)
            if node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "output":
                outputs = node.args[0]
        leaves = [self._value(one) for one in outputs]
        return self._packed(self.trace.result, result, leaves)

    def _placeholders(self) -> None:
        names = [node for node in self.trace.graph.nodes if node.op == "placeholder"]
        count = self.trace.inputs
        inputs = [one for value in list(self.graph.inputs())[1:] for one in self._unpacked(value)]
        constants = dict(constants_of(self.graph))
        for name, value in zip(names[:count], inputs, strict=True):
            self.values[name] = value
        for name, unique in zip(names[count:], self.trace.constants, strict=True):
            if name.users:
                self.values[name] = self.graph.insertConstant(constants[unique])

    def _unpacked(self, value: Value) -> list[Value]:
        if value.type().kind() != "TupleType":
            return [value]
        node = self.graph.create("prim::TupleUnpack", [value], len(value.type().elements()))
        self.graph.appendNode(node)
        for output, kind in zip(node.outputs(), value.type().elements(), strict=True):
            output.setType(kind)
        return [one for output in node.outputs() for one in self._unpacked(output)]

    # --- values ---

    def _value(self, given: Any, kind: Any = None) -> Value:
        """Return the graph's value for an argument of a call; kind: the argument's type."""
        if isinstance(given, torch.fx.Node):
            return self.values[given]
        if kind is not None and kind.kind() == "OptionalType" and given is not None:
            kind = kind.getElementType()
        if isinstance(given, list | tuple):
            return self._list(given, kind)
        for values in ENUMS.values():
            if isinstance(given, type(values[0])):
                return self.graph.insertConstant(list(values).index(given))
        if type(given) is int and kind is not None and kind.kind() == "FloatType":
            given = float(given)
        return self.graph.insertConstant(given)

    def _list(self, given: Sequence[Any], kind: Any) -> Value:
        element = kind.getElementType() if kind is not None and kind.kind() == "ListType" else None
        if element is None:
            raise Refused("untraceable", f"a list for an argument of the type {kind}")
        node = self.graph.create(
            "prim::ListConstruct", [self._value(one, element) for one in given]
        )
        node.output().setType(kind)
        self.graph.appendNode(node)
        return node.output()

    def _packed(self, result: Any, kind: Any, leaves: Sequence[Value]) -> Value:
        """A result; what is neither tensor nor size in it is a constant."""
        if isinstance(result, Leaf):
            return leaves[result.number]
        if kind.kind() == "OptionalType" and result is not None:
            kind = kind.getElementType()
        if isinstance(result, tuple):
            parts = zip(result, kind.elements(), strict=True)
            values = [self._packed(one, its, leaves) for one, its in parts]
            return self._made("prim::TupleConstruct", values, kind)
        if isinstance(result, list):
            its = kind.getElementType()
            return self._made(
                "prim::ListConstruct", [self._packed(one, its, leaves) for one in result], kind
            )
        if isinstance(result, dict):
            values = [
                part
                for key, one in result.items()
                for part in (
                    self.graph.insertConstant(key),
                    self._packed(one, kind.getValueType(), leaves),
                )
            ]
            return self._made("prim::DictConstruct", values, kind)
        return self.graph.insertConstant(result)

    def _made(self, name: str, values: Sequence[Value], kind: Any) -> Value:
        node = self.graph.create(name, list(values))
        node.output().setType(kind)
        self.graph.appendNode(node)
        return node.output()

    # --- calls ---

    def _call(self, node: Any) -> Any:
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        if node.target in _SIZES:
            return self._size(node)
        target = LEAVES.original(node.target)
        if not isinstance(target, torch._ops.OpOverload):
            raise Refused("untraceable", f"{getattr(target, '__name__', target)} of sizes")
        if target in _NOTHING or self._is_idle(node, target):
            return self._value(node.args[0])
        if target in _VIEWS:
            its = _ATEN.reshape.default if self._reshapes(node, target) else _ATEN.view.default
            return self._operator(its, [*node.args])
        if target in (_ATEN.transpose.int, _ATEN.t.default) and "permute" not in self.without:
            return self._permute(node, target)
        if target is _ATEN.copy.default:
            return self._copied(node)
        if target is _ATEN._to_copy.default and set(node.kwargs) == {"dtype"}:
            dtype = node.kwargs["dtype"]
            return self._operator(_ATEN.to.dtype, [node.args[0], dtype, False, False, None])
        given = node.meta.get("val")
        count = len(given) if isinstance(given, list | tuple) else 0
        return self._operator(target, _arguments(target, node), count)

    def _items(self, values: Value, count: int) -> list[Value]:
        node = self.graph.create("prim::ListUnpack", [values], count)
        self.graph.appendNode(node)
        return list(node.outputs())

    def _size(self, node: Any) -> Value:
        kind = "FloatType" if isinstance(node.meta["val"], torch.SymFloat) else "IntType"
        its = torch._C.FloatType.get() if kind == "FloatType" else torch._C.IntType.get()
        made = self.graph.create(_SIZES[node.target], [self._value(one) for one in node.args])
        made.output().setType(its)
        self.graph.appendNode(made)
        if made.schema() == "(no schema)":
            raise Refused("untraceable", f"{_SIZES[node.target]} of sizes")
        self._mark(made)
        return made.output()

    def _operator(self, target: Any, arguments: Sequence[Any], count: int = 0) -> Any:
        """A call; count: of the tensors in a list that it gives."""
        schema = target._schema
        values = [
            self._value(given, one.type)
            for given, one in zip(arguments, schema.arguments, strict=True)
        ]
        node = self.graph.create(schema.name, values, len(schema.returns))
        for output, one in zip(node.outputs(), schema.returns, strict=True):
            output.setType(one.type)
        self.graph.appendNode(node)
        wanted = f"{schema.name}{'.' if schema.overload_name else ''}{schema.overload_name}"
        if operator_of(node) != wanted:
            raise Refused("untraceable", f"{wanted} became {operator_of(node)} in TorchScript")
        self._mark(node)
        outputs = list(node.outputs())
        if len(outputs) > 1:
            return outputs
        if schema.returns and schema.returns[0].type.kind() == "ListType":
            return self._items(outputs[0], count)
        return outputs[0] if outputs else None

    def _mark(self, node: Node) -> None:
        if self.step is not None:
            node.copyMetadata(self.step)

    def _reshapes(self, node: Any, target: Any) -> bool:
        """True if a view may be of a tensor that does not lie in memory as it did in the trace."""
        return self.reshapes or target is not _ATEN.view.default

    def _is_idle(self, node: Any, target: Any) -> bool:
        """True if it is a copy that its only user makes anyway."""
        if target is not _ATEN.clone.default or len(node.users) != 1:
            return False
        user = next(iter(node.users))
        return user.target in _VIEWS and self._reshapes(user, user.target)

    def _permute(self, node: Any, target: Any) -> Value:
        rank = node.args[0].meta["val"].dim()
        order = list(range(rank))
        one, other = node.args[1:] if len(node.args) > 1 else (0, rank - 1)
        if rank > 1:
            order[one], order[other] = order[other], order[one]
        name = f"{target._schema.name}{'.int' if len(node.args) > 1 else ''}"
        self.note("permute", name, ("aten::permute",), "permute does it, and needs less code")
        return self._operator(_ATEN.permute.default, [node.args[0], order])

    def _copied(self, node: Any) -> Value:
        """Emit the value of a tensor after a copy to all of it."""
        to, what = (one.meta["val"] for one in node.args[:2])
        if to.dtype != what.dtype:
            return self._operator(_ATEN.copy.default, _arguments(_ATEN.copy.default, node))
        if _same_sizes(to, what):
            return self._value(node.args[1])
        sizes = self.graph.create("aten::size", [self._value(node.args[0])])
        sizes.output().setType(torch._C.ListType.ofInts())
        self.graph.appendNode(sizes)
        made = self.graph.create(
            "aten::expand",
            [self._value(node.args[1]), sizes.output(), self.graph.insertConstant(False)],
        )
        self.graph.appendNode(made)
        self._mark(made)
        return made.output()


def _same_sizes(one: Any, other: Any) -> bool:
    """True if two tensors have the same sizes; symbolic sizes are compared as text."""
    if one.dim() != other.dim():
        return False
    return all(str(left) == str(right) for left, right in zip(one.shape, other.shape, strict=True))


def _arguments(target: Any, node: Any) -> list[Any]:
    """All of a call's arguments, in the order of its schema."""
    given = list(node.args)
    for one in target._schema.arguments[len(given) :]:
        if one.name in node.kwargs:
            given.append(node.kwargs[one.name])
        elif one.has_default_value():
            given.append(one.default_value)
        else:
            raise Refused("untraceable", f"{target} without its argument {one.name}")
    return given
