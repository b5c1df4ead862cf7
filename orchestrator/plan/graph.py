"""From variant plans to one action graph: equal objects are one node; each variant has its
links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.compilers.driver import CxxSource
from orchestrator.plan.flags import (
    BARE_FLAGS,
    RELOCATION_FLAGS,
    RUNTIME_LIBRARY_FLAGS,
    reading,
    speed_rank,
    together,
)
from orchestrator.plan.libraries import LibraryFacts
from orchestrator.plan.native_files import NativeFiles
from orchestrator.plan.variant import (
    RuntimeFacts,
    VariantPlan,
    VariantSpec,
    flags_of,
    precompile,
    precompiled,
)
from orchestrator.pytorch.dialect import Dialect
from orchestrator.values.action import (
    COMPILE_COMMAND,
    ActionGraph,
    Compile,
    Language,
    Link,
    Precompile,
)
from orchestrator.values.fingerprint import fingerprint, fingerprint_but

# A registration unit costs about so much, and a little more for each operator (CPU seconds).
_REGISTRATION_COST = 5.0
_NATIVE_COST = 5.0
_RUNTIME_LIBRARY_COST = 2.0
_RELOCATION_COST = 0.2
_CXX_LIBRARY_COST = 0.5
_JAVA_COST = 0.3
_THREADS_COST = 0.3
_SELECTION_COST = 0.1
# Of our own sources what reads most of ATen; the others are quicker without.
_C_API = "capi/capi.cpp"
_PRECOMPILED = frozenset(
    {
        _C_API,
        "capi/model_checks.cpp",
        "capi/selection_error.cpp",
        "coverage/coverage.cpp",
        "development/observer.cpp",
        "development/recorder.cpp",
        "memory/watch.cpp",
        "tracer/recorder.cpp",
        "tracer/setup.cpp",
    }
)
_JAVA_FLAGS = (*BARE_FLAGS, "-I$native/capi")
# A generated unit and its source (`$cache/...`) to its compilation.
_Compiling = Callable[[GeneratedUnit, str], Compile]


@dataclass(frozen=True)
class CommonObjects:
    """Objects that all variants of one specification (`VariantSpec.common`) link, whatever their
    apps select. The fields are those of `VariantObjects`; `native` lacks the unit that states the
    selection."""

    native: tuple[Compile, ...]
    runtime_library: tuple[Compile, ...] = ()
    kernels: tuple[Compile, ...] = ()
    library: tuple[Compile, ...] = ()
    library_bytes: int = 0
    cxx_library: tuple[Compile, ...] = ()


@dataclass(frozen=True)
class VariantObjects:
    """Everything that one variant links, in link order.

    runtime_library  our build of parts of the C++ library, or of all of it, for the shared library
                     alone: a static consumer brings his own
    java             the methods behind the Java API, for Android's shared library alone
    kernels          kernels of ours that call a library: they register themselves
    library          that library's units
    cxx_library      the C++ library, where links bring none: linked as an archive
    library_bytes    size of the sections of them that are needed, as its index has it
    texts            file (`$cache/...`) -> text, of its generated units that are not written yet
    """

    plan: VariantPlan
    registrations: tuple[Compile, ...]
    native: tuple[Compile, ...]
    runtime_library: tuple[Compile, ...] = ()
    java: tuple[Compile, ...] = ()
    kernels: tuple[Compile, ...] = ()
    library: tuple[Compile, ...] = ()
    library_bytes: int = 0
    cxx_library: tuple[Compile, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> tuple[str, ...]:
        """Objects that are linked whatever refers to them."""
        compiles = (*self.native, *self.kernels, *self.registrations, *self.plan.whole)
        return tuple(c.object for c in compiles)

    @property
    def on_demand(self) -> tuple[str, ...]:
        """Objects of which a linker takes what is referred to, the kernel library's among them."""
        return tuple(c.object for c in (*self.plan.on_demand, *self.library))

    @property
    def fastest_first(self) -> tuple[str, ...]:
        """All objects of PyTorch's and of the library's, best optimised first, for a linker that is
        given them all.

        Of an inline function that several of them have it keeps the first copy.
        """
        compiles = (
            *self.native,
            *self.kernels,
            *self.registrations,
            *self.plan.compiles,
            *self.library,
        )
        return tuple(c.object for c in sorted(compiles, key=lambda c: speed_rank(c.flags)))

    @property
    def compiles(self) -> tuple[Compile, ...]:
        """Every compilation of the variant but its model runner's."""
        return (
            *self.runtime_library,
            *self.java,
            *self.native,
            *self.kernels,
            *self.registrations,
            *self.plan.compiles,
            *self.library,
            *self.cxx_library,
        )


