"""A unit's projection: the selection reduced to the names that this unit mentions.

Two apps whose projections of a unit are equal share its object.  Nothing else in the selection can
affect the object, because the shared `selected_mobile_ops.h` only declares
`should_include_kernel_dtype`, and TORCH_SELECTIVE_{NAME,SCHEMA,CLASS} of torch/library.h, which the
projection redefines, are expanded nowhere but in calls with the mentioned names.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TypeVar

from orchestrator.codegen.render import render
from orchestrator.index.model import UnitFacts
from orchestrator.system.templates import Fit
from orchestrator.values.fingerprint import text_digest
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import ALL_CLASSES, ALL_DTYPES, ALL_TAGS, Selection

# A list that names nothing else names this: an empty macro would be no list at all.
NOTHING = "selected::nothing"


def mentions_selection(unit: UnitFacts) -> bool:
    """True if the unit's object can depend on a selection (op-bearing)."""
    opened = unit.open_tags or unit.open_classes
    return bool(opened or unit.tags or unit.operators or unit.classes or unit.features)


T = TypeVar("T", bound=str)


@dataclass(frozen=True, eq=False, slots=True)
class SelectedTag:
    """A kernel tag with its selected dtypes; there is one value of each (`selected_tag`), so that
    the thousands of projections of a large plan are compared quickly."""

    name: str
    dtypes: tuple[str, ...]


@cache
def selected_tag(name: str, dtypes: tuple[str, ...]) -> SelectedTag:
    """The one value of a tag with these dtypes."""
    return SelectedTag(name, dtypes)


@dataclass(frozen=True, slots=True)
class Projection:
    """The part of a selection that a unit depends on; None for parts that it does not depend on.

    everything     every dtype of every tag is selected
    tags           kernel tags of which something is selected
    late           whether a dtype that is not selected is left out in its own switch
    names_tags     whether each function names the tags that it switches on
    """

    everything: bool = False
    tags: tuple[SelectedTag, ...] = ()
    late: bool = False
    operators: tuple[OperatorName, ...] | None = None
    classes: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    names_tags: bool = False


def projection_text(unit: UnitFacts, selection: Selection) -> str | None:
    """The projection header's text; None for an op-agnostic unit.

    Raises UnfitTextError for a name that is none in C++: selections come from lock files and
    models.
    """
    found = projection(unit, selection)
    return None if found is None else _render(found)


def projection_digest(unit: UnitFacts, selection: Selection) -> str | None:
    """The digest of `projection_text`, which is rendered only for what no unit had before."""
    found = projection(unit, selection)
    return None if found is None else _digest(found)


def projection(unit: UnitFacts, selection: Selection) -> Projection | None:
    """The part of a selection that a unit depends on; None for an op-agnostic unit.

    A unit that computes names of tags (`open_tags`) or classes gets all of the selection's; if no
    run has recorded them (`ALL_TAGS`), all that exist.
    """
    if not mentions_selection(unit):
        return None
    if selection.everything:
        return Projection(everything=True)
    every_tag = unit.open_tags and ALL_TAGS in selection.kernel_dtypes
    tags = selection.kernel_dtypes if unit.open_tags else unit.tags
    classes = selection.custom_classes if unit.open_classes else unit.classes
    selected = [
        selected_tag(tag, selection.dtypes[tag]) for tag in sorted(tags) if tag in selection.dtypes
    ]
    whole = {tag.name for tag in selected if tag.dtypes == (ALL_DTYPES,)}
    lists_classes = unit.classes or unit.open_classes
    return Projection(
        everything=every_tag,
        tags=tuple(selected),
        # where all is selected upstream's own switches compile quicker
        late=not every_tag and (unit.open_tags or not set(unit.tags) <= whole),
        operators=_named(unit.operators, selection.operators) if unit.operators else None,
        classes=_named(classes, selection.custom_classes)
        if lists_classes and ALL_CLASSES not in selection.custom_classes
        else None,
        features=_named(unit.features, selection.build_features) if unit.features else None,
    )


def index_text() -> str:
    """The projection header of the units that the runtime index is made from: everything is
    selected, and each function names the tags that it switches on."""
    return _render(Projection(everything=True, names_tags=True))


def _named(mentioned: Iterable[T], selected: Container[T]) -> tuple[T, ...]:
    return tuple(name for name in sorted(mentioned) if name in selected)


@cache
def _condition(tag: SelectedTag) -> Fit:
    """Text that states the selected dtypes of one tag. Most apps select the same ones."""
    return render("projection_tag.h.j2", tag=tag.name, dtypes=tag.dtypes)


# a thousand apps have 17,000
@lru_cache(maxsize=1 << 15)
def _digest(projection: Projection) -> str:
    return text_digest(_render(projection))


def _render(projection: Projection) -> str:
    head, tail = _around_tags(replace(projection, tags=()))
    tags = () if projection.everything else projection.tags
    return "".join((head, *map(_condition, tags), tail))


@lru_cache(maxsize=4096)
def _around_tags(projection: Projection) -> tuple[Fit, Fit]:
    """Texts before and after a projection's tags. Most units differ in their tags alone."""
    lists = {
        "operators": projection.operators,
        "classes": projection.classes,
        "features": projection.features,
    }
    context = {
        "everything": projection.everything,
        "late": projection.late,
        "names_tags": projection.names_tags,
        **{f"lists_{name}": names is not None for name, names in lists.items()},
        **{name: names or (NOTHING,) for name, names in lists.items()},
    }
    return render("projection_head.h.j2", **context), render("projection_tail.h.j2", **context)
