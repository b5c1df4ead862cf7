"""Models whose archives are so old that they mean something else by an operator.

Up to version 9, `aten::gelu` had no argument that says how exact it is (torch/csrc/jit/mobile/
upgrader_mobile.cpp, `gelu_0_9`); up to 3, `aten::div` of whole numbers gave one (`div_0_3`).
"""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from crafted import archive, argument, method, module, operator, pickled, text
from driving import build_verified, call, numbers, tensor
from real import EACH_RUNTIME, orchestrator, workspace_copy
from torch_python import torch_python

from orchestrator.models.info import NoBytecodeError, read_model
from orchestrator.pytorch.v2_6.dialect import DIALECT

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

OLD_MODELS = Path(__file__).parent / "old_models"
LIBRARY = "dist/{}/linux-x86_64/lib/lib{}_torch.so"
APP = """\
models:
  - file: models/bumps.ptl
    inputs:
      - args: [{shape: [4], fill: uniform, low: -3, high: 3, seed: 0}]
targets: [linux-x86_64]
"""


def bumps(version: int) -> bytes:
    """gelu(x), in an archive of this version."""
    code = method(
        (("STOREN", 1, 2), ("DROPR", 1, 0), ("MOVE", 2, 0), ("OP", 0, 0), ("RET", 0, 0)),
        arguments=[argument("x", "Tensor")],
        result="Tensor",
        operators=[operator("aten::gelu", "", 1)],
        registers=2,
    )
    return archive(
        {
            "data.pkl": module(),
            "version": f"{version}\n".encode(),
            "bytecode.pkl": code,
            "constants.pkl": pickled(b")"),
        }
    )


def declare(app: Path, version: int) -> None:
    (app / "models").mkdir(parents=True)
    (app / "models/bumps.ptl").write_bytes(bumps(version))
    (app / "app.yaml").write_text(APP)


