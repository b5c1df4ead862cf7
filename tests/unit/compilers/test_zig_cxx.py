"""The C++ library as compilations: what is compiled, and which objects variants share."""

from __future__ import annotations

from core_toy import spec
from zig_tool import library

from orchestrator.compilers.zig_cxx import SELDOM, cxx_sources
from orchestrator.plan.graph import cxx_library_compiles


def test_all_sources_of_the_three_libraries_are_compiled() -> None:
    sources = cxx_sources(library())
    units = [source.unit for source in sources]
    assert len(units) == len(set(units)) == 76
    assert {"libcxx/src/string.cpp", "libcxxabi/src/cxa_exception.cpp"} <= set(units)
    assert "libunwind/src/UnwindRegistersSave.S" in units
    # for a library without exceptions: it would define the same functions
    assert "libcxxabi/src/cxa_noexception.cpp" not in units


def test_what_is_seldom_used_are_sources_of_the_library_with_names_of_cxx() -> None:
    units = {source.unit for source in cxx_sources(library())}
    assert units > SELDOM
    # `lacks_of_cxx` tells by such names that one of them is wanted
    assert all(unit.startswith("libcxx/src/") for unit in SELDOM)


def test_variants_of_one_level_share_their_objects() -> None:
    sources = cxx_sources(library())
    usual, again = (cxx_library_compiles(spec(), sources, "-Os") for _ in range(2))
    smallest = cxx_library_compiles(spec(), sources, "-Oz")
    assert [one.object for one in usual] == [one.object for one in again]
    assert not {one.object for one in usual} & {one.object for one in smallest}
    assert {one.source for one in usual} == {f"$zig/{one.unit}" for one in usual}
