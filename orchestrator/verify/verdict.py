"""Verdicts on a variant's runs of its app's models, from the model runner's results.

Contract: pure. The caller runs the model runner and passes its exit status and output, which become
`ok`, `ok in part`, `failed` with model, operator, kernel tag and dtype, or `not run here`. A model
that did not run, or could not be compared, is never `ok`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from orchestrator.errors import OrchestratorError
from orchestrator.values.config.app import BASELINE
from orchestrator.verify.compare import (
    Difference,
    Rounding,
    compare_results,
    needs_rounding,
    rounding_of,
    run_name,
)
from orchestrator.verify.flat import flat_outputs
from orchestrator.verify.nondeterminism import uncompared

# `ok in part`: everything ran, and some outputs have values that cannot be compared
Status = Literal["ok", "ok in part", "failed", "not run here"]

# What to do where a program of ours ran into an illegal instruction.
OTHER_PROCESSOR: Final = (
    "this processor does not have an instruction of the library, or a check of the compiler's"
    " stopped it: look for -march, -mcpu and -fsanitize in `compile_flags` of the toolchain"
)

# What a model may raise by itself, and what says that a library lacks something.
_OF_THE_MODEL: Final = frozenset({"RUN_FAILED"})
_LACKING: Final = frozenset({"MISSING_OPERATOR", "MISSING_DTYPE"})

# The model controls what its runner prints.
_LONGEST = 200


class VerificationFailedError(OrchestratorError):
    """A variant does not reproduce the recorded runs of one of its app's models."""


@dataclass(frozen=True)
class RunnerResult:
    """Result of the model runner: exit code as `subprocess` gives it, its JSON if any, its stderr.

    selection  digest of the selection that the library reported, if it can
    levels     CPU levels that the library could choose from, whichever of them it has; None if the
               runner did not report them: it crashed, or is from before it did
    """

    returncode: int
    result: Mapping[str, Any] | None
    stderr: str = ""
    selection: str | None = None
    levels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Failure:
    """One reason why a model failed. `code` is the C API's (`MISSING_DTYPE`), `OTHER_OUTPUT` for
    outputs that differ, `ILLEGAL_INSTRUCTION` where the processor ended the runner, or `CRASHED`
    where it wrote no result."""

    model: str
    run: str
    code: str
    text: str
    operators: tuple[str, ...] = ()
    kernel_tag: str | None = None
    dtype: str | None = None

    def __str__(self) -> str:
        where = f"{self.model}, {self.run}" if self.run else self.model
        if self.operators:
            return f"{where}: not in this library: {', '.join(self.operators)}"
        if self.kernel_tag:
            return f"{where}: kernel `{self.kernel_tag}` is not in this library for {self.dtype}"
        return f"{where}: {self.text}"


@dataclass(frozen=True)
class VerifyResult:
    """The verdict on one model in one variant; `runs` is how many calls were compared.

    `uncompared` are the places in their outputs that only had to be there (`nondeterminism.py`),
    `flat` those whose numbers are all the same (`flat.py`).
    `levels` are the lower CPU levels at which all runs were repeated, `levels_not_run` those of the
    library at which nothing ran: the processor at hand lacks them. `threads` are the numbers of
    threads of all runs; none where the library has no threads of its own.
    """

    model: str
    status: Status
    runs: int = 0
    failures: tuple[Failure, ...] = ()
    reason: str = ""
    uncompared: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    levels_not_run: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()


def not_run(model: str, reason: str) -> VerifyResult:
    """The verdict where the ABI's binaries cannot run on this machine, and why."""
    return VerifyResult(model, "not run here", reason=reason)


def verify(
    model: str,
    expected: Mapping[str, Any],
    seen: RunnerResult,
    rounding: Rounding | None = None,
) -> VerifyResult:
    """The verdict on a model, from the tracer's result and the runner's result in the variant.

    rounding: of `rounding_of`
    Raises `compare.MalformedResultError` where one of the results is not one.
    """
    if seen.result is None:
        return VerifyResult(model, "failed", failures=(_crash(model, seen),))
    failures = list(_errors(model, seen.result))
    failed = {failure.run for failure in failures}
    if "" not in failed:
        failures += [
            _other_output(model, difference)
            for difference in compare_results(expected, seen.result, rounding=rounding)
            if difference.run not in failed
        ]
    if not failures and not seen.result["runs"]:
        failures.append(Failure(model, "", "NO_RUNS", "no model was run"))
    if not failures and seen.returncode != 0:
        failures.append(_crash(model, seen))
    places = uncompared(expected)
    status: Status = "failed" if failures else "ok in part" if places else "ok"
    runs, flat = len(seen.result["runs"]), flat_outputs(expected)
    return VerifyResult(model, status, runs, tuple(failures), uncompared=places, flat=flat)


@dataclass(frozen=True)
class Judge:
    """Verdicts on a model's runs in one variant. Small outputs of each run, at whatever CPU level,
    are compared by the rounding error of the first one.

    ran     result of the first run
    nudged  gives the result where each float of the inputs is the next one; asked if needed
    """

    model: str
    expected: Mapping[str, Any]
    ran: Mapping[str, Any] | None
    nudged: Callable[[], Mapping[str, Any] | None]

    def verdict(self, seen: RunnerResult) -> VerifyResult:
        """Raises as `verify`."""
        rounding = None
        if needs_rounding(self.expected, seen.result):
            rounding = rounding_of(self.ran, self.nudged())
        return verify(self.model, self.expected, seen, rounding)


