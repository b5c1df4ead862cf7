"""Runs a graph of TorchScript step by step, on tensors whose sizes may be symbols.

torch's own interpreter makes numbers of sizes; this one leaves them symbols, knows which line of
the source each step is of, and stops where the way depends on a value. Numbers, texts and lists are
Python's; whatever has to do with tensors is called through torch's dispatcher, so that whoever
listens there sees it.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from orchestrator.export.graphs import Graph, Node, Value, nodes, operator_of
from orchestrator.export.refusal import Refused
from orchestrator.export.values import tensors_of

# TorchScript's numbers of dtypes, layouts and memory formats (c10/core/ScalarType.h, Layout.h,
# MemoryFormat.h).
DTYPES = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16),
    *(torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128),
    *(torch.bool, torch.qint8, torch.quint8, torch.qint32, torch.bfloat16),
)
LAYOUTS = (torch.strided, torch.sparse_coo)
FORMATS = (
    *(torch.contiguous_format, torch.preserve_format),
    *(torch.channels_last, torch.channels_last_3d),
)
ENUMS: Mapping[str, Sequence[Any]] = {
    "ScalarType": DTYPES,
    "Layout": LAYOUTS,
    "MemoryFormat": FORMATS,
}
_PLACE = re.compile(r'File "(.+)", line (\d+)')
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
# A number that only running tells.
_VALUES = frozenset(
    "aten::" + name
    for name in (
        *("item", "is_nonzero", "tolist", "_local_scalar_dense", "equal", "allclose"),
        *("IntImplicit", "FloatImplicit", "ScalarImplicit", "ComplexImplicit"),
    )
)
_OF_VALUES = ("aten::Int.Tensor", "aten::Float.Tensor", "aten::Bool.Tensor", "prim::tolist")
# A tensor that is a constant: the number of its value in the graph, and its place in a list.
Constant = tuple[int, int | None]


@dataclass
class Step:
    """The node that is being run, for messages."""

    node: Node = None

    def refused(self, what: str) -> Refused:
        """With the operator and the place."""
        if self.node is None:
            return Refused("untraceable", what)
        file, line = place_of(self.node)
        place = f" ({file}:{line})" if file else ""
        return Refused("untraceable", f"{operator_of(self.node)}{place}: {what}")


def place_of(node: Node) -> tuple[str, int]:
    """The line of the source that a node is of; the innermost one that is not torch's."""
    found = [(m[1], int(m[2])) for m in _PLACE.finditer(str(node.sourceRange()))]
    own = [one for one in found if "/torch/" not in one[0]]
    return next(iter(own or found), ("", 0))


def require_traceable(graph: Graph) -> None:
    """Raises Refused where something in a graph cannot be traced, whatever the inputs."""
    for node in nodes(graph):
        step, kind = Step(node), node.kind()
        if kind in ("prim::GetAttr", "prim::SetAttr"):
            raise step.refused("the model changes a buffer of its own")
        if kind in ("prim::CallMethod", "prim::CallFunction", "prim::fork", "aten::wait"):
            raise step.refused("a call that is not inlined")
        for value in (*node.inputs(), *node.outputs()):
            if "__torch__" in value.type().str():
                raise step.refused(f"an object of the class {value.type().str()}")
        if not kind.startswith(("aten::", "prim::")) or "quantize" in kind:
            raise step.refused("quantised tensors, and operators that are not PyTorch's own")
        if kind == "prim::Constant" and node.hasAttribute("value"):
            for constant in tensors_of(node.output().toIValue()):
                _require_plain(step, constant)


def _require_plain(step: Step, tensor: torch.Tensor) -> None:
    if tensor.is_quantized:
        raise step.refused("a quantised tensor")
    if tensor.layout != torch.strided:
        raise step.refused("a sparse tensor")


