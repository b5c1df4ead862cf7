"""From selections to variants: plans, generated registrations, links; nothing is compiled here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from orchestrator.codegen.registrations import generate_registrations, planned_registrations
from orchestrator.codegen.stubs import generate_stubs
from orchestrator.codegen.units import write_unit
from orchestrator.package.aar_java import java_package
from orchestrator.pipeline.prepare import NATIVE
from orchestrator.pipeline.session import Session
from orchestrator.pipeline.static_links import StaticLinks, static_links
from orchestrator.plan.anchors import anchored, anchors_of, anchors_text
from orchestrator.plan.fingerprint import fingerprint
from orchestrator.plan.flags import Purpose, own_folders, own_headers
from orchestrator.plan.graph import (
    VariantObjects,
    cxx_library_compiles,
    java_compiles,
    native_compiles,
    registration_compiles,
    relocation_compiles,
    runtime_library_compiles,
)
from orchestrator.plan.variant import VariantPlan, VariantSpec
from orchestrator.select.closure import Registry
from orchestrator.toolchain.driver import SELF_RELOCATED, SYSTEM_LIBRARIES
from orchestrator.toolchain.resolve import ResolvedToolchain
from orchestrator.values.action import Compile, Link
from orchestrator.values.config import Optimize
from orchestrator.values.selection import Selection

LIBRARY_SOURCES = ("capi/capi.cpp", "capi/selection_error.cpp")
DRIVER_SOURCES = ("driver/main.cpp", "driver/driver.cpp", "driver/values.cpp")
TRACER_SOURCES = (
    *LIBRARY_SOURCES,
    "driver/driver.cpp",
    "driver/values.cpp",
    "tracer/main.cpp",
    "tracer/recorder.cpp",
    "tracer/setup.cpp",
)
# Parts of the C++ library, without what PyTorch does not use of them: 330 KB less.
RUNTIME_LIBRARY_SOURCES = tuple(
    f"runtime_library/{part}.cpp"
    for part in ("demangle", "ios", "iostream", "locale", "streams", "string")
)
SELF_RELOCATION = "runtime_library/relocate.cpp"
_COLLECT = ("-Wl,--gc-sections",)


@dataclass(frozen=True)
class Wanted:
    """A variant to plan: its label for people, what is selected, and how it is built.

    kernels are the registrations that its models can reach, cut the units that they cannot, lean
    those of which they need less.
    app is whose release variant it is: on Android its library carries the app's Java methods.
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


def plan_all(
    session: Session, wanted: Iterable[Wanted], *, generate: bool = True
) -> dict[str, VariantObjects]:
    """Plans by label, with their registrations generated (one torchgen process for all).

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
        generate_registrations(requests, tree, cache, session.context.env)
        if generate
        else planned_registrations(requests, tree, cache)
    )
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
            native_compiles(runtime.facts, plan.spec, _sources(plan), runtime.native),
            runtime_library(session, plan.spec),
            _java(session, plan.spec, apps[label]),
        )
        for label, plan in plans.items()
    }
    return {label: _kept(session, objects) for label, objects in planned.items()}


def _kept(session: Session, objects: VariantObjects) -> VariantObjects:
    """The variant as it is where linkers can be told to keep registrations, else with anchors."""
    spec = objects.plan.spec
    if session.toolchain(spec.abi).links_shared:
        return objects
    cache = session.context.cache
    unit = write_unit("anchors", anchors_text(anchors_of(objects)), cache / "anchors")
    keeper = registration_compiles(session.runtime.facts, spec, [unit], cache)
    return anchored(objects, keeper)


def runtime_library(session: Session, spec: VariantSpec) -> tuple[Compile, ...]:
    """Our parts of the C++ library for a shared library: none where its sources are not at hand;
    and what relocates it, where its linker packs the table for that.

    zig brings the sources of its libc++; other toolchains bring a library only. The stand-in for an
    NDK brings no library, and gets all of it.
    """
    toolchain = session.toolchain(spec.abi)
    if toolchain.driver.cxx_sources:
        return cxx_library_compiles(spec, toolchain.driver.cxx_sources)
    if spec.purpose != "release" or not toolchain.links_shared:
        return ()
    native = session.runtime.native
    own = RUNTIME_LIBRARY_SOURCES if toolchain.driver.brings_cxx_sources else ()
    parts = runtime_library_compiles(spec, own, native)
    if not _self_relocates(toolchain):
        return parts
    return (*parts, *relocation_compiles(spec, SELF_RELOCATION, native))


def _self_relocates(toolchain: ResolvedToolchain) -> bool:
    """Whether libraries relocate themselves: bionic reads packed relocations, others not all."""
    return toolchain.config.system == "linux" and toolchain.abilities.self_relocate


def _java(session: Session, spec: VariantSpec, app: str | None) -> tuple[Compile, ...]:
    """What is behind the Java API: in an app's library for Android."""
    if app is None or spec.system != "android":
        return ()
    package = java_package(app).replace(".", "/")
    return java_compiles(spec, package, session.runtime.native)


def _sources(plan: VariantPlan) -> tuple[str, ...]:
    return TRACER_SOURCES if plan.spec.purpose == "tracer" else LIBRARY_SOURCES


