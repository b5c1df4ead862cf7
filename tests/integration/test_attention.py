"""Attention, and products with vectors, by our kernels: the same results as PyTorch's own.

`apps/attention/export.py` and `apps/vectors/export.py` beside this file write the models.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from driving import call, levels_told, numbers, tensor, traced_alone, verified
from real import EACH_RUNTIME, V2_6, orchestrator

pytestmark = pytest.mark.real

APPS = Path(__file__).parent / "apps"


def _built(app: str, folder: Path, runtime: str) -> Path:
    """A workspace whose only app is `app`, traced and built."""
    root, _ = traced_alone(APPS / app, folder, runtime)
    _build(root)
    return root


def _build(root: Path) -> None:
    ran = orchestrator("build", "--quiet", cwd=root)
    assert ran.code == 0, ran.err


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built("attention", tmp_path_factory.mktemp("attention"), V2_6)


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def vectors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built("vectors", tmp_path_factory.mktemp("vectors"), request.param)


def _features(root: Path, app: str) -> list[str]:
    file = root / "dist" / app / "linux-x86_64/manifest.json"
    kernels = json.loads(file.read_text())["kernels"]
    return [] if kernels is None else list(kernels["features"])


def _verified(root: Path, app: str, runs: int, more: str = "", flat: str = "") -> None:
    ran = orchestrator("verify", f"//apps/{app}", "--quiet", cwd=root)
    told = verified(app, app, runs, f"{levels_told('avx2')}{more}", flat)
    assert (ran.code, ran.err, ran.out) == (0, "", told)


def _random(rng: random.Random, *shape: int) -> dict[str, Any]:
    count = 1
    for size in shape:
        count *= size
    return tensor(*(rng.uniform(-1, 1) for _ in range(count)), shape=list(shape))


def _given(root: Path, app: str, method: str, *inputs: dict[str, Any]) -> list[list[float]]:
    """Of each of the results that are float32, which are all."""
    output = call(root, app, method, *inputs)["output"]
    return [numbers(item) for item in output["list"]]


def _without(root: Path, app: str, calls: list[tuple[str, list[dict[str, Any]]]]) -> Any:
    """What the app gives with its kernels, and then with `kernels: native`; it has none of them."""
    declared = root / "apps" / app / "app.yaml"
    before = declared.read_text()
    found = [_given(root, app, method, *inputs) for method, inputs in calls]
    declared.write_text(before + "kernels: native\n")
    _build(root)
    assert _features(root, app) == []
    native = [_given(root, app, method, *inputs) for method, inputs in calls]
    declared.write_text(before)
    _build(root)
    return found, native


def test_attention_is_that_of_pytorch_at_every_cpu_level(attention: Path) -> None:
    """With and without a mask, causal, of odd sizes, of what is no number, in other dtypes; and
    with threads."""
    _verified(attention, "attention", 10, ", with 1 and 2 threads", "masked output[11] (all 0)")
    assert {"attention", "attention_rows", "vectors"} <= {*_features(attention, "attention")}


@pytest.mark.ci_only
def test_attention_of_other_sizes(attention: Path) -> None:
    """Weights are below one, and so are values: 0.000002 for their sums."""
    rng = random.Random(0)
    calls = []
    for queries, keys in ((5, 3), (64, 64), (65, 513), (130, 40)):
        shapes = [(2, 3, rows, 32) for rows in (queries, keys, keys)]
        inputs = [_random(rng, *shape) for shape in shapes]
        calls.append(("forward", inputs))
        calls.append(("masked", [*inputs, _random(rng, 2, 3, queries, keys)]))
    for found, native in zip(*_without(attention, "attention", calls), strict=True):
        for one, other in zip(found, native, strict=True):
            assert one == pytest.approx(other, abs=2e-6)


def test_products_with_vectors_are_those_of_pytorch_at_every_cpu_level(vectors: Path) -> None:
    _verified(
        *(vectors, "vectors", 10),
        flat="forward output[16] (none), forward output[17] (all 0), pairs output[5] (all 0)",
    )
    assert "vectors" in _features(vectors, "vectors")


@pytest.mark.ci_only
def test_products_with_vectors_of_other_sizes(vectors: Path) -> None:
    """A sum of products of numbers below 1: 0.0000002 for each, on both sides, times two."""
    rng = random.Random(0)
    sizes = ((3, 3), (17, 64), (5, 2000), (2000, 5))
    calls = [("forward", [_random(rng, m, n), _random(rng, n), _random(rng, m)]) for m, n in sizes]
    for (m, n), found, native in zip(sizes, *_without(vectors, "vectors", calls), strict=True):
        for one, other in zip(found, native, strict=True):
            assert one == pytest.approx(other, abs=8e-7 * (max(m, n) + 1))
