"""The report of `canonical`: one row per model, what was rewritten in it, and what its app saves.
Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table

from orchestrator.errors import OrchestratorError, visible
from orchestrator.report.table import Column, Row, human_bytes, new_table, plain_text
from orchestrator.values.operators import OperatorName

State = Literal["written", "current", "differs", "unused"]


@dataclass(frozen=True)
class RewriteLine:
    """Calls of one operator that became others, and why."""

    name: str
    old: str
    new: tuple[str, ...]
    calls: int
    why: str

    def __str__(self) -> str:
        new = f"becomes {', '.join(self.new)}" if self.new else "is not needed"
        calls = f"{self.calls} calls" if self.calls > 1 else "1 call"
        return f"{self.name}: {self.old} ({calls}) {new}: {self.why}"


@dataclass(frozen=True)
class OmittedRewrite:
    """A rewrite that was not applied: it makes the app's library larger, or it brings an operator
    that the app forbids."""

    name: str
    bytes: int
    forbidden: str | None = None

    def __str__(self) -> str:
        if self.forbidden:
            return f"{self.name}: left out: it brings {self.forbidden}, which app.yaml forbids"
        larger = human_bytes(self.bytes)
        return f"{self.name}: left out: with it the app's library is {larger} larger"


@dataclass(frozen=True)
class Shared:
    """The part of an app's root operators that another app has too, before and after."""

    app: str
    before: float
    after: float

    def __str__(self) -> str:
        return f"{self.app} ({self.before:.0%} -> {self.after:.0%})"


@dataclass(frozen=True)
class PricedApp:
    """An app of which models were converted: root operators of all its models, estimates of its
    library, and the apps that have a larger part of its operators than before."""

    app: str
    before: int
    after: int
    library_before: int
    library_after: int
    shares: tuple[Shared, ...]


@dataclass(frozen=True)
class CanonicalRow:
    """A converted model.

    state           `written`, or `current`: nothing had to be; without --write `current` or
                    `differs`; `unused`: app.yaml does not have builds use it
    before, after   its root operators
    library_before, library_after  estimates for a library of this model alone, with all dtypes
    largest         difference of all that were compared
    microseconds    of the model and of what was made of it: the least CPU times of its own calls,
                    summed, in torch's lite interpreter
    compared, not_taken, unsteady  calls that gave the same, that the model refuses, and that give
                    other values each time
    proving_little  of those compared, the ones whose numbers are all one, or too small to tell
    notes           what the conversion of a program of torch.export tells people
    """

    app: str
    model: str
    file: str
    kind: str
    state: State
    torch: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    library_before: int
    library_after: int
    largest: float
    compared: int
    not_taken: int
    unsteady: int
    rewrites: tuple[RewriteLine, ...]
    left: tuple[OmittedRewrite, ...] = ()
    microseconds: tuple[float, float] | None = None
    proving_little: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RefusedModel:
    """A model that cannot be made canonical, and why."""

    app: str
    model: str
    error: OrchestratorError


@dataclass(frozen=True)
class CanonicalReport:
    """All that was converted, and what was refused."""

    rows: tuple[CanonicalRow, ...]
    apps: tuple[PricedApp, ...]
    refused: tuple[RefusedModel, ...] = ()


def in_place(operators: Iterable[str]) -> int:
    """Number of these operators that write to one of their arguments in place."""
    names = (OperatorName(operator).qualified for operator in operators)
    return sum(name.endswith("_") and not name.endswith("__") for name in names)


def to_json(report: CanonicalReport) -> str:
    """{"format": 1, "models": [{"app": s, "model": s, "file": s, "kind": s, "state": s, "torch": s,
    "operators_before": [s], "operators_after": [s], "in_place_before": n,
    "in_place_after": n, "bytes_before": n, "bytes_after": n, "library_saved_estimate": n,
    "largest_difference": x, "calls_compared": n, "calls_not_taken": n, "calls_unsteady": n,
    "calls_proving_little": n,
    "rewrites": [{"name": s, "from": s, "to": [s], "calls": n, "why": s}],
    "left_out": [{"name": s, "bytes": n, "forbidden": s|null}], "notes": [s],
    "microseconds_before": x|null, "microseconds_after": x|null}],
    "apps": [{"app": s, "operators_before": n, "operators_after": n, "library_before_estimate": n,
    "library_after_estimate": n, "shares": [{"app": s, "before": x, "after": x}]}],
    "refused": [{"app": s, "model": s, "error": {...}}]}"""
    answer = {
        "format": 1,
        "models": [_json(row) for row in report.rows],
        "apps": [_app(one) for one in report.apps],
        "refused": [
            {"app": one.app, "model": one.model, "error": one.error.to_json()}
            for one in report.refused
        ],
    }
    return json.dumps(answer, indent=2) + "\n"


