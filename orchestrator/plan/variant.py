"""The parts of a variant's plan: the runtime's facts, the variant's specification, its units.

Pure.  `planner` decides which units a variant needs; this module, how a unit is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from orchestrator.codegen.projection import index_text, mentions_selection, projection_text
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.compilers.flags import HARDENING, Hardening
from orchestrator.index.model import UnitFacts
from orchestrator.plan.flags import (
    Canaries,
    Purpose,
    canaries_of,
    hardened,
    header_flags,
    reading,
    unit_flags,
)
from orchestrator.plan.native_files import variable_path
from orchestrator.plan.unity import UnityRules
from orchestrator.pytorch.dialect import Dialect
from orchestrator.select.closure import GENERATED
from orchestrator.select.needs import Needed
from orchestrator.values.action import (
    COMPILE_COMMAND,
    FIELD,
    PRECOMPILE_COMMAND,
    Compile,
    Language,
    Precompile,
)
from orchestrator.values.config.app import CpuLevel, Dispatch
from orchestrator.values.config.forms import Optimize
from orchestrator.values.config.toolchain import System
from orchestrator.values.fingerprint import fingerprint, fingerprint_but, text_digest
from orchestrator.values.own_sources import OwnSources
from orchestrator.values.selection import Selection

# Where the index has units of ours: as `native/<source>`.
OWN = "native/"


@dataclass(frozen=True)
class OwnHeader:
    """A header of ours that a single unit is compiled with.

    name    as `NativeFiles` names it
    digest  of its text, and of what it may include
    by_choice  whether variants have it only where their specification says so
    behind  whether the unit reads it behind its projection: it says what is selected by its macros
    first   whether the unit reads it before every other header, and has no precompiled one
    """

    name: str
    digest: str
    by_choice: bool = False
    behind: bool = False
    first: bool = False


@dataclass(frozen=True)
class OwnFlags:
    """Flags of a single unit, before all others.

    digest       of the headers of ours that it finds by them
    precompiled  whether it has the precompiled header, which is compiled without them
    """

    flags: tuple[str, ...]
    digest: str
    precompiled: bool = False


@dataclass(frozen=True)
class RuntimeFacts:
    """Facts about a runtime, besides its index, that planning needs.

    dialect      values that are specific to its PyTorch version
    identity     digest of the source tree, its generated and configured headers
    kernels      units that upstream compiles at -O3
    always       units whose static initialisers the runtime cannot do without
    recording    further such units for a tracer
    unlike       units that cannot be compiled with the precompiled header
    making       units that make the results of nearly all operators, or call them: as hot as any
                 kernel
    included     unit -> header of ours that it is compiled with
    traced       unit -> header that it is compiled with in a tracer, if that is another
    flagged      unit -> flags of its own
    threading    header that units with parallel loops read first, in a variant with threads
    threads      header that the unit which sets the number of threads reads first: see
                 `Layout.threads`
    pch          digest of the precompiled header's text
    cuttable     units that some selection can replace by stubs
    unity        rules for compiling units that every variant has together
    own          unit of ours -> digest of its text
    app          own sources of the app that is planned, if it has some
    by_name      unit -> operators that it looks up by name, unless it is lean
    """

    dialect: Dialect
    identity: str
    kernels: frozenset[str]
    always: frozenset[str]
    recording: frozenset[str]
    languages: Mapping[str, Language]
    unlike: frozenset[str] = frozenset()
    making: frozenset[str] = frozenset()
    included: Mapping[str, OwnHeader] = field(default_factory=dict)
    traced: Mapping[str, OwnHeader] = field(default_factory=dict)
    flagged: Mapping[str, OwnFlags] = field(default_factory=dict)
    threading: OwnHeader | None = None
    threads: OwnHeader | None = None
    pch: str = ""
    cuttable: frozenset[str] = frozenset()
    unity: UnityRules = field(default_factory=UnityRules)
    own: Mapping[str, str] = field(default_factory=dict)
    by_name: Mapping[str, frozenset[str]] = field(default_factory=dict)
    app: OwnSources | None = None

    @cached_property
    def app_units(self) -> Mapping[str, str]:
        """The app's own units, which are linked whole: name -> file."""
        return {} if self.app is None else self.app.units

    def is_cxx(self, unit: str) -> bool:
        """True if a unit is C++; a unit in C has no projection."""
        return self.languages.get(unit, "c++") == "c++"

    def included_in(
        self, unit: str, lean: frozenset[str], purpose: Purpose = "release"
    ) -> OwnHeader | None:
        """The header that a unit of a variant is compiled with; `lean`: the variant's own."""
        header = self.included.get(unit)
        if purpose == "tracer":
            header = self.traced.get(unit, header)
        return None if header is not None and header.by_choice and unit not in lean else header

    def threading_of(self, unit: str) -> OwnHeader | None:
        """The header of ours that a unit with parallel loops reads first in a variant with threads;
        None where there is none."""
        return self.threads if unit == self.dialect.layout.threads else self.threading

    def always_for(self, purpose: Purpose) -> frozenset[str]:
        """The units that every variant of this purpose links, whatever is selected; a tracer also
        those that record."""
        return self.always | self.recording if purpose == "tracer" else self.always


