"""The report of `plan`: what each variant needs, how much of it is cached, and which variants share
it.

Contract: pure. `plan_report` makes the value; `to_json` is its documented form and `show` prints
it, with colour on a terminal and as the same bytes everywhere else.

A thousand apps for four ABIs use 90,000 objects a million times.  So objects have numbers, by which
uses are kept, counted and compared.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from orchestrator.report.table import UNKNOWN, Column, Row, human_bytes, new_table, plain_text
from orchestrator.values.action import Compile, count_units, precompiled_headers
from orchestrator.values.config.app import BASELINE
from orchestrator.values.labels import VariantLabel

# Of the variants that share objects with one, those that share most are named.
_NAMED: Final = 3


class PlannedObjects:
    """The objects of all variants of a plan, each once, by number.

    actions  number -> its compilation, the first of equal ones
    """

    def __init__(self) -> None:
        self.actions: list[Compile] = []
        self._numbers: dict[str, int] = {}

    def numbers(self, compiles: Iterable[Compile]) -> array[int]:
        """The numbers of these compilations' objects, each once, in order."""
        known, found = self._numbers, dict[int, None]()
        for action in compiles:
            number = known.get(action.object)
            if number is None:
                number = known[action.object] = len(self.actions)
                self.actions.append(action)
            found[number] = None
        return array("I", found)


@dataclass(frozen=True)
class PlannedVariant:
    """One app for one ABI, as planned.

    objects          numbers of its objects, each once
    budget_bytes     the maximum size of its library; None without a budget
    cpu_levels       those above the ABI's baseline that it chooses from, lowest first
    usual_levels     whether they are those of every library for the ABI
    estimated_bytes  of the stripped shared library, from the index; None where it is not known
    generated        whether torchgen has written its registrations; if not, they count as not
                     cached and as shared with nobody but an equal request
    """

    app: str
    abi: str
    objects: array[int]
    estimated_bytes: int | None = None
    generated: bool = True
    budget_bytes: int | None = None
    cpu_levels: tuple[str, ...] = ()
    usual_levels: bool = True

    @property
    def label(self) -> VariantLabel:
        return VariantLabel(self.app, self.abi)


@dataclass(frozen=True)
class VariantRow:
    """The report on one variant.

    cached       units whose objects the cache has
    shared       units whose objects other variants of this plan use too
    shared_with  those others that use most of them: label and number of units
    cpu_seconds  user CPU seconds to compile what is not cached, if nothing else were built
    """

    app: str
    abi: str
    units: int
    cached: int
    shared: int
    shared_with: tuple[tuple[str, int], ...]
    cpu_seconds: float
    estimated_bytes: int | None
    generated: bool
    budget_bytes: int | None = None
    cpu_levels: tuple[str, ...] = ()
    usual_levels: bool = True

    @property
    def label(self) -> VariantLabel:
        return VariantLabel(self.app, self.abi)

    @property
    def is_over_budget(self) -> bool:
        """True if the estimate is above the budget."""
        both = self.estimated_bytes is not None and self.budget_bytes is not None
        return both and (self.estimated_bytes or 0) > (self.budget_bytes or 0)


@dataclass(frozen=True)
class SharedUnits:
    """Units that are one object each for exactly these variants, two or more."""

    variants: tuple[str, ...]
    units: tuple[str, ...]


@dataclass(frozen=True)
class PlanReport:
    """A plan: its variants and the objects of all, each counted once.

    objects, cached   number of objects, and how many of them the cache has
    cpu_seconds       user CPU seconds to compile the others
    """

    variants: tuple[VariantRow, ...]
    shared: tuple[SharedUnits, ...]
    objects: int
    cached: int
    cpu_seconds: float

    def to_json(self) -> str:
        """JSON with a last newline; variants are sorted by app and ABI. Its shape:

        {"format": 1, "objects": n, "cached": n, "cpu_seconds": x, "variants": [{"app": s,
        "abi": s, "units": n, "cached": n, "shared": n, "shared_with": [{"variant": s,
        "units": n}], "cpu_seconds": x, "estimated_bytes": n|null, "generated": b,
        "budget_bytes": n|null, "cpu_levels": [s], "usual_levels": b, "is_over_budget": b}],
        "shared": [{"variants": [s], "units": [s]}]}

        `shared_with` names at most three, those that share most; `shared` has all of them. Seconds
        are rounded to tenths.
        """
        shape = {
            "format": 1,
            "objects": self.objects,
            "cached": self.cached,
            "cpu_seconds": round(self.cpu_seconds, 1),
        }
        head = json.dumps(shape, indent=2)[:-2]
        variants = _json_lines(_variant_json(row) for row in self.variants)
        shared = _json_lines(vars(group) for group in self.shared)
        return f'{head},\n  "variants": [{variants}],\n  "shared": [{shared}]\n}}\n'