def registration_compiles(
    facts: RuntimeFacts, spec: VariantSpec, units: Iterable[GeneratedUnit], cache: Path
) -> tuple[Compile, ...]:
    """The compilations of generated registrations; `cache` is where units of earlier runs are."""
    compile_one = _registering(facts.dialect, facts.identity, facts.pch, spec.level)
    return tuple(compile_one(unit, _source(unit, cache)) for unit in units)


@cache
def _registering(dialect: Dialect, runtime: str, header: str, spec: VariantSpec) -> _Compiling:
    pch = precompiled(dialect, header, runtime, spec)
    flags = reading(flags_of(dialect, spec), pch)
    of = {"runtime": runtime, "pch": None if pch is None else pch.fingerprint}
    return _generated(spec, flags, of, _REGISTRATION_COST, pch)


def _generated(
    spec: VariantSpec,
    flags: tuple[str, ...],
    of: Mapping[str, object],
    cost: float,
    pch: Precompile | None = None,
) -> _Compiling:
    """Return the function that makes compilations of generated units which differ in their text
    alone; a large plan has thousands of them.

    of: parts of their objects' identity in addition to text, command, toolchain and flags
    """
    common = {**of, "command": COMPILE_COMMAND, "toolchain": spec.toolchain, "flags": flags}
    fingerprint_with = fingerprint_but(common, "unit")

    def compile_one(unit: GeneratedUnit, source: str) -> Compile:
        return Compile(
            unit=f"generated/{unit.name}.cpp",
            source=source,
            language="c++",
            abi=spec.abi,
            flags=flags,
            projection=None,
            fingerprint=fingerprint_with(unit.digest),
            cost=cost,
            pch=pch,
            parts={"unit": unit.digest, **common},
        )

    return compile_one


def unwritten(units: Iterable[GeneratedUnit], cache: Path) -> dict[str, str]:
    """Path (`$cache/...`) -> text of the generated units that the cache does not have yet."""
    return {_source(unit, cache): unit.text for unit in units if unit.text is not None}


# asked of the same few units for each of an app's ABIs
@lru_cache(maxsize=64)
def _source(unit: GeneratedUnit, cache: Path) -> str:
    return f"$cache/{unit.path.relative_to(cache).as_posix()}"


def native_compiles(
    facts: RuntimeFacts, spec: VariantSpec, sources: Iterable[str], native: NativeFiles
) -> tuple[Compile, ...]:
    """The compilations of our own sources (`capi/capi.cpp`)."""
    pch = precompile(facts, spec)
    runtime = (facts.dialect, facts.identity)
    return _native_compiles(*runtime, spec.level, tuple(sources), native, pch)


def kernel_compiles(
    facts: RuntimeFacts,
    spec: VariantSpec,
    sources: Iterable[str],
    native: NativeFiles,
    library: LibraryFacts,
    fast: frozenset[str],
    level_flags: tuple[str, ...] = (),
) -> tuple[Compile, ...]:
    """The compilations of our sources that call a library: as our others, with its headers.

    fast: those that are compiled as PyTorch's hot units are
    level_flags: what tells them of the variant's CPU levels
    """
    runtime = (facts.dialect, facts.identity)
    pch = precompile(facts, spec)
    return _kernel_compiles(
        *runtime, spec.level, tuple(sources), native, library, fast, level_flags, pch
    )


