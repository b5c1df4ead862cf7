"""How many arguments operators take, from native_functions.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.runtime.arguments import argument_counts


@pytest.mark.parametrize(
    ("declared", "count"),
    [
        ("rand(int[] size) -> Tensor", 1),
        ("hann_window(int n, *, ScalarType? dtype=None) -> Tensor", 2),
        ("add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)", 4),
        ("conv1d(Tensor input, int[1] stride=1, int[1] padding=[0, 1], str mode='a') -> Tensor", 4),
        ("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", 3),
        ("promote() -> ScalarType", 0),
    ],
)
def test_arguments_are_counted(tmp_path: Path, declared: str, count: int) -> None:
    file = tmp_path / "aten/src/ATen/native/native_functions.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"# func: no(int a)\n- func: {declared}\n  variants: function\n")
    name = declared.partition("(")[0]
    assert argument_counts(tmp_path) == {f"aten::{name}": count}
