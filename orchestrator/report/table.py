"""The report of a build: one row per variant, as text and as JSON.

Contract: `BuildReport` is a value; `to_json` is its documented form and `show` prints it. Away from
a terminal the text has no colour and no box drawing, no trailing blanks, and the same bytes for the
same report.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.errors import OrchestratorError, visible
from orchestrator.report.packages import PackageReport
from orchestrator.values.labels import VariantLabel
from orchestrator.verify.flat import flat_line
from orchestrator.verify.verdict import Status

UNKNOWN: Final = "-"
# Wider than any table: away from a terminal nothing is wrapped or cut.
_WIDE: Final = 10_000


@dataclass(frozen=True)
class Exported:
    """Exports of a library for add-ons: number of names, and their bytes in each section of its
    dynamic symbol table (`binary.elf_symbols.exported_bytes`)."""

    names: int
    sections: Mapping[str, int]

    @property
    def bytes(self) -> int:
        """In all sections."""
        return sum(self.sections.values())

    def to_json(self) -> dict[str, Any]:
        """See `BuildReport.to_json`."""
        sections = {name: self.sections[name] for name in sorted(self.sections)}
        return {"names": self.names, "bytes": self.bytes, "sections": sections}


@dataclass(frozen=True)
class Engine:
    """An engine of kernels in a library: the bytes of its functions and objects.

    models  models with layers that it computes, sorted; None if that is not known
    """

    name: str
    bytes: int
    models: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """See `BuildReport.to_json`."""
        models = None if self.models is None else list(self.models)
        return {"name": self.name, "bytes": self.bytes, "models": models}


@dataclass(frozen=True)
class VariantReport:
    """One app for one ABI. Sizes are bytes of the stripped shared library, or what an app's
    linker takes of a static one.

    `units_compiled` ran in this build, `units_reused` were there before. `all_operators_bytes` is
    what the library of all operators has at the same flags, where it is known. `verified` is None
    where the build did not get so far; `problem` has a short reason, `error` the full one.
    `same_structure_as` is the executed ABI of the same app to which this one, not executed here, is
    structurally identical. `extensible` is None where it takes no add-ons, `engines` where nobody
    asked for them, or the library's format tells nothing of them.
    `levels_run` are the CPU levels, lowest first, at which every model ran, of those that the
    library chooses from, `levels_not_run` the others: none of either where it has no levels, or
    did not run at all. `flat` are the outputs of its models whose numbers are all the same.
    """

    app: str
    abi: str
    operators: int
    units_compiled: int
    units_reused: int
    stripped_bytes: int | None = None
    all_operators_bytes: int | None = None
    verified: Status | None = None
    problem: str = ""
    for_release: bool = True
    same_structure_as: str | None = None
    error: OrchestratorError | None = None
    levels_run: tuple[str, ...] = ()
    levels_not_run: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()
    extensible: Exported | None = None
    engines: tuple[Engine, ...] | None = None

    @property
    def label(self) -> VariantLabel:
        return VariantLabel(self.app, self.abi)

    @property
    def saved_percent(self) -> float | None:
        """Size saved against the library of all operators, in per cent of that; None if either is
        unknown."""
        if self.stripped_bytes is None or not self.all_operators_bytes:
            return None
        return 100 * (1 - self.stripped_bytes / self.all_operators_bytes)


@dataclass(frozen=True)
class BuildReport:
    """A build: its variants and packages, how many actions ran, its wall seconds, and the errors
    that are of no single variant.

    replayed: the report of the previous build; everything is up to date, and nothing was run.
    """

    variants: tuple[VariantReport, ...]
    actions_run: int = 0
    seconds: float = 0.0
    packages: tuple[PackageReport, ...] = ()
    errors: tuple[OrchestratorError, ...] = ()
    replayed: bool = False

    def to_json(self) -> str:
        """JSON with a last newline; variants are sorted by app and ABI. Its shape:

        {"format": 1, "replayed": b, "actions_run": n, "seconds": x, "variants": [{"app": s,
        "abi": s, "operators": n, "units_compiled": n, "units_reused": n, "stripped_bytes": n|null,
        "all_operators_bytes": n|null, "saved_percent": x|null,
        "verified": "ok"|"ok in part"|"failed"|"not run here"|null, "problem": s,
        "levels_run": [s], "levels_not_run": [s], "flat": [s], "for_release": b, "made_as": s|null,
        "extensible": null | {"names": n, "bytes": n, "sections": {s: n}}, "engines": null |
        [{"name": s, "bytes": n, "models": [s]|null}], "error": ...|null}],
        "packages": [...], "errors": [...]}, the packages as `PackageReport.to_json` has them, and
        as `OrchestratorError.to_json` each variant's error, and those that are of no single one.

        Seconds are rounded to milliseconds, per cents to two places.
        """
        shape = {
            "format": 1,
            "replayed": self.replayed,
            "actions_run": self.actions_run,
            "seconds": round(self.seconds, 3),
            "variants": [_variant_json(variant) for variant in _sorted(self.variants)],
            "packages": [package.to_json() for package in self.packages],
            "errors": [error.to_json() for error in self.errors],
        }
        return json.dumps(shape, indent=2) + "\n"


def show(report: BuildReport, console: Console) -> None:
    """Prints the table: with colour and rules on a terminal, without the columns that it is too
    narrow for, else as `plain` has it."""
    if console.is_terminal:
        for part in _parts(report, console.width):
            console.print(part)
    else:
        console.file.write(plain(report))


def plain(report: BuildReport) -> str:
    """The table as plain text with a last newline; columns are two blanks apart."""
    return plain_text(*_parts(report))


def plain_text(*parts: RenderableType) -> str:
    """Tables and lines without colour, rules and trailing blanks; nothing is wrapped or cut."""
    target = io.StringIO()
    console = Console(
        file=target, width=_WIDE, color_system=None, force_terminal=False, legacy_windows=False
    )
    for part in parts:
        console.print(part)
    return "".join(line.rstrip() + "\n" for line in target.getvalue().splitlines())


def human_bytes(count: int) -> str:
    """Decimal units, three digits: 1317024 -> `1.32 MB`; below 1000 exact."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        # 999.5 would be printed as 1000.
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    return (
        f"{count} B"
        if unit == "B"
        else f"{size:.3g} {unit}"
        if size < 100
        else f"{size:.0f} {unit}"
    )