@cache
def _kernel_compiles(
    dialect: Dialect,
    runtime: str,
    spec: VariantSpec,
    sources: tuple[str, ...],
    native: NativeFiles,
    library: LibraryFacts,
    fast: frozenset[str],
    level_flags: tuple[str, ...],
    pch: Precompile | None,
) -> tuple[Compile, ...]:
    of = {"runtime": runtime, "library": library.digest, "pch": pch.fingerprint if pch else None}

    def compile_one(source: str) -> Compile:
        own = reading(flags_of(dialect, spec, hot=source in fast), pch)
        # the library's own folders last: it has a stub of cpuinfo that is not PyTorch's
        flags = (*own, "-I$native/capi", *library.options, *library.include, *level_flags)
        return _native(spec, source, native, flags, of, _NATIVE_COST, pch=pch)

    return tuple(map(compile_one, sources))


@cache
def _native_compiles(
    dialect: Dialect,
    runtime: str,
    spec: VariantSpec,
    sources: tuple[str, ...],
    native: NativeFiles,
    pch: Precompile | None,
) -> tuple[Compile, ...]:
    flags = (*flags_of(dialect, spec), "-I$native/capi", "-I$native/driver")

    def compile_one(source: str) -> Compile:
        own = pch if source in _PRECOMPILED else None
        of = {"runtime": runtime, "pch": own.fingerprint if own else None}
        told = _told(dialect) if source == _C_API else ()
        return _native(
            spec, source, native, (*reading(flags, own), *told), of, _NATIVE_COST, pch=own
        )

    return tuple(map(compile_one, sources))


def _told(dialect: Dialect) -> tuple[str, ...]:
    """Macros that tell the C API its runtime: PyTorch's version, and the bytecode versions that it
    reads."""
    bytecode = dialect.models.bytecode
    return (
        f'-DLTA_PYTORCH="{dialect.version}"',
        f"-DLTA_BYTECODE_LEAST={bytecode.start}",
        f"-DLTA_BYTECODE_MOST={bytecode.stop - 1}",
    )


def bare_compile(spec: VariantSpec, source: str, native: NativeFiles) -> Compile:
    """The compilation of a source of ours that needs nothing of C++'s own library."""
    flags = (*spec.flags_before(), *BARE_FLAGS)
    return _native(spec, source, native, flags, {}, _THREADS_COST)


def threads_compile(spec: VariantSpec, threads: int, native: NativeFiles) -> Compile:
    """The compilation of a library's threads: of the toolchain alone, not of PyTorch.

    threads  how many it uses by default: of no part where it has none
    """
    if not spec.threaded:
        return bare_compile(spec, "threads/one.cpp", native)
    flags = (*spec.flags_before(), *BARE_FLAGS, f"-DLTA_THREADS={threads}")
    return _native(spec, "threads/pool.cpp", native, flags, {}, _THREADS_COST)


def selection_compile(spec: VariantSpec, unit: GeneratedUnit, cache: Path) -> Compile:
    """The compilation of what says a library's selection: of its text and the toolchain alone."""
    return _selecting(spec.level)(unit, _source(unit, cache))


@cache
def _selecting(spec: VariantSpec) -> _Compiling:
    return _generated(spec, (*spec.flags_before(), *BARE_FLAGS), {}, _SELECTION_COST)


def tasks_compile(spec: VariantSpec, library: LibraryFacts, native: NativeFiles) -> Compile:
    """The compilation of what gives a library of kernels the variant's threads."""
    flags = (*spec.flags_before(), *BARE_FLAGS, *library.options, *library.include)
    of = {"library": library.digest}
    return _native(spec, "threads/pthreadpool.cpp", native, flags, of, _THREADS_COST)


def runtime_library_compiles(
    spec: VariantSpec, sources: Iterable[str], native: NativeFiles
) -> tuple[Compile, ...]:
    """The compilations of our parts of the C++ library: of the toolchain alone, not of PyTorch."""
    return _runtime_library_compiles(spec.level, tuple(sources), native)


def relocation_compile(spec: VariantSpec, source: str, native: NativeFiles) -> Compile:
    """The compilation of what relocates a library: as code, whose initialiser must stay as it is
    written, also where the library is made of bitcode."""
    flags = (*spec.compile_flags, *RELOCATION_FLAGS)
    return _native(spec, source, native, flags, {}, _RELOCATION_COST)


