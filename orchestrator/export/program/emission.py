"""Nodes of a program as nodes of TorchScript.

A call becomes a call of the very overload that the program has, which is checked for each. Values
of the graph are TorchScript's, lists of them where a call gives several, or numbers of Python.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from orchestrator.export.graphs import Graph, Node, Value, operator_of
from orchestrator.export.places import place_of_stack
from orchestrator.export.program.arithmetic import ARITHMETIC, Power, type_of
from orchestrator.export.refusal import Refused
from orchestrator.export.running import ENUMS

_ATEN = torch.ops.aten
TENSOR = torch._C.TensorType.get()
# Nothing is left to do for these: there are no gradients, and no other devices; what a check of
# metadata asks is asked of the inputs.
_SAME = {
    *(_ATEN.detach.default, _ATEN.alias.default, _ATEN.lift_fresh_copy.default),
    _ATEN.lift_fresh.default,
}
_NOTHING = {
    *(_ATEN._assert_tensor_metadata.default, _ATEN.sym_constrain_range.default),
    _ATEN.sym_constrain_range_for_size.default,
}
_ITEMS = {_ATEN.item.default, _ATEN._local_scalar_dense.default}
_SIZES: Mapping[Any, str] = {
    _ATEN.sym_size.int: "aten::size",
    _ATEN.sym_numel.default: "aten::numel",
    _ATEN.sym_stride.int: "aten::stride",
    _ATEN.sym_storage_offset.default: "aten::storage_offset",
}
_NUMBERS = {"IntType": "aten::Int", "FloatType": "aten::Float", "BoolType": "aten::Bool"}


class Writer:
    """Writes nodes at a graph's insert point; what is read of the module itself comes before
    `stop`, and so before all of it."""

    def __init__(self, graph: Graph, stop: Node) -> None:
        self.graph = graph
        self.itself = next(iter(graph.inputs()))
        self.stop = stop
        self.read: dict[str, Value] = {}
        # of all checks
        self.texts: list[str] = []

    def node(self, kind: str, inputs: Sequence[Any], types: Sequence[Any]) -> Node:
        """A node; Python's numbers and texts among the inputs become constants."""
        made = self.graph.create(kind, [self.value(one) for one in inputs], len(types))
        for output, its in zip(made.outputs(), types, strict=True):
            output.setType(its)
        self.graph.insertNode(made)
        return made

    def one(self, kind: str, inputs: Sequence[Any], its: Any = TENSOR) -> Value:
        """The value of a node with a schema."""
        made = self.node(kind, inputs, [its])
        if made.schema() == "(no schema)" and not kind.startswith("prim::"):
            raise Refused("program", f"{kind} of such values")
        return made.output()

    def value(self, given: Any) -> Value:
        if isinstance(given, torch._C.Value):
            return given
        return self.graph.insertConstant(given)

    def attribute(self, name: str, its: Any = TENSOR) -> Value:
        """An attribute of the module, read before everything else, once."""
        if name not in self.read:
            made = self.graph.create("prim::GetAttr", [self.itself], 1)
            made.s_("name", name)
            made.output().setType(its)
            made.insertBefore(self.stop)
            self.read[name] = made.output()
        return self.read[name]

    @contextmanager
    def inside(self, block: Any) -> Iterator[None]:
        """Write into a block."""
        with self.graph.insert_point_guard(block):
            yield

    def require(self, holds: Any, text: str) -> None:
        """The model stops with this text where `holds`, a bool, does not."""
        self.texts.append(text)
        check = self.node("prim::If", [holds], [])
        check.addBlock()
        with self.inside(check.addBlock()):
            self.node("prim::RaiseException", [text, "builtins.RuntimeError"], [])

    def unpacked(self, items: Value, count: int, its: Any = TENSOR) -> list[Value]:
        """The items of a list."""
        return list(self.node("prim::ListUnpack", [items], [its] * count).outputs())


def block_input(block: Any, its: Any) -> Value:
    """A new input of a loop's body."""
    made = block.addInputToBlock()
    made.setType(its)
    return made


Hook = Callable[["Emitter", Any], Any]


