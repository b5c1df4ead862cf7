"""Compilations of the development library's base, which are not optimised."""

from __future__ import annotations

from dataclasses import replace

from core_toy import spec
from toy_natives import natives

from orchestrator.plan.graph import bare_compile
from orchestrator.plan.unoptimised import unoptimised
from orchestrator.values.action import Precompile


def test_it_has_a_level_behind_the_one_that_zig_knows() -> None:
    optimised = bare_compile(spec(), "threads/one.cpp", natives())
    one = unoptimised(optimised)
    assert one.flags == (*optimised.flags, "-Xclang", "-O0")
    assert one.object != optimised.object
    assert one.identity.digest == one.fingerprint
    assert replace(one, flags=optimised.flags, fingerprint=optimised.fingerprint) == optimised


def test_it_takes_the_precompiled_header_of_what_is_optimised() -> None:
    header = Precompile("$native/pch/aten.h", "linux-x86_64", ("-Oz",), "d")
    with_header = replace(bare_compile(spec(), "threads/one.cpp", natives()), pch=header)
    one = unoptimised(with_header)
    assert one.pch == header
    assert one.flags[-4:] == ("-Xclang", "-O0", "-Xclang", "-fno-validate-pch")