@dataclass(frozen=True)
class VariantSpec:
    """Specification of a variant to plan: identity and flags of an ABI's toolchain, purpose,
    optimisation.

    entry   symbols of the runtime that our own native code refers to
    features  kernels of ours that call a library: their names, sorted
    levels  CPU levels that these kernels choose from, in the order of the library's data
    kernel_entry  symbols of the runtime that these kernels refer to
    precompile  whether units share a precompiled header
    unity   whether units that every variant has are compiled together
    lto     whether the shared library is optimised as a whole, at the link
    cut     units that the models cannot enter: their functions become stubs
    hot     units whose kernels take most of the time, by the traces
    lean    units that the models need only in part: compiled with a header of ours
    system  the toolchain's: its C library decides on some flags
    self_relocation  whether the shared library may relocate itself
    hardening  run-time checks of memory errors that the compiler does not add by itself
    threaded  whether the library has threads of its own
    dispatch  how code calls operators that no model names
    extensible  whether the shared library takes add-ons
    """

    abi: str
    toolchain: str
    compile_flags: tuple[str, ...]
    purpose: Purpose
    optimize: Optimize
    entry: frozenset[str]
    precompile: bool = True
    hot: frozenset[str] = frozenset()
    lean: frozenset[str] = frozenset()
    cut: frozenset[str] = frozenset()
    system: System = "linux"
    unity: bool = True
    lto: bool = False
    self_relocation: bool = True
    features: tuple[str, ...] = ()
    levels: tuple[CpuLevel, ...] = ()
    kernel_entry: frozenset[str] = frozenset()
    hardening: frozenset[Hardening] = HARDENING
    threaded: bool = False
    dispatch: Dispatch = "table"
    extensible: bool = False

    def flags_before(self, canaries: Canaries = "some") -> tuple[str, ...]:
        """Flags in front of those of a unit's kind: the toolchain's, hardened with these stack
        protectors."""
        return hardened(self.compile_flags, self.system, canaries, wanted=self.hardening)

    @cached_property
    def level(self) -> VariantSpec:
        """The specification without what differs between apps: variants with the same level share
        compiled units of an ABI."""
        level = replace(self.common.without_features, self_relocation=True, extensible=False)
        return _one_of_equal(level)

    @cached_property
    def common(self) -> VariantSpec:
        """The specification without what a selection decides of PyTorch's units: variants with the
        same have all else in common."""
        none = frozenset[str]()
        common = replace(self, entry=none, hot=none, lean=none, cut=none, dispatch="table")
        return _one_of_equal(common)

    @cached_property
    def without_features(self) -> VariantSpec:
        """Itself without kernels that call a library."""
        return replace(self, features=(), levels=(), kernel_entry=frozenset())


@cache
def _one_of_equal(spec: VariantSpec) -> VariantSpec:
    """The first of equal specifications: thousands of variants have a few levels, each of which is
    looked up often."""
    return spec


@dataclass(frozen=True)
class VariantPlan:
    """The units of one variant.

    needed     what its roots need: units, entry points, stubs
    whole      objects that register operators: linked whatever refers to them
    on_demand  all other objects, unity shards among them
    request    the registrations to generate; their objects are linked whole too
    selection  what the projections are made of
    bearing    digest of each projection -> a unit that it is of
    """

    spec: VariantSpec
    needed: Needed
    whole: tuple[Compile, ...]
    on_demand: tuple[Compile, ...]
    request: RegistrationRequest
    selection: Selection
    bearing: Mapping[str, UnitFacts]

    @property
    def projections(self) -> dict[str, str]:
        """Digest -> text of the projection headers that the units are compiled with. Not cached:
        every call renders them."""
        texts = ((d, projection_text(unit, self.selection)) for d, unit in self.bearing.items())
        return {digest: text for digest, text in texts if text is not None}

    @property
    def compiles(self) -> tuple[Compile, ...]:
        """The compilations of PyTorch's units: those linked whole, then the others."""
        return (*self.whole, *self.on_demand)


def index_unit(facts: RuntimeFacts, spec: VariantSpec, unit: UnitFacts) -> Compile:
    """A unit's compilation for making the runtime index: with all operators and dtypes, and without
    a unity shard."""
    bears = mentions_selection(unit) and facts.is_cxx(unit.path)
    return compilation(facts, spec, unit)(text_digest(index_text()) if bears else None)


