"""`optimize: size`: a library optimised as a whole, and static ones for any compiler."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from real import ROOT, consume, orchestrator, workspace_copy

from orchestrator.build.workshop.invocation import load
from orchestrator.cli import make_context
from orchestrator.values.operators import OperatorName as Op

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

MEMBERS = 50


@pytest.fixture(scope="module")
def smallest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which camera is as small as it can be, built for the host."""
    root = workspace_copy(tmp_path_factory.mktemp("smallest"), "camera")
    declared = root / "apps/camera/app.yaml"
    declared.write_text(declared.read_text() + "optimize: size\n")
    ran = orchestrator("build", "//apps/camera:linux-x86_64", "--json", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    assert variant["verified"] == "ok"
    assert variant["stripped_bytes"] < 1_250_000
    return root


def test_static_libraries_hold_code_and_no_bitcode(smallest: Path, tmp_path: Path) -> None:
    delivered = smallest / "dist/camera/linux-x86_64"
    core = delivered / "lib/libcamera_torch_core.a"
    subprocess.run(["ar", "x", str(core)], cwd=tmp_path, check=True)
    objects = sorted(tmp_path.glob("*.o"))
    assert len(objects) > MEMBERS
    for path in objects:
        with path.open("rb") as file:
            section = ELFFile(file).get_section_by_name(".llvm.lto")
            assert section is None or section["sh_size"] == 0, path.name
    toolchain = delivered / "lib/cmake/camera_libtorch/toolchain.cmake"
    define = f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"
    assert consume(tmp_path / "out", "cpp_static", "camera", delivered, define)


def test_nothing_changed_links_nothing_again(smallest: Path) -> None:
    """The ordinary way: the number is what ninja ran."""
    (smallest / ".orchestrator/last-build.json").unlink()
    again = orchestrator("build", "//apps/camera:linux-x86_64", "--json", "--quiet", cwd=smallest)
    assert again.code == 0, again.err
    report = json.loads(again.out)
    assert (report["replayed"], report["actions_run"]) == (False, 0)


def test_nothing_changed_is_told_again(smallest: Path) -> None:
    words = ("build", "//apps/camera:linux-x86_64", "--json", "--quiet")
    _, again = (orchestrator(*words, cwd=smallest) for _ in range(2))
    assert again.code == 0, again.err
    assert json.loads(again.out)["replayed"]


def test_upgraders_are_left_out_for_no_operator_that_has_one() -> None:
    """The operators that a version's data names are those of its own map."""
    context = make_context(argparse.Namespace(workspace=str(ROOT)), os.environ, ROOT)
    runtime = load(context, print).runtimes.of("camera")
    unit = "torch/csrc/jit/mobile/upgrader_mobile.cpp"
    text = (runtime.fetched.tree / unit).read_text()
    of_map, _, _ = text.partition("getUpgraderBytecodeList")
    (rule,) = (r for r in runtime.version.include if r.unless)
    assert rule.unit == unit
    entry = r'string\("(aten::[^"]+)"\),\s*std::vector<Upgrader>\(\{\s*Upgrader\(\{0, (\d+), '
    told = {name: int(last) for name, last in re.findall(entry, of_map)}
    assert len(told) == of_map.count("string(")
    assert rule.unless == told
    # what their bytecode calls is looked up by its name
    called = re.findall(r'OperatorString\(\{"(aten::\w+)", "(\w*)"', text)
    looked_up = {of.unit: of.operators for of in runtime.version.by_name}
    assert set(looked_up[unit]) == {f"{name}.{overload}".rstrip(".") for name, overload in called}
    assert runtime.lean_units([]) == {unit}
    assert runtime.lean_units([Op("aten::gelu")]) == set()
