"""A unit's projection: the selection cut down to the names that this unit mentions.

Two apps whose projections of a unit are equal share its object.  The rule why nothing else of the
selection can reach the object: the shared `selected_mobile_ops.h` only declares
`should_include_kernel_dtype`, and TORCH_SELECTIVE_{NAME,SCHEMA,CLASS} of torch/library.h, which the
projection redefines, are expanded nowhere but in calls with the mentioned names.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from functools import cache, lru_cache

from orchestrator.codegen.render import render
from orchestrator.index.model import UnitFacts
from orchestrator.system.templates import Fit
from orchestrator.values.selection import ALL_CLASSES, ALL_DTYPES, ALL_TAGS, Selection

# A list that names nothing else names this: an empty macro would be no list at all.
NOTHING = "selected::nothing"


def mentions_selection(unit: UnitFacts) -> bool:
    """Whether the unit's object can depend on a selection at all (op-bearing)."""
    opened = unit.open_tags or unit.open_classes
    return bool(opened or unit.tags or unit.operators or unit.classes or unit.features)


def projection_text(unit: UnitFacts, selection: Selection) -> str | None:
    """The projection header's text; None for an op-agnostic unit.

    A unit that computes names of tags (`open_tags`) or classes gets all of the selection's; where
    no run has told them (`ALL_TAGS`), all that there are. Raises UnfitTextError for a name that is
    none in C++: selections come from lock files and models.
    """
    if not mentions_selection(unit):
        return None
    if selection.everything:
        return _render(everything=True)
    every_tag = unit.open_tags and ALL_TAGS in selection.kernel_dtypes
    tags = selection.kernel_dtypes if unit.open_tags else unit.tags
    classes = selection.custom_classes if unit.open_classes else unit.classes
    kernel_dtypes = [
        (tag, _dtypes(selection.kernel_dtypes[tag]))
        for tag in sorted(tags)
        if selection.kernel_dtypes.get(tag)
    ]
    whole = {tag for tag, dtypes in kernel_dtypes if dtypes == [ALL_DTYPES]}
    return _render(
        everything=every_tag,
        conditions=tuple(_condition(tag, tuple(dtypes)) for tag, dtypes in kernel_dtypes),
        # where all is selected upstream's own switches compile quicker
        late=not every_tag and (unit.open_tags or not set(unit.tags) <= whole),
        lists_operators=bool(unit.operators),
        operators=_named(unit.operators, selection.operators),
        lists_classes=bool(unit.classes or unit.open_classes)
        and ALL_CLASSES not in selection.custom_classes,
        classes=_named(classes, selection.custom_classes),
        lists_features=bool(unit.features),
        features=_named(unit.features, selection.build_features),
    )


def index_text() -> str:
    """The projection header of the units that the runtime index is made from: everything is
    selected, and each function names the tags that it switches on."""
    return _render(everything=True, names_tags=True)


def _dtypes(requested: object) -> list[str]:
    dtypes = sorted(requested)  # type: ignore[call-overload]
    return [ALL_DTYPES] if ALL_DTYPES in dtypes else list(dtypes)


def _named(mentioned: Iterable[str], selected: Container[str]) -> tuple[str, ...]:
    return tuple(name for name in sorted(mentioned) if name in selected) or (NOTHING,)


@cache
def _condition(tag: str, dtypes: tuple[str, ...]) -> Fit:
    """What is selected of one tag. Most apps want the same of it."""
    return render("projection_tag.h.j2", tag=tag, dtypes=dtypes)


@lru_cache(maxsize=4096)
def _render(**context: Hashable) -> str:
    defaults: dict[str, object] = {
        "everything": False,
        "conditions": (),
        "late": False,
        "names_tags": False,
        "lists_operators": False,
        "operators": (),
        "lists_classes": False,
        "classes": (),
        "lists_features": False,
        "features": (),
    }
    return render("projection.h.j2", **{**defaults, **context})