def at_levels(
    here: VerifyResult, others: Mapping[str, VerifyResult], lacking: tuple[str, ...] = ()
) -> VerifyResult:
    """The verdict on a model that ran at this processor's own CPU level and at lower ones; not at
    those that are `lacking`."""
    named = {f"at CPU level {level}": result for level, result in others.items()}
    return replace(_together(here, named), levels=tuple(others), levels_not_run=lacking)


def levels_of_all(
    levels: Sequence[str], results: Sequence[VerifyResult]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a library's CPU levels, lowest first, into those at which every model ran, and the
    others; both are empty if it has no levels, or a model did not run at all."""
    if not levels or any(result.status == "not run here" for result in results):
        return (), ()
    lacking = {level for result in results for level in result.levels_not_run}
    every = (BASELINE, *levels)
    return tuple(x for x in every if x not in lacking), tuple(x for x in every if x in lacking)


def with_threads(one: VerifyResult, count: int, several: VerifyResult) -> VerifyResult:
    """The verdict on a model that ran with one thread, and with `count`."""
    return replace(_together(one, {f"with {count} threads": several}), threads=(1, count))


def in_layouts(usual: VerifyResult, others: Mapping[str, VerifyResult]) -> VerifyResult:
    """The verdict on a model that ran with inputs in the usual order, and in other layouts.

    An error of the model's own is none of the library's: `view` takes no slice. What the library
    lacks there is told by `lacking_in_layouts`: a model may take another way, which nobody traced.
    """
    named = {
        f"with inputs that are parts of larger tensors ({layout})": replace(
            result,
            failures=tuple(f for f in result.failures if f.code not in _OF_THE_MODEL | _LACKING),
        )
        for layout, result in others.items()
    }
    return _together(usual, named)


def lacking_in_layouts(others: Mapping[str, VerifyResult]) -> Iterator[str]:
    """Yield for each layout the first thing that the library lacks to run a model there."""
    for layout, result in others.items():
        lacking = next((f for f in result.failures if f.code in _LACKING), None)
        if lacking is not None:
            yield f"inputs that are parts of larger tensors ({layout}) do not run: {lacking}"


def as_delivered(original: VerifyResult, delivered: VerifyResult) -> VerifyResult:
    """The verdict on a model whose file is delivered in another form, which ran too."""
    return _together(original, {"as it is delivered": delivered})


def _together(here: VerifyResult, others: Mapping[str, VerifyResult]) -> VerifyResult:
    failures = [
        replace(failure, run=f"{failure.run} {how}".lstrip())
        for how, result in others.items()
        for failure in result.failures
    ]
    status: Status = "failed" if failures else here.status
    return replace(here, status=status, failures=(*here.failures, *failures))


def require_verified(
    label: str, results: Iterable[VerifyResult], *, hint: str | None = None
) -> None:
    """Raises `VerificationFailedError` for a variant (`//apps/camera:linux-x86_64`) that failed.

    hint: what to do, where it is no variant whose app could be traced again
    """
    failures = [failure for result in results for failure in result.failures]
    if not failures:
        return
    codes = {failure.code for failure in failures}
    raise VerificationFailedError(
        f"verification of {label} failed",
        expected="the recorded outputs",
        seen=str(failures[0]),
        hint=hint or _hint(codes, label),
        details="\n".join(str(failure) for failure in failures),
    )


def _hint(codes: set[str], label: str) -> str:
    app = label.split(":")[0] if label.startswith("//") else label
    if codes & _LACKING:
        return (
            f"trace again: ./orchestrate trace {app}; if the error persists, the inputs do not"
            " reach all code: add inputs, or use `selection: static`"
        )
    if "ILLEGAL_INSTRUCTION" in codes:
        return OTHER_PROCESSOR
    return f"trace again: ./orchestrate trace {app}; if the error persists, it is a bug"


def _errors(model: str, result: Mapping[str, Any]) -> Iterable[Failure]:
    if result["error"]:
        yield _failure(model, "", result["error"])
    for run in result["runs"]:
        if run["error"]:
            yield _failure(model, run_name(run), run["error"])


def _failure(model: str, run: str, error: Mapping[str, Any]) -> Failure:
    operators: Sequence[str] = error.get("operators", ())
    return Failure(
        model,
        run,
        error["code"],
        error["text"],
        operators=tuple(sorted(operators)),
        kernel_tag=error.get("kernel_tag"),
        dtype=error.get("dtype"),
    )


def _other_output(model: str, difference: Difference) -> Failure:
    return Failure(model, difference.run, "OTHER_OUTPUT", difference.text)


def _crash(model: str, run: RunnerResult) -> Failure:
    code = "ILLEGAL_INSTRUCTION" if run.returncode == -signal.SIGILL else "CRASHED"
    lines = run.stderr.strip().splitlines()
    last = f": {lines[-1][:_LONGEST]}" if lines else ""
    return Failure(model, "", code, f"the model runner {ended(run)}{last}")


def ended(run: RunnerResult) -> str:
    """Describe the end of a run: `was killed by SIGSEGV`."""
    if run.returncode >= 0:
        return f"exited with code {run.returncode}"
    try:
        return f"was killed by {signal.Signals(-run.returncode).name}"
    except ValueError:
        return f"was killed by signal {-run.returncode}"
