"""The static conversion: torch's own TorchScript passes, and rewrites of ours.

A rewrite replaces a call by what PyTorch itself computes it by (aten/src/ATen/native of 1.13.1), so
that it gives the same values, whatever they are; `_RULES` has the exceptions beside each. All of
the rest is compared, not proven.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from orchestrator.export.changes import Change, is_constant, is_list, known, plain
from orchestrator.export.freezing import frozen, inlined, is_mark, unmark
from orchestrator.export.graphs import Graph, Node, Value, nodes, operator_of
from orchestrator.export.lowering import lower, operators_of
from orchestrator.export.lowering_table import LOWERINGS
from orchestrator.export.methods import methods_of
from orchestrator.export.refusal import Refused
from orchestrator.export.shapes import sized
from orchestrator.export.sharing import share_constants
from orchestrator.export.sized import apply_sized

# Conversion ends when no rule applies; each makes the graph simpler, so this is never reached.
_MOST_ROUNDS = 100


@dataclass(frozen=True)
class Rule:
    """A rewrite of calls of `operators`.

    becomes  the operators that take their place
    why      for people
    change   makes the rewrite, or returns False if it cannot
    fits     True if it can: see `pays`
    pays     "always"; "whole": if no call of `operators` is left in the model; "shared": if the
             model has `becomes` by now
    plain    not if a model has quantised tensors, which have kernels of their own
    """

    name: str
    operators: tuple[str, ...]
    becomes: tuple[str, ...]
    why: str
    change: Callable[[Change, list[Value]], bool]
    fits: Callable[[list[Value]], bool] = lambda inputs: True
    pays: str = "always"
    plain: bool = False


def _call(kind: str, *arguments: Any) -> Callable[[Change, list[Value]], bool]:
    """A call in place of another; an argument that is a function gets the old ones."""

    def change(at: Change, old: list[Value]) -> bool:
        given = [one(old) if callable(one) else one for one in arguments]
        at.replace(at.new(kind, *given, like=at.node.output()).output())
        return True

    return change


def _first_of(kind: str, outputs: int, *arguments: Any) -> Callable[[Change, list[Value]], bool]:
    """The same of a call whose first result it is."""

    def change(at: Change, old: list[Value]) -> bool:
        given = [one(old) if callable(one) else one for one in arguments]
        at.replace(at.new(kind, *given, outputs=outputs).outputsAt(0))
        return True

    return change


def _at(number: int) -> Callable[[list[Value]], Value]:
    return lambda inputs: inputs[number]


def _itself(at: Change, old: list[Value]) -> bool:
    at.replace(old[0])
    return True


def _is(number: int, *values: Any) -> Callable[[list[Value]], bool]:
    """Return a test: an argument is known, and equals one of these values in value and type."""

    def fits(old: list[Value]) -> bool:
        if not known(old[number]):
            return False
        value = plain(old[number])
        return any(type(value) is type(one) and value == one for one in values)

    return fits


def _whole_limits(*numbers: int) -> Callable[[list[Value]], bool]:
    """Limits that are whole numbers: such a clamp gives a tensor of integers back as one."""

    def fits(old: list[Value]) -> bool:
        return all(
            is_constant(old[n]) and (plain(old[n]) is None or float(plain(old[n])).is_integer())
            for n in numbers
        )

    return fits


def _limit(number: int) -> Callable[[list[Value]], Any]:
    """A whole limit as an integer."""

    def limit(old: list[Value]) -> Any:
        value = plain(old[number])
        return None if value is None else int(value)

    return limit


def _size_of(number: int, kind: str) -> Callable[[Change, list[Value]], bool]:
    def change(at: Change, old: list[Value]) -> bool:
        size = at.new("aten::size", old[number])
        size.output().setType(torch._C.ListType.ofInts())
        more = [False] if kind == "aten::expand" else []
        at.replace(at.new(kind, old[0], size.output(), *more).output())
        return True

    return change


def _power(at: Change, old: list[Value]) -> bool:
    base, exponent = old[0], plain(old[1]) if len(old) > 1 else 2
    if exponent in (0.5, -0.5):
        kind = "aten::sqrt" if exponent > 0 else "aten::rsqrt"
        at.replace(at.new(kind, base).output())
        return True
    result = base
    for _ in range(exponent - 1):
        result = at.new("aten::mul", result, base).output()
    at.replace(result)
    return True


def _pad(at: Change, old: list[Value]) -> bool:
    mode, pads = plain(old[2]), plain(old[1])
    if mode == "constant":
        value = plain(old[3]) if is_constant(old[3]) else old[3]
        new = at.new("aten::constant_pad_nd", old[0], old[1], 0 if value is None else value)
    else:
        kind = {"reflect": "reflection", "replicate": "replication"}[mode]
        new = at.new(f"aten::{kind}_pad{len(pads) // 2}d", old[0], old[1])
    at.replace(new.output())
    return True


def _pad_fits(old: list[Value]) -> bool:
    if not (is_constant(old[2]) and old[3].type().kind() != "OptionalType"):
        return False
    if plain(old[2]) == "constant":
        return True
    pads = known(old[1]) and len(plain(old[1])) in (2, 4)
    return pads and plain(old[2]) in ("reflect", "replicate")


def _sized(scales: int) -> Callable[[list[Value]], bool]:
    """Return a test: a call is given a size, and no scale factors."""
    return lambda old: _is(scales, None)(old) and old[1].type().kind() == "ListType"


def _stack(at: Change, old: list[Value]) -> bool:
    parts = [at.new("aten::unsqueeze", one, old[1]).output() for one in old[0].node().inputs()]
    items = at.new("prim::ListConstruct", *parts, like=old[0])
    at.replace(at.new("aten::cat", items.output(), old[1]).output())
    return True


def _stack_fits(old: list[Value]) -> bool:
    return is_list(old[0]) and is_constant(old[1])


def _correction(kind: str, everywhere: bool) -> Callable[[Change, list[Value]], bool]:
    def change(at: Change, old: list[Value]) -> bool:
        correction = int(plain(old[1 if everywhere else 2]))
        rest = [None, correction, False] if everywhere else [old[1], correction, old[3]]
        at.replace(at.new(kind, old[0], *rest).output())
        return True

    return change


def _size_at(at: Change, old: list[Value]) -> bool:
    size = at.new("aten::size", old[0].node().inputsAt(0), old[1], like=at.node.output())
    at.replace(size.output())
    return True


def _size_at_fits(old: list[Value]) -> bool:
    return sized(old[0]) is not None


def _split(at: Change, old: list[Value]) -> bool:
    size = -(-_rows_of(old[0]) // plain(old[1]))
    at.replace(at.new("aten::split", old[0], size, old[2], like=at.node.output()).output())
    return True


def _split_fits(old: list[Value]) -> bool:
    return is_constant(old[1]) and _is(2, -1)(old) and _rows_of(old[0]) > 0


def _rows_of(value: Value) -> int:
    """Length of the last dimension of a linear layer's result; 0 if unknown."""
    node = value.node()
    if node.kind() != "aten::linear" or not is_constant(node.inputsAt(1)):
        return 0
    return int(node.inputsAt(1).toIValue().shape[0])


