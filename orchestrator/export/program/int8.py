"""Programs of PT2E in int8: `quantized_decomposed` around an operator becomes its int8 kernel.

convert_pt2e writes "dequantise, compute in float, quantise". Where PyTorch has a kernel for the
three, as models that were quantised in eager mode name it, it takes their place, with weights
packed in int8. int8 tensors become quint8, whose zero point is 128 more: that is what kernels of
all engines take. All else stays in float, between `quantize_per_tensor` and `dequantize`, with the
program's own rounding.

Each kernel is tried on the example's own integers: it replaces what the program computes if it
gives the same but for the rounding of one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from orchestrator.export.packing import exact_engine
from orchestrator.export.places import place_of_stack
from orchestrator.export.program import int8_kernels as kernels
from orchestrator.export.program.decomposed import decompose
from orchestrator.export.program.int8_kernels import FULL, SHIFTS, Int8
from orchestrator.export.refusal import Refused

_ATEN, _INT8 = torch.ops.aten, torch.ops.quantized
_NAMESPACE = "quantized_decomposed"
_QUANTISE, _DEQUANTISE = _ATEN.quantize_per_tensor.default, _ATEN.dequantize.self
# How far results may be from the program's: this often what one step of each int8 tensor changes.
_SLACK = 2.0
# Where steps are tried: in one of so many numbers.
_TRIED_IN = 4


@dataclass(frozen=True)
class Integers:
    """Result of replacing a program's quantised operators by int8 kernels.

    notes  lines for people
    slack  tolerance of results, relative to the largest number of a tensor
    """

    notes: Sequence[str] = ()
    slack: float = 0.0


def in_int8(core: Any, leaves: Sequence[Any]) -> Integers:
    """Rewrite the graph of a functional program, in place. leaves: of its example. Raises Refused
    where an operator of `quantized_decomposed` is not known."""
    if not any(map(_is_decomposed, core.graph.nodes)):
        return Integers()
    with exact_engine(), torch.no_grad():
        _shared(core.graph)
        program = _Program(core, leaves)
        for node in list(core.graph.nodes):
            program.as_quantised(node)
        for node in list(core.graph.nodes):
            program.dynamic(node)
            program.fused(node)
        for node in list(core.graph.nodes):
            if _is_decomposed(node):
                decompose(core.graph, node)
    core.graph.eliminate_dead_code()
    for node in core.graph.nodes:
        if _is_decomposed(node):
            place = place_of_stack(node.meta.get("stack_trace"))
            raise Refused("program", f"{node.target} has no counterpart", **place)
    core.graph_module.recompile()
    return Integers(program.told(), program.slack)


def _is_decomposed(node: Any) -> bool:
    return getattr(node.target, "namespace", "") == _NAMESPACE


def _name(node: Any) -> str:
    return str(node.target._schema.name) if _is_decomposed(node) else ""


class _Program:
    """A program that is being rewritten. Nodes of quantised tensors have `int8` in their `meta`,
    and `weight` where they are constants."""

    def __init__(self, core: Any, leaves: Sequence[Any]) -> None:
        self.core, self.graph = core, core.graph
        self.constants = _constants(core)
        given = _given(core, self.constants, leaves)
        run = _Run(core.graph_module)
        results = run.run(*given)
        # of quantised tensors, what the program has for their integers; and sizes
        self.values: dict[Any, Any] = run.kept
        self.slack = _slack(core, given, results)
        self.reasons: dict[Any, str] = {}
        self.held = 0

    # --- quantised tensors in the place of integers ---

    def as_quantised(self, node: Any) -> None:
        """A quantised tensor for what quantises, and `dequantize` for what reads it, if nothing
        else does; and for integers of the model's state."""
        weight = kernels.constant_of(node, self.constants)
        if weight is not None:
            with self.graph.inserting_before(node):
                made = self._hold(weight)
            made.meta["weight"] = weight
            self._dequantised(node, made)
            return
        its = kernels.read(node)
        if its is None or not all(kernels.reads(user, node) for user in node.users):
            return
        with self.graph.inserting_before(node):
            scale, zero = its.scale, its.zero
            made = self._call(_QUANTISE, node.args[0], scale, zero, torch.quint8)
        _like(made, node)
        made.meta["int8"] = its
        if node in self.values:
            self.values[made] = self.values[node]
        for user in list(node.users):
            self._dequantised(user, made)
        self.graph.erase_node(node)

    def _dequantised(self, node: Any, quantised: Any) -> None:
        with self.graph.inserting_before(node):
            made = self._call(_DEQUANTISE, quantised)
        _like(made, node)
        node.replace_all_uses_with(made)
        self.graph.erase_node(node)

    def _hold(self, what: Any) -> Any:
        """A node for a tensor or an object that the model is to hold."""
        name = f"_int8_{self.held}"
        self.held += 1
        setattr(self.core.graph_module, name, what)
        return self.graph.get_attr(name)

    def _call(self, target: Any, *args: Any, **named: Any) -> Any:
        return self.graph.call_function(target, args, named)

    # --- kernels ---

    def fused(self, node: Any) -> None:
        """The int8 kernel of what a tensor is quantised from, in the place of all of it."""
        its = node.meta.get("int8")
        if node.target is not _QUANTISE or its is None:
            return
        root, later, bounds = kernels.before(node.args[0])
        with self.graph.inserting_before(node):
            made = None if bounds is None else self._root(root, its)
        if made is None:
            made, later, bounds = node, [], kernels.EVERYTHING
            node.meta["int8"] = replace(its, least=0, most=FULL)
        numbers = self.values.get(node)
        with self.graph.inserting_before(node.next):
            made = self._within(made, its.clamped(bounds), node)
            for one in reversed(later):
                made = self._moved(one, made)
        if made is not node:
            _like(made, node)
            if numbers is not None:
                self.values[made] = numbers + (made.meta["int8"].zero - its.zero)
            node.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)

    def _root(self, node: Any, its: Int8) -> Any:
        quantised = self._of(node)
        if quantised is not None:
            return quantised if quantised.meta["int8"].scale == its.scale else None
        rule = kernels.RULES.get(getattr(node, "target", None))
        if rule is None or len(node.users) > 1:
            return None
        call = rule(kernels.Site(node, its, self._of, self._weight, self._value))
        if isinstance(call, str):
            self.reasons[node] = call
            return None
        objects = (torch.ScriptObject,)
        args = [self._hold(one) if isinstance(one, objects) else one for one in call.args]
        made = self._call(call.target, *args)
        _like(made, node)
        why = self._disagrees(made, node, call.its)
        if why:
            self.reasons[node] = why
            return None
        made.meta["int8"] = call.its
        return made

    def _of(self, node: Any) -> Any:
        """The quantised tensor that a float one is read from, perhaps through views of it."""
        if not isinstance(node, torch.fx.Node):
            return None
        if node.target is _DEQUANTISE:
            its = node.args[0]
            return its if "int8" in its.meta else self._unsigned(its)
        if node.target in kernels.EXACT:
            inner = self._of(node.args[0])
            return None if inner is None else self._moved(node, inner)
        return None

    def _unsigned(self, constant: Any) -> Any:
        """A constant, as kernels take tensors that are none of weights."""
        tensor = constant.meta.get("weight")
        if tensor is None or tensor.qscheme() != torch.per_tensor_affine:
            return None
        if tensor.dtype != torch.qint8:
            return None
        its = Int8(tensor.q_scale(), tensor.q_zero_point() + 128)
        numbers = tensor.int_repr().to(torch.int16) + 128
        made = self._hold(_tensor(numbers, its))
        made.meta["int8"] = its
        self.values[made] = numbers
        return made

    def _weight(self, node: Any) -> Tensor | None:
        if not isinstance(node, torch.fx.Node) or node.target is not _DEQUANTISE:
            return None
        found: Tensor | None = node.args[0].meta.get("weight")
        return found

    def _value(self, node: Any) -> Tensor | None:
        """A float tensor of the model's state."""
        weight = self._weight(node)
        return self.constants.get(node) if weight is None else weight.dequantize()

    def _moved(self, node: Any, quantised: Any) -> Any:
        """A view, or another selection, of a quantised tensor."""
        made = self._call(node.target, quantised, *node.args[1:], **node.kwargs)
        _like(made, node)
        made.meta["int8"] = quantised.meta["int8"]
        value = self.values.get(quantised)
        if value is not None:
            given = self._known([value.float(), *node.args[1:]])
            named = {name: self._known(one) for name, one in node.kwargs.items()}
            self.values[made] = node.target(*given, **named).to(torch.int16)
        return made

    def _within(self, made: Any, wanted: Int8, node: Any) -> Any:
        """A quantised tensor clamped to what a node's integers may be, as wanted."""
        its = made.meta["int8"]
        wanted = wanted.moved(its.zero - wanted.zero)
        if its.least >= wanted.least and its.most <= wanted.most:
            return made
        positive = wanted.least == wanted.zero
        fused = kernels.WITH_RELU.get(made.target)
        if positive and fused is not None and kernels.leads_to(made, node):
            # the largest number that is wanted becomes the largest integer
            wanted = wanted.moved(FULL - wanted.most)
            found = self._call(fused, *made.args[:-1], wanted.zero)
        elif positive and wanted.most == FULL:
            found = self._call(_ATEN.relu.default, made)
        else:
            limits = map(wanted.number, (wanted.least, wanted.most))
            found = self._call(_ATEN.clamp.default, made, *limits)
        _like(found, made)
        found.meta["int8"] = wanted
        return found

    # --- dynamic ---

    def dynamic(self, node: Any) -> None:
        """A linear layer whose input is quantised as it comes."""
        if node.target is not _ATEN.linear.default:
            return
        x, reduced = kernels.dynamic_input(node.args[0])
        weight = self._weight(node.args[1])
        bias = node.args[2] if len(node.args) > 2 else None
        held = None if bias is None else self._value(bias)
        if x is None or weight is None or (bias is not None and held is None):
            return
        with self.graph.inserting_before(node):
            packed = self._hold(_INT8.linear_prepack(weight, held))
            made = self._call(_INT8.linear_dynamic.default, x, packed, reduced)
        _like(made, node)
        node.replace_all_uses_with(made)

    # --- trials ---

    def _disagrees(self, made: Any, node: Any, its: Int8) -> str:
        """Why a kernel does not do for what the program computes, if it does not."""
        try:
            seen = made.target(*map(self._tried, made.args)).int_repr().to(torch.int16)
        except Exception as error:
            return f"its kernel refuses it: {str(error).strip().splitlines()[0]}"
        named = {name: self._floats(one) for name, one in node.kwargs.items()}
        expected = its.integers(node.target(*map(self._floats, node.args), **named))
        if seen.shape != expected.shape:
            return "its kernel gives other sizes"
        apart = int((seen - expected).abs().max()) if seen.numel() else 0
        return f"its kernel is {apart} steps apart" if apart > 1 else ""

    def _known(self, one: Any) -> Any:
        if isinstance(one, list | tuple):
            return [self._known(item) for item in one]
        return self.values[one] if isinstance(one, torch.fx.Node) else one

    def _tried(self, one: Any) -> Any:
        """An argument of a kernel, of the program's integers."""
        if isinstance(one, list | tuple):
            return [self._tried(item) for item in one]
        if not isinstance(one, torch.fx.Node):
            return one
        if "int8" in one.meta:
            return _tensor(self.values[one], one.meta["int8"])
        if one.op == "get_attr":
            return getattr(self.core.graph_module, one.target)
        return self.values[one]

    def _floats(self, one: Any) -> Any:
        """An argument of the program's operator, of the same integers."""
        if isinstance(one, list | tuple):
            return [self._floats(item) for item in one]
        if not isinstance(one, torch.fx.Node):
            return one
        value = self._value(one)
        if value is not None:
            return value
        if one.target is _DEQUANTISE:
            return self._tried(one.args[0]).dequantize()
        if one.target in kernels.EXACT:
            return one.target(*map(self._floats, one.args), **one.kwargs)
        return self.values[one]

    # --- what is told ---

    def told(self) -> list[str]:
        """The operators that compute in float between integers."""
        found: dict[str, None] = {}
        for node in self.graph.nodes:
            if not _between(node):
                continue
            place = place_of_stack(node.meta.get("stack_trace"))
            at = f"{place['file']}:{place['line']}: " if place else ""
            why = self.reasons.get(node) or kernels.reason(node)
            found[f"{at}{node.target._schema.name} stays in float: {why}"] = None
        return list(found)