class Emitter:
    """Emits the nodes of a graph of `torch.fx`, and of those inside of it.

    hooks     node's target -> what emits it, for control flow
    reshapes  whether a view may be of what does not lie in memory as it did in the example
    held      id of a tensor or an object that a graph has itself -> its value
    """

    def __init__(
        self,
        writer: Writer,
        hooks: Mapping[Any, Hook],
        reshapes: bool,
        held: Mapping[int, Value] | None = None,
    ) -> None:
        self.writer = writer
        self.held = held or {}
        self.hooks = hooks
        self.reshapes = reshapes
        self.values: dict[Any, Any] = {}
        self.modules: list[Any] = []

    def emit(self, module: Any, given: Sequence[Any]) -> list[Any]:
        """The results of a graph module that is given these values."""
        outer, self.values = self.values, {}
        self.modules.append(module)
        names = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.values.update(zip(names, given, strict=True))
        results: Sequence[Any] = ()
        for node in module.graph.nodes:
            if node.op == "output":
                results = node.args[0]
            elif node.op != "placeholder":
                with _at(node):
                    self.values[node] = self._node(node)
        if not isinstance(results, list | tuple):
            results = [results]
        made = [self.given(one) for one in results]
        self.modules.pop()
        self.values = outer
        return made

    def given(self, one: Any) -> Any:
        """Return the value of a node's argument."""
        if isinstance(one, torch.fx.Node):
            return self.values[one]
        if isinstance(one, list | tuple):
            return [self.given(item) for item in one]
        return one

    def _node(self, node: Any) -> Any:
        if node.op == "get_attr":
            found = self.modules[-1]
            for part in node.target.split("."):
                found = getattr(found, part)
            return self.held.get(id(found), found)
        if node.op != "call_function":
            raise Refused("program", f"a node of the kind {node.op}")
        target = node.target
        if target in self.hooks:
            return self.hooks[target](self, node)
        if target is operator.getitem:
            return self.given(node.args[0])[node.args[1]]
        if target in ARITHMETIC:
            return self._arithmetic(node)
        if target in _SIZES:
            return self.writer.one(_SIZES[target], self.given(node.args), torch._C.IntType.get())
        if not isinstance(target, torch._ops.OpOverload):
            raise Refused("program", f"{getattr(target, '__name__', target)} has no counterpart")
        return self._operator(node, target)

    def _operator(self, node: Any, target: Any) -> Any:
        if target in _SAME:
            return self.given(node.args[0])
        if target in _NOTHING:
            return None
        if target in _ITEMS:
            return self._item(node)
        if target is _ATEN._assert_scalar.default:
            self.writer.require(self.as_bool(node.args[0]), _text(node))
            return None
        if target in (_ATEN._assert_async.msg, _ATEN._assert_async.default):
            self.writer.require(self.as_bool(node.args[0]), _text(node))
            return None
        if target in (_ATEN.view.default, _ATEN._unsafe_view.default):
            its = _ATEN.reshape.default if self.reshapes else _ATEN.view.default
            return self.call(its, node.args)
        if target is _ATEN._to_copy.default and _only_dtype(node):
            return self.call(_ATEN.to.dtype, [node.args[0], node.kwargs["dtype"], False, False])
        if target is _ATEN.copy.default:
            return self._copied(node)
        return self.call(target, node.args, node.kwargs, _count(node))

    # --- numbers ---

    def as_bool(self, condition: Any) -> Any:
        """A condition, which may be a tensor of one element."""
        given = self.given(condition)
        if isinstance(given, torch._C.Value) and given.type().kind() == "TensorType":
            return self.writer.one("aten::Bool", [given], torch._C.BoolType.get())
        return given

    def _item(self, node: Any) -> Value:
        its = type_of(node.meta["val"])
        return self.writer.one(_NUMBERS[its.kind()], [self.given(node.args[0])], its)

    def _arithmetic(self, node: Any) -> Any:
        rule, given = ARITHMETIC[node.target], self.given(node.args)
        if rule is Power:
            return self._power(given[0], given[1], type_of(node.meta["val"]))
        if len(given) == 1 and isinstance(given[0], list):
            # a sum of several
            total = given[0][0]
            for one in given[0][1:]:
                total = self.writer.one(rule, [total, one], type_of(node.meta["val"]))
            return total
        return self.writer.one(rule, given, type_of(node.meta["val"]))

    def _power(self, base: Any, exponent: Any, its: Any) -> Any:
        if its.kind() == "FloatType":
            return self.writer.one("aten::pow", [base, exponent], its)
        if type(exponent) is not int or not 1 <= exponent <= 8:
            raise Refused("program", f"a power of sizes with the exponent {exponent}")
        made = base
        for _ in range(exponent - 1):
            made = self.writer.one("aten::mul", [made, base], torch._C.IntType.get())
        return made

    # --- calls ---

    def call(
        self,
        target: Any,
        positional: Sequence[Any],
        named: Mapping[str, Any] | None = None,
        count: int = 0,
    ) -> Any:
        """A call of an overload; count: of the tensors in a list that it gives."""
        given = all_arguments(target, positional, named or {})
        given = [self.given(one) for one in given]
        target, wrong = _for_numbers(target, given)
        for number in wrong:
            given[number] = self._tensor_of(given[number], given)
        schema = target._schema
        values = [
            self._argument(one, its.type) for one, its in zip(given, schema.arguments, strict=False)
        ]
        node = self.writer.node(schema.name, values, [one.type for one in schema.returns])
        wanted = name_of(target)
        if operator_of(node) != wanted:
            raise Refused("program", f"{wanted} became {operator_of(node)} in TorchScript")
        outputs = list(node.outputs())
        if len(outputs) != 1:
            return outputs
        if schema.returns[0].type.kind() == "ListType":
            return self.writer.unpacked(outputs[0], count)
        return outputs[0]

    def _argument(self, given: Any, kind: Any) -> Value:
        """A value of an argument of this type."""
        if isinstance(given, torch._C.Value):
            if kind.kind() == "FloatType" and given.type().kind() == "IntType":
                return self.writer.one("aten::Float", [given], kind)
            return given
        if kind.kind() == "OptionalType" and given is not None:
            return self._argument(given, kind.getElementType())
        if kind.kind() == "OptionalType":
            # the overloads of upsample_linear1d differ in what is None
            made = self.writer.value(None)
            made.setType(kind)
            return made
        if kind.kind() == "ListType" and given is not None:
            items = given if isinstance(given, list) else [given]
            element = kind.getElementType()
            values = [self._argument(one, element) for one in items]
            return self.writer.node("prim::ListConstruct", values, [kind]).output()
        for values_of in ENUMS.values():
            if isinstance(given, type(values_of[0])):
                if given not in values_of:
                    raise Refused("program", f"{given}, which the lite interpreter does not have")
                return self.writer.value(list(values_of).index(given))
        if type(given) is int and kind.kind() == "FloatType":
            return self.writer.value(float(given))
        if isinstance(given, int | float | bool | str | complex | torch.device | None):
            return self.writer.value(given)
        raise Refused("program", f"an argument of the type {type(given).__name__}")

    def _tensor_of(self, number: Any, given: Sequence[Any]) -> Value:
        """A tensor that counts as a number does when dtypes are chosen."""
        its = next(one for one in given if _is_tensor(one))
        made = self.writer.one("aten::scalar_tensor", [number, None, None, None, None])
        ints = torch._C.IntType.get()
        chosen = self.writer.one("aten::result_type", [its, number], ints)
        return self.writer.one("aten::to", [made, chosen, False, False, None])

    def _copied(self, node: Any) -> Any:
        """Emit the value of a tensor after a copy to all of it."""
        to, what = (one.meta["val"] for one in node.args[:2])
        if to.dtype != what.dtype:
            return self.call(_ATEN.copy.default, node.args, node.kwargs)
        if list(map(str, to.shape)) == list(map(str, what.shape)):
            return self.given(node.args[1])
        ints = torch._C.ListType.ofInts()
        size = self.writer.one("aten::size", [self.given(node.args[0])], ints)
        return self.writer.one("aten::expand", [self.given(node.args[1]), size, False])


