"""Records models in the development library, in place of their app's tracer.

Contract: a recording is what the tracer of the app's closure would record, or there is none.
- What was recorded in a process in which an operator or a dtype was missing, also in a set-up call,
  does not count. What was missing is compiled, and the model runs again in a new process.
- No shard registers an operator outside of the closure. One that the model reaches stays missing,
  which the tracer would say of it too.
- Nothing may have failed and been caught: who catches an error may go on in another way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.build.development import Development, Shard
from orchestrator.build.run import require_accepted
from orchestrator.build.session import RuntimeSession
from orchestrator.build.shard_contents import (
    errors_of,
    missing_dtypes,
    missing_operators,
    recorded_operators,
    recorded_wide,
)
from orchestrator.build.subject import app_subjects
from orchestrator.build.variants import VariantRequest
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.values.config import ModelConfig
from orchestrator.verify.model_runner import run_model
from orchestrator.verify.verdict import RunnerResult

# What a set-up call fails with, in PyTorch's own words (native/capi/capi.cpp knows them too).
_NO_OPERATOR: Final = re.compile(r"Could not find schema for ([\w:]+(?:\.\w+)?)")
_NO_DTYPE: Final = re.compile(r"dtype '(\w+)' not selected for kernel tag ([\w.<>]+)")


class UnsureRecordingError(OrchestratorError):
    """What was recorded of a model may be less than what it uses."""


@dataclass
class OnDemandTracer:
    """An app's models in the development library, watched by the recorder.

    development  the library, which is available
    request      the tracer that it stands for: its operators are the closure
    compiled     how many units were compiled, up to now
    The caller holds the workspace's lock.
    """

    session: RuntimeSession
    app: App
    development: Development
    request: VariantRequest
    compiled: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        subjects = app_subjects(self.session, self.app, ())
        closure = self.request.selection.operators.keys()
        operators = (recorded_operators(self.session, one) for one in subjects)
        wide = (recorded_wide(self.session, one) for one in subjects)
        self._operators = frozenset[str]().union(*operators) & closure
        self._wide = frozenset[str]().union(*wide)
        self._base = self.development.base
        self.compiled += self._base.compiled or 0
        self._shard = self._made()

    @property
    def units(self) -> int:
        """How many units the library has: the base's, and those of the last shard."""
        return self._base.units + self._shard.units

    def _made(self) -> Shard:
        roots = self.request.selection.root_operators
        shard = self.development.shard(roots, self._operators, self._wide)
        self.compiled += shard.compiled or 0
        return shard

    def run(self, model: ModelConfig, fill: int | None) -> RunnerResult:
        """Run a model on its inputs, again and again until nothing comes up missing that its app's
        tracer has. fill: see `run_model`.

        Raises UnsureRecordingError, ShardRefusedError, and what compiling and linking raise.
        """
        while True:
            seen = self._run(model, fill)
            require_accepted(seen, self._shard)
            if not self._joined(seen):
                break
            self._shard = self._made()
        if not errors_of(seen) and seen.result is not None:
            self._require_sure(model, seen.result["trace"])
        return seen

    def _run(self, model: ModelConfig, fill: int | None) -> RunnerResult:
        shipped, context = self.session.shipped(self.app, model), self.session.context
        return run_model(
            [str(self._base.runner), "--record"],
            shipped.path,
            model,
            context.env,
            libraries=self._base.extended.path.parent,
            recorded=shipped.inputs,
            fill=fill,
            addon=self._shard.path,
            runner=context.runner,
        )

    def _joined(self, seen: RunnerResult) -> bool:
        """Add what came up missing; whether there was something new."""
        failures = "\n".join([] if seen.result is None else _setup_failures(seen.result["trace"]))
        absent = {*missing_operators(seen), *_NO_OPERATOR.findall(failures)}
        dtypes = missing_dtypes(seen)
        dtypes |= {tag: dtype for dtype, tag in _NO_DTYPE.findall(failures)}
        new = absent & self.request.selection.operators.keys() - self._operators
        wider = dtypes.keys() - self._wide
        if not (new or wider):
            return False
        told = (*sorted(new), *(f"{tag} for {dtypes[tag]}" for tag in sorted(wider)))
        self.session.log(f"{', '.join(told)}: not there yet, compiling")
        self._operators |= new
        self._wide |= wider
        return True

    def _require_sure(self, model: ModelConfig, recording: Mapping[str, Any]) -> None:
        place = Place(self.app.place.file)
        caught = recording["failed_in"]
        seen = [f"the set-up call {failure}" for failure in _setup_failures(recording)]
        if caught:
            seen.append(f"an error in {', which called '.join(caught)}, which the model survived")
        if seen:
            raise UnsureRecordingError(
                f"what was recorded of the model {model.name} may be less than it uses",
                place=place,
                expected="a run in which nothing fails",
                seen=seen[0],
                hint="trace with --tracer: it has all that the model can reach",
            )


def _setup_failures(recording: Mapping[str, Any]) -> list[str]:
    return [f"{one['call']}: {one['text']}" for one in recording["setup_failures"]]
