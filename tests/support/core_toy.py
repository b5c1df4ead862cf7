"""A small runtime, written by hand, for the tests of selection, planning and ninja's text."""

from __future__ import annotations

import argparse
import os
import shutil
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from zig_tool import HOST_TARGET, zig

from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.cli import make_context
from orchestrator.codegen.projection import projection_text
from orchestrator.index.model import COMDAT, Registration, RuntimeIndex, UnitFacts
from orchestrator.plan.variant import RuntimeFacts, VariantSpec, compilation
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.action import Compile
from orchestrator.values.fingerprint import text_digest
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/core"

LINEAR, CONVOLUTION, STUBS = "native/Linear.cpp", "native/Convolution.cpp", "native/Stubs.cpp"
CORE, GUARD, MINIZ = "core/Tensor.cpp", "core/Guard.cpp", "third/miniz.c"
REGISTER_CPU, REGISTER_SCHEMA = "generated/RegisterCPU.cpp", "generated/RegisterSchema.cpp"
OPERATORS, FUNCTIONS = "generated/Operators_0.cpp", "generated/Functions.cpp"

# name -> (unit that owns it, size, what it refers to)
NODES: Mapping[str, tuple[str | None, int, Sequence[str]]] = {
    "guard_init": (GUARD, 8, ["tensor_new"]),
    "tensor_new": (CORE, 40, []),
    "template_copy": (None, 16, ["tensor_new"]),
    "cpu_linear": (REGISTER_CPU, 24, ["linear_kernel"]),
    "linear_kernel": (LINEAR, 200, ["template_copy", "_ZN2at4_ops10add_Tensor4callEv"]),
    "cpu_add": (REGISTER_CPU, 24, ["add_kernel", "functions_table"]),
    "add_kernel": (STUBS, 100, []),
    "functions_table": (FUNCTIONS, 12, []),
    "conv_kernel": (CONVOLUTION, 300, ["inflate", "never_defined_elsewhere"]),
    "inflate": (MINIZ, 60, []),
    "never_defined_elsewhere": (None, 4, []),
    "_ZN2at4_ops10add_Tensor4callEv": (OPERATORS, 32, []),
    "capi_needs": (CORE, 10, ["tensor_new"]),
}
# node -> the kernel tags that its code switches on
TAGS: Mapping[str, Sequence[str]] = {
    "linear_kernel": ["linear_tag", "shared_tag"],
    "conv_kernel": ["conv_tag", "shared_tag"],
}
UNITS = (
    UnitFacts(CORE, 2.0),
    UnitFacts(GUARD, 1.5),
    UnitFacts(OPERATORS, 20.0),
    UnitFacts(REGISTER_CPU, 30.0),
    UnitFacts(REGISTER_SCHEMA, 9.0),
    UnitFacts(FUNCTIONS, 4.0),
    UnitFacts(CONVOLUTION, 16.0, tags=("conv_tag", "shared_tag"), operators=(Op("toy::conv"),)),
    UnitFacts(LINEAR, 3.0, tags=("linear_tag", "shared_tag"), features=("LINEAR_FEATURE",)),
    UnitFacts(STUBS, 2.5, open_tags=True, classes=("Prepacked",)),
    UnitFacts(MINIZ, 0.5),
)
# unit -> the nodes of its static initialisers
INITIALISERS: Mapping[str, Sequence[str]] = {GUARD: ["guard_init"]}
# operator, dispatch key, unit, what its kernel refers to
REGISTRATIONS: Sequence[tuple[str, str, str, Sequence[str]]] = (
    ("aten::add.Tensor", "CPU", REGISTER_CPU, ["cpu_add"]),
    ("aten::add.Tensor", "CompositeExplicitAutogradNonFunctional", REGISTER_CPU, ["inflate"]),
    ("aten::add.Tensor", "schema", REGISTER_SCHEMA, []),
    ("aten::linear", "CPU", REGISTER_CPU, ["cpu_linear"]),
    ("aten::linear", "schema", REGISTER_SCHEMA, []),
    ("aten::shadow", "CompositeExplicitAutogradNonFunctional", REGISTER_CPU, ["add_kernel"]),
    ("aten::sparse_only", "SparseCPU", REGISTER_CPU, ["inflate"]),
    ("toy::conv", "catchall", CONVOLUTION, ["conv_kernel"]),
)


