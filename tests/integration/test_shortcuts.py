"""Shortcuts of small tensors: to the last bit what the operators give, in the delivered libraries.

Models made by hand call them, with arguments drawn at random: see shortcut_program.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from chain_models import chains_both_ways
from shortcut_models import both_ways

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("app", "some"),
    [
        ("keyboard", {"aten::embedding", "aten::zeros", "aten::any", "aten::ge.Scalar"}),
        ("reader", {"aten::reshape", "aten::matmul", "aten::layer_norm", "aten::gelu"}),
        pytest.param("camera", {"aten::add.Tensor"}, marks=pytest.mark.ci_only),
    ],
)
def test_shortcuts_give_what_operators_give(
    built: Path, tmp_path: Path, app: str, some: set[str]
) -> None:
    told, names = both_ways(built / app / "linux-x86_64", tmp_path, calls=2000)
    assert some <= names
    assert 0 < told.pop("failed") < 1000
    assert told == {"different": [], "forked": 0}


def test_chains_give_what_operators_give(built: Path, tmp_path: Path) -> None:
    """What one call leaves behind, memory that is used again among it, no other call sees."""
    told = chains_both_ways(built / "reader/linux-x86_64", tmp_path, calls=150, seeds=range(3))
    assert told["calls"] == 3 * 150
    assert 0 < told["failed"] < 3 * 150
    assert told["different"] == []