def _sorted(variants: Sequence[VariantReport]) -> list[VariantReport]:
    return sorted(variants, key=lambda variant: (variant.app, variant.abi))


def _variant_json(variant: VariantReport) -> dict[str, Any]:
    saved = variant.saved_percent
    return {
        "app": variant.app,
        "abi": variant.abi,
        "operators": variant.operators,
        "units_compiled": variant.units_compiled,
        "units_reused": variant.units_reused,
        "stripped_bytes": variant.stripped_bytes,
        "all_operators_bytes": variant.all_operators_bytes,
        "saved_percent": None if saved is None else round(saved, 2),
        "verified": variant.verified,
        "problem": variant.problem,
        "levels_run": list(variant.levels_run),
        "levels_not_run": list(variant.levels_not_run),
        "flat": list(variant.flat),
        "for_release": variant.for_release,
        "made_as": variant.same_structure_as,
        "extensible": variant.extensible and variant.extensible.to_json(),
        "engines": None
        if variant.engines is None
        else [engine.to_json() for engine in variant.engines],
        "error": variant.error and variant.error.to_json(),
    }


def _parts(report: BuildReport, width: int | None = None) -> Iterator[RenderableType]:
    """The variants' table, a line for each that takes add-ons, one for each whose engines were
    asked for, the packages' table, and a line for each variant that did not run at all of its CPU
    levels, for each with outputs that prove nothing, and for each package that was not made.

    width: of the terminal; None where there is none.
    """
    rows = [Row(_cells(v), _style(v)) for v in _sorted(report.variants)]
    yield new_table(_COLUMNS, rows, width)
    for variant in _sorted(report.variants):
        if variant.extensible is not None:
            yield Text(_extensible_line(variant, variant.extensible))
    for variant in _sorted(report.variants):
        if variant.engines is not None:
            yield Text(_engines_told(variant, variant.engines))
    if any(package.files for package in report.packages):
        yield ""
        yield _package_table(report.packages, width)
    for variant in _sorted(report.variants):
        if variant.levels_not_run:
            yield Text(_levels_told(variant))
        if variant.flat:
            yield Text(f"{variant.label}: {flat_line(variant.flat)}")
    for package in report.packages:
        if checksum := package.checksum():
            yield Text(checksum)
        if package.missing:
            yield Text(package.why_not())


@dataclass(frozen=True)
class Column:
    """A column: its heading, whether it has numbers, and when it is omitted.

    leaves  on a terminal that is too narrow for all columns those with a number are dropped, the
            lowest first; None stays
    wraps   its texts may take several lines
    """

    name: str
    is_number: bool = False
    leaves: int | None = None
    wraps: bool = False


@dataclass(frozen=True)
class Row:
    """A row's texts, and how they look on a terminal: one style for all, or for single columns."""

    cells: Sequence[str]
    style: str | Mapping[str, str] = ""


# Between two columns on a terminal: padding, and the rule's own.
_GAP: Final = 3


