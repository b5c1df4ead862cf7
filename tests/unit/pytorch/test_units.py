"""Which files PyTorch compiles: read from the tree's own lists, never executed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from orchestrator.pytorch.dialects import DIALECTS, RuntimeUnsupportedError, load_version
from orchestrator.pytorch.units import (
    ListsUnreadableError,
    Unit,
    UnitMissingError,
    UnitOfNoKindError,
    UpstreamUnit,
    read_lists,
    runtime_units,
    upstream_units,
)
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.pytorch.versions import VersionData

LISTS = '''
"""A docstring."""
plain = ["torch/a.cpp", "torch/b.cpp"]
more = plain + [
    # a comment
    "c10/c.cpp",
] + []
ordered = sorted(more + ["aten/z.cpp"])
names = ["{}.h".format(n) for n in plain]
def function(pattern):
    return [pattern.format(name) for name in plain]
danger = __import__("os").listdir("/")
numbers = ["a", 1]
'''


def version(**changes: object) -> VersionData:
    """1.13.1's data, with another universe of units."""
    data = DIALECT.facts.model_dump(mode="json")
    units = {"lists": [], "globs": [], "files": [], "generated": [], "without": []} | changes
    data["units"] = data["upstream"]["units"] = units
    return VersionData.model_validate(data)


def tree(root: Path, *files: str) -> Path:
    for path in files:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    (root / "build_variables.bzl").write_text(LISTS)
    return root


def test_lists_literals_sums_and_sorted() -> None:
    assert read_lists(LISTS, ("plain", "more", "ordered")) == {
        "plain": ["torch/a.cpp", "torch/b.cpp"],
        "more": ["torch/a.cpp", "torch/b.cpp", "c10/c.cpp"],
        "ordered": ["aten/z.cpp", "c10/c.cpp", "torch/a.cpp", "torch/b.cpp"],
    }


@pytest.mark.parametrize(
    ("name", "place", "seen"),
    [
        ("names", "build_variables.bzl:9:9", "['{}.h'.format(n) for n in plain]"),
        ("danger", "build_variables.bzl:12:10", "__import__('os').listdir('/')"),
        ("numbers", "build_variables.bzl:13:11", "['a', 1]"),
    ],
)
def test_nothing_is_executed(name: str, place: str, seen: str) -> None:
    with pytest.raises(ListsUnreadableError) as caught:
        read_lists(LISTS, (name,))
    assert caught.value.render() == (
        f"{place}: error: a list of sources is more than a sum of lists of strings\n"
        "  expected: string literals, `+`, sorted(...) and names of other lists\n"
        f"  seen:     {seen}"
    )


@pytest.mark.parametrize("name", ["absent", "function"])
def test_a_list_that_is_not_there(name: str) -> None:
    with pytest.raises(ListsUnreadableError) as caught:
        read_lists(LISTS, (name,))
    assert caught.value.what == f"there is no list of sources called {name}"


def test_text_that_is_not_starlark() -> None:
    with pytest.raises(ListsUnreadableError) as caught:
        read_lists("x = [\n  'a'\n  'b',\n", ("x",))
    assert str(caught.value.place) == "build_variables.bzl:1:5"


