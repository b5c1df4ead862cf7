"""Headers of ours that a toolchain's flags name: what musl differs in from glibc."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from core_toy import ROOT

from orchestrator.build.planning.variants import identity_with_headers
from orchestrator.build.workshop.native import NATIVE, own_native_files
from orchestrator.compilers.resolve import (
    ResolvedToolchain,
    compiler_environment,
    resolve_toolchain,
)
from orchestrator.load.workspace import load_workspace
from orchestrator.plan.flags import own_folders
from orchestrator.plan.native_files import native_files

# What PyTorch does: c10/macros/Macros.h, and native/SoftMax.cpp.
LIKE_PYTORCH = """\
#include <cassert>
#include <cstdlib>
extern "C" void __assert_fail(const char*, const char*, unsigned int, const char*) throw()
    __attribute__((__noreturn__));
struct Optional { Optional(long) {} };
#include <cstring>
const Optional none = NULL;
void check(bool fine) { if (!fine) __assert_fail("fine", "file", 1u, "check"); }
"""


def resolved(abi: str, cache: Path) -> ResolvedToolchain:
    declared = load_workspace(ROOT, os.environ).toolchains[abi]
    return resolve_toolchain(declared.config, declared.place, cache, os.environ)


def test_paths_of_ours_in_flags() -> None:
    flags = ["-I$native/libc/musl", "-include$native/libc/null.h", "-I/opt/x", "-DA=$native/x"]
    assert own_folders(flags) == ("$native/libc/musl",)
    assert {*own_native_files().found_by(flags)} == {"libc/musl/assert.h", "libc/null.h"}


def test_headers_are_part_of_the_identity(tmp_path: Path) -> None:
    native = own_native_files()
    host, musl = (resolved(abi, tmp_path) for abi in ("linux-x86_64", "linux-arm64-musl"))
    # no header, nothing but the compiler: objects of before stay what they are
    assert identity_with_headers(host, native) == host.identity
    seen = [musl.identity, identity_with_headers(musl, native)]
    for header in ("libc/musl/assert.h", "libc/null.h"):
        native = native_files({**native.texts, header: native.texts[header] + b"\n"})
        seen.append(identity_with_headers(musl, native))
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(("with_headers", "expected"), [(True, []), (False, ["assert", "NULL"])])
def test_what_pytorch_takes_for_granted(
    with_headers: bool, expected: list[str], tmp_path: Path
) -> None:
    musl = resolved("linux-arm64-musl", tmp_path)
    (tmp_path / "like.cpp").write_text(LIKE_PYTORCH)
    flags = [flag.replace("$native", str(NATIVE)) for flag in musl.compile_flags]
    own = flags if with_headers else []
    argv = [str(musl.cxx), *own, "-std=gnu++17", "-DNDEBUG", "-w"]
    done = subprocess.run(
        [*argv, "-MD", "-MF", "like.d", "-c", "like.cpp", "-o", "like.o"],
        cwd=tmp_path,
        env=compiler_environment(tmp_path, os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in done.stderr.splitlines() if ": error: " in line]
    assert len(errors) == len(expected), done.stderr
    assert (done.returncode == 0) == with_headers
