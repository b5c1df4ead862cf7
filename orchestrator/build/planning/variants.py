"""From selections to variants: plans, and the compilations of each; nothing is compiled here.

Three stages: `plan_units` determines the units and registrations that each variant needs;
`registration_units` has torchgen write the registrations, and is the only stage with effects;
`plan_objects` plans all compilations. `plan_all` runs all three.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from orchestrator.build.planning.links import extensible_script
from orchestrator.build.planning.selected import selection_unit
from orchestrator.build.workshop.invocation import Prepared
from orchestrator.build.workshop.native import own_native_files
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.codegen.registrations import (
    GeneratedUnit,
    generate_registrations,
    planned_registrations,
)
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.codegen.stubs import generate_stubs
from orchestrator.codegen.units import unit_of
from orchestrator.compilers.flags import HARDENING
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.libraries.features import (
    asked_by_units,
    at_levels,
    fast_sources,
    library_symbols,
    load_entries,
    runtime_symbols,
    sources_of,
    units_calling,
    with_beside,
)
from orchestrator.libraries.levels import levels_for
from orchestrator.load.declared import Workspace
from orchestrator.packagers.aar_java import java_package
from orchestrator.plan.anchors import anchored, anchors_of, anchors_text
from orchestrator.plan.extension import exports_file
from orchestrator.plan.flags import Purpose
from orchestrator.plan.graph import (
    CommonObjects,
    VariantObjects,
    bare_compile,
    cxx_library_compiles,
    java_compiles,
    kernel_compiles,
    native_compiles,
    registration_compiles,
    relocation_compile,
    runtime_library_compiles,
    selection_compile,
    tasks_compile,
    threads_compile,
    unwritten,
)
from orchestrator.plan.libraries import USUAL_LEVELS, LevelFlags, level_flags, library_compiles
from orchestrator.plan.native_files import NativeFiles
from orchestrator.plan.own_folders import objects_in_own_folders
from orchestrator.plan.variant import VariantPlan, VariantSpec
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.platform import SharedLibrary
from orchestrator.select.closure import Registry
from orchestrator.select.tag_code import size_of_tag
from orchestrator.trace.hot import Scales
from orchestrator.values.action import Compile
from orchestrator.values.config.app import CpuLevel, Dispatch
from orchestrator.values.config.forms import KernelPart, Optimize
from orchestrator.values.fingerprint import fingerprint
from orchestrator.values.same import Same
from orchestrator.values.selection import Selection

# What identifies a variant to whoever plans it.
Key = TypeVar("Key", bound=Hashable)
LIBRARY_SOURCES = (
    "archive/crc32.cpp",
    "capi/capi.cpp",
    "capi/model_checks.cpp",
    "capi/model_memory.cpp",
    "capi/selection_error.cpp",
)
RECORDER_SOURCES = (
    "coverage/coverage.cpp",
    "tracer/recorder.cpp",
    "tracer/setup.cpp",
)
TRACER_SOURCES = (
    *LIBRARY_SOURCES,
    *RECORDER_SOURCES,
    "coverage/watching.cpp",
    "driver/driver.cpp",
    "driver/values.cpp",
    "tracer/main.cpp",
)
# The library's own idea of a pool, in the caller's thread.
_WITHOUT_THREADS = "pthreadpool/src/shim.c"
# Parts of the C++ library, without what PyTorch does not use of them: 330 KB less.
RUNTIME_LIBRARY_SOURCES = tuple(
    f"runtime_library/{part}.cpp"
    for part in ("demangle", "ios", "iostream", "locale", "streams", "string")
)
# What loads add-ons, in a library that takes them.
EXTENDING = "capi/extend.cpp"
# Of the development library: its runner's observers besides.
DEVELOPMENT_SOURCES = (
    *LIBRARY_SOURCES,
    EXTENDING,
    *RECORDER_SOURCES,
    "development/observer.cpp",
    "development/recorder.cpp",
)
SELF_RELOCATION = "runtime_library/relocate.cpp"
THREAD_EXIT = "runtime_library/thread_exit.cpp"


@dataclass(frozen=True)
class VariantRequest:
    """A variant to plan: what is selected, and how it is built.

    kernels are the registrations that its models can reach, cut the units that they cannot, lean
    those of which they need less.
    app is whose release variant it is: on Android its library carries the app's Java methods.
    self_relocation: whether the app lets its shared library relocate itself.
    features: the kernels that call a library which its operators ask for; None: none at all.
    cpu: the CPU levels that its app declares; None: those that such kernels gain by.
    multiply_adds: of a run of its largest model, as far as that is known.
    parts: what it wants such kernels for, where a unit of its plan asks for them.
    threads: how many it uses by default, as `app.yaml` has them.
    dispatch: how code calls operators that no model names.
    extensible: whether its shared library takes add-ons.
    """

    abi: str
    selection: Selection
    kernels: Registry
    purpose: Purpose
    optimize: Optimize
    hot: frozenset[str] = frozenset()
    lean: frozenset[str] = frozenset()
    cut: frozenset[str] = frozenset()
    app: str | None = None
    self_relocation: bool = True
    features: frozenset[str] | None = None
    cpu: tuple[CpuLevel, ...] | None = None
    multiply_adds: int = 0
    parts: frozenset[KernelPart] = frozenset()
    threads: int = 1
    dispatch: Dispatch = "table"
    extensible: bool = False


def plan_all(
    prepared: Prepared,
    requests: Mapping[Key, VariantRequest],
    *,
    generate: bool = True,
) -> dict[Key, VariantObjects]:
    """Variants of one runtime, with their registrations generated (one torchgen process for all).

    requests: by what identifies them to the caller: labels, names of apps
    generate: without, registrations that are not there yet are planned by placeholders, and nothing
    is run or written.
    """
    plans = plan_units(prepared, requests)
    registrations = registration_units(prepared, plans.values(), generate=generate)
    return plan_objects(prepared, requests, plans, registrations)


def plan_units(
    prepared: Prepared, requests: Mapping[Key, VariantRequest]
) -> dict[Key, VariantPlan]:
    """The plan of each requested variant: its units, projections and registrations.

    Pure, given what was prepared. Raises UnitUnknownError.
    """
    return {key: plan_variant(prepared, request) for key, request in requests.items()}


def plan_variant(prepared: Prepared, request: VariantRequest) -> VariantPlan:
    """The plan of one variant. Raises UnitUnknownError."""
    spec = spec_of(prepared, request)
    return prepared.runtime.planner.plan(request.kernels, request.selection, spec)


def registration_units(
    prepared: Prepared, plans: Iterable[VariantPlan], *, generate: bool
) -> dict[RegistrationRequest, tuple[GeneratedUnit, ...]]:
    """The registrations that the plans ask for; see `plan_all`. Raises TorchgenFailedError."""
    requests = {plan.request for plan in plans}
    runtime, context = prepared.runtime, prepared.context
    dialect, tree = runtime.dialect, runtime.fetched.tree
    if generate:
        return generate_registrations(
            requests,
            dialect,
            tree,
            context.texts,
            context.env,
            context.runner,
            cache=context.cache,
        )
    return planned_registrations(requests, dialect, tree, context.texts, context.cache)


def plan_objects(
    prepared: Prepared,
    requests: Mapping[Key, VariantRequest],
    plans: Mapping[Key, VariantPlan],
    registrations: Mapping[RegistrationRequest, tuple[GeneratedUnit, ...]],
) -> dict[Key, VariantObjects]:
    """Every object that each requested variant links: PyTorch's units, registrations, ours, the
    kernel library's and, where the compiler brings sources of it, the C++ library's.

    plans          as of `plan_units`
    registrations  by request, one for each of the plans
    """
    renamed, cache = prepared.runtime.renamed, prepared.context.texts
    # an app's variants have one selection, and its digest takes longer than all else that is here
    selected: dict[tuple[Same, RegistrationRequest], GeneratedUnit] = {}
    found = {}
    for key, request in requests.items():
        plan = plans[key]
        same = (Same(plan.selection), plan.request)
        if same not in selected:
            selected[same] = selection_unit(prepared.runtime, plan.selection, plan.request, cache)
        generated = (registrations[plan.request], selected[same])
        objects = _kept(prepared, _objects(prepared, request, plan, *generated))
        found[key] = objects_in_own_folders(objects, renamed)
    return found


def _objects(
    prepared: Prepared,
    request: VariantRequest,
    plan: VariantPlan,
    registrations: Iterable[GeneratedUnit],
    selected: GeneratedUnit,
) -> VariantObjects:
    runtime, cache, spec = prepared.runtime, prepared.context.texts, plan.spec
    stubs = generate_stubs(plan.needed.stubs, cache)
    key = (spec.common, request.threads)
    if key not in runtime.common_objects:
        runtime.common_objects[key] = _common(prepared, *key)
    common = runtime.common_objects[key]
    return VariantObjects(
        plan,
        registration_compiles(runtime.facts, spec, (*registrations, *stubs), cache),
        (*common.native, selection_compile(spec, selected, cache)),
        common.runtime_library,
        _java(runtime, spec, request.app),
        common.kernels,
        common.library,
        common.library_bytes,
        common.cxx_library,
        texts={
            **unwritten((*stubs, selected), cache),
            **_exports(runtime, request, spec),
            **own_texts(runtime),
        },
    )


def _common(prepared: Prepared, spec: VariantSpec, threads: int) -> CommonObjects:
    """Objects that variants with `spec` share; only `VariantSpec.common` decides on them.

    threads: number of threads that each uses by default
    """
    native = prepared.runtime.native
    library, library_bytes = _library(prepared, spec)
    return CommonObjects(
        (
            *native_compiles(prepared.runtime.facts, spec, _sources(spec), native),
            threads_compile(spec, threads, native),
        ),
        runtime_library(prepared, spec),
        _kernels(prepared, spec),
        library,
        library_bytes,
        _cxx_library(prepared, spec),
    )


def _exports(runtime: Runtime, request: VariantRequest, spec: VariantSpec) -> dict[str, str]:
    """file (`$cache/...`) -> text, of the version script of a library that takes add-ons."""
    if not spec.extensible or request.app is None or spec.purpose == "tracer":
        return {}
    text = extensible_script(runtime, request.app, spec)
    return {exports_file(text): text}


def own_texts(runtime: Runtime) -> Mapping[str, str]:
    """Sources of the app's own operators: path (`$cache/...`) -> text; empty for an app without
    any."""
    return {} if runtime.sources is None else runtime.sources.copies


def _kernels(prepared: Prepared, spec: VariantSpec) -> tuple[Compile, ...]:
    """Our sources that call the library, of the variant's features."""
    runtime, sources = prepared.runtime, sources_of(spec.features)
    if runtime.library is None:
        return ()
    return kernel_compiles(
        runtime.facts,
        spec,
        sources,
        runtime.native,
        runtime.library.facts,
        fast_sources(),
        _level_flags(prepared, spec).of_own_kernels,
    )


