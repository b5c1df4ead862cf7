"""Lock files: `apps/<app>/traces/<model>.yaml`, and the recorded runs next to them.

The `selected_operators` part is PyTorch's own format (torchgen/selective_build/selector.py,
`SelectiveBuilder.from_yaml_dict`), so that upstream's tools read it as it is.  The runs (without
arguments, outputs in full) are the tracer's JSON, zstd-compressed, tied to the lock by their
digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict

import zstandard

from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.reading import read_text
from orchestrator.system.staging import write_bytes
from orchestrator.system.yaml_text import yaml_text
from orchestrator.trace.form import MISSED, Vocabulary
from orchestrator.trace.reading import (
    AGAIN,
    LONGEST,
    TraceConflictError,
    TraceDamagedError,
    TraceMisplacedError,
    TraceUnknownError,
    check_place,
    check_vocabulary,
    parse_lock,
)
from orchestrator.trace.runs import LARGEST as LARGEST_RUNS
from orchestrator.trace.runs import RunsUnreadableError, digest_of_runs, parse_runs, runs_in
from orchestrator.trace.written import HEADER
from orchestrator.values.coverage import FunctionCoverage, ranges_text
from orchestrator.values.labels import AppLabel
from orchestrator.values.trace import Trace, TraceIdentity

__all__ = [
    "TraceConflictError",
    "TraceDamagedError",
    "TraceMisplacedError",
    "TraceMissingError",
    "TraceStaleError",
    "TraceUnknownError",
    "UnfitRecordingError",
    "changes",
    "lock_path",
    "lock_text",
    "pack_runs",
    "parse_lock",
    "read_lock",
    "read_runs",
    "require_lock",
    "runs_path",
    "trace_before",
    "write_lock",
]

FORMAT = 1


class TraceMissingError(OrchestratorError):
    """A model has no trace."""


class TraceStaleError(OrchestratorError):
    """A trace was made with another model, runtime, inputs, backends, tracer or sources."""


class UnfitRecordingError(OrchestratorError):
    """The recording does not fit the lock format."""


def lock_text(trace: Trace) -> str:
    """The lock file's text; equal traces give equal bytes."""
    roots = frozenset(trace.root_operators)
    value = {
        "format": FORMAT,
        "app": trace.app,
        "model": trace.model,
        "identity": {
            "model": trace.identity.model,
            "runtime": trace.identity.runtime,
            "inputs": trace.identity.inputs,
            "backends": list(trace.identity.backends),
            "tracer": trace.identity.tracer,
            **({"sources": trace.identity.sources} if trace.identity.sources else {}),
        },
        "outputs": trace.outputs,
        "hot_tags": list(trace.hot_tags),
        **({} if trace.multiply_adds is None else {"multiply_adds": trace.multiply_adds}),
        "unrun_operators": list(trace.unrun_operators),
        **(
            {"unreachable_operators": list(trace.unreachable_operators)}
            if trace.unreachable_operators
            else {}
        ),
        "calls": dict(trace.called_operators),
        "kernel_calls": {tag: dict(dtypes) for tag, dtypes in trace.kernel_tags.items()},
        **_coverage_part(trace.coverage),
        "selected_operators": {
            "include_all_non_op_selectives": False,
            "build_features": list(trace.build_features),
            "custom_classes": list(trace.custom_classes),
            "kernel_metadata": {tag: sorted(d) for tag, d in sorted(trace.kernel_tags.items())},
            "operators": {
                name: {
                    "is_root_operator": name in roots,
                    "is_used_for_training": False,
                    "include_all_overloads": False,
                }
                for name in sorted({*roots, *trace.called_operators})
            },
        },
    }
    return HEADER + yaml_text(value)


def _coverage_part(coverage: Mapping[str, FunctionCoverage] | None) -> dict[str, Any]:
    """A lock's coverage part: empty if it was not recorded; for each function its size, and what no
    input ran."""
    if coverage is None:
        return {}
    found = {}
    for name, one in coverage.items():
        missed = {key: ranges_text(getattr(one, key)) for key in MISSED}
        sizes = {"instructions": one.instructions, "ways": one.ways}
        found[name] = sizes | {key: text for key, text in missed.items() if text}
    return {"coverage": found}


def lock_path(app_folder: Path, model: str) -> Path:
    """Path of a model's committed lock."""
    return app_folder / "traces" / f"{model}.yaml"


def runs_path(app_folder: Path, model: str) -> Path:
    """Path of the model's committed recorded runs."""
    return app_folder / "traces" / f"{model}.runs.zst"


def require_lock(app_folder: Path, model: str, label: AppLabel, root: Path) -> None:
    """Raises TraceMissingError where a model of an app has no lock; `label` as in `read_lock`."""
    path = lock_path(app_folder, model)
    if not path.is_file():
        raise TraceMissingError(
            f"the model {model} of {label} has not been traced",
            expected=path.relative_to(root).as_posix(),
            hint=f"run: ./orchestrate trace {label}",
        )


