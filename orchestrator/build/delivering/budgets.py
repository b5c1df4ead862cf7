"""Checks the budgets of a library before it is delivered: of the whole, of what is downloaded, of
growth, and of single operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.build.explaining.kept_sizes import sizes_in
from orchestrator.build.explaining.size import measure, packed_bytes, record_of
from orchestrator.build.planning.plan import Variant
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.deliver.variant import Delivered
from orchestrator.errors import OrchestratorError
from orchestrator.report.size_changes import budget_details
from orchestrator.size.attribution import Attribution


class OverBudgetError(OrchestratorError):
    """A delivered library is larger than its app's budget."""


@dataclass(frozen=True)
class Sizes:
    """Sizes that budgets are compared with, each found when it is asked for.

    library     the stripped library
    attributed  finds what its bytes are for; raises OrchestratorError
    before      the attribution that `size` last kept of this variant
    """

    bytes: int
    library: Path
    attributed: Callable[[], Attribution]
    before: Attribution | None = None

    @cached_property
    def packed(self) -> int:
        """Bytes after compression."""
        return packed_bytes(self.library)

    @cached_property
    def attribution(self) -> Attribution:
        """The library's bytes by who asks for them."""
        return self.attributed()

    @cached_property
    def alone(self) -> dict[str, int]:
        """Bytes that an operator has for itself alone."""
        return self.attribution.alone()


def sizes_of(here: Invocation, variant: Variant, delivered: Delivered) -> Sizes:
    """The sizes of a library that is about to be delivered."""
    label = variant.label
    before = None
    with suppress(OrchestratorError):
        before = sizes_in(record_of(here.context.dist, label)).get((label.app, label.abi))
    library = delivered.shared_library
    runtime = here.runtimes.of(label.app)
    return Sizes(
        delivered.stripped_bytes,
        library,
        lambda: measure(here, runtime, variant, library, packed=False).attribution,
        before,
    )


def check_budget(variant: Variant, sizes: Sizes) -> None:
    """Raises OverBudgetError for the first limit that is passed, with who asks for most bytes and
    what changed since sizes were kept."""
    budget = variant.app.config.budgets.get(variant.label.abi)
    # refused beside budgets of operators
    smaller = "" if budget is None or budget.operators else " use `optimize: size`,"
    for what, limit, bytes, facts in _passed(variant, sizes):
        raise OverBudgetError(
            f"{variant.label} {what}",
            place=variant.app.place,
            expected=f"at most {limit:,} bytes",
            seen=f"{bytes:,} bytes",
            hint=f"raise the budget,{smaller} or find out which model needs an"
            f" operator: ./orchestrate why {variant.label} NAME",
            details=_details(sizes),
            facts=facts,
        )


def _passed(variant: Variant, sizes: Sizes) -> Iterator[tuple[str, int, int, dict[str, int]]]:
    """Yield the limits that are passed: in words, the limit, the bytes, and both for machines."""
    budget = variant.app.config.budgets.get(variant.label.abi)
    if budget is None:
        return
    if budget.total is not None and sizes.bytes > budget.total:
        facts = {"stripped_bytes": sizes.bytes, "budget_bytes": budget.total}
        yield "is larger than its budget", budget.total, sizes.bytes, facts
    if budget.compressed is not None and sizes.packed > budget.compressed:
        facts = {"compressed_bytes": sizes.packed, "budget_bytes": budget.compressed}
        yield "is larger than its budget after compression", budget.compressed, sizes.packed, facts
    if budget.growth is not None and sizes.before is not None:
        grown = sizes.bytes - sizes.before.size
        if grown > budget.growth:
            facts = {"grown_bytes": grown, "budget_bytes": budget.growth}
            yield "grew by more than its budget", budget.growth, grown, facts
    for name, limit in sorted(budget.operators.items()):
        own = sum(
            bytes
            for operator, bytes in sizes.alone.items()
            if name in (operator, operator.partition(".")[0])
        )
        if own > limit:
            facts = {"operator_bytes": own, "budget_bytes": limit}
            yield f"has more for {name} alone than its budget", limit, own, facts


def _details(sizes: Sizes) -> str | None:
    """Tell who asks for most of the library, and what grew; None if that cannot be determined."""
    try:
        return budget_details(sizes.attribution, sizes.before)
    except OrchestratorError:
        return None