def _level_flags(prepared: Prepared, spec: VariantSpec) -> LevelFlags:
    """Flags that tell units of the library, and ours that call it, the variant's CPU levels."""
    library = prepared.runtime.library
    if library is None or not spec.features:
        return USUAL_LEVELS
    known = prepared.runtime.cpu_levels(prepared.config(spec.abi))
    return level_flags(library.data.library, known, spec.levels)


def _library(prepared: Prepared, spec: VariantSpec) -> tuple[tuple[Compile, ...], int]:
    """The library's units that the variant's features need, and the bytes of what they need."""
    runtime, config = prepared.runtime, prepared.config(spec.abi)
    index = runtime.library_index(config) if spec.features else None
    if index is None or runtime.library is None:
        return (), 0
    entries = load_entries(runtime.dialect)
    units = runtime.library.units(config.processor)
    others = {u for u, unit in units.items() if unit.level not in (None, *spec.levels)}
    needs = index.needs(library_symbols(entries[name] for name in spec.features), others)
    facts, reached, levels = runtime.library.facts, needs.units, _level_flags(prepared, spec)
    if not spec.threaded or _WITHOUT_THREADS not in reached:
        return library_compiles(facts, spec, (units[u] for u in reached), levels), needs.bytes
    threaded = (units[u] for u in reached if u != _WITHOUT_THREADS)
    threads = tasks_compile(spec, facts, runtime.native)
    return (*library_compiles(facts, spec, threaded, levels), threads), needs.bytes


