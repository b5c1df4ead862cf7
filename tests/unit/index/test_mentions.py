"""What a unit's preprocessed text mentions: the forms that PyTorch's macros expand to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.index.mentions import Mentions, mentions_of

NOTHING = Mentions((), False, (), (), False, (), ())


def mentions(text: str) -> Mentions:
    return mentions_of(text)


def test_nothing() -> None:
    assert mentions("int main() { return 0; }") == NOTHING


@pytest.mark.parametrize(
    ("text", "tags", "open_tags"),
    [
        ('constexpr const char* at_dispatch_name = "add_stub"; (void)x;', ("add_stub",), False),
        ('at_dispatch_name="a";', ("a",), False),
        # literals are joined, as the compiler joins them
        ('at_dispatch_name = "slow_conv_" "dilated<>";', ("slow_conv_dilated<>",), False),
        ('at_dispatch_name =\n "two"\n "lines";', ("twolines",), False),
        (
            'at_dispatch_name = "b"; at_dispatch_name = "a"; at_dispatch_name = "b";',
            ("a", "b"),
            False,
        ),
        # a name that is computed needs the whole selection
        ("at_dispatch_name = name;", (), True),
        ('at_dispatch_name = upper ? "triu" : "tril";', (), True),
        ('at_dispatch_name = "a"; at_dispatch_name = f("b");', ("a",), True),
        ('at_dispatch_name = "";', ("",), False),
        # something else that ends alike
        ('not_at_dispatch_name = "a";', (), False),
    ],
)
def test_kernel_tags(text: str, tags: tuple[str, ...], open_tags: bool) -> None:
    found = mentions(text)
    assert (found.tags, found.open_tags) == (tags, open_tags)


def test_operators_by_name_and_by_schema() -> None:
    text = """
    m.impl(::torch::detail::SelectiveStr<c10::impl::op_allowlist_check("aten::add.Tensor")>(
        "aten::add.Tensor"), f);
    m.def(::torch::detail::SelectiveStr<c10::impl::schema_allowlist_check(
        "quantized::linear.dynamic(Tensor x, int[2] p=[0, 0]) -> (Tensor)")>("..."));
    op_allowlist_check( "aten::add.Tensor")
    schema_allowlist_check("aten::gt" ".int(int a, int b) -> bool")
    schema_allowlist_check("aten::eq"
        ".str" "(str a, str b=\\"(\\") -> bool")
    """
    assert mentions(text).operators == (
        "aten::add.Tensor",
        "aten::eq.str",
        "aten::gt.int",
        "quantized::linear.dynamic",
    )


def test_classes_features_and_promoted_operators() -> None:
    text = """
    custom_class_allowlist_check("quantized" "." "x"); custom_class_allowlist_check("Conv2dPacked")
    if (is_build_feature_available("PROTOBUF") && is_build_feature_available( "A"))
    static const prim_op_fn_register r1("prim::TupleIndex", tupleIndex), r2;
    mobile::prim_op_fn_register("aten::format", f);
    prim_op_fn_register op_reg_1("prim::Raise", raise);
    """
    found = mentions(text)
    assert found.features == ("A", "PROTOBUF")
    assert found.promoted == (("aten::format", "f"),)
    assert "Conv2dPacked" in found.classes


@pytest.mark.parametrize(
    ("argument", "opened"),
    [('"Conv2dPackedParamsBase"', False), ("name_of(kSpatialDim)", True), (' "A" ', False)],
)
def test_a_class_whose_name_is_computed(argument: str, opened: bool) -> None:
    check = f"c10::impl::custom_class_allowlist_check({argument})"
    assert mentions(f"torch::detail::SelectiveStr<{check}>({argument})").open_classes is opened


def test_the_macros_own_definitions_mention_nothing() -> None:
    text = """
    constexpr bool op_allowlist_check(string_view op_name) { return true; }
    constexpr bool schema_allowlist_check(string_view schema) {
      return op_allowlist_check(schema.substr(0, schema.find("(")));
    }
    constexpr bool is_build_feature_available(const char* name) { return true; }
    constexpr bool custom_class_allowlist_check(string_view custom_class_name) { return true; }
    struct prim_op_fn_register { prim_op_fn_register(const std::string& name, F f); };
    """
    assert mentions(text) == NOTHING


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcd"), max_size=5), st.lists(st.sampled_from("abcd"), max_size=5))
def test_names_are_sorted_and_told_once(tags: list[str], operators: list[str]) -> None:
    text = "".join(f'at_dispatch_name = "{tag}";\n' for tag in tags)
    text += "".join(f'op_allowlist_check("x::{name}");\n' for name in operators)
    found = mentions(text)
    assert found.tags == tuple(sorted(set(tags)))
    assert found.operators == tuple(sorted({f"x::{name}" for name in operators}))
