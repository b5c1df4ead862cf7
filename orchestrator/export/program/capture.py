"""Methods of a module as programs of torch.export.

All sizes stay open unless they are asked to be fixed, or the module's own source fixes them.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._decomp import decomposition_table
from torch._export.utils import _get_decomp_for_cia
from torch.export import Dim
from torch.utils import _pytree as pytree

from orchestrator.export.places import place_in, place_of_error, place_of_function, place_of_stack
from orchestrator.export.program import trees
from orchestrator.export.program.checks import environment, user_values
from orchestrator.export.program.copies import copied_module, distinct
from orchestrator.export.program.emission import name_of
from orchestrator.export.program.held import written_to_buffers
from orchestrator.export.program.int8 import Integers, in_int8
from orchestrator.export.program.module import Program, leaf_names
from orchestrator.export.program.nested import register
from orchestrator.export.program.patience import patience
from orchestrator.export.program.rewritten import functional_by_rewriting, join_batch_norms
from orchestrator.export.program.sizes import At, Kept, Plan, Wanted, enlarged, planned
from orchestrator.export.program.whole import Steps, whole_layers
from orchestrator.export.refusal import Refused
from orchestrator.export.values import copied

# What the exporter raises where a way depends on a value.
_ON_VALUES = ("GuardOnDataDependentSymNode", "data-dependent", "Could not guard on")
_UNKNOWN_CLASS = "which is not a known type"
_MOST_ROUNDS = 4
# A transformer takes 2 to 30.
_MOST_SECONDS = 150


@dataclass(frozen=True)
class Example:
    """A call of a method, as Python makes it."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Captured:
    """program, why sizes are fixed that nobody asked to be, (argument, dimension) -> why; and what
    became of its integers."""

    program: Program
    why: Mapping[tuple[str, int], str]
    integers: Integers


def _method(module: torch.nn.Module, method: str) -> torch.nn.Module:
    """A module whose `forward` is another method of this one, with the same arguments."""
    made = torch.nn.Module()
    made.module = module
    bound = getattr(module, method)

    @functools.wraps(bound)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return bound(*args, **kwargs)

    made.forward = forward
    return made.eval()


def _with_named_arguments(module: torch.nn.Module, example: Example) -> torch.nn.Module:
    """The module, without `**kwargs` where the example has such arguments: torch.export flattens
    those both by their own names and under that one."""
    signature = inspect.signature(module.forward)
    known = {
        name: one
        for name, one in signature.parameters.items()
        if one.kind is not inspect.Parameter.VAR_KEYWORD
    }
    more = [name for name in example.kwargs if name not in known]
    if len(known) == len(signature.parameters) or not more:
        return module
    bound = module.forward

    @functools.wraps(bound)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return bound(*args, **kwargs)

    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in more]
    forward.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*known.values(), *named]
    )
    module.forward = forward
    return module


def argument_names(function: Any, example: Example) -> list[str]:
    """Return the names of a call's arguments, in order."""
    given = []
    parameters = list(inspect.signature(function).parameters.values())
    for number in range(len(example.args)):
        one = parameters[min(number, len(parameters) - 1)] if parameters else None
        if one is None or one.kind is inspect.Parameter.VAR_POSITIONAL:
            given.append(f"{one.name if one else 'args'}_{number}")
        else:
            given.append(one.name)
    return [*given, *example.kwargs]


def capture(
    module: torch.nn.Module,
    method: str,
    example: Example,
    asked: Sequence[Wanted],
    kept: Kept,
) -> Captured:
    """Raises Refused, with the line of the source that cannot be exported."""

    def make() -> Any:
        # the exporter leaves its own tensors in attributes that a call sets
        its = copied_module(module)
        made = its if method == "forward" else _method(its, method)
        return _with_named_arguments(made, example)

    try:
        if kept.sizes == "fixed":
            return _captured(make, example, asked, kept)
        with patience(_MOST_SECONDS, "torch.export with sizes that stay open"):
            return _captured(make, example, asked, kept)
    except Refused as error:
        if error.kind in ("export", "program") and not error.facts.get("file"):
            error.facts |= place_of_function(getattr(module, method))
        raise


