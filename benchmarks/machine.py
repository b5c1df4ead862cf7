"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.system.processor import processor_instructions

# x86-64's levels (its psABI, table 3.1) by the names of /proc/cpuinfo, each with those before it.
# `pni` is SSE3, `abm` has LZCNT; `lm` is the 64-bit mode.
_LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    "x86-64": ("lm", "cmov", "cx8", "fpu", "fxsr", "mmx", "sse", "sse2"),
    "x86-64-v2": ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
    "x86-64-v3": ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
# Of no level, or of ARM: products of 8 bits and of half floats, vectors of any length.
_BESIDES: Final = (
    *("avx_vnni", "avx512_vnni", "amx_int8"),
    *("asimddp", "asimdhp", "i8mm", "bf16", "sve", "sve2", "sme"),
)


def compiler_name(toolchain: ResolvedToolchain) -> str:
    """The compiler and its version, with its target where it has one."""
    zig = toolchain.config.compiler.zig
    if zig is None:
        return toolchain.version
    return f"zig {toolchain.version}, target {zig.target}"


def instructions_of(has: Collection[str]) -> str:
    """What a processor can do, of what the system's kernel says of it: x86-64's level, and what
    kernels choose by besides."""
    level, needed = "", set[str]()
    for name, names in _LEVELS.items():
        needed |= {*names}
        level = name if needed <= {*has} else level
    if "asimd" in has:
        level = "arm64"
    more = [name for name in _BESIDES if name in has]
    return f"{level or 'unknown'}{' with ' if more else ''}{', '.join(more)}"


def machine_facts(compiler: str | None, root: Path = Path("/")) -> dict[str, str]:
    """Facts by name, in the order in which they are shown.

    compiler: where one is compared; root: where /proc is mounted.
    """
    proc = root / "proc"
    cpu = re.search(r"^model name\s*:\s*(.*)$", (proc / "cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB$", (proc / "meminfo").read_text(), re.MULTILINE)
    return {
        "processor": cpu[1] if cpu else platform.machine(),
        "instructions": instructions_of(processor_instructions(root)),
        "cores": str(os.cpu_count()),
        "memory": f"{int(memory[1]) / 2**20:.1f} GiB" if memory else "unknown",
        "system": f"{platform.system()} {platform.release()}",
        **({"compiler, for both sides": compiler} if compiler else {}),
        "Python": platform.python_version(),
        "load when it began": f"{os.getloadavg()[0]:.2f}",
    }