def name_of(target: Any) -> str:
    """The name of an overload, as models call it."""
    schema = target._schema
    return f"{schema.name}{'.' if schema.overload_name else ''}{schema.overload_name}"


@contextmanager
def _at(node: Any) -> Iterator[None]:
    """Refusals get the line that a node is of."""
    try:
        yield
    except Refused as error:
        if not error.facts.get("file"):
            error.facts |= place_of_stack(node.meta.get("stack_trace"))
        raise


def _text(node: Any) -> str:
    """Return the message of a check that the module, or torch.export, makes itself."""
    said = (
        node.args[1] if len(node.args) > 1 and isinstance(node.args[1], str) else "a check failed"
    )
    place = place_of_stack(node.meta.get("stack_trace"))
    return f"{said} ({place['code']})" if place else str(said)


def _only_dtype(node: Any) -> bool:
    """True if a copy changes the dtype alone: its device is the CPU, its layout strided."""
    named = node.kwargs
    return (
        len(node.args) == 1
        and named.get("dtype") is not None
        and set(named) <= {"dtype", "device", "layout"}
        and str(named.get("device") or "cpu") == "cpu"
        and (named.get("layout") or torch.strided) == torch.strided
    )


def _count(node: Any) -> int:
    given = node.meta.get("val")
    return len(given) if isinstance(given, list | tuple) else 0


def all_arguments(target: Any, positional: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """All of a call's arguments, in the order of its schema."""
    given = list(positional)
    for one in target._schema.arguments[len(given) :]:
        if one.name in named:
            given.append(named[one.name])
        elif one.has_default_value():
            given.append(one.default_value)
        else:
            raise Refused("program", f"{target} without its argument {one.name}")
    return given


def _for_numbers(target: Any, given: Sequence[Any]) -> tuple[Any, Sequence[int]]:
    """The overload that takes numbers where this one is given them for tensors, and else where
    they are: Python's binding makes tensors of them, which count as numbers when dtypes are
    chosen."""
    kinds = [one.type.kind() for one in target._schema.arguments]
    wrong = [
        number
        for number, (kind, one) in enumerate(zip(kinds, given, strict=False))
        if kind == "TensorType" and _is_number(one)
    ]
    if not wrong:
        return target, ()
    packet = target.overloadpacket
    for name in packet.overloads():
        other = getattr(packet, name)
        its = other._schema.arguments
        if len(its) != len(given) or other._schema.is_mutable:
            continue
        if all(
            (its[number].type.kind() == "NumberType")
            if number in wrong
            else its[number].type.str() == target._schema.arguments[number].type.str()
            for number in range(len(given))
        ):
            return other, ()
    if not any(map(_is_tensor, given)):
        raise Refused("program", f"{target} with a number in place of a tensor")
    return target, wrong


def _is_tensor(one: Any) -> bool:
    return isinstance(one, torch._C.Value) and one.type().kind() == "TensorType"


def _is_number(one: Any) -> bool:
    if isinstance(one, torch._C.Value):
        return one.type().kind() in _NUMBERS
    return isinstance(one, int | float | complex)