def test_units_of_every_kind_sorted(tmp_path: Path) -> None:
    files = (
        "aten/src/ATen/core/a.cpp",
        "aten/src/ATen/native/b.cpp",
        "aten/src/ATen/native/ao_sparse/c.cpp",
        "aten/src/ATen/native/cpu/d.cpp",
        "aten/src/ATen/native/quantized/cpu/kernels/e.cpp",
        "aten/src/ATen/native/quantized/cpu/f.cpp",
        "aten/src/ATen/quantized/g.cpp",
        "c10/util/h.cpp",
        "caffe2/serialize/i.cc",
        "third_party/miniz-2.1.0/j.c",
        "torch/csrc/k.cpp",
    )
    generated = ["RegisterCPU.cpp", "core/l.cpp", "UfuncCPUKernel_add.cpp"]
    found = runtime_units(tree(tmp_path, *files), version(files=files, generated=generated))
    assert found == (
        Unit("aten/src/ATen/core/a.cpp", "c++", "aten-core", "normal"),
        Unit("aten/src/ATen/native/ao_sparse/c.cpp", "c++", "quantized", "normal"),
        Unit("aten/src/ATen/native/b.cpp", "c++", "native", "normal"),
        Unit("aten/src/ATen/native/cpu/d.cpp", "c++", "native-cpu-kernel", "kernel"),
        Unit("aten/src/ATen/native/quantized/cpu/f.cpp", "c++", "quantized", "normal"),
        Unit(
            "aten/src/ATen/native/quantized/cpu/kernels/e.cpp",
            "c++",
            "native-cpu-kernel",
            "kernel",
        ),
        Unit("aten/src/ATen/quantized/g.cpp", "c++", "quantized", "normal"),
        Unit("c10/util/h.cpp", "c++", "c10", "normal"),
        Unit("caffe2/serialize/i.cc", "c++", "serialize", "normal"),
        Unit("generated/RegisterCPU.cpp", "c++", "generated", "normal"),
        Unit("generated/UfuncCPUKernel_add.cpp", "c++", "native-cpu-kernel", "kernel"),
        Unit("generated/core/l.cpp", "c++", "aten-core", "normal"),
        Unit("third_party/miniz-2.1.0/j.c", "c", "third-party", "normal"),
        Unit("torch/csrc/k.cpp", "c++", "torch", "normal"),
    )
    assert [unit.path for unit in found if unit.generated] == [
        "generated/RegisterCPU.cpp",
        "generated/UfuncCPUKernel_add.cpp",
        "generated/core/l.cpp",
    ]


def test_lists_globs_and_what_is_left_out(tmp_path: Path) -> None:
    root = tree(tmp_path, "torch/a.cpp", "torch/b.cpp", "c10/c.cpp", "c10/c_test.cpp", "c10/in/d.h")
    data = version(lists=["plain"], globs=["c10/*.cpp"], without=["**/*_test.cpp", "torch/b.*"])
    assert [unit.path for unit in runtime_units(root, data)] == ["c10/c.cpp", "torch/a.cpp"]


def test_upstream_optimises_the_kernels(tmp_path: Path) -> None:
    files = ("aten/src/ATen/native/cpu/d.cpp", "torch/csrc/jit/mobile/m.cpp", "caffe2/core/o.cc")
    found = upstream_units(tree(tmp_path, *files), version(files=files))
    assert found == (
        UpstreamUnit("aten/src/ATen/native/cpu/d.cpp", "c++", "kernels", "-O3"),
        UpstreamUnit("caffe2/core/o.cc", "c++", "others", "-O2"),
        UpstreamUnit("torch/csrc/jit/mobile/m.cpp", "c++", "jit mobile", "-O2"),
    )


def test_a_unit_that_the_tree_lacks(tmp_path: Path) -> None:
    with pytest.raises(UnitMissingError) as caught:
        runtime_units(tree(tmp_path, "torch/a.cpp"), version(lists=["more"], files=["c10/x.cpp"]))
    assert caught.value.render() == (
        "error: the source tree lacks files that its own lists name\n"
        "  seen:     c10/c.cpp, c10/x.cpp, torch/b.cpp\n"
        "  do:       fetch the runtime again: ./orchestrate fetch --verify"
    )


def test_a_unit_that_no_rule_gives_a_kind(tmp_path: Path) -> None:
    with pytest.raises(UnitOfNoKindError) as caught:
        runtime_units(tree(tmp_path, "other/a.cpp"), version(files=["other/a.cpp"]))
    assert caught.value.render() == (
        "error: no rule gives the kind of the unit other/a.cpp\n"
        "  expected: a glob that matches it\n"
        "  do:       add one to `kinds` in the data of PyTorch 1.13.1"
    )


def test_every_shipped_version_loads() -> None:
    assert set(DIALECTS) == {"1.13.1", "2.6.0"}
    for name in DIALECTS:
        assert load_version(name).version == name


def test_a_version_without_data() -> None:
    with pytest.raises(RuntimeUnsupportedError) as caught:
        load_version("2.5.0")
    assert caught.value.render() == (
        "error: PyTorch 2.5.0 is not a supported runtime\n"
        "  expected: one of 1.13.1, 2.6.0\n"
        "  seen:     2.5.0\n"
        "  do:       change its `pytorch:` in WORKSPACE"
    )


def test_version_data_is_strict() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        version(sources=[])
