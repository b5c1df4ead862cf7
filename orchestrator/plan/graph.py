"""From variant plans to one action graph: equal objects are one node, each variant its links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.plan.fingerprint import fingerprint
from orchestrator.plan.flags import RUNTIME_LIBRARY_FLAGS, speed_rank
from orchestrator.plan.variant import (
    RuntimeFacts,
    VariantPlan,
    VariantSpec,
    flags_of,
    precompile,
)
from orchestrator.toolchain.driver import CxxSource
from orchestrator.values.action import ActionGraph, Compile, Link, Precompile

# A registration unit costs about so much, and a little more for each operator (CPU seconds).
_REGISTRATION_COST = 5.0
_NATIVE_COST = 5.0
_RUNTIME_LIBRARY_COST = 2.0
_CXX_LIBRARY_COST = 0.5
_JAVA_COST = 0.3
# Of our own sources what reads most of ATen; the others are quicker without.
_PRECOMPILED = frozenset({"capi/capi.cpp"})
_JAVA_FLAGS = (
    *("-Oz", "-fPIC", "-ffunction-sections", "-fdata-sections", "-fvisibility=hidden"),
    *("-fno-exceptions", "-fno-rtti", "-w", "-DNDEBUG", "-std=gnu++17", "-I$native/capi"),
)


@dataclass(frozen=True)
class VariantObjects:
    """Everything that one variant links, in link order.

    runtime_library  our build of parts of the C++ library, or of all of it, for the shared library
                     alone: a static consumer brings his own
    java             the methods behind the Java API, for Android's shared library alone
    """

    plan: VariantPlan
    registrations: tuple[Compile, ...]
    native: tuple[Compile, ...]
    runtime_library: tuple[Compile, ...] = ()
    java: tuple[Compile, ...] = ()

    @property
    def whole(self) -> tuple[str, ...]:
        """Objects that are linked whatever refers to them."""
        return tuple(c.object for c in (*self.native, *self.registrations, *self.plan.whole))

    @property
    def by_need(self) -> tuple[str, ...]:
        return tuple(c.object for c in self.plan.by_need)

    @property
    def fastest_first(self) -> tuple[str, ...]:
        """All objects of PyTorch's, best optimised first, for a linker that is given them all.

        Of an inline function that several of them have it keeps the first copy.
        """
        compiles = (*self.native, *self.registrations, *self.plan.compiles)
        return tuple(c.object for c in sorted(compiles, key=lambda c: speed_rank(c.flags)))

    @property
    def compiles(self) -> tuple[Compile, ...]:
        return (
            *self.runtime_library,
            *self.java,
            *self.native,
            *self.registrations,
            *self.plan.compiles,
        )


def registration_compiles(
    facts: RuntimeFacts, spec: VariantSpec, units: Iterable[GeneratedUnit], cache: Path
) -> tuple[Compile, ...]:
    """The compilations of an app's generated registrations."""
    flags = flags_of(spec)
    pch = precompile(facts, spec, flags)
    return tuple(
        Compile(
            unit=f"generated/{unit.name}.cpp",
            source=f"$cache/{unit.path.relative_to(cache).as_posix()}",
            language="c++",
            abi=spec.abi,
            flags=flags,
            projection=None,
            fingerprint=fingerprint(
                {
                    "unit": unit.digest,
                    "runtime": facts.identity,
                    "toolchain": spec.toolchain,
                    "flags": flags,
                    "pch": None if pch is None else pch.identity,
                }
            ),
            cost=_REGISTRATION_COST,
            pch=pch,
        )
        for unit in units
    )


def native_compiles(
    facts: RuntimeFacts, spec: VariantSpec, sources: Iterable[str], native: str
) -> tuple[Compile, ...]:
    """The compilations of our own sources (`capi/capi.cpp`); `native` is the digest of them all."""
    pch = precompile(facts, spec, flags_of(spec))
    return _native_compiles(facts.identity, spec.level, tuple(sources), native, pch)


