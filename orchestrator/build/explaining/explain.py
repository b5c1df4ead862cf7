"""Answers why something is in a variant: from its traces, its selection and the index."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.build.explaining.size import Bytes
from orchestrator.build.planning.plan import Variant, plan_variants
from orchestrator.build.tracing.coverage import unreachable_calls, unrun_calls
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.traced import with_traces
from orchestrator.errors import OrchestratorError, visible
from orchestrator.select.closure import Reach, Registry
from orchestrator.select.why import Explainer, of_selection, overloads
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.labels import VariantLabel
from orchestrator.values.names import nearest
from orchestrator.values.operators import OperatorName
from orchestrator.values.trace import Trace


class UnknownSubjectError(OrchestratorError):
    """Nothing of this name is known of the runtime."""


@dataclass(frozen=True)
class Answer:
    """Why `subject` is in a variant; without lines it is not in it.

    bytes   what it takes of the library, where somebody asked for that
    absent  why it is not in the variant, where traces tell that: of operators
    """

    label: VariantLabel
    subject: str
    lines: tuple[str, ...]
    bytes: Bytes | None = None
    absent: tuple[str, ...] = ()

    def text(self) -> str:
        """The answer as plain text; ends with a newline. Control characters in names are made
        visible."""
        said = "is in" if self.lines else "is not in"
        why = "" if self.lines else ": nothing that is selected needs it"
        lines = (*self.lines, *self.absent, *([self.bytes.text()] if self.bytes else ()))
        details = "".join(f"  {visible(line)}\n" for line in lines)
        return f"{self.subject} {said} {self.label}{why}\n{details}"


def why(here: Invocation, label: VariantLabel, subject: str) -> Answer:
    """Why an operator, a unit, a kernel tag, a class, a feature or a symbol is in a variant.

    Raises UnknownSubjectError, and what reading traces and planning raise.
    """
    (variant,) = plan_variants(here, [label], generate=False)
    return _answer(here, here.runtimes.of(label.app), label, variant, subject)


def _answer(
    here: Invocation, runtime: Runtime, label: VariantLabel, variant: Variant, subject: str
) -> Answer:
    index = runtime.index
    explainer = _explainer(here, runtime, variant)
    operators = overloads(subject, runtime.kernels.by_operator)
    if operators:
        lines = explainer.operators(operators, variant.traces)
    elif any(unit.path == subject for unit in index.units):
        lines = explainer.unit(subject)
    elif any(subject in (*unit.tags, *unit.classes, *unit.features) for unit in index.units):
        lines = of_selection(subject, variant.selection)
    elif any(name.split("@", 1)[0] == subject for name in index.names):
        lines = explainer.symbol(subject)
    elif operators := overloads(f"aten::{subject}", runtime.kernels.by_operator):
        lines = explainer.operators(operators, variant.traces)
    else:
        raise _unknown(runtime, subject)
    absent = explainer.absent(operators, variant.traces) if operators and not lines else ()
    return Answer(label, subject, tuple(lines), absent=tuple(absent))


def walked(runtime: Runtime, variant: Variant) -> tuple[Registry, Reach]:
    """The registrations that count for a variant, and the walk of its plan."""
    kernels = runtime.kernels_for(variant.selection.root_operators)
    return kernels, runtime.planner.walk(kernels, variant.selection, variant.objects.plan.spec)


def _explainer(here: Invocation, runtime: Runtime, variant: Variant) -> Explainer:
    kernels, walk = walked(runtime, variant)
    return Explainer(
        runtime.index,
        kernels,
        variant.selection,
        walk,
        runtime.facts.always_for(variant.objects.plan.spec.purpose),
        lambda model, operator: _unrun(here, variant, model, operator),
        variant.app.config.extra,
        lambda model, operator: _unreachable(here, variant, model, operator),
    )


def _unrun(
    here: Invocation, variant: Variant, model: str, operator: OperatorName
) -> tuple[str, ...]:
    """Sites at which a model calls an operator and its inputs do not reach the call."""
    return unrun_calls(here, variant.app, *_traced(variant, model), operator)


def _unreachable(
    here: Invocation, variant: Variant, model: str, operator: OperatorName
) -> tuple[str, ...]:
    """Sites at which a model calls an operator and no input can reach the call."""
    return unreachable_calls(here, variant.app, *_traced(variant, model), operator)


def _traced(variant: Variant, model: str) -> tuple[ModelConfig, Trace]:
    traced = with_traces(variant.app, variant.traces)
    return next((one, trace) for one, trace in traced if one.name == model)


def _unknown(runtime: Runtime, subject: str) -> UnknownSubjectError:
    units = runtime.index.units
    inside = [unit.path for unit in units if unit.path.endswith(f"/{subject}")]
    tags = {tag for unit in units for tag in unit.tags}
    known = [*runtime.kernels.by_operator, *(unit.path for unit in units), *sorted(tags)]
    like = inside[0] if inside else nearest(subject, known)
    return UnknownSubjectError(
        f"PyTorch {runtime.version.version} has nothing of the name `{subject}`",
        expected="an operator, a unit's path, a kernel tag, a class, a feature or a mangled symbol",
        hint=f"did you mean `{like}`?" if like else None,
    )
