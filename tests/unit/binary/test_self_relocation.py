"""A library that relocates itself: made with the workspace's toolchain, loaded by this system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from core_toy import spec
from package_toy import BUILD_ID
from toy_workspace import toy_invocation, toy_runtime

from orchestrator.binary.elf import ElfRules, UnrelocatedError, check
from orchestrator.build.planning.links import variant_links
from orchestrator.build.planning.variants import SELF_RELOCATION, runtime_library
from orchestrator.build.workshop.native import NATIVE
from orchestrator.compilers.driver import SELF_RELOCATED
from orchestrator.compilers.resolve import ResolvedToolchain, resolve_toolchain
from orchestrator.load.workspace import load_workspace
from orchestrator.plan.flags import RELOCATION_FLAGS
from orchestrator.platforms.linux import LIBRARY

ROOT = Path(__file__).parents[3]
# Vtables, a table far longer than a word of the packed table tells of, words between that are not
# to be relocated, and an initialiser that needs them all to be right.
SOURCE = """\
struct Shape { virtual int sides() const { return 0; } };
struct Square : Shape { int sides() const override { return 4; } };
struct Hexagon : Shape { int sides() const override { return 6; } };
static const Square square;
static const Hexagon hexagon;
struct Entry { long number; const Shape* shape; };
#define FOUR(n) {n, &square}, {n, &hexagon}, {n, nullptr}, {n, &square},
#define MANY(n) FOUR(n) FOUR(n) FOUR(n) FOUR(n) FOUR(n) FOUR(n) FOUR(n) FOUR(n)
#define PART(a, b, c, d) MANY(a) MANY(b) MANY(c) MANY(d)
extern "C" const Entry table[] = {PART(1, 2, 3, 5) PART(7, 11, 13, 17) PART(19, 23, 29, 31)};
static int total;
struct Sum {
  Sum() { for (const Entry& e : table) if (e.shape) total += e.number * e.shape->sides(); }
};
static Sum sum;
extern "C" int lta_total() { return total; }
extern "C" const void* lta_table() { return table; }
"""
# 8 times (4 + 6 + 4) times (1 + 2 + 3 + 5 + 7 + 11 + 13 + 17 + 19 + 23 + 29 + 31)
TOTAL = 18032
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
    system_libraries=LIBRARY.system_libraries["gnu"],
)


@pytest.fixture(scope="module")
def toolchain() -> ResolvedToolchain:
    workspace = load_workspace(ROOT, os.environ)
    declared = workspace.toolchains["linux-x86_64"]
    return resolve_toolchain(declared.config, declared.place, workspace.cache, os.environ)


def test_a_toolchain_can_decline_it(tmp_path: Path) -> None:
    declared = load_workspace(ROOT, os.environ).toolchains["linux-x86_64"]
    changed = {"link_flags": ("-Wl,--pack-dyn-relocs=none",)}
    config = declared.config.model_copy(update=changed)
    toolchain = resolve_toolchain(config, declared.place, tmp_path, os.environ)
    assert not toolchain.capabilities.self_relocate


_OBJECTS = (
    *("java", "kernels", "registrations", "native", "on_demand", "fastest_first"),
    "cxx_library",
)


def planned(
    root: Path, toolchain: ResolvedToolchain, *, wanted: bool
) -> tuple[list[str], tuple[str, ...]]:
    """The units that only a shared library has, and the flags of its link."""
    how = spec(self_relocation=wanted)
    here = toy_invocation(root, found={how.abi: toolchain})
    prepared = here.prepare(toy_runtime(), [how.abi])
    own = runtime_library(prepared, how)
    nothing = dict.fromkeys(_OBJECTS, ())
    plan = SimpleNamespace(spec=how, whole=())
    objects: Any = SimpleNamespace(plan=plan, runtime_library=own, **nothing)
    links = variant_links(prepared, "toy", objects)
    return [action.unit for action in own], links.shared.flags


def test_an_app_can_decline_it(tmp_path: Path, toolchain: ResolvedToolchain) -> None:
    units, flags = planned(tmp_path, toolchain, wanted=True)
    assert f"native/{SELF_RELOCATION}" in units
    assert set(SELF_RELOCATED) <= set(flags)
    others, without = planned(tmp_path, toolchain, wanted=False)
    assert others == [unit for unit in units if unit != f"native/{SELF_RELOCATION}"]
    assert without == tuple(flag for flag in flags if flag not in SELF_RELOCATED)


def linked(toolchain: ResolvedToolchain, folder: Path, *link: str, relocate: bool = True) -> Path:
    (folder / "table.cpp").write_text(SOURCE)
    (folder / "map").write_text("{ global: lta_*; local: *; };\n")
    relocation = str(NATIVE / SELF_RELOCATION)
    units = (str(folder / "table.cpp"), *((relocation,) if relocate else ()))

    def run(*argv: str) -> None:
        subprocess.run([str(toolchain.tools.cxx), *argv], check=True, env=toolchain.tools.env)

    objects = [str(folder / f"{Path(unit).stem}.o") for unit in units]
    for unit, made in zip(units, objects, strict=True):
        # -O0: with more the compiler works the sum out; no type information, of which the C++
        # library has a part, since zig would compile that library for the link
        flags = RELOCATION_FLAGS if unit == relocation else ("-O0", "-fPIC", "-g0", "-fno-rtti")
        run(*toolchain.compile_flags, *flags, "-MD", "-MF", f"{made}.d", "-c", unit, "-o", made)
    out = folder / "libself.so"
    script = f"-Wl,--version-script={folder / 'map'}"
    named = ("-Wl,-soname,libself.so", BUILD_ID, "-Wl,-z,defs")
    run("-shared", *objects, script, *named, *link, *toolchain.link_flags, "-o", str(out))
    return out


def loaded(library: Path) -> str:
    argv = [sys.executable, "-c", LOAD, str(library)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_it_relocates_itself_and_is_read_only_again(
    toolchain: ResolvedToolchain, tmp_path: Path
) -> None:
    assert toolchain.capabilities.self_relocate
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.mkdir()
    packed.mkdir()
    as_usual = linked(toolchain, plain, relocate=False)
    by_itself = linked(toolchain, packed, *SELF_RELOCATED)
    assert loaded(by_itself) == loaded(as_usual) == f"{TOTAL} r--p\n"
    check(by_itself, RULES)
    # 24 bytes for each of the table's 288 pointers; at most two thirds go to what relocates them
    assert by_itself.stat().st_size < as_usual.stat().st_size - 96 * 24


# A filter of system calls (seccomp(2)) as sandboxes have: a call of this number, with these bits in
# its third argument, gets EPERM. Classic BPF: load the number, compare, load the argument's lower
# half, test its bits.
FILTER = """
import ctypes, struct, sys
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER, ALLOW, EPERM = 38, 22, 2, 0x7FFF0000, 0x50001
def forbid(number, bits):
    code = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 32), (0x45, 0, 1, bits),
            (0x06, 0, 0, EPERM), (0x06, 0, 0, ALLOW)]
    text = b"".join(struct.pack("<HBBI", *line) for line in code)
    kept = ctypes.create_string_buffer(text)
    program = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, MODE_FILTER, program, 0, 0) == 0
