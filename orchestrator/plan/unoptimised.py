"""Compilations without optimisation, for what is waited for and hardly runs: the development
library's base.  Pure."""

from __future__ import annotations

from typing import Final

from orchestrator.values.action import Compile, identified

# Behind the level that a compiler is called with: zig takes -O0 itself for a debug build, with a
# C++ library of other checks.
UNOPTIMISED: Final = ("-Xclang", "-O0")


def unoptimised(one: Compile) -> Compile:
    """The compilation without optimisation, with the precompiled header that it has: in that
    `__OPTIMIZE__` is defined."""
    flags = (*one.flags, *UNOPTIMISED)
    return identified(one, {"optimised": one, "more": UNOPTIMISED}, flags=flags)
