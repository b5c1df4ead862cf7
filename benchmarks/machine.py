"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from orchestrator.compilers.resolve import ResolvedToolchain


def compiler_name(toolchain: ResolvedToolchain) -> str:
    """The compiler and its version, with its target where it has one."""
    zig = toolchain.config.compiler.zig
    if zig is None:
        return toolchain.version
    return f"zig {toolchain.version}, target {zig.target}"


def machine_facts(compiler: str | None, proc: Path = Path("/proc")) -> dict[str, str]:
    """Facts by name, in the order in which they are shown; compiler: where one is compared."""
    cpu = re.search(r"^model name\s*:\s*(.*)$", (proc / "cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB$", (proc / "meminfo").read_text(), re.MULTILINE)
    return {
        "processor": cpu[1] if cpu else platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{int(memory[1]) / 2**20:.1f} GiB" if memory else "unknown",
        "system": f"{platform.system()} {platform.release()}",
        **({"compiler, for both sides": compiler} if compiler else {}),
        "Python": platform.python_version(),
        "load when it began": f"{os.getloadavg()[0]:.2f}",
    }
