"""A toy variant for the package tests: real libraries, made by zig from `golden/package/toy`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from shipped_index import shipped
from zig_tool import HOST_TARGET, zig

from orchestrator.deliver.headers import HeaderFile
from orchestrator.deliver.manifest import (
    ModelFact,
    RuntimeFact,
    SelectionFact,
    ToolchainFact,
)
from orchestrator.deliver.variant import DeliverInputs, Licence
from orchestrator.values.methods import Call, Input, Method, Parameter

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/package"
TOY = GOLDEN / "toy"
TARGET = HOST_TARGET
TOY_MODEL = ModelFact(
    name="toy",
    file="models/toy.ptl",
    sha256="ab" * 32,
    methods=(
        Method(
            name="blend",
            parameters=(
                Parameter(name="images", type="Tensor"),
                Parameter(name="weights", type="Tuple[int, float]"),
            ),
            returns=("Tensor",),
        ),
    ),
    call=Call(
        method="blend",
        arguments=(
            Input(kind="tensor", dtype="float32", shape=(1, 3, 96, 96)),
            Input(
                kind="tuple",
                items=(Input(kind="int", value=2), Input(kind="double", value=0.5)),
            ),
        ),
    ),
)
# What `package.strip` fills in.
PLACEHOLDER = "-Wl,--build-id=0x" + 40 * "0"
# One of its own, for a library that nobody strips.
BUILD_ID = "-Wl,--build-id=0x" + 20 * "5a"
FLAGS = ("-g0", "-Os", "-fPIC", "-fno-sanitize=all", "-fvisibility=hidden", "-ffunction-sections")


def plain_library(
    out: Path,
    *link: str,
    target: str = TARGET,
    soname: str = "libtoy_torch.so",
    compile_flags: Sequence[str] = FLAGS,
) -> Path:
    """A library without libc from `plain.c`: quick for any processor; also exports `more`.

    Compiled and linked apart: `zig cc -g0` leaves no symbol table when it does both at once.
    """
    unit = out.with_suffix(".o")
    zig("cc", "-target", target, *compile_flags, "-c", TOY / "plain.c", "-o", unit)
    zig(
        *("cc", "-target", target, "-shared", "-nostdlib", f"-Wl,-soname,{soname}"),
        *link,
        *(unit, "-o", out),
    )
    return out


def version_script(folder: Path) -> str:
    """The flag that leaves only `lta_*` visible."""
    script = folder / "exports.map"
    script.write_text("{ global: lta_*; local: *; };\n")
    return f"-Wl,--version-script={script}"


def variant(folder: Path) -> DeliverInputs:
    """All libraries of a toy app, linked as the planner links real ones."""
    folder.mkdir(parents=True, exist_ok=True)
    objects = {}
    for name in ("api", "core", "registrations", "unreached"):
        objects[name] = folder / f"{name}.o"
        zig(
            *("c++", "-target", TARGET, *FLAGS, "-std=gnu++17", "-DTOY_MOBILE"),
            *("-DTOY_LEVEL=2", "-c", TOY / f"{name}.cpp", "-o", objects[name]),
        )
    whole = folder / "libtoy_torch_registrations.a"
    core = folder / "libtoy_torch_core.a"
    zig("ar", "rcsD", whole, objects["registrations"])
    zig("ar", "rcsD", core, objects["core"], objects["unreached"], objects["api"])
    library = folder / "libtoy_torch.so"
    zig(
        *("c++", "-target", TARGET, "-shared", "-O2", "-Wl,-soname,libtoy_torch.so"),
        *(version_script(folder), "-Wl,--gc-sections", "-Wl,-z,defs", PLACEHOLDER),
        *("-Wl,--whole-archive", whole, "-Wl,--no-whole-archive", objects["api"], core),
        *("-o", library),
    )
    return inputs(folder, library, whole, core)


def inputs(folder: Path, library: Path, registrations: Path, core: Path) -> DeliverInputs:
    """The delivery of these libraries."""
    licence = folder / "LICENSE"
    licence.write_text("Do as you like.\n")
    return DeliverInputs(
        app="toy",
        abi="linux-x86_64",
        version="1.2.0",
        package_name="toy-libtorch",
        system="linux",
        processor="x86_64",
        shared_library=library,
        registrations=registrations,
        core=core,
        c_header=TOY / "libtorch_app.h",
        headers=(HeaderFile(str(TOY / "core.h"), "toy/core.h"),),
        definitions=("TOY_MOBILE", "TOY_LEVEL=2"),
        models=(TOY_MODEL,),
        selection=SelectionFact(
            operators=("aten::mul.Tensor", "aten::add.Tensor"),
            kernel_dtypes={"add_kernel": ("Long", "Float")},
        ),
        runtime=RuntimeFact(pytorch="1.13.1", tree="cd" * 32),
        toolchain=ToolchainFact(
            compiler="zig",
            version="0.17.0",
            identity="ef" * 32,
            cxx_library="libc++",
            target=TARGET,
        ),
        licences=(
            Licence("pytorch", "1.13.1", "BSD-3-Clause", {"LICENSE": licence}),
            Licence("miniz", "2.1.0", "MIT", {"LICENSE": licence}),
        ),
    )


def judged_inputs(folder: Path) -> DeliverInputs:
    """The same, of a PyTorch whose index we ship: builds make verdicts for packages of it."""
    inputs = quick_inputs(folder)
    operators = {"root_operators": inputs.selection.operators, "backends": ("CPU",)}
    return replace(
        inputs,
        app="toy",
        fingerprint="state 1",
        runtime=inputs.runtime.model_copy(update={"tree": shipped().tree}),
        selection=inputs.selection.model_copy(update=operators),
    )


def quick_inputs(folder: Path) -> DeliverInputs:
    """A delivery of a real shared library and of archives that only their bytes matter of."""
    folder.mkdir(parents=True, exist_ok=True)
    library = plain_library(folder / "linked.so", PLACEHOLDER)
    whole, core = folder / "whole.a", folder / "core.a"
    whole.write_bytes(b"!<arch>\n")
    core.write_bytes(b"!<arch>\n")
    return inputs(folder, library, whole, core)
