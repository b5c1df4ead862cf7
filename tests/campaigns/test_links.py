"""Selections are linked for real: a tracer, and a library for linux-x86_64 or linux-arm64.

Each is a model made by hand, in a workspace of its own, by the commands that a user runs: `trace`
links the tracer and loads the model in it, `build` links the library, and verifies it where this
machine can run it. `test_definitions.py` asks the same of the runtime index.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from driving import call, numbers, tensor
from hand_made import model
from harness import Campaign
from real import V1_13, V2_6, orchestrator, workspace_copy
from shipped_index import shipped_kernels
from variants import POLICIES

from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13.dialect import DIALECT as OLD
from orchestrator.pytorch.v2_6.dialect import DIALECT as NEW
from orchestrator.values.config.forms import SelectionPolicy

pytestmark = pytest.mark.real

X86_64, ARM64 = "linux-x86_64", "linux-arm64"
SQUARE = "{shape: [2, 2], fill: arange}"
# Registered with kernels that others have too.
TRANSPOSED = [f"quantized::conv_transpose{n}d" for n in (1, 2, 3)]


def linked(
    folder: Path,
    data: bytes,
    abi: str,
    *,
    takes: tuple[str, ...] = (SQUARE,),
    policy: SelectionPolicy = "guarded",
    runtime: str = V1_13,
) -> Path:
    """The workspace of an app with this one model, traced and built for the ABI."""
    root = workspace_copy(folder, runtime=runtime)
    app = root / "apps" / "made"
    (app / "models").mkdir(parents=True)
    (app / "models/made.ptl").write_bytes(data)
    (app / "app.yaml").write_text(
        f"models:\n  - file: models/made.ptl\n    inputs: [{{args: [{', '.join(takes)}]}}]\n"
        f"targets: [{abi}]\nselection: {policy}\n"
    )
    traced = orchestrator("trace", "//apps/made", "--quiet", cwd=root)
    assert traced.code == 0, traced.err
    built = orchestrator("build", f"//apps/made:{abi}", "--json", "--quiet", cwd=root)
    assert built.code == 0, built.err
    (variant,) = json.loads(built.out)["variants"]
    assert variant["verified"] == "ok" or abi == ARM64, variant
    return root


def test_a_kernel_calls_another_without_the_dispatcher(tmp_path: Path) -> None:
    """`mv` and nothing else: Blas.cpp calls at::cpu::mul_out where beta is not 1."""
    takes = (SQUARE, "{shape: [2], fill: ones}")
    root = linked(tmp_path, model([], takes=2, runs="aten::mv"), X86_64, takes=takes)
    run = call(root, "made", "forward", tensor(1, 2, 3, 4, shape=[2, 2]), tensor(5, 6))
    assert run["error"] is None, run
    assert numbers(run["output"]) == [17, 39]


def test_kernels_that_are_registered_twice(tmp_path: Path) -> None:
    linked(tmp_path, model(TRANSPOSED), X86_64)


def test_random_selections(campaign: Campaign, tmp_path: Path) -> None:
    every = {runtime: _selectable(dialect) for runtime, dialect in ((V1_13, OLD), (V2_6, NEW))}
    for number, source in campaign.tries(short=0, long=40):
        abi, runtime = (X86_64, ARM64)[number % 2], (V1_13, V2_6)[number // 2 % 2]
        names = source.sample(every[runtime], source.randint(1, 30))
        folder = tmp_path / str(number)
        folder.mkdir()
        linked(folder, model(names), abi, policy=policy_of(source), runtime=runtime)


def _selectable(dialect: Dialect) -> list[str]:
    """The operators that a model may name: one that names LAPACK's is refused."""
    kernels = shipped_kernels(("CPU", "QuantizedCPU"), dialect).by_operator
    refused = {*dialect.facts.lapack}
    return sorted(name for name in kernels if name.partition(".")[0] not in refused)


def policy_of(source: random.Random) -> SelectionPolicy:
    """Mostly `traced`: the others compile all dtypes of what never ran."""
    return source.choice(POLICIES) if source.random() < 0.4 else "traced"
