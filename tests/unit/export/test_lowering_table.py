"""What the table of lowerings says of PyTorch versions, held against their indices."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from orchestrator.build.workshop.offers import offers
from orchestrator.export.lowering_table import LOWERINGS, lowered_for
from orchestrator.values.operators import OperatorName

FUNCTIONS = Path(__file__).parents[3] / "orchestrator/export/decompositions.py"
OFFERS = {offer.version: offer.operators for offer in offers({}, ("CPU", "QuantizedCPU"))}


@pytest.mark.parametrize("operator", LOWERINGS)
def test_an_operator_is_lowered_where_it_is_not_there(operator: str) -> None:
    name = OperatorName.parse(operator)
    lacking = {version for version, operators in OFFERS.items() if name not in operators}
    assert {version for version in OFFERS if operator in lowered_for(version)} == lacking


def test_every_function_is_of_an_operator() -> None:
    tree = ast.parse(FUNCTIONS.read_text(encoding="utf-8"))
    functions = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
    assert sorted(name for name in functions if not name.startswith("_")) == sorted(
        one.becomes for one in LOWERINGS.values()
    )


def test_other_versions_lower_nothing() -> None:
    assert lowered_for("9.9.9") == frozenset()
