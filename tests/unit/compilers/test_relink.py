"""zig's words for its linker, cut where they were put together."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from android_toy import write_python
from elf_objects import Symbol, elf_object

from orchestrator.compilers.relink import (
    exported_name,
    known_texts,
    linker_words,
    main,
    more_exports,
    parted,
    without_compiler_rt,
    words_of,
)

COMMAND = [
    "/my venv/zig",
    "c++",
    "-shared",
    "a.o",
    "/w 1/b  c.o",
    *("-Xlinker", "--version-script=/w 1/x.map"),
    "-Wl,-soname,libx.so",
]
LINE = (
    "ld.lld --error-limit=0 -o /w 1/o ut.so a.o /w 1/b  c.o --version-script=/w 1/x.map "
    "/my venv/lib/c.a /c d/libc++.a"
)
ENV = {"ZIG_GLOBAL_CACHE_DIR": "/c d", "OTHER_DIR": "/x y"}


def test_known_blanks_stay_and_others_cut() -> None:
    assert words_of("ld.lld a b c /a b/c", ["/a b", "no"]) == ["ld.lld", "a", "b", "c", "/a b/c"]


def test_what_zig_was_given_is_known() -> None:
    command = [*COMMAND, "-o", "/w 1/o ut.so"]
    known = known_texts(command, ENV, ["/plain", "/t mp"])
    assert {"/t mp", "/my venv", "/c d", "/w 1/b  c.o", "/w 1/x.map"} <= set(known)
    assert not {"/plain", "a.o", "/x y"} & set(known)
    assert linker_words("clang ...\n" + LINE + "\n", command, ENV) == [
        "ld.lld",
        "--error-limit=0",
        "-o",
        "/w 1/o ut.so",
        "a.o",
        "/w 1/b  c.o",
        "--version-script=/w 1/x.map",
        "/my venv/lib/c.a",
        "/c d/libc++.a",
    ]


def test_an_input_that_is_lost_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'/w 1/b  c\.o' is not in: ld\.lld a\.o /w 1/b c\.o"):
        linker_words("ld.lld a.o /w 1/b c.o", COMMAND, ENV)


def test_an_environment_in_front_of_zig_is_set() -> None:
    command = ["env", "ZIG_LIBC=/a b/libc.txt", "/zig", "c++", "-DX=1"]
    assert parted(command, {"A": "1"}) == (
        {"A": "1", "ZIG_LIBC": "/a b/libc.txt"},
        ["/zig", "c++", "-DX=1"],
    )
    assert parted(["/zig", "c++"], {"A": "1"}) == ({"A": "1"}, ["/zig", "c++"])


def test_nothing_said() -> None:
    assert linker_words("clang ...", COMMAND, ENV) is None


def test_compiler_rt_is_left_out_where_the_linker_misses_what_is_not_defined() -> None:
    words = ["ld.lld", "-z", "defs", "-shared", "a.o", "/c d/libc.so", "/c d/libcompiler_rt.a"]
    assert without_compiler_rt(words) == words[:-1]
    assert without_compiler_rt(words[:-1]) is None
    for wanted in ("-shared", "-z", "defs"):
        assert without_compiler_rt([word for word in words if word != wanted]) is None


def test_more_is_exported_of_what_the_library_has(tmp_path: Path) -> None:
    script, library, archive = (tmp_path / name for name in ("x.map", "lib.so", "libc++.a"))
    script.write_text("/* extensible: toy */\n/*\nkept\ndropped\n*/\n{ global: l_*; local: *; };\n")
    library.write_bytes(
        elf_object([Symbol("kept", bind=0), Symbol("of_cxx"), Symbol("own"), Symbol("x", 0)], 3)
    )
    archive.write_bytes(archive_of("of_cxx", "not_there"))
    words = ["ld.lld", "-o", str(library), "-version-script", str(script), str(archive)]
    assert more_exports(words) == [
        f"--defsym={exported_name('toy', name)}={name}" for name in ("kept", "of_cxx")
    ]
    script.write_text("{ global: lta_*; local: *; };\n")
    assert more_exports(words) == []
    assert more_exports(["ld.lld", "-o", str(library)]) == []


def test_a_threads_own_variable_is_exported_as_the_object_that_stands_for_it(
    tmp_path: Path,
) -> None:
    """With the one function that all of these objects in a process must share."""
    script, library = tmp_path / "x.map", tmp_path / "lib.so"
    script.write_text("/* extensible: toy */\n/*\nper_thread\n*/\n{ global: l_*; };\n")
    symbols = ("__emutls_get_address", "__emutls_v.per_thread", "__emutls_v.of_its_unit")
    library.write_bytes(elf_object([Symbol(name, bind=0) for name in symbols], 3))
    words = ["clang++", "-Xlinker", f"--version-script={script}", "-o", str(library)]
    assert more_exports(words) == [
        f"--defsym={exported_name('toy', name)}={name}" for name in symbols[:2]
    ]


# Links by writing the library that stands beside it, and notes its arguments.
COMPILER = """\
import pathlib, shutil, sys
here, words = pathlib.Path(__file__).parent, sys.argv[1:]
with (here / "log").open("a") as log:
    for word in words:
        if word.startswith("-print-file-name="):
            name = word.partition("=")[2]
            print(here / name if (here / name).exists() else name)
            raise SystemExit
    shown = [pathlib.Path(w[1:]).read_text() if w.startswith("@") else w for w in words]
    log.write(repr(shown) + chr(10))