def _minus_constant(at: Change, old: list[Value]) -> bool:
    at.replace(at.new("aten::add", old[0], -plain(old[1]), like=at.node.output()).output())
    return True


def _factor(at: Change, old: list[Value]) -> bool:
    at.replace(at.new("aten::mul", old[0], 1.0 / plain(old[1])).output())
    return True


def _power_of_two(old: list[Value]) -> bool:
    """True if the divisor is a power of two, whose inverse is exact."""
    if not is_constant(old[1]) or type(plain(old[1])) not in (int, float):
        return False
    number = float(plain(old[1]))
    return (
        math.isfinite(number)
        and number != 0
        and abs(math.frexp(number)[0]) == 0.5
        and (2**-10 <= abs(number) <= 2**10)
    )


def _minus(at: Change, old: list[Value]) -> bool:
    at.replace(at.new("aten::add", old[0], old[1], -plain(old[2])).output())
    return True


def _swapped(kind: str) -> Callable[[Change, list[Value]], bool]:
    return _call(kind, _at(1), _at(0))


_CLAMP = "clamp is what computes it"
_ALIAS = "another name for it"
_LEAF = "a function around it that adds nothing for a model"

_RULES: tuple[Rule, ...] = (
    # dropout, in a model that does not learn
    *(
        Rule(
            "dropout",
            (f"aten::{name}",),
            (),
            "does nothing outside of training",
            _itself,
            fits=_is(2, False),
        )
        for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
    ),
    Rule("detach", ("aten::detach",), (), "there are no gradients", _itself),
    # limits: a clamp with whole numbers, which keeps the dtype of integers
    Rule(
        "clamp",
        ("aten::relu6",),
        ("aten::clamp",),
        _CLAMP,
        _call("aten::clamp", _at(0), 0, 6),
        plain=True,
    ),
    Rule(
        "clamp",
        ("aten::hardtanh",),
        ("aten::clamp",),
        _CLAMP,
        _call("aten::clamp", _at(0), _limit(1), _limit(2)),
        fits=_whole_limits(1, 2),
        plain=True,
    ),
    Rule(
        "clamp",
        ("aten::relu",),
        ("aten::clamp",),
        _CLAMP,
        _call("aten::clamp", _at(0), 0, None),
        pays="shared",
        plain=True,
    ),
    Rule(
        "clamp",
        ("aten::clamp_min",),
        ("aten::clamp",),
        _CLAMP,
        _call("aten::clamp", _at(0), _at(1), None),
        pays="shared",
        plain=True,
    ),
    Rule(
        "clamp",
        ("aten::clamp_max",),
        ("aten::clamp",),
        _CLAMP,
        _call("aten::clamp", _at(0), None, _at(1)),
        pays="shared",
        plain=True,
    ),
    # composites to what they call
    Rule(
        "norms",
        ("aten::batch_norm",),
        ("aten::native_batch_norm",),
        _LEAF,
        _first_of("aten::native_batch_norm", 3, *map(_at, range(8))),
        # what follows a convolution is part of it where kernels of XNNPACK run
        fits=lambda old: _is(5, False)(old) and "conv" not in old[0].node().kind(),
    ),
    Rule(
        "norms",
        ("aten::layer_norm",),
        ("aten::native_layer_norm",),
        _LEAF,
        _first_of("aten::native_layer_norm", 3, *map(_at, range(5))),
    ),
    Rule(
        "softmax",
        ("aten::softmax.int",),
        ("aten::_softmax",),
        _LEAF,
        _call("aten::_softmax", _at(0), _at(1), False),
        fits=_is(2, None),
    ),
    Rule(
        "softmax",
        ("aten::log_softmax.int",),
        ("aten::_log_softmax",),
        _LEAF,
        _call("aten::_log_softmax", _at(0), _at(1), False),
        fits=_is(2, None),
    ),
    Rule(
        "pooling",
        ("aten::max_pool2d",),
        ("aten::max_pool2d_with_indices",),
        _LEAF,
        _first_of("aten::max_pool2d_with_indices", 2, *map(_at, range(6))),
        plain=True,
    ),
    Rule(
        "pooling",
        ("aten::max_pool1d",),
        ("aten::max_pool1d_with_indices",),
        _LEAF,
        _first_of("aten::max_pool1d_with_indices", 2, *map(_at, range(6))),
        pays="shared",
    ),
    Rule(
        "pooling",
        ("aten::adaptive_avg_pool2d",),
        ("aten::mean.dim",),
        "to one value it is a mean",
        _call("aten::mean", _at(0), [-1, -2], True, None),
        fits=_is(1, [1, 1]),
        plain=True,
    ),
    Rule(
        "padding",
        ("aten::pad",),
        ("aten::constant_pad_nd",),
        "the mode is known, so the others need not be there",
        _pad,
        fits=_pad_fits,
    ),
    Rule(
        "convolution",
        ("aten::_convolution", "aten::_convolution.deprecated"),
        ("aten::convolution",),
        _LEAF,
        _call("aten::convolution", *map(_at, range(9))),
        fits=_is(6, False),
    ),
    *(
        Rule(
            "resize",
            (f"aten::upsample_{kind}.vec",),
            (f"aten::upsample_{kind}",),
            _LEAF,
            _call(f"aten::upsample_{kind}", *map(_at, range(scales)), *[None] * dims),
            fits=_sized(scales),
        )
        for kind, scales, dims in (
            ("nearest1d", 2, 1),
            ("nearest2d", 2, 2),
            ("nearest3d", 2, 3),
            ("linear1d", 3, 1),
            ("bilinear2d", 3, 2),
            ("bicubic2d", 3, 2),
            ("trilinear3d", 3, 3),
        )
    ),
    Rule(
        "stack",
        ("aten::stack",),
        ("aten::unsqueeze", "aten::cat"),
        "cat of parts with one more dimension",
        _stack,
        fits=_stack_fits,
    ),
    # of a tensor of bools a power is one of integers, and a product is not
    Rule("powers", ("aten::square",), ("aten::mul.Tensor",), "a product", _power),
    Rule(
        "powers",
        ("aten::pow.Tensor_Scalar",),
        ("aten::mul.Tensor", "aten::sqrt", "aten::rsqrt"),
        "a product, or a root",
        _power,
        fits=_is(1, 2, 3, 0.5, -0.5),
    ),
    Rule(
        "variance",
        ("aten::var",),
        ("aten::var.correction",),
        _LEAF,
        _correction("aten::var", True),
        fits=_is(1, False, True),
    ),
    Rule(
        "variance",
        ("aten::var.dim",),
        ("aten::var.correction",),
        _LEAF,
        _correction("aten::var", False),
        fits=_is(2, False, True),
    ),
    Rule(
        "variance",
        ("aten::std",),
        ("aten::std.correction",),
        _LEAF,
        _correction("aten::std", True),
        fits=_is(1, False, True),
    ),
    Rule(
        "variance",
        ("aten::std.dim",),
        ("aten::std.correction",),
        _LEAF,
        _correction("aten::std", False),
        fits=_is(2, False, True),
    ),
    Rule(
        "reductions",
        ("aten::mean",),
        ("aten::mean.dim",),
        _LEAF,
        _call("aten::mean", _at(0), [], False, _at(1)),
    ),
    Rule(
        "reductions",
        ("aten::sum",),
        ("aten::sum.dim_IntList",),
        _LEAF,
        _call("aten::sum", _at(0), [], False, _at(1)),
    ),
    # names
    Rule(
        "names",
        ("aten::max.other",),
        ("aten::maximum",),
        _ALIAS,
        _call("aten::maximum", _at(0), _at(1)),
    ),
    Rule(
        "names",
        ("aten::min.other",),
        ("aten::minimum",),
        _ALIAS,
        _call("aten::minimum", _at(0), _at(1)),
    ),
    *(
        Rule("names", (f"aten::{old}",), (f"aten::{new}",), _ALIAS, _call(kind, _at(0), _at(1)))
        for old, new, kind in (
            ("__and__.Tensor", "bitwise_and.Tensor", "aten::bitwise_and"),
            ("__or__.Tensor", "bitwise_or.Tensor", "aten::bitwise_or"),
            ("__xor__.Tensor", "bitwise_xor.Tensor", "aten::bitwise_xor"),
            ("greater.Tensor", "gt.Tensor", "aten::gt"),
            ("concat", "cat", "aten::cat"),
            ("concatenate", "cat", "aten::cat"),
            ("true_divide.Tensor", "div.Tensor", "aten::div"),
            ("multiply.Tensor", "mul.Tensor", "aten::mul"),
            ("divide.Tensor", "div.Tensor", "aten::div"),
        )
    ),
    *(
        Rule(
            "names",
            (f"aten::{name}",),
            ("aten::transpose.int",),
            _ALIAS,
            _call("aten::transpose", _at(0), _at(1), _at(2)),
        )
        for name in ("swapaxes", "swapdims")
    ),
    Rule(
        "sizes", ("aten::view_as",), ("aten::view", "aten::size"), _LEAF, _size_of(1, "aten::view")
    ),
    Rule(
        "sizes",
        ("aten::reshape_as",),
        ("aten::reshape", "aten::size"),
        _LEAF,
        _size_of(1, "aten::reshape"),
    ),
    Rule(
        "sizes",
        ("aten::expand_as",),
        ("aten::expand", "aten::size"),
        _LEAF,
        _size_of(1, "aten::expand"),
    ),
    # a view that is there is what reshape gives
    Rule(
        "sizes",
        ("aten::view",),
        ("aten::reshape",),
        "reshape gives a view where there is one",
        _call("aten::reshape", _at(0), _at(1)),
        pays="shared",
    ),
    *(
        Rule(
            "differences",
            (f"aten::sub.{kind}",),
            (f"aten::add.{kind}",),
            "a sum with a negative factor",
            _minus,
            fits=lambda old: is_constant(old[2]),
            plain=True,
        )
        for kind in ("Tensor", "Scalar")
    ),
    Rule(
        "differences",
        ("aten::sub.int",),
        ("aten::add.int",),
        "a sum with its negative",
        _minus_constant,
        fits=lambda old: is_constant(old[1]),
    ),
    Rule(
        "factors",
        ("aten::neg",),
        ("aten::mul.Scalar",),
        "a product with -1",
        _call("aten::mul", _at(0), -1),
        plain=True,
    ),
    Rule(
        "factors",
        ("aten::div.Scalar",),
        ("aten::mul.Scalar",),
        "a product with the inverse of a power of two, which is exact",
        _factor,
        fits=_power_of_two,
        plain=True,
    ),
    Rule(
        "parts",
        ("aten::chunk",),
        ("aten::split.Tensor",),
        "the layer before says how long the parts are",
        _split,
        fits=_split_fits,
        pays="whole",
    ),
    Rule(
        "sizes",
        ("aten::__getitem__.t",),
        ("aten::size.int",),
        "one size of a tensor",
        _size_at,
        fits=_size_at_fits,
    ),
    *(
        Rule(
            "comparisons",
            (f"aten::{less}.{kind}",),
            (f"aten::{more}.{kind}",),
            "the same, from the other side",
            _swapped(f"aten::{more}"),
        )
        for less, more in (("lt", "gt"), ("le", "ge"))
        for kind in ("Tensor", "int", "float")
    ),
    Rule(
        "fills",
        ("aten::zeros_like",),
        ("aten::full_like",),
        "a fill with 0",
        _call("aten::full_like", _at(0), 0, *map(_at, range(1, 6))),
    ),
    Rule(
        "fills",
        ("aten::ones_like",),
        ("aten::full_like",),
        "a fill with 1",
        _call("aten::full_like", _at(0), 1, *map(_at, range(1, 6))),
        pays="shared",
    ),
    Rule(
        "fills",
        ("aten::arange.start",),
        ("aten::arange",),
        "it begins at 0",
        _call("aten::arange", *map(_at, range(1, 6))),
        fits=_is(0, 0),
    ),
)