class Machine:
    """Runs one graph.

    constants  what stands for each constant of tensors: its value's number in the graph -> it
    call       calls an operator with positional and named arguments
    noted      called after each step
    """

    def __init__(
        self,
        constants: Mapping[int, Any],
        call: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any],
        noted: Callable[[Node], None],
    ) -> None:
        self.constants = constants
        self.call = call
        self.noted = noted
        self.step = Step()
        self.values: dict[int, Any] = {}

    def run(self, graph: Graph, arguments: Sequence[Any]) -> Any:
        """The graph's result. arguments: without the module itself."""
        for value, argument in zip(list(graph.inputs())[1:], arguments, strict=True):
            self.values[value.unique()] = argument
        self._block(graph)
        return self._of(next(iter(graph.outputs())))

    def _of(self, value: Value) -> Any:
        return self.values[value.unique()]

    def _block(self, block: Any) -> None:
        for node in block.nodes():
            self._node(node)

    def _node(self, node: Node) -> None:
        if node.kind() == "prim::If":
            self._if(node)
            return
        if node.kind() == "prim::Loop":
            self._loop(node)
            return
        self.step.node = node
        inputs = [self._of(one) for one in node.inputs()]
        made = self._compute(node, inputs)
        outputs = list(node.outputs())
        results = [made] if len(outputs) == 1 else list(made) if outputs else []
        if len(results) != len(outputs):
            raise self.step.refused(f"{len(results)} values for {len(outputs)} names")
        for output, result in zip(outputs, results, strict=True):
            self.values[output.unique()] = result
        self.noted(node)

    def _chosen(self, node: Node, value: Any) -> bool:
        self.step.node = node
        if isinstance(value, torch.Tensor):
            raise self.step.refused("the way depends on a tensor's value")
        made = bool(value)
        self.noted(node)
        return made

    def _if(self, node: Node) -> None:
        chosen = 0 if self._chosen(node, self._of(node.inputsAt(0))) else 1
        block = list(node.blocks())[chosen]
        self._block(block)
        results = [self._of(one) for one in block.outputs()]
        for output, result in zip(node.outputs(), results, strict=True):
            self.values[output.unique()] = result

    def _loop(self, node: Node) -> None:
        most, goes_on, *carried = (self._of(one) for one in node.inputs())
        block = next(iter(node.blocks()))
        rounds = 0
        while self._chosen(node, goes_on) and self._chosen(node, rounds < most):
            for value, given in zip(block.inputs(), [rounds, *carried], strict=True):
                self.values[value.unique()] = given
            self._block(block)
            goes_on, *carried = (self._of(one) for one in block.outputs())
            rounds += 1
            if rounds > _MOST_ROUNDS:
                raise self.step.refused(f"more than {_MOST_ROUNDS} rounds of a loop")
        for output, result in zip(node.outputs(), carried, strict=True):
            self.values[output.unique()] = result

    def _compute(self, node: Node, inputs: list[Any]) -> Any:
        kind, name = node.kind(), operator_of(node)
        if kind.startswith("prim::"):
            return self._primitive(node, kind, inputs)
        if kind in _VALUES or name in _OF_VALUES:
            raise self.step.refused("a number that depends on a tensor's value")
        if kind in ("aten::tensor", "aten::as_tensor", "aten::scalar_tensor"):
            return self._number(inputs)
        base = kind.removeprefix("aten::")
        first = inputs[0] if inputs else None
        if isinstance(first, torch.Tensor) and base in _OF_TENSORS:
            return _OF_TENSORS[base](*inputs)
        on_container = isinstance(first, list | tuple | dict | str)
        plain = not any(isinstance(one, torch.Tensor) for one in inputs)
        if base in _PLAIN and (plain or on_container):
            return self._plain(base, inputs)
        overload = self._overload(name)
        return self._called(overload, inputs)

    def _number(self, inputs: list[Any]) -> Any:
        """A tensor of one number; torch's own function would write it past whoever listens."""
        value, dtype = inputs[0], inputs[1]
        if not isinstance(value, bool | int | float | torch.SymInt | torch.SymFloat):
            raise self.step.refused("a tensor made of a list")
        if dtype is None:
            usual = torch.get_default_dtype()
            dtype = DTYPES.index(
                torch.bool
                if isinstance(value, bool)
                else torch.int64
                if isinstance(value, int | torch.SymInt)
                else usual
            )
        full = torch.ops.aten.full.default
        return self._called(full, [[], value, dtype, None, None, None])

    def _plain(self, base: str, inputs: list[Any]) -> Any:
        try:
            return _PLAIN[base](*inputs)
        except (TypeError, ValueError, IndexError, KeyError, ArithmeticError) as error:
            raise self.step.refused(f"{type(error).__name__}: {error}") from error

    def _overload(self, name: str) -> Any:
        base, _, overload = name.removeprefix("aten::").partition(".")
        try:
            return getattr(getattr(torch.ops.aten, base), overload or "default")
        except (AttributeError, RuntimeError) as error:
            raise self.step.refused("it is not known how to trace it") from error

    def _called(self, overload: Any, inputs: list[Any]) -> Any:
        positional, named = bound(overload, inputs)
        if torch.Tag.nondeterministic_seeded in overload.tags and _draws(overload, inputs):
            raise self.step.refused("random numbers")
        shapeless = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
        if any(tag in overload.tags for tag in shapeless) and "index" not in str(overload):
            raise self.step.refused("its result's size depends on a tensor's value")
        return self.call(overload, positional, named)

    def _primitive(self, node: Node, kind: str, inputs: list[Any]) -> Any:
        if kind == "prim::Constant":
            unique = node.output().unique()
            if unique in self.constants:
                value = self.constants[unique]
                return list(value) if isinstance(value, list) else value
            return node.output().toIValue()
        if kind == "prim::RaiseException":
            raise self.step.refused("the example inputs end in an exception")
        if kind == "prim::DictConstruct":
            return dict(zip(inputs[::2], inputs[1::2], strict=True))
        if kind == "prim::TupleUnpack":
            return tuple(inputs[0])
        if kind == "prim::ListUnpack":
            return list(inputs[0])
        if kind not in _PRIMITIVES:
            raise self.step.refused("it is not known how to trace it")
        try:
            return _PRIMITIVES[kind](*inputs)
        except (TypeError, ValueError, IndexError) as error:
            raise self.step.refused(f"{type(error).__name__}: {error}") from error


