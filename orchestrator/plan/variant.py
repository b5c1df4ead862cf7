"""Plans one variant: from a selection to the units it needs, each with its projection and flags.

Pure: an index, a selection and a specification in; a `VariantPlan` out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from orchestrator.codegen.projection import projection_text
from orchestrator.errors import OrchestratorError
from orchestrator.plan.fingerprint import fingerprint, text_digest
from orchestrator.plan.flags import Purpose, precompiled, unit_flags
from orchestrator.runtime.index import RuntimeIndex, UnitFacts, aliases
from orchestrator.select.closure import GENERATED, Reach, Registry, reach
from orchestrator.values.action import Compile, Language, Precompile
from orchestrator.values.config import Optimize
from orchestrator.values.selection import Selection

# torchgen files that are written again for each selection; the other generated units are whole.
_SELECTED_FILES = ("generated/Register", "generated/Operators_")
# Keys whose Register*.cpp share one translation unit; kernels under another key may have wrappers
# of the same name (quantized `empty.memory_format`), so each other key is a unit of its own.
_SHARED_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
# Units that run for each operator of a model: kernels, their iterators, the tensor itself.
_COMPUTING = ("aten/src/ATen/native/", "aten/src/ATen/TensorIterator", "c10/core/")
# Units that read ATen/Tensor.h or more; c10's and miniz are quicker without.
_PRECOMPILED = ("aten/", "torch/", "generated/")
# What generated registrations call (torch/library.h): they are cut out of the index's graph.
_REGISTERING = (
    "_ZNR5torch7Library5_implE",
    "_ZNR5torch7Library4_defE",
    "_ZN5torch7LibraryC1E",
    "_ZN5torch7LibraryC2E",
    "_ZN5torch11CppFunctionC1EN3c10",
    "_ZN5torch11CppFunctionC2EN3c10",
    "_ZN5torch11CppFunctionD",
    "_ZN5torch3jit11parseSchema",
    "_ZN5torch3jit17parseSchemaOrName",
)
# Not a dispatch key with a Register<key>.cpp of its own.
_WITHOUT_FILE = frozenset({"schema", "catchall", "BackendSelect"})
# Operators that the template of RegisterBackendSelect.cpp registers whatever is selected.
_BACKEND_SELECT_CALLS = frozenset({"aten::is_pinned", "aten::_pin_memory"})


class UnitUnknownError(OrchestratorError):
    """The version's data names a unit that the index does not have: a bug in our data."""


@dataclass(frozen=True)
class RuntimeFacts:
    """What planning needs to know of a runtime besides its index.

    identity     digest of the source tree, its generated and configured headers
    kernels      units that upstream compiles at -O3
    always       units whose static initialisers the runtime cannot do without
    recording    more of them for a tracer
    unlike       units that cannot be compiled with the precompiled header
    included     unit -> header of ours that it is compiled with
    pch          digest of the precompiled header's text
    """

    identity: str
    kernels: frozenset[str]
    always: frozenset[str]
    recording: frozenset[str]
    languages: Mapping[str, Language]
    unlike: frozenset[str] = frozenset()
    included: Mapping[str, str] = field(default_factory=dict)
    pch: str = ""

    def always_for(self, purpose: Purpose) -> frozenset[str]:
        """The units that a variant of this purpose cannot do without."""
        return self.always | self.recording if purpose == "tracer" else self.always


