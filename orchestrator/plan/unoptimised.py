"""Compilations without optimisation, for what is waited for and hardly runs: the development
library's base.  Pure."""

from __future__ import annotations

from typing import Final

from orchestrator.values.action import Compile, identified

# Behind the level that a compiler is called with: zig takes -O0 itself for a debug build, with a
# C++ library of other checks.
UNOPTIMISED: Final = ("-Xclang", "-O0")
# clang refuses a precompiled header of another level, which differs in nothing but `__OPTIMIZE__`:
# that is then defined, as in the header. Whether the header is up to date is ninja's to know.
_ANY_HEADER: Final = ("-Xclang", "-fno-validate-pch")


def unoptimised(one: Compile) -> Compile:
    """The compilation without optimisation, with the precompiled header that it has."""
    more = UNOPTIMISED if one.pch is None else (*UNOPTIMISED, *_ANY_HEADER)
    return identified(one, {"optimised": one, "more": more}, flags=(*one.flags, *more))
