"""From selections to variants: plans, and the compilations of each; nothing is compiled here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from orchestrator.build.prepare import NATIVE
from orchestrator.build.session import RuntimeSession
from orchestrator.codegen.registrations import generate_registrations, planned_registrations
from orchestrator.codegen.stubs import generate_stubs
from orchestrator.codegen.units import write_unit
from orchestrator.compilers.flags import HARDENING
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.libraries.features import (
    asked_by_units,
    fast_sources,
    headers_of_units,
    library_symbols,
    load_entries,
    runtime_symbols,
    sources_of,
)
from orchestrator.packagers.aar_java import java_package
from orchestrator.plan.anchors import anchored, anchors_of, anchors_text
from orchestrator.plan.flags import Purpose, own_folders, own_headers
from orchestrator.plan.graph import (
    VariantObjects,
    bare_compile,
    cxx_library_compiles,
    java_compiles,
    kernel_compiles,
    native_compiles,
    registration_compiles,
    relocation_compile,
    runtime_library_compiles,
    tasks_compile,
    threads_compile,
)
from orchestrator.plan.libraries import library_compiles
from orchestrator.plan.own_folders import objects_in_own_folders
from orchestrator.plan.variant import VariantPlan, VariantSpec
from orchestrator.select.closure import Registry
from orchestrator.values.action import Compile
from orchestrator.values.config import Dispatch, KernelPart, Optimize
from orchestrator.values.fingerprint import fingerprint
from orchestrator.values.selection import Selection

LIBRARY_SOURCES = (
    "archive/crc32.cpp",
    "capi/capi.cpp",
    "capi/model_checks.cpp",
    "capi/selection_error.cpp",
)
TRACER_SOURCES = (
    *LIBRARY_SOURCES,
    "driver/driver.cpp",
    "driver/values.cpp",
    "tracer/main.cpp",
    "tracer/recorder.cpp",
    "tracer/setup.cpp",
)
# The library's own idea of a pool, in the caller's thread.
_WITHOUT_THREADS = "pthreadpool/src/shim.c"
# Parts of the C++ library, without what PyTorch does not use of them: 330 KB less.
RUNTIME_LIBRARY_SOURCES = tuple(
    f"runtime_library/{part}.cpp"
    for part in ("demangle", "ios", "iostream", "locale", "streams", "string")
)
SELF_RELOCATION = "runtime_library/relocate.cpp"
THREAD_EXIT = "runtime_library/thread_exit.cpp"


@dataclass(frozen=True)
class Wanted:
    """A variant to plan: its label for people, what is selected, and how it is built.

    kernels are the registrations that its models can reach, cut the units that they cannot, lean
    those of which they need less.
    app is whose release variant it is: on Android its library carries the app's Java methods.
    self_relocation: whether the app lets its shared library relocate itself.
    features: the kernels that call a library which its operators ask for; None: none at all.
    parts: what it wants such kernels for, where a unit of its plan asks for them.
    threads: how many it uses by default, as `app.yaml` has them.
    dispatch: how code calls operators that no model names.
    """

    label: str
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
    parts: frozenset[KernelPart] = frozenset()
    threads: int = 1
    dispatch: Dispatch = "table"


def plan_all(
    session: RuntimeSession, wanted: Iterable[Wanted], *, generate: bool = True
) -> dict[str, VariantObjects]:
    """Plans by label of one runtime's variants, with their registrations generated (one torchgen
    process for all).

    generate: without, registrations that are not there yet are planned by stand-ins.
    """
    runtime = session.runtime
    wanted = tuple(wanted)
    apps = {one.label: one.app for one in wanted}
    plans = {
        one.label: session.planner.plan(one.kernels, one.selection, spec_of(session, one))
        for one in wanted
    }
    requests = {plan.request for plan in plans.values()}
    tree, cache = runtime.fetched.tree, session.context.cache
    generated = (
        generate_registrations(requests, runtime.dialect, tree, cache, session.context.env)
        if generate
        else planned_registrations(requests, runtime.dialect, tree, cache)
    )
    threads = {one.label: one.threads for one in wanted}
    planned = {
        label: VariantObjects(
            plan,
            registration_compiles(
                runtime.facts,
                plan.spec,
                (
                    *generated[plan.request],
                    *generate_stubs(plan.needed.stubs, session.context.cache),
                ),
                session.context.cache,
            ),
            (
                *native_compiles(runtime.facts, plan.spec, _sources(plan), runtime.native),
                threads_compile(plan.spec, threads[label], runtime.native),
            ),
            runtime_library(session, plan.spec),
            _java(session, plan.spec, apps[label]),
            _kernels(session, plan.spec),
            *_library(session, plan.spec),
            cxx_library=_cxx_library(session, plan.spec),
        )
        for label, plan in plans.items()
    }
    return {
        label: objects_in_own_folders(_kept(session, objects), runtime.renamed)
        for label, objects in planned.items()
    }


def _kernels(session: RuntimeSession, spec: VariantSpec) -> tuple[Compile, ...]:
    """Our sources that call the library, of the variant's features."""
    if session.library is None:
        return ()
    runtime, sources = session.runtime, sources_of(spec.features)
    return kernel_compiles(
        runtime.facts, spec, sources, runtime.native, session.library.facts, fast_sources()
    )


