"""At which CPU levels models are verified: the processor that runs them says it, an emulator's too.

Listener's network is of 8-bit integers, which kernels for newer processors compute.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from cpu_levels import processor_levels, used_levels
from real import models_of, orchestrator

pytestmark = pytest.mark.real

ARM = "//apps/listener:linux-arm64"
X86 = ("avx2", "avxvnni", "avx512vnni")


def emulator() -> list[str]:
    """How the programs of linux-arm64 run here."""
    shown = json.loads(orchestrator("toolchain", "show", "linux-arm64", "--json").out)
    runs: str = shown["toolchains"][0]["runs"]
    assert runs.startswith("with "), runs
    return runs.removeprefix("with ").split()


def told(built: Path, abi: str, folder: Path, *prefix: str, **env: str) -> list[str]:
    """The CPU levels that listener's model runner says that its library could choose from."""
    driver = built.parent / ".orchestrator/variants/listener" / abi / "driver"
    (model,) = models_of("listener")
    output = folder / "output.json"
    argv = [*prefix, str(driver), "--model", str(model), "--output", str(output), "--no-args"]
    library = str(built / "listener" / abi / "lib")
    subprocess.run(argv, env={**os.environ, "LD_LIBRARY_PATH": library, **env}, check=True)
    levels: list[str] = json.loads(output.read_text())["cpu_levels"]
    return levels


def test_this_machines_processor_is_asked(built: Path, tmp_path: Path) -> None:
    assert told(built, "linux-x86_64", tmp_path) == list(used_levels())
    assert told(built, "linux-x86_64", tmp_path, LTA_CPU_LEVEL="baseline") == []


@pytest.mark.parametrize(
    ("processor", "levels"),
    [("cortex-a53", []), ("cortex-a76", ["dotprod"]), ("max", ["dotprod"])],
)
def test_an_emulated_processor_is_asked(
    built: Path, processor: str, levels: list[str], tmp_path: Path
) -> None:
    assert told(built, "linux-arm64", tmp_path, *emulator(), QEMU_CPU=processor) == levels


def test_qemu_has_no_avx_512_whatever_this_processor_has(built: Path, tmp_path: Path) -> None:
    """As where its programs are started by the kernel: the machine's own cpuinfo says nothing."""
    qemu = str(Path(emulator()[0]).with_name("qemu-x86_64-static"))
    for processor, levels in (("max", ["avx2"]), ("Nehalem", [])):
        assert told(built, "linux-x86_64", tmp_path, qemu, "-cpu", processor) == levels


@pytest.mark.parametrize(
    ("processor", "printed"),
    [
        ("max", "also at CPU level baseline"),
        ("cortex-a53", "also at CPU level baseline, not run here at dotprod"),
    ],
)
def test_verify_tells_what_an_emulated_processor_lacks(
    built: Path, processor: str, printed: str
) -> None:
    ran = orchestrator("verify", ARM, "--quiet", QEMU_CPU=processor)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{ARM} words: ok, 2 runs, {printed}\n"


def test_a_build_tells_it_too(built: Path) -> None:
    """In the row, and in a line below the table."""
    lacking = [level for level in X86 if level not in processor_levels()]
    run = [level for level in ("baseline", *X86) if level not in lacking]
    label = "//apps/listener:linux-x86_64"
    (row,) = json.loads(orchestrator("build", label, "--json", "--quiet").out)["variants"]
    assert (row["verified"], row["levels_run"], row["levels_not_run"]) == ("ok", run, lacking)
    line = f"{label}: verified at CPU level {', '.join(run)}; not run here at {', '.join(lacking)}"
    lines = orchestrator("build", label, "--quiet").out.splitlines()
    assert (line in lines) == bool(lacking)
    (row,) = json.loads(orchestrator("build", ARM, "--json", "--quiet").out)["variants"]
    assert (row["levels_run"], row["levels_not_run"]) == (["baseline", "dotprod"], [])