def make_index(
    nodes: Mapping[str, tuple[str | None, int, Sequence[str]]] = NODES,
    units: Sequence[UnitFacts] = UNITS,
    registrations: Sequence[tuple[str, str, str, Sequence[str]]] = REGISTRATIONS,
    calls: Mapping[str, str] | None = None,
    tags: Mapping[str, Sequence[str]] | None = None,
    initialisers: Mapping[str, Sequence[str]] = INITIALISERS,
    functions: Collection[str] = (),
) -> RuntimeIndex:
    """An index in its canonical order: units by path, nodes by name.

    A unit's `init` is of numbers, which nodes have only here: `initialisers` names them instead.
    """
    units = sorted(units, key=lambda unit: unit.path)
    names = sorted(nodes)
    number = {name: n for n, name in enumerate(names)}
    unit_number = {unit.path: n for n, unit in enumerate(units)}
    starts, edges = array("i", [0]), array("i")
    for name in names:
        edges.extend(sorted(number[target] for target in nodes[name][2]))
        starts.append(len(edges))
    operator_calls = {"_ZN2at4_ops10add_Tensor4callEv": "aten::add.Tensor"}
    return RuntimeIndex(
        pytorch="0.1.0",
        tree="7" * 64,
        units=tuple(
            replace(unit, init=tuple(sorted(number[n] for n in initialisers.get(unit.path, ()))))
            for unit in units
        ),
        registrations=tuple(
            Registration(Op(op), key, unit_number[unit], tuple(sorted(number[t] for t in targets)))
            for op, key, unit, targets in sorted(registrations)
        ),
        names=tuple(names),
        owners=array("i", [_owner(nodes[name][0], unit_number) for name in names]),
        sizes=array("i", [nodes[name][1] for name in names]),
        edge_starts=starts,
        edges=edges,
        operator_calls={
            number[node]: Op(op) for node, op in (calls or operator_calls).items() if node in number
        },
        kernel_tags={
            number[node]: tuple(some)
            for node, some in (TAGS if tags is None else tags).items()
            if node in number
        },
        functions=frozenset(number[node] for node in functions if node in number),
    )


def _owner(unit: str | None, numbers: Mapping[str, int]) -> int:
    return COMDAT if unit is None else numbers[unit]


FACTS = RuntimeFacts(
    dialect=DIALECT,
    identity="f" * 64,
    kernels=frozenset({STUBS}),
    always=frozenset({GUARD}),
    recording=frozenset({STUBS}),
    languages={MINIZ: "c"},
)


def spec(**changes: object) -> VariantSpec:
    """A release variant of the toy for the host."""
    values: dict[str, object] = {
        "abi": "linux-x86_64",
        "toolchain": "t" * 64,
        "compile_flags": (),
        "purpose": "release",
        "optimize": "size",
        "entry": frozenset({"capi_needs", "malloc"}),
    }
    return VariantSpec(**{**values, **changes})  # type: ignore[arg-type]


def compile_unit(
    facts: RuntimeFacts, selection: Selection, spec: VariantSpec, unit: UnitFacts
) -> Compile:
    """The compilation of one unit for a selection, as the planner makes it."""
    text = projection_text(unit, selection) if facts.is_cxx(unit.path) else None
    return compilation(facts, spec, unit)(None if text is None else text_digest(text))


def this_checkout() -> Invocation:
    """This checkout, with the user's own cache."""
    context = make_context(argparse.Namespace(workspace=None), os.environ, ROOT)
    return load(context, lambda line: None)


def real_runtime(name: str = "pytorch_1_13") -> Runtime:
    """A runtime of this checkout, by its name."""
    return this_checkout().runtimes.on(name)


def camera_workspace(root: Path, added: str) -> tuple[Path, dict[str, str]]:
    """A workspace at `root` whose only app is camera, with text added to its app.yaml: that file,
    and the environment of a verb that finds the user's cache."""
    (root / "apps").mkdir(parents=True)
    shutil.copy(ROOT / "WORKSPACE", root)
    shutil.copytree(ROOT / "apps/camera", root / "apps/camera")
    file = root / "apps/camera/app.yaml"
    file.write_text(f"{file.read_text()}{added}")
    return file, {"ORCHESTRATOR_CACHE": str(this_checkout().context.cache), "PATH": "/usr/bin:/bin"}


# As the planner's flags make them: a section for every function and datum.
_FLAGS = "-std=gnu++17 -Os -g0 -fPIC -ffunction-sections -fdata-sections -fno-sanitize=all -w"


def compile_file(source: str | Path, folder: Path, target: str = HOST_TARGET) -> Path:
    """A C++ file (relative to the golden folder) as an object in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"{Path(source).stem}.o"
    zig("c++", "-target", target, *_FLAGS.split(), "-c", GOLDEN / source, "-o", out)
    return out


def compile_text(folder: Path, name: str, text: str, target: str = HOST_TARGET) -> Path:
    """A C++ text as an object in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name}.cpp"
    source.write_text(text)
    return compile_file(source, folder, target)