# --- the conversion ---

# In-place operators whose other form 1.13.1 does not have, or that draw random numbers, or whose
# tensor is there to be written to.
_KEPT_IN_PLACE = re.compile(
    r"aten::(copy|set|resize|resize_as|uniform|normal|random|bernoulli|exponential|geometric"
    r"|log_normal|cauchy|fill|zero|rrelu|dropout|feature_dropout|alpha_dropout|requires_grad)_"
)


@dataclass
class Applied:
    """The rewrites that were applied: (name, from, to, why) -> calls."""

    calls: dict[tuple[str, str, tuple[str, ...], str], int] = field(default_factory=dict)

    def note(self, name: str, old: str, new: tuple[str, ...], why: str, calls: int = 1) -> None:
        key = (name, old, new, why)
        self.calls[key] = self.calls.get(key, 0) + calls

    def has(self, operator: str) -> bool:
        """True if calls of an operator were rewritten."""
        return any(old == operator for _, old, _, _ in self.calls)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "from": old, "to": list(new), "calls": calls, "why": why}
            for (name, old, new, why), calls in sorted(self.calls.items())
        ]


# Replaces a method's graph by one without control flow: `traced.Tracing.replace`.
Replace = Callable[[str, Graph, frozenset[str], Applied], None]


def convert(
    loaded: Any,
    pytorch: str | None,
    without: frozenset[str],
    fold: bool,
    applied: Applied,
    replace: Replace | None = None,
) -> Any:
    """The frozen module of a TorchScript one that nobody else uses, rewritten.

    pytorch  the version of the runtime, for which operators are lowered; None: none is
    replace  traces a method's graph; None: it stays as it is
    """
    module = loaded.eval()
    methods = methods_of(module)
    if not methods:
        raise Refused("nothing", "the model has no method of its own")
    before = _calls(inlined(module, methods))
    made = frozen(module, methods, fold)
    graphs = inlined(made, methods)
    left = _calls(graphs)
    for operator, calls in before.items():
        if calls > left.get(operator, 0):
            why = "folded into constants, or not reached in a model that does not learn"
            applied.note("freeze", operator, (), why, calls - left.get(operator, 0))
    _lower(graphs, pytorch, applied)
    if replace is not None:
        for graph in graphs:
            unmark(graph)
        _trace(dict(zip(methods, graphs, strict=True)), replace, without, applied)
        _lower(graphs, pytorch, applied)
    if "mutation" not in without:
        for graph in graphs:
            _remove_mutation(graph, applied)
    _rewrite(graphs, without, applied)
    for graph in graphs:
        _tidy(graph)
        unmark(graph)
        torch._C._jit_pass_dce(graph)
        torch._C._jit_pass_lint(graph)
    share_constants(graphs)
    return made


