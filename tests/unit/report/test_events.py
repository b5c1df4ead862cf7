"""The events of a build: as lines, as a trace, and of the last build for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

import pytest

from orchestrator.report.events import (
    Event,
    Events,
    chrome_trace,
    critical_path,
    last_build_text,
    read_events,
)

LABEL = "//apps/camera:a"


class Quiet:
    """A view that notes what it is given."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *details: object) -> None: ...

    def feed(self, line: str) -> None:
        self.lines.append(line)


def told() -> tuple[Events, list[str], Quiet]:
    """Two units that are compiled at once, then a link; each look at the clock is a second."""
    seconds: Iterator[int] = count()
    lines, quiet = list[str](), Quiet()
    events = Events(lambda: float(next(seconds)), lines.append)
    events.tell("begun", said="//apps/camera:a")
    view = events.watching(lambda costs, jobs: quiet)
    with events.stage("compile and link"), view({}, 2) as sink:
        for line in (
            "@@0 3 1 1 0.0@@a.cpp",
            "@@0 3 2 2 0.0@@b.cpp",
            "@@1 3 1 2 1.0@@a.cpp",
            "a warning",
            "@@2 3 0 2 2.0@@b.cpp",
            "@@2 3 1 3 2.0@@link x.so",
            "@@3 3 0 3 3.0@@link x.so",
        ):
            sink.feed(line)
    events.tell(
        "changed", "a.cpp", "a.cpp of //apps/camera:a: compiled again\n  flags: -O1 -> -O2\n"
    )
    events.tell("cached", said="1 of 3 objects were there")
    events.tell("verified", "//apps/camera:a", "ok")
    return events, lines, quiet


def test_a_stream() -> None:
    events, lines, quiet = told()
    assert len(quiet.lines) == 7
    assert [json.loads(line)["event"] for line in lines] == [
        *("begun", "action", "action", "action", "stage", "changed", "cached", "verified"),
    ]
    assert lines[0] == '{"event":"begun","at":0.0,"said":"//apps/camera:a"}\n'
    assert json.loads(lines[1])["name"] == "a.cpp"
    assert read_events("".join(lines)) == tuple(events.all)
    with pytest.raises(TypeError):
        read_events('{"at": 1, "what": 2}\n')


def test_a_trace() -> None:
    events, _, _ = told()
    rows = json.loads(chrome_trace(events.all))["traceEvents"]
    assert [(row["name"], row["cat"], row["ph"], row["tid"]) for row in rows] == [
        ("compile and link", "stage", "X", 0),
        ("a.cpp", "action", "X", 1),
        ("b.cpp", "action", "X", 2),
        ("link x.so", "action", "X", 1),
    ]
    assert all(row["dur"] > 0 for row in rows)


def test_what_a_build_waited_for() -> None:
    actions = [
        Event("action", 5.0, "a.cpp", 5.0),
        Event("action", 7.0, "b.cpp", 7.0),
        Event("action", 8.0, "link", 1.0),
    ]
    assert [one.name for one in critical_path(actions)] == ["b.cpp", "link"]
    assert critical_path([]) == ()
    at_once = Event("action", 1.0, "a.cpp", 0.0)
    assert critical_path([at_once]) == (at_once,)


def test_the_last_build() -> None:
    events = [
        Event("begun", 0.0, said="//apps/camera:a"),
        Event("stage", 1.0, "plan", 1.0),
        Event("action", 8.0, "b.cpp", 7.0),
        Event("cached", 8.0, said="1 of 2 objects were there"),
        Event("changed", 8.0, "b.cpp", None, f"b.cpp of {LABEL}: made again\n  flags: a -> b\n"),
        Event("verified", 9.0, "//apps/camera:a", None, "ok"),
    ]
    assert last_build_text(events) == (
        "the last build: //apps/camera:a\n"
        "      1.00 s  plan\n"
        "  1 of 2 objects were there\n"
        "  verified //apps/camera:a: ok\n"
        "what was made again, and why:\n"
        "  b.cpp of //apps/camera:a: made again\n"
        "    flags: a -> b\n"
        "what it waited for, 1 actions in 7.00 s, the longest:\n"
        "      7.00 s  b.cpp\n"
    )
