"""What `watch` says of two runs."""

from __future__ import annotations

from typing import Any

from test_run_report import tensor

from orchestrator.report.watch import compare_runs


def result(output: Any, *operators: str, argument: int = 1) -> dict[str, Any]:
    run = {"method": "forward", "index": 0, "args": [{"int": argument}], "output": output}
    return {
        "runs": [{**run, "error": None, "microseconds": None}],
        "operators": {name: {"calls": 1, "microseconds": 1.0} for name in operators},
    }


def test_the_same() -> None:
    one = result(tensor("float32", "f", 1, 2), "aten::relu")
    assert compare_runs(one, one).text() == (
        "  against the run before:\n    outputs are equal\n    the same operators ran\n"
    )


def test_what_is_nearly_the_same_is_told_with_the_largest_difference() -> None:
    """Where a verdict has a tolerance: two exports of one training are to be told apart."""
    before = result({"tuple": [{"int": 1}, tensor("float32", "f", 1, 2, 3)]}, "aten::relu")
    now = result({"tuple": [{"int": 1}, tensor("float32", "f", 1, 2.0000002, 3.25)]}, "aten::gcd")
    assert compare_runs(before, now).text() == (
        "  against the run before:\n"
        "    forward[0] output[1][2]: value 3.0 before, 3.25 now, at most 0.25 apart\n"
        "    + aten::gcd\n"
        "    - aten::relu\n"
    )
    now = result({"tuple": [{"int": 1}, tensor("float32", "f", 1, 2.0000002, 3)]})
    assert "at most 2.38e-07 apart" in compare_runs(before, now).text()


def test_other_shapes_and_kinds() -> None:
    text = compare_runs(result({"int": 1}), result(tensor("float32", "f", 1))).text()
    assert "    forward[0] output: kind int before, tensor now\n" in text
    text = compare_runs(result(tensor("float32", "f", 1)), result(tensor("int8", "b", 1))).text()
    assert "    forward[0] output: dtype float32 before, int8 now\n" in text


def test_outputs_of_other_inputs_are_not_compared() -> None:
    found = compare_runs(result({"int": 1}), result({"int": 2}, argument=2))
    assert not found.differences
    assert "    other inputs: outputs are not compared\n" in found.text()


def test_many_differences_are_counted() -> None:
    lists = [{"list": [{"int": number + more} for number in range(9)]} for more in (0, 1)]
    text = compare_runs(result(lists[0]), result(lists[1])).text()
    assert text.count(" before, ") == 6
    assert "    and 3 other differences\n" in text


def test_control_characters_of_a_model_do_not_reach_the_terminal() -> None:
    text = compare_runs(
        result({"string": "a"}), result({"string": "\x1b[2J"}, "app::\x1b[2J")
    ).text()
    assert "\x1b" not in text
