from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from orchestrator.verify.verdict import (
    Judge,
    RunnerResult,
    VerificationFailedError,
    VerifyResult,
    as_delivered,
    at_levels,
    in_layouts,
    lacking_in_layouts,
    levels_of_all,
    not_run,
    require_verified,
    verify,
    with_threads,
)


def result(*outputs: int, error: dict[str, Any] | None = None) -> dict[str, Any]:
    runs = [
        {"method": "forward", "index": i, "output": {"int": output}, "error": None}
        for i, output in enumerate(outputs)
    ]
    return {"runs": runs, "error": error}


def failing(index: int, error: dict[str, Any], *outputs: int) -> dict[str, Any]:
    seen = result(*outputs)
    seen["runs"][index].update(output=None, error=error)
    return seen


MISSING_DTYPE = {
    "code": "MISSING_DTYPE",
    "text": "dtype 'Half' not selected for kernel tag softmax",
    "kernel_tag": "softmax",
    "dtype": "Half",
}
MISSING_OPERATOR = {
    "code": "MISSING_OPERATOR",
    "text": "two operators are missing",
    "operators": ["aten::topk", "aten::sort"],
}


def test_a_model_that_differs_at_a_lower_cpu_level_fails() -> None:
    here = verify("m", result(1, 2), RunnerResult(0, result(1, 2)))
    assert at_levels(here, {"baseline": here}) == VerifyResult("m", "ok", 2, levels=("baseline",))
    there = verify("m", result(1, 2), RunnerResult(-4, None))
    found = at_levels(here, {"baseline": there})
    assert (found.status, *map(str, found.failures)) == (
        "failed",
        "m, at CPU level baseline: the model runner was killed by SIGILL",
    )


def test_small_outputs_of_every_run_are_compared_by_the_first_ones_rounding_error() -> None:
    def small(number: float) -> dict[str, Any]:
        data = base64.b64encode(struct.pack("<f", number)).decode()
        made = result(0)
        made["runs"][0]["output"] = {"tensor": {"dtype": "float32", "shape": [1], "data": data}}
        return made

    asked = []

    def nudged() -> dict[str, Any]:
        asked.append("nudged")
        return small(2.000001e-5)

    right = small(2e-5)
    verdict = Judge("m", right, right, nudged).verdict
    assert verdict(RunnerResult(0, right)).status == "ok"
    assert verdict(RunnerResult(-4, None)).status == "failed"
    assert asked == []
    assert verdict(RunnerResult(0, small(1.5e-5))).status == "failed"
    assert asked == ["nudged"]


def test_inputs_in_other_layouts_change_no_output() -> None:
    """A model may refuse them by itself: `view` takes no slice. What is lacking there is told."""
    here = verify("m", result(1, 2), RunnerResult(0, result(1, 2)))
    refused = failing(1, {"code": "RUN_FAILED", "text": "view takes no slice"}, 1, 2)
    there = verify("m", result(1, 2), RunnerResult(1, refused))
    assert in_layouts(here, {"part": there}) == here
    lacking = verify("m", result(1, 2), RunnerResult(1, failing(1, MISSING_DTYPE, 1, 2)))
    other = verify("m", result(1, 2), RunnerResult(0, result(1, 3)))
    found = in_layouts(here, {"part": lacking, "channels-last": other})
    assert [*lacking_in_layouts({"part": lacking, "channels-last": other})] == [
        "inputs that are parts of larger tensors (part) do not run: m, forward[1]: kernel `softmax`"
        " is not in this library for Half"
    ]
    assert (found.status, *map(str, found.failures)) == (
        "failed",
        "m, forward[1] with inputs that are parts of larger tensors (channels-last): output:"
        " value: expected 2, seen 3",
    )


def test_levels_that_a_processor_lacks_are_told() -> None:
    here = verify("m", result(1), RunnerResult(0, result(1)))
    found = at_levels(here, {"baseline": here}, ("avx512vnni",))
    assert (found.status, found.levels_not_run) == ("ok", ("avx512vnni",))


def test_a_librarys_levels_are_those_at_which_every_model_ran() -> None:
    levels = ("avx2", "avxvnni", "avx512vnni")
    one = VerifyResult("m", "ok", 1, levels_not_run=("avxvnni",))
    assert levels_of_all(levels, [one]) == (("baseline", "avx2", "avx512vnni"), ("avxvnni",))
    other = VerifyResult("n", "ok in part", 1, levels_not_run=("baseline", "avxvnni"))
    assert levels_of_all(levels, [one, other]) == (
        ("avx2", "avx512vnni"),
        ("baseline", "avxvnni"),
    )
    assert levels_of_all((), [VerifyResult("m", "ok", 1)]) == ((), ())
    assert levels_of_all(levels, [not_run("m", "no iOS here")]) == ((), ())


def test_a_model_that_differs_with_several_threads_fails() -> None:
    one = verify("m", result(1, 2), RunnerResult(0, result(1, 2)))
    assert with_threads(one, 4, one) == VerifyResult("m", "ok", 2, threads=(1, 4))
    found = with_threads(one, 2, verify("m", result(1, 2), RunnerResult(-11, None)))
    assert (found.status, found.threads, *map(str, found.failures)) == (
        "failed",
        (1, 2),
        "m, with 2 threads: the model runner was killed by SIGSEGV",
    )


