"""What operators use for other sizes and layouts than a trace saw, by the shipped index."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from shipped_index import shipped, shipped_kernels

from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13.dialect import DIALECT as V1_13
from orchestrator.pytorch.v2_6.dialect import DIALECT as V2_6
from orchestrator.pytorch.versions import LayoutsData
from orchestrator.select.layouts import of_other_layouts
from orchestrator.select.policy import select, traced_selection
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace, TraceIdentity

EACH = pytest.mark.parametrize("dialect", [V1_13, V2_6], ids=["1.13", "2.6"])
M = frozenset({"m"})


def trace(operators: tuple[str, ...], tags: Mapping[str, tuple[str, ...]]) -> Trace:
    return Trace(
        app="app",
        model="m",
        identity=TraceIdentity("a", "b", "bundled", ("CPU",), "t"),
        root_operators=tuple(map(Op, operators)),
        called_operators={Op(name): 1 for name in operators},
        kernel_tags={tag: dict.fromkeys(dtypes, 1) for tag, dtypes in tags.items()},
    )


def of(one: Trace, dialect: Dialect, data: LayoutsData | None = None) -> Selection:
    kernels = shipped_kernels(("CPU",), dialect)
    return of_other_layouts(shipped(dialect), kernels, one, data or dialect.facts.layouts)


def dtypes(selection: Selection) -> dict[str, list[str]]:
    return {tag: sorted(some) for tag, some in selection.kernel_dtypes.items()}


@EACH
def test_the_other_order_of_channels_has_the_traced_dtypes(dialect: Dialect) -> None:
    """Whichever of the two ran."""
    for ran in ("avg_pool2d", "avg_pool2d_channels_last"):
        found = of(trace(("aten::avg_pool2d",), {ran: ("Float",)}), dialect)
        pools = {tag: some for tag, some in dtypes(found).items() if "pool" in tag}
        assert pools == {"avg_pool2d": ["Float"], "avg_pool2d_channels_last": ["Float"]}


@EACH
def test_sizes_that_qnnpack_does_not_take_have_its_dtype(dialect: Dialect) -> None:
    """A pool of one place, of which no tag of a pool was traced."""
    ran = ("aten::_adaptive_avg_pool2d", "quantized::mul")
    kernels = shipped_kernels(("CPU", "QuantizedCPU"), dialect)
    data = dialect.facts.layouts
    for traced, expected in (("QUInt8", ["QUInt8"]), ("Float", None)):
        one = trace(ran, {"qmul": (traced,)})
        found = dtypes(of_other_layouts(shipped(dialect), kernels, one, data))
        for pool in ("2d_quantized_cpu", "3d_ndhwc"):
            assert found.get(f"adaptive_avg_pool{pool}") == expected


@EACH
def test_what_an_argument_decides_on_is_not_selected(dialect: Dialect) -> None:
    """As the dimension of softmax, and the limits of clamp."""
    tags = {"softmax_lastdim_kernel_impl": ("Float",), "clamp_scalar_cpu": ("Float",)}
    found = of(trace(("aten::_softmax", "aten::clamp"), tags), dialect)
    assert dtypes(found).keys() == {"copy_kernel"}


@EACH
def test_a_copy_is_of_the_dtypes_that_the_model_computes_in(dialect: Dialect) -> None:
    """Not of all: every trace has the copies between all dtypes, which apps make."""
    tags = {"copy_": ("Bool", "Double", "Float", "Long"), "add_stub": ("Long",)}
    found = of(trace(("aten::copy_", "aten::add.Tensor"), tags), dialect)
    assert dtypes(found)["copy_kernel"] == ["Long"]


@EACH
def test_what_is_called_for_a_slice_alone_is_there(dialect: Dialect) -> None:
    found = of(trace(("aten::reshape",), {}), dialect)
    assert {"aten::_unsafe_view", "aten::clone"} <= found.operators.keys()
    assert "aten::_mkldnn_reshape" not in found.operators


@EACH
def test_layers_of_pytorch_call_more(dialect: Dialect) -> None:
    """A convolution of no image multiplies with a weight."""
    one = trace(("aten::_convolution",), {"slow_conv2d_cpu": ("Float",)})
    few = of(one, dialect)
    assert "aten::mul.Tensor" not in few.operators
    more = of(one, dialect, dialect.facts.layouts.with_native())
    assert {"aten::mul.Tensor", "aten::add_.Tensor"} <= more.operators.keys()
    assert more.operators[Op("aten::mul.Tensor")] == M
    # in what the model computes in, since none of its kernels ran
    assert dtypes(more)["mul_cpu"] == ["Float"]


@EACH
@pytest.mark.parametrize(
    ("ran", "called"),
    [
        ("aten::conv2d", {"aten::unsqueeze", "aten::squeeze.dim", "aten::as_strided"}),
        ("aten::max_pool1d", {"aten::squeeze_.dim"}),
        ("aten::cat", {"aten::narrow", "aten::slice.Tensor"}),
        ("aten::matmul", {"aten::mm", "aten::bmm", "aten::mT"}),
        ("aten::any.dim", {"aten::view_as"}),
        ("aten::chunk", {"aten::split_with_sizes"}),
        ("aten::median", {"aten::full"}),
        ("aten::einsum", {"aten::mul.Tensor", "aten::sum.dim_IntList"}),
        ("aten::std.correction", {"aten::mean.dim", "aten::_local_scalar_dense"}),
    ],
)
def test_what_is_called_for_another_rank_or_size(
    dialect: Dialect, ran: str, called: frozenset[str]
) -> None:
    """An image without a batch, slices that are joined, a matrix in place of a batch, a number, no
    number, dimensions of one place, all numbers in one."""
    assert called <= of(trace((ran,), {"add_stub": ("Float",)}), dialect).operators.keys()


def test_the_norm_of_one_number_is_its_absolute_value() -> None:
    found = of(trace(("aten::linalg_vector_norm",), {"norm_cpu": ("Float",)}), V2_6)
    assert {"aten::abs.out", "aten::squeeze.dims"} <= found.operators.keys()
    assert dtypes(found)["abs_cpu"] == ["Float"]


@EACH
def test_a_batch_norm_of_a_slice_computes_with_operators(dialect: Dialect) -> None:
    one = trace(("aten::native_batch_norm",), {"batch_norm_cpu_contiguous": ("Float",)})
    found = of(one, dialect)
    assert {"aten::add.Scalar", "aten::sqrt", "aten::div_.Tensor"} <= found.operators.keys()
    assert dtypes(found)["sqrt_vml_cpu"] == ["Float"]


@EACH
@pytest.mark.parametrize("ran", ["std_cpu", "std_var_all_cpu"])
def test_deviations_of_one_row_and_of_several(dialect: Dialect, ran: str) -> None:
    found = dtypes(of(trace(("aten::std.correction",), {ran: ("Float",)}), dialect))
    assert found["std_cpu"] == found["std_var_all_cpu"] == ["Float"]


def test_a_traced_selection_is_what_ran() -> None:
    one = trace(("aten::avg_pool2d",), {"avg_pool2d": ("Float",)})
    index, kernels, data = shipped(V2_6), shipped_kernels(("CPU",), V2_6), V2_6.facts.layouts
    assert select(index, kernels, [one], "traced", layouts=data) == traced_selection(one)
    guarded = select(index, kernels, [one], "guarded", layouts=data)
    assert guarded == traced_selection(one).merge(of(one, V2_6))


@EACH
def test_the_facts_name_what_the_version_has(dialect: Dialect) -> None:
    data, index = dialect.facts.layouts, shipped(dialect)
    known = {str(registration.operator) for registration in index.registrations}
    if dialect is V1_13:
        known |= {"aten::squeeze.dims", "aten::_native_batch_norm_legit"}  # of 2.6 alone
    assert {*data.calls, *data.native, *data.by_operator, *data.computing} <= known
