"""The small sources that a toolchain's abilities are probed with, and what each must come to.

They are C without a library and C++ without a header, but for one: zig would build its libraries
for them, which takes a minute.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from orchestrator.compilers.driver import SELF_RELOCATED, Tools, names_folder
from orchestrator.compilers.flags import LTO_FLAGS
from orchestrator.platforms import PLATFORMS
from orchestrator.system.process import Command, CommandRunner, Finished
from orchestrator.values.action import PRECOMPILE_FLAGS
from orchestrator.values.config.toolchain import ToolchainConfig

T = TypeVar("T")


class Bench:
    """One folder of small sources, and a toolchain at work in it."""

    def __init__(
        self,
        config: ToolchainConfig,
        tools: Tools,
        folder: Path,
        lto_flags: Sequence[str],
        runner: CommandRunner,
    ) -> None:
        self.folder = folder
        self._tools = tools
        self._runner = runner
        self.lto_flags = lto_flags
        # folders of ours (`$native/...`) are filled in by ninja; the probes include nothing
        self._flags = [f for f in config.compile_flags if not names_folder(f)]
        self._libraries = PLATFORMS[config.system].link_libraries
        self._link = [f for f in config.link_flags if not names_folder(f)]
        for name, text in _SOURCES.items():
            (folder / name).write_text(text, encoding="utf-8")

    def compile(self, source: str, *flags: str, output: str | None = None) -> Finished:
        tool = self._tools.cc if source.endswith(".c") else self._tools.cxx
        made = output or f"{source.rpartition('.')[0]}.o"
        # as the build compiles: without a depfile zig puts its own linker behind the compiler
        depends = ("-MD", "-MF", f"{made}.d")
        mode = () if source.endswith(".hpp") else ("-c",)
        return self._run(tool, *self._flags, *_COMPILE, *flags, *depends, *mode, source, "-o", made)

    def link(self, output: str, *inputs: str) -> Finished:
        flags = ("-shared", "-nostdlib", *inputs, *self._link)
        return self._run(self._tools.cc, *flags, "-o", output)

    def archive(self, output: str, *members: str) -> Finished:
        return self._run(self._tools.ar, "rcsD", output, *members)

    def whole_library(self) -> Finished:
        """A shared library that needs the C++ library and what every variant links."""
        done = self.compile("text.cpp", "-std=gnu++17")
        if done.code:
            return done
        flags = ("-shared", "text.o", "-Wl,-z,defs", *self._libraries, *self._link)
        return self._run(self._tools.cxx, *flags, "-o", "text.so")

    def symbols(self, library: str, table: str) -> dict[str, int]:
        """Name -> address of the symbols that an ELF file defines in a table; none of another."""

        def defined(elf: Any) -> dict[str, int]:
            found = elf.get_section_by_name(table)
            symbols = found.iter_symbols() if found is not None else ()
            here = (s for s in symbols if s["st_shndx"] != "SHN_UNDEF")
            return {symbol.name: int(symbol["st_value"]) for symbol in here}

        return self.judged(library, defined) or {}

    def judged(self, library: str, judge: Callable[[Any], T]) -> T | None:
        """Return `judge`'s result for a linked ELF file; None if the file is missing or is not
        ELF."""
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile

        try:
            with (self.folder / library).open("rb") as file:
                return judge(ELFFile(file))
        except (ELFError, FileNotFoundError):
            return None

    def content(self, name: str) -> bytes:
        """A file's bytes; none where a tool said that it wrote it and did not."""
        path = self.folder / name
        return path.read_bytes() if path.is_file() else b""

    def _run(self, tool: Path, *arguments: str) -> Finished:
        return self._runner.run(Command([str(tool), *arguments], self._tools.env, self.folder))