def _captured(
    make: Callable[[], Any], example: Example, asked: Sequence[Wanted], kept: Kept
) -> Captured:
    its = make()
    names = argument_names(its.forward, example)
    register((example.args, dict(example.kwargs)))
    leaves, spec = pytree.tree_flatten((example.args, dict(example.kwargs)))
    leaves = distinct(leaves)
    paths = _paths(spec, names, leaves)
    plan = planned(leaves, paths, asked, kept.sizes)

    def runs(other: Sequence[Any]) -> bool:
        args, kwargs = pytree.tree_unflatten(copied(list(other)), spec)
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                make()(*args, **kwargs)
        except Exception:
            return False
        return True

    without: frozenset[At] = frozenset()
    before: frozenset[At] = frozenset()
    for attempt in range(_MOST_ROUNDS):
        larger, grown = enlarged(leaves, plan, runs, without, attempt)
        own = make()
        exported = _exported(own, pytree.tree_unflatten(larger, spec), spec, larger, plan)
        core = functional(exported, own, kept.decomposed)
        program = Program(exported, core, names, {}, kept.guards)
        missed = _missed(program, leaves, grown)
        if not missed:
            integers = in_int8(program.core, larger)
            return Captured(program, _why(exported, leaf_names(program), leaves), integers)
        # by chance, or whatever the size
        without, before = without | (missed & before), before | missed
        if attempt == _MOST_ROUNDS - 2:
            without |= before
    raise Refused("export", "no example was found whose sizes stay open")


def _paths(spec: Any, names: Sequence[str], leaves: Sequence[Any]) -> list[str]:
    kinds = [
        "Tensor" if isinstance(one, torch.Tensor) else trees.kind_of(one) or "?" for one in leaves
    ]
    tree = trees.tree_of(spec, kinds)
    assert isinstance(tree, trees.Branch)
    items = [one for part in tree.items if isinstance(part, trees.Branch) for one in part.items]
    found = [
        one for name, item in zip(names, items, strict=True) for one in trees.paths(item, name)
    ]
    return [name for name, _ in sorted(found, key=lambda one: one[1].number)]


def _exported(its: Any, call: Any, spec: Any, leaves: Sequence[Any], plan: Plan) -> Any:
    args, kwargs = call
    dims = _nested(spec, iter([_dims(n, leaf, plan) for n, leaf in enumerate(leaves)]))
    try:
        with warnings.catch_warnings(), torch.no_grad(), whole_layers(), Steps():
            warnings.simplefilter("ignore")
            return torch.export.export(
                its, args, kwargs, dynamic_shapes=_by_name(its, args, dims), strict=False
            )
    except Exception as error:
        if _UNKNOWN_CLASS in str(error) and _register_result(its, args, kwargs):
            return _exported(its, call, spec, leaves, plan)
        raise _refused(error) from error


def _register_result(its: Any, args: Any, kwargs: Any) -> bool:
    """Make torch know the classes of what a module gives; whether there were any."""

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return register(copied_module(its)(*copied(list(args)), **copied(dict(kwargs))))


def _by_name(its: Any, args: Sequence[Any], dims: Any) -> Any:
    """The dimensions as torch.export wants them: by the names of the arguments."""
    positional, named = dims
    parameters = list(inspect.signature(its.forward).parameters.values())
    found: dict[str, Any] = {}
    for number, one in enumerate(positional):
        parameter = parameters[min(number, len(parameters) - 1)]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            found[parameter.name] = (*found.get(parameter.name, ()), one)
        else:
            found[parameter.name] = one
    found |= named
    return found


def _nested(spec: Any, left: Iterator[Any]) -> Any:
    """Values as torch.export wants the dimensions of nested arguments: those of a class that Python
    does not have as a list."""
    if trees.is_leaf(spec):
        return next(left)
    items = [_nested(one, left) for one in trees.children(spec)]
    if spec.type in pytree.BUILTIN_TYPES:
        return pytree.SUPPORTED_NODES[spec.type].unflatten_fn(items, spec.context)
    return items


def _dims(number: int, leaf: Any, plan: Plan) -> Any:
    if isinstance(leaf, int) and not isinstance(leaf, bool):
        return Dim.AUTO
    if not isinstance(leaf, torch.Tensor):
        return None
    made = {}
    for dim in range(leaf.dim()):
        if (number, dim) not in plan.open:
            made[dim] = Dim.STATIC
            continue
        least, most = plan.open[number, dim]
        limits = {k: v for k, v in (("min", least), ("max", most)) if v is not None}
        made[dim] = Dim.AUTO(**limits) if limits else Dim.AUTO
    return made


