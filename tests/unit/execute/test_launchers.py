"""What launchers are told of compilers and folders, and a launcher that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import Place
from orchestrator.execute.launchers import (
    Identity,
    LauncherMissingError,
    compiler_variables,
    folder_variables,
    launch_text,
    require_launcher,
)

ZIG = Identity("d1", "clang")
GCC = Identity("d2", "gcc")


@pytest.mark.parametrize(
    ("command", "who", "expected"),
    [
        (
            ["ccache"],
            ZIG,
            {"CCACHE_COMPILERCHECK": "string:d1", "CCACHE_COMPILERTYPE": "clang"},
        ),
        (
            ["/usr/bin/ccache"],
            GCC,
            {"CCACHE_COMPILERCHECK": "string:d2", "CCACHE_COMPILERTYPE": "gcc"},
        ),
        (["nice", "sccache"], ZIG, {"SCCACHE_C_CUSTOM_CACHE_BUSTER": "d1"}),
        (["recc"], ZIG, {"RECC_ACTION_SALT": "d1"}),
        (["distcc"], ZIG, {}),
        (["icecc"], ZIG, {}),
        (["my-own"], ZIG, {}),
    ],
)
def test_who_the_compiler_is(command: list[str], who: Identity, expected: dict[str, str]) -> None:
    assert compiler_variables(command, who) == expected


def test_the_folder_that_moves() -> None:
    assert folder_variables(["ccache"], "/c") == {
        "CCACHE_BASEDIR": "/c",
        "CCACHE_NOHASHDIR": "true",
    }
    assert folder_variables(["sccache"], "/c") == {"SCCACHE_BASEDIRS": "/c"}
    assert folder_variables(["recc"], "/c") == {"RECC_PROJECT_ROOT": "/c"}
    assert folder_variables(["distcc"], "/c") == {}


def test_the_text_before_a_command() -> None:
    assert launch_text(["ccache"], {}, ZIG) == (
        "CCACHE_COMPILERCHECK=string:d1 CCACHE_COMPILERTYPE=clang ccache"
    )
    declared = {"CCACHE_COMPILERCHECK": "content", "CCACHE_COMPILERTYPE": "auto"}
    assert launch_text(["/a b/ccache", "-x"], declared, ZIG) == "'/a b/ccache' -x"
    assert launch_text(["distcc"], {}, ZIG) == "distcc"


def test_a_launcher_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LauncherMissingError) as caught:
        require_launcher(["ccache"], str(tmp_path), Place("WORKSPACE"))
    assert caught.value.render() == (
        "WORKSPACE: error: the compiler launcher ccache is not on PATH\n"
        "  do:       install ccache, or remove `launcher` from WORKSPACE"
    )
    (tmp_path / "ccache").write_text("#!/bin/sh\n")
    (tmp_path / "ccache").chmod(0o755)
    require_launcher(["ccache"], str(tmp_path), Place("WORKSPACE"))
