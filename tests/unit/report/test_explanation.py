"""Why an action runs again, in words: the exact text of every kind of difference."""

from __future__ import annotations

import pytest

from orchestrator.execute.action_log import ActionLog, BuildLogs, LoggedAction, Value
from orchestrator.report.explanation import Difference, differences, explanation

OLD, NEW = "a" * 64, "b" * 64
LABEL = "//apps/camera:linux-x86_64"


def log(
    digest: str, details: dict[str, dict[str, Value]] | None = None, **parts: Value
) -> ActionLog:
    return ActionLog({"a.cpp": LoggedAction(digest, parts)}, details or {})


def told(old: ActionLog, new: ActionLog, name: str = "a.cpp") -> list[str]:
    return [line for one in differences(old, new, name) for line in one.lines]


def test_flags_are_added_and_removed() -> None:
    old, new = log("1", flags=("-Os", "-DA", "-DA")), log("2", flags=("-DA", "-O2", "-DB"))
    assert told(old, new) == ["flags: added -O2, -DB", "flags: removed -Os, -DA"]


def test_the_order_of_flags_counts() -> None:
    assert told(log("1", flags=("-DA", "-UA")), log("2", flags=("-UA", "-DA"))) == [
        "flags: in another order"
    ]


def test_the_same_digest_has_no_difference() -> None:
    assert differences(log("1", flags=("-Os",)), log("1", flags=("-O2",)), "a.cpp") == ()


def test_a_digest_is_told_by_what_it_is_made_of() -> None:
    old = log("1", {OLD: {"version": "0.16.0", "wrapper": OLD, "same": "x"}}, toolchain=OLD)
    new = log("2", {NEW: {"version": "0.17.0", "wrapper": NEW, "same": "x"}}, toolchain=NEW)
    assert told(old, new) == [
        "compiler, version: 0.16.0 -> 0.17.0",
        f"compiler, wrapper: {OLD[:12]} -> {NEW[:12]}",
    ]


def test_what_is_not_known_of_a_digest_is_told_by_the_digest() -> None:
    known = log("2", {NEW: {"version": "2"}}, toolchain=NEW)
    assert told(log("1", toolchain=OLD), known) == [f"compiler: {OLD[:12]} -> {NEW[:12]}"]
    alike = log("1", {OLD: {"version": "2"}}, toolchain=OLD)
    assert told(alike, known) == [f"compiler: {OLD[:12]} -> {NEW[:12]}"]


def test_a_selection_names_its_operators_and_dtypes() -> None:
    old = log(
        "1", {OLD: {"operators": ("aten::a",), "kernel dtypes": ("t Float",)}}, projection=OLD
    )
    new = log(
        "2",
        {NEW: {"operators": ("aten::a", "aten::b"), "kernel dtypes": ("t Long",)}},
        projection=NEW,
    )
    assert told(old, new) == [
        "selection, kernel dtypes: added t Long",
        "selection, kernel dtypes: removed t Float",
        "selection, operators: added aten::b",
    ]


def test_a_header_that_came_or_went_or_changed() -> None:
    old = log("1", {OLD: {"a.h": "1", "b.h": "2"}}, native=OLD)
    new = log("2", {NEW: {"a.h": "3", "c.h": "4"}}, native=NEW)
    assert told(old, new) == [
        "the orchestrator's sources, a.h: 1 -> 3",
        "the orchestrator's sources, b.h: 2 -> none",
        "the orchestrator's sources, c.h: none -> 4",
    ]


def test_what_only_follows_from_another_part_is_not_told() -> None:
    parts: dict[str, Value] = {"pch": OLD, "flags": ("-Os",)}
    before = ActionLog({"a.cpp": LoggedAction("1", parts)})
    assert told(before, log("2", pch=NEW, flags=("-O2",))) == [
        "flags: added -O2",
        "flags: removed -Os",
    ]
    assert told(before, log("2", pch=NEW, flags=("-Os",))) == [
        f"precompiled header: {OLD[:12]} -> {NEW[:12]}"
    ]
    assert told(before, log("2", flags=("-Os",))) == [f"precompiled header: {OLD[:12]} -> none"]


def test_a_part_without_a_title_has_its_name() -> None:
    old, new = (
        ActionLog({"a.cpp": LoggedAction(one, {"$native/x.map": one})}) for one in (OLD, NEW)
    )
    assert told(old, new) == [f"$native/x.map: {OLD[:12]} -> {NEW[:12]}"]


def shard(toolchain: str, flags: str, *members: str) -> ActionLog:
    own: dict[str, Value] = {"toolchain": toolchain, "shard": "s.cpp"}
    units = {
        name: LoggedAction(f"{name}{toolchain}{flags}", {**own, "unit": name}) for name in members
    }
    if "c.cpp" in units:
        units["c.cpp"] = LoggedAction(f"c {toolchain} {flags}", {**own, "flags": (flags,)})
    digest = "".join(one.digest for one in units.values())
    return ActionLog({**units, "s.cpp": LoggedAction(digest, {"members": members})})


def test_what_all_units_of_a_shard_have_is_told_once() -> None:
    old, new = (shard(t, f, "b.cpp", "c.cpp") for t, f in ((OLD, "-Os"), (NEW, "-O2")))
    assert told(old, new, "s.cpp") == [
        f"compiler: {OLD[:12]} -> {NEW[:12]}",
        "c.cpp: flags: added -O2",
        "c.cpp: flags: removed -Os",
    ]