def compilation(
    facts: RuntimeFacts, spec: VariantSpec, unit: UnitFacts, *, parallel: bool = False
) -> Callable[[str | None], Compile]:
    """The compilation of one unit, as a function of its projection's digest.

    Of `spec`, what is wanted of the whole variant or of other units has no part.  parallel: it
    computes with the variant's threads.
    """
    language = facts.languages.get(unit.path, "c++")
    kernel, hot = unit.path in facts.kernels, unit.path in spec.hot or unit.path in facts.making
    layout = facts.dialect.layout
    computes = unit.path.startswith(layout.running) or unit.path in facts.app_units
    flags = flags_of(
        facts.dialect,
        spec,
        unit=unit.path,
        language=language,
        kernel=kernel,
        hot=hot,
        computes=computes,
    )
    included = facts.included_in(unit.path, spec.lean, spec.purpose)
    flagged = facts.flagged.get(unit.path)
    pch = None
    if (
        unit.path.startswith(layout.precompiled)
        and language == "c++"
        and not unit.features
        and (spec.purpose == "tracer" or not layout.reads(unit.path))
        and (included is None or not included.first)
        and (flagged is None or flagged.precompiled)
        and unit.path not in facts.unlike
    ):
        pch = precompile(facts, spec)
        flags = reading(flags, pch)
    more = dict[str, object]()
    if flagged is not None:
        flags = (*flagged.flags, *flags)
        more["flagged"] = flagged.digest
    behind: tuple[str, ...] = ()
    if included is not None:
        if included.behind:
            behind = (variable_path(included.name),)
        else:
            flags = (*flags, "-include", variable_path(included.name))
        more["included"] = included.digest
    if unit.path in facts.own:
        more["own"] = facts.own[unit.path]
    if facts.app is not None and unit.path in facts.app_units:
        flags = (*flags, *facts.app.compile_flags)
        more["own"] = facts.app.digest
    threading = facts.threading_of(unit.path) if parallel else None
    if threading is not None:
        flags = (*flags, "-include", variable_path(threading.name))
        more["threading"] = threading.digest
    common = _common_parts(facts.identity, spec.toolchain, None if pch is None else pch.fingerprint)
    parts = {**common, **more} if more else common
    hashed = {**parts, "unit": unit.path, "flags": flags}
    del hashed["projection"]
    fingerprint_with = fingerprint_but(hashed, "projection")
    source = _source_of(facts, unit.path)

    def compile_with(projection: str | None) -> Compile:
        return Compile(
            unit=unit.path,
            source=source,
            language=language,
            abi=spec.abi,
            flags=flags,
            projection=projection,
            fingerprint=fingerprint_with(projection),
            cost=unit.cost,
            pch=pch,
            behind=behind,
            parts=parts,
        )

    return compile_with


@cache
def _common_parts(runtime: str, toolchain: str, pch: str | None) -> Mapping[str, object]:
    """The parts of the identities of units that are compiled in one way."""
    return {
        "command": COMPILE_COMMAND,
        "unit": FIELD,
        "runtime": runtime,
        "toolchain": toolchain,
        "flags": FIELD,
        "pch": pch,
        "projection": FIELD,
    }


def _source_of(facts: RuntimeFacts, unit: str) -> str:
    if unit.startswith(GENERATED):
        return f"$generated/ATen/{unit.removeprefix(GENERATED)}"
    if unit in facts.app_units:
        return facts.app_units[unit]
    return variable_path(unit.removeprefix(OWN)) if unit in facts.own else f"$tree/{unit}"


def flags_of(
    dialect: Dialect,
    spec: VariantSpec,
    *,
    unit: str = "",
    language: str = "c++",
    kernel: bool = False,
    hot: bool = False,
    computes: bool = False,
) -> tuple[str, ...]:
    """All flags of a unit of this kind in this variant; `unit` is its path, where it counts."""
    return (
        *spec.flags_before(canaries_of(dialect.layout, unit, kernel=kernel, purpose=spec.purpose)),
        *unit_flags(
            dialect.flags,
            language=language,
            kernel=kernel,
            hot=hot,
            optimize=spec.optimize,
            purpose=spec.purpose,
            computes=computes,
            lto=spec.lto,
            system=spec.system,
        ),
    )


def precompile(facts: RuntimeFacts, spec: VariantSpec) -> Precompile | None:
    """The precompiled header of a variant's C++ units, whatever their level of optimisation, guards
    of the stack and way to link; None where the variant has none."""
    return precompiled(facts.dialect, facts.pch, facts.identity, spec.level)


@cache
def precompiled(
    dialect: Dialect, header: str, runtime: str, spec: VariantSpec
) -> Precompile | None:
    """`precompile` by what it takes of a runtime's facts: digests of the header and the runtime.

    spec: a level
    """
    if not spec.precompile:
        return None
    flags = header_flags(flags_of(dialect, replace(spec, lto=False)))
    parts = {
        "header": header,
        "runtime": runtime,
        "toolchain": spec.toolchain,
        "command": PRECOMPILE_COMMAND,
        "flags": flags,
    }
    return Precompile("$native/pch/aten.h", spec.abi, flags, fingerprint(parts), parts=parts)
