"""What toolchains can do: probed for real, remembered, and told where one is broken."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from golden_files import Golden

from orchestrator.compilers.capabilities import Capabilities
from orchestrator.compilers.resolve import ResolvedToolchain, resolve_toolchain
from orchestrator.errors import OrchestratorError, Place
from orchestrator.values.config.toolchain import ToolchainConfig

CASES = Path(__file__).parents[2] / "failing" / "toolchain"
ZIG = Capabilities(
    shared=True,
    version_script=True,
    # zig refuses it, and its wrapper asks zig's linker
    fold_functions=True,
    pack_relocations=True,
    self_relocate=True,
    lto=True,
    precompile=True,
)
GNU = Capabilities(
    shared=True,
    version_script=True,
    # GNU ld has no --icf, and packs no relocations as bionic wants them
    fold_functions=False,
    pack_relocations=False,
    self_relocate=False,
    # gcc's objects of this kind and its precompiled headers are other things
    lto=False,
    precompile=False,
)


def resolved(
    cache: Path, compiler: dict[str, object], path: str = "", **changes: object
) -> ResolvedToolchain:
    values: dict[str, object] = {
        "abi": "linux-x86_64",
        "system": "linux",
        "processor": "x86_64",
        "format": "elf",
        "compiler": compiler,
        "run": "native",
    }
    config = ToolchainConfig.model_validate(values | changes)
    env = os.environ | {"PATH": f"{path}:{os.environ['PATH']}"}
    return resolve_toolchain(config, Place("toolchains/linux-x86_64.yaml"), cache, env)


@pytest.mark.parametrize("target", ["x86_64-linux-gnu.2.28", "aarch64-linux-musl"])
def test_what_zig_can_do(target: str, tmp_path: Path) -> None:
    assert resolved(tmp_path, {"zig": {"target": target}}).capabilities == ZIG


def test_what_the_machines_compiler_can_do(tmp_path: Path) -> None:
    compiler: dict[str, object] = {"command": {"cxx": "g++", "cc": "gcc"}}
    assert resolved(tmp_path, compiler).capabilities == GNU


def test_abilities_are_remembered_beside_the_wrappers(tmp_path: Path) -> None:
    compiler: dict[str, object] = {"zig": {"target": "x86_64-linux-gnu.2.28"}}
    first = resolved(tmp_path, compiler)
    assert first.capabilities == ZIG
    (kept,) = first.cc.parent.glob("abilities-*.json")
    assert json.loads(kept.read_text())["abilities"] == asdict(ZIG)
    first.cc.write_text("#!/bin/sh\nexit 9\n")
    for tool in (first.cc, first.cxx, first.ar):
        tool.write_text("#!/bin/sh\nexit 9\n")
    # the wrappers that this one has are broken: nothing is asked again
    broken = replace(first)
    assert broken.capabilities == ZIG
    # other flags are another question; the wrappers are written again
    other = resolved(tmp_path, compiler, link_flags=["-Wl,--no-such-flag"])
    with pytest.raises(OrchestratorError, match="compiles but cannot link"):
        _ = other.capabilities
    # and one that has an answer leaves the first one's
    assert resolved(tmp_path, compiler, compile_flags=["-DX"]).capabilities == ZIG
    assert len([*first.cc.parent.glob("abilities-*.json")]) == 2
    assert json.loads(kept.read_text())["abilities"] == asdict(ZIG)
    # what is damaged is asked again
    kept.write_text("{")
    assert resolved(tmp_path, compiler).capabilities == ZIG


@pytest.mark.parametrize("output", ["int main;", "", None], ids=["text", "empty", "none"])
def test_a_linker_whose_output_is_no_library(tmp_path: Path, output: str | None) -> None:
    """It says that all went well; it is believed as far as nobody looks into what it wrote."""
    write = f"printf '{output}' >" if output is not None else "true"
    script = (
        "#!/bin/sh\n"
        'case "$*" in --version) echo "cc 1.0"; exit;; esac\n'
        'case "$*" in *-dumpmachine*) echo x86_64-linux-gnu; exit;; esac\n'
        'while [ $# -gt 0 ]; do case "$1" in -o) shift; ' + write + ' "$1";; esac; shift; done\n'
    )
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("mycc", "mycxx", "myar"):
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    compiler: dict[str, object] = {"command": {"cxx": "mycxx", "cc": "mycc", "ar": "myar"}}
    found = resolved(tmp_path / "cache", compiler, path=str(tools)).capabilities
    able = {name for name, can in asdict(found).items() if can}
    assert able == {"shared", "precompile"}


@pytest.mark.parametrize("case", sorted(folder.name for folder in CASES.iterdir()))
def test_a_broken_toolchain(case: str, tmp_path: Path, golden: Golden) -> None:
    config = yaml.safe_load((CASES / case / "toolchain.yaml").read_text())
    toolchain = resolved(tmp_path, path=str(CASES / case / "bin"), **config)
    with pytest.raises(OrchestratorError) as caught:
        _ = toolchain.capabilities
    golden(CASES / case / "expected.txt", caught.value.render() + "\n")
    assert [*toolchain.cc.parent.glob("abilities-*.json")] == []