if (here / "fails").exists():
    raise SystemExit(7)
shutil.copy(here / "linked", words[words.index("-o") + 1])
"""


def test_a_compiler_links_again_with_the_names_for_its_linker(tmp_path: Path) -> None:
    compiler, script = tmp_path / "clang++", tmp_path / "x, y.map"
    write_python(compiler, COMPILER)
    script.write_text("/* extensible: toy */\n/*\nkept\n*/\n{ global: l_*; local: *; };\n")
    symbols = [Symbol("kept", bind=0), Symbol("of_cxx"), Symbol("of_unwinder"), Symbol("own")]
    (tmp_path / "linked").write_bytes(elf_object(symbols, 3))
    # an NDK's libc++.a is a script for the linker
    (tmp_path / "libc++.a").write_text("INPUT(-lc++_static -lc++abi)\n")
    for name, symbol in (("libc++_static.a", "of_cxx"), ("libunwind.a", "of_unwinder")):
        (tmp_path / name).write_bytes(archive_of(symbol))
    out = tmp_path / "lib.so"
    words = ["-shared", "-Xlinker", f"--version-script={script}", "a.o", "-o", str(out)]
    assert main(["--by-compiler", str(compiler), *words]) == 0
    first, second = map(ast.literal_eval, (tmp_path / "log").read_text().splitlines())
    assert first == words
    assert second == [
        *words,
        "".join(
            f"-Wl,--defsym={exported_name('toy', name)}={name}\n"
            for name in ("kept", "of_cxx", "of_unwinder")
        ),
    ]
    assert out.is_file()


def test_a_compiler_that_cannot_link_is_not_asked_again(tmp_path: Path) -> None:
    compiler = tmp_path / "clang++"
    write_python(compiler, COMPILER)
    (tmp_path / "fails").touch()
    assert main(["--by-compiler", str(compiler), "-o", str(tmp_path / "lib.so")]) == 7
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_a_library_that_cannot_be_read_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    compiler, script = tmp_path / "clang++", tmp_path / "x.map"
    write_python(compiler, COMPILER)
    script.write_text("/* extensible: toy */\n/*\nkept\n*/\n{ global: l_*; local: *; };\n")
    (tmp_path / "linked").write_bytes(b"\x7fELF\x02\x01")
    words = ["-Xlinker", f"--version-script={script}", "-o", str(tmp_path / "lib.so")]
    assert main(["--by-compiler", str(compiler), *words]) == 1
    assert capfd.readouterr().err.startswith("error: no more can be exported of this library: ")


def archive_of(*symbols: str) -> bytes:
    """An archive's table of what its members define."""
    table = len(symbols).to_bytes(4, "big") + bytes(4 * len(symbols))
    table += b"".join(name.encode() + b"\0" for name in symbols)
    head = f"{'/':<16}{0:<12}{0:<6}{0:<6}{0:<8}{len(table):<10}`\n".encode()
    return b"!<arch>\n" + head + table


def test_two_apps_export_a_symbol_by_two_names() -> None:
    assert exported_name("camera", "x") == "l_tjvpcsy"
    assert exported_name("scanner", "x") != exported_name("camera", "x")
