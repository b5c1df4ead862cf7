"""What an add-on is linked of besides what is compiled for it: a C++ library that a compiler
brings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from android_toy import write_python
from elf_objects import Symbol, elf_object
from toy_workspace import toy_invocation, toy_runtime

from orchestrator.binary.elf_imports import defined_names
from orchestrator.build.development.addon_link import (
    AddonObjects,
    Extended,
    _brought,
    _libraries,
    lacks_of_cxx,
    link_flags,
)
from orchestrator.compilers.driver import AndroidFacts
from orchestrator.compilers.relink import exported_name

# Says where its archives are, as clang does: of one that is not there, its name.
COMPILER = """\
import pathlib, sys
name = sys.argv[1].removeprefix("-print-file-name=")
path = pathlib.Path(__file__).parent / name
print(path if path.exists() else name)
"""


def toolchain(folder: Path, **driver: object) -> Any:
    compiler = write_python(folder / "cxx", COMPILER)
    facts = {"exports_more": "by compiler", "links_cxx_library": True, **driver}
    return SimpleNamespace(
        cxx=compiler,
        driver=SimpleNamespace(android=AndroidFacts(24, 26, "c++_static"), **facts),
        tools=SimpleNamespace(env={"PATH": "/usr/bin:/bin"}),
        capabilities=SimpleNamespace(pack_relocations=True),
        config=SimpleNamespace(system="android"),
        link_flags=("-Wl,--of-the-toolchain",),
    )


def archive(*members: bytes) -> bytes:
    """With a table of symbols, as GNU's and LLVM's `ar` write it."""
    text = b"!<arch>\n"
    for name, content in [("/", bytes(4)), *((f"{n}.o/", one) for n, one in enumerate(members))]:
        text += f"{name:<16}{0:<12}{0:<6}{0:<6}{0:<8}{len(content):<10}`\n".encode()
        text += content + b"\n" * (len(content) % 2)
    return text


def test_the_objects_of_an_ndks_cxx_library_are_those_of_its_archives(tmp_path: Path) -> None:
    of_cxx, of_unwinder = (elf_object([Symbol(name)]) for name in ("of_cxx", "of_unwinder"))
    (tmp_path / "libc++.a").write_text("INPUT(-lc++_static -lc++abi)\n")
    (tmp_path / "libc++_static.a").write_bytes(archive(of_cxx, of_cxx))
    (tmp_path / "libunwind.a").write_bytes(archive(of_unwinder))
    found = [*_brought(toy_invocation(tmp_path), toolchain(tmp_path))]
    assert [sorted(defined_names(one)) for one in found] == [
        ["of_cxx"],
        ["of_cxx"],
        ["of_unwinder"],
    ]


@pytest.mark.parametrize(
    "driver", [{"exports_more": "by wrapper"}, {"links_cxx_library": False}], ids=["zig", "shared"]
)
def test_a_library_that_is_compiled_or_lies_beside_has_none(
    tmp_path: Path, driver: dict[str, object]
) -> None:
    (tmp_path / "libc++_static.a").write_bytes(archive(elf_object([Symbol("of_cxx")])))
    assert [*_brought(toy_invocation(tmp_path), toolchain(tmp_path, **driver))] == []


def test_the_system_packs_relocations_as_it_reads_them(tmp_path: Path) -> None:
    tools = toolchain(tmp_path)
    assert link_flags(tools, "libx.so", as_tracer=False)[-1] == "-Wl,--pack-dyn-relocs=android"
    tools.driver.android = None
    assert not [
        flag for flag in link_flags(tools, "libx.so", as_tracer=False) if "pack-dyn-relocs" in flag
    ]


def test_a_cxx_library_that_lies_beside_is_the_compilers_to_find(tmp_path: Path) -> None:
    system = ("-lm", "-ldl", "-llog", "-Wl,--of-the-toolchain")
    assert _libraries(toolchain(tmp_path)) == (*system, "-nostdlib++", "-O2")
    assert _libraries(toolchain(tmp_path, links_cxx_library=False)) == (*system, "-O2")


def test_what_the_cxx_library_must_have_is_what_nobody_else_has(tmp_path: Path) -> None:
    """Functions that the link drops refer to much of PyTorch that is nowhere: it does not count."""

    def compiled(name: str, *symbols: Symbol) -> Any:
        (tmp_path / name).write_bytes(elf_object([*symbols]))
        return SimpleNamespace(object=f"$state/{name}")

    def wanted(name: str) -> Symbol:
        return Symbol(name, section=0, kind=0, visibility=0)

    here, there, gone = "_ZN2at4hereEv", "_ZN2at5thereEv", "_ZN2at4goneENSt3__16vectorE"
    sorts, matches = "_ZNSt3__14sortEv", "_ZNSt3__15matchEv"
    runtime = toy_runtime(folders={"state": str(tmp_path)})
    one = toy_invocation(tmp_path, ready=[runtime])
    base = Extended("toy", tmp_path, frozenset({exported_name("toy", there)}), 40 * "0", "toy")
    kernel = compiled("kernel.o", *map(wanted, (here, there, gone, sorts, matches, "memcpy")))
    other = compiled("other.o", Symbol(here))
    usual = compiled("algorithm.o", Symbol(sorts))
    regex = compiled("regex.o", Symbol(matches))
    objects = AddonObjects((kernel,), (other,), (usual,), {}, frozenset())
    assert lacks_of_cxx(one, base, objects) == {matches}
    assert not lacks_of_cxx(one, base, replace(objects, library=(usual, regex)))
