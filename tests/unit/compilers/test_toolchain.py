"""Declared toolchains on this machine: wrappers, who the compiler is, and where it is missing."""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from core_toy import GOLDEN, ROOT
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection
from golden_files import Golden

from orchestrator.compilers import relink as zig_relink
from orchestrator.compilers import wrappers, zig
from orchestrator.compilers.command import called_digests, file_digest
from orchestrator.compilers.resolve import (
    CompilerMissingError,
    ResolvedToolchain,
    compiler_environment,
    resolve_toolchain,
)
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.workspace import load_workspace
from orchestrator.system.folders import is_ours
from orchestrator.system.staging import write_bytes
from orchestrator.values.config.toolchain import ToolchainConfig

PLACE = Place("toolchains/linux-x86_64.yaml", 6, 1)
ECHO = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "$@"\n'


def config(**changes: object) -> ToolchainConfig:
    values = {
        "abi": "linux-x86_64",
        "system": "linux",
        "processor": "x86_64",
        "format": "elf",
        "compiler": {"zig": {"target": "x86_64-linux-gnu.2.28"}},
        "run": "native",
    }
    return ToolchainConfig.model_validate(values | changes)


def command(cxx: str = "g++-toy", cc: str = "gcc-toy", **more: str) -> ToolchainConfig:
    return config(compiler={"command": {"cxx": cxx, "cc": cc, **more}})


def program(folder: Path, name: str, text: str = ECHO) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder / name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH with a toy compiler on it, besides the machine's own programs."""
    for name, text in (
        ("g++-toy", 'case "$1" in --version) echo "toy 12.1"; exit;; esac\n'),
        ("gcc-toy", ""),
        ("ar", ""),
    ):
        program(tmp_path / "bin", name, ECHO.replace("\n", f"\n{text}", 1))
    return tmp_path / "bin"


def path_of(folder: Path) -> dict[str, str]:
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def resolve(what: ToolchainConfig, cache: Path, path: Path | None = None) -> ResolvedToolchain:
    env = {"PATH": os.environ["PATH"]} if path is None else path_of(path)
    return resolve_toolchain(what, PLACE, cache, env)


def refused(what: ToolchainConfig, cache: Path) -> OrchestratorError:
    with pytest.raises(OrchestratorError) as caught:
        resolve(what, cache)
    return caught.value


