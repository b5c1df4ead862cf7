"""CMake toolchain files for consumers, and the verb that writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from android_toy import with_users_zig
from core_toy import GOLDEN, ROOT
from golden_files import Golden

from orchestrator import cli
from orchestrator.compilers.cmake_toolchain import NoToolchainFileError, write_toolchain_file
from orchestrator.compilers.resolve import ResolvedToolchain, resolve_toolchain
from orchestrator.compilers.run_prefix import Running
from orchestrator.errors import Place
from orchestrator.values.config.toolchain import ToolchainConfig

CMAKE = str(Path(sys.executable).with_name("cmake"))
NINJA = str(Path(sys.executable).with_name("ninja"))
WORKSPACE = (ROOT / "WORKSPACE").read_text()
TOOLCHAIN = """\
abi: {abi}
system: {system}
processor: arm64
format: elf
compiler:
  zig: {{target: aarch64-linux-gnu.2.28}}
run: none
"""


def resolved(cache: Path, **changes: object) -> ResolvedToolchain:
    values: dict[str, object] = {
        "abi": "linux-arm64",
        "system": "linux",
        "processor": "arm64",
        "format": "elf",
        "compiler": {"zig": {"target": "aarch64-linux-gnu.2.28"}},
        "run": "none",
    }
    config = ToolchainConfig.model_validate(values | changes)
    return resolve_toolchain(config, Place("toolchains/linux-arm64.yaml", 3, 1), cache, os.environ)


@pytest.mark.parametrize(
    ("name", "running", "changes"),
    [
        ("plain", Running(None, "no emulator"), {}),
        (
            "flags",
            Running(("/opt/my qemu", "-L", "/sys$root")),
            {
                "compile_flags": ["-mcpu=cortex-a53", "-I$native/libc/musl", '-DNAME="a b"'],
                "link_flags": ["-Wl,-z,now"],
            },
        ),
    ],
)
def test_the_exact_text(
    name: str, running: Running, changes: dict[str, object], tmp_path: Path, golden: Golden
) -> None:
    toolchain = resolved(tmp_path, **changes)
    path = write_toolchain_file(toolchain, running)
    assert path == toolchain.cc.with_name("toolchain.cmake")
    golden(GOLDEN / "wrappers" / f"{name}.cmake", path.read_text())


@pytest.mark.parametrize("system", ["android", "ios"])
def test_systems_with_a_file_of_their_own(system: str, tmp_path: Path) -> None:
    toolchain = resolved(tmp_path, system=system)
    with pytest.raises(NoToolchainFileError) as caught:
        write_toolchain_file(toolchain, Running(None))
    assert caught.value.render().startswith(
        "toolchains/linux-arm64.yaml:3:1: error: there is no CMake toolchain file for linux-arm64\n"
        f"  expected: an ABI of the system linux\n  seen:     system: {system}\n  do:       use "
    )


def test_cmake_compiles_archives_and_runs_with_it(tmp_path: Path) -> None:
    """A project without a C library, since zig would build one: an archive and an emulator."""
    toolchain = resolved(with_users_zig(tmp_path / "cache"))
    emulator = tmp_path / "my emulator"
    emulator.write_text('#!/bin/sh\necho "ran $1 ${2##*/}"\n')
    emulator.chmod(0o755)
    file = write_toolchain_file(toolchain, Running((str(emulator), "$x")))
    project = tmp_path / "project"
    project.mkdir()
    (project / "answer.c").write_text("int answer(void) { return 42; }\n")
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.19)\n"
        "project(answer LANGUAGES C)\n"
        "add_library(answer STATIC answer.c)\n"
        "enable_testing()\n"
        "add_executable(program answer.c)\n"
        "set_target_properties(program PROPERTIES EXCLUDE_FROM_ALL ON)\n"
        "add_test(NAME program COMMAND program)\n"
    )
    build = tmp_path / "build"
    configure = [CMAKE, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={NINJA}"]
    configure += ["-S", str(project), "-B", str(build), f"-DCMAKE_TOOLCHAIN_FILE={file}"]
    configure += ["-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]
    for argv in (configure, [CMAKE, "--build", str(build)]):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    members = subprocess.run(
        [toolchain.ar, "t", build / "libanswer.a"], capture_output=True, text=True, check=True
    )
    assert members.stdout == "answer.c.o\n"
    tests = (build / "CTestTestfile.cmake").read_text()
    assert f'"{emulator}" [[$x]] "{build}/program"' in tests


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / "toolchains").mkdir(parents=True)
    (root / "WORKSPACE").write_text(WORKSPACE)
    for abi, system in (("linux-arm64", "linux"), ("linux-other", "linux")):
        (root / f"toolchains/{abi}.yaml").write_text(TOOLCHAIN.format(abi=abi, system=system))
    return root


# those of the workspace, and those that are built in
ABIS = (
    "android-arm64-v8a, android-armeabi-v7a, android-x86_64, ios-arm64, ios-simulator-arm64,"
    " ios-simulator-x86_64, linux-arm64, linux-arm64-musl, linux-other, linux-x86_64"
)


def verb(workspace: Path, *words: str) -> int:
    env = os.environ | {"ORCHESTRATOR_CACHE": str(workspace / "cache")}
    return cli.main(["toolchain", *words], env=env, cwd=workspace)


def test_the_verb_shows(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb(workspace, "show", "--json") == 0
    shown = json.loads(capsys.readouterr().out)["toolchains"]
    assert [each["abi"] for each in shown] == ["linux-arm64", "linux-other"]
    assert shown[0]["target"] == "aarch64-linux-gnu.2.28"
    assert (shown[0]["shared"], shown[0]["lto"]) == (True, True)
    assert verb(workspace, "show", "linux-arm64") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "linux-arm64"
    assert "  fold_functions    yes" in lines
    assert lines[-1] == "  runs              not on this machine, or not tried yet"


def test_the_verb_writes_and_prints_a_path(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verb(workspace, "cmake", "linux-arm64") == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.name == "toolchain.cmake"
    assert path.is_relative_to(workspace / "cache/toolchains")
    assert "CMAKE_CROSSCOMPILING_EMULATOR" not in path.read_text()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["cmake", "linux-arm46"],
            "error: no toolchain is named linux-arm46\n"
            f"  expected: {ABIS}\n"
            "  seen:     linux-arm46\n"
            "  do:       did you mean `linux-arm64`?\n",
        ),
        (
            ["cmake"],
            f"error: `cmake` requires one ABI\n  expected: {ABIS}\n"
            "  do:       run: ./orchestrate toolchain cmake ABI\n",
        ),
    ],
)
def test_an_abi_that_is_not_there(
    words: list[str], expected: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verb(workspace, *words) == 1
    assert capsys.readouterr().err == expected
