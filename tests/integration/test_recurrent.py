"""LSTMs, GRUs and their cells of a loaded model: the same results as PyTorch's own, at every level.

`apps/recurrent/export.py` beside this file writes the models: layers of all kinds, what is left to
PyTorch's kernels, and weights that are others in every run.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from driving import call, numbers, tensor, traced_alone, verified
from real import EACH_RUNTIME, orchestrator

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

RECURRENT = Path(__file__).parent / "apps" / "recurrent"
SHAPES = [(1, 1), (1, 5), (2, 3), (5, 2), (9, 1), (33, 4)]


def built(root: Path, more: str = "") -> list[str]:
    """The features of a library with these lines in its declaration."""
    declared = root / "apps/recurrent/app.yaml"
    before = declared.read_text()
    declared.write_text(before + more)
    ran = orchestrator("build", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    declared.write_text(before)
    manifest = json.loads((root / "dist/recurrent/linux-x86_64/manifest.json").read_text())
    return list(manifest["kernels"]["features"]) if manifest["kernels"] else []


def random_tensor(*shape: int, spread: float = 2) -> dict[str, Any]:
    rng = random.Random(repr(shape))
    count = 1
    for size in shape:
        count *= size
    return tensor(*(rng.uniform(-spread, spread) for _ in range(count)), shape=list(shape))


def of_all(root: Path) -> list[tuple[list[int], list[float]]]:
    """Shapes and numbers of what `layers` gives for sizes that no trace had."""
    found = []
    for steps, batch in SHAPES:
        x = random_tensor(steps, batch, 6)
        states = random_tensor(1, batch, 16), random_tensor(1, batch, 16, spread=1)
        for method, more in (("forward", ()), ("states", states), ("cells", ())):
            ran = call(root, "recurrent", method, x, *more, model="layers")
            for item in ran["output"]["list"]:
                found.append((list(item["tensor"]["shape"]), numbers(item)))
    return found


def refused(root: Path) -> list[dict[str, Any]]:
    """States of another size or number, and an input of another width."""
    x, state = random_tensor(2, 3, 6), random_tensor(1, 3, 16)
    given = [
        (x, random_tensor(1, 2, 16), state),
        (x, state, random_tensor(2, 3, 16)),
        (x, random_tensor(2, 3, 16), state),
        (x, random_tensor(1, 3, 15), random_tensor(1, 3, 15)),
        (random_tensor(2, 3, 5), state, state),
        (random_tensor(0, 3, 6), state, state),
        (random_tensor(6), state, state),
    ]
    return [call(root, "recurrent", "states", *one, model="layers")["error"] for one in given]


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `recurrent`, traced."""
    root, _ = traced_alone(RECURRENT, tmp_path_factory.mktemp("recurrent"), request.param)
    return root


def test_every_layer_gives_what_pytorch_gives(workspace: Path) -> None:
    """As traced with PyTorch's own kernels, at every CPU level, with and without threads; and, of
    sizes that no trace had, as a library with PyTorch's kernels alone."""
    features = built(workspace, "threads: 2\n")
    assert {"recurrent", "recurrent_steps", "rewrite"} <= set(features)
    declared = workspace / "apps/recurrent/app.yaml"
    before = declared.read_text()
    declared.write_text(before + "threads: 2\n")
    ran = orchestrator("verify", "//apps/recurrent", "--quiet", cwd=workspace)
    declared.write_text(before)
    said = "also at CPU level baseline, with 1 and 2 threads"
    assert (ran.code, ran.err, ran.out) == (
        0,
        "",
        verified("recurrent", "layers", 10, said, "states output[7] (all 0)")
        + "".join(
            verified("recurrent", model, runs, said)
            for model, runs in (("left", 1), ("changing", 2), ("written", 2))
        ),
    )
    many = random_tensor(2, 2500, 6)  # more multiplications than one thread is given
    ours, errors = of_all(workspace), refused(workspace)
    threaded = call(workspace, "recurrent", "steps", many, model="layers")["output"]
    assert built(workspace) == features
    alone = call(workspace, "recurrent", "steps", many, model="layers")["output"]
    assert alone == threaded
    assert built(workspace, "kernels: native\n") == []
    native = of_all(workspace)
    assert [shape for shape, _ in ours] == [shape for shape, _ in native]
    for (_, one), (_, other) in zip(ours, native, strict=True):
        assert one == pytest.approx(other, rel=1e-5, abs=2e-6)
    other = call(workspace, "recurrent", "steps", many, model="layers")["output"]
    assert numbers(alone) == pytest.approx(numbers(other), rel=1e-5, abs=2e-6)
    assert errors == refused(workspace)
    assert [one["code"] for one in errors] == ["RUN_FAILED"] * len(errors)