def _kept(prepared: Prepared, objects: VariantObjects) -> VariantObjects:
    """The variant as it is where linkers can be told to keep registrations, else with anchors."""
    spec = objects.plan.spec
    if prepared.toolchain(spec.abi).links_shared:
        return objects
    cache = prepared.context.texts
    unit = unit_of("anchors", anchors_text(anchors_of(objects)), cache / "anchors")
    keeper = registration_compiles(prepared.runtime.facts, spec, [unit], cache)
    texts = {**objects.texts, **unwritten([unit], cache)}
    return replace(anchored(objects, keeper, prepared.runtime.native), texts=texts)


def runtime_library(prepared: Prepared, spec: VariantSpec) -> tuple[Compile, ...]:
    """Our parts of the C++ library for a shared library: none where its sources are not at hand;
    and what relocates it, where its linker packs the table for that.

    zig brings the sources of its libc++; other toolchains bring a library only. The stub of
    an NDK gets all of it; as an archive where add-ons take from it, whose names `relink.py` reads.
    """
    toolchain = prepared.toolchain(spec.abi)
    if toolchain.driver.links_cxx_whole:
        if spec.extensible:
            return ()
        return cxx_library_compiles(spec, toolchain.driver.cxx_sources, "-Oz")
    if spec.purpose != "release" or not toolchain.links_shared:
        return ()
    native = prepared.runtime.native
    own = RUNTIME_LIBRARY_SOURCES if toolchain.driver.cxx_sources else ()
    parts = runtime_library_compiles(spec, own, native)
    if spec.threaded and PLATFORMS[spec.system].threads_hold_libraries:
        parts = (*parts, bare_compile(spec, THREAD_EXIT, native))
    if not (toolchain.relocates_itself and spec.self_relocation):
        return parts
    return (*parts, relocation_compile(spec, SELF_RELOCATION, native))


