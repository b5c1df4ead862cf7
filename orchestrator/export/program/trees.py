"""Arguments and results: as Python nests them, and as a model's types do.

A model has tuples, lists of one type and dictionaries of one type. What is none of these in Python
becomes the nearest: a list or dictionary of several types a tuple; a dataclass, or a `ModelOutput`
of transformers, a dictionary where all its values have one type, else a tuple of those; what is
empty a list of tensors, since the lite interpreter knows no type of a tuple without items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# TorchScript's names of what a leaf may be; None is an optional tensor that is not there.
NONE = "Optional[Tensor]"


@dataclass(frozen=True)
class Leaf:
    """The value of this number among the leaves."""

    number: int
    kind: str


@dataclass(frozen=True)
class Branch:
    """Nested values.

    form  `tuple`, `list` or `dict`, in the model
    keys  of a dict, else the names of a tuple's items where they have any
    """

    form: str
    items: tuple[Tree, ...]
    keys: tuple[str | int, ...] = ()

    def named(self) -> Iterator[tuple[str | int, Tree]]:
        """Items with their keys or numbers."""
        yield from zip(self.keys or range(len(self.items)), self.items, strict=True)


Tree = Leaf | Branch


def kind_of(value: Any) -> str | None:
    """A leaf's type; None: a model has none for it."""
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "str")):
        if isinstance(value, kind):
            return name
    return NONE if value is None else None


def text_of(tree: Tree) -> str:
    """A tree's type, in TorchScript."""
    if isinstance(tree, Leaf):
        return tree.kind
    items = [text_of(one) for one in tree.items]
    if tree.form == "list":
        return f"List[{items[0] if items else 'Tensor'}]"
    if tree.form == "dict":
        return f"Dict[{'int' if isinstance(tree.keys[0], int) else 'str'}, {items[0]}]"
    return f"Tuple[{', '.join(items)}]"


def tree_of(spec: Any, kinds: Sequence[str]) -> Tree:
    """The tree of a treespec of `torch.utils._pytree`, whose leaves have these kinds."""
    left = iter(enumerate(kinds))
    return _tree(spec, left)


def _tree(spec: Any, left: Iterator[tuple[int, str]]) -> Tree:
    if is_leaf(spec):
        return Leaf(*next(left))
    items = tuple(_tree(one, left) for one in children(spec))
    if not items:
        return Branch("list", ())
    if spec.type in (tuple, list):
        alike = spec.type is list and _alike(items)
        return Branch("list" if alike else "tuple", items)
    keys = _keys(spec.context, len(items))
    if keys and _alike(items):
        return Branch("dict", items, keys)
    return Branch("tuple", items, keys)


def is_leaf(spec: Any) -> bool:
    """True if a treespec is of a single value."""
    return bool(spec.is_leaf() if hasattr(spec, "is_leaf") else spec.isleaf())


def children(spec: Any) -> Sequence[Any]:
    """The treespecs inside of one."""
    found: Any = getattr(spec, "children", None)
    return list(found() if callable(found) else spec.children_specs)


def _alike(items: Sequence[Tree]) -> bool:
    """True if all items are of one type, and that type is complete."""
    texts = {text_of(one) for one in items}
    return len(texts) == 1 and texts != {NONE}


def _keys(context: Any, count: int) -> tuple[str | int, ...]:
    """The keys of a mapping, as its kind of node keeps them (torch/utils/_pytree.py); empty where
    nobody knows."""
    for one in (context, *(context if isinstance(context, list | tuple) else ())):
        if not isinstance(one, list | tuple) or not one or len(one) != count:
            continue
        if len({type(key) for key in one}) == 1 and type(one[0]) in (str, int):
            return tuple(one)
    fields = getattr(context, "_fields", ())
    return tuple(fields) if len(fields) == count else ()


def packed(tree: Tree, leaves: Sequence[Any]) -> Any:
    """A value as the model takes or gives it."""
    if isinstance(tree, Leaf):
        return leaves[tree.number]
    items = [packed(one, leaves) for one in tree.items]
    if tree.form == "dict":
        return dict(zip(tree.keys, items, strict=True))
    return items if tree.form == "list" else tuple(items)


def leaves_of(tree: Tree, value: Any) -> Iterator[Any]:
    """The leaves of a value of the model's, in the order of their numbers."""
    if isinstance(tree, Leaf):
        yield value
        return
    for number, (key, one) in enumerate(tree.named()):
        yield from leaves_of(one, value[key if tree.form == "dict" else number])


def paths(tree: Tree, name: str) -> Iterator[tuple[str, Leaf]]:
    """Each leaf with its name: `x`, `states[0]`, `batch.mask`."""
    if isinstance(tree, Leaf):
        yield name, tree
        return
    for key, one in tree.named():
        yield from paths(one, f"{name}[{key}]" if isinstance(key, int) else f"{name}.{key}")


def told(tree: Tree) -> str:
    """A tree for people: its type, with the names of a tuple's items."""
    if isinstance(tree, Leaf):
        return tree.kind
    names = [f"{key}: " if isinstance(key, str) else "" for key, _ in tree.named()]
    items = [f"{name}{told(one)}" for name, one in zip(names, tree.items, strict=True)]
    return f"{tree.form}({', '.join(items)})"


Named = Mapping[str, Tree]
