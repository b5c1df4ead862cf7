"""A delivered library is refused that an error in memory could be put to use in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import package_toy as toy
import pytest
from elftools.elf.elffile import ELFFile
from zig_tool import zig

from orchestrator.binary.elf import ElfRules, check, violations
from orchestrator.binary.elf_hardening import (
    ExecutableStackError,
    LazyBindingError,
    MissingBuildIdError,
    UncheckedCallsError,
    UnguardedStackError,
    WritableTablesError,
)
from orchestrator.binary.elf_strip import split
from orchestrator.errors import OrchestratorError
from orchestrator.plan.flags import checks_calls, guards_stack, hardened
from orchestrator.platforms.linux import LIBRARY

RULES = ElfRules(
    soname="libtoy_torch.so",
    processor="x86_64",
    exports=frozenset(("lta_add", "lta_version")),
    system_libraries=LIBRARY.system_libraries["gnu"],
)
PT_NULL, PT_GNU_STACK = 0, 0x6474E551


def linked(folder: Path, *flags: str, build_id: str = toy.BUILD_ID) -> Path:
    script = toy.version_script(folder)
    return toy.plain_library(folder / "libtoy_torch.so", script, build_id, *flags)


def only(library: Path, rules: ElfRules = RULES) -> OrchestratorError:
    (error,) = violations(library, rules)
    return error


def with_stack(library: Path, *, kind: int = PT_GNU_STACK, flags: int) -> Path:
    """The library with another segment PT_GNU_STACK: zig makes no other."""
    data = bytearray(library.read_bytes())
    with library.open("rb") as file:
        elf = ELFFile(file)
        kinds = [segment["p_type"] for segment in elf.iter_segments()]
        header = elf["e_phoff"] + kinds.index("PT_GNU_STACK") * elf["e_phentsize"]
    data[header : header + 8] = kind.to_bytes(4, "little") + flags.to_bytes(4, "little")
    library.write_bytes(data)
    return library


def guarded(library: Path, text: str, target: str, *link: str, own: tuple[str, ...] = ()) -> Path:
    """A library from C that is compiled with our flags, and a toolchain's own."""
    source, unit = library.with_name("array.c"), library.with_name("array.o")
    source.write_text(text)
    flags = (*toy.FLAGS, "-fvisibility=default", *hardened(own, "linux"))
    # with a depfile, as the build compiles: without, zig has a cache whose key knows no canaries
    zig("cc", "-target", target, *flags, "-MD", "-MF", f"{unit}.d", "-c", source, "-o", unit)
    named = ("-shared", "-nostdlib", "-Wl,-soname,libtoy_torch.so", *link)
    zig("cc", "-target", target, *named, unit, "-o", library)
    return library


def test_tables_that_stay_writable(tmp_path: Path) -> None:
    library = linked(tmp_path, "-Wl,-z,norelro")
    error = only(library)
    assert isinstance(error, WritableTablesError)
    assert error.render() == (
        f"{library}: error: the library's tables stay writable when it is loaded\n"
        "  expected: a segment PT_GNU_RELRO\n"
        "  seen:     none\n"
        "  do:       link with -Wl,-z,relro"
    )


def test_lazy_binding(tmp_path: Path) -> None:
    library = linked(tmp_path, "-Wl,-z,lazy")
    error = only(library)
    assert isinstance(error, LazyBindingError)
    assert error.render() == (
        f"{library}: error: the library binds its functions lazily\n"
        "  expected: DF_BIND_NOW or DF_1_NOW\n"
        "  seen:     neither\n"
        "  do:       link with -Wl,-z,now"
    )


@pytest.mark.parametrize(
    ("kind", "flags", "seen"), [(PT_GNU_STACK, 7, "PF_X"), (PT_NULL, 6, "no PT_GNU_STACK")]
)
def test_a_stack_that_holds_code(tmp_path: Path, kind: int, flags: int, seen: str) -> None:
    library = with_stack(linked(tmp_path), kind=kind, flags=flags)
    error = only(library)
    assert isinstance(error, ExecutableStackError)
    assert error.render() == (
        f"{library}: error: the library requires an executable stack\n"
        "  expected: a segment PT_GNU_STACK without PF_X\n"
        f"  seen:     {seen}\n"
        "  do:       link with -Wl,-z,noexecstack"
    )


@pytest.mark.parametrize(
    ("flag", "seen"),
    [
        ("-Wl,--build-id=none", "none"),
        (toy.PLACEHOLDER, "an id of zeros, which was never filled in"),
    ],
)
def test_no_build_id(tmp_path: Path, flag: str, seen: str) -> None:
    library = linked(tmp_path, build_id=flag)
    error = only(library)
    assert isinstance(error, MissingBuildIdError)
    assert error.render() == (
        f"{library}: error: the library has no build id\n"
        "  expected: a note NT_GNU_BUILD_ID\n"
        f"  seen:     {seen}\n"
        "  do:       link with -Wl,--build-id"
    )