@dataclass(frozen=True)
class VariantSpec:
    """What to plan: an ABI's toolchain identity and flags, what for, and how optimised.

    entry   symbols of the runtime that our own native code refers to
    precompile  whether units share a precompiled header
    cut     units that the models cannot enter: their functions become stubs
    hot     units whose kernels take the time (from the trace)
    """

    abi: str
    toolchain: str
    compile_flags: tuple[str, ...]
    purpose: Purpose
    optimize: Optimize
    entry: frozenset[str]
    precompile: bool = True
    hot: frozenset[str] = frozenset()
    cut: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RegistrationRequest:
    """What torchgen writes for one variant: see codegen/torchgen_worker.py.

    operators  get a schema (and a BackendSelect kernel where they have one)
    calls      get a typed entry point `at::_ops::X::call`
    kernels    dispatch key -> operators with a kernel under it, as sorted pairs
    """

    operators: tuple[str, ...]
    calls: tuple[str, ...]
    kernels: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def shared_keys(self) -> tuple[str, ...]:
        """Keys whose kernels are compiled in one unit with schemas and entry points."""
        keys = dict(self.kernels)
        return tuple(key for key in _SHARED_KEYS if key in keys)

    @property
    def own_keys(self) -> tuple[str, ...]:
        """Keys whose kernels are a unit of their own."""
        return tuple(key for key, _ in self.kernels if key not in _SHARED_KEYS)


@dataclass(frozen=True)
class VariantPlan:
    """The units of one variant.

    whole      objects that register operators: linked whatever refers to them
    by_need    all other objects
    request    the registrations to generate; their objects are linked whole too
    """

    spec: VariantSpec
    reach: Reach
    whole: tuple[Compile, ...]
    by_need: tuple[Compile, ...]
    request: RegistrationRequest
    projections: Mapping[str, str]

    @property
    def compiles(self) -> tuple[Compile, ...]:
        return (*self.whole, *self.by_need)


def plan_variant(
    index: RuntimeIndex,
    kernels: Registry,
    facts: RuntimeFacts,
    selection: Selection,
    spec: VariantSpec,
) -> VariantPlan:
    """The plan of one variant. Raises UnitUnknownError."""
    numbers = {unit.path: number for number, unit in enumerate(index.units)}
    always = sorted(facts.always_for(spec.purpose))
    found = reach(
        index,
        kernels,
        entry=entry_nodes(index, spec.entry),
        operators=selection.operators,
        units=[_number(numbers, path) for path in always],
        cut=[_number(numbers, path) for path in sorted(spec.cut)],
        follow_calls=False,
    )
    needed = set(found.units) | _whole_generated_units(index, found)
    whole = _registering_units(index, kernels, selection.operators) | {
        numbers[path] for path in always
    }
    compiles = {
        number: compile_unit(facts, selection, spec, index.units[number]) for number in needed
    }
    return VariantPlan(
        spec=spec,
        reach=found,
        whole=tuple(compiles[n] for n in sorted(needed & whole)),
        by_need=tuple(compiles[n] for n in sorted(needed - whole)),
        request=_request(index, kernels, selection, found),
        projections=_projections(index, selection, needed),
    )


def entry_nodes(index: RuntimeIndex, symbols: Iterable[str]) -> list[int]:
    """The nodes that define `symbols`, and those of the registering machinery.

    Symbols that no unit defines are libc's or libc++'s.
    """
    wanted = {alias for symbol in symbols for alias in aliases(symbol)}
    return [
        n
        for n, name in enumerate(index.names)
        if name.split("@", 1)[0] in wanted or name.startswith(_REGISTERING)
    ]


def _number(numbers: Mapping[str, int], path: str) -> int:
    if path not in numbers:
        raise UnitUnknownError(
            f"the runtime index has no unit {path}", hint="run: orchestrator runtime index"
        )
    return numbers[path]


def _whole_generated_units(index: RuntimeIndex, found: Reach) -> set[int]:
    """Generated units that do not depend on the selection (Functions.cpp, TensorMethods.cpp)."""
    owners = {index.owners[node] for node in found.parents}
    return {
        number
        for number in owners
        if number >= 0
        and index.units[number].path.startswith(GENERATED)
        and not index.units[number].path.startswith(_SELECTED_FILES)
    }


def _registering_units(
    index: RuntimeIndex, kernels: Registry, operators: Iterable[str]
) -> set[int]:
    return {
        registration.unit
        for operator in operators
        for registration in kernels.kernels(operator)
        if not index.units[registration.unit].path.startswith(GENERATED)
    }


