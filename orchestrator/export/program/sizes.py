"""Sizes of example inputs, and of those that a program is to take.

The exporter takes a size of 0 or 1 for a constant, in silence: it broadcasts. So an example with
such sizes is made larger where the module runs on that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import torch

from orchestrator.export.refusal import Refused

# How often a module is run on larger examples, and of how many dimensions any combination.
_MOST_RUNS = 40
_MOST_TOGETHER = 6
# Sizes that a dimension of 0 or 1 may get; the first that no other dimension has. 2 is one that
# modules compute with.
_LARGER = (5, 7, 3, 11, 13, 2)
# (argument's number among the leaves, dimension)
At = tuple[int, int]


@dataclass(frozen=True)
class Wanted:
    """A user's choice for a dimension. name: of the argument's leaf; dimension: None for all."""

    name: str
    dimension: int | None
    dynamic: bool
    least: int | None = None
    most: int | None = None


_WANTED = re.compile(r"(?P<name>[^:=]+)(:(?P<dim>\d+))?(=(?P<least>\d+)?\.\.(?P<most>\d+)?)?")


def wanted(text: str, dynamic: bool) -> Wanted:
    """`tokens`, `tokens:1` or `tokens:1=2..512`. Raises Refused."""
    found = _WANTED.fullmatch(text)
    if not found or (not dynamic and "=" in text):
        raise Refused(
            "sizes", f"{text!r} is no dimension, such as `tokens:1`, nor `tokens:1=2..512`"
        )
    numbers = [None if found[k] is None else int(found[k]) for k in ("dim", "least", "most")]
    dim, least, most = numbers
    if least is not None and most is not None and least > most:
        raise Refused("sizes", f"{text!r}: {least} is more than {most}")
    if dim is None and (least, most) != (None, None):
        raise Refused(
            "sizes", f"{text!r}: a range is of one dimension, such as `{found['name']}:0`"
        )
    return Wanted(found["name"], dim, dynamic, least, most)


@dataclass(frozen=True)
class Kept:
    """Choices for a program: sizes that stay open, conditions to check, operators to decompose.

    sizes       dimensions without a choice of the user's: `any` of them stays open; only the
                `first` one does; or they are `fixed`
    guards      True if the model checks the conditions of torch's operators on sizes, too
    decomposed  operators that it must not call
    """

    sizes: Literal["any", "first", "fixed"] = "any"
    guards: bool = False
    decomposed: Collection[str] = ()


@dataclass(frozen=True)
class Plan:
    """Open dimensions of the tensors among the leaves, each with its least and largest size."""

    open: Mapping[At, tuple[int | None, int | None]]


def planned(
    leaves: Sequence[Any], names: Sequence[str], asked: Sequence[Wanted], sizes: str
) -> Plan:
    """sizes: as `Kept` has it. Raises Refused where what was asked contradicts itself or the
    example."""
    places = {
        (number, dim): None
        for number, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor)
        for dim in range(leaf.dim())
    }
    open_: dict[At, tuple[int | None, int | None]] = {
        at: (None, None) for at in places if sizes == "any" or (sizes == "first" and not at[1])
    }
    said: dict[At, Wanted] = {}
    for one in asked:
        for at in _meant(one, names, leaves):
            if at in said and (said[at].dynamic, said[at].least, said[at].most) != (
                *(one.dynamic, one.least, one.most),
            ):
                raise Refused("sizes", f"{_name(names, at)} is asked for twice, and otherwise")
            said[at] = one
            if one.dynamic:
                size = leaves[at[0]].shape[at[1]]
                if size < (one.least or 0) or size > (one.most or size):
                    range_ = f"{one.least or 0}..{one.most or ''}"
                    raise Refused(
                        "sizes", f"{_name(names, at)} is {size} in the example, not {range_}"
                    )
                open_[at] = (one.least, one.most)
            else:
                open_.pop(at, None)
    return Plan(open_)


def _meant(one: Wanted, names: Sequence[str], leaves: Sequence[Any]) -> Iterator[At]:
    found = [
        n
        for n, name in enumerate(names)
        if name == one.name or name.startswith((f"{one.name}.", f"{one.name}["))
    ]
    if not found:
        raise Refused("sizes", f"there is no argument {one.name}, but {', '.join(names)}")
    for number in found:
        leaf = leaves[number]
        dims = range(leaf.dim()) if isinstance(leaf, torch.Tensor) else ()
        if one.dimension is not None and one.dimension not in dims:
            raise Refused("sizes", f"{names[number]} has no dimension {one.dimension}")
        yield from ((number, dim) for dim in dims if one.dimension in (None, dim))


def _name(names: Sequence[str], at: At) -> str:
    return f"size {at[1]} of {names[at[0]]}"


def enlarged(
    leaves: Sequence[Any],
    plan: Plan,
    runs: Callable[[Sequence[Any]], bool],
    without: frozenset[At],
    attempt: int = 0,
) -> tuple[list[Any], frozenset[At]]:
    """The leaves with larger sizes where they had 0 or 1, as far as the module runs on them; and
    which those are.

    without  dimensions that keep what they have
    attempt  each gives other sizes
    """
    small = [at for at in sorted(plan.open) if at not in without and leaves[at[0]].shape[at[1]] < 2]
    sizes = {size for leaf in leaves if isinstance(leaf, torch.Tensor) for size in leaf.shape}
    free = [one for one in _LARGER if one not in sizes] or [2]
    size = free[attempt % len(free)]
    for tried, group in enumerate(_groups(small)):
        if tried == _MOST_RUNS:
            break
        made = list(leaves)
        for number, dim in group:
            limit = plan.open[number, dim][1]
            made[number] = with_size(made[number], dim, min(size, limit or size))
        if not group or runs(made):
            return made, frozenset(group)
    return list(leaves), frozenset()


def _groups(small: Sequence[At]) -> Iterator[tuple[At, ...]]:
    """Dimensions to make larger together: many first."""
    yield tuple(small)
    if len(small) <= _MOST_TOGETHER:
        for count in range(len(small) - 1, -1, -1):
            yield from combinations(small, count)
        return
    for dim in sorted({dim for _, dim in small}):
        yield tuple(at for at in small if at[1] == dim)
    for at in small:
        yield (at,)
    yield ()


def with_size(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """A tensor with another size there: with its rows again, or fewer of them."""
    if tensor.shape[dim] >= size:
        return tensor.narrow(dim, 0, size).contiguous()
    if not tensor.shape[dim]:
        return tensor.new_zeros([*tensor.shape[:dim], size, *tensor.shape[dim + 1 :]])
    times = -(-size // tensor.shape[dim])
    return torch.cat([tensor] * times, dim).narrow(dim, 0, size).contiguous()
