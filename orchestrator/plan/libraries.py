"""Plans the compilations of third-party libraries' units. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from orchestrator.libraries.declared import CpuLevelData, LibraryData
from orchestrator.libraries.units import LibraryUnit
from orchestrator.plan.variant import VariantSpec
from orchestrator.values.action import COMPILE_COMMAND, Compile
from orchestrator.values.config.app import CpuLevel
from orchestrator.values.fingerprint import fingerprint

# Seconds of a processor: 87 for the 640 units of XNNPACK for x86-64.
_COST = 0.15


@dataclass(frozen=True)
class LibraryFacts:
    """Facts about a library that planning needs.

    name, version  from its data
    digest         of its pinned trees, and of our headers that its units read
    include        flags that put its folders on the include path
    common, c, cxx  flags of all its units, and of those in one language
    """

    name: str
    version: str
    digest: str
    include: tuple[str, ...]
    common: tuple[str, ...]
    c: tuple[str, ...]
    cxx: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """The -D flags that change the library's headers: whoever includes them is compiled with
        the same."""
        return tuple(flag for flag in self.common if flag.startswith(("-DXNN_", "-DPTHREADPOOL_")))


@dataclass(frozen=True)
class LevelFlags:
    """Macros that state the CPU levels of a library.

    macros   unit -> macros that are set to 1 for it
    without  macros for units that choose by level: one for each level that the library lacks
    own      macros for our own kernels: one for each level that the library has
    """

    macros: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    @property
    def omitted_levels(self) -> tuple[str, ...]:
        """`without`, as flags."""
        return tuple(f"-D{macro}" for macro in self.without)

    @property
    def of_own_kernels(self) -> tuple[str, ...]:
        """The flags of our own kernels."""
        return (*self.omitted_levels, *(f"-D{macro}" for macro in self.own))


# A library with the levels that every one has.
USUAL_LEVELS = LevelFlags()


def level_flags(
    library: str, levels: Iterable[CpuLevelData], chosen: Collection[CpuLevel]
) -> LevelFlags:
    """The flags of a library with the `chosen` ones of its ABI's levels; `library` is the tree
    whose units the levels name."""
    macros = dict[str, tuple[str, ...]]()
    for level in levels:
        for unit, names in level.macros.items() if level.name in chosen else ():
            name = f"{library}/{unit}"
            macros[name] = (*macros.get(name, ()), *names)
    without = tuple(one.without for one in levels if one.without and one.name not in chosen)
    own = tuple(one.own for one in levels if one.own and one.name in chosen)
    each = {unit: tuple(sorted({*names})) for unit, names in sorted(macros.items())}
    return LevelFlags(each, without, own)


def library_facts(data: LibraryData, digest: str) -> LibraryFacts:
    """Facts about a library by its data: include paths, and flags by language.

    digest: of its pinned trees, and of our headers that its units read
    """
    include = tuple(f"-I{folder}" for folder in data.include)
    return LibraryFacts(data.library, data.version, digest, include, data.flags, data.c, data.cxx)


def library_compiles(
    facts: LibraryFacts,
    spec: VariantSpec,
    units: Iterable[LibraryUnit],
    levels: LevelFlags = USUAL_LEVELS,
) -> tuple[Compile, ...]:
    """The compilations of a library's units: of the toolchain alone, not of PyTorch."""
    small = "-Oz" if spec.optimize == "size" else "-Os"
    before = spec.flags_before("none")
    return tuple(
        _compile(
            facts,
            spec.abi,
            spec.toolchain,
            before,
            small,
            unit,
            levels.macros.get(unit.name, ()),
            levels.omitted_levels if unit.header is not None and not unit.kernel else (),
        )
        for unit in units
    )


@cache
def _compile(
    facts: LibraryFacts,
    abi: str,
    toolchain: str,
    before: tuple[str, ...],
    small: str,
    unit: LibraryUnit,
    macros: tuple[str, ...],
    omitted_levels: tuple[str, ...],
) -> Compile:
    given = {f"-D{macro}=0": f"-D{macro}=1" for macro in macros}
    assert given.keys() <= set(facts.common), f"a level sets what no flag mentions: {macros}"
    flags = (
        *before,
        "-O2" if unit.kernel else small,
        *(given.get(flag, flag) for flag in facts.common),
        *(facts.c if unit.language == "c" else facts.cxx),
        *facts.include,
        *unit.flags,
        *omitted_levels,
    )
    if unit.header is not None:
        flags = (*flags, "-include", f"$native/{unit.header}")
    of = {
        "unit": unit.name,
        "library": facts.digest,
        "command": COMPILE_COMMAND,
        "toolchain": toolchain,
        "flags": flags,
    }
    return Compile(
        unit=unit.name,
        source=unit.source,
        language=unit.language,
        abi=abi,
        flags=flags,
        projection=None,
        fingerprint=fingerprint(of),
        cost=_COST,
        parts=of,
    )