def read_lock(
    app_folder: Path,
    model: str,
    identity: TraceIdentity,
    label: AppLabel,
    root: Path,
    known: Vocabulary | None = None,
    runtimes: Mapping[str, str] = MappingProxyType({}),
) -> Trace:
    """The committed trace, if it is of this identity, of this app and model, and names nothing that
    is not `known`.

    label: the app, which the advice is to trace again.
    runtimes: digest of a runtime's tree -> its name, of those that the workspace pins.
    Raises TraceMissingError, TraceStaleError, TraceDamagedError, TraceMisplacedError,
    TraceUnknownError.
    """
    require_lock(app_folder, model, label, root)
    path = lock_path(app_folder, model)
    command = f"run: ./orchestrate trace {label}"
    shown = path.relative_to(root).as_posix()
    text = read_text(path, LONGEST)
    with _traced_again(label):
        trace = parse_lock(text, shown)
        check_place(trace, app_folder.name, model, text, shown)
    changed = changes(trace.identity, identity)
    if changed:
        raise TraceStaleError(
            f"the trace of {model} is stale: {', '.join(changed)} changed since",
            place=Place(shown),
            hint=command,
            **_of_runtimes(runtimes.get(identity.runtime), runtimes.get(trace.identity.runtime)),
        )
    if known is not None:
        with _traced_again(label):
            check_vocabulary(trace, known, text, shown)
    return trace


class _Seen(TypedDict, total=False):
    expected: str
    seen: str


def _of_runtimes(wanted: str | None, seen: str | None) -> _Seen:
    """Error details for a trace that was made with another of the workspace's runtimes; else
    empty."""
    if wanted is None or seen is None or wanted == seen:
        return {}
    return {"expected": f"a trace made with runtime {wanted}", "seen": f"one of runtime {seen}"}


@contextmanager
def _traced_again(label: AppLabel) -> Iterator[None]:
    """Completes the command in an error's hint with the label."""
    try:
        yield
    except (TraceDamagedError, TraceMisplacedError, TraceUnknownError) as error:
        if error.hint and error.hint.endswith(AGAIN):
            error.hint = f"{error.hint} {label}"
        raise


def trace_before(app_folder: Path, model: str) -> Trace | None:
    """The committed trace, stale or not; None where there is none to read."""
    path = lock_path(app_folder, model)
    try:
        return parse_lock(read_text(path, LONGEST), path.name)
    except (OSError, TraceDamagedError):
        return None


def changes(old: TraceIdentity, new: TraceIdentity) -> list[str]:
    """Names of the parts in which two identities differ."""
    parts = ("model", "runtime", "inputs", "backends", "tracer", "sources")
    return [part for part in parts if getattr(old, part) != getattr(new, part)]


def pack_runs(result: Mapping[str, Any]) -> tuple[bytes, str]:
    """The recorded runs as a file's bytes, and the digest of their canonical JSON.

    Raises UnfitRecordingError where `read_runs` would refuse them.
    """
    text = json.dumps(result, sort_keys=True, separators=(",", ":")).encode()
    try:
        parse_runs(text)
    except RunsUnreadableError as error:
        raise UnfitRecordingError(
            "the outputs of the model cannot be recorded",
            expected=f"at most {LARGEST_RUNS:,} bytes of JSON with at most a million values",
            seen=str(error),
            hint="use smaller or fewer inputs",
        ) from None
    packed = zstandard.ZstdCompressor(level=19, write_content_size=True).compress(text)
    return packed, hashlib.sha256(text).hexdigest()


def read_runs(app_folder: Path, trace: Trace, root: Path) -> dict[str, Any]:
    """The recorded runs. Raises TraceDamagedError where they are not those of the lock."""
    path = runs_path(app_folder, trace.model)
    try:
        seen = digest_of_runs(path)
        if seen == trace.outputs:
            return runs_in(path)
    except FileNotFoundError:
        seen = "no such file"
    except OSError as error:
        seen = error.strerror or str(error)
    except RunsUnreadableError as error:
        seen = str(error)
    raise TraceDamagedError(
        f"the recorded runs of {trace.model} do not match its trace",
        place=Place(path.relative_to(root).as_posix()),
        expected=trace.outputs,
        seen=seen,
        hint=f"run: ./orchestrate trace //apps/{trace.app}",
    )


def write_lock(app_folder: Path, trace: Trace, runs: bytes) -> None:
    """Write lock and runs, each all or nothing, the lock last.

    Raises UnfitRecordingError where `read_lock` would refuse it: a model can make the tracer record
    anything.
    """
    path, text = lock_path(app_folder, trace.model), lock_text(trace)
    try:
        parse_lock(text, path.name)
    except TraceDamagedError as error:
        raise UnfitRecordingError(
            f"the recording of {trace.model} does not fit the lock format",
            expected=error.expected,
            seen=error.seen,
            hint="run the model in PyTorch on the same inputs; where it runs, report this",
        ) from None
    write_bytes(runs_path(app_folder, trace.model), runs)
    write_bytes(path, text.encode())
