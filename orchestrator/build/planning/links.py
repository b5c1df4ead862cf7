"""The links of variants: how objects become the files that a variant is delivered from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.build.workshop.invocation import Prepared
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.compilers.driver import SELF_RELOCATED
from orchestrator.compilers.own_steps import own_steps
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.execute.ninja_file import link_commands
from orchestrator.plan.extension import exports_file, respelled, version_script
from orchestrator.plan.graph import VariantObjects, native_compiles
from orchestrator.plan.static_links import StaticLinks, static_links
from orchestrator.plan.variant import VariantSpec
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.android import packed_relocations
from orchestrator.platforms.platform import SharedLibrary
from orchestrator.values.action import Compile, Link
from orchestrator.values.fingerprint import fingerprint
from orchestrator.values.labels import VariantLabel
from orchestrator.values.packages import library_name

RUNNER_SOURCES = ("driver/main.cpp", "driver/driver.cpp", "driver/values.cpp")
# The model runner, watched by the development library's observer.
DEVELOPMENT_RUNNER_SOURCES = ("development/main.cpp", *RUNNER_SOURCES[1:])
MEMORY_RUNNER = "memory"
# The model runner that counts what the library allocates.
MEMORY_SOURCES = ("memory/main.cpp", "memory/heap.cpp", "memory/watch.cpp", *RUNNER_SOURCES[1:])
_COLLECT = ("-Wl,--gc-sections",)
# What the loader fills in is read-only from then on, and no data is code. Said also where it is a
# linker's default: GNU's is whatever a distribution chose. `-z text` is not, which zig refuses:
# binary/elf.py refuses what it is about.
_PROTECTED = ("-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack")


def executable_links(output: str, objects: VariantObjects) -> tuple[Link, ...]:
    """Everything into one executable for this machine (the tracer), the first of these links."""
    library = _cxx_library(f"{output}.libc++.a", objects)
    platform = PLATFORMS[objects.plan.spec.system]
    assert platform.host is not None
    executable = Link(
        output=output,
        kind="executable",
        abi=objects.plan.spec.abi,
        whole=objects.whole,
        on_demand=(*objects.on_demand, *(one.output for one in library)),
        flags=(*platform.host.link_flags, *platform.link_libraries),
    )
    return (executable, *library)


def _cxx_library(output: str, objects: VariantObjects) -> tuple[Link, ...]:
    """The C++ library as an archive, so that a link has of it what it refers to; none where the
    compiler brings one."""
    members = tuple(c.object for c in objects.cxx_library)
    spec = objects.plan.spec
    return (Link(output, "archive", spec.abi, members, ()),) if members else ()


@dataclass(frozen=True)
class VariantLinks:
    """The files that one variant is delivered from, and what builds its model runner.

    There is no runner where nothing here can run it, and no C++ library where a compiler brings it.
    memory: the runner that counts memory, where that is measured; its compilations are among the
    runners'.
    """

    shared: Link
    registrations: Link
    core: Link
    runner: Link | None
    runner_compiles: tuple[Compile, ...]
    cxx_library: tuple[Link, ...]
    memory: Link | None = None

    @property
    def all(self) -> tuple[Link, ...]:
        """Every link of the variant; a link may come before those whose outputs it reads."""
        runners = tuple(one for one in (self.runner, self.memory) if one is not None)
        return (self.shared, self.registrations, self.core, *runners, *self.cxx_library)


def links_of(
    prepared: Prepared, app: str, objects: VariantObjects, *, memory: bool = False
) -> VariantLinks | StaticLinks:
    """The links of a release variant, of the form that its system's apps link. memory: with the
    runner that counts it."""
    abi = objects.plan.spec.abi
    if prepared.toolchain(abi).links_shared:
        links = variant_links(prepared, app, objects)
        return _counting(prepared, objects, links) if memory else links
    folder = f"$state/{VariantLabel(app, abi).linked}"
    return static_links(folder, library_name(app), objects)


def variant_links(
    prepared: Prepared,
    app: str,
    objects: VariantObjects,
    folder: str | None = None,
) -> VariantLinks:
    """The links of a release variant that is delivered with a shared library.

    folder: of their outputs (`$state/...`); None: that of the app's variant
    """
    spec, toolchain = objects.plan.spec, prepared.toolchain(objects.plan.spec.abi)
    folder = f"$state/{VariantLabel(app, spec.abi).linked}" if folder is None else folder
    name = library_name(app)
    library = _cxx_library(f"{folder}/libc++.a", objects)
    of_library = tuple(one.output for one in library)
    exports = "$native/" + ("jni/exports.map" if objects.java else "capi/libtorch_app.map")
    if spec.extensible:
        exports = exports_file(extensible_script(prepared.runtime, app, spec))
    # a place for the build id, which the delivery fills in from the stripped content
    shared = _shared(f"{folder}/lib{name}.so", toolchain, objects, of_library, exports, 40 * "0")
    registering = (*(c.object for c in objects.registrations),)
    registering += tuple(c.object for c in (*objects.kernels, *objects.plan.whole))
    compiles = _runner_compiles(prepared.runtime, toolchain, spec)
    return VariantLinks(
        shared=shared,
        registrations=_archive(f"{folder}/lib{name}_registrations.a", spec, registering),
        core=_archive(
            f"{folder}/lib{name}_core.a",
            spec,
            (*(c.object for c in objects.native), *objects.on_demand),
        ),
        runner=Link(
            output=f"{folder}/driver",
            kind="executable",
            abi=spec.abi,
            whole=tuple(c.object for c in compiles),
            on_demand=(shared.output, *of_library),
        )
        if compiles
        else None,
        runner_compiles=compiles,
        cxx_library=library,
    )


def _counting(prepared: Prepared, objects: VariantObjects, links: VariantLinks) -> VariantLinks:
    """The same links with the runner that counts memory, where one can run here."""
    if links.runner is None:
        return links
    spec = objects.plan.spec
    toolchain = prepared.toolchain(spec.abi)
    compiles = _runner_compiles(prepared.runtime, toolchain, spec, MEMORY_SOURCES)
    runner = replace(
        links.runner,
        output=f"{links.runner.output.rpartition('/')[0]}/{MEMORY_RUNNER}",
        whole=tuple(one.object for one in compiles),
        flags=PLATFORMS[spec.system].link_libraries,
    )
    return replace(
        links, memory=runner, runner_compiles=runner_compiles(prepared, spec, memory=True)
    )


def runner_compiles(
    prepared: Prepared, spec: VariantSpec, *, memory: bool = False
) -> tuple[Compile, ...]:
    """The compilations of a release variant's model runners: those of its links."""
    toolchain = prepared.toolchain(spec.abi)
    if not toolchain.links_shared:
        return ()
    sources = (*RUNNER_SOURCES, *MEMORY_SOURCES) if memory else RUNNER_SOURCES
    return _runner_compiles(prepared.runtime, toolchain, spec, tuple(dict.fromkeys(sources)))


