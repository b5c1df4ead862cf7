"""Links as a compiler does, and again with more arguments for its linker: those that zig refuses,
and names to export that are known once a library is linked.

Called with the standard library alone. A wrapper of zig calls it for the first, and for both:

    python -I relink.py <argument for the linker>... -- <zig> c++ <arguments of the compiler>...

zig may have `env NAME=value...` in front. For the second alone, of a compiler that passes any
argument on to its linker (clang), a link calls it with the compiler's wrapper:

    python -P -m orchestrator.compilers.relink --by-compiler <cxx> <arguments of the compiler>...

zig tells how it called its linker as one line of text, without quotes (`--verbose`; in zig's
src/link/Lld.zig, `dumpArgv`). A path in it may hold blanks. Such blanks come from what zig was
given: arguments, folders of its caches and installation, the working and the temporary folder.
They are known, and put aside before the line is cut. Whatever then cannot be told apart is an
error: a library that was linked without these arguments would be another one.

It is linked without zig's compiler-rt where that is possible. On arm64 some function of libc++ that
no library keeps refers to it, and one reference is enough: it is a single object, whose plain
`memcpy` and `exp` then take the place of the system's, which suit the processor.

A version script that begins with `EXTENSIBLE` lists names that are to be exported too, of those
that the library has once it is linked, under short names that are the app's own (`exported_name`):
mangled ones would be most of the cost. Objects are compiled with hidden symbols, which no version
script exports; another name for the same address is a symbol of its own (`--defsym`). What the
linker has dropped is not asked for, so that nothing is kept for it.
"""

import base64
import functools
import hashlib
import itertools
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_LINKER = "ld.lld "
_COMPILER_RT = "libcompiler_rt.a"
# In place of a blank that is part of a word: in no path that a build was given.
_ASIDE = {" ": "\ue000", "\t": "\ue001"}


# The first line of the version script of a library that add-ons extend: this and the app's name.
EXTENSIBLE = "/* extensible: "
# What the names begin with that add-ons find in it.
EXPORTED = "l_"
# The C++ library's archives: zig's, or that which we compile; the NDK's.
CXX_ARCHIVES = ("libc++.a", "libc++_static.a", "libc++abi.a", "libunwind.a")
BY_COMPILER = "--by-compiler"
# A thread's own variable where the system has no such storage (Android before API level 29): an
# object that says where it is, by what the compiler's library keeps for all of them (LLVM,
# compiler-rt/lib/builtins/emutls.c). There must be one of that in a process' add-ons and library.
EMULATED = "__emutls_v."
_EMULATION = "__emutls_get_address"
# st_name, st_info, st_shndx of a symbol (System V ABI, chapter 4), by EI_CLASS; which kinds stand
# for something: of no kind, object, function, thread's own.
_SYMBOL = {2: struct.Struct("<IBxH16x"), 1: struct.Struct("<I8xBxH")}
_KINDS = (0, 1, 2, 6)
_SYMTAB = 2


@functools.lru_cache(maxsize=2**16)
def exported_name(app: str, symbol: str) -> str:
    """The name that an app's library exports a symbol under: 35 bits of a digest of both, so that
    two libraries in one process have no name in common."""
    digest = hashlib.sha256(f"{app}\0{symbol}".encode()).digest()
    return EXPORTED + base64.b32encode(digest)[:7].decode().lower()


def defined_names(data: bytes) -> Iterator[str]:
    """Yield the symbols that an unstripped little-endian ELF file defines in `.symtab`, local ones
    too."""
    wide = data[4] == 2
    at, size, count = (
        (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58))
        if wide
        else (*struct.unpack_from("<I", data, 32), *struct.unpack_from("<HH", data, 46))
    )
    layout = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    tables = [struct.unpack_from(layout, data, at + i * size) for i in range(count)]
    for table in tables:
        if table[1] != _SYMTAB:
            continue
        names = tables[table[6]]
        text = data[names[4] : names[4] + names[5]]
        for name, info, section in _SYMBOL[data[4]].iter_unpack(
            data[table[4] : table[4] + table[5]]
        ):
            if section and info & 0xF in _KINDS:
                yield text[name : text.index(b"\0", name)].decode()