def _between(node: Any) -> bool:
    """True if an operator computes in float on dequantised values."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    if node.target in (_QUANTISE, _DEQUANTISE) or node.target in kernels.EXACT:
        return False
    return any(one.target is _DEQUANTISE for one in node.all_input_nodes)


def _like(made: Any, node: Any) -> None:
    made.meta.update({k: v for k, v in node.meta.items() if k in ("val", "stack_trace")})


def _tensor(numbers: Tensor, its: Int8) -> Tensor:
    integers = numbers.to(torch.uint8).contiguous()
    return torch._make_per_tensor_quantized_tensor(integers, its.scale, its.zero)


def _shared(graph: Any) -> None:
    """One node for what is quantised twice alike."""
    seen: dict[Any, Any] = {}
    for node in list(graph.nodes):
        if _name(node).startswith(f"{_NAMESPACE}::quantize_per_tensor") and not node.kwargs:
            first = seen.setdefault((node.target, node.args), node)
            if first is not node:
                node.replace_all_uses_with(first)
                graph.erase_node(node)


# --- the program with values ---


def _constants(core: Any) -> dict[Any, Tensor]:
    """Return the placeholders of the model's state that nothing writes, with their tensors."""
    signature = core.graph_signature
    written = set(signature.buffers_to_mutate.values())
    held = {
        spec.arg.name: core.state_dict.get(spec.target, core.constants.get(spec.target))
        for spec in signature.input_specs
        if spec.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")
        and spec.target not in written
    }
    return {
        node: held[node.name].detach()
        for node in core.graph.nodes
        if node.op == "placeholder" and isinstance(held.get(node.name), Tensor)
    }


