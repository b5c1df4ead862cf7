"""A trace: what one model used when it ran on its inputs in the instrumented runtime."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from orchestrator.values.coverage import FunctionCoverage
from orchestrator.values.operators import OperatorName


@dataclass(frozen=True)
class TraceIdentity:
    """Inputs of a trace; a lock with another identity is stale.

    model     sha256 of the .ptl
    runtime   the source tree's digest
    inputs    sha256 of the declared inputs, or `bundled`
    backends  the dispatch backends whose kernels count
    tracer    digest of the recorder's sources
    sources   digest of the app's own sources; empty where it has none
    """

    model: str
    runtime: str
    inputs: str
    backends: tuple[str, ...]
    tracer: str
    sources: str = ""


@dataclass(frozen=True)
class Trace:
    """One model's trace.

    root_operators    operators that the bytecode names where some input may reach the call
    unreachable_operators  those that it names besides: no input can reach the calls
    called_operators  operators that ran, with the number of calls; set-up calls included
    kernel_tags       kernel tag -> dtype (`Float`) -> number of times
    hot_tags          kernel tags whose work is worth the bytes of fast code
    multiply_adds     of a run's matrix products and convolutions, by order of magnitude; None in a
                      lock from before it was recorded
    outputs           sha256 of the recorded runs (`traces/<model>.runs.zst`)
    coverage          function -> what of it ran, sorted; None in a lock from before it was recorded
    """

    app: str
    model: str
    identity: TraceIdentity
    root_operators: tuple[OperatorName, ...]
    called_operators: Mapping[OperatorName, int]
    kernel_tags: Mapping[str, Mapping[str, int]]
    custom_classes: tuple[str, ...] = ()
    build_features: tuple[str, ...] = ()
    hot_tags: tuple[str, ...] = ()
    multiply_adds: int | None = None
    outputs: str = ""
    runs: Mapping[str, int] = field(default_factory=dict)
    coverage: Mapping[str, FunctionCoverage] | None = None
    unreachable_operators: tuple[OperatorName, ...] = ()

    @property
    def unrun_operators(self) -> tuple[OperatorName, ...]:
        """Root operators that no input executed: what a guarded selection guards."""
        return tuple(o for o in self.root_operators if o not in self.called_operators)

    def loaded_by(self, left_out: Collection[OperatorName]) -> Trace:
        """The trace as a library needs it that leaves out these operators: of the others, it must
        have what the bytecode names, reachable or not, to load the model."""
        known = tuple(o for o in self.unreachable_operators if o in left_out)
        roots = {*self.root_operators, *self.unreachable_operators}.difference(known)
        return replace(self, root_operators=tuple(sorted(roots)), unreachable_operators=known)