def extensible_script(runtime: Runtime, app: str, spec: VariantSpec) -> str:
    """The version script of an app's library that takes add-ons."""
    platform = PLATFORMS[spec.system]
    assert isinstance(platform.library, SharedLibrary)
    symbols = {respelled(one, platform.cxx_namespace) for one in runtime.extension_symbols}
    known = tuple(sorted(symbols | platform.not_inline))
    return version_script(app, known, platform.library.exports)


def _shared(
    output: str,
    toolchain: ResolvedToolchain,
    objects: VariantObjects,
    cxx_library: tuple[str, ...],
    exports: str,
    build_id: str,
) -> Link:
    """A variant's shared library. exports: its version script; build_id: 40 hex digits."""
    spec = objects.plan.spec
    again = spec.extensible and toolchain.driver.exports_more == "by compiler"
    return Link(
        output=output,
        kind="extensible" if again else "shared",
        abi=spec.abi,
        # first, so that the linker takes nothing of the same from libc++'s archive
        whole=tuple(c.object for c in (*objects.runtime_library, *objects.java)),
        on_demand=(*objects.fastest_first, *cxx_library),
        flags=(
            *_COLLECT,
            f"-Wl,-soname,{output.rpartition('/')[2]}",
            # -Wl would split a path at its commas
            *("-Xlinker", f"--version-script={exports}"),
            "-Wl,--hash-style=gnu",
            f"-Wl,--build-id=0x{build_id}",
            "-Wl,-z,defs",
            *_PROTECTED,
            *_smaller(toolchain, spec),
            *(toolchain.driver.lto_flags if spec.lto else ()),
            *PLATFORMS[spec.system].link_libraries,
        ),
        inputs=(exports,),
    )


