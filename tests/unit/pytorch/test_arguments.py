"""How many arguments operators take, from native_functions.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.pytorch.arguments import argument_counts
from orchestrator.values.operators import Arguments


@pytest.mark.parametrize(
    ("declared", "least", "most"),
    [
        ("rand(int[] size) -> Tensor", 1, 1),
        ("hann_window(int n, *, ScalarType? dtype=None) -> Tensor", 1, 2),
        (
            "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
            3,
            4,
        ),
        ("add_(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", 2, 3),
        (
            "conv1d(Tensor input, int[1] stride=1, int[1] padding=[0, 1], str mode='a') -> Tensor",
            1,
            4,
        ),
        ("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", 2, 3),
        ("std(Tensor self, int[1]? dim, *, int? correction, bool keepdim=False) -> Tensor", 3, 4),
        ("promote() -> ScalarType", 0, 0),
    ],
)
def test_arguments_are_counted(tmp_path: Path, declared: str, least: int, most: int) -> None:
    file = tmp_path / "aten/src/ATen/native/native_functions.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"# func: no(int a)\n- func: {declared}\n  variants: function\n")
    name = declared.partition("(")[0]
    assert argument_counts(tmp_path) == {f"aten::{name}": Arguments(least, most)}
