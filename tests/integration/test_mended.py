"""Inputs of known vulnerabilities, and of faults like them, in libraries that PyTorch's own code of
these versions crashes in: each is an error (`mended` in advisories.yaml; capi/checked_*.h).

The weights of a layer and the sizes of a packed sequence are arguments here, as they are in a model
that is made to be attacked; in others they are the model's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from crafted import NONE, Instruction, argument, method, model, number, operator, text
from driving import build_verified, call, tensor
from real import EACH_RUNTIME, orchestrator, workspace_copy

from orchestrator.load.advisories import OWN, read_advisories

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

FALSE = b"\x89"
# None, False, 0, 1, 0.0, -1 as constants.
CONSTANTS = (NONE, FALSE, number(0), number(1), number(0.0), number(-1))
NO, NOTHING, ONE, ZERO, NEVER = (
    ("LOADC", 1, 0),
    ("LOADC", 0, 0),
    ("LOADC", 3, 0),
    ("LOADC", 4, 0),
    5,
)
PAIR: Instruction = ("LIST_CONSTRUCT", 0, 2)


def given(*registers: int) -> list[Instruction]:
    return [("MOVE", register, 0) for register in registers]


def calling(name: str, arguments: int, results: int, body: list[Instruction]) -> bytes:
    """A model that calls an operator with what `body` puts onto the stack."""
    qualified, _, overload = name.partition(".")
    code = method(
        [
            ("STOREN", 1, 1 + arguments),
            *body,
            ("OP", 0, 0),
            ("TUPLE_CONSTRUCT", results, 0),
            ("RET", 0, 0),
        ],
        arguments=[argument(f"a{index}", "Tensor") for index in range(arguments)],
        operators=[operator(qualified, overload)],
        constants=CONSTANTS,
        types=[text("List[Tensor]")],
        registers=1 + arguments,
    )
    return model(code=code)


FLAGS: list[Instruction] = [NO, ONE, ZERO, NO, NO]
# x or data; h; c; the weights of the input and of the hidden state; sizes of batches are the last.
MODELS: Mapping[str, bytes] = {
    "cell": calling(
        "aten::lstm_cell", 5, 2, [*given(2, 3, 4), PAIR, *given(5, 6), NOTHING, NOTHING]
    ),
    "gated": calling("aten::gru_cell", 4, 1, [*given(2, 3, 4, 5), NOTHING, NOTHING]),
    "layer": calling(
        "aten::lstm.input", 5, 3, [*given(2, 3, 4), PAIR, *given(5, 6), PAIR, *FLAGS, NO]
    ),
    "packed": calling(
        "aten::lstm.data", 6, 3, [*given(2, 7, 3, 4), PAIR, *given(5, 6), PAIR, *FLAGS]
    ),
    "unpacked": calling(
        "aten::_pad_packed_sequence", 2, 2, [*given(2, 3), NO, ZERO, ("LOADC", NEVER, 0)]
    ),
}
ONES = {"shape": [3], "dtype": "int64", "fill": "randint", "low": 1, "high": 2}
# The shapes of arguments that are as they should be.
GOOD: Mapping[str, list[Any]] = {
    "cell": [[2, 8], [2, 9], [2, 9], [36, 8], [36, 9]],
    "gated": [[2, 8], [2, 9], [27, 8], [27, 9]],
    "layer": [[4, 2, 8], [1, 2, 9], [1, 2, 9], [36, 8], [36, 9]],
    "packed": [[3, 8], [1, 1, 9], [1, 1, 9], [36, 8], [36, 9], ONES],
    "unpacked": [[3, 2], ONES],
}


def shaped(*shape: int) -> dict[str, Any]:
    count = 1
    for size in shape:
        count *= size
    return tensor(*[0.5] * count, shape=list(shape))


def sizes(*values: int) -> dict[str, Any]:
    return tensor(*values, dtype="int64")


# An operator of each advisory that names some; no library has linalg_lu, which is LAPACK's.
REACHING = (
    "aten::_pad_packed_sequence",
    "aten::bitwise_right_shift.Tensor",
    "aten::lstm_cell",
    "aten::nan_to_num",
    "aten::pairwise_distance",
    "aten::rot90",
)
W = (shaped(36, 8), shaped(36, 9))
# What is wrong -> the model, and its arguments.
BAD: Mapping[str, tuple[str, list[dict[str, Any]]]] = {
    "CVE-2025-3001": (
        "cell",
        [shaped(0, 8), shaped(0, 9), shaped(0, 9), shaped(1, 8), shaped(1, 9)],
    ),
    "three gates for four": (
        "cell",
        [shaped(2, 8), shaped(2, 3), shaped(2, 3), shaped(5, 8), shaped(5, 3)],
    ),
    "one gate for three": ("gated", [shaped(2, 8), shaped(2, 9), shaped(1, 8), shaped(1, 9)]),
    "a layer's weights": (
        "layer",
        [shaped(4, 2, 8), shaped(1, 2, 9), shaped(1, 2, 9), shaped(1, 8), shaped(1, 9)],
    ),
    "fewer cell states": ("layer", [shaped(4, 2, 8), shaped(2, 2, 9), shaped(1, 2, 9), *W]),
    "no cell state": ("layer", [shaped(4, 2, 8), shaped(1, 2, 9), shaped(0, 2, 9), *W]),
    "no steps": ("packed", [shaped(3, 8), shaped(1, 1, 9), shaped(1, 1, 9), *W, sizes()]),
    "CVE-2025-2998 and CVE-2025-2999": ("unpacked", [shaped(3, 2), sizes(1, -100_000)]),
    "no batches": ("unpacked", [shaped(3, 2), sizes()]),
}


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app has all of the models; PyTorch's own kernels run them."""
    root = workspace_copy(tmp_path_factory.mktemp("mended"), runtime=request.param)
    app = root / "apps/mended"
    (app / "models").mkdir(parents=True)
    for name, data in MODELS.items():
        (app / f"models/{name}.ptl").write_bytes(data)
    declared = [
        {
            "file": f"models/{name}.ptl",
            "inputs": [{"args": [of if isinstance(of, dict) else random(of) for of in GOOD[name]]}],
        }
        for name in MODELS
    ]
    config = {"models": declared, "targets": ["linux-x86_64"], "kernels": "native"}
    (app / "app.yaml").write_text(yaml.safe_dump(config))
    traced = orchestrator("trace", "//apps/mended", "--quiet", cwd=root)
    assert traced.code == 0, traced.err
    build_verified(root)
    return root


