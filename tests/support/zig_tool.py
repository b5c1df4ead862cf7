"""zig as tests run it: for the host's own ABI, with one cache of zig's for all checkouts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from orchestrator.build.executing.launch import zig_link
from orchestrator.compilers.environment import own_environment
from orchestrator.compilers.zig import zig_library
from orchestrator.load.workspace import load_workspace

ROOT: Final = Path(__file__).parents[2]
HOST_TARGET: Final = "x86_64-linux-gnu.2.28"
ZIG: Final = (sys.executable, "-m", "ziglang")
# Of each target zig makes the C++ library once, in a minute: so nobody asks for the machine's own.
HOST_CC: Final = (*ZIG, "cc", "-target", HOST_TARGET)
# linux-arm64's: its programs run in an emulator.
ARM_CC: Final = (*ZIG, "cc", "-target", "aarch64-linux-gnu.2.28")
HOST_CXX: Final = (*ZIG, "c++", "-target", HOST_TARGET)


def zig(*arguments: str | Path) -> None:
    """Run zig; `cc` and `c++` without a target are for the host's own ABI."""
    tool, *rest = map(str, arguments)
    target = ("-target", HOST_TARGET) if tool in ("cc", "c++") and "-target" not in rest else ()
    subprocess.run([*ZIG, tool, *target, *rest], check=True, env=zig_environment())


def library() -> Path:
    """zig's own libraries, as sources."""
    found = zig_library()
    assert found is not None, "the Python package ziglang is not installed"
    return found


def zig_environment() -> dict[str, str]:
    """The environment with the cache in which zig makes what it links, for all tests once.

    zig's key of what it made has the path of its library, not that folder's times: under one name
    for all checkouts, it makes the C++ library once for all of them.
    """
    folder = load_workspace(ROOT, os.environ).cache.with_name("libtorch-orchestrator-tests")
    caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(folder / "zig"))
    library_at = str(zig_link(folder, library()))
    return {**own_environment(os.environ), **caches, "ZIG_LIB_DIR": library_at}