def _trace(
    graphs: Mapping[str, Graph], replace: Replace, without: frozenset[str], applied: Applied
) -> None:
    before = _calls(list(graphs.values()))
    for method, graph in graphs.items():
        replace(method, graph, without, applied)
    after = _calls(list(graphs.values()))
    for operator, calls in before.items():
        if operator not in after and not applied.has(operator):
            plain = operator.replace("_.", ".") if "_." in operator else operator.removesuffix("_")
            new = (plain,) if plain != operator and plain in after else ()
            applied.note("trace", operator, new, "running it once told what it does", calls)


def _lower(graphs: Sequence[Graph], pytorch: str | None, applied: Applied) -> None:
    lowered = list(lower(graphs, pytorch))
    for graph in graphs if lowered else ():
        _tidy(graph)
    # without the branches that a constant argument decides
    present = _calls(graphs)
    for operator in lowered:
        new = tuple(one for one in operators_of(operator) if one in present)
        applied.note("lowering", operator, new, LOWERINGS[operator].why)


@dataclass(frozen=True)
class Attempt:
    """A conversion: the file, or what it holds; what was applied, what each call gave, the first
    that is wrong."""

    made: Any
    applied: Applied
    rows: list[dict[str, Any]]
    wrong: dict[str, Any] | None


