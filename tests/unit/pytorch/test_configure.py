"""Configured headers are what CMake itself would write."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import pytest
from cmake import CMAKE_BIN_DIR
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from orchestrator.pytorch.configure import (
    ConfigureInputError,
    configure,
    configured_headers,
    write_configured_headers,
)
from orchestrator.pytorch.dialects import load_version

VERSION = load_version("1.13.1")
IN_FILES = {
    "c10/macros/cmake_macros.h.in": "#cmakedefine C10_USE_GLOG\n",
    "aten/src/ATen/Config.h.in": (
        "#define AT_PARALLEL_OPENMP @AT_PARALLEL_OPENMP@\n"
        "#define AT_MKL_ENABLED() @AT_MKL_ENABLED@\n"
    ),
    "caffe2/core/macros.h.in": (
        "#define CAFFE2_VERSION_MINOR @CAFFE2_VERSION_MINOR@\n"
        '#cmakedefine USE_MKLDNN\n{"CXX_FLAGS", "${CMAKE_CXX_FLAGS}"}\n'
    ),
}
HEADERS = {
    "ATen/Config.h": "#define AT_PARALLEL_OPENMP 1\n#define AT_MKL_ENABLED() 0\n",
    "c10/macros/cmake_macros.h": "/* #undef C10_USE_GLOG */\n",
    "caffe2/core/macros.h": (
        '#define CAFFE2_VERSION_MINOR 13\n/* #undef USE_MKLDNN */\n{"CXX_FLAGS", ""}\n'
    ),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path, text in IN_FILES.items():
        (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / path).write_text(text)
    return tmp_path / "tree"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@B@${B}", "b.valb.val"),
        ("<${U}> <@U@>", "<> <>"),
        ("a@b.c @ B@ @B", "a@b.c @ B@ @B"),
        ("#cmakedefine A", "#define A"),
        ("#cmakedefine U", "/* #undef U */"),
        ("  #  cmakedefine A tail @B@", "  #  define A tail b.val"),
        ("x #cmakedefine U tail", "/* #undef U */"),
        ("#cmakedefine01 A", "#define A 1"),
        ("#cmakedefine01 U rest", "#define U rest 0"),
        ("#cmakedefineX A", "#cmakedefineX A"),
        ("one\r\n${B}", "one\r\nb.val"),
    ],
)
def test_substitution(text: str, expected: str) -> None:
    assert configure(text, {"A": "yes", "B": "b.val"}) == expected


@pytest.mark.parametrize(
    "false", ["", "0", "off", "No", "FALSE", "n", "ignore", "NOTFOUND", "X-NOTFOUND"]
)
def test_false_values(false: str) -> None:
    assert configure("#cmakedefine A", {"A": false}) == "/* #undef A */"


@pytest.mark.parametrize("true", ["1", "on", "00", "notfound", "x-notfound", "2.0"])
def test_true_values(true: str) -> None:
    assert configure("#cmakedefine A", {"A": true}) == "#define A"


@settings(deadline=None)
@given(st.text(st.characters(exclude_characters="@$#", exclude_categories=["Cs"])))
def test_text_without_variables_stays(text: str) -> None:
    assert configure(text, {"A": "1"}) == text


# One directive a line, as in every real file. `$ENV{...}` and nested names are not ours, see the
# module; the word `cmakedefine` outside a directive is not there to be found.
WORDS = st.sampled_from(
    ["@A@", "@B@", "${A}", "${B}", "${U}", "@U@", "#define", "@", "A", "}", "//", "@A", " ", "\t"]
)
TEXTS = st.lists(WORDS).map("".join)
DIRECTIVES = st.sampled_from(
    [
        "",
        "#cmakedefine A",
        "#cmakedefine  U",
        "# cmakedefine B",
        "#cmakedefine01 A",
        "#\tcmakedefine01\tU",
        "#cmakedefine",
        "#cmakedefine ",
        "#cmakedefineX A",
    ]
)
LINES = st.tuples(TEXTS, DIRECTIVES, TEXTS).map("".join)
VALUES = st.sampled_from(["", "0", "1", "ON", "no", "X-NOTFOUND", "a b", "@B@", "${B}", "12"])
CASES = st.lists(
    st.tuples(st.lists(LINES).map("\n".join), VALUES, VALUES), min_size=40, max_size=60
)


@settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.data_too_large],
)
@given(CASES)
def test_cmake_itself_writes_the_same(cases: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = []
        for number, (text, a, b) in enumerate(cases):
            (folder / f"{number}.in").write_text(text + "\nend\n")
            script += [f'set(A "{_quoted(a)}")', f'set(B "{_quoted(b)}")']
            out = folder / f"{number}.out"
            script.append(f'configure_file("{folder}/{number}.in" "{out}" NEWLINE_STYLE LF)')
        (folder / "script.cmake").write_text("\n".join(script))
        cmake = Path(CMAKE_BIN_DIR) / "cmake"
        subprocess.run([cmake, "-P", folder / "script.cmake"], check=True, capture_output=True)
        for number, (text, a, b) in enumerate(cases):
            expected = (folder / f"{number}.out").read_text()
            assert configure(text + "\nend\n", {"A": a, "B": b}) == expected, json.dumps(text)


def _quoted(value: str) -> str:
    return value.replace("$", "\\$").replace("@", "\\@")


def test_the_headers_by_the_path_they_are_included_as(tree: Path) -> None:
    headers = configured_headers(tree, VERSION)
    assert headers == HEADERS
    assert list(headers) == sorted(headers)


def test_headers_are_written_and_left_alone_when_right(tree: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    write_configured_headers(tree, VERSION, into)
    files = {f.relative_to(into).as_posix(): f for f in into.rglob("*") if f.is_file()}
    assert {path: file.read_text() for path, file in files.items()} == HEADERS
    inodes = {path: file.stat().st_ino for path, file in files.items()}
    files["ATen/Config.h"].write_text("other")
    write_configured_headers(tree, VERSION, into)
    assert files["ATen/Config.h"].read_text() == HEADERS["ATen/Config.h"]
    changed = {path for path, file in files.items() if file.stat().st_ino != inodes[path]}
    assert changed == {"ATen/Config.h"}


def test_a_missing_input(tree: Path) -> None:
    (tree / "aten/src/ATen/Config.h.in").unlink()
    with pytest.raises(ConfigureInputError) as caught:
        configured_headers(tree, VERSION)
    assert caught.value.render() == (
        "error: the header ATen/Config.h cannot be configured\n"
        "  expected: its input aten/src/ATen/Config.h.in in the source tree\n"
        f"  seen:     no such file in {tree}\n"
        "  do:       fetch the runtime again: ./orchestrate fetch --verify"
    )
