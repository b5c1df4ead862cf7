"""Files of elementwise operators, read and refused, and the C++ that is generated of them.

A folder of tests/failing/elementwise is a file with something wrong.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from array import array
from pathlib import Path
from typing import get_args

import pytest
from golden_files import Golden
from zig_tool import HOST_CXX, zig_environment

from orchestrator.build.workshop.elementwise import all_sources
from orchestrator.build.workshop.native import NATIVE
from orchestrator.compilers.zig_cxx import LINK_FLAGS
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import App
from orchestrator.load.elementwise import read_elementwise
from orchestrator.load.sources import SourceUnfitError
from orchestrator.load.workspace import load_workspace
from orchestrator.values.config.app import ShippedOperator
from orchestrator.values.own_sources import OwnSources

TESTS = Path(__file__).parents[3]
CASES = TESTS / "failing/elementwise"
TWELVE = TESTS / "golden/elementwise"
APP = """\
models: [{file: small.ptl}]
targets: [linux-x86_64]
sources: {kernels: {namespace: ew, files: ["kernels/*.elementwise"]}}
"""
# What a generated loop needs of PyTorch, and a product of which it is compiled.
AROUND = """\
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
namespace at { template <typename T> using opmath_type = T; }
namespace c10 {
template <typename T> T load(const void* at) { return *static_cast<const T*>(at); }
}
"""
PRODUCT = """\
name: product
arity: 2
dtypes: [float32]
functor: |
  template <typename T>
  T product(T a, T b) {
    return a * b;
  }
"""
RUN = """\
extern "C" void products(char** data, const int64_t* strides, int64_t count) {
  run<float>(data, strides, count, std::make_index_sequence<2>());
}
"""


def app(root: Path, config: str = APP) -> App:
    (root / "apps/toy/kernels").mkdir(parents=True, exist_ok=True)
    (root / "apps/toy/app.yaml").write_text(config)
    (root / "apps/toy/small.ptl").touch()
    (root / "WORKSPACE").write_text(
        f'version: 1\nruntime:\n  pytorch: 1.13.1\n  tree: "{"0" * 64}"\n  sources: [path: here]\n'
    )
    workspace = load_workspace(root, {"HOME": str(root)})
    for faults in workspace.broken.values():
        raise faults[0]
    return workspace.apps["toy"]


def made(root: Path, name: str) -> OwnSources:
    (root / "apps/toy/kernels").mkdir(parents=True)
    shutil.copy(TWELVE / f"{name}.elementwise", root / "apps/toy/kernels")
    found = all_sources(app(root))
    assert found is not None
    return found


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_bad_files(case: str, tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "apps/toy/kernels").mkdir(parents=True)
    shutil.copy(CASES / case / "op.elementwise", tmp_path / "apps/toy/kernels")
    with pytest.raises(OrchestratorError) as caught:
        read_elementwise(app(tmp_path))
    golden(CASES / case / "expected.txt", caught.value.render() + "\n")


@pytest.mark.parametrize("name", ["lcm", "zeta", "i0"])
def test_the_text_of_an_operator(name: str, tmp_path: Path, golden: Golden) -> None:
    sources = made(tmp_path, name)
    path = f"kernels/{name}.elementwise.cpp"
    assert sources.files == (path,)
    assert sources.generated == {path: f"kernels/{name}.elementwise"}
    golden(TWELVE / "texts" / f"{name}.cpp", sources.texts[path])


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The loop of a product of float32, compiled as kernels that take the time are: a shared
    library, and its assembly beside it."""
    folder = tmp_path_factory.mktemp("loop")
    (folder / "apps/toy/kernels").mkdir(parents=True)
    (folder / "apps/toy/kernels/product.elementwise").write_text(PRODUCT)
    sources = all_sources(app(folder))
    assert sources is not None
    (text,) = sources.texts.values()
    start, end = text.index("namespace {"), text.index("// Shapes, dtypes")
    (folder / "loop.cpp").write_text(f"{AROUND}{text[start:end]}}}\n{RUN}")
    argv = [*HOST_CXX, "-std=gnu++17", "-O2", "-fPIC"]
    link = ["loop.s", "-shared", *LINK_FLAGS, "-o", "loop.so"]
    for rest in (["-S", "loop.cpp", "-o", "loop.s"], link):
        done = subprocess.run(
            [*argv, *rest], cwd=folder, env=zig_environment(), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    return folder / "loop.so"


def test_the_loop_multiplies_four_numbers_at_once(loop: Path) -> None:
    assembly = loop.with_suffix(".s").read_text()
    assert assembly.count("\tmulps\t") >= 2


# Elements from one to the next, of the result and of both operands.
@pytest.mark.parametrize(
    "steps",
    [(1, 1, 1), (1, 0, 1), (1, 1, 0), (1, 0, 0), (1, 3, 1), (2, 1, 1), (3, 2, 0), (2, 2, -1)],
)
@pytest.mark.parametrize("count", [0, 1, 1023, 1024, 1025, 2500])
def test_operands_that_are_not_contiguous(
    loop: Path, steps: tuple[int, int, int], count: int
) -> None:
    """A block has 1024 elements."""
    out, *operands = (array("f", [first] * 8000) for first in (0, 1, 2))
    for one in operands:
        one[:] = array("f", (value + one[0] for value in range(8000)))
    begins = [0 if step >= 0 else count for step in steps]
    pointers = (ctypes.c_void_p * 3)(
        *(
            one.buffer_info()[0] + 4 * begin
            for one, begin in zip((out, *operands), begins, strict=True)
        )
    )
    library = ctypes.CDLL(str(loop))
    library.products(
        pointers, (ctypes.c_int64 * 3)(*(4 * step for step in steps)), ctypes.c_int64(count)
    )
    expected = array("f", [0] * 8000)
    for i in range(count):
        a, b = (
            one[begin + i * step]
            for one, begin, step in zip(operands, begins[1:], steps[1:], strict=True)
        )
        expected[i * steps[0]] = a * b
    assert out == expected


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    """A compiler's `apps/toy/kernels/zeta.elementwise:8` is the eighth line there, indented as it
    is."""
    text = made(tmp_path, "zeta").texts["kernels/zeta.elementwise.cpp"]
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("#line"))
    number, _, file = lines[at].removeprefix("#line ").partition(" ")
    assert file == '"apps/toy/kernels/zeta.elementwise"'
    original = (TWELVE / "zeta.elementwise").read_text().splitlines()[int(number) - 1 :]
    assert lines[at + 1 : at + 1 + len(original)] == original