def spec_of(session: Session, wanted: Wanted) -> VariantSpec:
    """The specification that the planner wants."""
    toolchain = session.toolchain(wanted.abi)
    entry = session.runtime.entry
    return VariantSpec(
        abi=wanted.abi,
        toolchain=identity_with_headers(toolchain),
        compile_flags=toolchain.compile_flags,
        purpose=wanted.purpose,
        optimize=wanted.optimize,
        precompile=precompiles(session, toolchain),
        entry=entry.library if wanted.purpose == "release" else entry.library | entry.tracer,
        hot=wanted.hot,
        lean=wanted.lean,
        cut=wanted.cut,
        system=toolchain.config.system,
        unity=session.workspace.config.unity_shards,
        lto=_lto(wanted, toolchain),
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


def precompiles(session: Session, toolchain: ResolvedToolchain) -> bool:
    """Precompiled headers are clang's here, and do not travel through a launcher."""
    return (
        session.workspace.config.precompiled_headers
        and session.workspace.config.launcher is None
        and toolchain.abilities.precompile
    )


def executable_link(output: str, objects: VariantObjects) -> Link:
    """Everything into one executable (the tracer)."""
    return Link(
        output=output,
        kind="executable",
        abi=objects.plan.spec.abi,
        whole=objects.whole,
        by_need=objects.by_need,
        flags=(*_COLLECT, *SYSTEM_LIBRARIES[objects.plan.spec.system]),
    )


@dataclass(frozen=True)
class VariantLinks:
    """The files that one variant is delivered from, and what builds its driver.

    There is no driver where nothing here can run it.
    """

    shared: Link
    registrations: Link
    core: Link
    driver: Link | None
    driver_compiles: tuple[Compile, ...]

    @property
    def all(self) -> tuple[Link, ...]:
        driver = () if self.driver is None else (self.driver,)
        return (self.shared, self.registrations, self.core, *driver)


def library_name(app: str) -> str:
    """The stem of an app's libraries: `camera_torch`."""
    return f"{app}_torch"


def links_of(
    session: Session, app: str, label: str, objects: VariantObjects
) -> VariantLinks | StaticLinks:
    """The links of a release variant, of the form that its system's apps link."""
    abi = objects.plan.spec.abi
    if session.toolchain(abi).links_shared:
        return variant_links(session, app, label, objects)
    return static_links(_folder(app, abi), library_name(app), objects)


def _folder(app: str, abi: str) -> str:
    return f"$state/variants/{app}/{abi}"


def variant_links(session: Session, app: str, label: str, objects: VariantObjects) -> VariantLinks:
    """The links of a release variant that is delivered with a shared library."""
    spec = objects.plan.spec
    folder = _folder(app, spec.abi)
    name = library_name(app)
    exports = "$native/" + ("jni/exports.map" if objects.java else "capi/libtorch_app.map")
    shared = Link(
        output=f"{folder}/lib{name}.so",
        kind="shared",
        abi=spec.abi,
        # first, so that the linker takes nothing of the same from libc++'s archive
        whole=tuple(c.object for c in (*objects.runtime_library, *objects.java)),
        by_need=objects.fastest_first,
        flags=(
            *_COLLECT,
            f"-Wl,-soname,lib{name}.so",
            f"-Wl,--version-script={exports}",
            "-Wl,--hash-style=gnu",
            # a place for the build id, which the delivery fills in from the stripped content
            "-Wl,--build-id=0x" + 40 * "0",
            "-Wl,-z,defs",
            *_smaller(session.toolchain(spec.abi)),
            *(session.toolchain(spec.abi).driver.lto_flags if spec.lto else ()),
            *SYSTEM_LIBRARIES[spec.system],
        ),
        inputs=(exports,),
    )
    registering = (*(c.object for c in objects.registrations),)
    registering += tuple(c.object for c in objects.plan.whole)
    driver = _driver(session, spec)
    return VariantLinks(
        shared=shared,
        registrations=_archive(f"{folder}/lib{name}_registrations.a", spec, registering),
        core=_archive(
            f"{folder}/lib{name}_core.a",
            spec,
            (*(c.object for c in objects.native), *objects.by_need),
        ),
        driver=Link(
            output=f"{folder}/driver",
            kind="executable",
            abi=spec.abi,
            whole=tuple(c.object for c in driver),
            by_need=(shared.output,),
        )
        if driver
        else None,
        driver_compiles=driver,
    )


def _smaller(toolchain: ResolvedToolchain) -> tuple[str, ...]:
    """What makes a shared library smaller, of what the linker can."""
    android = toolchain.driver.android
    # not `all`: c10::DataPtr compares the addresses of deleters
    fold = ("-Wl,--icf=safe",) if toolchain.abilities.fold_functions else ()
    if android is not None and toolchain.abilities.pack_relocations:
        return (*fold, *android.relocations)
    return (*fold, *(SELF_RELOCATED if _self_relocates(toolchain) else ()))


def _driver(session: Session, spec: VariantSpec) -> tuple[Compile, ...]:
    if session.toolchain(spec.abi).config.run == "none":
        return ()
    return native_compiles(session.runtime.facts, spec, DRIVER_SOURCES, session.runtime.native)


def _archive(output: str, spec: VariantSpec, objects: tuple[str, ...]) -> Link:
    # bitcode is for one release of one compiler, a consumer has his own
    kind: Literal["archive", "code_archive"] = "code_archive" if spec.lto else "archive"
    return Link(output=output, kind=kind, abi=spec.abi, whole=objects, by_need=())


def hot_units(session: Session, tags: Iterable[str]) -> frozenset[str]:
    """The units that hold the kernels of hot tags.

    Headers bring a few tags into many units; a tag that more than `_FEW` units mention says nothing
    about any of them.
    """
    users = session.tag_users
    return frozenset(
        unit for tag in tags if len(users.get(tag, ())) <= _FEW for unit in users.get(tag, ())
    )


_FEW = 4
