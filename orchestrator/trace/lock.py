"""Lock files: `apps/<app>/traces/<model>.yaml`, and the recorded runs beside them.

The `selected_operators` part is PyTorch's own format (torchgen/selective_build/selector.py,
`SelectiveBuilder.from_yaml_dict`), so that upstream's tools read it as it is.  The runs (arguments
left out, outputs in full) are the tracer's JSON, zstd-compressed, tied to the lock by their digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
import zstandard

from orchestrator.errors import OrchestratorError, Place
from orchestrator.values.trace import Trace, TraceIdentity

FORMAT = 1
_HEADER = (
    "# Written by `orchestrator trace`; commit it. `selected_operators` is in the format of\n"
    "# PyTorch's SelectiveBuilder.\n"
)


class TraceMissingError(OrchestratorError):
    """A model has no trace."""


class TraceStaleError(OrchestratorError):
    """A trace was made of another model, runtime, inputs, backends or tracer."""


class TraceDamagedError(OrchestratorError):
    """A lock is not what `orchestrator trace` writes, or its runs are not the recorded ones."""


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
        },
        "outputs": trace.outputs,
        "hot_tags": list(trace.hot_tags),
        "unrun_operators": list(trace.unrun_operators),
        "calls": dict(trace.called_operators),
        "kernel_calls": {tag: dict(dtypes) for tag, dtypes in trace.kernel_tags.items()},
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
    return _HEADER + yaml.safe_dump(value, sort_keys=False, width=100)


def parse_lock(text: str, file: str) -> Trace:
    """The trace in a lock file. Raises TraceDamagedError."""
    try:
        value = _plain(text)
        if value["format"] != str(FORMAT):
            raise ValueError(f"format {value['format']}")
        trace = _trace(value)
        if not _whole(value, trace):
            raise ValueError("its parts do not agree")
        return trace
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise TraceDamagedError(
            "this trace cannot be read",
            place=Place(file),
            expected=f"a lock file of format {FORMAT}",
            seen=f"{type(error).__name__}: {error}".splitlines()[0],
            hint="trace the model again: orchestrator trace",
        ) from None


def _plain(text: str) -> Any:
    """The YAML value, with its scalars as they are written.

    Straight from the parser's events: a plan reads the locks of every app, and resolving the types
    of scalars takes most of a loader's time.
    """
    open_parts: list[list[Any]] = [[]]
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.ScalarEvent):
            # names of operators and tags stand in the locks of many apps
            open_parts[-1].append(sys.intern(event.value))
        elif isinstance(event, yaml.CollectionStartEvent):
            open_parts.append([])
        elif isinstance(event, yaml.MappingEndEvent):
            part = open_parts.pop()
            open_parts[-1].append(dict(zip(part[::2], part[1::2], strict=True)))
        elif isinstance(event, yaml.SequenceEndEvent):
            part = open_parts.pop()
            open_parts[-1].append(part)
        elif isinstance(event, yaml.AliasEvent):
            raise ValueError("an alias")
    if len(open_parts[0]) > 1:
        raise ValueError("more than one document")
    return open_parts[0][0] if open_parts[0] else None


def _counts(value: Mapping[str, str]) -> dict[str, int]:
    return {name: int(count) for name, count in value.items()}


def _trace(value: Mapping[str, Any]) -> Trace:
    selected, identity = value["selected_operators"], value["identity"]
    return Trace(
        app=value["app"],
        model=value["model"],
        identity=TraceIdentity(
            model=identity["model"],
            runtime=identity["runtime"],
            inputs=identity["inputs"],
            backends=tuple(identity["backends"]),
            tracer=identity["tracer"],
        ),
        root_operators=tuple(
            name for name, one in selected["operators"].items() if one["is_root_operator"] == "true"
        ),
        called_operators=_counts(value["calls"]),
        kernel_tags={tag: _counts(dtypes) for tag, dtypes in value["kernel_calls"].items()},
        custom_classes=tuple(selected["custom_classes"]),
        build_features=tuple(selected["build_features"]),
        hot_tags=tuple(value["hot_tags"]),
        outputs=value["outputs"],
    )


def _whole(value: Mapping[str, Any], trace: Trace) -> bool:
    """Whether what is said twice is said the same: a cut or half merged file mostly does not."""
    selected = value["selected_operators"]
    return bool(
        selected["operators"].keys() == {*trace.root_operators, *trace.called_operators}
        and value["unrun_operators"] == list(trace.unrun_operators)
        and selected["kernel_metadata"]
        == {tag: sorted(dtypes) for tag, dtypes in trace.kernel_tags.items()}
    )


def lock_path(app_folder: Path, model: str) -> Path:
    """Where a model's lock is committed."""
    return app_folder / "traces" / f"{model}.yaml"


