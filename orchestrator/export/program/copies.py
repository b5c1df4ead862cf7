"""Copies of modules and of example inputs, for whoever may change them."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Attribute:
    """Attribute of a class of modules."""

    owner: type
    name: str


def copied_module(module: torch.nn.Module) -> torch.nn.Module:
    """A module with the same weights and a state of its own: buffers, and what calls leave in
    attributes. The module itself where it cannot be copied."""
    weights = {id(one): one for one in module.parameters()}
    try:
        return copy.deepcopy(module, {**_results(module), **weights})
    except Exception:
        return module


def module_in_double(module: torch.nn.Module) -> torch.nn.Module:
    """A module in float64, with weights of its own. Raises what torch does where it cannot be
    copied."""
    return copy.deepcopy(module, _results(module)).double()


def remembered(module: torch.nn.Module, call: Callable[[torch.nn.Module], Any]) -> list[Attribute]:
    """The attributes, of modules inside of this one, in which a call leaves tensors, though they
    are no buffers."""
    its = copied_module(module)
    before = {id(one): dict(vars(one)) for one in its.modules()}
    with contextlib.suppress(Exception), torch.no_grad(), torch.random.fork_rng(devices=[]):
        call(its)
    return [
        Attribute(type(one), name)
        for one in its.modules()
        for name, value in vars(one).items()
        if not name.startswith("_")
        and value is not before.get(id(one), {}).get(name)
        and any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))
    ]


def _results(module: torch.nn.Module) -> dict[int, Any]:
    """Copies of what refuses to be copied: results of operators, such as the weight that
    weight_norm computes."""
    return {
        id(one): one.detach().clone()
        for its in module.modules()
        for one in vars(its).values()
        if isinstance(one, torch.Tensor) and not one.is_leaf
    }


def distinct(leaves: Sequence[Any]) -> list[Any]:
    """Values, each tensor once: the exporter takes one that is given twice for one argument."""
    seen: set[int] = set()
    found = []
    for one in leaves:
        again = isinstance(one, torch.Tensor) and id(one) in seen
        seen.add(id(one))
        found.append(one.clone() if again else one)
    return found
