"""zig's words for its linker, cut where they were put together."""

from __future__ import annotations

from pathlib import Path

import pytest
from elf_objects import Symbol, elf_object

from orchestrator.compilers.relink import (
    exported_name,
    known_texts,
    linker_words,
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
    table = (2).to_bytes(4, "big") + bytes(8) + b"of_cxx\0not_there\0"
    head = f"{'/':<16}{0:<12}{0:<6}{0:<6}{0:<8}{len(table):<10}`\n".encode()
    archive.write_bytes(b"!<arch>\n" + head + table)
    words = ["ld.lld", "-o", str(library), "-version-script", str(script), str(archive)]
    assert more_exports(words) == [
        f"--defsym={exported_name('toy', name)}={name}" for name in ("kept", "of_cxx")
    ]
    script.write_text("{ global: lta_*; local: *; };\n")
    assert more_exports(words) == []
    assert more_exports(["ld.lld", "-o", str(library)]) == []


def test_two_apps_export_a_symbol_by_two_names() -> None:
    assert exported_name("camera", "x") == "l_tjvpcsy"
    assert exported_name("scanner", "x") != exported_name("camera", "x")
