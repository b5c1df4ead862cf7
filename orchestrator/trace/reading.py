"""Parses a lock file, and checks its format before any of it is used.

The line and column of an error are found by parsing again: every plan reads the locks, and valid
ones need no places.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.yaml import PlaceIndex, clipped, conflict_line, syntax_error
from orchestrator.system.reading import read_text
from orchestrator.trace.form import CoveragePart, Lock, Vocabulary
from orchestrator.trace.written import written_trace
from orchestrator.values.coverage import MOST_INSTRUCTIONS, FunctionCoverage, parse_ranges
from orchestrator.values.operators import OperatorName
from orchestrator.values.trace import Trace, TraceIdentity

# Ends in a command, to which callers that know the label add it.
AGAIN: Final = "trace the model again: ./orchestrate trace"
# A lock of every operator of PyTorch 1.13.1 is an eighth of this.
LONGEST: Final = 2**22
# ... and has a quarter of these: each may be at fault, and is told at length.
MOST_VALUES: Final = 200_000
_DEEPEST: Final = 6
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TraceDamagedError(OrchestratorError):
    """A lock is not what `orchestrator trace` writes, or its runs are not the recorded ones."""


class TraceConflictError(TraceDamagedError):
    """A lock has unresolved conflict markers."""


class TraceMisplacedError(OrchestratorError):
    """A lock belongs to another app or model than its path says."""


class TraceUnknownError(OrchestratorError):
    """A lock names operators or kernel tags that the runtime does not have."""


def named_text(path: Path, fault: type[OrchestratorError], what: str, expected: str) -> str:
    """The text of a lock, or of a file of operators, that somebody named. Raises `fault`."""
    try:
        return read_text(path, LONGEST)
    except OSError as error:
        raise fault(
            f"this {what} cannot be read",
            place=Place(str(path)),
            expected=expected,
            seen=error.strerror or type(error).__name__,
            hint="check the path, and the file's permissions",
        ) from None


def parse_lock(text: str, file: str) -> Trace:
    """The trace in a lock file that has the form of `orchestrator.trace.form`.

    Raises TraceDamagedError, TraceConflictError.
    """
    conflict = conflict_line(text)
    if conflict:
        raise TraceConflictError(
            "unresolved merge conflict in this trace",
            place=Place(file, conflict, 1),
            hint=f"keep one side's lock with its recorded runs, or {AGAIN}",
        )
    if len(text) > LONGEST:
        raise _damaged(Place(file), f"at most {LONGEST:,} characters", f"{len(text):,}")
    trace = written_trace(text)
    if trace is None:
        trace = yaml_trace(text, file)
    _check_coverage_size(trace, text, file)
    return trace


def yaml_trace(text: str, file: str) -> Trace:
    """The trace in any YAML of the lock's form. Raises TraceDamagedError."""
    try:
        lock = Lock.model_validate(plain_yaml(text, file))
    except yaml.YAMLError as error:
        fault = syntax_error(text, file, error)
        raise _damaged(fault.place or Place(file), "YAML", fault.what) from None
    except UnreadableYamlError:
        raise _key_fault(text, file) from None
    except ValidationError as error:
        raise _form_fault(error, text, file) from None
    trace = _trace(lock)
    for path, seen, derived in _derived_parts(lock, trace):
        if seen != derived:
            # a truncated or half-merged file is mostly inconsistent
            raise _damaged(
                _find(text, file).key(path),
                "consistent sections",
                f"`{path[-1]}` contradicts the recorded calls",
            )
    return trace


def _check_coverage_size(trace: Trace, text: str, file: str) -> None:
    """A lock may cover no more than a model may have: what reads it counts single instructions."""
    instructions = 0
    for name, one in (trace.coverage or {}).items():
        instructions += one.instructions
        if instructions > MOST_INSTRUCTIONS:
            place = _find(text, file).value(("coverage", name, "instructions"))
            raise _damaged(place, f"at most {MOST_INSTRUCTIONS:,} instructions of a model", "more")
        if one.ways > 2 * one.instructions:
            place = _find(text, file).value(("coverage", name, "ways"))
            raise _damaged(place, "at most two ways for each instruction", str(one.ways))


class UnreadableYamlError(Exception):
    """A mapping has a key twice, or one that is no text."""


