"""The contents of files of selected operators, PyTorch's, ExecuTorch's and our locks', as one
value.

Contract: `merge` is commutative, associative and idempotent, with `Selected()` as its neutral
element, and loses nothing, including who asked for what. Output is sorted.

The meaning is that of `torchgen/selective_build/selector.py` and `operator.py`, and of ExecuTorch's
`codegen/tools/gen_oplist.py` for kernel keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

Names = frozenset[str]


@dataclass(frozen=True)
class SelectedOperator:
    """An operator; of two entries for the same one, the one that selects more wins.

    root          a model's bytecode names it
    training      it is used for training
    all_overloads its name is without an overload, and stands for all
    debug_info    who asked for it
    """

    root: bool = False
    training: bool = False
    all_overloads: bool = False
    debug_info: Names = frozenset()

    def merge(self, other: SelectedOperator) -> SelectedOperator:
        """Merge two entries: flags that either sets, and debug information of both."""
        return SelectedOperator(
            self.root or other.root,
            self.training or other.training,
            self.all_overloads or other.all_overloads,
            self.debug_info | other.debug_info,
        )


@dataclass(frozen=True)
class Selected:
    """A file of selected operators.

    all_operators  nothing is left out
    all_others     all dtypes and custom classes (`include_all_non_op_selectives`)
    kernel_dtypes  PyTorch's kernel tags with dtypes
    kernel_keys    ExecuTorch's operators with kernel keys (`v1/6;0,1|6;0,1`; `default` for all)
    debug_info     who asked for the whole
    """

    all_operators: bool = False
    all_others: bool = False
    operators: Mapping[str, SelectedOperator] = field(default_factory=dict)
    kernel_dtypes: Mapping[str, Names] = field(default_factory=dict)
    kernel_keys: Mapping[str, Names] = field(default_factory=dict)
    classes: Names = frozenset()
    features: Names = frozenset()
    debug_info: Names = frozenset()

    def merge(self, other: Selected) -> Selected:
        """The union."""
        operators = dict(self.operators)
        for name, one in other.operators.items():
            operators[name] = one.merge(operators[name]) if name in operators else one
        return Selected(
            self.all_operators or other.all_operators,
            self.all_others or other.all_others,
            operators,
            _union(self.kernel_dtypes, other.kernel_dtypes),
            _union(self.kernel_keys, other.kernel_keys),
            self.classes | other.classes,
            self.features | other.features,
            self.debug_info | other.debug_info,
        )


def _union(left: Mapping[str, Names], right: Mapping[str, Names]) -> dict[str, Names]:
    none: Names = frozenset()
    return {key: left.get(key, none) | right.get(key, none) for key in {*left, *right}}


def merge_selected(files: Iterable[Selected]) -> Selected:
    """The union of all."""
    return reduce(Selected.merge, files, Selected())


@dataclass(frozen=True, order=True)
class SelectedChange:
    """An entry of one file that the other does not have; `added`: the second has it."""

    part: str
    name: str
    added: bool


def changes_of(left: Selected, right: Selected) -> tuple[SelectedChange, ...]:
    """The entries that two files select differently, sorted; ignores who asked for them."""
    old, new = (frozenset(_entries(one)) for one in (left, right))
    changes = [SelectedChange(part, name, added=False) for part, name in old - new]
    changes += [SelectedChange(part, name, added=True) for part, name in new - old]
    return tuple(sorted(changes))


def _entries(file: Selected) -> Iterator[tuple[str, str]]:
    if file.all_operators:
        yield "all", "operators"
    if file.all_others:
        yield "all", "dtypes and custom classes"
    for name, one in file.operators.items():
        yield "operator", name
        said = (("root", one.root), ("training", one.training), ("overloads", one.all_overloads))
        yield from ((f"operator's {what}", name) for what, holds in said if holds)
    for part, table in (("kernel tag", file.kernel_dtypes), ("kernel key", file.kernel_keys)):
        yield from ((part, f"{name} {one}") for name, some in table.items() for one in some)
    yield from (("custom class", name) for name in file.classes)
    yield from (("build feature", name) for name in file.features)
