"""A call of a model on the command line."""

from __future__ import annotations

import pytest

from orchestrator.errors import OrchestratorError
from orchestrator.load.inputs import parse_run


def test_a_call() -> None:
    run = parse_run("{method: embed, args: [{shape: [1, 3], fill: ones}, 2]}", "--input")
    assert (run.method, len(run.args), run.args[1]) == ("embed", 2, 2)


def test_a_list_is_the_arguments_of_forward() -> None:
    run = parse_run("[1, 0.5]", "--input")
    assert (run.method, run.args) == ("forward", (1, 0.5))


def test_a_fault_has_a_place() -> None:
    with pytest.raises(OrchestratorError) as caught:
        parse_run("[{shape: [1]}]", "--input")
    assert caught.value.render() == (
        "--input:1:9: error: key `fill` is missing\n"
        "  expected: zeros, ones, arange, uniform, normal or randint\n"
        "  do:       add `fill: ...` here"
    )