def archive_names(data: bytes) -> frozenset[str]:
    """Return the symbols that an archive's members define, by its symbol table (`ar`, the member
    `/`)."""
    if data[:8] != b"!<arch>\n" or data[8:10] != b"/ ":
        return frozenset()
    size = int(data[56:66])
    table = data[68 : 68 + size]
    (count,) = struct.unpack_from(">I", table)
    names = table[4 + 4 * count :].split(b"\0")[:count]
    return frozenset(name.decode() for name in names)


# Of the C++ library, what no other code refers to.
_OWN_TO_CXX = (
    *("_ZN9libunwind", "_ZNK9libunwind", "_ZN10__cxxabiv1", "_ZNK10__cxxabiv1"),
    *("_ZTS", "_ZTv", "_ZTh", "_ZTC", "_ZTT", "DW.ref."),
)


def more_exports(words: list[str]) -> list[str]:
    """The linker's arguments that export more of a library that was linked with `words`."""
    path = _version_script(words)
    script = "" if path is None else Path(path).read_text(encoding="utf-8")
    head, _, rest = script.partition("\n")
    if not head.startswith(EXTENSIBLE):
        return []
    app = head.removeprefix(EXTENSIBLE).removesuffix(" */")
    wanted = {_EMULATION, *rest.partition("*/")[0].removeprefix("/*").split()}
    for word in words:
        if Path(word).name in CXX_ARCHIVES:
            names = archive_names(Path(word).read_bytes())
            wanted |= {name for name in names if not name.startswith(_OWN_TO_CXX)}
    library = Path(words[words.index("-o") + 1]).read_bytes()
    found: dict[str, str] = {}
    for symbol in sorted(set(defined_names(library))):
        if symbol.removeprefix(EMULATED) not in wanted:
            continue
        name = exported_name(app, symbol)
        if name in found:
            raise ValueError(f"{symbol!r} and {found[name]!r} would be exported by one name")
        found[name] = symbol
    return [f"--defsym={name}={symbol}" for name, symbol in found.items()]


def _version_script(words: list[str]) -> str | None:
    """The last one, as compilers and zig's linker are told of it."""
    found = None
    for word, following in itertools.pairwise([*words, ""]):
        if word == "-version-script":
            found = following
        elif word.startswith("--version-script="):
            found = word.partition("=")[2]
    return found


def words_of(line: str, known: Iterable[str]) -> list[str]:
    """The words of a line in which the texts of `known` may stand with their blanks."""
    for text in sorted(set(known), key=len, reverse=True):
        kept = text
        for blank, mark in _ASIDE.items():
            kept = kept.replace(blank, mark)
        line = line.replace(text, kept)
    words = line.split()
    for blank, mark in _ASIDE.items():
        words = [word.replace(mark, blank) for word in words]
    return words


def known_texts(
    command: Iterable[str], env: Mapping[str, str], folders: Iterable[str]
) -> list[str]:
    """All texts with blanks that zig may have put into its linker's line."""
    command = list(command)
    given = [
        *folders,
        str(Path(command[0]).parent),
        *(env[name] for name in env if name.startswith("ZIG_") and name.endswith("_DIR")),
    ]
    for argument in command[1:]:
        # --version-script=/a b/x, -Wl,-x,/a b and -L/a b: the linker gets the parts
        for part in dict.fromkeys((argument, *argument.removeprefix("-Wl,").split(","))):
            given += [part, part.partition("=")[2], part[2:] if part.startswith("-") else part]
    return [text for text in given if any(blank in text for blank in _ASIDE)]


