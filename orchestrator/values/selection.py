"""Selection: what an app's models use, a value with a lossless, order-free merge.

Every entry records which models ask for it, so that `why` and the reports can name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TypeVar

from orchestrator.values.operators import OperatorName

T = TypeVar("T", bound=str)

ALL_DTYPES = "*"
# stands for every kernel tag of the units whose tags are no literals (`open_tags`)
ALL_TAGS = "*"
# Among custom classes: all, because a unit computes the names of those that it registers.
ALL_CLASSES = "*"

# Among operators that are left out: all, of a development library, to which operators come later.
ANY_OPERATOR = OperatorName("*")

# Who asked for what `extra:` in app.yaml adds; no model has such a name.
EXTRA = "extra:"
# Of an app that takes add-ons.
ADDONS = "extensible:"

Requesters = frozenset[str]


@dataclass(frozen=True)
class Selection:
    """Operators (`aten::add.Tensor`), kernel tags with dtypes (`Float`, or `*` for all), custom
    classes and build features; each with the names of the models that asked for it.

    root_operators are the operators that bytecode names, and those under `extra:` in app.yaml;
    guarded are those added by the static closure because no input ran them; left_out are those that
    bytecode names in calls that no input can reach, which others may still need.  `everything`
    means nothing is left out (all operators).
    """

    operators: Mapping[OperatorName, Requesters] = field(default_factory=dict)
    root_operators: frozenset[OperatorName] = frozenset()
    guarded: frozenset[OperatorName] = frozenset()
    left_out: Mapping[OperatorName, Requesters] = field(default_factory=dict)
    kernel_dtypes: Mapping[str, Mapping[str, Requesters]] = field(default_factory=dict)
    custom_classes: Mapping[str, Requesters] = field(default_factory=dict)
    build_features: Mapping[str, Requesters] = field(default_factory=dict)
    everything: bool = False

    @cached_property
    def dtypes(self) -> Mapping[str, tuple[str, ...]]:
        """Kernel tag -> its dtypes, sorted; `*` alone where it is among them. Without tags that
        have none."""
        return {
            tag: (ALL_DTYPES,) if ALL_DTYPES in dtypes else tuple(sorted(dtypes))
            for tag, dtypes in self.kernel_dtypes.items()
            if dtypes
        }

    @property
    def stubs(self) -> tuple[OperatorName, ...]:
        """The operators that models may name and must not call: `left_out`, without those that the
        variant registers for other models."""
        return tuple(sorted(self.left_out.keys() - self.root_operators))

    def merge(self, other: Selection) -> Selection:
        """The union; commutative, associative, idempotent, with `Selection()` as its zero."""
        tags = sorted({*self.kernel_dtypes, *other.kernel_dtypes})
        return Selection(
            operators=_union(self.operators, other.operators),
            root_operators=self.root_operators | other.root_operators,
            guarded=self.guarded | other.guarded,
            left_out=_union(self.left_out, other.left_out),
            kernel_dtypes={
                tag: _union(self.kernel_dtypes.get(tag, {}), other.kernel_dtypes.get(tag, {}))
                for tag in tags
            },
            custom_classes=_union(self.custom_classes, other.custom_classes),
            build_features=_union(self.build_features, other.build_features),
            everything=self.everything or other.everything,
        )


def _union(left: Mapping[T, Requesters], right: Mapping[T, Requesters]) -> dict[T, Requesters]:
    nobody: Requesters = frozenset()
    return {key: left.get(key, nobody) | right.get(key, nobody) for key in sorted({*left, *right})}


def merge_all(selections: Iterable[Selection]) -> Selection:
    """The union of all; an empty selection for none."""
    every = list(selections)
    return reduce(Selection.merge, every) if every else Selection()
