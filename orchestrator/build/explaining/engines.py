"""Counts the bytes that each engine of kernels takes in a linked library.

A function or object is an engine's if one of the engine's objects defines it, and no other may: the
linker keeps one copy of an inline function, for all. Only symbols are counted: no texts, and no
tables that the loader reads. In a library that is optimised as a whole, a function that was inlined
counts as part of its caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from orchestrator.binary.elf_symbols import placed_symbols
from orchestrator.build.planning.plan import Variant
from orchestrator.build.workshop.invocation import Prepared, parts_chosen
from orchestrator.libraries.features import load_entries
from orchestrator.report.table import Engine
from orchestrator.values.action import Compile

OWN: Final = "kernels of ours"
XNNPACK: Final = "XNNPACK"
# Starts of the names of an engine's units.
_UNITS: Final[Mapping[str, tuple[str, ...]]] = {
    XNNPACK: ("xnnpack/",),
    "QNNPACK": ("aten/src/ATen/native/quantized/cpu/qnnpack/src/",),
    OWN: ("native/kernels/",),
    # with what stands in for it, and the threads that it runs on
    "pthreadpool": ("pthreadpool/", "native/threads/"),
}


def engines_of(prepared: Prepared, variant: Variant, library: Path) -> tuple[Engine, ...]:
    """The engines that a linked, unstripped ELF library has code of, in a fixed order. Raises
    NotElfError."""
    objects = {
        name: [
            Path(prepared.runtime.fill(one.object))
            for one in units_of(variant.objects.compiles, starts)
        ]
        for name, starts in _UNITS.items()
    }
    users = _users(prepared, variant)
    return tuple(
        Engine(name, count, users.get(name))
        for name, count in engine_bytes(library, objects).items()
        if count
    )


def units_of(compiles: Iterable[Compile], starts: tuple[str, ...]) -> tuple[Compile, ...]:
    """The compilations of an engine's units alone."""
    return tuple(one for one in compiles if all(unit.startswith(starts) for unit in one.units))


def engine_bytes(library: Path, objects: Mapping[str, Iterable[Path]]) -> dict[str, int]:
    """Engine -> the bytes of the library that its objects define. Folded functions, which have one
    address, count once, for the first engine that has one. Raises NotElfError."""
    owners: dict[str, str] = {}
    for engine, files in objects.items():
        for file in files:
            for symbol in placed_symbols(file):
                if not symbol.shared:
                    owners.setdefault(symbol.name, engine)
    at = dict[int, tuple[str, int]]()
    for symbol in placed_symbols(library):
        engine_of = owners.get(symbol.name)
        if engine_of is not None and symbol.bytes:
            at.setdefault(symbol.address, (engine_of, symbol.bytes))
    found = dict.fromkeys(objects, 0)
    for engine, size in at.values():
        found[engine] += size
    return found


def _users(prepared: Prepared, variant: Variant) -> dict[str, tuple[str, ...]]:
    """Engine -> the models that have layers for it. Kernels behind PyTorch's own, as of `matmul`,
    are not asked for by operators, and count for no model."""
    runtime, config = prepared.runtime, prepared.config(variant.label.abi)
    entries = load_entries(runtime.dialect)
    ours, theirs, parts = set[str](), set[str](), parts_chosen(variant.app.kernels)
    for trace in variant.traces:
        asked = runtime.features_of(config, parts, trace.root_operators, trace.called_operators)
        for feature in asked or ():
            ours.add(trace.model)
            if entries[feature].library:
                theirs.add(trace.model)
    return {OWN: tuple(sorted(ours)), XNNPACK: tuple(sorted(theirs))}
