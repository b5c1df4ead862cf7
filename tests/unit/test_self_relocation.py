"""A library that relocates itself: made with the workspace's toolchain, loaded by this system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.load.workspace import load_workspace
from orchestrator.package.elf import SYSTEM_LIBRARIES, ElfRules, UnrelocatedError, check
from orchestrator.pipeline.prepare import NATIVE
from orchestrator.pipeline.variants import SELF_RELOCATION
from orchestrator.plan.flags import BARE_FLAGS
from orchestrator.toolchain.driver import SELF_RELOCATED
from orchestrator.toolchain.resolve import ResolvedToolchain, resolve_toolchain

ROOT = Path(__file__).parents[2]
# Vtables, a table far longer than a word of the packed table tells of, words between that are not
# to be relocated, and an initialiser that needs them all to be right.
SOURCE = """\
struct Shape { virtual int sides() const = 0; };
struct Square : Shape { int sides() const override { return 4; } };
struct Hexagon : Shape { int sides() const override { return 6; } };
static const Square square;
static const Hexagon hexagon;
struct Entry { long number; const Shape* shape; };
#define FOUR(n) {n, &square}, {n, &hexagon}, {n, nullptr}, {n, &square},
#define MANY(n) FOUR(n) FOUR(n) FOUR(n) FOUR(n) FOUR(n) FOUR(n) FOUR(n) FOUR(n)
extern "C" const Entry table[] = {MANY(1) MANY(2) MANY(3) MANY(5)};
static int total;
struct Sum {
  Sum() { for (const Entry& e : table) if (e.shape) total += e.number * e.shape->sides(); }
};
static Sum sum;
extern "C" int lta_total() { return total; }
extern "C" const void* lta_table() { return table; }
"""
# 8 times (4 + 6 + 4) times (1 + 2 + 3 + 5)
TOTAL = 1232
LOAD = """\
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.lta_table.restype = ctypes.c_void_p
place = library.lta_table()
for line in open("/proc/self/maps"):
    begin, end = (int(x, 16) for x in line.split()[0].split("-"))
    if begin <= place < end:
        print(library.lta_total(), line.split()[1])
"""
RULES = ElfRules(
    soname="libself.so",
    processor="x86_64",
    exports=frozenset(("lta_total", "lta_table")),
    system_libraries=SYSTEM_LIBRARIES["linux-gnu"],
)


@pytest.fixture(scope="module")
def toolchain() -> ResolvedToolchain:
    workspace = load_workspace(ROOT, os.environ)
    declared = workspace.toolchains["linux-x86_64"]
    return resolve_toolchain(declared.config, declared.place, workspace.cache, os.environ)


def test_it_can_be_declined(tmp_path: Path) -> None:
    declared = load_workspace(ROOT, os.environ).toolchains["linux-x86_64"]
    changed = {"link_flags": ("-Wl,--pack-dyn-relocs=none",)}
    config = declared.config.model_copy(update=changed)
    toolchain = resolve_toolchain(config, declared.place, tmp_path, os.environ)
    assert not toolchain.abilities.self_relocate


def linked(toolchain: ResolvedToolchain, folder: Path, *link: str, relocate: bool = True) -> Path:
    (folder / "table.cpp").write_text(SOURCE)
    (folder / "map").write_text("{ global: lta_*; local: *; };\n")
    relocation = str(NATIVE / SELF_RELOCATION)
    units = (str(folder / "table.cpp"), *((relocation,) if relocate else ()))

    def run(*argv: str) -> None:
        subprocess.run([str(toolchain.tools.cxx), *argv], check=True, env=toolchain.tools.env)

    objects = [str(folder / f"{Path(unit).stem}.o") for unit in units]
    for unit, made in zip(units, objects, strict=True):
        # -O0: with more the compiler works the sum out
        flags = BARE_FLAGS if unit == relocation else ("-O0", "-fPIC", "-g0")
        run(*toolchain.compile_flags, *flags, "-MD", "-MF", f"{made}.d", "-c", unit, "-o", made)
    out = folder / "libself.so"
    script = f"-Wl,--version-script={folder / 'map'}"
    run("-shared", *objects, script, "-Wl,-soname,libself.so", "-Wl,-z,defs", *link, "-o", str(out))
    return out


def loaded(library: Path) -> str:
    argv = [sys.executable, "-c", LOAD, str(library)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_it_relocates_itself_and_is_read_only_again(
    toolchain: ResolvedToolchain, tmp_path: Path
) -> None:
    assert toolchain.abilities.self_relocate
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.mkdir()
    packed.mkdir()
    as_usual = linked(toolchain, plain, relocate=False)
    by_itself = linked(toolchain, packed, *SELF_RELOCATED)
    assert loaded(by_itself) == loaded(as_usual) == f"{TOTAL} r--p\n"
    check(by_itself, RULES)
    # 24 bytes for each of the table's 96 pointers, at the least
    assert by_itself.stat().st_size < as_usual.stat().st_size - 96 * 24


def test_what_relocates_does_nothing_where_the_loader_does_it(
    toolchain: ResolvedToolchain, tmp_path: Path
) -> None:
    assert loaded(linked(toolchain, tmp_path)) == f"{TOTAL} r--p\n"


def test_a_library_that_would_not_begin_is_refused(
    toolchain: ResolvedToolchain, tmp_path: Path
) -> None:
    library = linked(toolchain, tmp_path, *SELF_RELOCATED, relocate=False)
    with pytest.raises(UnrelocatedError) as caught:
        check(library, RULES)
    assert caught.value.render() == (
        f"{library}: error: the library's own relocation would not run\n"
        "  expected: a first entry of .init_array that the loader relocates\n"
        "  seen:     packed relocations, and that entry is one of them\n"
        "  do:       link runtime_library/relocate.cpp, or without --pack-dyn-relocs"
    )