# What a conversion is, and no rewrite of it.
_NOT_LEFT_OUT = {"freeze", "lowering", "trace"}


def settled(
    attempt: Callable[[frozenset[str], bool], Attempt], without: frozenset[str]
) -> tuple[Attempt, bool]:
    """The attempt that computes the same, and whether it is folded.

    attempt  makes one, without these rewrites, with folded weights or not
    Raises Refused, with the rewrites without which it would be right.
    """
    best, folded = attempt(without, True), True
    if best.wrong is not None:
        # without what is not exact: batch norms and factors in the weights of convolutions
        again = attempt(without, False)
        folded = again.wrong is not None
        if not folded:
            best = again
    if best.wrong is not None:
        names = sorted({row["name"] for row in best.applied.rows()} - _NOT_LEFT_OUT)
        guilty = [name for name in names if attempt(without | {name}, True).wrong is None]
        raise Refused("differs", best.wrong["difference"], **best.wrong, rewrites=guilty)
    return best, folded


def _calls(graphs: Sequence[Graph]) -> dict[str, int]:
    """Operator -> calls."""
    found: dict[str, int] = {}
    for graph in graphs:
        for node in nodes(graph):
            if node.kind().startswith("aten::") and not is_mark(node):
                found[operator_of(node)] = found.get(operator_of(node), 0) + 1
    return found


