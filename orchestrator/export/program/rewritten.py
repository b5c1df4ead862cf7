"""A program of torch.export, functional by rewriting its nodes.

`run_decompositions` runs a program again to make it functional, which costs as much as the export.
A program that writes into nothing but fresh tensors needs a few rewritings alone; any other is left
to torch. What is known of operators is that of torch/_decomp and aten/src/ATen/native.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from orchestrator.export.program.arithmetic import ARITHMETIC

_ATEN: Final = torch.ops.aten
_INPUTS: Final = frozenset(
    (InputKind.USER_INPUT, InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
)
# They may give what they get, or views of it, and the model calls them as the module does.
_STAY: Final = frozenset(
    (_ATEN.reshape.default, _ATEN.flatten.using_ints, _ATEN.expand_as.default, _ATEN.chunk.default)
)
# What they give is memory of its own; in place they compute the same, of the same dtype.
_FRESH: Final = frozenset(
    getattr(_ATEN, name)
    for name in (
        *("conv1d", "conv2d", "conv3d", "linear", "matmul", "bmm", "mm", "addmm", "batch_norm"),
        *("layer_norm", "group_norm", "embedding", "add", "sub", "mul", "div"),
        *("relu", "relu6", "hardtanh", "hardswish", "hardsigmoid"),
        *(
            "silu",
            "gelu",
            "sigmoid",
            "tanh",
            "leaky_relu",
            "elu",
            "mish",
            "clamp",
            "softmax",
            "cat",
        ),
    )
)
_PRESERVED: Final = (None, torch.preserve_format)


def functional_by_rewriting(exported: Any) -> Any | None:
    """The program as `run_decompositions({})` gives it, or None where that needs more."""
    signature = exported.graph_signature
    if not all(one.kind in _INPUTS for one in signature.input_specs):
        return None
    if not all(one.kind is OutputKind.USER_OUTPUT for one in signature.output_specs):
        return None
    graph = copy.deepcopy(exported.graph)
    for node, original in zip(graph.nodes, exported.graph.nodes, strict=True):
        # a copied node is not called as one of Python's own functions is: `input`
        node.name = original.name
    graph.eliminate_dead_code()
    if not all(_rewritten(graph, node) for node in list(graph.nodes)):
        return None
    graph.eliminate_dead_code()
    core = copy.copy(exported)
    core._graph_module = torch.fx.GraphModule(exported.graph_module, graph)
    core._graph_module.meta.update(exported.graph_module.meta)
    return core


def _rewritten(graph: Any, node: Any) -> bool:
    """Make a node functional, if it is not; returns False if that is not possible."""
    if node.op in ("placeholder", "output"):
        return True
    if node.op != "call_function":
        return False
    target = node.target
    if target is operator.getitem or target in ARITHMETIC:
        return True
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return False
    rule = _RULES.get(target.overloadpacket)
    if rule is not None:
        return rule(graph, node)
    if target._schema.is_mutable:
        return _without_write(graph, node)
    # others that torch writes as several operators are views of an argument; none is written here
    return target in _STAY or not (_gives_an_argument(target) and _composite(target))


def _gives_an_argument(target: Any) -> bool:
    return any(one.alias_info is not None for one in target._schema.returns)


def _composite(target: Any) -> bool:
    return bool(target._can_decompose())


def _replace(graph: Any, node: Any, by: Any) -> bool:
    node.replace_all_uses_with(by)
    graph.erase_node(node)
    return True


def join_batch_norms(graph: Any) -> None:
    """Make one operator again of each batch norm that torch wrote as two: the passes that fold
    them into convolutions know them by it."""
    for node in list(graph.nodes):
        if node.target is not _ATEN._native_batch_norm_legit_no_training.default:
            continue
        if {user.target for user in node.users} != {operator.getitem}:
            continue
        results = list(node.users)
        if any(one.args[1] != 0 for one in results):
            continue
        names = ("input", "weight", "bias", "running_mean", "running_var", "momentum", "eps")
        *tensors, momentum, eps = (_argument(node, name) for name in names)
        for one in results:
            one.target, one.kwargs = _ATEN.batch_norm.default, {}
            one.args = (*tensors, False, momentum, eps, True)
        graph.erase_node(node)


def _argument(node: Any, name: str) -> Any:
    """An argument of a call, given or by default."""
    for number, one in enumerate(node.target._schema.arguments):
        if one.name == name:
            given = node.args[number] if number < len(node.args) else node.kwargs.get(name)
            return one.default_value if given is None and one.has_default_value() else given
    return None


def _dropout(graph: Any, node: Any) -> bool:
    return _argument(node, "train") is False and _replace(graph, node, node.args[0])


def _contiguous(graph: Any, node: Any) -> bool:
    its = _argument(node, "memory_format") or torch.contiguous_format
    if free_unbacked_symbols(node.args[0].meta["val"]):
        return False  # `is_contiguous` would ask what is not known
    if node.args[0].meta["val"].is_contiguous(memory_format=its):
        return _replace(graph, node, node.args[0])
    node.target, node.args = _ATEN.clone.default, (node.args[0],)
    node.kwargs = {"memory_format": its}
    return True


def _to(graph: Any, node: Any) -> bool:
    before, after = (one.meta.get("val") for one in (node.args[0], node))
    if _argument(node, "copy") or _argument(node, "memory_format") not in _PRESERVED:
        return False
    if before.device != after.device or before.layout != after.layout:
        return False
    if before.dtype == after.dtype:
        return _replace(graph, node, node.args[0])
    node.target, node.args = _ATEN._to_copy.default, (node.args[0],)
    node.kwargs = {"dtype": after.dtype}
    return True


def _unflatten(graph: Any, node: Any) -> bool:
    """A view whose other sizes stay those of the tensor."""
    tensor, dim, sizes = (_argument(node, name) for name in ("self", "dim", "sizes"))
    before, after = (one.meta["val"].shape for one in (tensor, node))
    at = dim % len(before)
    # with a size of 0 elsewhere a view cannot tell what -1 is
    inner = [after[at + n] if one == -1 else one for n, one in enumerate(sizes)]
    if not all(isinstance(one, int | torch.fx.Node) for one in inner):
        return False
    with graph.inserting_before(node):
        outer = [_size(graph, tensor, n, size) for n, size in enumerate(before) if n != at]
    node.target, node.kwargs = _ATEN.view.default, {}
    node.args = (tensor, [*outer[:at], *inner, *outer[at:]])
    return True


def _size(graph: Any, tensor: Any, dim: int, size: Any) -> Any:
    """A size of a tensor, as an argument: a number, or the node that asks for it."""
    if isinstance(size, int):
        return size
    asked = graph.call_function(_ATEN.sym_size.int, (tensor, dim))
    asked.meta["val"] = size
    return asked


def _batch_norm(graph: Any, node: Any) -> bool:
    return _argument(node, "training") is False and _argument(node, "running_mean") is not None


def _native_batch_norm(graph: Any, node: Any) -> bool:
    """Its schema does not say that it writes to statistics."""
    return _argument(node, "training") is False


def _instance_norm(graph: Any, node: Any) -> bool:
    """Its schema does not say so either."""
    return _argument(node, "use_input_stats") is False or _argument(node, "running_mean") is None


def _without_write(graph: Any, node: Any) -> bool:
    """A write into a tensor that nobody else has, as a result of its own."""
    target, schema = node.target, node.target._schema
    written = [one.alias_info is not None and one.alias_info.is_write for one in schema.arguments]
    name = schema.name.removeprefix("aten::")
    other = getattr(getattr(_ATEN, name.removesuffix("_"), None), target._overloadname, None)
    if other is None or not name.endswith("_") or written != [True, *[False] * (len(written) - 1)]:
        return False
    if other.overloadpacket not in _FRESH and other.overloadpacket not in _RULES:
        return False  # `eq_` keeps a dtype, and `eq` gives bools
    before, after = node.args[0], node.meta.get("val")
    tensors = [one.meta.get("val") for one in node.all_input_nodes]
    alike = all(isinstance(one, torch.Tensor) and one.dtype == after.dtype for one in tensors)
    if not alike or not _fresh(before) or not _last(before, node):
        return False
    node.target = other
    rule = _RULES.get(other.overloadpacket)
    return rule is None or rule(graph, node)


def _fresh(node: Any) -> bool:
    """True if a tensor is new memory that its node allocates."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.overloadpacket in _FRESH


def _last(node: Any, last: Any) -> bool:
    """True if all other readers of a tensor run before `last` and keep none of its memory."""
    readers = [one for one in node.users if one is not last]
    return all(one < last and one.op == "call_function" and _fresh(one) for one in readers)


_RULES: Final[Mapping[Any, Callable[[Any, Any], bool]]] = {
    **{getattr(_ATEN, name): _dropout for name in ("dropout", "feature_dropout", "alpha_dropout")},
    _ATEN.contiguous: _contiguous,
    _ATEN.to: _to,
    _ATEN.unflatten: _unflatten,
    _ATEN.batch_norm: _batch_norm,
    _ATEN.native_batch_norm: _native_batch_norm,
    _ATEN.instance_norm: _instance_norm,
}