@pytest.mark.parametrize("runtime", EACH_RUNTIME)
def test_a_library_has_upgraders_where_a_model_needs_them(runtime: str, tmp_path: Path) -> None:
    sizes = dict[int, int]()
    for version in (9, 10):
        folder = tmp_path / str(version)
        folder.mkdir()
        root = workspace_copy(folder, runtime=runtime)
        declare(root / "apps/old", version)
        ran = orchestrator("trace", "//apps/old", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
        build_verified(root)
        given = numbers(call(root, "old", "forward", tensor(1.0, -2.0))["output"])
        exact = [x / 2 * (1 + math.erf(x / math.sqrt(2))) for x in (1.0, -2.0)]
        assert given == pytest.approx(exact, rel=1e-5)
        sizes[version] = (root / LIBRARY.format("old", "old")).stat().st_size
    assert sizes[9] - sizes[10] > 10_000
    # the library that has none refuses the other model, and what does not run it does not say so
    declare(root / "apps/older", 9)
    assert orchestrator("trace", "//apps/older", cwd=root).code == 0
    fits = ("fits", "apps/older/models/bumps.ptl", "--in", "dist/old/linux-x86_64")
    ran = orchestrator(*fits, cwd=root)
    assert ran.code == 1
    assert "does not fit: it ran there, and failed\n  bumps: upgrader.index < " in ran.out
    ran = orchestrator(*fits, "--no-run", cwd=root)
    assert ran.code == 2
    assert "cannot tell: it means by aten::gelu what an earlier PyTorch did" in ran.out


HALVES = """\
class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    return torch.div(x, 2)
"""
# What the advice says, and what the model gives before and after.
FOLLOWED = """\
import sys, warnings
warnings.simplefilter("ignore")
import torch
from torch.jit.mobile import _load_for_lite_interpreter
module = torch.jit.load(sys.argv[1])
module._save_for_lite_interpreter(sys.argv[2])
for each in (module, _load_for_lite_interpreter(sys.argv[2])):
    print(each(torch.tensor([5, -7, 8])).tolist())
"""


@pytest.mark.parametrize(
    ("version", "halves"),
    [(2, [2, -3, 4]), (3, [2, -3, 4]), (4, [2.5, -3.5, 4.0]), (5, [2.5, -3.5, 4.0])],
)
def test_the_advice_about_torchscript_of_old_archives(
    version: int, halves: list[float], tmp_path: Path
) -> None:
    """Of torch 1.3 to 1.7: its operators mean what they meant then."""
    old, new = tmp_path / "old.pt", tmp_path / "new.ptl"
    data = b"c__torch__\nM\n)\x81}(" + text("training") + b"\x89ub"
    old.write_bytes(
        archive(
            {
                "version": f"{version}\n".encode(),
                "data.pkl": pickled(data),
                "constants.pkl": pickled(b")"),
                "code/__torch__.py": HALVES.encode(),
            }
        )
    )
    with pytest.raises(NoBytecodeError) as told:
        read_model(old, DIALECT.models)
    assert told.value.hint == (
        "torch.jit.load it and write it with module._save_for_lite_interpreter(path)"
    )
    argv = [torch_python(), "-c", FOLLOWED, str(old), str(new)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{halves}\n" * 2
    model = read_model(new, DIALECT.models)
    assert "aten::div" in {operator.qualified for operator in model.root_operators}


# x and y of each call: numbers with fractions, and whole ones.
X, Y = (1.0, 2.5, -7.25, 6.0, -9.5, 0.5), (2.0, -2.0, 3.0, 4.0, 2.0, -0.25)
M, N = (5, -7, 9, -9), (2, 2, -4, 4)
TRUE = [x / y for x, y in zip(X, Y, strict=True)]
TOWARDS_ZERO = [int(m / n) for m, n in zip(M, N, strict=True)]


def whole(*values: int) -> dict[str, Any]:
    return tensor(*values, dtype="int64")


@dataclass(frozen=True)
class Call:
    """A call of forward, and the values that it gives: what eager PyTorch of the model's own time
    gave. torch 2.13 gives the same."""

    arguments: tuple[dict[str, Any], ...]
    expected: Sequence[float]


FLOATS = (tensor(*X), tensor(*Y))
WHOLES = (whole(*M), whole(*N))
HALF, THREE, TWO = {"double": 2.5}, {"int": 3}, {"int": 2}
OLD: dict[str, list[Call]] = {
    "div_scalar_float_v2": [
        Call((FLOATS[0], HALF), [x / 2.5 for x in X]),
        Call((WHOLES[0], HALF), [m / 2.5 for m in M]),
    ],
    "div_scalar_inplace_float_v2": [Call((FLOATS[0], HALF), [x / 2.5 for x in X])],
    "div_scalar_inplace_int_v2": [
        Call((FLOATS[0], THREE), [x / 3 for x in X]),
        Call((WHOLES[0], TWO), [int(m / 2) for m in M]),
    ],
    "div_scalar_int_v2": [
        Call((FLOATS[0], THREE), [x / 3 for x in X]),
        Call((WHOLES[0], TWO), [int(m / 2) for m in M]),
    ],
    "div_scalar_reciprocal_float_v2": [Call((FLOATS[0], HALF), [2.5 / x for x in X])],
    "div_scalar_reciprocal_int_v2": [Call((FLOATS[0], THREE), [3 / x for x in X])],
    "div_tensor_inplace_v2": [Call(FLOATS, TRUE), Call(WHOLES, TOWARDS_ZERO)],
    "div_tensor_out_v2": [
        Call((*FLOATS, tensor(*X)), TRUE),
        Call((*WHOLES, whole(*M)), TOWARDS_ZERO),
    ],
    "gelu_out_v9": [Call((FLOATS[0],), [x / 2 * (1 + math.erf(x / math.sqrt(2))) for x in X])],
    "gelu_v9": [Call((FLOATS[0],), [x / 2 * (1 + math.erf(x / math.sqrt(2))) for x in X])],
    "script_module_v4": [Call((THREE,), [5.0] * 8)],
    "script_module_v6": [Call((THREE,), [5.0] * 8)],
    "sequence": [Call((FLOATS[0],), [x + 3 for x in X])],
}


@pytest.mark.parametrize("runtime", EACH_RUNTIME)
def test_models_of_2020_give_what_they_gave(runtime: str, tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, runtime=runtime)
    app = root / "apps/old"
    (app / "models").mkdir(parents=True)
    models = []
    for name, calls in OLD.items():
        shutil.copy(OLD_MODELS / f"{name}.ptl", app / "models")
        inputs = [{"args": [declared(one) for one in each.arguments]} for each in calls]
        models.append({"file": f"models/{name}.ptl", "inputs": inputs})
    (app / "app.yaml").write_text(yaml.safe_dump({"models": models, "targets": ["linux-x86_64"]}))
    ran = orchestrator("trace", "//apps/old", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    build_verified(root)
    for name, calls in OLD.items():
        for each in calls:
            given = call(root, "old", "forward", *each.arguments, model=name)["output"]
            assert numbers(given) == pytest.approx(each.expected, rel=1e-5, abs=1e-9), name


def declared(value: dict[str, Any]) -> Any:
    """A value of the driver's JSON as app.yaml declares one: of its kind and shape."""
    if "tensor" not in value:
        return value.get("int", value.get("double"))
    of = value["tensor"]
    if of["dtype"] == "int64":
        return {"shape": of["shape"], "dtype": "int64", "fill": "randint", "low": 1, "high": 9}
    return {"shape": of["shape"], "fill": "uniform", "low": 1, "high": 2}
