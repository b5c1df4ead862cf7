"""What is told of other runtimes where a model names operators that its own does not have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from orchestrator.models.checks import UnknownOperatorError, check_operators
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.models.offers import Offer, advice, all_newer, offering, sorted_offers
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.operators import OperatorName

CASES = Path(__file__).parents[2] / "failing" / "models"
APP = "apps/translator/app.yaml"
ATTENTION = "aten::scaled_dot_product_attention"
MATMUL = (
    "write the attention with matmul and softmax; nn.TransformerEncoderLayer and"
    " nn.MultiheadAttention name the fused operator"
)


def names(*texts: str) -> frozenset[OperatorName]:
    return frozenset(OperatorName.parse(text) for text in texts)


@pytest.fixture
def model() -> ModelInfo:
    """It names the attention, and nothing else that is not in every runtime here."""
    return read_model(CASES / "unknown_attention/model.ptl", DIALECT.models, name="model.ptl")


def refused(
    info: ModelInfo, others: Iterable[Offer], version: str = "1.13.1", *, without: str = ATTENTION
) -> UnknownOperatorError:
    known = frozenset(info.root_operators) - names(*without.split())
    with pytest.raises(UnknownOperatorError) as caught:
        check_operators(info, known, version, others, APP)
    return caught.value


def test_a_pinned_runtime_that_has_it_is_named(model: ModelInfo) -> None:
    others = [Offer("2.6.0", ("pytorch_2_6", "spare"), names(ATTENTION))]
    assert refused(model, others).render() == (
        "model.ptl: error: this model names an operator newer than PyTorch 1.13.1\n"
        "  expected: operators of PyTorch 1.13.1\n"
        f"  seen:     {ATTENTION}\n"
        f"  do:       pytorch_2_6 has it: `runtime: pytorch_2_6` in {APP}; or {MATMUL}\n"
        f"  | {ATTENTION}: in PyTorch 2.6.0; none near\n"
        "  |   named in forward"
    )


def test_the_command_is_repeated_for_that_runtime() -> None:
    offers = [Offer("2.6.0", ("next",), names(ATTENTION))]
    command = "./orchestrate new-app x --model 'a b.ptl'"
    expected = f"next has it: {command} --runtime next"
    for typed in (command, f"{command} --runtime old"):
        assert advice(names(ATTENTION), offers, APP, typed) == expected


def test_a_version_that_is_not_pinned_is_named_after_those_that_are(model: ModelInfo) -> None:
    free = Offer("2.0.1", (), names(ATTENTION))
    error = refused(model, [free])
    assert error.hint == f"PyTorch 2.0.1 has it: pin it under `runtimes:` in WORKSPACE; or {MATMUL}"
    error = refused(model, [free, Offer("2.6.0", ("next",), names(ATTENTION))])
    assert error.hint == f"next has it: `runtime: next` in {APP}; or {MATMUL}"
    assert f"{ATTENTION}: in PyTorch 2.0.1 and PyTorch 2.6.0;" in (error.details or "")


def test_a_runtime_that_has_some_of_them_is_no_advice(model: ModelInfo) -> None:
    other = "aten::len.t"
    error = refused(
        model, [Offer("2.6.0", ("next",), names(ATTENTION))], without=f"{ATTENTION} {other}"
    )
    assert error.what == "this model names 2 operators that PyTorch 1.13.1 does not have"
    assert error.hint == MATMUL
    assert (error.details or "").splitlines()[::2] == [
        f"{other}: none near",
        f"{ATTENTION}: in PyTorch 2.6.0; none near",
    ]


def test_several_operators_of_one_newer_runtime(model: ModelInfo) -> None:
    both = f"{ATTENTION} aten::len.t"
    error = refused(model, [Offer("2.6.0", ("next",), names(*both.split()))], without=both)
    assert error.what == "this model names 2 operators newer than PyTorch 1.13.1"
    assert error.hint == f"next has them: `runtime: next` in {APP}; or {MATMUL}"


def test_an_older_runtime_that_has_it_is_not_called_newer(model: ModelInfo) -> None:
    gone = "aten::len.t"
    error = refused(model, [Offer("1.13.1", ("old",), names(gone))], "2.6.0", without=gone)
    assert error.what == "this model names an operator that PyTorch 2.6.0 does not have"
    # the general advice, to drop the branch or to pin a newer runtime, is not for this
    assert error.hint == f"old has it: `runtime: old` in {APP}"


def test_others_are_read_only_for_what_is_missing(model: ModelInfo) -> None:
    offer = Offer("2.6.0", (), frozenset())
    others = iter([offer])
    check_operators(model, frozenset(model.root_operators), "1.13.1", others, APP)
    assert [*others] == [offer], "nobody asked"


def test_versions_are_numbers() -> None:
    offers = [Offer(version, (), frozenset()) for version in ("2.10.0", "1.13.1", "2.6.0")]
    assert [one.version for one in sorted_offers(offers)] == ["1.13.1", "2.6.0", "2.10.0"]
    assert offers[0].newer_than("2.6.0")
    assert not offers[0].newer_than("2.10.0")


def test_newer_is_each_operator_for_itself() -> None:
    first, second = names("aten::a"), names("aten::b")
    offers = (Offer("2.0.0", (), first), Offer("2.1.0", (), second))
    assert all_newer(first | second, "1.13.1", offers)
    assert not all_newer(first | second, "2.0.0", offers)
    assert not all_newer(first, "1.13.1", ())
    assert offering(first | second, offers) == ()
    assert offering(second, offers) == offers[1:]


def test_what_canonical_replaces_is_told(model: ModelInfo) -> None:
    known = frozenset(model.root_operators) - names(ATTENTION)
    command = (
        "`canonical` replaces it by operators that are there: `canonical: static` for the model in"
        f" {APP}, then ./orchestrate canonical //apps/translator --write"
    )
    with pytest.raises(UnknownOperatorError) as caught:
        check_operators(model, known, "1.13.1", (), APP, {ATTENTION})
    assert caught.value.hint == command
    newer = [Offer("2.6.0", ("next",), names(ATTENTION))]
    with pytest.raises(UnknownOperatorError) as caught:
        check_operators(model, known, "1.13.1", newer, APP, {ATTENTION})
    assert caught.value.hint == f"next has it: `runtime: next` in {APP}; or {command}"


def test_where_one_is_not_replaced_there_is_no_such_advice(model: ModelInfo) -> None:
    known = frozenset(model.root_operators) - names(ATTENTION, "aten::len.t")
    with pytest.raises(UnknownOperatorError) as caught:
        check_operators(model, known, "1.13.1", (), APP, {ATTENTION})
    assert caught.value.hint == MATMUL