def _cxx_library(prepared: Prepared, spec: VariantSpec) -> tuple[Compile, ...]:
    """The C++ library that is linked as an archive, where a toolchain brings its sources."""
    driver = prepared.toolchain(spec.abi).driver
    if driver.links_cxx_whole:
        whole = driver.cxx_sources if spec.extensible else ()
        return cxx_library_compiles(spec, whole, "-Oz")
    # a tracer takes the one that most libraries have
    small = spec.optimize == "size" and spec.purpose == "release"
    return cxx_library_compiles(spec, driver.cxx_sources, "-Oz" if small else "-Os")


def _java(runtime: Runtime, spec: VariantSpec, app: str | None) -> tuple[Compile, ...]:
    """Objects behind the Java API, for an app's library on a platform that has one; else empty."""
    if app is None or not PLATFORMS[spec.system].java:
        return ()
    package = java_package(app).replace(".", "/")
    return java_compiles(spec, package, runtime.native)


def _sources(spec: VariantSpec) -> tuple[str, ...]:
    if spec.purpose == "tracer":
        return DEVELOPMENT_SOURCES if spec.extensible else TRACER_SOURCES
    return (*LIBRARY_SOURCES, EXTENDING) if spec.extensible else LIBRARY_SOURCES


def takes_addons(toolchain: ResolvedToolchain) -> bool:
    """True if a toolchain can link a library that add-ons extend, and add-ons for it."""
    config, capabilities = toolchain.config, toolchain.capabilities
    library = PLATFORMS[config.system].library
    return (
        isinstance(library, SharedLibrary)
        and config.processor in library.addons
        and toolchain.driver.exports_more is not None
        and capabilities.version_script
        and capabilities.fold_functions
    )


