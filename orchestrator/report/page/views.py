"""Rows that the page tells of libraries in: each table has all of its chart's numbers. Pure.

A row that stands for the rest makes each table add up to the library.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from orchestrator.report.size import dtype_row, told_dtypes
from orchestrator.size.areas import area_of, by_area
from orchestrator.size.attribution import Attribution
from orchestrator.size.changes import ANY, SEVERAL

# Colours of the style sheet, by number; the last is of what belongs to nobody, and of small parts.
COLOURS: Final = 9
_NOBODYS: Final = COLOURS - 1
_REGISTRATIONS: Final = "registrations"
# Rows of a table, and what is left of them if there are many libraries.
_MOST: Final = 40
_FEW: Final = 12
_MANY_LIBRARIES: Final = 40
_OWN_UNITS: Final = 3


@dataclass(frozen=True)
class Row:
    """A row of a table and a cell of its chart.

    group   the cell that it is in; "" for one of its own
    colour  a number below COLOURS
    cells   texts of the columns after the name, the bytes and the per cent
    """

    name: str
    bytes: int
    group: str = ""
    colour: int = _NOBODYS
    cells: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """The bytes of a library by one attribution. columns: heads of the rows' cells."""

    by: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Library:
    """Facts about one library. key: what links on the page lead to."""

    key: str
    app: str
    abi: str
    bytes: int
    packed: int | None
    views: tuple[View, ...]


@dataclass(frozen=True)
class Shared:
    """Bytes of a library by how many apps have their source files, for the same ABI.

    alone, some, all  files that no other app has, that some have, that all have
    largest           files that no other app has, and their bytes
    """

    app: str
    abi: str
    alone: int
    some: int
    all: int
    largest: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """The whole library."""
        return self.alone + self.some + self.all


def libraries_of(found: Sequence[Attribution]) -> tuple[Library, ...]:
    """The libraries, in the order given."""
    most = _FEW if len(found) > _MANY_LIBRARIES else _MOST
    areas = Counter[str]()
    for one in found:
        areas.update(by_area(one))
    largest = sorted(areas, key=lambda area: (-areas[area], area))
    colours = {area: min(number, _NOBODYS) for number, area in enumerate(largest)}
    return tuple(
        Library(
            f"{one.app}--{one.abi}",
            one.app,
            one.abi,
            one.size,
            one.packed,
            tuple(_views(one, colours, most)),
        )
        for one in found
    )


def _views(one: Attribution, colours: Mapping[str, int], most: int) -> Iterator[View]:
    areas = [Row(area, size, "", colours[area]) for area, size in by_area(one).items()]
    yield View("part", (), tuple(areas))
    yield _view("operator", ("by dtype", "with others", "asked by"), _operators(one), most)
    yield _view("dtype", (), _dtypes(one), most)
    yield _view("model", (), _models(one), most)
    yield _view("source file", ("part",), _units(one, colours), most)


def _operators(one: Attribution) -> Iterator[Row]:
    yield Row(ANY, one.base)
    if one.several:
        yield Row(SEVERAL, one.several, "", 0)
    shared, dtypes = one.shared(), one.dtypes_alone()
    for name, size in one.alone().items():
        sites = one.asked[name].sites
        who = ", ".join(f"{model}: {at[0]}" if at else model for model, at in sites.items())
        with_others = f"{shared[name]:,}" if name in shared else ""
        yield Row(name, size, "", 1, (told_dtypes(dtypes[name]), with_others, who))


def _dtypes(one: Attribution) -> Iterator[Row]:
    for number, (dtype, size) in enumerate(one.by_dtype().items()):
        yield Row(dtype_row(dtype), size, "", min(number, _NOBODYS))


def _models(one: Attribution) -> Iterator[Row]:
    for number, (models, size) in enumerate(one.by_models().items()):
        yield Row(", ".join(models) or ANY, size, "", number % _NOBODYS if models else _NOBODYS)


def _units(one: Attribution, colours: Mapping[str, int]) -> Iterator[Row]:
    """Source files, each with the part that most of its bytes belong to."""
    parts = defaultdict[str, Counter[str]](Counter)
    for share in one.shares:
        parts[share.unit or _REGISTRATIONS][area_of(share)] += share.bytes
    for name, size in one.by_unit().items():
        unit = name or _REGISTRATIONS
        part = parts[unit].most_common(1)[0][0]
        yield Row(unit, size, part, colours[part], (part,))


def _view(by: str, columns: tuple[str, ...], rows: Iterator[Row], most: int) -> View:
    """The largest rows, and for the others one in each group."""
    every = sorted((row for row in rows if row.bytes), key=lambda row: (-row.bytes, row.name))
    left = defaultdict[str, list[Row]](list)
    for row in every[most:]:
        left[row.group].append(row)
    rest = [
        Row(
            f"({len(of_group)} more)",
            sum(row.bytes for row in of_group),
            group,
            of_group[0].colour if group else _NOBODYS,
            (group,) if group else (),
        )
        for group, of_group in left.items()
    ]
    rest.sort(key=lambda row: (-row.bytes, row.group))
    missing = {len(columns) - number: ("",) * number for number in range(len(columns) + 1)}
    filled = [
        replace(row, cells=row.cells + missing[len(row.cells)]) for row in every[:most] + rest
    ]
    return View(by, columns, tuple(filled))


def shared_by(found: Sequence[Attribution]) -> tuple[Shared, ...]:
    """Count what libraries for one ABI have in common: of each ABI for which there are several, of
    libraries of which more than the size is known."""
    of_abi = defaultdict[str, list[Attribution]](list)
    for one in found:
        if not one.is_total:
            of_abi[one.abi].append(one)
    return tuple(
        shared
        for abi in sorted(of_abi)
        if len(of_abi[abi]) > 1
        for shared in _shared_of(of_abi[abi])
    )


def _shared_of(libraries: Sequence[Attribution]) -> Iterator[Shared]:
    having = Counter(unit for one in libraries for unit in one.by_unit())
    for one in libraries:
        own = one.by_unit()
        alone = [(unit or _REGISTRATIONS, size) for unit, size in own.items() if having[unit] == 1]
        everywhere = sum(size for unit, size in own.items() if having[unit] == len(libraries))
        only = sum(size for _, size in alone)
        yield Shared(
            one.app,
            one.abi,
            only,
            one.size - only - everywhere,
            everywhere,
            tuple(alone[:_OWN_UNITS]),
        )
