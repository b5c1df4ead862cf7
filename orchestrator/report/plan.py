"""The report of `plan`: what each variant needs, how much of it is cached, and which variants share
it.

Contract: pure. `plan_report` makes the value; `to_json` is its documented form and `show` prints
it, with colour on a terminal and as the same bytes everywhere else.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from orchestrator.report.table import UNKNOWN, Column, Row, human_bytes, new_table, plain_text
from orchestrator.values.action import Compile, count_units, precompiled_headers
from orchestrator.values.config import BASELINE

# Of the variants that share objects with one, those that share most are named.
_NAMED: Final = 3


@dataclass(frozen=True)
class PlannedVariant:
    """One app for one ABI, as planned.

    compiles         its units, each once
    budget_bytes     the maximum size of its library; None without a budget
    cpu_levels       those above the ABI's baseline that it chooses from, lowest first
    usual_levels     whether they are those of every library for the ABI
    estimated_bytes  of the stripped shared library, from the index; None where it is not known
    generated        whether torchgen has written its registrations; if not, they count as not
                     cached and as shared with nobody but an equal request
    """

    app: str
    abi: str
    compiles: tuple[Compile, ...]
    estimated_bytes: int | None = None
    generated: bool = True
    budget_bytes: int | None = None
    cpu_levels: tuple[str, ...] = ()
    usual_levels: bool = True

    @property
    def label(self) -> str:
        return f"//apps/{self.app}:{self.abi}"


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
    def is_over_budget(self) -> bool:
        """Whether the estimate is above the budget."""
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


def plan_report(variants: Iterable[PlannedVariant], present: Collection[str]) -> PlanReport:
    """The report; `present` holds the objects and precompiled headers that exist already."""
    ordered = sorted(variants, key=lambda variant: (variant.app, variant.abi))
    users: dict[str, list[int]] = {}
    every: dict[str, Compile] = {}
    for number, variant in enumerate(ordered):
        for action in variant.compiles:
            users.setdefault(action.object, []).append(number)
            every.setdefault(action.object, action)
    partners = _partners(ordered, users)
    units = {path: count_units([action]) for path, action in every.items()}
    ready = {path: count if path in present else 0 for path, count in units.items()}
    common = {path: count if len(users[path]) > 1 else 0 for path, count in units.items()}

    def counted(counts: Mapping[str, int], variant: PlannedVariant) -> int:
        return sum([counts[action.object] for action in variant.compiles])

    return PlanReport(
        variants=tuple(
            VariantRow(
                app=variant.app,
                abi=variant.abi,
                units=counted(units, variant),
                cached=counted(ready, variant),
                shared=counted(common, variant),
                shared_with=partners[number],
                cpu_seconds=cpu_seconds(variant.compiles, present),
                estimated_bytes=variant.estimated_bytes,
                generated=variant.generated,
                budget_bytes=variant.budget_bytes,
                cpu_levels=variant.cpu_levels,
                usual_levels=variant.usual_levels,
            )
            for number, variant in enumerate(ordered)
        ),
        shared=_shared(ordered, users, every),
        objects=len(every),
        cached=sum(path in present for path in every),
        cpu_seconds=cpu_seconds(every.values(), present),
    )


def cpu_seconds(compiles: Iterable[Compile], present: Collection[str]) -> float:
    """User CPU seconds to compile what is not present, with the precompiled headers for it."""
    todo = [action for action in compiles if action.object not in present]
    headers = precompiled_headers(todo)
    return sum(action.seconds for action in todo) + sum(
        header.cost for output, header in headers.items() if output not in present
    )


def _partners(
    variants: Sequence[PlannedVariant], users: Mapping[str, Sequence[int]]
) -> list[tuple[tuple[str, int], ...]]:
    """For each variant, those that share most with it.

    Objects are an ABI's own, so that only variants of one ABI are compared; what a variant shares
    is an integer, a set of bits, so that comparing many is cheap.
    """
    found: list[tuple[tuple[str, int], ...]] = [()] * len(variants)
    for abi in {variant.abi for variant in variants}:
        numbers = [n for n, variant in enumerate(variants) if variant.abi == abi]
        bits: dict[str, int] = {}
        width = 0
        shared = dict.fromkeys(numbers, 0)
        for number in numbers:
            for action in variants[number].compiles:
                if len(users[action.object]) > 1:
                    if action.object not in bits:
                        count = count_units([action])
                        bits[action.object] = (1 << count) - 1 << width
                        width += count
                    shared[number] |= bits[action.object]
        for number in numbers:
            # a count and, of equal ones the first, a variant: one number each compares quicker
            own, many = shared[number], len(variants)
            counts = [(own & shared[n]).bit_count() * many - n for n in numbers]
            del counts[numbers.index(number)]
            most = (divmod(-one, many) for one in nlargest(_NAMED, counts))
            found[number] = tuple((variants[n].label, -count) for count, n in most if count)
    return found


def _shared(
    variants: Sequence[PlannedVariant],
    users: Mapping[str, Sequence[int]],
    every: Mapping[str, Compile],
) -> tuple[SharedUnits, ...]:
    groups: dict[tuple[int, ...], list[str]] = {}
    for path, numbers in users.items():
        if len(numbers) > 1:
            groups.setdefault(tuple(numbers), []).extend(every[path].units)
    return tuple(
        SharedUnits(tuple(variants[n].label for n in numbers), tuple(sorted(groups[numbers])))
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
        f"//apps/{row.app}:{row.abi} is estimated at {row.estimated_bytes or 0:,} bytes, over its"
        f" budget of {row.budget_bytes or 0:,}; estimates are accurate to within a fifth"
        for row in report.variants
        if row.is_over_budget
    ]
    lines += [
        f"//apps/{row.app}:{row.abi} chooses from CPU levels"
        f" {', '.join((BASELINE, *row.cpu_levels))}"
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