_MOST_ROUNDS = 1000


@cache
def _kinds(overload: Any) -> tuple[tuple[str, bool, str], ...]:
    """Return for each argument: its name, True if it is keyword-only, and its enumeration."""
    made = []
    for one in overload._schema.arguments:
        text = str(one.real_type)
        enum = next((name for name in ENUMS if name in text), "")
        made.append((one.name, one.kwarg_only, enum))
    return tuple(made)


def bound(overload: Any, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments, as Python calls the operator."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for (name, by_name, enum), value in zip(_kinds(overload), inputs, strict=False):
        given = ENUMS[enum][value] if enum and type(value) is int else value
        if by_name:
            named[name] = given
        else:
            positional.append(given)
    return tuple(positional), named


def _draws(overload: Any, inputs: Sequence[Any]) -> bool:
    """True if a call with dropout draws random numbers: never outside of training."""
    names = [one.name for one in overload._schema.arguments]
    given = dict(zip(names, inputs, strict=False))
    return not (given.get("train") is False or given.get("dropout_p") == 0)


def _slice(values: Any, start: Any, end: Any, step: Any) -> Any:
    return values[slice(start, end, step)]


def _append(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


def _insert(values: list[Any], at: int, value: Any) -> None:
    values.insert(at, value)


def _extend(values: list[Any], more: list[Any]) -> None:
    values.extend(more)


def _set(values: Any, at: Any, value: Any) -> Any:
    values[at] = value
    return values


def _float(value: Any) -> Any:
    return torch.sym_float(value) if isinstance(value, _SYMBOLS) else float(value)


def _int(value: Any) -> Any:
    return torch.sym_int(value) if isinstance(value, _SYMBOLS) else int(value)


def _not(value: Any) -> Any:
    return torch.sym_not(value) if isinstance(value, torch.SymBool) else not value


def _root(value: Any) -> Any:
    return torch._sym_sqrt(value) if isinstance(value, _SYMBOLS) else math.sqrt(value)


def _same(value: Any) -> Any:
    return value


# Of numbers, texts, lists and dictionaries, by the operator's name without overload.
_PLAIN: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "remainder": operator.mod,
    "neg": operator.neg,
    "pow": operator.pow,
    "sqrt": _root,
    "floor": math.floor,
    "ceil": math.ceil,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__not__": _not,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__contains__": operator.contains,
    "__getitem__": operator.getitem,
    "__range_length": lambda low, high, step: len(range(low, high, step)),
    "__derive_index": lambda index, start, step: start + index * step,
    "Int": _int,
    "Float": _float,
    "Bool": bool,
    "len": len,
    "list": list,
    "slice": _slice,
    "append": _append,
    "insert": _insert,
    "extend": _extend,
    "_set_item": _set,
    "keys": list,
    "values": lambda value: list(value.values()),
    "format": lambda text, *values: text.format(*values),
    "warn": lambda *values: None,
}
_OF_TENSORS: Mapping[str, Callable[..., Any]] = {
    "size": lambda tensor, dim=None: list(tensor.shape) if dim is None else tensor.shape[dim],
    "dim": lambda tensor: tensor.dim(),
    "numel": lambda tensor: tensor.numel(),
    "len": lambda tensor: tensor.shape[0],
    "is_floating_point": lambda tensor: tensor.is_floating_point(),
    "is_complex": lambda tensor: tensor.is_complex(),
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
}
_PRIMITIVES: Mapping[str, Callable[..., Any]] = {
    "prim::ListConstruct": lambda *values: list(values),
    "prim::TupleConstruct": lambda *values: tuple(values),
    "prim::TupleIndex": operator.getitem,
    "prim::TupleSlice": lambda values, start, end: values[start:end],
    "prim::DictIndex": operator.getitem,
    "prim::unchecked_cast": _same,
    "prim::unchecked_unwrap_optional": _same,
    "prim::Uninitialized": lambda: None,
    "prim::dtype": lambda tensor: DTYPES.index(tensor.dtype),
    "prim::device": lambda tensor: tensor.device,
    "prim::layout": lambda tensor: LAYOUTS.index(tensor.layout),
    "prim::is_cuda": lambda tensor: False,
    "prim::requires_grad": lambda tensor: False,
    "prim::data": lambda tensor: tensor.detach(),
    "prim::max": lambda one, *more: torch.sym_max(one, *more) if more else max(one),
    "prim::min": lambda one, *more: torch.sym_min(one, *more) if more else min(one),
    "prim::Print": lambda *values: None,
}


def constants_of(graph: Graph) -> Iterator[tuple[Constant, torch.Tensor]]:
    """The tensors among a graph's constants."""
    for node in nodes(graph):
        if node.kind() != "prim::Constant" or not node.hasAttribute("value"):
            continue
        value, unique = node.output().toIValue(), node.output().unique()
        if isinstance(value, torch.Tensor):
            yield (unique, None), value
        elif isinstance(value, list | tuple):
            for number, one in enumerate(value):
                if isinstance(one, torch.Tensor):
                    yield (unique, number), one


def gathered(constants: Mapping[Constant, torch.Tensor]) -> dict[int, Any]:
    """Value's number -> its tensor, or list of tensors."""
    found: dict[int, Any] = {}
    for (unique, number), tensor in constants.items():
        if number is None:
            found[unique] = tensor
        else:
            found.setdefault(unique, []).append(tensor)
    return found
