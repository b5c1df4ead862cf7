"""Compiles real units for the tests of shipped data, in the cache where builds find them too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from core_toy import this_checkout

from orchestrator.build.executing.execute import execute_actions
from orchestrator.build.indexing.make_index import index_spec
from orchestrator.build.workshop.invocation import load
from orchestrator.codegen.projection import index_text
from orchestrator.index.model import UnitFacts
from orchestrator.plan.flags import Purpose
from orchestrator.plan.graph import native_compiles, projection_files
from orchestrator.plan.variant import VariantSpec, index_unit
from orchestrator.values.action import ActionGraph, Compile
from orchestrator.values.fingerprint import text_digest
from orchestrator.values.selection import Selection

EVERYTHING = Selection(everything=True)
OPEN = UnitFacts("", 0.0, open_tags=True)


class NoView:
    """Shows nothing."""

    def __enter__(self) -> NoView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

    def feed(self, line: str) -> None: ...


class RealUnits:
    """This checkout, with a state folder of the test's own."""

    def __init__(self, state: Path, runtime: str = "pytorch_1_13") -> None:
        here = this_checkout()
        self.here = load(replace(here.context, state=state), here.log)
        self.runtime = self.here.runtimes.on(runtime)

    def spec(self, purpose: Purpose) -> VariantSpec:
        """As the maintainer's `runtime index` compiles."""
        return replace(index_spec(self.here, self.runtime), purpose=purpose)

    def native(self, sources: Iterable[str], purpose: Purpose) -> dict[str, Path]:
        """Our own sources as objects, by their name."""
        spec = self.spec(purpose)
        return self.made(native_compiles(self.runtime.facts, spec, sources, self.runtime.native))

    def units(self, paths: Iterable[str]) -> dict[str, Path]:
        """Units of PyTorch as objects, with all operators and dtypes, by their path."""
        facts, spec = self.runtime.facts, self.spec("release")
        return self.made(index_unit(facts, spec, replace(OPEN, path=path)) for path in paths)

    def made(self, actions: Iterable[Compile]) -> dict[str, Path]:
        """The objects of actions, by their units."""
        placed = map(self.runtime.placed, actions)
        compiles: Mapping[str, Compile] = {action.object: action for action in placed}
        text = index_text()
        execution = execute_actions(
            self.here,
            ActionGraph(compiles),
            projection_files({text_digest(text): text}),
            name="test",
            targets=sorted(compiles),
            jobs=None,
            keep_going=True,
            view=lambda costs, jobs: NoView(),
        )
        assert execution.result.failures == {}
        return {one.unit: Path(self.runtime.fill(path)) for path, one in compiles.items()}