"""
MPROTECT, MREMAP, PROT_WRITE = 10, 25, 2  # x86-64


def loaded_under(filters: Sequence[str], library: Path) -> subprocess.CompletedProcess[str]:
    """The library, loaded where a filter of system calls is on."""
    # what Python itself needs is loaded before
    text = "\n".join([FILTER, "import ctypes.util", *filters, LOAD])
    argv = [sys.executable, "-c", text, str(library)]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


NO_WRITE = f"forbid({MPROTECT}, {PROT_WRITE})"


def test_pages_that_must_not_be_made_writable_are_replaced(
    toolchain: ResolvedToolchain, tmp_path: Path
) -> None:
    done = loaded_under([NO_WRITE], linked(toolchain, tmp_path, *SELF_RELOCATED))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{TOTAL} r--p\n", "")


def test_where_nothing_helps_it_says_what_does(
    toolchain: ResolvedToolchain, tmp_path: Path
) -> None:
    filters = [NO_WRITE, f"forbid({MREMAP}, 0xFFFFFFFF)"]
    done = loaded_under(filters, linked(toolchain, tmp_path, *SELF_RELOCATED))
    assert done.returncode == -signal.SIGABRT
    assert done.stderr == (
        "libtorch: this system keeps the library from relocating its data: neither mprotect nor"
        " mremap is allowed; it can be built with `self_relocation: false`\n"
    )


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
