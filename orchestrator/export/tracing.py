"""Traces a graph of TorchScript with symbolic sizes: no control flow, no writes, precise aliases.

`make_fx` listens while `running.Machine` runs the graph under torch's functionalization. What the
trace took for granted of the sizes are its guards: `probing.py` asks the model about each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

from orchestrator.export.graphs import Graph, Node
from orchestrator.export.refusal import Refused
from orchestrator.export.running import (
    Constant,
    Machine,
    constants_of,
    gathered,
    place_of,
    require_traceable,
)

# Functions around others that stay one call: what is inside of them is slower, or larger, or is
# where kernels of the runtime's own take over. None gives a view of its argument.
_LEAVES = frozenset(
    (
        *("linear", "matmul", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "embedding_bag"),
        *("conv_transpose2d", "conv_transpose3d", "_convolution", "bilinear", "einsum"),
        *("batch_norm", "layer_norm", "group_norm", "instance_norm", "cosine_similarity"),
        *("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell"),
        *("rnn_relu_cell", "scaled_dot_product_attention", "softmax", "log_softmax", "prelu"),
        *("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "adaptive_avg_pool1d"),
        *("adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "pad", "relu6"),
        *("selu", "hardswish", "square", "var", "std", "where", "pixel_shuffle", "gather"),
        *("pixel_unshuffle", "channel_shuffle", "clamp_min", "clamp_max", "log_sigmoid"),
        *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d"),
        *("upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d", "tile", "outer"),
        *("cross", "diff", "fmax", "max", "min", "true_divide", "multiply", "divide", "subtract"),
        *("greater", "greater_equal", "less", "less_equal", "not_equal", "concat", "concatenate"),
        *("index_select", "take_along_dim", "logsumexp", "norm", "isfinite"),
    )
)


def _max_pool1d(
    tensor: Any,
    size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    flat = torch.ops.aten.max_pool2d_with_indices.default(
        tensor.unsqueeze(-2),
        [1, *size],
        [1, *stride] if stride else [],
        [0, *padding],
        [1, *dilation],
        ceil_mode,
    )
    return flat[0].squeeze(-2)


# Where torch's own function makes numbers of symbolic sizes.
_FAKES: Mapping[str, Any] = {"max_pool1d": _max_pool1d}
_LIBRARY = "libtorch_orchestrator_leaf"


@dataclass(frozen=True)
class Guard:
    """A condition that a trace assumed.

    by_model  True if the model's own control flow depends on it; else an operator's, which checks
              it again when it runs
    """

    expression: Any
    place: str
    by_model: bool


@dataclass
class Trace:
    """A method's trace.

    graph      of `torch.fx`; its placeholders are `inputs` tensors, then the constants
    result     the result with `Leaf`s where tensors and sizes are
    symbols    symbol -> where it is: (input, dimension)
    """

    graph: Any
    inputs: int
    constants: list[Constant]
    result: Any
    guards: list[Guard] = field(default_factory=list)
    symbols: dict[Any, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Leaf:
    """A tensor or a size in a result, by its place among those that the trace gives."""

    number: int


class _Leaves:
    """torch.ops of their own for functions that stay one call."""

    def __init__(self) -> None:
        self.library = torch.library.Library(_LIBRARY, "FRAGMENT")
        self.made: dict[Any, Any] = {}

    def __call__(self, overload: Any) -> Any:
        """Return the operator to call in place of an overload."""
        base = overload._schema.name.removeprefix("aten::")
        if base not in _LEAVES or overload._schema.is_mutable:
            return overload
        if overload not in self.made:
            self.made[overload] = self._define(base, overload)
        return self.made[overload]

    def _define(self, base: str, overload: Any) -> Any:
        name = f"{base}_{overload._schema.overload_name or 'default'}"
        schema = str(overload._schema)
        self.library.define(name + re.sub(r"\(\w!?\)", "", schema[schema.index("(") :]))
        self.library.impl(name, overload, "CPU")
        fake = _FAKES.get(base, overload)
        torch.library.register_fake(f"{_LIBRARY}::{name}", fake, lib=self.library)
        return getattr(getattr(torch.ops, _LIBRARY), name).default

    def original(self, target: Any) -> Any:
        """Return the overload that an operator stands for."""
        return next((old for old, new in self.made.items() if new is target), target)


LEAVES = _Leaves()


def tensors_in(arguments: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors that a call gives. Raises Refused where it gives anything else."""
    found: list[torch.Tensor] = []
    for one in arguments:
        if isinstance(one, torch.Tensor):
            if one.is_quantized or one.layout != torch.strided:
                raise Refused("untraceable", "an input is a quantised or sparse tensor")
            found.append(one)
        elif isinstance(one, tuple):
            found += tensors_in(one)
        else:
            raise Refused(
                "untraceable",
                f"an input is a {type(one).__name__}: a trace would keep this one for ever",
            )
    return found


def packed(arguments: Sequence[Any], tensors: Sequence[Any]) -> tuple[Any, ...]:
    """The same arguments with other tensors."""
    left = iter(tensors)

    def pack(one: Any) -> Any:
        return tuple(map(pack, one)) if isinstance(one, tuple) else next(left)

    return tuple(map(pack, arguments))


