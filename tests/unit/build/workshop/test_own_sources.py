"""An app's own sources before a plan: read, compiled, refused with their places; made once.

The compiler is real, PyTorch a stand-in of a few names (golden/core/registering/library.h). A
folder of tests/failing/sources is an app's sources with something wrong.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from core_toy import CORE, GOLDEN, NODES, make_index
from golden_files import Golden
from toy_workspace import toy_invocation, toy_runtime, toy_toolchain
from zig_tool import HOST_CXX, zig_environment

from orchestrator.build.workshop.native import NATIVE
from orchestrator.build.workshop.own_sources import (
    OwnLayer,
    SourceObjectUnreadableError,
    own_layer,
)
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.sources import MissingSourceError, SourceUnfitError
from orchestrator.system.process import LOCAL, Command, Finished
from orchestrator.values.own_sources import OwnClass

ROOT = Path(__file__).parents[4]
CASES = ROOT / "tests/failing/sources"
# What the stand-in calls of PyTorch.
REGISTERING = (
    "_ZNR5torch7Library5_implEPKcONS_11CppFunctionE",
    "_ZNR5torch7Library4_defEON3c1014FunctionSchemaE",
    "_ZNR5torch7Library4_defEON3c1014FunctionSchemaEONS_11CppFunctionE",
    "_ZN5torch16TorchLibraryInitC1ENS_7Library4KindEPFvRS1_EPKcS7_",
)
INDEX = make_index({**NODES, **dict.fromkeys(REGISTERING, (CORE, 8, ()))})
APP = """\
models: [{file: small.ptl}]
targets: [linux-x86_64]
sources: {files: ["src/*.cpp"], include: [include]}
"""
OPERATOR = """\
#include "library.h"
void work() {}
BLOCK(, DEF, "ink", nullptr, ink) { m.def("smooth(Tensor x) -> Tensor", &work); }
static auto brush = torch::class_<int>("ink", "Brush").def("width", &work);
"""


@dataclass
class Zig:
    """Runs zig in place of a toolchain's wrapper, and counts."""

    ran: int = field(default=0, compare=False)

    def __hash__(self) -> int:
        return 1

    def run(self, command: Command) -> Finished:
        self.ran += 1
        argv = [*HOST_CXX, *command.argv[1:]]
        return LOCAL.run(Command(argv, zig_environment(), timeout=command.timeout))

    def stream(self, command: Command, feed: Callable[[bytes], None]) -> int:
        raise AssertionError("nothing is streamed")


@dataclass(frozen=True)
class Toy:
    """A workspace with one app, and what reads its sources."""

    root: Path
    runner: Zig

    @property
    def app(self) -> Path:
        return self.root / "apps/inker"

    def layer(self, *, flags: tuple[str, ...] = ()) -> OwnLayer:
        here = toy_invocation(self.root, runner=self.runner)
        for faults in here.workspace.broken.values():
            raise faults[0]
        sources = here.runtimes.sources("inker")
        assert sources is not None
        folders = {
            "cache": str(here.context.cache),
            "native": str(NATIVE),
            "tree": str(self.root / "tree"),
        }
        config = here.toolchains.config("linux-x86_64")
        config = config.model_copy(update={"compile_flags": flags})
        toolchain = toy_toolchain(config)
        runtime = toy_runtime(folders=folders, index=INDEX)
        return own_layer(sources, runtime, toolchain, here.context, here.log)


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    made = Toy(tmp_path, Zig())
    write(
        made,
        {
            "WORKSPACE": "version: 1\nruntime:\n  pytorch: 1.13.1\n"
            f'  tree: "{"0" * 64}"\n  sources: [path: here]\n',
            "apps/inker/app.yaml": APP,
            "apps/inker/small.ptl": "",
            "apps/inker/src/ops.cpp": OPERATOR,
            # what the header reads that tells a unit of a selection
            "tree/c10/core/ScalarType.h": "namespace at { enum class ScalarType {}; }",
            "tree/c10/macros/Macros.h": "#define C10_UNUSED",
            "tree/c10/util/string_view.h": "",
            "tree/ATen/Dispatch.h": "",
        },
    )
    for folder in (".orchestrator", "cache", "apps/inker/include"):
        (tmp_path / folder).mkdir()
    shutil.copy(GOLDEN / "registering/library.h", made.app / "include")
    return made