def _tidy(graph: Graph) -> None:
    torch._C._jit_pass_peephole(graph)
    torch._C._jit_pass_peephole_list_idioms(graph)
    torch._C._jit_pass_constant_propagation_immutable_types(graph)
    torch._C._jit_pass_cse(graph)
    torch._C._jit_pass_dce(graph)
    torch._C._jit_pass_constant_pooling(graph)


def _remove_mutation(graph: Graph, applied: Applied) -> None:
    """Not by torch's pass: it gives way to more operators than it removes where tensors are filled,
    and takes all for a tensor of the same dtype."""
    while True:
        found = _unseen_write(graph)
        if found is None:
            return
        old, new = found
        applied.note("mutation", old, (new,), "nothing else sees the tensor that it writes to")


def _in_place(operator: str) -> bool:
    name = operator.partition(".")[0]
    return name.endswith("_") and not name.endswith("__")


def _unseen_write(graph: Graph) -> tuple[str, str] | None:
    """Replaces one call in place that nothing else sees: what it was, and is."""
    blocks = _Blocks(graph)
    aliases = graph.alias_db()
    for node in nodes(graph):
        kind = node.kind()
        if not _in_place(kind) or _KEPT_IN_PLACE.fullmatch(kind) or node.outputsSize() != 1:
            continue
        if not blocks.is_private(node, aliases):
            continue
        new = graph.create(kind[:-1], list(node.inputs()), 1)
        new.insertBefore(node)
        new.copyMetadata(node)
        new.output().setType(node.inputsAt(0).type())
        if new.schema() == "(no schema)":
            new.destroy()
            continue
        old = operator_of(node)
        node.output().replaceAllUsesWith(new.output())
        node.inputsAt(0).replaceAllUsesAfterNodeWith(node, new.output())
        node.destroy()
        return old, operator_of(new)
    return None


