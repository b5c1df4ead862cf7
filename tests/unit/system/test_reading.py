"""Files that anyone may have written are read with limits; bad ones of ours are as missing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.build.delivering.public_headers import _read as stored_headers
from orchestrator.build.workshop.fetch import MARKER, read_marker
from orchestrator.commands.replay import replay_last_build
from orchestrator.compilers.capabilities import _read as stored_capabilities
from orchestrator.compilers.zig_wheel import _read as stored_zig
from orchestrator.deliver.files import read_record
from orchestrator.deliver.manifest import MANIFEST, UnreadableManifestError, read_manifest
from orchestrator.execute.action_log import _sum, read_logs
from orchestrator.source.debian import _unpacked
from orchestrator.system.reading import MOST_JSON, parse_json, read_json

DEEP = b"[" * 200_000
BAD = {
    "empty": b"",
    "deep": DEEP,
    "null": b"null",
    "a list": b"[]",
    "a map": b"{}",
    "no text": b"\xff\xfe\x00",
    "a number of too many digits": b"1" * 5_000,
    "long": b'"' + b"x" * MOST_JSON + b'"',
}


def test_json_nested_too_deeply_is_no_json() -> None:
    with pytest.raises(ValueError, match=r"^nested too deeply$"):
        parse_json(DEEP)


def test_a_long_file_is_not_parsed(tmp_path: Path) -> None:
    file = tmp_path / "long.json"
    file.write_bytes(b"[1,2]")
    assert read_json(file, 5) == [1, 2]
    with pytest.raises(ValueError, match=r"^more than 4 bytes$"):
        read_json(file, 4)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="Not a plain file"):
        read_json(pipe)


def _workspace(file: Path) -> bool:
    """Whether a build is replayed whose record is this file."""
    root = file.parent / "workspace"
    (root / ".orchestrator").mkdir(parents=True)
    (root / "WORKSPACE").touch()
    (root / ".orchestrator/last-build.json").write_bytes(file.read_bytes())
    return replay_last_build(["build"], {}, root)


# What a reader of one of our own files says of it where it cannot be used.
READERS: dict[str, tuple[str, Callable[[Path], object], object]] = {
    "a source tree": (MARKER, lambda file: read_marker(file.parent), None),
    "the headers of the C++ API": ("headers.json", stored_headers, None),
    "the last build": ("last.json", _workspace, False),
    "a compiler's capabilities": ("abilities.json", lambda f: stored_capabilities(f, "k"), None),
    "zig's wheel": ("zig.json", stored_zig, {}),
    "what was delivered": ("RECORD", read_record, {}),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_file_of_ours_is_as_none(reader: str, bad: str, tmp_path: Path) -> None:
    name, read, nothing = READERS[reader]
    (tmp_path / name).write_bytes(BAD[bad])
    assert read(tmp_path / name) == nothing


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_list_of_unpacked_packages_is_as_none(bad: str, tmp_path: Path) -> None:
    from orchestrator.source.debian import MARKER as unpacked

    (tmp_path / unpacked).write_bytes(BAD[bad])
    assert _unpacked(tmp_path) is None


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_manifest_is_refused_by_name(bad: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(BAD[bad])
    with pytest.raises(UnreadableManifestError) as caught:
        read_manifest(tmp_path)
    assert str(caught.value.place) == str(tmp_path / MANIFEST)


@pytest.mark.parametrize("bad", sorted({*BAD} - {"long"}))
def test_a_log_with_the_right_sum_and_a_bad_body_is_damaged(bad: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(_sum(BAD[bad]) + BAD[bad])
    assert read_logs(tmp_path / "log") == "damaged"
