"""Flags that every compiler must support, whatever it compiles."""

from __future__ import annotations

from typing import Literal

# Functions that guard their stack; the C library's functions that know their target's size.
Hardening = Literal["canaries", "checked_calls"]
HARDENING: frozenset[Hardening] = frozenset(("canaries", "checked_calls"))
# The C library's checked functions. Anew, as some compilers define it themselves.
CHECKED_CALLS = ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2")

# Code, and beside it the bitcode that a link may optimise together (LLVM, docs/FatLTO.rst), with
# what it may know of classes (clang, docs/LTOVisibility.rst). To the compiler behind its driver:
# distcc compiles on this machine what says `-flto` (its arg.c, dcc_scan_args).
LTO_FLAGS = (
    *("-Xclang", "-flto=full", "-Xclang", "-flto-unit"),
    *("-Xclang", "-ffat-lto-objects", "-Xclang", "-fwhole-program-vtables"),
)
