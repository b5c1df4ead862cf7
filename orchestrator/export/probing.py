"""Asks a model what a trace took for granted: inputs that break a guard, which it may take.

A guard that the model's own source asks for (a branch, the rounds of a loop) decides what the trace
has. If the model takes inputs that break it, the trace is of some sizes alone, and refused. What an
operator asks for it asks again when it runs; such inputs are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch

from orchestrator.export.calls import Call, Invoke, run
from orchestrator.export.refusal import Refused
from orchestrator.export.tracing import Guard, Trace, packed, tensors_in
from orchestrator.export.values import shapes

# Sizes that are tried where a guard is to be broken; and elements of all inputs, at most.
_TRIED = (*range(1, 10), *(12, 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 100, 128, 129, 192, 256))
_LARGE = (257, 384, 512, 513, 768, 1024, 1025, 2048, 2049, 4097)
_MOST_ELEMENTS = 2**23
# The kind of calls that break a guard.
EXCLUDED = "sizes that the trace excludes"
# How many inputs that break it are tried of each guard and each symbol in it.
_EACH = 3

Sizes = Mapping[Any, int]


def largest_taken(call: Call, tried: Sequence[Call], invoke: Invoke) -> Call:
    """The call whose inputs to trace: none of a single row, where the model takes more.

    tried  others of the same call that are larger
    """
    base = call
    for one in tried:
        tensors = zip(tensors_in(one.args), tensors_in(base.args), strict=True)
        sizes = [tuple(map(max, zip(a.shape, b.shape, strict=True))) for a, b in tensors]
        grown = _resized(base, [dict(enumerate(size)) for size in sizes], "traced")
        if not run(invoke, grown).error:
            base = grown
    return base


def probes(trace: Trace, base: Call, others: Sequence[Call], invoke: Invoke) -> Iterator[Call]:
    """Calls that the model takes and that break a guard of an operator.

    base    the call that was traced
    others  further calls of the method that the model takes
    Raises Refused where a call that it takes breaks one that is the model's own.
    """
    tensors = tensors_in(base.args)
    sizes = {symbol: tensors[n].shape[dim] for symbol, (n, dim) in trace.symbols.items()}
    for call in others:
        its = tensors_in(call.args)
        if [one.dim() for one in its] != [one.dim() for one in tensors]:
            continue
        here = {symbol: its[n].shape[dim] for symbol, (n, dim) in trace.symbols.items()}
        broken = next((g for g in trace.guards if g.by_model and not _holds(g, here)), None)
        if broken is not None:
            raise _specialised(broken, call)
    tied = _tied(trace.guards)
    done = {tuple(sizes.items())}
    for guard in trace.guards:
        for broken_by in _breaking(guard, sizes, tied):
            key = tuple(broken_by.items())
            if key in done and not guard.by_model:
                continue
            done.add(key)
            wanted: list[dict[int, int]] = [{} for _ in tensors]
            for symbol, (number, dim) in trace.symbols.items():
                wanted[number][dim] = broken_by[symbol]
            call = _resized(base, wanted, EXCLUDED)
            if run(invoke, call).error:
                continue
            if guard.by_model:
                raise _specialised(guard, call)
            yield call


def _specialised(guard: Guard, call: Call) -> Refused:
    return Refused(
        "specialised",
        f"a trace holds for some sizes alone{f' ({guard.place})' if guard.place else ''}:"
        f" {guard.expression}; but the model takes {', '.join(shapes(call.args))} too",
    )


def _holds(guard: Guard, sizes: Sizes) -> bool:
    try:
        given = {symbol: sympy.Integer(size) for symbol, size in sizes.items()}
        return bool(guard.expression.xreplace(given))
    except (TypeError, ArithmeticError, ValueError, AssertionError):
        # nobody knows: such a guard does not hold
        return False


def _tied(guards: Sequence[Guard]) -> list[set[Any]]:
    """Symbols that guards have equal: they change together."""
    groups: list[set[Any]] = []
    for guard in guards:
        symbols = set(guard.expression.free_symbols)
        if type(guard.expression).__name__ == "Equality" and len(symbols) == 2:
            joined = [group for group in groups if group & symbols]
            groups = [group for group in groups if not group & symbols]
            groups.append(symbols.union(*joined))
    return groups


def _breaking(guard: Guard, sizes: Sizes, tied: Sequence[set[Any]]) -> Iterator[Sizes]:
    """Sizes that break a guard: of one symbol alone, and of all that are tied to it."""
    for symbol in sorted(guard.expression.free_symbols & set(sizes), key=str):
        groups = [{symbol}, *(group for group in tied if symbol in group)]
        for group in groups:
            found = 0
            for number in (*_TRIED, *_LARGE):
                changed = {**sizes, **{one: number for one in group if one in sizes}}
                if found < _EACH and not _holds(guard, changed):
                    found += 1
                    yield changed


def _resized(call: Call, wanted: Sequence[Mapping[int, int]], kind: str) -> Call:
    """Other sizes: of each tensor, dimension -> size; rows are repeated, or left out."""
    made = []
    for tensor, sizes in zip(tensors_in(call.args), wanted, strict=True):
        for dim, size in sizes.items():
            if tensor.shape[dim] != size and tensor.shape[dim]:
                if tensor.numel() // tensor.shape[dim] * size > _MOST_ELEMENTS:
                    continue
                tensor = tensor.index_select(dim, torch.arange(size) % tensor.shape[dim])
        made.append(tensor.contiguous())
    return Call(call.method, call.index, kind, packed(call.args, made))


def other_kinds(call: Call) -> Iterator[Call]:
    """The same numbers in other dtypes, ranks and orders in memory."""
    tensors = tensors_in(call.args)
    for kind, way in OTHER_KINDS.items():
        made = [way(one) for one in tensors]
        if any(not _alike(a, b) for a, b in zip(tensors, made, strict=True)):
            yield Call(call.method, call.index, kind, packed(call.args, made))


def _restrided(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() < 2:
        return torch.stack([tensor, tensor], -1)[..., 0]
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    same = one.dtype == other.dtype and one.shape == other.shape
    return bool(same and one.stride() == other.stride())


OTHER_KINDS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "float64": lambda t: t.double() if t.is_floating_point() else t,
    "int32": lambda t: t.int() if t.dtype == torch.int64 else t,
    "one dimension more": lambda t: t.unsqueeze(0),
    "one dimension less": lambda t: t[0] if t.dim() else t,
    "other strides": _restrided,
}
