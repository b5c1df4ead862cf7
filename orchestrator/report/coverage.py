"""The code of models that their inputs ran: one row per method, as coverage tools print it.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from orchestrator.errors import OrchestratorError
from orchestrator.report.table import Column, Row, new_table, plain_text
from orchestrator.values.coverage import CoverageSum, MethodCoverage, total


class UncoveredError(OrchestratorError):
    """The inputs of models leave instructions or branches unrun."""


@dataclass(frozen=True)
class ModelCoverage:
    """A model's methods; None where its lock was written before coverage was recorded."""

    app: str
    model: str
    methods: tuple[MethodCoverage, ...] | None

    @property
    def sum(self) -> CoverageSum:
        return total(one.sum for one in self.methods or ())


_COLUMNS: Final = (
    Column("model"),
    Column("method"),
    Column("instructions", True, 3),
    Column("unrun", True, 4),
    Column("ways", True, 1),
    Column("untaken", True, 2),
    Column("cover", True),
    Column("missing", wraps=True),
)


def show(models: Sequence[ModelCoverage], console: Console) -> None:
    """Prints the table: with rules on a terminal, else as `plain`."""
    if console.is_terminal:
        console.print(_table(models, console.width))
    else:
        console.file.write(plain(models))


def plain(models: Sequence[ModelCoverage]) -> str:
    """The table as plain text, with a last newline."""
    return plain_text(_table(models))


def _table(models: Sequence[ModelCoverage], width: int | None = None) -> Table:
    rows = [row for model in models for row in _rows(model)]
    known = [one.sum for one in models if one.methods is not None]
    if len(rows) > 1 and known:
        rows.append(Row(("total", "", *_numbers(total(known)), "")))
    return new_table(_COLUMNS, rows, width)


def _rows(model: ModelCoverage) -> Iterator[Row]:
    name = f"{model.app}/{model.model}"
    if model.methods is None:
        yield Row((name, "", "", "", "", "", "-", "not recorded: trace it again"))
    for one in model.methods or ():
        yield Row((name, one.method, *_numbers(one.sum), "; ".join(one.missing)))


def _numbers(one: CoverageSum) -> tuple[str, ...]:
    counts = (one.instructions, one.unrun, one.ways, one.untaken)
    return (*map(str, counts), f"{one.percent}%")


def value_of(model: ModelCoverage) -> dict[str, Any] | None:
    """A model's part in the output of `trace` and `coverage`: see schemas/output.schema.json."""
    if model.methods is None:
        return None
    rows = [{"method": m.method, **_value(m.sum), "missing": [*m.missing]} for m in model.methods]
    return {**_value(model.sum), "methods": rows}


def _value(one: CoverageSum) -> dict[str, int]:
    return {
        "instructions": one.instructions,
        "unrun": one.unrun,
        "ways": one.ways,
        "untaken": one.untaken,
        "percent": one.percent,
    }


def require(models: Sequence[ModelCoverage], percent: int) -> None:
    """Raises UncoveredError unless the inputs of each model run so much of it."""
    short = [one for one in models if one.methods is None or one.sum.percent < percent]
    if short:
        unknown = any(one.methods is None for one in short)
        raise UncoveredError(
            "the inputs of models leave code unrun"
            if len(short) > 1
            else f"the inputs of //apps/{short[0].app} {short[0].model} leave code unrun",
            expected=f"{percent} % of the instructions and of the ways out of branches",
            seen=", ".join(f"{one.app}/{one.model} {_percent(one)}" for one in short),
            hint="trace the models again"
            if unknown
            else "add inputs that run what is missing, or take it out of the models",
        )


def _percent(model: ModelCoverage) -> str:
    return "not recorded" if model.methods is None else f"{model.sum.percent} %"