def _app(one: PricedApp) -> dict[str, Any]:
    return {
        "app": one.app,
        "operators_before": one.before,
        "operators_after": one.after,
        "library_before_estimate": one.library_before,
        "library_after_estimate": one.library_after,
        "shares": [
            asdict(its) | {"before": round(its.before, 3), "after": round(its.after, 3)}
            for its in one.shares
        ],
    }


def _json(row: CanonicalRow) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in ("app", "model", "file", "kind", "state")},
        "torch": row.torch,
        "operators_before": list(row.before),
        "operators_after": list(row.after),
        "in_place_before": in_place(row.before),
        "in_place_after": in_place(row.after),
        "bytes_before": row.bytes_before,
        "bytes_after": row.bytes_after,
        "library_saved_estimate": row.library_before - row.library_after,
        "largest_difference": row.largest,
        "calls_compared": row.compared,
        "calls_not_taken": row.not_taken,
        "calls_unsteady": row.unsteady,
        "calls_proving_little": row.proving_little,
        "rewrites": [rewrite_value(line) for line in row.rewrites],
        "left_out": [asdict(one) for one in row.left],
        "notes": list(row.notes),
        "microseconds_before": row.microseconds and row.microseconds[0],
        "microseconds_after": row.microseconds and row.microseconds[1],
    }


def rewrite_value(line: RewriteLine) -> dict[str, Any]:
    """{"name": s, "from": s, "to": [s], "calls": n, "why": s}"""
    value = asdict(line)
    return {"name": value["name"], "from": value["old"], "to": list(value["new"])} | {
        name: value[name] for name in ("calls", "why")
    }


def show(report: CanonicalReport, console: Console) -> None:
    """Prints the table and the rewrites: with rules on a terminal, else as `plain`."""
    if console.is_terminal:
        console.print(_table(report.rows, console.width))
        console.print(*_lines(report), sep="\n", highlight=False, markup=False)
    else:
        console.file.write(plain(report))


def plain(report: CanonicalReport) -> str:
    """The same as plain text, with a last newline; columns are two blanks apart."""
    lines = "".join(f"{line}\n" for line in _lines(report))
    return f"{plain_text(_table(report.rows))}\n{lines}"


_COLUMNS: Final = (
    Column("app"),
    Column("model"),
    Column("operators", True),
    Column("in place", True, 4),
    Column("file", True, 2),
    Column("library", True, 5),
    Column("difference", True, 3),
    Column("calls", True, 1),
)


def _table(rows: Sequence[CanonicalRow], width: int | None = None) -> Table:
    return new_table(_COLUMNS, [Row(_cells(row)) for row in rows], width)


def _cells(row: CanonicalRow) -> tuple[str, ...]:
    saved = row.library_before - row.library_after
    return (
        row.app,
        row.model,
        f"{len(row.before)} -> {len(row.after)}",
        f"{in_place(row.before)} -> {in_place(row.after)}",
        f"{human_bytes(row.bytes_before)} -> {human_bytes(row.bytes_after)}",
        f"{'-' if saved >= 0 else '+'}{human_bytes(abs(saved))}",
        f"{row.largest:.0e}" if row.largest else "0",
        str(row.compared),
    )


def _lines(report: CanonicalReport) -> Iterator[str]:
    for row in report.rows:
        said = _STATES[row.state].format(file=row.file, kind=row.kind)
        yield f"//apps/{row.app} {row.model}: {said}"
        for note in row.notes:
            yield f"  {visible(note)}"
        for line in row.rewrites:
            yield f"  {visible(str(line))}"
        for one in row.left:
            yield f"  {visible(str(one))}"
        if row.microseconds:
            before, after = row.microseconds
            yield (
                f"  CPU time of its calls, in torch's lite interpreter: {before:,.0f} us ->"
                f" {after:,.0f} us"
            )
        if row.not_taken:
            yield f"  {row.not_taken} more calls were not compared: the model takes no such inputs"
        if row.proving_little:
            yield (
                f"  {row.proving_little} of them prove little: the model gives one number"
                " everywhere, or numbers as small as the tolerance"
            )
        if row.unsteady:
            yield f"  {row.unsteady} calls were not compared: they give other values each time"
    for app in report.apps:
        yield (
            f"//apps/{app.app}: {app.before} -> {app.after} root operators, its library"
            f" {human_bytes(app.library_before)} -> {human_bytes(app.library_after)} by the index"
        )
        if app.shares:
            yield f"  has more in common with {', '.join(map(str, app.shares))}"
    for refused in report.refused:
        yield f"//apps/{refused.app} {refused.model}: refused: {visible(refused.error.what)}"


_STATES: Final[Mapping[State, str]] = {
    "written": "{file} was written: commit it with its lock, and trace the app again",
    "current": "{file} is as it is to be",
    "differs": "{file} is to be written: --write does it",
    "unused": "declare `canonical: {kind}` in app.yaml to use it",
}
