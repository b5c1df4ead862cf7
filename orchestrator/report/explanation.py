"""Why an action runs again: what differs between its last build and now, in words. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from orchestrator.errors import visible
from orchestrator.execute.action_log import ActionLog, BuildLogs, Value, changed_actions

# Parts of identities, in the order of the report; others have their own names there.
_TITLES: Final[Mapping[str, str]] = {
    "kind": "kind of link",
    "command": "command",
    "toolchain": "compiler",
    "wrapper": "compiler's wrapper",
    "steps": "the orchestrator's own steps",
    "brought": "what the linker reads besides",
    "environment": "environment",
    "flags": "flags",
    "runtime": "PyTorch",
    "library": "library of kernels",
    "native": "the orchestrator's sources",
    "own": "source",
    "unit": "generated source",
    "included": "header read first",
    "flagged": "headers found by its flags",
    "threading": "header for threads",
    "projection": "selection",
    "pch": "precompiled header",
    "shard": "unity shard",
    "members": "units of the shard",
    "unity": "text of the shard",
    "objects": "objects",
}
# A part that differs whenever one of these does.
_FOLLOWS: Final = {
    "pch": ("runtime", "toolchain", "flags"),
    "wrapper": ("toolchain",),
    "command": ("kind", "flags"),
    "brought": ("toolchain",),
    "unity": ("members",),
}
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
# Of a longer list so many are shown.
_NAMED: Final = 6


@dataclass(frozen=True)
class Difference:
    """One thing that differs: a text before and after, or what a list has more and less.

    name     what of the part, where it has names of its own
    unit     the unit of a shard whose part it is, where it is not all of theirs
    changed  what both have, with other contents
    """

    part: str
    name: str | None = None
    unit: str | None = None
    before: str | None = None
    after: str | None = None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """For people."""
        what = f"{self.part}, {self.name}" if self.name else self.part
        head = f"{self.unit}: {what}" if self.unit else what
        lists = {"added": self.added, "removed": self.removed, "changed": self.changed}
        lines = tuple(f"{head}: {verb} {_listed(names)}" for verb, names in lists.items() if names)
        if lines:
            return lines
        if self.before == self.after:
            return (f"{head}: in another order",)
        return (f"{head}: {_short(self.before)} -> {_short(self.after)}",)


Next = Literal["nothing", "compile", "link", "reuse", "reuse_link"]
Since = Literal["same", "changed", "lost", "new", "never built"]


@dataclass(frozen=True)
class Explanation:
    """Next step of a build for one action of a variant, and its reason.

    action       a unit, a unity shard or the name of a linked file
    next         step of the next build; `reuse`: the cache has the object already; `reuse_link`:
                 the cache has the linked file
    since        state since the last build; `lost`: nothing differs, and the output is missing
    differences  since the last build
    last_change  differences at its last run, if there are none since
    """

    label: str
    action: str
    next: Next
    since: Since
    differences: tuple[Difference, ...] = ()
    last_change: tuple[Difference, ...] = ()

    def text(self) -> str:
        """For people, with a last newline."""
        lines = [f"{self.action} of {self.label}: {self._verdict}"]
        lines += [f"  {line}" for one in self.differences for line in one.lines]
        if self.last_change:
            lines.append("  what differed when it was last made:")
            lines += [f"    {line}" for one in self.last_change for line in one.lines]
        return "".join(f"{visible(line)}\n" for line in lines)

    def done(self) -> str:
        """The same once it has been done."""
        return self.text().replace(": to be ", ": ", 1)

    @property
    def _verdict(self) -> str:
        if self.next == "nothing":
            return "up to date"
        now = _NEXT[self.next]
        if self.since == "lost":
            return f"{now}{self._again}; nothing differs, but the output is missing"
        if self.since == "never built":
            return f"never built here; {now}"
        if self.since == "new":
            return f"{now}; the last build did not have it"
        return f"{now}{self._again}; since the last build:"

    @property
    def _again(self) -> str:
        return "" if self.next.startswith("reuse") else " again"

    def to_json(self) -> dict[str, Any]:
        """The value for machines: see schemas/output.schema.json."""
        return asdict(self)


_NEXT: Final[Mapping[str, str]] = {
    "compile": "to be compiled",
    "link": "to be linked",
    "reuse": "not to be compiled, the cache has the object",
    "reuse_link": "not to be linked, the cache has the file",
}


def explanation(
    label: str,
    name: str,
    now: ActionLog,
    logs: BuildLogs | None,
    *,
    cached: bool,
    made: bool,
    is_link: bool,
) -> Explanation:
    """Explain the next step of a planned action.

    cached  True if the cache has its output
    made    True if its output is in the workspace, as the last build left it
    """
    again: Next = "link" if is_link else "compile"
    if cached:
        again = "reuse_link" if is_link else "reuse"
    if logs is None:
        return Explanation(label, name, again, "never built")
    if name not in logs.last.actions:
        return Explanation(label, name, again, "new")
    found = differences(logs.last, now, name)
    if found:
        return Explanation(label, name, again, "changed", found)
    before = differences(logs.before, logs.last, name) if name in logs.before.actions else ()
    if made:
        return Explanation(label, name, "nothing", "same", last_change=before)
    return Explanation(label, name, again, "lost", last_change=before)


def differences(old: ActionLog, new: ActionLog, name: str) -> tuple[Difference, ...]:
    """Differences between an action's inputs in two logs; empty if its digest is the same."""
    digests = old.actions[name].digest, new.actions[name].digest
    if digests[0] == digests[1]:
        return ()
    found = [*_parts(old, new, name)]
    members = new.actions[name].parts.get("members", ())
    both = [one for one in members if one in old.actions and one in new.actions]
    found += _together({one: [*_parts(old, new, one)] for one in both})
    objects = {*new.actions[name].parts.get("objects", ())}
    changed = tuple(one for one in changed_actions(old, new) if one in objects)
    if changed:
        found.append(Difference(_TITLES["objects"], changed=changed))
    return tuple(found) or (Difference("digest", before=digests[0], after=digests[1]),)


