"""CPU levels: which ones an ABI can have, and which ones a library gets. Pure.

A level is an instruction set beyond what the ABI guarantees, with kernels of the library for it,
chosen at run time. The table is in the library's data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from orchestrator.errors import OrchestratorError, Place
from orchestrator.libraries.declared import CpuLevelData, LibraryData
from orchestrator.values.config.app import BASELINE, CpuLevel
from orchestrator.values.config.toolchain import Processor, System


class CpuLevelUnknownError(OrchestratorError):
    """`cpu:` names a level that an ABI does not have."""


class CpuLevelMissingError(OrchestratorError):
    """`cpu:` leaves out a level that another one needs, or that every library has."""


def levels_of(data: LibraryData, processor: Processor, system: System) -> tuple[CpuLevelData, ...]:
    """The levels that libraries for an ABI can have, in the order of the data."""
    return tuple(
        level
        for level in data.levels.get(processor, ())
        if level.systems is None or system in level.systems
    )


def require_levels(
    abi: str, levels: Collection[CpuLevelData], wanted: Iterable[CpuLevel], place: Place
) -> None:
    """Check the levels that are declared for an ABI. Raises CpuLevelUnknownError,
    CpuLevelMissingError."""
    known = {level.name: level for level in levels}
    given = {*wanted}
    for name in sorted(given - known.keys() - {BASELINE}):
        raise CpuLevelUnknownError(
            f"{abi} has no CPU level {name}",
            place=place,
            expected=", ".join((BASELINE, *known)),
            seen=name,
            hint=f"leave it out for {abi}; `cpu:` takes levels by ABI, too",
        )
    for level in known.values():
        if level.fixed and level.name not in given:
            raise CpuLevelMissingError(
                f"a library for {abi} cannot be without {level.name}",
                place=place,
                expected=f"{level.name} in the list",
                hint=f"add it, or leave {abi} out of `cpu:`",
            )
        for needed in level.needs if level.name in given else ():
            if needed not in given:
                raise CpuLevelMissingError(
                    f"CPU level {level.name} is without {needed}, which it is built on",
                    place=place,
                    expected=f"{needed} in the list",
                    hint=f"add {needed}, or take {level.name} away",
                )


def levels_for(
    levels: Iterable[CpuLevelData],
    wanted: Collection[CpuLevel] | None,
    features: Collection[str],
    multiply_adds: int,
) -> tuple[CpuLevel, ...]:
    """The levels of a library with these features: of those that are declared, or of all (`wanted`:
    None), the ones that make something faster in it.

    multiply_adds: of a run of the app's largest model; a level that is not declared may need some.
    """
    return tuple(
        level.name
        for level in levels
        if (level.multiply_adds <= multiply_adds if wanted is None else level.name in wanted)
        and features
        and (level.uses is None or not {*level.uses}.isdisjoint(features))
    )


def chosen_level(levels: Sequence[str], usable: Collection[str]) -> str:
    """The level at which a library with `levels` above its baseline, lowest first, runs on a
    processor with the `usable` ones: the highest."""
    return next((level for level in reversed(levels) if level in usable), BASELINE)