class _Blocks:
    """The values of a graph, and the way of blocks that leads to each."""

    def __init__(self, graph: Graph) -> None:
        self.values: list[Value] = []
        self.ways: dict[int, tuple[int, ...]] = {}
        self.inputs = {value.unique() for value in graph.inputs()}
        self._count = 0
        self._add(graph, (0,))

    def _add(self, block: Any, way: tuple[int, ...]) -> None:
        self._note(block.inputs(), way)
        for node in block.nodes():
            self._note(node.outputs(), way)
            for inner in node.blocks():
                self._count += 1
                self._add(inner, (*way, self._count))

    def _note(self, found: Any, way: tuple[int, ...]) -> None:
        for value in found:
            self.ways[value.unique()] = way
            self.values.append(value)

    def is_private(self, node: Node, aliases: Any) -> bool:
        """True if no other value that may share or contain the written memory is read afterwards.

        The next round of a loop reads the written value by the block's own inputs, which get the
        new value; a value from outside of the block is taken for read.
        """
        written, result = node.inputsAt(0), node.output()
        way = self.ways[written.unique()]
        if self.ways[result.unique()] != way or self._is_outside(written):
            return False
        own = (written.unique(), result.unique())
        return not any(
            self._is_seen(value, node, way)
            for value in self.values
            if value.unique() not in own and aliases.may_contain_alias(written, value)
        )

    def _is_outside(self, value: Value) -> bool:
        kind = value.node().kind()
        return kind in ("prim::Param", "prim::Constant", "prim::GetAttr")

    def _is_seen(self, value: Value, node: Node, way: tuple[int, ...]) -> bool:
        kind = value.node().kind()
        if value.unique() in self.inputs or kind in ("prim::Constant", "prim::GetAttr"):
            return True
        if self._encloses(value.node(), way):
            return False
        if self.ways[value.unique()][: len(way)] != way:
            return True
        later = kind != "prim::Param" and value.node().isAfter(node)
        return not later and any(use.user.isAfter(node) for use in value.uses())

    def _encloses(self, node: Node, way: tuple[int, ...]) -> bool:
        """True if one of a node's blocks encloses the written value, which `way` leads to: the
        node's results come after all of the block."""
        if node.kind() not in ("prim::If", "prim::Loop"):
            return False
        return any(
            self.ways[value.unique()][-1] in way
            for block in node.blocks()
            for value in (*block.inputs(), *(o for n in block.nodes() for o in n.outputs()))
        )