def _parts(old: ActionLog, new: ActionLog, name: str) -> Iterator[Difference]:
    before, after = old.actions[name].parts, new.actions[name].parts
    differing = {part for part in {*before, *after} if before.get(part) != after.get(part)}
    order = [*_TITLES, *sorted(differing - _TITLES.keys())]
    for part in order:
        follows = part in before and part in after and differing & {*_FOLLOWS.get(part, ())}
        if part in differing and not follows:
            title = _TITLES.get(part, part)
            yield from _part(title, before.get(part), after.get(part), old.details, new.details)


def _part(
    title: str,
    before: Value | None,
    after: Value | None,
    old: Mapping[str, Mapping[str, Value]],
    new: Mapping[str, Mapping[str, Value]],
) -> Iterator[Difference]:
    """Yield the differences of a part; if its digests are explained, the differences of their
    inputs."""
    was = old.get(before) if isinstance(before, str) else None
    now = new.get(after) if isinstance(after, str) else None
    named = sorted({*(was or ()), *(now or ())})
    found = [
        _value(title, name, (was or {}).get(name), (now or {}).get(name))
        for name in named
        if was and now and was.get(name) != now.get(name)
    ]
    yield from found or [_value(title, None, before, after)]


def _value(title: str, name: str | None, before: Value | None, after: Value | None) -> Difference:
    if isinstance(before, str) or isinstance(after, str):
        texts = [one if isinstance(one, str) else None for one in (before, after)]
        return Difference(title, name, before=texts[0], after=texts[1])
    was, now = before or (), after or ()
    return Difference(title, name, added=_more(now, was), removed=_more(was, now))


def _more(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Items that one list has more often than another, in its order."""
    left = Counter(some) - Counter(others)
    return tuple(one for one in dict.fromkeys(some) if left[one])


def _together(members: Mapping[str, Sequence[Difference]]) -> Iterator[Difference]:
    """The differences of a shard's units: once where all have one."""
    counts = Counter(one for found in members.values() for one in {*found})
    common = [one for one in counts if counts[one] == len(members)]
    yield from sorted(common, key=lambda one: [*_TITLES.values()].index(one.part))
    for member, found in members.items():
        for one in found:
            if counts[one] < len(members):
                yield Difference(**{**vars(one), "unit": member})


def _listed(names: Iterable[str]) -> str:
    shown = [*names]
    more = f" and {len(shown) - _NAMED:,} more" if len(shown) > _NAMED else ""
    return ", ".join(shown[:_NAMED]) + more


def _short(value: str | None) -> str:
    """A text, in which digests are cut to what people compare."""
    return "none" if value is None else _DIGEST.sub(lambda match: match[0][:12], value)
