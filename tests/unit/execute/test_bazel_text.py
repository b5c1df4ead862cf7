"""A graph as a Bazel workspace: exact text, inputs declared, no path of the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_toy import ROOT
from golden_files import Golden

from orchestrator.execute.bazel import BazelTools, BazelVariant, BazelWorkspace, bazel_workspace
from orchestrator.values.action import ActionGraph, Compile, Link, Precompile

GOLDEN = ROOT / "tests/golden/bazel"
ABI = "linux-x86_64"
FOLDERS = ("cache", "configured", "native", "state", "tree")
TOOLS = {
    ABI: BazelTools(
        wrappers={verb: f"#!/bin/sh\nexec {verb}\n" for verb in ("ar", "cc", "cxx")},
        folders=("zig", "zig_program"),
        link=("-nostdlib++",),
    )
}
HEADER = Precompile("$native/pch/aten.h", ABI, ("-Oz",), "f" * 64)
KERNEL = Compile(
    unit="aten/src/ATen/native/Linear.cpp",
    source="$tree/aten/src/ATen/native/Linear.cpp",
    language="c++",
    abi=ABI,
    flags=("-Oz", "-I$configured", "-DORIGIN=$ORIGIN", '-DNAME="a b"'),
    projection="d" * 64,
    fingerprint="a" * 64,
    cost=5.0,
    pch=HEADER,
)
REGISTRATIONS = replace(
    KERNEL,
    unit="generated/registrations.cpp",
    source="$cache/registrations/33/335e/registrations.cpp",
    projection=None,
    pch=None,
    fingerprint="b" * 64,
)
RUNNER = replace(REGISTRATIONS, unit="native/driver.cpp", fingerprint="c" * 64)
CHECKSUM = replace(
    REGISTRATIONS, unit="miniz.c", source="$tree/miniz.c", language="c", fingerprint="e" * 64
)
SHARED = Link(
    output=f"$state/variants/toy/{ABI}/libtoy_torch.so",
    kind="shared",
    abi=ABI,
    whole=(REGISTRATIONS.object,),
    on_demand=(KERNEL.object, CHECKSUM.object),
    flags=("-Wl,--version-script=$native/capi/libtorch_app.map",),
    inputs=("$native/capi/libtorch_app.map",),
)
CORE = Link(f"$state/variants/toy/{ABI}/libtoy_torch_core.a", "archive", ABI, (), (KERNEL.object,))
PROGRAM = Link(f"$state/variants/toy/{ABI}/driver", "executable", ABI, (RUNNER.object,), ())
GRAPH = ActionGraph(
    {one.object: one for one in (KERNEL, REGISTRATIONS, RUNNER, CHECKSUM)}, (SHARED, CORE, PROGRAM)
)
VARIANT = BazelVariant("toy", ABI, SHARED.output, (CORE.output,), stripped=True)


def workspace(**changes: object) -> BazelWorkspace:
    values = {
        "graph": GRAPH,
        "variants": [VARIANT],
        "toolchains": TOOLS,
        "texts": {
            f"$cache/projections/{'d' * 64}.h": "// projection\n",
            f"$cache/projections/{'0' * 64}.h": "// another's\n",
        },
        "folders": FOLDERS,
    }
    return bazel_workspace(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "file", [f"objects/{ABI}/BUILD.bazel", "apps/toy/BUILD.bazel", "sources/BUILD.bazel"]
)
def test_the_exact_text(file: str, golden: Golden) -> None:
    golden(GOLDEN / file.replace("/", "."), workspace().texts[file])


def test_what_lies_beside_the_texts() -> None:
    made = workspace()
    assert made.folders == ("configured", "native", "orchestrator", "tree", "zig", "zig_program")
    assert made.cached == ("cache/registrations/33/335e",)
    assert made.programs == {
        "tools/code_archive",
        "tools/python",
        *(f"toolchains/{ABI}/{verb}" for verb in ("ar", "cc", "cxx")),
    }
    projections = [path for path in made.texts if "/projections/" in path]
    assert projections == [f"sources/cache/projections/{'d' * 64}.h"]


def test_an_apps_own_sources_have_all_their_headers() -> None:
    """One that lies beside a source is named by no argument; a name may have any character of
    those that `app.yaml` takes."""
    folder = f"$cache/sources/{'5' * 64}"
    source = replace(
        REGISTRATIONS,
        source=f"{folder}/src/ink+1.cpp",
        flags=(f"-I{folder}/include",),
        fingerprint="e" * 64,
    )
    texts = {
        f"{folder}/src/ink+1.cpp": '#include "ink.h"\n',
        f"{folder}/src/ink.h": "// beside it\n",
        f"$cache/sources/{'6' * 64}/ink.h": "// another app's\n",
    }
    graph = ActionGraph(
        {**GRAPH.compiles, source.object: source}, (replace(SHARED, whole=(source.object,)), CORE)
    )
    made = workspace(graph=graph, texts=texts)
    there = {path: text for path, text in made.texts.items() if "cache/sources/" in path}
    assert there == {f"sources/{path[1:]}": text for path, text in texts.items() if folder in path}
    assert not any("cache/sources" in path for path in made.cached)
    assert f'"{folder[1:]}",' in made.texts["sources/BUILD.bazel"]
    assert f'"//sources:{folder[1:]}",' in made.texts[f"objects/{ABI}/BUILD.bazel"]


def test_programs_that_run_models_are_not_exported() -> None:
    assert not any("driver" in text for text in workspace().texts.values())


def test_a_static_library_and_its_stubs() -> None:
    """iOS: what dead code refers to is found by a step of ours between two links."""
    folder = "$state/variants/toy/ios-arm64"
    joined = Link(f"{folder}/joined.o", "relocatable", ABI, (KERNEL.object,), ())
    stubs = Link(f"{folder}/left_out.cpp", "left_out", ABI, (joined.output,), ())
    stub = Link(f"{folder}/left_out.o", "object", ABI, (stubs.output,), (), flags=("-Oz",))
    library = Link(f"{folder}/libtoy_torch.a", "archive", ABI, (KERNEL.object,), (stub.output,))
    graph = ActionGraph(GRAPH.compiles, (joined, stubs, stub, library))
    variant = BazelVariant("toy", "ios-arm64", library.output, (), stripped=False)
    text = workspace(graph=graph, variants=[variant]).texts["apps/toy/BUILD.bazel"]
    assert text.count("lta_action(") == 4
    assert 'tool = "//tools:python"' in text
    assert '"orchestrator.binary.dead_stubs",\n        "{objects}",\n        "{out}",' in text
    assert 'filegroup(\n    name = "ios-arm64",' in text


def test_archives_without_bitcode() -> None:
    archive = replace(CORE, kind="code_archive")
    graph = ActionGraph(GRAPH.compiles, (SHARED, archive))
    text = workspace(graph=graph).texts["apps/toy/BUILD.bazel"]
    assert f'argv = [\n        "toolchains/{ABI}/ar",\n        "{{out}}",' in text
    assert f'"//toolchains/{ABI}:ar",\n        "//tools:python",' in text
    assert 'tool = "//tools:code_archive"' in text