def runs_path(app_folder: Path, model: str) -> Path:
    """Where the model's recorded runs are committed."""
    return app_folder / "traces" / f"{model}.runs.zst"


def read_lock(
    app_folder: Path, model: str, identity: TraceIdentity, label: str, root: Path
) -> Trace:
    """The committed trace, if it is of this identity.

    label: what to trace again (`//apps/camera`).
    Raises TraceMissingError, TraceStaleError, TraceDamagedError.
    """
    path = lock_path(app_folder, model)
    command = f"run: ./orchestrate trace {label}"
    shown = path.relative_to(root).as_posix()
    if not path.is_file():
        raise TraceMissingError(
            f"the model {model} of {label} has not been traced", expected=shown, hint=command
        )
    trace = parse_lock(path.read_bytes().decode("utf-8", "replace"), shown)
    changed = changes(trace.identity, identity)
    if changed:
        raise TraceStaleError(
            f"the trace of {model} is stale: {', '.join(changed)} changed since",
            place=Place(shown),
            hint=command,
        )
    return trace


def hot_tags_before(app_folder: Path, model: str) -> tuple[str, ...] | None:
    """The hot tags of the committed trace, stale or not; None where there is none to read."""
    path = lock_path(app_folder, model)
    try:
        return parse_lock(path.read_text(encoding="utf-8"), path.name).hot_tags
    except (OSError, UnicodeDecodeError, TraceDamagedError):
        return None


def changes(old: TraceIdentity, new: TraceIdentity) -> list[str]:
    """Which parts of two identities differ, by name."""
    parts = ("model", "runtime", "inputs", "backends", "tracer")
    return [part for part in parts if getattr(old, part) != getattr(new, part)]


def pack_runs(result: Mapping[str, Any]) -> tuple[bytes, str]:
    """The recorded runs as a file's bytes, and the digest of their canonical JSON."""
    text = json.dumps(result, sort_keys=True, separators=(",", ":")).encode()
    packed = zstandard.ZstdCompressor(level=19, write_content_size=True).compress(text)
    return packed, hashlib.sha256(text).hexdigest()


def read_runs(app_folder: Path, trace: Trace, root: Path) -> dict[str, Any]:
    """The recorded runs. Raises TraceDamagedError where they are not those of the lock."""
    path = runs_path(app_folder, trace.model)
    try:
        text = zstandard.ZstdDecompressor().decompress(path.read_bytes())
    except (OSError, zstandard.ZstdError) as error:
        text, seen = b"", str(error)
    else:
        seen = hashlib.sha256(text).hexdigest()
    if seen != trace.outputs:
        raise TraceDamagedError(
            f"the recorded runs of {trace.model} are not those of its trace",
            place=Place(path.relative_to(root).as_posix()),
            expected=trace.outputs,
            seen=seen,
            hint=f"run: ./orchestrate trace //apps/{trace.app}",
        )
    value: dict[str, Any] = json.loads(text)
    return value


def write_lock(app_folder: Path, trace: Trace, runs: bytes) -> None:
    """Write lock and runs, each all or nothing, the lock last."""
    for path, data in (
        (runs_path(app_folder, trace.model), runs),
        (lock_path(app_folder, trace.model), lock_text(trace).encode()),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f".{path.name}.{os.getpid()}")
        staged.write_bytes(data)
        staged.replace(path)