def test_units_come_into_shards_and_leave_them() -> None:
    old, new = shard(OLD, "", "a.cpp", "b.cpp"), shard(OLD, "", "b.cpp", "d.cpp")
    assert told(old, new, "s.cpp") == [
        "units of the shard: added d.cpp",
        "units of the shard: removed a.cpp",
    ]


def test_the_text_of_a_shard_differs_with_its_units() -> None:
    old, new = log("1", unity=OLD, members=("a",)), log("2", unity=NEW, members=("a", "b"))
    assert told(old, new) == ["units of the shard: added b"]
    assert told(log("1", unity=OLD), log("2", unity=NEW)) == [
        f"text of the shard: {OLD[:12]} -> {NEW[:12]}"
    ]


def test_another_digest_is_never_without_a_difference() -> None:
    assert told(log(OLD), log(NEW)) == [f"digest: {OLD[:12]} -> {NEW[:12]}"]


def test_the_objects_of_a_link_are_named() -> None:
    def linked(*units: str, changed: str) -> ActionLog:
        actions = {unit: LoggedAction(f"{unit}{changed}", {}) for unit in units}
        return ActionLog({**actions, "x.so": LoggedAction(changed, {"objects": units})})

    names = [f"{n}.cpp" for n in range(8)]
    assert told(linked(*names, changed="1"), linked(*names[1:], "n.cpp", changed="2"), "x.so") == [
        "objects: added n.cpp",
        "objects: removed 0.cpp",
        "objects: changed 1.cpp, 2.cpp, 3.cpp, 4.cpp, 5.cpp, 6.cpp and 1 more",
    ]


NOW = log("2", flags=("-O2",))
BEFORE = log("1", flags=("-Os",))
DIFFERS = "  flags: added -O2\n  flags: removed -Os\n"
LAST = "  what differed when it was last made:\n    flags: added -O2\n    flags: removed -Os\n"


@pytest.mark.parametrize(
    ("logs", "cached", "verdict", "lines"),
    [
        (BuildLogs(NOW), True, "up to date", ""),
        (BuildLogs(NOW, BEFORE), True, "up to date", LAST),
        (BuildLogs(BEFORE), False, "to be compiled again; since the last build:", DIFFERS),
        (
            BuildLogs(BEFORE),
            True,
            "not to be compiled, the cache has the object; since the last build:",
            DIFFERS,
        ),
        (
            BuildLogs(NOW, BEFORE),
            False,
            "to be compiled again; nothing differs, but the output is missing",
            LAST,
        ),
        (BuildLogs(ActionLog()), False, "to be compiled; the last build did not have it", ""),
        (
            BuildLogs(ActionLog()),
            True,
            "not to be compiled, the cache has the object; the last build did not have it",
            "",
        ),
        (None, False, "never built here; to be compiled", ""),
        (None, True, "never built here; not to be compiled, the cache has the object", ""),
    ],
)
def test_the_whole_text_of_a_unit(
    logs: BuildLogs | None, cached: bool, verdict: str, lines: str
) -> None:
    found = explanation(LABEL, "a.cpp", NOW, logs, cached=cached, made=cached, is_link=False)
    assert found.text() == f"a.cpp of {LABEL}: {verdict}\n{lines}"


@pytest.mark.parametrize(
    ("logs", "cached", "made", "verdict", "lines"),
    [
        (BuildLogs(NOW), False, True, "up to date", ""),
        (BuildLogs(NOW), True, True, "up to date", ""),
        (BuildLogs(BEFORE), False, True, "to be linked again; since the last build:", DIFFERS),
        (
            BuildLogs(BEFORE),
            True,
            True,
            "not to be linked, the cache has the file; since the last build:",
            DIFFERS,
        ),
        (
            BuildLogs(NOW),
            False,
            False,
            "to be linked again; nothing differs, but the output is missing",
            "",
        ),
        (
            BuildLogs(NOW),
            True,
            False,
            "not to be linked, the cache has the file; nothing differs, but the output is missing",
            "",
        ),
        (None, False, False, "never built here; to be linked", ""),
        (None, True, False, "never built here; not to be linked, the cache has the file", ""),
    ],
)
def test_the_whole_text_of_a_link(
    logs: BuildLogs | None, cached: bool, made: bool, verdict: str, lines: str
) -> None:
    found = explanation(LABEL, "a.cpp", NOW, logs, cached=cached, made=made, is_link=True)
    assert found.text() == f"a.cpp of {LABEL}: {verdict}\n{lines}"


def test_the_value_for_machines_has_every_name() -> None:
    names = tuple(f"{n}.cpp" for n in range(9))
    old, new = log("1", members=()), log("2", members=names)
    found = explanation(
        LABEL, "a.cpp", new, BuildLogs(old), cached=False, made=False, is_link=False
    )
    assert found.differences == (Difference("units of the shard", added=names),)
    assert found.to_json() == {
        "label": LABEL,
        "action": "a.cpp",
        "next": "compile",
        "since": "changed",
        "differences": (
            {
                "part": "units of the shard",
                "name": None,
                "unit": None,
                "before": None,
                "after": None,
                "added": names,
                "removed": (),
                "changed": (),
            },
        ),
        "last_change": (),
    }