@dataclass(frozen=True)
class DevelopmentLinks:
    """The development library's base and its model runner.

    build_id  of the base: a digest of all that it is linked of, and how
    """

    shared: Link
    runner: Link
    runner_compiles: tuple[Compile, ...]
    cxx_library: tuple[Link, ...]
    build_id: str

    @property
    def all(self) -> tuple[Link, ...]:
        """Every link of the base; a link may come before those whose outputs it reads."""
        return (self.shared, self.runner, *self.cxx_library)


def development_links(
    prepared: Prepared, name: str, objects: VariantObjects, exports: str
) -> DevelopmentLinks:
    """The links of the base, which is called `name`, for this machine. exports: its version
    script's file."""
    spec = objects.plan.spec
    toolchain = prepared.toolchain(spec.abi)
    compiles = _runner_compiles(prepared.runtime, toolchain, spec, DEVELOPMENT_RUNNER_SOURCES)
    bare = _shared("", toolchain, objects, (), exports, "")
    build_id = fingerprint(
        {
            "objects": sorted(c.fingerprint for c in (*objects.compiles, *compiles)),
            "flags": bare.flags,
            "exports": exports,
            "toolchain": toolchain.identity,
            "link": toolchain.link_flags,
            "command": link_commands("", "")["extensible"],
            "steps": own_steps("extensible"),
        }
    )[:40]
    folder = f"$state/{name}/{build_id}"
    library = _cxx_library(f"{folder}/libc++.a", objects)
    of_library = tuple(one.output for one in library)
    shared = _shared(
        f"{folder}/lib{library_name(name)}.so", toolchain, objects, of_library, exports, build_id
    )
    runner = Link(
        output=f"{folder}/driver",
        kind="executable",
        abi=spec.abi,
        whole=tuple(c.object for c in compiles),
        on_demand=(shared.output, *of_library),
    )
    return DevelopmentLinks(shared, runner, compiles, library, build_id)


def _smaller(toolchain: ResolvedToolchain, spec: VariantSpec) -> tuple[str, ...]:
    """Linker flags that make a shared library smaller, of those that the linker knows."""
    android = toolchain.driver.android
    # not `all`: c10::DataPtr compares the addresses of deleters
    fold = ("-Wl,--icf=safe",) if toolchain.capabilities.fold_functions else ()
    if android is not None and toolchain.capabilities.pack_relocations:
        return (*fold, *packed_relocations(android.api))
    itself = toolchain.relocates_itself and spec.self_relocation
    return (*fold, *(SELF_RELOCATED if itself else ()))


def _runner_compiles(
    runtime: Runtime,
    toolchain: ResolvedToolchain,
    spec: VariantSpec,
    sources: tuple[str, ...] = RUNNER_SOURCES,
) -> tuple[Compile, ...]:
    if toolchain.config.run == "none":
        return ()
    compiles = native_compiles(runtime.facts, spec, sources, runtime.native)
    return tuple(map(runtime.placed, compiles))


def _archive(output: str, spec: VariantSpec, objects: tuple[str, ...]) -> Link:
    # bitcode is for one release of one compiler, a consumer has his own
    kind: Literal["archive", "code_archive"] = "code_archive" if spec.lto else "archive"
    return Link(output=output, kind=kind, abi=spec.abi, whole=objects, on_demand=())