def compile_unit(
    facts: RuntimeFacts, selection: Selection, spec: VariantSpec, unit: UnitFacts
) -> Compile:
    """The compilation of one unit for a selection."""
    language = facts.languages.get(unit.path, "c++")
    kernel, hot = unit.path in facts.kernels, unit.path in spec.hot
    computes = unit.path.startswith(_COMPUTING)
    flags = flags_of(spec, language=language, kernel=kernel, hot=hot, computes=computes)
    included = facts.included.get(unit.path)
    pch = None
    if (
        unit.path.startswith(_PRECOMPILED)
        and language == "c++"
        and not (unit.features or included)
        and unit.path not in facts.unlike
        and precompiled(kernel=kernel, hot=hot, optimize=spec.optimize)
    ):
        pch = precompile(facts, spec, flags)
    if included is not None:
        flags = (*flags, "-include", f"$native/{included}")
    text = projection_text(unit, selection) if language == "c++" else None
    projection = None if text is None else text_digest(text)
    return Compile(
        unit=unit.path,
        source=(
            f"$generated/ATen/{unit.path.removeprefix(GENERATED)}"
            if unit.path.startswith(GENERATED)
            else f"$tree/{unit.path}"
        ),
        language=language,
        abi=spec.abi,
        flags=flags,
        projection=projection,
        fingerprint=fingerprint(
            {
                "unit": unit.path,
                "runtime": facts.identity,
                "toolchain": spec.toolchain,
                "flags": flags,
                "projection": projection,
                "pch": None if pch is None else pch.identity,
            }
        ),
        cost=unit.cost,
        pch=pch,
    )


def flags_of(
    spec: VariantSpec,
    *,
    language: str = "c++",
    kernel: bool = False,
    hot: bool = False,
    computes: bool = False,
) -> tuple[str, ...]:
    """All flags of a unit of this kind in this variant."""
    return (
        *spec.compile_flags,
        *unit_flags(
            language=language,
            kernel=kernel,
            hot=hot,
            optimize=spec.optimize,
            purpose=spec.purpose,
            computes=computes,
        ),
    )


def precompile(facts: RuntimeFacts, spec: VariantSpec, flags: tuple[str, ...]) -> Precompile | None:
    """The precompiled header for units with `flags`; None where the variant has none."""
    if not spec.precompile:
        return None
    identity = fingerprint(
        {
            "header": facts.pch,
            "runtime": facts.identity,
            "toolchain": spec.toolchain,
            "flags": flags,
        }
    )
    return Precompile(source="$native/pch/aten.h", abi=spec.abi, flags=flags, identity=identity)


def _projections(index: RuntimeIndex, selection: Selection, units: Iterable[int]) -> dict[str, str]:
    texts = (projection_text(index.units[number], selection) for number in sorted(units))
    return {text_digest(text): text for text in texts if text is not None}


def _request(
    index: RuntimeIndex, kernels: Registry, selection: Selection, found: Reach
) -> RegistrationRequest:
    """Registrations of the selected operators, entry points of every operator that is called."""
    generated = [
        registration
        for operator in sorted(selection.operators)
        for registration in kernels.kernels(operator)
        if index.units[registration.unit].path.startswith(GENERATED)
    ]
    by_key: dict[str, set[str]] = {}
    for registration in generated:
        if registration.key not in _WITHOUT_FILE:
            by_key.setdefault(registration.key, set()).add(registration.operator)
    # A BackendSelect kernel redispatches to its own operator.
    redispatched = {r.operator for r in generated if r.key == "BackendSelect"}
    return RegistrationRequest(
        operators=tuple(sorted({registration.operator for registration in generated})),
        calls=tuple(sorted(found.called | redispatched | _BACKEND_SELECT_CALLS)),
        kernels=tuple((key, tuple(sorted(by_key[key]))) for key in sorted(by_key)),
    )