def _library(session: RuntimeSession, spec: VariantSpec) -> tuple[tuple[Compile, ...], int]:
    """The library's units that the variant's features need, and the bytes of what they need."""
    index = session.library_index(spec.abi) if spec.features else None
    if index is None or session.library is None:
        return (), 0
    entries = load_entries(session.runtime.dialect)
    needs = index.needs(library_symbols(entries[name] for name in spec.features))
    units = session.library.units(session.workspace.toolchains[spec.abi].config.processor)
    facts, wanted = session.library.facts, needs.units
    if not spec.threaded or _WITHOUT_THREADS not in wanted:
        return library_compiles(facts, spec, (units[u] for u in wanted)), needs.bytes
    others = (units[u] for u in wanted if u != _WITHOUT_THREADS)
    threads = tasks_compile(spec, facts, session.runtime.native)
    return (*library_compiles(facts, spec, others), threads), needs.bytes


def _kept(session: RuntimeSession, objects: VariantObjects) -> VariantObjects:
    """The variant as it is where linkers can be told to keep registrations, else with anchors."""
    spec = objects.plan.spec
    if session.toolchain(spec.abi).links_shared:
        return objects
    cache = session.context.cache
    unit = write_unit("anchors", anchors_text(anchors_of(objects)), cache / "anchors")
    keeper = registration_compiles(session.runtime.facts, spec, [unit], cache)
    return anchored(objects, keeper)


def runtime_library(session: RuntimeSession, spec: VariantSpec) -> tuple[Compile, ...]:
    """Our parts of the C++ library for a shared library: none where its sources are not at hand;
    and what relocates it, where its linker packs the table for that.

    zig brings the sources of its libc++; other toolchains bring a library only. The stand-in for an
    NDK gets all of it.
    """
    toolchain = session.toolchain(spec.abi)
    if toolchain.driver.links_cxx_whole:
        return cxx_library_compiles(spec, toolchain.driver.cxx_sources, "-Oz")
    if spec.purpose != "release" or not toolchain.links_shared:
        return ()
    native = session.runtime.native
    own = RUNTIME_LIBRARY_SOURCES if toolchain.driver.cxx_sources else ()
    parts = runtime_library_compiles(spec, own, native)
    if spec.threaded and spec.system == "linux":
        parts = (*parts, bare_compile(spec, THREAD_EXIT, native))
    if not (toolchain.relocates_itself and spec.self_relocation):
        return parts
    return (*parts, relocation_compile(spec, SELF_RELOCATION, native))


def _cxx_library(session: RuntimeSession, spec: VariantSpec) -> tuple[Compile, ...]:
    """The C++ library that is linked as an archive, where a toolchain brings its sources."""
    driver = session.toolchain(spec.abi).driver
    if driver.links_cxx_whole:
        return ()
    # a tracer takes the one that most libraries have
    small = spec.optimize == "size" and spec.purpose == "release"
    return cxx_library_compiles(spec, driver.cxx_sources, "-Oz" if small else "-Os")


def _java(session: RuntimeSession, spec: VariantSpec, app: str | None) -> tuple[Compile, ...]:
    """What is behind the Java API: in an app's library for Android."""
    if app is None or spec.system != "android":
        return ()
    package = java_package(app).replace(".", "/")
    return java_compiles(spec, package, session.runtime.native)


