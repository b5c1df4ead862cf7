"""The development library's C++ library: most of its sources in few compilations."""

from __future__ import annotations

from core_toy import spec

from orchestrator.compilers.driver import CxxSource
from orchestrator.plan.cxx_together import compiled_together
from orchestrator.plan.graph import cxx_library_compiles
from orchestrator.values.action import Compile

_FLAGS = ("-std=c++23", "-I$zig/libcxx/src")
_SOURCES = (
    CxxSource("libcxx/src/any.cpp", "c++", _FLAGS),
    CxxSource("libcxx/src/hash.cpp", "c++", _FLAGS),
    CxxSource("libcxx/src/memory.cpp", "c++", _FLAGS),
    CxxSource("libcxx/src/string.cpp", "c++", _FLAGS),
    CxxSource("libcxxabi/src/one.cpp", "c++", _FLAGS),
    CxxSource("libunwind/src/UnwindLevel1.c", "c", ()),
    CxxSource("libunwind/src/gcc_personality_v0.c", "c", ()),
)
_ANY, _MEMORY = "libcxx/src/any.cpp", "libcxx/src/memory.cpp"


def library(*sources: CxxSource) -> tuple[Compile, ...]:
    return cxx_library_compiles(spec(), sources, "-Os")


def test_sources_of_a_folder_are_one_compilation_that_is_not_optimised() -> None:
    found = compiled_together(library(*_SOURCES), alone={_ANY}, first={_MEMORY})
    one, *left = found.compiles
    assert one.unit == "libcxx/src/together.cpp"
    assert one.flags == ("-I$zig/libcxx/src", "-Os", *_FLAGS, "-Xclang", "-O0")
    text = "#include <memory.cpp>\n#include <hash.cpp>\n#include <string.cpp>\n"
    assert found.texts == {one.source: text}
    assert one.identity.digest == one.fingerprint
    # C, what stands alone, and what has no other beside it stay as they are
    others = {source.unit for source in _SOURCES} - {
        _MEMORY,
        "libcxx/src/hash.cpp",
        "libcxx/src/string.cpp",
    }
    every = {c.unit: c for c in library(*_SOURCES)}
    assert {c.unit: c for c in left} == {unit: every[unit] for unit in others}


def test_the_object_is_another_one_where_a_source_or_its_flags_differ() -> None:
    def made(*sources: CxxSource) -> str:
        return compiled_together(library(*sources), alone=(), first=()).compiles[0].object

    first, second = _SOURCES[:2]
    other = [CxxSource(one.unit, one.language, ("-DOTHER",)) for one in (first, second)]
    objects = {made(first, second), made(*_SOURCES[:3]), made(*other)}
    assert len(objects) == 3
    assert made(second, first) == made(first, second)


def test_sources_with_other_flags_are_not_compiled_together() -> None:
    first, second = _SOURCES[0], CxxSource("libcxx/src/hash.cpp", "c++", ("-DOTHER",))
    every = library(first, second)
    found = compiled_together(every, alone=(), first=())
    assert found.compiles == every
    assert found.texts == {}
