"""The action log of a variant: the parts of each of its actions when it was last built.

ninja's log shows that a command changed; this log shows which part changed. A file next to the
variant's links holds the actions of its last build and, for those that changed, of the build
before. The log only explains: the actions' digests alone decide what is built.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from orchestrator.system.reading import open_file, parse_json
from orchestrator.system.staging import write_bytes

Value = str | tuple[str, ...]

FILE: Final = "actions.log"
_FORMAT: Final = 2
# A hundred times what the largest of our examples has.
_MOST_BYTES: Final = 100 * 10**6


@dataclass(frozen=True)
class LoggedAction:
    """One action: the digest of its identity, and the parts of that which it has."""

    digest: str
    parts: Mapping[str, Value]


@dataclass(frozen=True)
class ActionLog:
    """The actions of one variant.

    actions  units by their names, links by the names of the files that they make
    details  a digest among the parts -> what it is made of, by name
    """

    actions: Mapping[str, LoggedAction] = field(default_factory=dict)
    details: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)

    def only(self, names: Iterable[str]) -> ActionLog:
        """The log of these actions alone, with the details that their parts mention. Raises
        KeyError for a name that it does not have."""
        actions = {name: self.actions[name] for name in names}
        mentioned = {
            value
            for action in actions.values()
            for value in action.parts.values()
            if isinstance(value, str)
        }
        return ActionLog(actions, {d: self.details[d] for d in self.details if d in mentioned})


@dataclass(frozen=True)
class BuildLogs:
    """last: of the last build; before: as they were before, those that the last change changed."""

    last: ActionLog
    before: ActionLog = field(default_factory=ActionLog)


def changed_actions(old: ActionLog, new: ActionLog) -> tuple[str, ...]:
    """The names of actions that both logs have, but with different digests; sorted."""
    both = old.actions.keys() & new.actions.keys()
    return tuple(sorted(n for n in both if old.actions[n].digest != new.actions[n].digest))


def update_logs(path: Path, now: ActionLog) -> None:
    """Log the actions of a build that has linked its variant. Raises OSError."""
    logs = read_logs(path)
    if not isinstance(logs, BuildLogs):
        write_logs(path, BuildLogs(now))
    elif logs.last != now:
        changed = changed_actions(logs.last, now)
        before = logs.last.only(changed) if changed else logs.before
        write_logs(path, BuildLogs(now, before))


def write_logs(path: Path, logs: BuildLogs) -> None:
    """Write both logs, all or nothing: a checksum, then compact JSON in which each value that
    occurs is listed once. Raises OSError."""
    known: dict[Value, int] = {}

    def number(value: Value) -> int:
        return known.setdefault(value, len(known))

    logged = {"last": _to_json(logs.last, number), "before": _to_json(logs.before, number)}
    body = _packed({"format": _FORMAT, **logged, "values": list(known)}).encode()
    write_bytes(path, _sum(body) + body)


def read_logs(path: Path) -> BuildLogs | Literal["damaged"] | None:
    """The logs of a variant; None where there are none, or those of another release of ours."""
    try:
        with open_file(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError:
        return None
    head, _, body = data.partition(b"\n")
    if len(data) > _MOST_BYTES or _sum(body) != head + b"\n":
        return "damaged"
    try:
        document = parse_json(body)
        if document["format"] != _FORMAT:
            return None
        values = [tuple(one) if isinstance(one, list) else one for one in document["values"]]
        return BuildLogs(_of_json(document["last"], values), _of_json(document["before"], values))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return "damaged"


def _sum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode() + b"\n"


def _packed(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _to_json(log: ActionLog, number: Callable[[Value], int]) -> dict[str, Any]:
    def numbers(parts: Mapping[str, Value]) -> dict[str, int]:
        return {name: number(parts[name]) for name in sorted(parts)}

    return {
        "actions": {n: [one.digest, numbers(one.parts)] for n, one in sorted(log.actions.items())},
        "details": {digest: numbers(log.details[digest]) for digest in sorted(log.details)},
    }


def _of_json(document: Mapping[str, Any], values: list[Value]) -> ActionLog:
    def parts(numbers: Mapping[str, int]) -> dict[str, Value]:
        return {name: values[number] for name, number in numbers.items()}

    return ActionLog(
        {
            name: LoggedAction(digest, parts(own))
            for name, (digest, own) in document["actions"].items()
        },
        {digest: parts(own) for digest, own in document["details"].items()},
    )
