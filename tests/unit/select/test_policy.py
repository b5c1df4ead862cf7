"""From traces to selections: traced, static, guarded."""

from __future__ import annotations

from dataclasses import replace

from core_toy import LINEAR, STUBS, UNITS, make_index

from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.select.policy import (
    everything,
    select,
    static_selection,
    traced_selection,
    with_extra,
)
from orchestrator.values.config.forms import SelectionPolicy
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import EXTRA, Selection
from orchestrator.values.trace import Trace, TraceIdentity

INDEX = make_index()
KERNELS = registry(INDEX, ["CPU"], DIALECT.keys)
M, N = frozenset({"m"}), frozenset({"n"})


def trace(model: str = "m", **changes: object) -> Trace:
    values: dict[str, object] = {
        "app": "camera",
        "model": model,
        "identity": TraceIdentity("a", "b", "bundled", ("CPU",), "t"),
        "root_operators": ("aten::add.Tensor", "aten::linear"),
        "called_operators": {"aten::add.Tensor": 2, "aten::linear": 1},
        "kernel_tags": {"linear_tag": {"Float": 3}},
        "custom_classes": ("Prepacked",),
        "build_features": ("LINEAR_FEATURE",),
    }
    return Trace(**{**values, **changes})  # type: ignore[arg-type]


def test_traced_is_what_ran_and_what_the_loader_wants() -> None:
    unrun = trace(called_operators={"aten::add.Tensor": 2, "aten::called": 1})
    expected = Selection(
        operators={
            Op("aten::add.Tensor"): M,
            Op("aten::called"): M,
            Op("aten::linear"): M,
        },
        root_operators=frozenset({Op("aten::add.Tensor"), Op("aten::linear")}),
        kernel_dtypes={"linear_tag": {"Float": M}},
        custom_classes={"Prepacked": M},
        build_features={"LINEAR_FEATURE": M},
    )
    assert traced_selection(unrun) == expected
    assert select(INDEX, KERNELS, [unrun], "traced") == expected


def test_static_is_the_closure_with_all_dtypes_of_the_reached_code() -> None:
    selection = static_selection(INDEX, KERNELS, [Op("aten::linear")], "m")
    assert selection == Selection(
        operators={Op("aten::add.Tensor"): M, Op("aten::linear"): M},
        root_operators=frozenset({Op("aten::linear")}),
        # a unit that is reached computes names of tags
        kernel_dtypes={"*": {"*": M}, "linear_tag": {"*": M}, "shared_tag": {"*": M}},
        custom_classes={"Prepacked": M},
        build_features={"LINEAR_FEATURE": M},
    )


def test_a_unit_that_computes_names_of_classes_asks_for_all() -> None:
    opened = [replace(unit, open_classes=unit.path == STUBS) for unit in UNITS]
    index = make_index(units=opened)
    selection = static_selection(
        index, registry(index, ["CPU"], DIALECT.keys), [Op("aten::linear")], "m"
    )
    assert selection.custom_classes == {"*": M}


def test_an_own_unit_with_a_method_that_never_ran_is_guarded() -> None:
    """As if the unit were the app's own: all that it may call, in all dtypes."""
    one = trace(root_operators=("aten::add.Tensor",), kernel_tags={}, build_features=())
    index = make_index(initialisers={LINEAR: ["linear_kernel"]})
    kernels = registry(index, ["CPU"], DIALECT.keys)
    assert select(index, kernels, [one], "guarded", {"n": {LINEAR}}).kernel_dtypes == {}
    for policy in ("guarded", "static"):
        selection = select(index, kernels, [one], policy, {"m": {LINEAR}})
        assert selection.root_operators == {"aten::add.Tensor"}
        assert selection.kernel_dtypes["linear_tag"] == {"*": M}
    assert select(index, kernels, [one], "traced", {"m": {LINEAR}}) == traced_selection(one)


def test_static_keeps_what_ran_besides() -> None:
    one = trace(called_operators={"toy::conv": 1}, root_operators=("aten::linear",))
    selection = select(INDEX, KERNELS, [one], "static")
    assert sorted(selection.operators) == ["aten::add.Tensor", "aten::linear", "toy::conv"]
    # the trace's dtype stays beside the closure's `*`: a reader can tell what really ran
    assert selection.kernel_dtypes["linear_tag"] == {"*": M, "Float": M}


def test_guarded_is_traced_where_every_root_ran() -> None:
    assert select(INDEX, KERNELS, [trace()], "guarded") == traced_selection(trace())


def test_guarded_closes_over_the_roots_that_never_ran() -> None:
    one = trace(root_operators=("aten::linear", "toy::conv"), called_operators={"aten::linear": 1})
    selection = select(INDEX, KERNELS, [one], "guarded")
    assert selection.guarded == {"toy::conv"}
    assert selection.root_operators == {"aten::linear", "toy::conv"}
    # linear ran without calling add, so add is not taken for it; conv's tags come with all dtypes
    assert sorted(selection.operators) == ["aten::linear", "toy::conv"]
    assert selection.kernel_dtypes == {
        "conv_tag": {"*": M},
        "linear_tag": {"Float": M},
        "shared_tag": {"*": M},
    }


def test_an_app_is_the_merge_of_its_models() -> None:
    selection = select(INDEX, KERNELS, [trace(), trace("n", kernel_tags={})], "guarded")
    assert selection.operators[Op("aten::linear")] == M | N
    assert selection.kernel_dtypes == {"linear_tag": {"Float": M}}


def test_no_traces_select_nothing() -> None:
    assert select(INDEX, KERNELS, [], "guarded") == Selection()


def test_everything_has_every_built_operator() -> None:
    selection = everything(INDEX, KERNELS)
    assert selection.everything
    assert sorted(selection.operators) == sorted(KERNELS.by_operator)


def test_what_an_app_adds_has_its_closure_whatever_the_policy() -> None:
    ran = trace(root_operators=("aten::add.Tensor",), called_operators={"aten::add.Tensor": 2})
    traced = select(INDEX, KERNELS, [ran], "traced")
    assert with_extra(INDEX, KERNELS, traced, []) == traced
    more = with_extra(INDEX, KERNELS, traced, [Op("aten::linear")])
    assert more == traced.merge(static_selection(INDEX, KERNELS, [Op("aten::linear")], EXTRA))
    # registered, as what models name: C++ code looks it up by name
    assert more.root_operators == {"aten::add.Tensor", "aten::linear"}
    assert more.kernel_dtypes["linear_tag"]["*"] == {EXTRA}


def test_what_no_input_can_reach_is_left_out() -> None:
    """By every policy; not where another model, a kernel or app.yaml asks for it."""
    one = trace(root_operators=("aten::add.Tensor",), unreachable_operators=("aten::linear",))
    policies: tuple[SelectionPolicy, ...] = ("traced", "guarded", "static")
    for policy in policies:
        found = select(INDEX, KERNELS, [one], policy)
        assert found.left_out == {"aten::linear": M}
        assert found.stubs == ("aten::linear",)
        assert "aten::linear" not in found.root_operators
    # a kernel that ran called it: it is in the library, and its name stays one of a stub
    assert "aten::linear" in found.operators
    both = found.merge(select(INDEX, KERNELS, [trace("n")], "traced"))
    assert (both.left_out, both.stubs) == ({"aten::linear": M}, ())
    assert with_extra(INDEX, KERNELS, found, [Op("aten::linear")]).stubs == ()