def test_no_canaries(tmp_path: Path) -> None:
    library = linked(tmp_path)
    error = only(library, replace(RULES, canaries=True))
    assert isinstance(error, UnguardedStackError)
    assert error.render() == (
        f"{library}: error: the library's functions have no stack protectors\n"
        "  expected: a reference to __stack_chk_fail\n"
        "  seen:     none\n"
        "  do:       a toolchain without it says so: `compile_flags: [-fno-stack-protector]`"
    )


CALLS = """#include <string.h>
void give(char *), take(char *);
int lta_add(void) { char a[64], b[64]; give(b); strcpy(a, b); take(a); return 1; }
int lta_version(void) { return 1; }
"""


def test_no_checked_calls(tmp_path: Path) -> None:
    flags = ("-O2", "-U_FORTIFY_SOURCE")
    name = tmp_path / "libtoy_torch.so"
    library = guarded(name, CALLS, toy.TARGET, toy.BUILD_ID, own=flags)
    error = only(library, replace(RULES, checked=True))
    assert isinstance(error, UncheckedCallsError)
    assert error.render() == (
        f"{library}: error: the library's calls to the C library are not checked\n"
        "  expected: a reference to a function such as __memcpy_chk\n"
        "  seen:     none\n"
        "  do:       a toolchain without them says so: `compile_flags: [-U_FORTIFY_SOURCE]`"
    )


@pytest.mark.parametrize("target", ["x86_64-linux-gnu.2.28", "aarch64-linux-gnu.2.28"])
def test_checked_calls(tmp_path: Path, target: str) -> None:
    name = tmp_path / "libtoy_torch.so"
    library = guarded(name, CALLS, target, toy.BUILD_ID, own=("-O2",))
    processor = "x86_64" if target.startswith("x86") else "arm64"
    check(library, replace(RULES, processor=processor, checked=True))


@pytest.mark.parametrize(
    "target", ["x86_64-linux-gnu.2.28", "aarch64-linux-gnu.2.28", "aarch64-linux-musl"]
)
def test_canaries(tmp_path: Path, target: str) -> None:
    """As our flags make them, on every libc."""
    library = guarded(
        tmp_path / "libtoy_torch.so",
        "void fill(char *);\nint lta_add(void) { char a[64]; fill(a); return a[3]; }\n"
        "int lta_version(void) { return 1; }\n",
        target,
        toy.BUILD_ID,
    )
    processor = "x86_64" if target.startswith("x86") else "arm64"
    check(library, replace(RULES, processor=processor, canaries=True))


def test_canaries_of_a_function_that_is_linked_in(tmp_path: Path) -> None:
    """As zig's compiler-rt has it: stripped, the library does not name it any more."""
    for name in ("guarded", "other"):
        (tmp_path / name).mkdir()
    library = guarded(
        tmp_path / "guarded/libtoy_torch.so",
        "long __stack_chk_guard;\n"
        "_Noreturn void __stack_chk_fail(void) { __builtin_trap(); }\n"
        "void fill(char *a) { a[3] = 1; }\n"
        "int lta_add(void) { char a[64]; fill(a); return a[3]; }\n"
        "int lta_version(void) { return 1; }\n",
        toy.TARGET,
        toy.PLACEHOLDER,
        toy.version_script(tmp_path),
    )
    parts = split(library.read_bytes(), "libtoy_torch.so.debug")
    shipped, symbols = tmp_path / "libtoy_torch.so", tmp_path / "libtoy_torch.so.debug"
    shipped.write_bytes(parts.stripped)
    symbols.write_bytes(parts.debug)
    check(shipped, replace(RULES, canaries=True, symbols=symbols))
    for unknown in (None, tmp_path / "missing", linked(tmp_path / "other")):
        error = only(shipped, replace(RULES, canaries=True, symbols=unknown))
        assert isinstance(error, UnguardedStackError)


def test_a_toolchain_can_take_its_canaries_back() -> None:
    assert guards_stack(())
    assert guards_stack(["-O2"])
    assert guards_stack(["-fno-stack-protector", "-fstack-protector-all"])
    assert not guards_stack(["-fstack-protector-all", "-fno-stack-protector"])


def test_a_toolchain_can_take_its_checked_calls_back() -> None:
    assert checks_calls(())
    assert checks_calls(["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"])
    assert not checks_calls(["-U_FORTIFY_SOURCE"])
    assert not checks_calls(["-D_FORTIFY_SOURCE=0"])
