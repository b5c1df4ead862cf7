"""zig as tests run it: for the host's own ABI, with the workspace's own cache of zig's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from orchestrator.compilers.resolve import compiler_environment
from orchestrator.load.workspace import load_workspace

ROOT: Final = Path(__file__).parents[2]
HOST_TARGET: Final = "x86_64-linux-gnu.2.28"
ZIG: Final = (sys.executable, "-m", "ziglang")
# Of each target zig makes the C++ library once, in a minute: so nobody asks for the machine's own.
HOST_CC: Final = (*ZIG, "cc", "-target", HOST_TARGET)
HOST_CXX: Final = (*ZIG, "c++", "-target", HOST_TARGET)


def zig(*arguments: str | Path) -> None:
    """Run zig; `cc` and `c++` without a target are for the host's own ABI."""
    tool, *rest = map(str, arguments)
    target = ("-target", HOST_TARGET) if tool in ("cc", "c++") and "-target" not in rest else ()
    subprocess.run([*ZIG, tool, *target, *rest], check=True, env=zig_environment())


def zig_environment() -> dict[str, str]:
    """The environment with the cache in which zig makes what it links, for all tests once."""
    return compiler_environment(load_workspace(ROOT, os.environ).cache, os.environ)