def plain_yaml(text: str, file: str) -> Any:
    """The YAML value, with its scalars as they are written.

    Straight from the parser's events: a plan reads the locks of every app, and resolving the types
    of scalars takes most of a loader's time. Raises TraceDamagedError,
    UnreadableYamlError, yaml.YAMLError.
    """
    open_parts: list[list[Any]] = [[]]
    keys_fit, left = True, MOST_VALUES
    for event in yaml.parse(text, Loader=_LOADER):
        left -= isinstance(event, yaml.NodeEvent)
        if left < 0:
            raise _damaged(_mark(event, file), f"at most {MOST_VALUES:,} values", "more")
        if isinstance(event, yaml.ScalarEvent):
            # the locks of many apps hold the same names of operators and tags
            open_parts[-1].append(sys.intern(event.value))
        elif isinstance(event, yaml.MappingEndEvent):
            part = open_parts.pop()
            keys = [key for key in part[::2] if isinstance(key, str)]
            value = dict(zip(keys, part[1::2], strict=False))
            # reported at the end: only then is the rest known to be YAML without deep nesting
            keys_fit = keys_fit and 2 * len(value) == len(part)
            open_parts[-1].append(value)
        elif isinstance(event, yaml.SequenceEndEvent):
            part = open_parts.pop()
            open_parts[-1].append(part)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_parts.append([])
            if len(open_parts) > _DEEPEST:
                raise _damaged(_mark(event, file), "the nesting of a lock", "deeper nesting")
        elif isinstance(event, yaml.AliasEvent):
            raise _damaged(_mark(event, file), "no alias", f"*{clipped(str(event.anchor))}")
        elif isinstance(event, yaml.DocumentStartEvent) and open_parts[0]:
            raise _damaged(_mark(event, file), "one document", "another one")
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag:
            raise _damaged(_mark(event, file), "no tag", clipped(event.tag))
    if not keys_fit:
        raise UnreadableYamlError
    return open_parts[0][0] if open_parts[0] else None


def _mark(part: yaml.Event | yaml.Node, file: str) -> Place:
    mark = part.start_mark
    return Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)


def _find(text: str, file: str) -> PlaceIndex:
    """The places of a text that `plain_yaml` parsed, for messages."""
    return PlaceIndex(file, yaml.compose(text, Loader=_LOADER))


def _damaged(place: Place, expected: str, seen: str) -> TraceDamagedError:
    return TraceDamagedError(
        "this trace cannot be read",
        place=place,
        expected=expected,
        seen=seen,
        hint=AGAIN,
    )


def _key_fault(text: str, file: str) -> TraceDamagedError:
    """The first key that is a duplicate, or not a string."""
    parts = [yaml.compose(text, Loader=_LOADER)]
    for part in parts:
        if isinstance(part, yaml.MappingNode):
            keys = set[str]()
            for key, value in part.value:
                if not isinstance(key, yaml.ScalarNode) or key.value in keys:
                    seen = ascii(clipped(key.value)) if isinstance(key.value, str) else "a part"
                    return _damaged(_mark(key, file), "unique names as keys", seen)
                keys.add(key.value)
                parts.append(value)
        elif isinstance(part, yaml.SequenceNode):
            parts += part.value
    raise AssertionError("no key is at fault")


def _form_fault(error: ValidationError, text: str, file: str) -> TraceDamagedError:
    """The first fault that pydantic found, at its place."""
    detail = error.errors(include_url=False)[0]
    kind, path, value = detail["type"], detail["loc"], detail["input"]
    places = _find(text, file)
    if kind == "missing":
        return _damaged(places.value(path), f"a key `{path[-1]}`", "none")
    if kind == "extra_forbidden":
        return _damaged(places.key(path), "no such key", ascii(clipped(str(path[-1]))))
    is_key = path[-1:] == ("[key]",)
    return _damaged(
        places.key(path[:-1]) if is_key else places.value(path),
        _PARTS.get(kind) or str(detail.get("ctx", {}).get("expected")),
        ascii(clipped(value)) if isinstance(value, str) else _SEEN.get(type(value), "nothing"),
    )


# What pydantic asks for, and what is there instead.
_PARTS: Final = {"string_type": "a name", "list_type": "a list"} | dict.fromkeys(
    ("dict_type", "model_type", "mapping_type"), "a mapping"
)
_SEEN: Final[Mapping[type, str]] = {dict: "a mapping", list: "a list"}