def random(shape: list[int]) -> dict[str, Any]:
    return {"shape": shape, "fill": "uniform", "low": -1, "high": 1}


@pytest.mark.parametrize("wrong", BAD)
def test_an_input_that_crashed_is_an_error(workspace: Path, wrong: str) -> None:
    name, arguments = BAD[wrong]
    run = call(workspace, "mended", "forward", *arguments, model=name)
    assert run["error"]["code"] == "RUN_FAILED"


def test_no_advisory_is_missed_in_an_app_that_reaches_it(workspace: Path) -> None:
    """An app whose library has an operator of each that a model can call."""
    app = workspace / "apps/reaching"
    (app / "models").mkdir(parents=True)
    (app / "models/cell.ptl").write_bytes(MODELS["cell"])
    inputs = [{"args": [random(of) for of in GOOD["cell"]]}]
    config = {
        "models": [{"file": "models/cell.ptl", "inputs": inputs}],
        "targets": ["linux-x86_64"],
        "extra": dict.fromkeys(REACHING, "to be told of"),
    }
    (app / "app.yaml").write_text(yaml.safe_dump(config))
    traced = orchestrator("trace", "//apps/reaching", "--quiet", cwd=workspace)
    assert traced.code == 0, traced.err
    ran = orchestrator("advisories", "//apps/reaching", "--json", cwd=workspace)
    (told,) = json.loads(ran.out)["libraries"]
    reached = {name.partition(".")[0] for name in REACHING}
    named = {one.id: one for one in read_advisories(OWN) if one.operators}
    found = {one["id"]: one["verdict"] for one in told["advisories"] if one["id"] in named}
    assert found.pop("CVE-2025-55551") == "not present"
    for name, verdict in found.items():
        assert reached & {*named[name].operators}, name
        assert verdict == ("mended" if named[name].mended else "reachable"), name


def test_the_package_tells_what_was_mended(workspace: Path) -> None:
    delivered = workspace / "dist/mended/linux-x86_64"
    bill = json.loads((delivered / "share/doc/mended_libtorch/sbom.cdx.json").read_text())
    (pytorch,) = [one for one in bill["components"] if one["name"] == "PyTorch"]
    mended = {
        issue["id"]
        for patch in pytorch["pedigree"]["patches"]
        for issue in patch["resolves"]
        if (patch["type"], issue["type"]) == ("unofficial", "security")
    }
    wanted = {"CVE-2025-2998", "CVE-2025-2999", "CVE-2025-3001"}
    if pytorch["version"] == "1.13.1":
        wanted |= {"CVE-2024-31580", "CVE-2024-31583"}
    assert mended == wanted
    ran = orchestrator("advisories", "//apps/mended", "--json", cwd=workspace)
    (told,) = json.loads(ran.out)["libraries"]
    verdicts = {one["id"]: one["verdict"] for one in told["advisories"]}
    assert {name for name, verdict in verdicts.items() if verdict == "mended"} == wanted
    assert "reachable" not in verdicts.values()