def _rewrite(graphs: Sequence[Graph], without: frozenset[str], applied: Applied) -> None:
    rules = [rule for rule in _RULES if rule.name not in without]
    for _ in range(_MOST_ROUNDS):
        for graph in graphs:
            _tidy(graph)
        present = _calls(graphs)
        quantised = any("quant" in _kind_text(node) for g in graphs for node in nodes(g))
        changed = apply_sized(graphs, without, present, quantised, applied.note)
        if changed:
            for graph in graphs:
                _tidy(graph)
            present = _calls(graphs)
        named = set(present)
        for rule in rules:
            # to look for its calls in all graphs takes most of the time
            if (rule.plain and quantised) or named.isdisjoint(rule.operators):
                continue
            if _apply(rule, graphs, present, applied):
                changed = True
                named.update(rule.becomes)
        if not changed:
            return
    raise AssertionError("the rules have no end")


def _kind_text(node: Node) -> str:
    classes = [one.type().str() for one in node.inputs()]
    return " ".join((node.kind(), *(one for one in classes if "classes" in one)))


def _apply(
    rule: Rule, graphs: Sequence[Graph], present: Mapping[str, int], applied: Applied
) -> bool:
    calls = [
        (graph, node)
        for graph in graphs
        for node in nodes(graph)
        if node.kind().startswith("aten::") and operator_of(node) in rule.operators
    ]
    fitting = [(graph, node) for graph, node in calls if rule.fits(list(node.inputs()))]
    there = any(operator in present for operator in rule.becomes)
    if rule.pays == "whole" and len(fitting) < len(calls) and not there:
        return False
    if rule.pays == "shared" and not there:
        return False
    for graph, node in fitting:
        old = operator_of(node)
        rule.change(Change(graph, node), list(node.inputs()))
        applied.note(rule.name, old, rule.becomes, rule.why)
    return bool(fitting)