@cache
def _runtime_library_compiles(
    spec: VariantSpec, sources: tuple[str, ...], native: NativeFiles
) -> tuple[Compile, ...]:
    own = together(RUNTIME_LIBRARY_FLAGS) if spec.lto else RUNTIME_LIBRARY_FLAGS
    flags = (*spec.flags_before(), *own)
    return tuple(
        _native(spec, source, native, flags, {}, _RUNTIME_LIBRARY_COST) for source in sources
    )


def java_compiles(spec: VariantSpec, package: str, native: NativeFiles) -> tuple[Compile, ...]:
    """The compilations of the methods behind the Java API: of the toolchain alone, not of PyTorch.

    package  the app's Java package, with `/`: all that differs between apps, and in one unit
    """
    named = f'-DLTA_JNI_PACKAGE="{package}"'
    common = (*spec.flags_before(), *_JAVA_FLAGS)
    return (
        _native(spec, "jni/natives.cpp", native, common, {}, _JAVA_COST),
        _native(spec, "jni/on_load.cpp", native, (*common, named), {}, _JAVA_COST),
    )


def cxx_library_compiles(
    spec: VariantSpec, sources: Iterable[CxxSource], optimisation: Literal["-Os", "-Oz"]
) -> tuple[Compile, ...]:
    """The compilations of a toolchain's whole C++ library, where its linker has none."""
    return _cxx_library_compiles(spec.level, tuple(sources), optimisation)


@cache
def _cxx_library_compiles(
    spec: VariantSpec, sources: tuple[CxxSource, ...], optimisation: str
) -> tuple[Compile, ...]:
    return tuple(
        _compile(
            spec,
            source.unit,
            f"$zig/{source.unit}",
            (optimisation, *source.flags),
            {"unit": source.unit},
            _CXX_LIBRARY_COST,
            language=source.language,
        )
        for source in sources
    )


def _native(
    spec: VariantSpec,
    source: str,
    native: NativeFiles,
    flags: tuple[str, ...],
    of: Mapping[str, object],
    cost: float,
    pch: Precompile | None = None,
) -> Compile:
    """The compilation of a source of ours; `of` is what it depends on besides our own files."""
    of = {"unit": source, "native": native.digest_of(source), **of}
    return _compile(spec, f"native/{source}", f"$native/{source}", flags, of, cost, pch=pch)


def _compile(
    spec: VariantSpec,
    unit: str,
    source: str,
    flags: tuple[str, ...],
    of: Mapping[str, object],
    cost: float,
    *,
    pch: Precompile | None = None,
    language: Language = "c++",
) -> Compile:
    """The compilation of a source that is not a unit of the runtime, and so has no projection.

    of: what its object depends on besides toolchain and flags
    """
    parts = {**of, "command": COMPILE_COMMAND, "toolchain": spec.toolchain, "flags": flags}
    return Compile(
        unit=unit,
        source=source,
        language=language,
        abi=spec.abi,
        flags=flags,
        projection=None,
        fingerprint=fingerprint(parts),
        cost=cost,
        pch=pch,
        parts=parts,
    )


def action_graph(variants: Iterable[VariantObjects], links: Iterable[Link]) -> ActionGraph:
    """The graph of all compilations and links. An object that several variants use is one action:
    its name is the action's fingerprint."""
    compiles: dict[str, Compile] = {}
    for variant in variants:
        for action in variant.compiles:
            compiles.setdefault(action.object, action)
    return ActionGraph({key: compiles[key] for key in sorted(compiles)}, tuple(links))


def texts_of(variants: Iterable[VariantObjects]) -> dict[str, str]:
    """file (`$cache/...`) -> text, of all that must be written before the variants are compiled."""
    texts: dict[str, str] = {}
    for variant in variants:
        texts |= projection_files(variant.plan.projections)
        texts |= variant.texts
    return texts


def projection_files(projections: Mapping[str, str]) -> dict[str, str]:
    """file (`$cache/...`) -> text, from digest -> text of projection headers."""
    return {f"$cache/projections/{digest}.h": text for digest, text in projections.items()}
