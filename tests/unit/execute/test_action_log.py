"""The action log: what it keeps comes back, what is damaged is told, nothing is written twice."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from orchestrator.execute import action_log as module
from orchestrator.execute.action_log import (
    ActionLog,
    BuildLogs,
    LoggedAction,
    Value,
    changed_actions,
    read_logs,
    update_logs,
    write_logs,
)


def log(flags: str = "-Os", **more: str) -> ActionLog:
    parts: dict[str, Value] = {"flags": (flags, "-DA"), "toolchain": "t" * 64, **more}
    return ActionLog(
        {
            "a.cpp": LoggedAction(f"a {flags}", parts),
            "b.cpp": LoggedAction("b", {"flags": (), "native": "n" * 64}),
        },
        {"t" * 64: {"version": "1", "headers": ("x.h", "y.h")}, "n" * 64: {"c.h": "d"}},
    )


def test_it_comes_back(tmp_path: Path) -> None:
    logs = BuildLogs(log(), log("-O2").only(["a.cpp"]))
    write_logs(tmp_path / "x/log", logs)
    assert read_logs(tmp_path / "x/log") == logs


def test_the_text_has_each_value_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write_logs(path, BuildLogs(log()))
    body = (
        b'{"format":2,"last":{"actions":{"a.cpp":["a -Os",{"flags":0,"toolchain":1}],'
        b'"b.cpp":["b",{"flags":2,"native":3}]},"details":{"'
        + b"n" * 64
        + b'":{"c.h":4},"'
        + b"t" * 64
        + b'":{"headers":5,"version":6}}},"before":{"actions":{},"details":{}},'
        b'"values":[["-Os","-DA"],"'
        + b"t" * 64
        + b'",[],"'
        + b"n" * 64
        + b'","d",["x.h","y.h"],"1"]}'
    )
    assert path.read_bytes() == hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def test_only_some_actions_with_what_they_mention() -> None:
    assert log().only(["b.cpp"]) == ActionLog(
        {"b.cpp": LoggedAction("b", {"flags": (), "native": "n" * 64})}, {"n" * 64: {"c.h": "d"}}
    )


def test_the_log_before_is_of_the_last_change(tmp_path: Path) -> None:
    path = tmp_path / "log"
    update_logs(path, log())
    assert read_logs(path) == BuildLogs(log())
    update_logs(path, log("-O2"))
    changed = BuildLogs(log("-O2"), log().only(["a.cpp"]))
    assert read_logs(path) == changed
    # the same again is not written
    path.chmod(0o444)
    before = path.stat()
    update_logs(path, log("-O2"))
    assert path.stat() == before
    # another unit more changes no unit: what the last change was stays known
    more = ActionLog({**log("-O2").actions, "c.cpp": LoggedAction("c", {})}, log().details)
    update_logs(path, more)
    assert read_logs(path) == BuildLogs(more, changed.before)


def test_changed_actions_are_in_both() -> None:
    one = ActionLog({"a": LoggedAction("1", {}), "b": LoggedAction("1", {})})
    two = ActionLog({"a": LoggedAction("2", {}), "c": LoggedAction("1", {})})
    assert changed_actions(one, two) == ("a",)
    assert changed_actions(one, one) == ()


def test_none_is_there(tmp_path: Path) -> None:
    assert read_logs(tmp_path / "log") is None
    (tmp_path / "log").mkdir()
    assert read_logs(tmp_path / "log") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b" ",
        lambda data: data.replace(b"-Os", b"-Oz"),
        lambda data: b"x" + data[1:],
        lambda data: b"\n" + data,
    ],
)
def test_a_damaged_log_is_told_and_replaced(damage: object, tmp_path: Path) -> None:
    path = tmp_path / "log"
    write_logs(path, BuildLogs(log()))
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert read_logs(path) == "damaged"
    update_logs(path, log())
    assert read_logs(path) == BuildLogs(log())


def test_a_log_that_is_too_long_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    write_logs(path, BuildLogs(log()))
    size = path.stat().st_size
    monkeypatch.setattr(module, "_MOST_BYTES", size)
    assert read_logs(path) == BuildLogs(log())
    monkeypatch.setattr(module, "_MOST_BYTES", size - 1)
    assert read_logs(path) == "damaged"


def test_a_log_of_another_release_counts_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    monkeypatch.setattr(module, "_FORMAT", 3)
    write_logs(path, BuildLogs(log()))
    monkeypatch.undo()
    assert read_logs(path) is None