def test_same_outputs_are_ok() -> None:
    assert verify("m", result(1, 2), RunnerResult(0, result(1, 2))) == VerifyResult("m", "ok", 2)


def test_outputs_that_prove_nothing_are_told() -> None:
    data = base64.b64encode(bytes(8)).decode()
    zeros = result(0)
    zeros["runs"][0]["output"] = {"tensor": {"dtype": "float32", "shape": [2], "data": data}}
    assert verify("m", zeros, RunnerResult(0, zeros)) == VerifyResult(
        "m", "ok", 1, flat=("forward output (all 0)",)
    )


def test_other_outputs_fail_with_their_place() -> None:
    seen = verify("m", result(1, 2), RunnerResult(0, result(1, 3)))
    assert seen.status == "failed"
    assert [str(failure) for failure in seen.failures] == [
        "m, forward[1]: output: value: expected 2, seen 3"
    ]
    assert seen.failures[0].code == "OTHER_OUTPUT"


def test_missing_operators_are_named() -> None:
    seen = verify("m", result(1), RunnerResult(1, result(error=MISSING_OPERATOR)))
    assert seen.failures[0].operators == ("aten::sort", "aten::topk")
    assert [str(failure) for failure in seen.failures] == [
        "m: not in this library: aten::sort, aten::topk"
    ]


def test_missing_dtype_is_named_with_its_kernel_and_run() -> None:
    seen = verify("m", result(1, 2), RunnerResult(1, failing(1, MISSING_DTYPE, 1, 2)))
    (failure,) = seen.failures
    assert (failure.kernel_tag, failure.dtype) == ("softmax", "Half")
    assert str(failure) == "m, forward[1]: kernel `softmax` is not in this library for Half"


def test_one_failing_run_does_not_hide_another() -> None:
    seen = verify("m", result(1, 2), RunnerResult(1, failing(1, MISSING_DTYPE, 7, 2)))
    assert [failure.run for failure in seen.failures] == ["forward[1]", "forward[0]"]


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (RunnerResult(-11, None), "m: the model runner was killed by SIGSEGV"),
        (RunnerResult(-99, None), "m: the model runner was killed by signal 99"),
        (RunnerResult(2, None, "driver: x: cannot be written\n"), None),
        (RunnerResult(3, result(1)), "m: the model runner exited with code 3"),
    ],
)
def test_a_crash_is_a_failure(run: RunnerResult, text: str | None) -> None:
    seen = verify("m", result(1), run)
    assert seen.status == "failed"
    expected = text or "m: the model runner exited with code 2: driver: x: cannot be written"
    assert [str(failure) for failure in seen.failures] == [expected]


def test_nothing_run_is_never_ok() -> None:
    seen = verify("m", result(), RunnerResult(0, result()))
    assert [str(failure) for failure in seen.failures] == ["m: no model was run"]


def test_fewer_runs_than_expected_fail() -> None:
    seen = verify("m", result(1, 2), RunnerResult(0, result(1)))
    assert [str(failure) for failure in seen.failures] == [
        "m: runs: expected forward[0], forward[1], seen forward[0]"
    ]


def test_what_cannot_run_here_is_not_ok() -> None:
    assert not_run("m", "no iOS here").status == "not run here"


def test_failures_become_one_error() -> None:
    good = verify("a", result(1), RunnerResult(0, result(1)))
    bad = verify("b", result(1), RunnerResult(1, result(error=MISSING_OPERATOR)))
    with pytest.raises(VerificationFailedError) as caught:
        require_verified("//apps/camera:linux-x86_64", [good, bad])
    assert caught.value.render() == (
        "error: verification of //apps/camera:linux-x86_64 failed\n"
        "  expected: the recorded outputs\n"
        "  seen:     b: not in this library: aten::sort, aten::topk\n"
        "  do:       trace again: ./orchestrate trace //apps/camera; if the error persists, the"
        " inputs do not reach all code: add inputs, or use `selection: static`\n"
        "  | b: not in this library: aten::sort, aten::topk"
    )


def test_a_processor_that_lacks_instructions_is_told() -> None:
    bad = verify("m", result(1), RunnerResult(-4, None))
    with pytest.raises(VerificationFailedError) as caught:
        require_verified("//apps/camera:linux-x86_64", [bad])
    assert caught.value.render() == (
        "error: verification of //apps/camera:linux-x86_64 failed\n"
        "  expected: the recorded outputs\n"
        "  seen:     m: the model runner was killed by SIGILL\n"
        "  do:       this processor does not have an instruction of the library, or a check of the"
        " compiler's stopped it: look for -march, -mcpu and -fsanitize in `compile_flags` of the"
        " toolchain\n"
        "  | m: the model runner was killed by SIGILL"
    )


def test_verified_variants_raise_nothing() -> None:
    require_verified("//apps/a:b", [VerifyResult("m", "ok", 1), not_run("n", "no iOS here")])


def test_a_delivered_file_that_gives_something_else() -> None:
    expected = result(1, 2)
    original = verify("net", expected, RunnerResult(0, result(1, 2)))
    same = as_delivered(original, verify("net", expected, RunnerResult(0, result(1, 2))))
    assert same == original
    other = as_delivered(original, verify("net", expected, RunnerResult(0, result(1, 3))))
    assert other.status == "failed"
    assert [failure.run for failure in other.failures] == ["forward[1] as it is delivered"]