# -O1: gcc folds equal functions itself from -O2 on
_COMPILE: Final = ("-O1", "-fPIC", "-ffunction-sections", "-fdata-sections", "-w")
_SOURCES: Final = {
    "twins.c": """\
__attribute__((noinline, visibility("hidden"))) int lta_one(int x) { return x * 3 + 7; }
__attribute__((noinline, visibility("hidden"))) int lta_two(int x) { return x * 3 + 7; }
int lta_both(int x) { return lta_one(x) + lta_two(x + 1); }
int lta_other(int x) { return x; }
""",
    "user.c": "int lta_member(int); int lta_user(int x) { return lta_member(x); }\n",
    "member.c": "int lta_member(int x) { return x + 1; }\n",
    "places.c": "static int lta_a; int* lta_places[] = {&lta_a, &lta_a, &lta_a, &lta_a};\n",
    # __FILE_NAME__ and -Oz, which every unit wants: clang's, and gcc's from 12 on
    "plain.cpp": "const char* lta_plain() { return __FILE_NAME__; }\n",
    # a first initialiser that the loader relocates, and one that the library would
    "first.c": """\
static void lta_run(void) {}
static volatile int lta_state;
__attribute__((constructor)) static void lta_later(void) { lta_state = 1; }
struct __attribute__((packed)) lta_entry { void (*run)(void); };
__attribute__((section(".init_array.0"), used)) static struct lta_entry lta_first = {lta_run};
""",
    "text.cpp": "#include <stdexcept>\n#include <string>\n"
    'void lta_text(int x) { throw std::runtime_error("x" + std::to_string(x)); }\n',
    "before.hpp": "struct Before { int x; };\n",
    "behind.cpp": "int lta_behind(Before b) { return b.x; }\n",
    "names.map": "{ global: lta_both; local: *; };\n",
    "user.map": "{ global: lta_user; local: *; };\n",
}


def _version_script(bench: Bench) -> bool:
    done = bench.link("script.so", "twins.o", "-Wl,--version-script=names.map")
    names = bench.symbols("script.so", ".dynsym") if not done.code else {}
    return "lta_both" in names and "lta_other" not in names


def _fold_functions(bench: Bench) -> bool:
    done = bench.link("folded.so", "twins.o", "-Wl,--icf=safe")
    names = bench.symbols("folded.so", ".symtab") if not done.code else {}
    return "lta_one" in names and names["lta_one"] == names.get("lta_two")


def _pack_relocations(bench: Bench) -> bool:
    if bench.compile("places.c").code:
        return False
    done = bench.link("packed.so", "places.o", "-Wl,--pack-dyn-relocs=android")
    # the format's signature: bionic, linker_reloc_iterators.h
    return done.code == 0 and b"APS2" in bench.content("packed.so")


def _self_relocate(bench: Bench) -> bool:
    if bench.compile("first.c").code:
        return False
    done = bench.link("self.so", "first.o", *SELF_RELOCATED)
    if done.code:
        return False

    from orchestrator.binary.self_relocation import begins_relocated, is_packed

    judged = bench.judged("self.so", lambda elf: is_packed(elf) and begins_relocated(elf))
    return judged is True


def _lto(bench: Bench) -> bool:
    for source in ("user.c", "member.c"):
        if bench.compile(source, *LTO_FLAGS, output=f"late-{source}.o").code:
            return False
    # the section that lld reads (LLVM, docs/FatLTO.rst)
    if b".llvm.lto" not in bench.content("late-user.c.o"):
        return False
    script = "-Wl,--version-script=user.map"
    inputs = ("late-user.c.o", "late-member.c.o", script)
    if bench.link("early.so", *inputs).code:
        return False
    if bench.link("late.so", *inputs, *bench.lto_flags).code:
        return False
    inlined = "lta_member" not in bench.symbols("late.so", ".symtab")
    return inlined and "lta_user" in bench.symbols("late.so", ".dynsym")


def _precompile(bench: Bench) -> bool:
    done = bench.compile("before.hpp", *PRECOMPILE_FLAGS, output="before.pch")
    if done.code:
        return False
    os.utime(bench.folder / "before.hpp", (0, 0))
    done = bench.compile("behind.cpp", "-include-pch", "before.pch")
    return done.code == 0


CHECKS: Final[Mapping[str, Callable[[Bench], bool]]] = {
    "version_script": _version_script,
    "fold_functions": _fold_functions,
    "pack_relocations": _pack_relocations,
    "self_relocate": _self_relocate,
    "lto": _lto,
    "precompile": _precompile,
}
WITHOUT_LINKING: Final = frozenset({"precompile"})