def spec_of(prepared: Prepared, request: VariantRequest) -> VariantSpec:
    """The specification that the planner wants."""
    runtime = prepared.runtime
    entry = runtime.entry
    if request.purpose == "tracer":
        entry |= runtime.tracer_entry
    spec = compile_spec(prepared, request, entry)
    if request.features is None:
        return spec
    asked = _with_features(prepared, spec, request, request.features)
    asking = asked_by_units(request.parts)
    linked = runtime.planner.linked(asking, request.kernels, request.selection, asked)
    more = with_beside([asking[unit] for unit in linked])
    if more <= request.features:
        return asked
    return _with_features(prepared, spec, request, request.features | more)


def _with_features(
    prepared: Prepared,
    spec: VariantSpec,
    request: VariantRequest,
    features: frozenset[str],
) -> VariantSpec:
    calling = units_calling(features)
    known = prepared.runtime.cpu_levels(prepared.config(spec.abi))
    levels = levels_for(known, request.cpu, features, request.multiply_adds)
    features = at_levels(features, levels)
    return replace(
        spec,
        features=tuple(sorted(features)),
        levels=levels,
        kernel_entry=runtime_symbols(prepared.runtime.dialect, features),
        lean=spec.lean | calling,
    )


def compile_spec(
    prepared: Prepared,
    request: VariantRequest,
    entry: frozenset[str] = frozenset(),
) -> VariantSpec:
    """Specification of how `request`'s units are compiled, and of the plan's entry symbols. Without
    `entry` it needs no index."""
    toolchain = prepared.toolchain(request.abi)
    return VariantSpec(
        abi=request.abi,
        toolchain=identity_with_headers(toolchain, own_native_files()),
        compile_flags=toolchain.compile_flags,
        purpose=request.purpose,
        optimize=request.optimize,
        precompile=precompiles(prepared.workspace, toolchain),
        entry=entry,
        hot=request.hot,
        lean=request.lean,
        cut=request.cut,
        system=toolchain.config.system,
        unity=prepared.workspace.config.unity_shards,
        lto=_lto(request, toolchain),
        self_relocation=request.self_relocation,
        threaded=request.threads != 1,
        dispatch=request.dispatch,
        extensible=request.extensible and takes_addons(toolchain),
        hardening=HARDENING - toolchain.driver.hardens,
    )


def _lto(request: VariantRequest, toolchain: ResolvedToolchain) -> bool:
    """True if each link optimises all units together. That takes ten CPU seconds at every link, so
    only for releases that are optimised for size."""
    small = request.optimize == "size" and request.purpose == "release"
    return small and toolchain.links_shared and toolchain.capabilities.lto


def identity_with_headers(toolchain: ResolvedToolchain, native: NativeFiles) -> str:
    """The toolchain's identity, and that of the headers of ours that its flags name."""
    headers = native.found_by(toolchain.compile_flags)
    if not headers:
        return toolchain.identity
    return fingerprint({"toolchain": toolchain.identity, "headers": headers})


def precompiles(workspace: Workspace, toolchain: ResolvedToolchain) -> bool:
    """Precompiled headers are clang's here, and do not travel through a launcher."""
    return (
        workspace.config.precompiled_headers
        and workspace.config.launcher is None
        and toolchain.capabilities.precompile
    )


def hot_units(runtime: Runtime, tags: Iterable[str]) -> frozenset[str]:
    """The units that hold the kernels of hot tags.

    Headers bring a few tags into many units; a tag that more than `_FEW` units mention says nothing
    about any of them.
    """
    users = runtime.tag_users
    return frozenset(
        unit for tag in tags if len(users.get(tag, ())) <= _FEW for unit in users.get(tag, ())
    )


def scales(runtime: Runtime) -> Scales:
    """Scales to find hot kernels by: the version's data on work, and the bytes of a kernel tag's
    code, with all dtypes, in each unit that the tag makes hot."""
    index = runtime.index
    numbers = {unit.path: number for number, unit in enumerate(index.units)}

    @cache
    def sizes(tag: str) -> Mapping[str, int]:
        units = hot_units(runtime, (tag,))
        return {unit: size_of_tag(index, tag, numbers[unit]) for unit in units}

    return Scales(runtime.version.work, sizes)


_FEW = 4
