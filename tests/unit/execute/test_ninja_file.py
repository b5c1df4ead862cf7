"""build.ninja: exact text, no path of the machine below its head, and ninja understands it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from core_toy import CORE, FACTS, GOLDEN, make_index, spec
from test_bitcode import compiled
from toy_natives import natives
from written_lists import write_lists

from orchestrator.binary.bitcode import without_bitcode
from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.compilers.flags import LTO_FLAGS
from orchestrator.compilers.zig import zig_program
from orchestrator.errors import Place
from orchestrator.execute import ninja_file
from orchestrator.execute.ninja_file import ninja_text
from orchestrator.execute.ninja_run import ninja_binary
from orchestrator.plan.graph import (
    VariantObjects,
    action_graph,
    native_compiles,
    registration_compiles,
)
from orchestrator.plan.planner import Planner
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.values.action import ActionGraph, Compile, Link, projection_path
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

M = frozenset({"m"})
FOLDERS = {
    "cache": "/home/me/.cache/libtorch-orchestrator",
    "state": "/home/me/work/.orchestrator",
    "tree": "/home/me/.cache/libtorch-orchestrator/runtime/tree",
    "generated": "/home/me/.cache/libtorch-orchestrator/generated/g",
    "configured": "/home/me/.cache/libtorch-orchestrator/generated/c",
    "native": "/home/me/orchestrator/native",
    "pch": "/home/me/.cache/libtorch-orchestrator/pch/p",
    "third_party_fmt": "/home/me/.cache/libtorch-orchestrator/runtime/fmt",
}
TOOLS = {
    "linux-x86_64": {
        "cxx": "/home/me/.cache/libtorch-orchestrator/toolchains/x/cxx",
        "cc": "/home/me/.cache/libtorch-orchestrator/toolchains/x/cc",
        "ar": "/home/me/.cache/libtorch-orchestrator/toolchains/x/ar",
        "link": ("-Wl,-O1",),
    }
}


def toy_graph() -> ActionGraph:
    index, selected = (
        make_index(),
        Selection(
            operators={Op("aten::linear"): M, Op("toy::conv"): M},
            kernel_dtypes={"linear_tag": {"Float": M}},
        ),
    )
    generated = GeneratedUnit("registrations", Path("/c/registrations/ab/r.cpp"), "digest")
    objects = VariantObjects(
        Planner(index, FACTS).plan(registry(index, ["CPU"], DIALECT.keys), selected, spec()),
        registration_compiles(FACTS, spec(), [generated], Path("/c")),
        native_compiles(FACTS, spec(), ("capi/capi.cpp",), natives()),
    )
    links = [
        Link(
            output="$state/variants/toy/libtoy.so",
            kind="shared",
            abi="linux-x86_64",
            whole=objects.whole,
            on_demand=objects.on_demand,
            flags=("-Wl,--gc-sections", "-Wl,--version-script=$native/capi/libtorch_app.map"),
            inputs=("$native/capi/libtorch_app.map",),
        ),
        Link("$state/variants/toy/libtoy_core.a", "archive", "linux-x86_64", objects.on_demand, ()),
        Link("$state/lto/libtoy_core.a", "code_archive", "linux-x86_64", objects.on_demand, ()),
        Link("$state/tracers/toy", "executable", "linux-x86_64", objects.whole, ()),
    ]
    # the text shows the shape of commands; all flags are in golden/core/flags
    graph = action_graph([objects], links)
    short = {key: _short(one) for key, one in graph.compiles.items()}
    return ActionGraph(short, graph.links)


def _short(action: Compile) -> Compile:
    pch = action.pch and replace(action.pch, flags=action.pch.flags[:2])
    return replace(action, flags=action.flags[:2], pch=pch)


def text(graph: ActionGraph, **changes: object) -> str:
    values = {"folders": FOLDERS, "toolchains": TOOLS, "present": ()}
    return ninja_text(graph, **{**values, **changes})  # type: ignore[arg-type]


def named(shown: str, graph: ActionGraph) -> str:
    """The text with short names for digests, which change with every flag."""
    actions = sorted(graph.compiles.values(), key=lambda one: one.unit)
    for number, one in enumerate(actions):
        shown = shown.replace(f"{one.fingerprint[:2]}/{one.fingerprint}", f"OBJECT{number}")
        for digest, name in (
            (one.projection, "PROJECTION"),
            (one.pch and one.pch.fingerprint, "PCH"),
        ):
            shown = shown.replace(digest, f"{name}{number}") if digest else shown
    return shown


def test_the_exact_text() -> None:
    # sorted by name, since edges stand in the order of digests
    expected = (GOLDEN / "build.ninja").read_text().split("\nbuild ")
    seen = named(
        text(toy_graph(), launchers={"linux-x86_64": "CCACHE_COMPILERCHECK=string:digest ccache"}),
        toy_graph(),
    ).split("\nbuild ")
    assert seen[0] == expected[0]
    assert sorted(seen[1:]) == sorted(expected[1:])


def test_equal_graphs_give_equal_text() -> None:
    assert text(toy_graph()) == text(toy_graph())


def test_no_machine_path_below_the_variables_at_the_top() -> None:
    head, _, rest = text(toy_graph()).partition("\npool heavy")
    assert "/home/me" not in rest
    elsewhere = {name: folder.replace("/me/", "/you/") for name, folder in FOLDERS.items()}
    tools = {
        abi: {v: p.replace("/me/", "/you/") if isinstance(p, str) else p for v, p in one.items()}
        for abi, one in TOOLS.items()
    }
    moved = text(toy_graph(), folders=elsewhere, toolchains=tools)
    assert moved.partition("\npool heavy")[2] == rest
    assert moved.partition("\npool heavy")[0] == head.replace("/me/", "/you/")


def test_our_programs_import_nothing_from_where_ninja_runs() -> None:
    """It runs in the cache, which others may write to: `-P` keeps that off `sys.path`."""
    text = Path(ninja_file.__file__).read_text(encoding="utf-8")
    assert {*re.findall(r"\$python (\S+)", text)} == {"-P"}


def test_what_the_cache_holds_has_no_edge() -> None:
    graph = toy_graph()
    (core,) = [key for key, one in graph.compiles.items() if one.unit == CORE]
    left = text(graph, present={core})
    assert f"build {core}: " not in left
    assert f" {core} " in left.replace("$\n", " ")


def test_a_precompiled_header_that_is_there_has_no_edge() -> None:
    graph = toy_graph()
    (header,) = {one.pch.output for one in graph.compiles.values() if one.pch}
    left = text(graph, present={header})
    assert f"build {header}: " not in left
    assert header in left


def test_heavy_units_run_in_a_smaller_pool() -> None:
    lines = text(toy_graph(), heavy_cost=10.0, heavy_jobs=1).splitlines()
    assert lines[lines.index("pool heavy") + 1] == "  depth = 1"
    heavy = [lines[n + 3] for n, line in enumerate(lines) if line == "  pool = heavy"]
    # the convolution costs 16 s, the others less than 10
    assert len(heavy) == 1


def test_a_graph_without_links_has_no_default() -> None:
    graph = ActionGraph(toy_graph().compiles)
    assert "default" not in text(graph)


FAKE_COMPILER = """\
#!/bin/sh
# Writes its arguments, one a line, where -o says, and an empty depfile where -MF says.
for argument in "$@"; do
  case "$previous" in -o) out="$argument" ;; -MF) : > "$argument" ;; esac
  previous="$argument"
