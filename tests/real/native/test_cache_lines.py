"""PyTorch's unit that allocates memory takes ours, whose contents begin a cache line."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_toy import ROOT
from real_units import RealUnits

from orchestrator.index.entry import undefined_symbols
from orchestrator.load.workspace import load_config

pytestmark = pytest.mark.real


@pytest.mark.parametrize("runtime", sorted(load_config(ROOT)[0].pins))
def test_the_unit_of_pytorch_takes_it(runtime: str, tmp_path: Path) -> None:
    unit = "c10/core/impl/alloc_cpu.cpp"
    needed = undefined_symbols([*RealUnits(tmp_path, runtime).units([unit]).values()])
    assert {"malloc", "free"} <= needed
    assert "posix_memalign" not in needed
