"""The C++ library, compiled and linked by zig with an empty cache."""

from __future__ import annotations

import os
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from core_toy import spec
from elftools.elf.elffile import ELFFile
from zig_tool import library

from orchestrator.compilers.zig_cxx import ALONE, FIRST, LINK_FLAGS, SELDOM, cxx_sources
from orchestrator.plan.cxx_together import compiled_together
from orchestrator.plan.graph import cxx_library_compiles

pytestmark = pytest.mark.real


def test_sources_that_are_compiled_together_have_no_initialiser(tmp_path: Path) -> None:
    """It would be linked wherever something refers to any of them."""
    cache, zig = tmp_path / "zig", library().parent / "zig"
    env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    every = cxx_library_compiles(spec(), cxx_sources(library()), "-Os")
    assert {one.unit for one in every} >= ALONE | FIRST
    found = compiled_together(every, alone=ALONE | SELDOM, first=FIRST)
    assert [one.unit for one in found.compiles[:2]] == [
        "libcxx/src/together.cpp",
        "libcxxabi/src/together.cpp",
    ]
    for one in found.compiles[:2]:
        source, made = tmp_path / "one.cpp", tmp_path / "one.o"
        source.write_text(found.texts[one.source])
        flags = (flag.replace("$zig", str(library())) for flag in one.flags)
        target = ("-target", "x86_64-linux-gnu.2.28", "-fno-sanitize=all")
        words = ["c++", *target, *flags, "-c", str(source), "-o", str(made)]
        subprocess.run([zig, *words], env=env, check=True)
        names = {one.name for one in ELFFile(BytesIO(made.read_bytes())).iter_sections()}
        assert ".init_array" not in names
        assert any(name.startswith(".text._Z") for name in names)


def test_a_link_makes_zig_build_neither_a_cxx_library_nor_a_runtime_for_ubsan(
    tmp_path: Path,
) -> None:
    cache = tmp_path / "zig"
    env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    zig = library().parent / "zig"
    (tmp_path / "a.cpp").write_text('extern "C" int lta_one() { return 1; }\n')
    target = ("-target", "x86_64-linux-gnu.2.28", "-fno-sanitize=all")
    for arguments in (
        ("-c", "a.cpp", "-fPIC", "-MD", "-MF", "a.d", "-o", "a.o"),
        ("-shared", "a.o", *LINK_FLAGS, "-o", "a.so"),
    ):
        subprocess.run([zig, "c++", *target, *arguments], cwd=tmp_path, env=env, check=True)
    made = sorted(path.name for path in cache.rglob("*.a"))
    assert made == ["libc_nonshared.a", "libcompiler_rt.a"]
