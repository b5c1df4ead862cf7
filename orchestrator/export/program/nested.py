"""Classes of nested values that torch does not know: dataclasses and mappings of a module's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree


def register(value: Any) -> bool:
    """Make torch know the classes of a value's parts; whether there were any that it did not."""
    found = False
    while classes := {type(leaf) for leaf in pytree.tree_leaves(value) if _is_nested(leaf)}:
        for its in sorted(classes, key=_name):
            _register(its)
        found = True
    return found


def _is_nested(leaf: Any) -> bool:
    return isinstance(leaf, Mapping) or (
        dataclasses.is_dataclass(leaf) and not isinstance(leaf, type)
    )


def _name(its: type) -> str:
    return f"{its.__module__}.{its.__qualname__}"


def _register(its: type) -> None:
    if dataclasses.is_dataclass(its):
        torch.export.register_dataclass(its, serialized_type_name=_name(its))
        return
    pytree.register_pytree_node(
        its,
        lambda one: (list(one.values()), list(one)),
        lambda values, keys: _made(its, dict(zip(keys, values, strict=True))),
        serialized_type_name=_name(its),
        flatten_with_keys_fn=lambda one: (
            [(pytree.MappingKey(key), item) for key, item in one.items()],
            list(one),
        ),
    )


def _made(its: type, items: dict[Any, Any]) -> Any:
    try:
        return its(items)
    except TypeError:
        return its(**items)