def _sources(plan: VariantPlan) -> tuple[str, ...]:
    return TRACER_SOURCES if plan.spec.purpose == "tracer" else LIBRARY_SOURCES


def spec_of(session: RuntimeSession, wanted: Wanted) -> VariantSpec:
    """The specification that the planner wants."""
    spec = _bare_spec(session, wanted)
    if wanted.features is None:
        return spec
    spec = _with_features(session, spec, wanted.features)
    more = {
        feature
        for unit, feature in asked_by_units().items()
        if feature in wanted.parts
        and session.planner.has(unit, wanted.kernels, wanted.selection, spec)
    }
    return _with_features(session, spec, wanted.features | more)


def _with_features(
    session: RuntimeSession, spec: VariantSpec, features: frozenset[str]
) -> VariantSpec:
    entries = load_entries(session.runtime.dialect)
    entry = runtime_symbols(entries[name] for name in features)
    asking = asked_by_units()
    calling = frozenset(unit for unit in headers_of_units() if asking[unit] in features)
    return replace(
        spec,
        features=tuple(sorted(features)),
        kernel_entry=entry,
        lean=spec.lean | calling,
    )


def _bare_spec(session: RuntimeSession, wanted: Wanted) -> VariantSpec:
    """The specification without kernels that call a library."""
    entry = session.runtime.entry
    return replace(
        compile_spec(session, wanted),
        entry=entry.library if wanted.purpose == "release" else entry.library | entry.tracer,
    )


def compile_spec(session: RuntimeSession, wanted: Wanted) -> VariantSpec:
    """How `wanted`'s units are compiled, without where planning starts: it asks for no index."""
    toolchain = session.toolchain(wanted.abi)
    return VariantSpec(
        abi=wanted.abi,
        toolchain=identity_with_headers(toolchain),
        compile_flags=toolchain.compile_flags,
        purpose=wanted.purpose,
        optimize=wanted.optimize,
        precompile=precompiles(session, toolchain),
        entry=frozenset(),
        hot=wanted.hot,
        lean=wanted.lean,
        cut=wanted.cut,
        system=toolchain.config.system,
        unity=session.workspace.config.unity_shards,
        lto=_lto(wanted, toolchain),
        self_relocation=wanted.self_relocation,
        threaded=wanted.threads != 1,
        dispatch=wanted.dispatch,
        hardening=HARDENING - toolchain.driver.hardens,
    )


def _lto(wanted: Wanted, toolchain: ResolvedToolchain) -> bool:
    """Whether a link optimises all units together: ten CPU seconds at every link, so where size is
    all that counts."""
    small = wanted.optimize == "size" and wanted.purpose == "release"
    return small and toolchain.links_shared and toolchain.abilities.lto


def identity_with_headers(toolchain: ResolvedToolchain) -> str:
    """The toolchain's identity, and that of the headers of ours that its flags name."""
    flags = toolchain.compile_flags
    folders = [NATIVE / path.removeprefix("$native/") for path in own_folders(flags)]
    files = [NATIVE / path.removeprefix("$native/") for path in own_headers(flags)]
    files += [path for folder in folders for path in folder.rglob("*.h")]
    if not files:
        return toolchain.identity
    headers = {path.relative_to(NATIVE).as_posix(): path.read_text() for path in files}
    return fingerprint({"toolchain": toolchain.identity, "headers": headers})


def precompiles(session: RuntimeSession, toolchain: ResolvedToolchain) -> bool:
    """Precompiled headers are clang's here, and do not travel through a launcher."""
    return (
        session.workspace.config.precompiled_headers
        and session.workspace.config.launcher is None
        and toolchain.abilities.precompile
    )


def hot_units(session: RuntimeSession, tags: Iterable[str]) -> frozenset[str]:
    """The units that hold the kernels of hot tags.

    Headers bring a few tags into many units; a tag that more than `_FEW` units mention says nothing
    about any of them.
    """
    users = session.tag_users
    return frozenset(
        unit for tag in tags if len(users.get(tag, ())) <= _FEW for unit in users.get(tag, ())
    )


_FEW = 4