@cache
def _native_compiles(
    runtime: str,
    spec: VariantSpec,
    sources: tuple[str, ...],
    native: str,
    pch: Precompile | None,
) -> tuple[Compile, ...]:
    flags = (
        *flags_of(spec),
        "-I$native/capi",
        "-I$native/driver",
    )
    return tuple(
        Compile(
            unit=f"native/{source}",
            source=f"$native/{source}",
            language="c++",
            abi=spec.abi,
            flags=flags,
            projection=None,
            fingerprint=fingerprint(
                {
                    "unit": source,
                    "native": native,
                    "runtime": runtime,
                    "toolchain": spec.toolchain,
                    "flags": flags,
                    "pch": pch.identity if pch and source in _PRECOMPILED else None,
                }
            ),
            cost=_NATIVE_COST,
            pch=pch if source in _PRECOMPILED else None,
        )
        for source in sources
    )


def runtime_library_compiles(
    spec: VariantSpec, sources: Iterable[str], native: str
) -> tuple[Compile, ...]:
    """The compilations of our parts of the C++ library: of the toolchain alone, not of PyTorch."""
    return _runtime_library_compiles(spec.level, tuple(sources), native)


@cache
def _runtime_library_compiles(
    spec: VariantSpec, sources: tuple[str, ...], native: str
) -> tuple[Compile, ...]:
    flags = (*spec.compile_flags, *RUNTIME_LIBRARY_FLAGS)
    return tuple(
        Compile(
            unit=f"native/{source}",
            source=f"$native/{source}",
            language="c++",
            abi=spec.abi,
            flags=flags,
            projection=None,
            fingerprint=fingerprint(
                {"unit": source, "native": native, "toolchain": spec.toolchain, "flags": flags}
            ),
            cost=_RUNTIME_LIBRARY_COST,
        )
        for source in sources
    )


def java_compiles(spec: VariantSpec, package: str, native: str) -> tuple[Compile, ...]:
    """The compilations of the methods behind the Java API: of the toolchain alone, not of PyTorch.

    package  the app's Java package, with `/`: all that differs between apps, and in one unit
    """
    sources = {
        "jni/natives.cpp": (),
        "jni/on_load.cpp": (f'-DLTA_JNI_PACKAGE="{package}"',),
    }
    common = (*spec.compile_flags, *_JAVA_FLAGS)
    return tuple(
        Compile(
            unit=f"native/{source}",
            source=f"$native/{source}",
            language="c++",
            abi=spec.abi,
            flags=(*common, *own),
            projection=None,
            fingerprint=fingerprint(
                {
                    "unit": source,
                    "native": native,
                    "toolchain": spec.toolchain,
                    "flags": (*common, *own),
                }
            ),
            cost=_JAVA_COST,
        )
        for source, own in sources.items()
    )


def cxx_library_compiles(spec: VariantSpec, sources: Iterable[CxxSource]) -> tuple[Compile, ...]:
    """The compilations of a toolchain's whole C++ library, where its linker has none."""
    return tuple(
        Compile(
            unit=source.unit,
            source=f"$zig/{source.unit}",
            language=source.language,
            abi=spec.abi,
            flags=source.flags,
            projection=None,
            fingerprint=fingerprint(
                {"unit": source.unit, "toolchain": spec.toolchain, "flags": source.flags}
            ),
            cost=_CXX_LIBRARY_COST,
        )
        for source in sources
    )


def action_graph(variants: Iterable[VariantObjects], links: Iterable[Link]) -> ActionGraph:
    """One graph; an object that two variants want is one node."""
    compiles: dict[str, Compile] = {}
    for variant in variants:
        for action in variant.compiles:
            compiles.setdefault(action.object, action)
    return ActionGraph({key: compiles[key] for key in sorted(compiles)}, tuple(links))


def sharing(variants: Mapping[str, VariantObjects]) -> dict[str, tuple[str, ...]]:
    """object -> labels of the variants that use it, sorted."""
    users: dict[str, list[str]] = {}
    for label in sorted(variants):
        for action in variants[label].compiles:
            users.setdefault(action.object, []).append(label)
    return {key: tuple(users[key]) for key in sorted(users)}