def _counts(value: Mapping[str, str]) -> dict[str, int]:
    return {name: int(count) for name, count in value.items()}


def _trace(lock: Lock) -> Trace:
    selected, identity = lock.selected_operators, lock.identity
    return Trace(
        app=lock.app,
        model=lock.model,
        identity=TraceIdentity(
            model=identity.model,
            runtime=identity.runtime,
            inputs=identity.inputs,
            backends=tuple(identity.backends),
            tracer=identity.tracer,
            sources=identity.sources,
        ),
        root_operators=tuple(
            OperatorName.known(name)
            for name, one in selected.operators.items()
            if one.is_root_operator == "true"
        ),
        called_operators={OperatorName.known(n): c for n, c in _counts(lock.calls).items()},
        kernel_tags={tag: _counts(dtypes) for tag, dtypes in lock.kernel_calls.items()},
        custom_classes=tuple(selected.custom_classes),
        build_features=tuple(selected.build_features),
        hot_tags=tuple(lock.hot_tags),
        multiply_adds=None if lock.multiply_adds is None else int(lock.multiply_adds),
        outputs=lock.outputs,
        coverage=None
        if lock.coverage is None
        else {name: _covered(part) for name, part in lock.coverage.items()},
        unreachable_operators=tuple(map(OperatorName.known, lock.unreachable_operators)),
    )


def _covered(part: CoveragePart) -> FunctionCoverage:
    return FunctionCoverage(
        instructions=int(part.instructions),
        ways=int(part.ways),
        unrun=parse_ranges(part.unrun) or (),
        never_held=parse_ranges(part.never_held) or (),
        never_failed=parse_ranges(part.never_failed) or (),
    )


def _derived_parts(lock: Lock, trace: Trace) -> Iterator[tuple[tuple[str, ...], object, object]]:
    """The parts of a lock that follow from others: path, seen value, derived value."""
    selected = lock.selected_operators
    called = {*trace.root_operators, *trace.called_operators}
    yield ("selected_operators", "operators"), selected.operators.keys(), called
    yield ("unrun_operators",), lock.unrun_operators, list(trace.unrun_operators)
    unreachable = [one for one in lock.unreachable_operators if one not in trace.root_operators]
    yield ("unreachable_operators",), lock.unreachable_operators, unreachable
    dtypes = {tag: sorted(dtypes) for tag, dtypes in trace.kernel_tags.items()}
    yield ("selected_operators", "kernel_metadata"), selected.kernel_metadata, dtypes
    for name, one in (trace.coverage or {}).items():
        missed = (("instructions", one.unrun_count), ("ways", one.untaken))
        for key, least in missed:
            yield ("coverage", name, key), max(getattr(one, key), least), getattr(one, key)


def check_vocabulary(trace: Trace, known: Vocabulary, text: str, file: str) -> None:
    """Raises TraceUnknownError where a trace names what the runtime does not have."""
    tags: list[tuple[str, ...]] = []
    tags += [("kernel_calls", tag) for tag in trace.kernel_tags if tag not in known.tags]
    tags += [("hot_tags", tag) for tag in trace.hot_tags if tag not in known.tags]
    operators = sorted({*trace.called_operators, *trace.root_operators} - known.operators)
    # a model may name others in calls that no input reaches: `unreachable_operators`
    named = [("selected_operators", "operators", name) for name in operators]
    for paths, what in ((named, "operators"), (tags, "kernel tags")):
        if paths:
            unknown = dict.fromkeys(path[-1] for path in paths)
            raise TraceUnknownError(
                f"this trace names {what} that PyTorch {known.pytorch} does not have",
                place=_find(text, file).key(paths[0]),
                expected=f"{what} of PyTorch {known.pytorch}",
                seen=clipped(", ".join(unknown)),
                hint=AGAIN,
            )


def check_place(trace: Trace, app: str, model: str, text: str, file: str) -> None:
    """Raises TraceMisplacedError where a lock names another app or model than its path."""
    for key, seen, wanted in (("app", trace.app, app), ("model", trace.model, model)):
        if seen != wanted:
            raise TraceMisplacedError(
                f"this trace belongs to another {key}",
                place=_find(text, file).value((key,)),
                expected=wanted,
                seen=seen,
                hint=AGAIN,
            )
