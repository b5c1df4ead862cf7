"""From selections to variants: plans, generated registrations, links; nothing is compiled here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.codegen.registrations import generate_registrations
from orchestrator.codegen.stubs import generate_stubs
from orchestrator.pipeline.session import Session
from orchestrator.plan.flags import Purpose
from orchestrator.plan.graph import (
    VariantObjects,
    native_compiles,
    registration_compiles,
    runtime_library_compiles,
)
from orchestrator.plan.variant import VariantPlan, VariantSpec, plan_variant
from orchestrator.select.closure import Registry
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
_COLLECT = ("-Wl,--gc-sections",)
_SYSTEM_LIBRARIES = ("-lpthread", "-ldl")


@dataclass(frozen=True)
class Wanted:
    """A variant to plan: its label for people, what is selected, and how it is built.

    kernels are the registrations that its models can reach, cut the units that they cannot.
    """

    label: str
    abi: str
    selection: Selection
    kernels: Registry
    purpose: Purpose
    optimize: Optimize
    hot: frozenset[str] = frozenset()
    cut: frozenset[str] = frozenset()


def plan_all(session: Session, wanted: Iterable[Wanted]) -> dict[str, VariantObjects]:
    """Plans by label, with their registrations generated (one torchgen process for all)."""
    runtime = session.runtime
    plans = {one.label: _plan(session, one) for one in wanted}
    generated = generate_registrations(
        {plan.request for plan in plans.values()},
        runtime.fetched.tree,
        session.context.cache,
        session.context.env,
    )
    return {
        label: VariantObjects(
            plan,
            registration_compiles(
                runtime.facts,
                plan.spec,
                (
                    *generated[plan.request],
                    *generate_stubs(plan.reach.stubs, session.context.cache),
                ),
                session.context.cache,
            ),
            native_compiles(runtime.facts, plan.spec, _sources(plan), runtime.native),
            runtime_library(session, plan.spec),
        )
        for label, plan in plans.items()
    }


def runtime_library(session: Session, spec: VariantSpec) -> tuple[Compile, ...]:
    """Our parts of the C++ library for a shared library: none where its sources are not at hand.

    zig brings the sources of its libc++; other toolchains bring a library only.
    """
    toolchain = session.toolchain(spec.abi)
    brings = toolchain.driver.brings_cxx_sources and toolchain.links_shared
    if spec.purpose != "release" or not brings:
        return ()
    return runtime_library_compiles(spec, RUNTIME_LIBRARY_SOURCES, session.runtime.native)


def _sources(plan: VariantPlan) -> tuple[str, ...]:
    return TRACER_SOURCES if plan.spec.purpose == "tracer" else LIBRARY_SOURCES


def _plan(session: Session, wanted: Wanted) -> VariantPlan:
    runtime = session.runtime
    return plan_variant(
        runtime.index, wanted.kernels, runtime.facts, wanted.selection, spec_of(session, wanted)
    )


def spec_of(session: Session, wanted: Wanted) -> VariantSpec:
    """The specification that the planner wants."""
    toolchain = session.toolchain(wanted.abi)
    entry = session.runtime.entry
    return VariantSpec(
        abi=wanted.abi,
        toolchain=toolchain.identity,
        compile_flags=toolchain.compile_flags,
        purpose=wanted.purpose,
        optimize=wanted.optimize,
        precompile=precompiles(session, toolchain),
        entry=entry.library if wanted.purpose == "release" else entry.library | entry.tracer,
        hot=wanted.hot,
        cut=wanted.cut,
    )


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
        flags=(*_COLLECT, *_SYSTEM_LIBRARIES),
    )


@dataclass(frozen=True)
class VariantLinks:
    """The files that one variant is delivered from, and what builds its driver."""

    shared: Link
    registrations: Link
    core: Link
    driver: Link
    driver_compiles: tuple[Compile, ...]

    @property
    def all(self) -> tuple[Link, ...]:
        return (self.shared, self.registrations, self.core, self.driver)


def library_name(app: str) -> str:
    """The stem of an app's libraries: `camera_torch`."""
    return f"{app}_torch"


def variant_links(session: Session, app: str, label: str, objects: VariantObjects) -> VariantLinks:
    """The links of a release variant."""
    spec = objects.plan.spec
    folder = f"$state/variants/{app}/{spec.abi}"
    name = library_name(app)
    shared = Link(
        output=f"{folder}/lib{name}.so",
        kind="shared",
        abi=spec.abi,
        # first, so that the linker takes nothing of the same from libc++'s archive
        whole=(*(c.object for c in objects.runtime_library), *objects.whole),
        by_need=objects.by_need,
        flags=(
            *_COLLECT,
            f"-Wl,-soname,lib{name}.so",
            "-Wl,--version-script=$native/capi/libtorch_app.map",
            "-Wl,--hash-style=gnu",
            # a place for the build id, which the delivery fills in from the stripped content
            "-Wl,--build-id=0x" + 40 * "0",
            "-Wl,-z,defs",
            # not `all`: c10::DataPtr compares the addresses of deleters
            *(["-Wl,--icf=safe"] if session.toolchain(spec.abi).abilities.fold_functions else []),
            *_SYSTEM_LIBRARIES,
        ),
        inputs=("$native/capi/libtorch_app.map",),
    )
    registering = (*(c.object for c in objects.registrations),)
    registering += tuple(c.object for c in objects.plan.whole)
    driver = native_compiles(session.runtime.facts, spec, DRIVER_SOURCES, session.runtime.native)
    return VariantLinks(
        shared=shared,
        registrations=_archive(f"{folder}/lib{name}_registrations.a", spec.abi, registering),
        core=_archive(
            f"{folder}/lib{name}_core.a",
            spec.abi,
            (*(c.object for c in objects.native), *objects.by_need),
        ),
        driver=Link(
            output=f"{folder}/driver",
            kind="executable",
            abi=spec.abi,
            whole=tuple(c.object for c in driver),
            by_need=(shared.output,),
        ),
        driver_compiles=driver,
    )


def _archive(output: str, abi: str, objects: tuple[str, ...]) -> Link:
    return Link(output=output, kind="archive", abi=abi, whole=objects, by_need=())


def hot_units(session: Session, tags: Iterable[str]) -> frozenset[str]:
    """The units that hold the kernels of hot tags.

    Headers bring a few tags into many units; a tag that more than `_FEW` units mention says nothing
    about any of them.
    """
    users: Mapping[str, list[str]] = _users_of_tags(session)
    return frozenset(
        unit for tag in tags if len(users.get(tag, ())) <= _FEW for unit in users.get(tag, ())
    )


_FEW = 4


def _users_of_tags(session: Session) -> dict[str, list[str]]:
    users: dict[str, list[str]] = {}
    for unit in session.runtime.index.units:
        for tag in unit.tags:
            users.setdefault(tag, []).append(unit.path)
    return users