def run(tool: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [tool, *arguments], cwd=tool.parent, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("verb", ["cxx", "cc", "ar"])
def test_the_exact_text_of_zigs_wrappers(verb: str, tmp_path: Path, golden: Golden) -> None:
    resolved = resolve(config(), tmp_path)
    text = getattr(resolved, verb).read_text()
    import ziglang

    zig = Path(ziglang.__file__).parent / "zig"
    shown = text.replace(shlex.quote(str(zig)), "<zig>")
    relink = shlex.join([sys.executable, "-I", str(Path(zig_relink.__file__))])
    shown = shown.replace(relink, "<relink>")
    golden(GOLDEN / "wrappers" / f"{verb}.sh", shown)


def test_wrappers_live_under_their_identity(tmp_path: Path) -> None:
    resolved = resolve(config(), tmp_path)
    (folder,) = (tmp_path / "toolchains").iterdir()
    assert re.fullmatch(r"linux-x86_64-[0-9a-f]{12}", folder.name)
    assert sorted(folder.iterdir()) == [resolved.ar, resolved.cc, resolved.cxx]
    assert all(os.access(tool, os.X_OK) for tool in folder.iterdir())
    before = resolved.cxx.stat()
    assert resolve(config(), tmp_path) == resolved
    # written only where the text differs: ninja must not see another compiler
    after = resolved.cxx.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    resolved.cxx.write_text("damaged")
    resolve(config(), tmp_path)
    assert "damaged" not in resolved.cxx.read_text()


def test_another_way_to_link_is_no_other_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = resolve(config(), tmp_path)
    other = tmp_path / "relink.py"
    other.write_text("# another")
    monkeypatch.setattr(wrappers, "_RELINK", other)
    after = resolve(config(), tmp_path)
    assert after.identity == before.identity
    assert after.cxx.parent != before.cxx.parent


def written_at(toolchain: ResolvedToolchain) -> dict[str, tuple[int, int]]:
    """What tells that a wrapper was written: its inode and time."""
    files = {tool.name: tool.stat() for tool in toolchain.cxx.parent.iterdir()}
    return {name: (seen.st_ino, seen.st_mtime_ns) for name, seen in files.items()}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """`relink.py` of another checkout, as it is in this one."""
    copy = tmp_path / "elsewhere/relink.py"
    copy.parent.mkdir()
    copy.write_bytes(Path(zig_relink.__file__).read_bytes())
    return copy


def test_two_checkouts_that_take_turns_share_a_cache(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    here = resolve(config(), cache)
    written = written_at(here)
    with monkeypatch.context() as there:
        there.setattr(wrappers, "_RELINK", elsewhere)
        other = resolve(config(), cache)
    assert resolve(config(), cache) == here
    assert written_at(here) == written
    # objects of the one are the other's
    assert other.identity == here.identity
    assert str(elsewhere) in other.cxx.read_text()
    assert str(elsewhere) not in here.cxx.read_text()


def test_a_cache_that_is_read_only_serves_another_checkout(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, state = tmp_path / "cache", tmp_path / ".orchestrator"
    here = resolve(config(), cache)

    def write(path: Path, data: bytes, mode: int | None = None) -> None:
        if path.is_relative_to(cache):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        write_bytes(path, data, mode)

    monkeypatch.setattr(wrappers, "write_bytes", write)
    assert resolve_toolchain(config(), PLACE, cache, os.environ, state=state).cxx == here.cxx
    assert not state.exists()
    monkeypatch.setattr(wrappers, "_RELINK", elsewhere)
    other = resolve_toolchain(config(), PLACE, cache, os.environ, state=state)
    assert other.identity == here.identity
    assert [tool.parent.parent for tool in (other.cxx, other.cc, other.ar)] == [
        state / "toolchains"
    ] * 3
    assert is_ours(state)
    # what zig makes on the way to its answers lies there as well
    assert other.tools.env["ZIG_LOCAL_CACHE_DIR"] == str(state / "zig")
    with pytest.raises(OSError, match="Read-only"):
        resolve(config(), cache)


def test_the_identity_is_the_compiler_and_its_fixed_flags(tmp_path: Path) -> None:
    base = resolve(config(), tmp_path / "a").identity
    assert base == resolve(config(), tmp_path / "b").identity
    other = config(compiler={"zig": {"target": "x86_64-linux-gnu.2.31"}})
    assert resolve(other, tmp_path).identity != base
    # flags of the file are part of every action's own flags
    flags = config(compile_flags=["-march=x86-64-v3"], link_flags=["-Wl,-O1"])
    resolved = resolve(flags, tmp_path)
    assert resolved.identity == base
    assert resolved.compile_flags == ("-march=x86-64-v3",)
    assert resolved.link_flags == ("-nostdlib++", "-O2", "-Wl,-O1")


def test_what_wrappers_make_of_flags_is_part_of_the_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases of ours that share a cache: one must not write the other's wrappers anew."""
    base = resolve(config(), tmp_path)
    monkeypatch.setattr("orchestrator.compilers.resolve.wrapper_digest", lambda: "another")
    other = resolve(config(), tmp_path)
    assert other.identity != base.identity
    assert other.cxx != base.cxx


def test_a_compiler_of_this_machine(path: Path, tmp_path: Path) -> None:
    resolved = resolve(command(), tmp_path, path)
    assert resolved.version == resolved.compiler == "toy 12.1"
    assert run(resolved.cxx, "-c", "a b.cpp") == ["g++-toy", "-c", "a b.cpp"]
    assert run(resolved.cc, "x.c") == ["gcc-toy", "x.c"]
    assert run(resolved.ar, "rcs", "x.a") == ["ar", "rcs", "x.a"]


def test_another_binary_of_the_same_version_is_another_compiler(path: Path, tmp_path: Path) -> None:
    base = resolve(command(), tmp_path, path).identity
    elsewhere = tmp_path / "elsewhere"
    program(elsewhere, "g++-toy", (path / "g++-toy").read_text() + "# patched\n")
    for name in ("gcc-toy", "ar"):
        program(elsewhere, name)
    assert resolve(command(), tmp_path, elsewhere).identity != base


@pytest.mark.parametrize(
    ("macros", "hardens"),
    [
        ([], set()),
        (["__SSP__ 1"], set()),
        (["__SSP_STRONG__ 3"], {"canaries"}),
        (["_FORTIFY_SOURCE 3", "__SSP_ALL__ 2"], {"canaries", "checked_calls"}),
    ],
)
def test_what_a_distributions_compiler_does_by_itself(
    macros: list[str], hardens: set[str], path: Path, tmp_path: Path
) -> None:
    lines = "".join(f"echo '#define {macro}'\n" for macro in macros)
    program(path, "g++-toy", f"#!/bin/sh\n{lines}")
    assert resolve(command(), tmp_path, path).driver.hardens == hardens


ARRAYS = """
void fill(void*);
void bytes(void) { char a[8]; fill(a); }
void few(void) { char a[7]; fill(a); }
void words(void) { long a[8]; fill(a); }
void one(void) { long a; fill(&a); }
"""


@pytest.mark.parametrize(
    ("flag", "guarded"),
    [
        ("-fno-stack-protector", []),
        ("-fstack-protector", ["bytes"]),
        ("-fstack-protector-strong", ["bytes", "few", "one", "words"]),
    ],
)
def test_zig_makes_canaries_as_other_compilers_do(
    flag: str, guarded: list[str], tmp_path: Path
) -> None:
    """By itself it takes each of these flags for the last."""
    tools = resolve(config(), tmp_path).tools
    (tmp_path / "a.c").write_text(ARRAYS)
    argv = ["-c", "-Oz", "-ffunction-sections", flag, "-MD", "-MF", "a.d", "a.c", "-o", "a.o"]
    env = compiler_environment(load_workspace(ROOT, os.environ).cache, os.environ)
    subprocess.run([tools.cc, *argv], cwd=tmp_path, env=env, check=True)
    with (tmp_path / "a.o").open("rb") as file:
        elf = ELFFile(file)
        symbols: Any = elf.get_section_by_name(".symtab")
        found = [
            section.name.removeprefix(".rela.text.")
            for section in elf.iter_sections()
            if isinstance(section, RelocationSection)
            for entry in section.iter_relocations()
            if symbols.get_symbol(entry["r_info_sym"]).name == "__stack_chk_fail"
        ]
    assert sorted(found) == guarded


@pytest.mark.parametrize("name", ["cc1plus", "cc1", "as", "ld"])
def test_what_a_compiler_calls_is_part_of_it(name: str, path: Path, tmp_path: Path) -> None:
    """gcc's driver only calls what compiles: another one of the same release is another gcc."""
    called = program(path, f"toy-{name}", "#!/bin/sh\n# one\n")
    for driver in ("g++-toy", "gcc-toy"):
        text = f'#!/bin/sh\n[ "$1" != -print-prog-name={name} ] || exec echo {called}\necho toy\n'
        program(path, driver, text)
    base = resolve(command(), tmp_path, path).identity
    called_digests.cache_clear()
    assert resolve(command(), tmp_path, path).identity == base
    program(path, f"toy-{name}", "#!/bin/sh\n# two\n")
    called_digests.cache_clear()
    file_digest.cache_clear()
    assert resolve(command(), tmp_path, path).identity != base


def test_a_compiler_that_says_nothing(path: Path, tmp_path: Path) -> None:
    program(path, "g++-silent", "#!/bin/sh\n")
    resolved = resolve(command(cxx="g++-silent"), tmp_path, path)
    assert resolved.version == "of unknown version"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-c", "a.cpp"], ["-c", "a.cpp"]),
        (["-c", "tmp/a.ii"], ["-x", "c++", "-c", "tmp/a.ii"]),
        (["-c", "tmp/a.i", "-o", "a.o"], ["-x", "c", "-c", "tmp/a.i", "-o", "a.o"]),
        (["-c", "a b.ii"], ["-x", "c++", "-c", "a b.ii"]),
        (["-o", "x.iii"], ["-o", "x.iii"]),
        ([], []),
    ],
)
def test_preprocessed_text_keeps_its_language(
    arguments: list[str], expected: list[str], path: Path, tmp_path: Path
) -> None:
    resolved = resolve(command(), tmp_path, path)
    assert run(resolved.cxx, *arguments) == ["g++-toy", *expected]
    # an archive of such a name is an archive
    assert run(resolved.ar, "rcs", "x.ii") == ["ar", "rcs", "x.ii"]


TWINS = """
__attribute__((noinline, visibility("hidden"))) int one(int x) { return x * 3 + 7; }
__attribute__((noinline, visibility("hidden"))) int two(int x) { return x * 3 + 7; }
int both(int x) { return one(x) + two(x + 1); }
"""


def link_twins(tmp_path: Path, *flags: str) -> list[int]:
    """Addresses of `one` and `two` in a library that zig links from one object."""
    resolved = resolve(config(), tmp_path)
    env = compiler_environment(tmp_path, os.environ)
    (tmp_path / "twins.c").write_text(TWINS)
    compiling = ["-c", "-Oz", "-fPIC", "-ffunction-sections", "-MD", "-MF", "twins.d"]
    for argv in (
        [str(resolved.cc), *compiling, "twins.c", "-o", "twins.o"],
        [str(resolved.cc), "-shared", "-nostdlib", *flags, "twins.o", "-o", "twins.so"],
    ):
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    with (tmp_path / "twins.so").open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        addresses = {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()}
        return [addresses["one"], addresses["two"]]


def test_zig_folds_equal_functions_where_it_is_asked_to(tmp_path: Path) -> None:
    one, two = link_twins(tmp_path / "plain")
    assert one != two
    one, two = link_twins(tmp_path / "folded", "-Wl,--icf=safe", "-Wl,-O2")
    assert one == two


@pytest.mark.parametrize(
    ("kept", "system", "own"),
    [("live", [], ["__divti3", "memcpy"]), ("dead", ["memcpy"], [])],
)
def test_compiler_rt_is_linked_for_what_is_kept(
    kept: str, system: list[str], own: list[str], tmp_path: Path
) -> None:
    resolved = resolve(config(), tmp_path)
    env = compiler_environment(load_workspace(ROOT, os.environ).cache, os.environ)
    (tmp_path / "a.c").write_text(
        "void *memcpy(void *, const void *, unsigned long);\n"
        "void *live(void *a, void *b, unsigned long n) { return memcpy(a, b, n); }\n"
        f"{TWINS}__int128 divide_{kept}(__int128 a, __int128 b) {{ return a / b; }}\n"
    )
    (tmp_path / "map").write_text("{ global: live; both; divide_live*; local: *; };")
    compiling = ["-c", "-Os", "-fPIC", "-ffunction-sections", "-MD", "-MF", "a.d"]
    linking = ["-shared", "-Wl,--gc-sections", "-Wl,--version-script=map", "-Wl,-z,defs"]
    for argv in (
        [str(resolved.cc), *compiling, "a.c", "-o", "a.o"],
        [str(resolved.cc), *linking, "-Wl,--icf=safe", "a.o", "-o", "a.so"],
    ):
        subprocess.run(argv, cwd=tmp_path, env=env, check=True)
    with (tmp_path / "a.so").open("rb") as file:
        elf = ELFFile(file)
        table: Any = elf.get_section_by_name(".symtab")
        found = {symbol.name: symbol for symbol in table.iter_symbols()}
    wanted = {name: found[name]["st_shndx"] for name in ("__divti3", "memcpy") if name in found}
    assert [name for name, at in wanted.items() if at == "SHN_UNDEF"] == system
    assert [name for name, at in wanted.items() if at != "SHN_UNDEF"] == own
    # the linker's own arguments hold for both
    assert found["one"]["st_value"] == found["two"]["st_value"]


def test_each_installation_of_zig_has_a_cache_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, folders = tmp_path / "cache", []
    homes = [tmp_path / name / "lib" for name in ("first", "second", "third", "fourth")]
    for home in homes:
        home.mkdir(parents=True)
        monkeypatch.setattr(zig, "zig_library", lambda home=home: home)
        zig.claim_zig_cache(cache)
        folders.append(zig.zig_cache(cache))
        assert (folders[-1] / "installation").read_text() == f"{home}\n"
        if home is homes[2]:
            # the first is gone, the second is only old, the third is somewhere else at work
            homes[0].rmdir()
            homes[2].rmdir()
            for folder in folders[:2]:
                os.utime(folder / "installation", (0, 0))
            # a damaged one is nobody's, and stays
            (cache / "zig/damaged").mkdir()
            (cache / "zig/damaged/installation").write_bytes(b"\xff\xfe")
            os.utime(cache / "zig/damaged/installation", (0, 0))
    assert [folder.exists() for folder in folders] == [False, True, True, True]
    assert (cache / "zig/damaged").exists()
    # one that was left is removed likewise, by the next that begins
    for age, kept in ((0, True), (8 * 24 * 3600, False)):
        left = zig.zig_cache(cache)
        zig.leave_zig_cache(left)
        for folder in (left, folders[-1]):
            os.utime(folder / "installation", 2 * (time.time() - age,))
        zig.claim_zig_cache(cache)
        assert left.exists() == kept
        assert zig.zig_cache(cache).parent == left.parent
    # a use makes it young
    monkeypatch.setattr(zig, "zig_library", lambda: homes[1])
    zig.claim_zig_cache(cache)
    assert (folders[1] / "installation").stat().st_mtime > time.time() - 60
    monkeypatch.setattr(zig, "zig_library", lambda: homes[3])
    assert compiler_environment(cache, {"PATH": "/bin", "ZIG_LOCAL_CACHE_DIR": "x"}) == {
        "PATH": "/bin",
        "ZIG_GLOBAL_CACHE_DIR": str(folders[-1]),
        "ZIG_LOCAL_CACHE_DIR": str(folders[-1]),
    }


ELSEWHERE = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "LIBRARY_PATH"),
    *("COMPILER_PATH", "GCC_EXEC_PREFIX", "SDKROOT", "LD_PRELOAD", "CCC_OVERRIDE_OPTIONS"),
    *("NIX_CFLAGS_COMPILE", "NIX_CFLAGS_LINK", "NIX_CXXSTDLIB_COMPILE", "NIX_HARDENING_ENABLE"),
    *("NIX_LDFLAGS", "NIX_LDFLAGS_FOR_BUILD", "ZIG_LIB_DIR", "ZIG_LIBC"),
)


