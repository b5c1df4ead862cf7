"""What is shipped of libraries and of our kernels, against the sources compiled here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from core_toy import ROOT, real_runtime
from real_units import RealUnits
from shipped_library import INT8, PROCESSORS, WANTED, shipped

from orchestrator.build.indexing.make_library_index import known_symbols
from orchestrator.index.entry import undefined_symbols
from orchestrator.index.model import UnitFacts
from orchestrator.index.objects import ObjectFacts, read_object
from orchestrator.libraries.features import fast_sources, load_entries, load_features, units_calling
from orchestrator.load.workspace import load_workspace
from orchestrator.plan.graph import kernel_compiles
from orchestrator.plan.libraries import level_flags, library_compiles
from orchestrator.plan.variant import index_unit
from orchestrator.values.config.toolchain import Processor

pytestmark = pytest.mark.real


@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_shipped_index_is_of_the_pins(processor: Processor) -> None:
    library = real_runtime().library
    assert library is not None
    index = library.index(processor)
    assert index is not None
    assert {unit.path for unit in index.index.units} <= set(library.units(processor))


class Live:
    """What a linker keeps of objects, section by section, from symbols on."""

    def __init__(self, objects: dict[str, Path]) -> None:
        self.facts = {unit: read_object(path) for unit, path in objects.items()}
        self.places: dict[str, tuple[str, int]] = {}
        for unit, facts in self.facts.items():
            for symbol, section in (facts.weak_symbols | facts.global_symbols).items():
                self.places.setdefault(symbol, (unit, section))

    def undefined(self, symbols: frozenset[str]) -> set[str]:
        waiting, seen, missing = [self.places[s] for s in symbols], set(), set()
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            facts: ObjectFacts = self.facts[place[0]]
            section = facts.sections.get(place[1])
            for reference in section.references if section else ():
                if reference.section:
                    waiting.append((place[0], reference.section))
                elif reference.symbol in self.places:
                    waiting.append(self.places[reference.symbol])
                else:
                    missing.add(reference.symbol)
        return missing


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_closure_misses_nothing(tmp_path: Path, processor: Processor) -> None:
    real = RealUnits(tmp_path)
    library = real.runtime.library
    assert library is not None
    units = library.units(processor)
    spec = replace(real.spec("release"), abi=library.data.indexed[processor])
    toolchain = real.here.toolchains.of(spec.abi)
    spec = replace(spec, toolchain=toolchain.identity, compile_flags=toolchain.compile_flags)
    wanted = WANTED | INT8
    needed = [units[unit] for unit in shipped(processor).needs(wanted).units]
    levels = library.data.levels.get(processor, ())
    flags = level_flags("xnnpack", levels, [level.name for level in levels])
    made = real.made(library_compiles(library.facts, spec, needed, flags))
    missing = Live(made).undefined(wanted)
    # the rest is libc's, and the compiler's own library's
    assert {symbol for symbol in missing if symbol.startswith(("xnn_", "pthreadpool_"))} == set()
    assert all(
        symbol.startswith("__aeabi_") or symbol.replace("_", "").isalnum() for symbol in missing
    )
    assert len(missing) < 25


@pytest.mark.parametrize("name", sorted(load_workspace(ROOT, {}).config.pins))
def test_the_shipped_symbols_are_those_of_the_sources(name: str, tmp_path: Path) -> None:
    """Run `orchestrator library kernels` where this fails: native/kernels has changed."""
    real = RealUnits(tmp_path, name)
    runtime, library = real.runtime, real.runtime.library
    assert library is not None
    toolchains = real.here.toolchains
    index = library.index(toolchains.config(toolchains.host).processor)
    assert index is not None
    known = known_symbols(runtime.index)
    for feature in load_features():
        spec, sources = real.spec("release"), [feature.source]
        compiles = kernel_compiles(
            runtime.facts, spec, sources, runtime.native, library.facts, fast_sources()
        )
        undefined = undefined_symbols(list(real.made(compiles).values()))
        entry = load_entries(runtime.dialect)[feature.name]
        assert undefined & index.symbols == entry.library
        assert undefined & known == entry.runtime


@pytest.mark.parametrize("name", sorted(load_workspace(ROOT, {}).config.pins))
def test_ours_takes_the_place_of_pytorchs_loop(name: str, tmp_path: Path) -> None:
    """The instances for floats that PyTorch's unit makes of its templates are calls of ours."""
    real = RealUnits(tmp_path, name)
    unit, facts = "aten/src/ATen/native/BlasKernel.cpp", real.runtime.facts
    ours = {"_ZN3lta5sgemvEbllfPKflS1_lfPfl", "_ZN3lta4sdotElPKflS1_l"}
    for calling, expected in ((units_calling({"vectors"}), ours), (frozenset[str](), set())):
        spec = replace(real.spec("release"), lean=calling)
        made = real.made([index_unit(facts, spec, UnitFacts(unit, 0.0))])
        assert undefined_symbols([made[unit]]) & ours == expected