def test_all_of_them_are_read(tmp_path: Path) -> None:
    shutil.copytree(TWELVE, tmp_path / "apps/toy/kernels", ignore=shutil.ignore_patterns("texts"))
    found = read_elementwise(app(tmp_path))
    assert [one.config.name for one in found] == [
        *("digamma", "erfcx", "gcd", "i0", "i0e", "i1", "i1e"),
        *("lcm", "lgamma", "ndtri", "trigamma", "zeta"),
    ]


def test_a_file_of_a_generated_ones_name(tmp_path: Path) -> None:
    folder = tmp_path / "apps/toy/kernels"
    folder.mkdir(parents=True)
    shutil.copy(TWELVE / "gcd.elementwise", folder)
    (folder / "gcd.elementwise.cpp").write_text("int a;\n")
    config = APP.replace("sources: {", 'sources: {files: ["kernels/*.cpp"], ')
    with pytest.raises(SourceUnfitError) as caught:
        all_sources(app(tmp_path, config))
    assert str(caught.value.place) == "apps/toy/kernels/gcd.elementwise.cpp"


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ("sources: {}", "no sources are named"),
        ("sources: {kernels: {namespace: ew, files: [x.elementwise]}}", "no source has this name"),
        ("sources: {kernels: {namespace: e-w, files: [x.elementwise]}}", "`namespace`"),
        ("sources: {kernels: {namespace: ew, files: [x.cpp]}}", "`files`"),
    ],
)
def test_bad_declarations(config: str, what: str, tmp_path: Path) -> None:
    head = "\n".join(APP.splitlines()[:2])
    with pytest.raises(OrchestratorError) as caught:
        app(tmp_path, f"{head}\n{config}\n")
    assert what in caught.value.render()


SWITCHED = """\
models: [{file: small.ptl}]
targets: [linux-x86_64]
sources: {operators: [torchvision::roi_align, torchvision::nms], %s}
"""


def switched(root: Path, more: str = "include: []") -> OwnSources | None:
    return all_sources(app(root, SWITCHED % more))


def test_operators_of_other_libraries_join_the_sources(tmp_path: Path) -> None:
    found = switched(tmp_path)
    assert found is not None
    assert found.files == ("torchvision/nms.cpp", "torchvision/roi_align.cpp")
    assert {*found.texts} - {*found.files} == {"torchvision/regions.h", "torchvision/sizes.h"}
    assert [*found.units] == ["apps/toy/torchvision/nms.cpp", "apps/toy/torchvision/roi_align.cpp"]
    assert found.generated == dict.fromkeys(found.files, "app.yaml")


def test_every_operator_that_can_be_switched_on_has_a_source() -> None:
    folder = NATIVE / "operators"
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.cpp")}
    assert files == {name.replace("::", "/") + ".cpp" for name in get_args(ShippedOperator)}


def test_a_source_of_the_same_name_as_an_operators(tmp_path: Path) -> None:
    (tmp_path / "apps/toy/torchvision").mkdir(parents=True)
    (tmp_path / "apps/toy/torchvision/nms.cpp").touch()
    with pytest.raises(SourceUnfitError) as caught:
        switched(tmp_path, "files: [torchvision/*.cpp]")
    assert caught.value.render().splitlines() == [
        "apps/toy/torchvision/nms.cpp: error: a source has the same name as one of an operator's",
        "  seen:     `operators` in apps/toy/app.yaml",
        "  do:       rename it, or remove it where it is the same operator",
    ]
