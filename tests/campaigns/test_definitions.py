"""What a variant compiles and generates defines all that it refers to, as the runtime index tells.

For every operator of the runtime alone and for random selections, with every policy, for tracers
and for variants: the rule of `tests/support/link_rule.py`. `test_links.py` links a sample for real.
"""

from __future__ import annotations

import random

import pytest
from harness import Campaign
from variants import every_operator, undefined

from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS

every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)

# Coprime with the number of operators: the first tries are operators of all kinds.
STRIDE = 1009


@every_dialect
def test_every_operator_alone(dialect: Dialect, campaign: Campaign) -> None:
    operators = every_operator(dialect)
    assert len(operators) % STRIDE
    for number, source in campaign.tries(short=40, long=len(operators)):
        name = operators[number * STRIDE % len(operators)]
        assert undefined([name], source, dialect) == [], (number, name)


@every_dialect
def test_random_selections(dialect: Dialect, campaign: Campaign) -> None:
    for number, source in campaign.tries(short=30, long=2_000):
        roots = random_roots(source, dialect)
        assert undefined(roots, source, dialect) == [], (number, roots)


def random_roots(source: random.Random, dialect: Dialect) -> list[str]:
    """1 to 30 operators."""
    return source.sample(every_operator(dialect), source.randint(1, 30))
