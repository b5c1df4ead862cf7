"""The report of `canonical`: one row a model, and what was rewritten in it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table

from orchestrator.errors import visible
from orchestrator.report.table import Column, Row, human_bytes, new_table, plain_text

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
class CanonicalRow:
    """A converted model.

    state           `written`, or `current`: nothing had to be; without --write `current` or
                    `differs`; `unused`: app.yaml does not have builds use it
    before, after   its root operators
    library_before, library_after  estimates for a library of this model alone, with all dtypes
    largest         difference of all that were compared
    compared, not_taken, unsteady  calls that gave the same, that the model refuses, and that give
                    other values each time
    """

    app: str
    model: str
    file: str
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


def in_place(operators: Iterable[str]) -> int:
    """How many of these operators write to a tensor that they are given."""
    names = (operator.partition(".")[0] for operator in operators)
    return sum(name.endswith("_") and not name.endswith("__") for name in names)


def to_json(rows: Sequence[CanonicalRow]) -> str:
    """{"format": 1, "models": [{"app": s, "model": s, "file": s, "state": s, "torch": s,
    "operators_before": [s], "operators_after": [s], "in_place_before": n,
    "in_place_after": n, "bytes_before": n, "bytes_after": n, "library_saved_estimate": n,
    "largest_difference": x, "calls_compared": n, "calls_not_taken": n, "calls_unsteady": n,
    "rewrites": [{"name": s, "from": s, "to": [s], "calls": n, "why": s}]}]}"""
    return json.dumps({"format": 1, "models": [_json(row) for row in rows]}, indent=2) + "\n"


def _json(row: CanonicalRow) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in ("app", "model", "file", "state")},
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
        "rewrites": [_rewrite(line) for line in row.rewrites],
    }


def _rewrite(line: RewriteLine) -> dict[str, Any]:
    value = asdict(line)
    return {"name": value["name"], "from": value["old"], "to": list(value["new"])} | {
        name: value[name] for name in ("calls", "why")
    }


def show(rows: Sequence[CanonicalRow], console: Console) -> None:
    """Prints the table and the rewrites: with rules on a terminal, else as `plain`."""
    if console.is_terminal:
        console.print(_table(rows, console.width))
        console.print(*_lines(rows), sep="\n", highlight=False, markup=False)
    else:
        console.file.write(plain(rows))


def plain(rows: Sequence[CanonicalRow]) -> str:
    """The same as plain text, with a last newline; columns are two blanks apart."""
    return plain_text(_table(rows)) + "\n" + "".join(f"{line}\n" for line in _lines(rows))


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


def _lines(rows: Sequence[CanonicalRow]) -> Iterator[str]:
    for row in rows:
        yield f"//apps/{row.app} {row.model}: {_STATES[row.state].format(file=row.file)}"
        for line in row.rewrites:
            yield f"  {visible(str(line))}"
        if row.not_taken:
            yield f"  {row.not_taken} more calls were not compared: the model takes no such inputs"
        if row.unsteady:
            yield f"  {row.unsteady} calls were not compared: they give other values each time"


_STATES: Final[Mapping[State, str]] = {
    "written": "{file} was written: commit it with its lock, and trace the app again",
    "current": "{file} is as it is to be",
    "differs": "{file} is to be written: --write does it",
    "unused": "declare `canonical: static` in app.yaml to use it",
}
