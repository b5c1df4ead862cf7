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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.build.development.development import Development, Shard
from orchestrator.build.development.run import require_accepted
from orchestrator.build.development.shard_contents import (
    errors_of,
    joining,
    missing_dtypes,
    missing_operators,
    recorded_operators,
    recorded_wide,
)
from orchestrator.build.development.subject import app_subjects
from orchestrator.build.planning.variants import VariantRequest
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.operators import OperatorName
from orchestrator.verify.model_runner import run_model
from orchestrator.verify.verdict import RunnerResult

# What a set-up call fails with, in PyTorch's own words (native/capi/capi.cpp knows them too).
_NO_OPERATOR: Final = re.compile(r"Could not find schema for ([\w:]+(?:\.\w+)?)")
_NO_DTYPE: Final = re.compile(r"dtype '(\w+)' not selected for kernel tag ([\w.<>]+)")


class UnsureRecordingError(OrchestratorError):
    """A model's recording may miss something that the model uses."""


@dataclass(frozen=True)
class _Absent:
    """Operators that a run lacked, and a dtype by kernel tag."""

    operators: frozenset[OperatorName] = frozenset()
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.operators or self.dtypes)


@dataclass
class OnDemandTracer:
    """An app's models in the development library, watched by the recorder.

    development  the library, which is available
    request      the tracer that it stands for: its operators are the closure
    compiled     how many units were compiled, up to now
    The caller holds the workspace's lock.
    """

    here: Invocation
    runtime: Runtime
    app: App
    development: Development
    request: VariantRequest
    compiled: int = field(default=0, init=False)
    _rounds: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        subjects = app_subjects(self.here, self.app, ())
        closure = self.request.selection.operators.keys()
        self._base, base = self.development.base, self.development.in_base
        operators = (recorded_operators(self.here, self.runtime, one, base) for one in subjects)
        wide = (recorded_wide(self.here, self.runtime, one) for one in subjects)
        self._operators = frozenset[OperatorName]().union(*operators) & closure
        self._wide = frozenset[str]().union(*wide)
        self.compiled += len(self._base.compiled or ())
        self._shard = self._made()

    @property
    def units(self) -> int:
        """Number of units in the library: the base's, and those of the last shard."""
        return self._base.units + self._shard.units

    def _made(self) -> Shard:
        roots = self.request.selection.root_operators
        shard = self.development.shard(roots, self._operators, self._wide)
        self.compiled += len(shard.compiled or ())
        return shard

    def complete(self, models: Iterable[ModelConfig]) -> None:
        """Add what several models lack, together: planning and linking a shard takes seconds.

        A model that cannot be run is left to `run`, which tells why. Raises what compiling and
        linking raise.
        """
        waiting = list(models)
        while len(waiting) > 1:
            absent = [self._first_absent(model) for model in waiting]
            self._join(absent)
            waiting = [model for model, one in zip(waiting, absent, strict=True) if one]

    def _first_absent(self, model: ModelConfig) -> _Absent:
        try:
            seen = self._run(model, None)
            require_accepted(seen, self._shard)
        except OrchestratorError:
            return _Absent()
        return self._absent(seen)

    def run(self, model: ModelConfig, fill: int | None) -> RunnerResult:
        """Run a model on its inputs, again and again until nothing comes up missing that its app's
        tracer has. fill: see `run_model`.

        Raises UnsureRecordingError, and what `require_accepted`, compiling and linking raise.
        """
        while True:
            seen = self._run(model, fill)
            require_accepted(seen, self._shard)
            absent = self._absent(seen)
            if not absent:
                break
            self._join([absent])
        if not errors_of(seen) and seen.result is not None:
            self._require_sure(model, seen.result["trace"])
        return seen

    def _run(self, model: ModelConfig, fill: int | None) -> RunnerResult:
        shipped, context = self.here.models.shipped(self.app, model), self.here.context
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

    def _absent(self, seen: RunnerResult) -> _Absent:
        """Operators and dtypes that a run lacked and that the tracer has."""
        failures = "\n".join([] if seen.result is None else _setup_failures(seen.result["trace"]))
        operators = frozenset((*missing_operators(seen), *_NO_OPERATOR.findall(failures)))
        dtypes = missing_dtypes(seen)
        dtypes |= {tag: dtype for dtype, tag in _NO_DTYPE.findall(failures)}
        return _Absent(
            operators & self.request.selection.operators.keys() - self._operators,
            {tag: dtype for tag, dtype in dtypes.items() if tag not in self._wide},
        )

    def _join(self, absent: Iterable[_Absent]) -> None:
        """Make a shard that has it too."""
        operators, dtypes = frozenset[OperatorName](), dict[str, str]()
        for one in absent:
            operators |= one.operators
            dtypes |= one.dtypes
        if not (operators or dtypes):
            return
        told = (*sorted(operators), *(f"{tag} for {dtypes[tag]}" for tag in sorted(dtypes)))
        self.here.log(f"{', '.join(told)}: not there yet, compiling")
        self._rounds += 1
        roots, closure = self.request.selection.root_operators, self.request.selection.operators
        self._operators |= joining(self.runtime, roots, operators, self._rounds) & closure.keys()
        self._wide |= dtypes.keys()
        self._shard = self._made()

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
