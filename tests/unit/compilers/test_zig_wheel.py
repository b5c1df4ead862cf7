"""zig's identity is its wheel's content, and its files are held against the wheel's list."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from orchestrator.compilers import zig_wheel
from orchestrator.compilers.resolve import resolve_toolchain
from orchestrator.compilers.zig import installed_zig, zig_cache
from orchestrator.compilers.zig_wheel import ZigAlteredError, ZigUnrecordedError, wheel_of
from orchestrator.errors import Place
from orchestrator.values.config.toolchain import ToolchainConfig

PLACE = Place("toolchains/x.yaml", 3)
# as a shell reads it
PYTHON = shlex.quote(sys.executable)
FILES = {"ziglang/__init__.py": b"", "ziglang/lib/std.h": b"int x;\n", "ziglang/zig": b"program\n"}
ALTERED = b"pr0gram\n"


def coded(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    return f"sha256={digest.rstrip('=')}"


def install(site: Path, files: dict[str, bytes] = FILES, *, installer: str = "pip") -> Path:
    """A toy ziglang as an installer leaves it; zig's program."""
    info = site / "ziglang-0.1.0.dist-info"
    for name, data in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(data)
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ziglang\nVersion: 0.1.0\n")
    (info / "INSTALLER").write_text(installer)
    launcher = f"#!{site}/bin/python\n".encode()
    rows = [f"{name},{coded(data)},{len(data)}" for name, data in files.items()]
    rows += [
        f"../../../bin/python-zig,{coded(launcher)},{len(launcher)}",
        f"ziglang-0.1.0.dist-info/INSTALLER,{coded(installer.encode())},3",
        "ziglang-0.1.0.dist-info/RECORD,,",
        "ziglang/__pycache__/__init__.cpython-311.pyc,,",
    ]
    if installer != "pip":
        rows = [*reversed(rows), f"ziglang-0.1.0.dist-info/direct_url.json,{coded(b'{}')},2"]
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    return site / "ziglang/zig"


def test_the_same_wheel_is_the_same_wherever_it_is_installed(tmp_path: Path) -> None:
    one = wheel_of(install(tmp_path / "one"), tmp_path / "a", PLACE)
    other = wheel_of(install(tmp_path / "other", installer="another"), tmp_path / "b", PLACE)
    assert one == other
    lines = "".join(f"{name},{hashlib.sha256(FILES[name]).hexdigest()}\n" for name in sorted(FILES))
    assert one.digest == hashlib.sha256(lines.encode()).hexdigest()
    assert one.identity == f"ziglang 0.1.0, sha256 {one.digest}"


def test_another_file_is_another_zig(tmp_path: Path) -> None:
    one = wheel_of(install(tmp_path / "one"), tmp_path / "a", PLACE)
    files = {**FILES, "ziglang/lib/std.h": b"int y;\n"}
    other = wheel_of(install(tmp_path / "other", files), tmp_path / "b", PLACE)
    assert one.version == other.version
    assert one.digest != other.digest


@pytest.mark.parametrize("name", ["ziglang/zig", "ziglang/lib/std.h"])
@pytest.mark.parametrize("there", [True, False])
def test_an_altered_file(tmp_path: Path, name: str, there: bool) -> None:
    program = install(tmp_path / "site")
    file = tmp_path / "site" / name
    file.write_bytes(ALTERED)
    seen = f"sha256 {hashlib.sha256(ALTERED).hexdigest()}"
    if not there:
        file.unlink()
        seen = "no such file"
    with pytest.raises(ZigAlteredError) as caught:
        wheel_of(program, tmp_path / "notes", PLACE)
    assert caught.value.render() == (
        f"toolchains/x.yaml:3:0: error: {file} is not the file that zig's package brought\n"
        f"  expected: sha256 {hashlib.sha256(FILES[name]).hexdigest()}\n"
        f"  seen:     {seen}\n"
        f"  do:       install it again, from where you trust it: `{PYTHON} -m pip install"
        " --force-reinstall --no-cache-dir ziglang==0.1.0`"
    )


def test_a_program_that_is_altered_later(tmp_path: Path) -> None:
    """Of the same size, and with its old time: its other time tells."""
    program = install(tmp_path / "site")
    wheel_of(program, tmp_path / "notes", PLACE)
    before = program.stat()
    program.write_bytes(ALTERED)
    os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ZigAlteredError):
        wheel_of(program, tmp_path / "notes", PLACE)


def test_the_program_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, notes = install(tmp_path / "site"), tmp_path / "notes"
    found = wheel_of(program, notes, PLACE)
    assert [path.name for path in notes.iterdir()] == ["wheel.json"]
    monkeypatch.setattr(zig_wheel, "readable_sha256", None)
    monkeypatch.setattr(zig_wheel, "_files", None)
    assert wheel_of(program, notes, PLACE) == found


@pytest.mark.parametrize("note", ["", "[]", "{", '{"state": {}, "digest": "00"}'])
def test_a_damaged_note_is_no_note(tmp_path: Path, note: str) -> None:
    program, notes = install(tmp_path / "site"), tmp_path / "notes"
    notes.mkdir()
    (notes / "wheel.json").write_text(note)
    found = wheel_of(program, notes, PLACE)
    assert json.loads((notes / "wheel.json").read_text())["digest"] == found.digest


def test_notes_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("a file, where a folder should be\n")
    assert wheel_of(install(tmp_path / "site"), tmp_path / "notes", PLACE).version == "0.1.0"


@pytest.mark.parametrize(
    "record",
    [None, "", "\n\n", "ziglang/zig", "ziglang/zig,,\n", "ziglang/zig,sha256=*,1\n"],
)
def test_a_package_without_a_list(tmp_path: Path, record: str | None) -> None:
    program = install(tmp_path / "site")
    path = tmp_path / "site/ziglang-0.1.0.dist-info/RECORD"
    path.unlink() if record is None else path.write_text(record)
    with pytest.raises(ZigUnrecordedError) as caught:
        wheel_of(program, tmp_path / "notes", PLACE)
    assert caught.value.render() == (
        "toolchains/x.yaml:3:0: error: the installed ziglang cannot be verified\n"
        "  expected: a RECORD next to the package that lists ziglang/zig\n"
        "  seen:     none that does\n"
        f"  do:       install it again, from where you trust it: `{PYTHON} -m pip install"
        " --force-reinstall --no-cache-dir ziglang==0.1.0`"
    )


def test_every_toolchain_of_zig_is_told_by_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux, the stand-in for an NDK, iOS without Xcode: none by its version alone."""
    _, wheel = installed_zig(PLACE, tmp_path)
    assert (zig_cache(tmp_path) / "wheel.json").is_file()
    compilers = {
        "linux": {"zig": {"target": "x86_64-linux-gnu.2.28"}},
        "ios": {"xcode": {"sdk": "iphoneos", "minimum": "15.0"}},
        "android": {"ndk": {"api": 24, "stl": "c++_static", "shim": True}},
    }
    for system, compiler in compilers.items():
        config = ToolchainConfig.model_validate(
            {
                "abi": f"{system}-arm64",
                "system": system,
                "processor": "arm64",
                "format": "macho" if system == "ios" else "elf",
                "compiler": compiler,
                "run": "none",
            }
        )
        found = resolve_toolchain(config, PLACE, tmp_path, {"PATH": "/nowhere"})
        assert wheel.identity in found.driver.identity.values(), system
        kind = "ndk-shim" if system == "android" else "zig"
        assert found.compiler == f"{kind} {wheel.version}"