def plan_report(
    variants: Iterable[PlannedVariant], actions: Sequence[Compile], present: Collection[str]
) -> PlanReport:
    """The report; `actions` are the objects by number, `present` holds the objects and precompiled
    headers that exist already."""
    ordered = sorted(variants, key=lambda variant: (variant.app, variant.abi))
    users: list[list[int]] = [[] for _ in actions]
    for number, variant in enumerate(ordered):
        for one in variant.objects:
            users[one].append(number)
    work = _Work.of(actions, present)
    shared = [count if len(of) > 1 else 0 for count, of in zip(work.units, users, strict=True)]
    partners = _partners(ordered, shared)
    every = dict.fromkeys(chain.from_iterable(variant.objects for variant in ordered))
    return PlanReport(
        variants=tuple(
            VariantRow(
                app=variant.app,
                abi=variant.abi,
                units=_sum(work.units, variant.objects),
                cached=_sum(work.cached, variant.objects),
                shared=_sum(shared, variant.objects),
                shared_with=partners[number],
                cpu_seconds=work.cpu_seconds(variant.objects),
                estimated_bytes=variant.estimated_bytes,
                generated=variant.generated,
                budget_bytes=variant.budget_bytes,
                cpu_levels=variant.cpu_levels,
                usual_levels=variant.usual_levels,
            )
            for number, variant in enumerate(ordered)
        ),
        shared=_shared(ordered, users, actions),
        objects=len(every),
        cached=sum(1 for one in every if work.cached[one]),
        cpu_seconds=work.cpu_seconds(every),
    )


def _sum(values: Sequence[int], objects: Iterable[int]) -> int:
    return sum(map(values.__getitem__, objects))


@dataclass(frozen=True)
class _Work:
    """Cost of each object, by number.

    units    units in it
    cached   number of these units that the cache has: all or none
    seconds  user CPU seconds to compile it
    header   output of the precompiled header that it is compiled with; None if it has none, or the
             cache has it
    headers  output of a precompiled header -> user CPU seconds to make it
    """

    units: list[int]
    cached: list[int]
    seconds: list[float]
    header: list[str | None]
    headers: dict[str, float]

    @classmethod
    def of(cls, actions: Sequence[Compile], present: Collection[str]) -> _Work:
        """The work of these compilations, with `present` as of `plan_report`."""
        units = [count_units([action]) for action in actions]
        cached = [n if one.object in present else 0 for n, one in zip(units, actions, strict=True)]
        headers = {
            output: header.cost
            for output, header in precompiled_headers(actions).items()
            if output not in present
        }
        outputs = (None if action.pch is None else action.pch.output for action in actions)
        return cls(
            units,
            cached,
            [action.seconds for action in actions],
            [output if output in headers else None for output in outputs],
            headers,
        )

    def cpu_seconds(self, objects: Iterable[int]) -> float:
        """User CPU seconds to compile what is not cached, with the precompiled headers for it."""
        todo = [one for one in objects if not self.cached[one]]
        headers = dict.fromkeys(map(self.header.__getitem__, todo))
        return sum(map(self.seconds.__getitem__, todo)) + sum(
            self.headers[output] for output in headers if output is not None
        )


def _partners(
    variants: Sequence[PlannedVariant], shared: Sequence[int]
) -> list[tuple[tuple[str, int], ...]]:
    """For each variant, those that share most with it; of equal ones the first.

    Objects are an ABI's own, so that only variants of one ABI are compared; what a variant shares
    is an integer, a set of bits, so that comparing many is cheap.
    """
    found: list[tuple[tuple[str, int], ...]] = [()] * len(variants)
    for abi in {variant.abi for variant in variants}:
        numbers = [n for n, variant in enumerate(variants) if variant.abi == abi]
        objects = dict.fromkeys(chain.from_iterable(variants[n].objects for n in numbers))
        bits, width = [0] * len(shared), 0
        for one in objects:
            bits[one] = (1 << shared[one]) - 1 << width
            width += shared[one]
        sets = [_sum(bits, variants[n].objects) for n in numbers]
        # of a variant, what it shares with itself (nothing) and with each after it
        after: list[array[int]] = []
        for place, own in enumerate(sets):
            later = sets[place + 1 :]
            after.append(array("I", (0, *((own & other).bit_count() for other in later))))
            counts = [one[place - at] for at, one in enumerate(after[:-1])]
            counts.extend(after[-1])
            found[numbers[place]] = tuple(
                (str(variants[numbers[at]].label), count) for at, count in _largest(counts)
            )
    return found


