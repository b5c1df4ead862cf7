"""Which backends and kinds of tensors models can reach, from the names of their operators."""

from __future__ import annotations

import pytest

from orchestrator.select.backends import reachable_backends, tensor_kinds
from orchestrator.values.operators import OperatorName as Op

BOTH = ("CPU", "QuantizedCPU")


@pytest.mark.parametrize(
    ("operator", "kinds"),
    [
        ("aten::conv2d", set()),
        ("aten::relu_", set()),
        ("quantized::conv2d.new", {"quantized"}),
        ("_quantized::linear", {"quantized"}),
        ("aten::quantize_per_tensor", {"quantized"}),
        ("aten::dequantize.self", {"quantized"}),
        ("aten::_empty_affine_quantized", {"quantized"}),
        ("aten::fake_quantize_per_tensor_affine", {"quantized"}),
        ("aten::to_sparse", {"sparse"}),
        ("aten::coalesce", {"sparse"}),
        ("sparse::qlinear", {"sparse"}),
        ("aten::_sparse_coo_tensor_unsafe", {"sparse"}),
    ],
)
def test_kinds_of_tensors(operator: str, kinds: set[str]) -> None:
    assert tensor_kinds([Op(operator)]) == kinds
    assert tensor_kinds([Op("aten::add.Tensor"), Op(operator)]) == kinds


def test_the_quantised_backend_is_reached_by_quantised_models_only() -> None:
    assert reachable_backends(BOTH, [Op("aten::conv2d")]) == ("CPU",)
    assert reachable_backends(BOTH, [Op("aten::conv2d"), Op("quantized::linear")]) == BOTH


def test_so_is_that_of_sparse_tensors() -> None:
    both = ("CPU", "SparseCPU")
    assert reachable_backends(both, [Op("aten::conv2d")]) == ("CPU",)
    assert reachable_backends(both, [Op("aten::to_sparse")]) == both
    assert reachable_backends(("CPU", "Other"), []) == ("CPU", "Other")
    assert reachable_backends(reversed(BOTH), [Op("quantized::linear")]) == (
        "QuantizedCPU",
        "CPU",
    )