def linker_words(said: str, command: list[str], env: Mapping[str, str]) -> list[str] | None:
    """Return the command line of zig's linker from zig's verbose output; None if it shows none."""
    lines = [line for line in said.splitlines() if line.startswith(_LINKER)]
    if not lines:
        return None
    folders = (str(Path.cwd()), tempfile.gettempdir())
    words = words_of(lines[-1], known_texts(command, env, folders))
    files = [word for word in command if not word.startswith("-")]
    inputs = [word for word in files if word.endswith((".o", ".a", ".so"))]
    lost = [word for word in inputs if word not in words and os.path.realpath(word) not in words]
    if lost:
        raise ValueError(f"{lost[0]!r} is not in: {lines[-1]}")
    return words


def without_compiler_rt(words: list[str]) -> list[str] | None:
    """The linker's words without it; None where that may give a library which misses functions.

    With `-z defs` the linker refuses such a library, and asks only for what is kept.
    """
    rest = [word for word in words if Path(word).name != _COMPILER_RT]
    defined = any(pair == ("-z", "defs") for pair in itertools.pairwise(words))
    return rest if "-shared" in words and defined and rest != words else None


def parted(command: list[str], env: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The environment that a command runs in, with what `env` in front of it sets, and the rest."""
    changed = dict(env)
    if command[0] == "env":
        command = command[1:]
        while "=" in command[0]:
            name, _, value = command[0].partition("=")
            changed[name] = value
            command = command[1:]
    return changed, command


def found_archives(compiler: str) -> list[str]:
    """The C++ library's archives that a compiler links, of those that it brings."""
    said = (
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False
        ).stdout.strip()
        for name in CXX_ARCHIVES
    )
    # one that is not there is told as its bare name; another may be a script for the linker
    paths = [path for path in said if Path(path).is_absolute()]
    return [path for path in paths if Path(path).read_bytes()[:8] == b"!<arch>\n"]


def by_compiler(command: list[str]) -> int:
    """Link with a compiler, and again with the names that more is exported by; the exit code."""
    done = subprocess.run(command, check=False)
    if done.returncode:
        return done.returncode
    try:
        exports = more_exports([*command, *found_archives(command[0])])
    except (OSError, ValueError, IndexError, struct.error) as error:
        sys.stderr.write(f"error: no more can be exported of this library: {error}\n")
        return 1
    with tempfile.NamedTemporaryFile("w", suffix=".rsp", encoding="utf-8") as file:
        # read by the compiler, which hands them on
        file.write("".join(f"-Wl,{export}\n" for export in exports))
        file.flush()
        return subprocess.run([*command, f"@{file.name}"], check=False).returncode


def main(arguments: list[str]) -> int:
    """Link twice, or a third time where the linker misses zig's compiler-rt; the exit code."""
    if arguments[:1] == [BY_COMPILER]:
        return by_compiler(arguments[1:])
    split = arguments.index("--")
    more, (env, command) = arguments[:split], parted(arguments[split + 1 :], os.environ)
    done = subprocess.run(
        [*command, "--verbose"],
        env=env,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )
    if done.returncode:
        # once more, to tell its errors without the rest
        os.execve(command[0], command, env)
    try:
        words = linker_words(done.stderr, command, env)
    except ValueError as error:
        sys.stderr.write(f"error: zig's words for its linker cannot be told apart: {error}\n")
        return 1
    if words is None:
        sys.stderr.write(
            "error: zig does not say how it links, so that its linker cannot do it again\n"
        )
        return 1
    try:
        exports = more_exports(words)
    except (ValueError, IndexError, struct.error) as error:
        sys.stderr.write(f"error: no more can be exported of this library: {error}\n")
        return 1
    # there are thousands: too many for a command line
    with tempfile.NamedTemporaryFile("w", suffix=".rsp", encoding="utf-8") as file:
        file.write("\n".join(exports))
        file.flush()
        listed = [f"@{file.name}"] if exports else []
        fewer = without_compiler_rt(words)
        if fewer is not None:
            tried = [command[0], *fewer, *more, *listed, "-O2"]
            if subprocess.run(tried, env=env, capture_output=True, check=False).returncode == 0:
                return 0
        last = [command[0], *words, *more, *listed, "-O2"]
        return subprocess.run(last, env=env, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