def _largest(counts: list[int]) -> Iterator[tuple[int, int]]:
    """The places and values of the `_NAMED` largest that are not zero, which `counts` loses."""
    for _ in range(_NAMED):
        most = max(counts)
        if not most:
            return
        at = counts.index(most)
        counts[at] = 0
        yield at, most


def _shared(
    variants: Sequence[PlannedVariant],
    users: Sequence[Sequence[int]],
    actions: Sequence[Compile],
) -> tuple[SharedUnits, ...]:
    groups: dict[tuple[int, ...], list[str]] = {}
    for action, numbers in zip(actions, users, strict=True):
        if len(numbers) > 1:
            groups.setdefault(tuple(numbers), []).extend(action.units)
    labels = [str(variant.label) for variant in variants]
    return tuple(
        SharedUnits(tuple(labels[n] for n in numbers), tuple(sorted(groups[numbers])))
        for numbers in sorted(groups)
    )


def _variant_json(row: VariantRow) -> dict[str, Any]:
    return {
        **vars(row),
        "is_over_budget": row.is_over_budget,
        "shared_with": [{"variant": label, "units": count} for label, count in row.shared_with],
        "cpu_seconds": round(row.cpu_seconds, 1),
    }


def _json_lines(values: Iterable[Mapping[str, Any]]) -> str:
    """One object a line: an indented encoder takes minutes for a thousand apps."""
    lines = ",".join(f"\n    {json.dumps(value)}" for value in values)
    return f"{lines}\n  " if lines else ""


def show(report: PlanReport, console: Console) -> None:
    """Prints the table and the sums: with colour and rules on a terminal, else as `plain`."""
    if console.is_terminal:
        console.print(_table(report, console.width))
        console.print(*_sums(report), sep="\n", highlight=False)
    else:
        console.file.write(plain(report))


def plain(report: PlanReport) -> str:
    """Table and sums as plain text with a last newline; columns are two blanks apart."""
    sums = "".join(f"{line}\n" for line in _sums(report))
    return plain_text(_table(report)) + "\n" + sums


def _table(report: PlanReport, width: int | None = None) -> Table:
    return new_table(_COLUMNS, [Row(_cells(row)) for row in report.variants], width)


_COLUMNS: Final = (
    Column("app"),
    Column("ABI"),
    Column("units", True, 2),
    Column("cached", True, 3),
    Column("to compile", True, 5),
    Column("CPU s", True, 4),
    Column("estimated", True),
    Column("shared", True, 1),
    Column("most with", leaves=0, wraps=True),
)


def _cells(row: VariantRow) -> list[str]:
    return [
        row.app,
        row.abi,
        str(row.units),
        str(row.cached),
        str(row.units - row.cached),
        f"{row.cpu_seconds:.0f}",
        UNKNOWN if row.estimated_bytes is None else human_bytes(row.estimated_bytes),
        str(row.shared),
        ", ".join(f"{_app(label)} {count}" for label, count in row.shared_with) or UNKNOWN,
    ]


def _app(label: str) -> str:
    """The app's name; its ABI is that of the row."""
    return label.removeprefix("//apps/").partition(":")[0]


def _counted(variants: int) -> str:
    return f"{variants:,} variant{'' if variants == 1 else 's'}"


def _sums(report: PlanReport) -> list[str]:
    wanted = sum(row.units for row in report.variants)
    lines = [
        f"{wanted:,} units in {_counted(len(report.variants))} are {report.objects:,} objects:"
        f" {report.cached:,} in the cache, {report.objects - report.cached:,} to compile,"
        f" about {report.cpu_seconds:,.0f} CPU seconds"
    ]
    lines += [
        f"{row.label} is estimated at {row.estimated_bytes or 0:,} bytes, over its"
        f" budget of {row.budget_bytes or 0:,}; estimates are mostly within 8 %"
        for row in report.variants
        if row.is_over_budget
    ]
    lines += [
        f"{row.label} chooses from CPU levels {', '.join((BASELINE, *row.cpu_levels))}"
        for row in report.variants
        if not row.usual_levels
    ]
    missing = sum(not row.generated for row in report.variants)
    if missing:
        lines.append(
            f"{_counted(missing)} without generated registrations yet:"
            f" {'its' if missing == 1 else 'their'} units count as not cached"
        )
    return lines
