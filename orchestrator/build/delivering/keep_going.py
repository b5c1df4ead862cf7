"""Failures in a build of many variants: the first one ends the build, or all are reported at the
end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.build.delivering.package import mark_unproven
from orchestrator.build.executing.execute import Execution, names_of
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.traced import read_traces
from orchestrator.errors import OrchestratorError
from orchestrator.execute.ninja_run import NINJA, failure_error
from orchestrator.report.table import VariantReport
from orchestrator.values.action import ActionGraph, Compile, Link, count_units, precompiled_headers
from orchestrator.values.labels import VariantLabel


class Failures:
    """Errors by label; one that is of no single variant has none."""

    def __init__(self, here: Invocation, keep_going: bool) -> None:
        self._here = here
        self._keep_going = keep_going
        self.by_label: dict[VariantLabel, OrchestratorError] = {}
        self.others: list[OrchestratorError] = []

    @property
    def all(self) -> tuple[OrchestratorError, ...]:
        """Every error once: first those of labels, in the labels' order, then the others as they
        occurred."""
        found = [self.by_label[label] for label in sorted(self.by_label, key=str)]
        return tuple(dict.fromkeys([*found, *self.others]))

    @contextmanager
    def of(self, *labels: VariantLabel) -> Iterator[None]:
        """Stores an error raised inside as the labels' failure, or lets it propagate."""
        try:
            yield
        except OrchestratorError as error:
            if not self._keep_going:
                raise
            for label in labels:
                self.by_label[label] = error
                mark_unproven(self._here, label)
            if not labels:
                self.others.append(error)

    def with_traces(self, labels: Sequence[VariantLabel]) -> tuple[VariantLabel, ...]:
        """The labels of apps whose traces can be read; failures are noted for the other labels.

        Without --keep-going all labels are returned, and planning raises the first failure.
        """
        if not self._keep_going:
            return tuple(labels)
        for app in sorted({label.app for label in labels}):
            with self.of(*(label for label in labels if label.app == app)):
                read_traces(self._here, self._here.workspace.apps[app])
        return tuple(label for label in labels if label not in self.by_label)

    def of_actions(
        self,
        execution: Execution,
        graph: ActionGraph,
        variants: Iterable[tuple[VariantLabel, Iterable[Compile], Iterable[Link]]],
    ) -> None:
        """Keeps the failure of every variant of which an object or a link failed."""
        log = self._here.context.state / "failures.log"
        names = names_of(self._here, graph)
        failed = execution.result.failures
        for label, compiles, links in variants if failed else ():
            outputs = self._outputs(compiles, links)
            # what ninja says of itself is of all variants
            about = failed.keys() & (outputs | {NINJA})
            if about:
                with self.of(label):
                    self._here.toolchains.require([label.abi])
                    raise failure_error(
                        execution.result, names, execution.result.actions, log, about=about
                    )

    def _outputs(self, compiles: Iterable[Compile], links: Iterable[Link]) -> set[str]:
        compiles = tuple(compiles)
        objects = (*(one.object for one in compiles), *precompiled_headers(compiles))
        return {
            self._here.runtimes.fill(path) for path in (*objects, *(link.output for link in links))
        }


def failed_row(
    label: VariantLabel, error: OrchestratorError, operators: int, compiled: int, reused: int
) -> VariantReport:
    """The report's row of a variant that failed: operators and units are counts, and the size, in
    bytes, is known only if the error has it as a fact (`stripped_bytes`)."""
    return VariantReport(
        app=label.app,
        abi=label.abi,
        operators=operators,
        units_compiled=compiled,
        units_reused=reused,
        stripped_bytes=size if isinstance(size := error.facts.get("stripped_bytes"), int) else None,
        problem=f"failed: {error.what}",
        error=error,
    )


def compiled_of(
    here: Invocation, execution: Execution, compiles: Sequence[Compile]
) -> tuple[int, int]:
    """Number of the units that this run compiled, and number of those that existed before."""
    mine = [c for c in compiles if c.object in execution.compiled]
    made = count_units(c for c in mine if Path(here.runtimes.fill(c.object)).is_file())
    return made, count_units(compiles) - count_units(mine)