def new_table(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> Table:
    """A table with rules and colour for a terminal of a width, without for None.

    No text of a column that stays is cut, unless that column alone is wider than the terminal.
    """
    fancy = width is not None
    table = Table(
        box=SIMPLE_HEAD if fancy else None,
        show_edge=False,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold" if fancy else "",
    )
    kept = range(len(columns)) if width is None else _kept(columns, rows, width)
    for number in kept:
        column = columns[number]
        table.add_column(
            column.name,
            justify="right" if column.is_number else "left",
            no_wrap=fancy and not column.wraps,
            overflow="fold",
        )
    for row in rows:
        whole = row.style if isinstance(row.style, str) else ""
        styles = {} if isinstance(row.style, str) else row.style
        # as texts: messages may have names with brackets, which rich takes for markup
        cells = (
            Text(visible(row.cells[n]), style=styles.get(columns[n].name, "") if fancy else "")
            for n in kept
        )
        table.add_row(*cells, style=whole if fancy else "")
    return table


def _kept(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[int]:
    """The columns for which a terminal has room."""

    def least(number: int) -> int:
        texts = [columns[number].name, *(visible(row.cells[number]) for row in rows)]
        if columns[number].wraps:
            texts = [word for text in texts for word in text.split()]
        return max((cell_len(text) for text in texts), default=0)

    widths = [least(number) + _GAP for number in range(len(columns))]
    kept = list(range(len(columns)))
    leaving = [n for n in kept if columns[n].leaves is not None]
    for number in sorted(leaving, key=lambda n: columns[n].leaves or 0):
        if sum(widths[n] for n in kept) - _GAP <= width:
            break
        kept.remove(number)
    return kept


def _levels_told(variant: VariantReport) -> str:
    verified = f"verified at CPU level {', '.join(variant.levels_run)}; "
    return (
        f"{variant.label}: {verified if variant.levels_run else ''}"
        f"not run here at {', '.join(variant.levels_not_run)}"
    )


def _package_table(packages: Sequence[PackageReport], width: int | None) -> Table:
    """One row for each main file; what goes with it, symbols for example, is counted."""
    rows = []
    for package in packages:
        if package.files:
            main, *others = package.files
            more = f"{len(others)} more, {human_bytes(package.bytes)} in all" if others else ""
            rows.append(Row((main.path, human_bytes(main.bytes), more)))
    return new_table(_PACKAGE_COLUMNS, rows, width)


_COLUMNS: Final = (
    Column("app"),
    Column("ABI"),
    Column("operators", True, 1),
    Column("compiled", True, 3),
    Column("reused", True, 2),
    Column("stripped", True),
    Column("all operators", True, 0),
    Column("saved", True, 4),
    Column("verified", wraps=True),
)
_PACKAGE_COLUMNS: Final = (
    Column("package", wraps=True),
    Column("size", True),
    Column("with", leaves=0),
)


def _extensible_line(variant: VariantReport, exported: Exported) -> str:
    """Return the line about the bytes that exports for add-ons take."""
    share = ""
    if variant.stripped_bytes:
        share = f", {100 * exported.bytes / variant.stripped_bytes:.1f} % of the library"
    return (
        f"{variant.label} exports {exported.names:,} names for add-ons:"
        f" {exported.bytes:,} bytes of its symbol table{share}"
    )


def _engines_told(variant: VariantReport, engines: Sequence[Engine]) -> str:
    """Return the line about the bytes of each engine, and the models for which it computes
    layers."""
    told = []
    for engine in engines:
        models = f" ({', '.join(engine.models)})" if engine.models else ""
        told.append(f"{engine.name} {engine.bytes:,} bytes{models}")
    return f"{variant.label} has {', '.join(told) or 'no engine of kernels'}"


def _style(variant: VariantReport) -> str | Mapping[str, str]:
    if _is_bad(variant):
        return "red"
    if variant.verified is None:
        return ""
    good = variant.verified == "ok" and variant.for_release
    return {"verified": "green" if good else "yellow"}


def _is_bad(variant: VariantReport) -> bool:
    return bool(variant.problem) or variant.verified == "failed"


def _cells(variant: VariantReport) -> list[str]:
    saved = variant.saved_percent
    verdict = variant.problem or variant.verified or UNKNOWN
    if variant.same_structure_as and not variant.problem:
        verdict += f", same structure as {variant.same_structure_as}"
    if not variant.for_release:
        verdict += ", NOT FOR RELEASE"
    return [
        variant.app,
        variant.abi,
        str(variant.operators),
        str(variant.units_compiled),
        str(variant.units_reused),
        _size(variant.stripped_bytes),
        _size(variant.all_operators_bytes),
        UNKNOWN if saved is None else f"{saved:.1f} %",
        verdict,
    ]


def _size(count: int | None) -> str:
    return UNKNOWN if count is None else human_bytes(count)