done
printf '%s\\n' "$@" > "$out"
"""
FAKE_ARCHIVER = """\
#!/bin/sh
# ar rcsD <archive> @<list of members>: keeps what the list says.
cat "${3#@}" > "$2"
"""


def ninja(file: Path) -> tuple[int, list[str]]:
    """Its exit code, and what it made or said."""
    argv = [ninja_binary(), "-j1", "-f", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, [
        line.rpartition("/")[2].strip("'") for line in done.stdout.splitlines()
    ]


# Of which a shell or ninja would make something else.
ODD = ("-DX='a b'", "-DX=$HOME", "-DX=a\\b", "-Wl,-rpath,$ORIGIN", "`touch x`", "'; touch x; '", "")
FOLDER_NAMES = (
    *("plain", "a b/c $e", "o'brien", 'say "x"', "$HOME", "$cache", "$tree", "a#b", "a:b", "a,b"),
    *("a|b", "`touch x`", "a;touch x;b", "ümläut 数", "a\\b", "%s", "[a]*", "~", "n" * 180),
)


@pytest.mark.parametrize("where", FOLDER_NAMES)
def test_ninja_runs_it_wherever_the_folders_are(where: str, tmp_path: Path) -> None:
    """Spaces, and what a shell or ninja would expand, in folders and in flags."""
    home = tmp_path / where
    folders = {name: str(home / name) for name in FOLDERS}
    for folder in folders.values():
        Path(folder).mkdir(parents=True)
    compiler = home / "cxx"
    compiler.write_text(FAKE_COMPILER)
    compiler.chmod(0o755)
    archiver = home / "ar"
    archiver.write_text(FAKE_ARCHIVER)
    archiver.chmod(0o755)
    for source in ("tree/a.cpp", "cache/projections/p.h", "native/behind.h", "native/x.map"):
        (home / source).parent.mkdir(exist_ok=True)
        (home / source).touch()
    projection = Path(projection_path("p").replace("$cache", folders["cache"]))
    action = Compile(
        unit="a.cpp",
        source="$tree/a.cpp",
        language="c++",
        abi="linux-x86_64",
        flags=("-I$tree", "-DTEXT=(a b)", *ODD, "-I$tree/a b"),
        projection="p",
        fingerprint="f" * 64,
        cost=1.0,
        behind=("$native/behind.h",),
    )
    flags = ("-L$native", *ODD)
    shared = Link("$state/x.so", "shared", "linux-x86_64", (action.object,), (), flags)
    archive = Link("$state/x.a", "archive", "linux-x86_64", (action.object,), ())
    tool = {"cxx": str(compiler), "cc": str(compiler), "ar": str(archiver), "link": ODD}
    graph = ActionGraph({action.object: action}, (shared, archive))
    file = home / "build.ninja"
    file.write_text(text(graph, folders=folders, toolchains={"linux-x86_64": tool}))
    lists = write_lists(graph.links, folders)
    assert ninja(file) == (0, ["3] a.cpp", "x.a", "x.so"])
    written = Path(action.object.replace("$state", folders["state"]))
    assert written.read_text().splitlines()[: len(ODD) + 7] == [
        f"-I{folders['tree']}",
        "-DTEXT=(a b)",
        *ODD,
        f"-I{folders['tree']}/a b",
        "-include",
        str(projection),
        "-include",
        f"{folders['native']}/behind.h",
    ]
    assert (home / "state/x.so").read_text().splitlines()[: 2 * len(ODD) + 3] == [
        "-shared",
        f"-L{folders['native']}",
        *ODD,
        str(written),
        *ODD,
    ]
    assert not [path for path in tmp_path.rglob("x") if path.is_file()]
    # quoted for the archiver, whose response files follow the shell's rules
    assert shlex.split((home / "state/x.a").read_text()) == [str(written)]
    assert list(home.rglob("*.part")) == []
    # the ninja of another run may be about to read it
    assert [path for path in lists if path.is_file()] == [home / "state/x.a.members"]
    assert ninja(file) == (0, ["ninja: no work to do."])
    write_lists([replace(archive, on_demand=(action.object,))], folders)
    assert ninja(file) == (0, ["x.a"])


@pytest.mark.parametrize("where", ["plain", "a b"])
def test_an_archive_of_code_alone(where: str, tmp_path: Path) -> None:
    """By our own step and a real archiver, from a real object."""
    home = tmp_path / where
    made = compiled(home / "cache", "x86_64-linux-gnu", *LTO_FLAGS)
    folders = {name: str(home / name) for name in FOLDERS}
    (home / "state").mkdir()
    ar = home / "ar"
    ar.write_text(f'#!/bin/sh\nexec {shlex.quote(zig_program(Place("x")))} ar "$@"\n')
    ar.chmod(0o755)
    tool = {"cxx": "no", "cc": "no", "ar": str(ar), "link": ()}
    link = Link("$state/x.a", "code_archive", "linux-x86_64", ("$cache/unit.o",), ())
    file = home / "build.ninja"
    tools = {"linux-x86_64": tool}
    file.write_text(
        text(ActionGraph({}, (link,)), folders=folders, toolchains=tools, python=sys.executable)
    )
    write_lists([link], folders)
    assert ninja(file) == (0, ["x.a"])
    subprocess.run(["ar", "x", str(home / "state/x.a")], cwd=tmp_path, check=True)
    assert (tmp_path / "unit.o").read_bytes() == without_bitcode(made.read_bytes(), made)
    assert sorted(p.name for p in (home / "state").iterdir()) == [
        *(".ninja_log", "x.a", "x.a.members"),
    ]
    assert ninja(file) == (0, ["ninja: no work to do."])
