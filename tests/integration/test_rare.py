"""Operators that need more than their own kernel, from trace to library.

`apps/rare/export.py` beside this file writes the model; what it must give is worked out by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from driving import build_verified, call, numbers, tensor, traced_alone

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

RARE = Path(__file__).parent / "apps" / "rare"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `rare`, traced, built and proven."""
    root, told = traced_alone(RARE, tmp_path_factory.mktemp("rare"))
    assert "never ran: " in told
    assert "aten::tril" in told.partition("never ran: ")[2]
    build_verified(root)
    return root


def given(workspace: Path, method: str, *arguments: dict[str, Any]) -> Any:
    run = call(workspace, "rare", method, *arguments)
    assert run["error"] is None, run
    return run["output"]


def test_conjugate_and_negative_tensors(workspace: Path) -> None:
    squares, negative = given(workspace, "forward", tensor(1, 2), tensor(3, -1))["tuple"]
    assert numbers(squares) == [10, 0, 5, 0]
    assert numbers(negative) == [-2, 2]


def test_a_kernel_tag_that_no_literal_names(workspace: Path) -> None:
    x = tensor(1, 2, 3, 4, shape=[2, 2])
    assert numbers(given(workspace, "triangle", x, {"bool": True})) == [1, 2, 0, 4]
    # its operator never ran: all dtypes were kept
    assert numbers(given(workspace, "triangle", x, {"bool": False})) == [1, 0, 3, 4]


def test_what_is_asked_of_autograd(workspace: Path) -> None:
    pooled, cubes, rows, leaf = given(workspace, "gradients", tensor(1, 5, 2, 3))["tuple"]
    assert numbers(pooled) == [5, 3]
    assert numbers(cubes) == [12]
    assert numbers(rows) == [1, 1]
    assert leaf == {"bool": True}


def test_rows_that_code_outside_of_aten_sums(workspace: Path) -> None:
    ids, offsets = tensor(0, 1, 4, dtype="int64"), tensor(0, 2, dtype="int64")
    assert numbers(given(workspace, "bag", ids, offsets)) == [3, 5, 7, 12, 13, 14]