def trace(graph: Graph, arguments: Sequence[Any]) -> Trace:
    """Raises Refused where a graph cannot be traced with such arguments."""
    require_traceable(graph)
    for value in list(graph.inputs())[1:]:
        if value.type().kind() not in ("TensorType", "TupleType"):
            raise Refused("untraceable", f"an input is a {value.type().str()}: it may be another")
    its, constants = tensors_in(arguments), dict(constants_of(graph))
    env = ShapeEnv(duck_shape=False, specialize_zero_one=False, assume_static_by_default=False)
    mode = FakeTensorMode(shape_env=env)
    fakes = [_symbolic(mode, one, number) for number, one in enumerate(its)]
    symbols = {
        size.node.expr: (number, dim)
        for number, fake in enumerate(fakes)
        for dim, size in enumerate(fake.shape)
        if isinstance(size, torch.SymInt)
    }
    weights = [mode.from_tensor(one.detach(), static_shapes=True) for one in constants.values()]
    made = Trace(None, len(fakes), list(constants), None, symbols=symbols)
    body = _Body(graph, arguments, made, env)
    with torch.no_grad(), mode, enable_python_dispatcher():
        traced = make_fx(functionalize(body, remove="mutations"))(*fakes, *weights)
    made.graph = traced.graph
    made.graph.eliminate_dead_code()
    _require_functional(made)
    return made


def _symbolic(mode: Any, tensor: torch.Tensor, number: int) -> Any:
    tensor = tensor.detach().contiguous()
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * tensor.dim())
    source = ConstantSource(f"input{number}")
    return mode.from_tensor(tensor, source=source, symbolic_context=context)


class _Body:
    """Function that `make_fx` traces: returns the result's tensors and sizes as a list."""

    def __init__(self, graph: Graph, arguments: Sequence[Any], made: Trace, env: Any) -> None:
        self.graph, self.arguments, self.made, self.env = graph, arguments, made, env
        self.last: Any = None
        self.seen = 0

    def __call__(self, *tensors: Any) -> list[Any]:
        mode: Any = get_proxy_mode()
        self.last = next(reversed(mode.tracer.graph.nodes), None)
        self.tracer = mode.tracer
        count = self.made.inputs
        constants = dict(zip(self.made.constants, tensors[count:], strict=True))
        self.machine = Machine(gathered(constants), self._call, self._noted)
        # of how the inputs lie in memory
        self._guards(by_model=False)
        result = self.machine.run(self.graph, packed(self.arguments, tensors[:count]))
        leaves: list[Any] = []
        self.made.result = _structure(result, leaves)
        return leaves

    def _call(self, overload: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        self._guards(by_model=True)
        try:
            return LEAVES(overload)(*positional, **named)
        except Exception as error:
            kind, text = type(error).__name__, str(error).strip().splitlines() or [""]
            raise self.machine.step.refused(_SAYINGS.get(kind, f"{kind}: {text[0]}")) from error
        finally:
            self._guards(by_model=False)

    def _noted(self, node: Node) -> None:
        self._guards(by_model=True)
        nodes = list(self.tracer.graph.nodes)
        for new in reversed(nodes):
            if new is self.last:
                break
            new.meta.setdefault("step", node)
        self.last = nodes[-1] if nodes else None

    def _guards(self, by_model: bool) -> None:
        new = self.env.guards[self.seen :]
        self.seen += len(new)
        if new:
            node = self.machine.step.node
            file, line = ("", 0) if node is None else place_of(node)
            place = f"{file}:{line}" if file else ""
            self.made.guards += [Guard(one.expr, place, by_model) for one in new]


_SAYINGS: Mapping[str, str] = {
    "DynamicOutputShapeException": "its result's size depends on a tensor's value",
    "DataDependentOutputException": "a number that depends on a tensor's value",
    "GuardOnDataDependentSymNode": "the way depends on a tensor's value",
    "UnsupportedFakeTensorException": "it is not known how to trace it",
}


def _structure(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, torch.Tensor | torch.SymInt | torch.SymFloat):
        leaves.append(value)
        return Leaf(len(leaves) - 1)
    if isinstance(value, list):
        return [_structure(one, leaves) for one in value]
    if isinstance(value, tuple):
        return tuple(_structure(one, leaves) for one in value)
    if isinstance(value, dict):
        return {key: _structure(one, leaves) for key, one in value.items()}
    if isinstance(value, torch.SymBool):
        raise Refused("untraceable", "a result is a comparison of sizes")
    return value


def _require_functional(made: Trace) -> None:
    """A trace's only writes are those that a caller sees."""
    places = [node for node in made.graph.nodes if node.op == "placeholder"]
    constants = set(places[made.inputs :])
    for node in made.graph.nodes:
        if node.op == "get_attr":
            raise Refused("untraceable", "a tensor of unknown origin became a constant")
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or not schema.is_mutable:
            continue
        if node.target is not torch.ops.aten.copy_.default:
            raise Refused("untraceable", f"{node.target} is left: a write that has no other form")
        if node.args[0] in constants:
            raise Refused("untraceable", "the model changes a buffer of its own")
