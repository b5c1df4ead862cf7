"""Operator names: parsed once, printed back the same, ordered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.values.operators import MalformedOperatorNameError, OperatorName

IDENTIFIERS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("aten::add.Tensor", ("aten", "add", "Tensor")),
        ("aten::relu", ("aten", "relu", "")),
        ("aten::__and__.Tensor", ("aten", "__and__", "Tensor")),
        ("prim::TupleUnpack", ("prim", "TupleUnpack", "")),
        ("quantized::linear_dynamic", ("quantized", "linear_dynamic", "")),
    ],
)
def test_parse(text: str, parts: tuple[str, str, str]) -> None:
    name = OperatorName.parse(text)
    assert (name.namespace, name.name, name.overload) == parts
    assert str(name) == text


@given(IDENTIFIERS, IDENTIFIERS, st.just("") | IDENTIFIERS)
def test_round_trip(namespace: str, name: str, overload: str) -> None:
    value = OperatorName.of(f"{namespace}::{name}", overload)
    assert (value.namespace, value.name, value.overload) == (namespace, name, overload)
    assert OperatorName.parse(value) == value
    assert OperatorName.of(value.qualified, overload) == value


@pytest.mark.parametrize(
    "text", ["", "add", "aten::", "::add", "aten::add.", "aten::add.Tensor.out", "aten::a b", "a:b"]
)
def test_malformed(text: str) -> None:
    with pytest.raises(MalformedOperatorNameError) as caught:
        OperatorName.parse(text)
    assert caught.value.render() == (
        "error: this is not the name of an operator\n"
        "  expected: namespace::name or namespace::name.overload, such as aten::add.Tensor\n"
        f"  seen:     {text!r}"
    )


def test_order_is_that_of_the_text() -> None:
    texts = ["aten::add", "aten::add.Scalar", "aten::add.Tensor", "aten::add_.Tensor", "prim::x"]
    assert [str(name) for name in sorted(map(OperatorName.parse, reversed(texts)))] == texts