def _given(core: Any, constants: Mapping[Any, Tensor], leaves: Sequence[Any]) -> list[Any]:
    """Values of all placeholders."""
    signature = core.graph_signature
    targets = {
        spec.arg.name: spec.target
        for spec in signature.input_specs
        if spec.kind.name != "USER_INPUT"
    }
    left = iter(leaves)
    found = []
    for node in core.graph.nodes:
        if node.op != "placeholder":
            continue
        if node in constants:
            found.append(constants[node])
        elif node.name in targets:
            name = targets[node.name]
            found.append(core.state_dict.get(name, core.constants.get(name)))
        else:
            found.append(next(left))
    return found


class _Run(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs a program; keeps its integers and numbers. change: of what is quantised."""

    def __init__(self, module: Any, change: Callable[[Tensor, int, int], Tensor] | None = None):
        super().__init__(module)
        self.kept: dict[Any, Any] = {}
        self.change = change

    def run_node(self, n: Any) -> Any:
        made = super().run_node(n)
        quantises = _name(n).startswith(f"{_NAMESPACE}::quantize_per_")
        if quantises and self.change is not None and isinstance(n.args[-3], int):
            made = self.change(made, n.args[-3], n.args[-2])
        if quantises and isinstance(made, Tensor) and made.dtype in SHIFTS:
            self.kept[n] = made.to(torch.int16) + SHIFTS[made.dtype]
        elif isinstance(made, int | float | bool):
            self.kept[n] = made
        return made


def _slack(core: Any, given: Sequence[Any], results: Sequence[Any]) -> float:
    """Tolerance of the results: their change if some of all integers are a step off, relative to
    the largest number of each result."""
    generator = torch.Generator().manual_seed(5)
    largest = 0.0
    for sign in (1, -1):

        def change(made: Tensor, least: int, most: int, sign: int = sign) -> Tensor:
            chosen = torch.randint(0, _TRIED_IN, made.shape, generator=generator) == 0
            moved = made.to(torch.int32) + sign * chosen
            return moved.clamp(least, most).to(made.dtype)

        others = _Run(core.graph_module, change).run(*given)
        for one, other in zip(results, others, strict=True):
            if isinstance(one, Tensor) and one.is_floating_point() and one.numel():
                most = float(one.abs().max())
                if most:
                    largest = max(largest, float((one - other).abs().max()) / most)
    return _SLACK * largest