def test_no_variable_leads_a_compiler_elsewhere(tmp_path: Path) -> None:
    """The key of an object, which all workspaces share, would not tell."""
    stays = {"PATH": "/bin", "DEVELOPER_DIR": "/Xcode.app", "NIX_SSL_CERT_FILE": "/certificates"}
    found = compiler_environment(tmp_path, {**dict.fromkeys(ELSEWHERE, "/opt/other"), **stays})
    del found["ZIG_GLOBAL_CACHE_DIR"], found["ZIG_LOCAL_CACHE_DIR"]
    assert found == stays


def test_a_compiler_is_asked_as_it_compiles(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its identity would be that of what it does not do."""
    program(
        path, "g++-toy", f'#!/bin/sh\necho "toy {" ".join(f"${n}" for n in ELSEWHERE)} $MORE"\n'
    )
    for name in (*ELSEWHERE, "MORE"):
        # LD_PRELOAD: the loader of the shell that is asked would complain of any other name
        monkeypatch.setenv(name, "" if name == "LD_PRELOAD" else name)
    found = resolve_toolchain(command(), PLACE, tmp_path / "cache", os.environ | path_of(path))
    assert " ".join(found.version.split()) == "toy MORE"


def test_zigs_cache_may_be_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zig.claim_zig_cache(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    zig.claim_zig_cache(tmp_path)
    assert (zig.zig_cache(tmp_path) / "installation").is_file()


def test_zig_sees_a_read_only_cache_through_a_folder_of_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zig.claim_zig_cache(tmp_path / "cache")
    cache, state = zig.zig_cache(tmp_path / "cache"), tmp_path / "state"
    for name in ("h/note", "h/own", "o/1a/libc.a", "o/h/result"):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_text(name)
    folders = {
        "ZIG_GLOBAL_CACHE_DIR": str(cache),
        "ZIG_LOCAL_CACHE_DIR": str(state / "zig"),
    }
    assert compiler_environment(tmp_path / "cache", {}, state) == folders
    assert not state.exists()

    monkeypatch.setattr(
        os, "access", lambda path, _: not Path(path).is_relative_to(cache.parents[1])
    )
    (state / "zig/h").mkdir(parents=True)
    (state / "zig/h/own").write_text("newer")
    (state / "zig/o/1a").mkdir(parents=True)
    (state / "zig/o/1a/libc.a").symlink_to(tmp_path / "gone")
    for _ in range(2):
        assert compiler_environment(tmp_path / "cache", {}, state) == {
            "ZIG_GLOBAL_CACHE_DIR": str(state / "zig"),
            "ZIG_LOCAL_CACHE_DIR": str(state / "zig"),
        }
    # a note is written to, a result is not
    (state / "zig/h/note").write_text("changed")
    assert (cache / "h/note").read_text() == "h/note"
    assert (state / "zig/h/own").read_text() == "newer"
    for name in ("o/1a/libc.a", "o/h/result"):
        assert (state / "zig" / name).readlink() == cache / name
    # one that was left has what is made in it alone
    zig.leave_zig_cache(state / "zig")
    (cache / "o/h/later").write_text("later")
    assert compiler_environment(tmp_path / "cache", {}, state)["ZIG_GLOBAL_CACHE_DIR"] == str(
        state / "zig"
    )
    assert not (state / "zig/o/h/later").exists()


def test_a_read_only_cache_without_zigs_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    zig.claim_zig_cache(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    env = compiler_environment(tmp_path / "cache", {}, tmp_path / "state")
    assert env["ZIG_GLOBAL_CACHE_DIR"] == str(tmp_path / "state/zig")


@pytest.mark.parametrize(
    "name", ["a b", "a  b\tc", "it's", "$HOME", "a#b", "a,b", "a:b", "ü", "`x`"]
)
def test_equal_functions_are_folded_in_any_folder(name: str, tmp_path: Path) -> None:
    one, two = link_twins(tmp_path / name, "-Wl,--icf=safe")
    assert one == two


def test_zig_takes_oz_for_clangs(tmp_path: Path) -> None:
    resolved = resolve(config(), tmp_path)
    (tmp_path / "x.c").write_text("int x(int a) { return a; }\n")
    argv = [str(resolved.cc), "-Oz", "-###", "-c", "x.c"]
    env = compiler_environment(tmp_path, os.environ)
    said = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True).stderr
    words = said.split()
    assert [w for w in words if w.strip('"').startswith("-O")][-1].strip('"') == "-Oz"
    assert '"-inline-threshold=35"' in words or "-inline-threshold=35" in words


def test_paths_with_spaces_are_quoted(path: Path, tmp_path: Path) -> None:
    compiler = program(tmp_path / "a b'c", "my g++")
    resolved = resolve(command(cxx=str(compiler)), tmp_path, path)
    assert run(resolved.cxx, "x") == ["my g++", "x"]


@pytest.mark.parametrize(
    ("declared", "missing"),
    [
        (command(cxx="no-such-g++"), "no-such-g++"),
        (command(cxx="sh", cc="no-such-gcc"), "no-such-gcc"),
        (command(cxx="sh", cc="sh", ar="no-such-ar"), "no-such-ar"),
    ],
)
def test_a_missing_compiler(declared: ToolchainConfig, missing: str, tmp_path: Path) -> None:
    error = refused(declared, tmp_path)
    assert isinstance(error, CompilerMissingError)
    assert error.render() == (
        f"toolchains/linux-x86_64.yaml:6:1: error: {missing} is not on PATH\n"
        f"  do:       install {missing}, or choose a toolchain of zig"
    )
    assert not list(tmp_path.rglob("cxx"))


def test_a_missing_zig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.compilers.zig.util.find_spec", lambda name: None)
    error = refused(config(), tmp_path)
    assert isinstance(error, CompilerMissingError)
    assert error.render() == (
        "toolchains/linux-x86_64.yaml:6:1: error: the Python package ziglang is not installed\n"
        "  do:       remove .venv and run ./orchestrate again, which installs the pinned"
        " dependencies"
    )


def test_the_workspaces_own_toolchains_resolve(tmp_path: Path) -> None:
    workspace = load_workspace(ROOT, os.environ)
    for abi, declared in workspace.toolchains.items():
        resolved = resolve_toolchain(declared.config, declared.place, tmp_path, os.environ)
        assert resolved.abi == abi
        text = run(resolved.cxx, "--version")[0]
        assert text.startswith("clang version ")
