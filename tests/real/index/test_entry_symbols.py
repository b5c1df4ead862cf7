"""What our native code needs of the runtime: the shipped list against the sources compiled here."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_toy import ROOT
from real_units import RealUnits

from orchestrator.build.planning.variants import LIBRARY_SOURCES, TRACER_SOURCES
from orchestrator.build.workshop.runtime_index import shipped_index
from orchestrator.index.entry import load_entry, undefined_symbols
from orchestrator.load.workspace import load_config

pytestmark = pytest.mark.real

PINS = load_config(ROOT)[0].pins


@pytest.mark.parametrize("runtime", PINS)
def test_the_shipped_symbols_are_those_of_the_sources(runtime: str, tmp_path: Path) -> None:
    """Run `orchestrator runtime index` where this fails: the native sources have changed."""
    real = RealUnits(tmp_path, runtime)
    dialect = real.runtime.dialect
    library = undefined_symbols(list(real.native(LIBRARY_SOURCES, "release").values()))
    tracer = undefined_symbols(list(real.native(TRACER_SOURCES, "tracer").values()))
    shipped = load_entry(dialect)
    index = shipped_index(dialect, PINS[runtime].tree)
    known = {name.split("@", 1)[0] for name in index.names}
    # symbols of libc and libc++ lead nowhere in the index: inlining may change them
    assert library & known == shipped.library & known
    assert (tracer - library) & known == shipped.tracer & known
