"""Compilations of the development library's base, which are not optimised."""

from __future__ import annotations

from dataclasses import replace

from core_toy import spec
from toy_natives import natives

from orchestrator.plan.graph import bare_compile
from orchestrator.plan.unoptimised import unoptimised


def test_it_has_a_level_behind_the_one_that_zig_knows() -> None:
    optimised = bare_compile(spec(), "threads/one.cpp", natives())
    one = unoptimised(optimised)
    assert one.flags == (*optimised.flags, "-Xclang", "-O0")
    assert one.object != optimised.object
    assert one.identity.digest == one.fingerprint
    assert replace(one, flags=optimised.flags, fingerprint=optimised.fingerprint) == optimised