def functional(
    exported: Any, its: torch.nn.Module, decomposed: Collection[str] = frozenset()
) -> Any:
    """A program that changes nothing but at its end, in operators that are one kernel each.

    decomposed: operators that it is to have in others. Raises Refused where torch has none.
    """
    written_to_buffers(exported, its)
    table: dict[Any, Any] = {}
    core = None if decomposed else functional_by_rewriting(exported)
    if core is not None:
        return core
    core = _decomposed(exported, table)
    for _ in range(_MOST_ROUNDS):
        calls = {node.target: node for node in _calls(core) if name_of(node.target) in decomposed}
        if not calls:
            break
        table |= {its: _rule(its, node) for its, node in calls.items()}
        core = _decomposed(exported, dict(table))
    if "aten::batch_norm" not in decomposed:
        join_batch_norms(core.graph)
    return core


def _calls(program: Any) -> Iterator[Any]:
    """The nodes that call operators, in all graphs."""
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if isinstance(node.target, torch._ops.OpOverload):
                yield node


def _rule(operator: Any, node: Any) -> Any:
    """Return the decomposition of an operator. Raises Refused if it has none."""
    if operator in decomposition_table:
        return decomposition_table[operator]
    if operator._can_decompose():
        return _get_decomp_for_cia(operator)
    why = f"{name_of(operator)}: the app's PyTorch lacks it, and torch writes it in no others"
    raise Refused("program", why, **place_of_stack(node.meta.get("stack_trace")))


def _decomposed(exported: Any, table: dict[Any, Any]) -> Any:
    with warnings.catch_warnings(), torch.no_grad(), whole_layers():
        warnings.simplefilter("ignore")
        try:
            return exported.run_decompositions(table)
        except Exception as error:
            raise _refused(error) from error


def _refused(error: Exception) -> Refused:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    reason = lines[0] if lines else type(error).__name__
    place = place_of_error(error) or place_in(str(error))
    text = f"{type(error).__name__} {error}"
    on_value = any(word in text for word in _ON_VALUES)
    return Refused("export", reason, values=on_value, **place)


def _missed(program: Program, leaves: Sequence[Any], grown: frozenset[At]) -> frozenset[At]:
    """The dimensions that were made larger, and became constants that the example has not."""
    values = user_values(program.exported)
    return frozenset(
        (number, dim) for number, dim in grown if _constant(values[number].shape[dim]) is not None
    )


def _constant(size: Any) -> int | None:
    if isinstance(size, torch.SymInt):
        expression = size.node.shape_env.simplify(size.node.expr)
        return int(expression) if isinstance(expression, sympy.Integer) else None
    return int(size)


def _why(exported: Any, names: Sequence[str], leaves: Sequence[Any]) -> dict[tuple[str, int], str]:
    values = user_values(exported)
    env = environment(values)
    found: dict[tuple[str, int], str] = {}
    for name, value, leaf in zip(names, values, leaves, strict=True):
        if not isinstance(value, torch.Tensor):
            continue
        for dim, size in enumerate(value.shape):
            if _constant(size) is None:
                continue
            found[name, dim] = "" if leaf.shape[dim] > 1 else f"the example has {leaf.shape[dim]}"
    for guard in () if env is None else env.guards:
        if isinstance(guard.expr, sympy.Eq) and any(
            isinstance(a, sympy.Integer) for a in guard.expr.args
        ):
            for symbol in guard.expr.free_symbols:
                for source in env.var_to_sources.get(symbol, ()):
                    at = _at(source, names)
                    if at in found and not found[at]:
                        place = getattr(guard.sloc, "framework_loc", None)
                        if place is not None:
                            found[at] = f"{place.filename}:{place.lineno}"
    return found


def _at(source: Any, names: Sequence[str]) -> tuple[str, int]:
    """The argument and dimension that a symbol's source names: L['x'].size()[1]."""
    text = source.name if isinstance(source.name, str) else source.name()
    path, _, rest = text.partition(".size()[")
    name = path.removeprefix("L['").replace("']['", ".").replace("']", "").replace("['", ".")
    return name, int(rest.rstrip("]") or 0) if rest.rstrip("]").isdigit() else -1
