"""What a variant compiles and generates defines all that it refers to, as the runtime index tells.

For every operator of the runtime alone and for random selections, with every policy, for tracers
and for variants: the rule of `tests/support/link_rule.py`. `test_links.py` links a sample for real.
"""

from __future__ import annotations

import random

from harness import Campaign
from variants import every_operator, undefined

# Coprime with the number of operators: the first tries are operators of all kinds.
STRIDE = 1009


def test_every_operator_alone(campaign: Campaign) -> None:
    operators = every_operator()
    assert len(operators) % STRIDE
    for number, source in campaign.tries(short=40, long=len(operators)):
        name = operators[number * STRIDE % len(operators)]
        assert undefined([name], source) == [], (number, name)


def test_random_selections(campaign: Campaign) -> None:
    for number, source in campaign.tries(short=30, long=2_000):
        roots = random_roots(source)
        assert undefined(roots, source) == [], (number, roots)


def random_roots(source: random.Random) -> list[str]:
    """1 to 30 operators."""
    return source.sample(every_operator(), source.randint(1, 30))
