"""A model unlike the example apps: text, dictionaries, unrun branches, random numbers.

`apps/words/export.py` beside this file writes it. It is traced here, from nothing but its `.ptl`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from driving import call, flat_line, tensor, traced_alone
from real import orchestrator

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

WORDS = Path(__file__).parent / "apps" / "words"
RANDOM = "dream[0] output[1]"
FLAT = 'forward output["sum"] (all 3)'


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `words`, traced and built."""
    root, printed = traced_alone(WORDS, tmp_path_factory.mktemp("words"))
    assert printed.endswith(f"    compared by kind and shape only: {RANDOM}\n  {flat_line(FLAT)}")
    ran, covered = printed.splitlines()[-4:-2]
    never_ran = ran.partition("; never ran: ")[2].split(", ")
    assert {"aten::cumsum", "aten::sort", "aten::upper"} <= set(never_ran)
    assert covered.endswith("branches are left (./orchestrate coverage //apps/words)")
    return root


@pytest.fixture(scope="module")
def report(workspace: Path) -> dict[str, Any]:
    ran = orchestrator("build", "--json", "--quiet", cwd=workspace)
    assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    return dict(variant)


def text_list(*words: str) -> dict[str, Any]:
    return {"list": [{"string": word} for word in words], "element": "string"}


def test_random_outputs_are_told_and_never_just_ok(workspace: Path, report: dict[str, Any]) -> None:
    assert report["verified"] == "ok in part"
    for _ in range(2):
        ran = orchestrator("verify", "//apps/words", "--quiet", cwd=workspace)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == (
            "//apps/words:linux-x86_64 words: ok in part, 4 runs, also at CPU level baseline\n"
            f"  compared by kind and shape only: {RANDOM}\n{flat_line(FLAT)}"
        )


@pytest.mark.usefixtures("report")
def test_branches_that_no_input_took_run(workspace: Path) -> None:
    words, bias = text_list("b", "a-B"), {"dict": [[{"string": "bias"}, tensor(1, 2)]]}
    seen = call(workspace, "words", "forward", words, {"double": 0.5}, bias)["output"]["dict"]
    assert seen[2] == [{"string": "scaled"}, tensor(2.5, 7.5)]

    assert call(workspace, "words", "pick", tensor(1, -2, 3), {"int": 1})["output"] == tensor(
        3, 1, -2
    )
    assert call(workspace, "words", "pick", tensor(1, -2, 3), {"int": 2})["output"] == tensor(
        1, 0, 3
    )
    assert call(workspace, "words", "describe", {"int": 7}, {"string": "n"})["output"] == {
        "tuple": [
            {"string": "n=7"},
            {"string": "N"},
            {"dict": [[{"string": "half"}, {"double": 3.5}]]},
            {"list": [{"int": 3}, {"int": 1}]},
        ]
    }


@pytest.mark.usefixtures("report")
def test_an_exception_of_the_model_keeps_its_words(workspace: Path) -> None:
    bias = {"dict": [[{"string": "bias"}, tensor(1, 2)]]}
    run = call(workspace, "words", "forward", text_list(), {"none": True}, bias)
    assert run["output"] is None
    assert run["error"]["code"] == "RUN_FAILED"
    assert "there are no words" in run["error"]["text"]