def write(toy: Toy, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (toy.root / name).parent.mkdir(parents=True, exist_ok=True)
        (toy.root / name).write_text(text)


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_bad_sources(case: str, toy: Toy, golden: Golden) -> None:
    shutil.rmtree(toy.app / "src")
    shutil.copytree(CASES / case, toy.app / "src", ignore=shutil.ignore_patterns("*.txt"))
    with pytest.raises(OrchestratorError) as caught:
        toy.layer()
    text = re.sub(r"\S*/libcxx/include", "<C++ library>", caught.value.render())
    assert str(toy.root) not in text
    golden(CASES / case / "expected.txt", text + "\n")


def test_they_are_read_once(toy: Toy) -> None:
    first = toy.layer()
    assert [one.registrations for one in first.units] == [(("ink::smooth", "catchall"),)]
    assert toy.runner.ran == 2
    assert [one.own_classes for one in first.units] == [(OwnClass("ink.Brush", ("width",)),)]
    assert toy.layer() == first
    assert toy.runner.ran == 2
    (kept,) = (toy.root / "cache/layers").iterdir()
    assert first.classes["ink.Brush"].place == Place("apps/inker/src/ops.cpp", 4, 28)
    # half written, or touched: made again
    kept.write_bytes(kept.read_bytes()[:-1])
    assert toy.layer() == first
    assert toy.runner.ran == 4
    # a header that a source may read counts, and another app's file does not
    header = toy.app / "include/library.h"
    header.write_text(header.read_text() + "// more\n")
    write(toy, {"apps/other/src/ops.cpp": OPERATOR})
    assert toy.layer().sources.digest != first.sources.digest
    assert toy.runner.ran == 6


@pytest.mark.parametrize(
    "flags", [("-target", "aarch64-macos"), ("-flto",)], ids=["Mach-O", "bitcode"]
)
def test_a_toolchain_whose_objects_are_not_elf(flags: tuple[str, ...], toy: Toy) -> None:
    with pytest.raises(SourceObjectUnreadableError) as caught:
        toy.layer(flags=flags)
    assert caught.value.render() == (
        "toolchains/linux-x86_64.yaml: error: objects of linux-x86_64 cannot be added to PyTorch's"
        " index\n"
        "  expected: a little-endian ELF relocatable file, as the index is made of, for"
        " apps/inker/src/ops.cpp\n"
        "  seen:     Magic number does not match\n"
        "  do:       an app's own `sources` need a toolchain for this machine that compiles to ELF"
        " objects with code: without -flto in `compile_flags`"
    )


def test_a_link_is_refused(toy: Toy, tmp_path: Path) -> None:
    (toy.app / "include/secret.h").symlink_to("/etc/passwd")
    with pytest.raises(SourceUnfitError, match="a symbolic link") as caught:
        toy.layer()
    assert caught.value.seen == "include/secret.h"
    (toy.app / "include/secret.h").unlink()
    elsewhere = tmp_path / "elsewhere"
    shutil.move(toy.app / "src", elsewhere)
    (toy.app / "src").symlink_to(elsewhere)
    with pytest.raises(SourceUnfitError, match="a symbolic link"):
        toy.layer()


def test_what_is_no_text_is_refused(toy: Toy) -> None:
    (toy.app / "src/ops.cpp").write_bytes(b"int a;\n\xff\n")
    with pytest.raises(SourceUnfitError) as caught:
        toy.layer()
    assert caught.value.render().startswith("apps/inker/src/ops.cpp: error:")


def test_a_source_that_is_gone(toy: Toy) -> None:
    (toy.app / "src/ops.cpp").unlink()
    with pytest.raises(MissingSourceError):
        toy.layer()
