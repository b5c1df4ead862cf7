"""Layers of all geometries: what XNNPACK's kernels give is what PyTorch's own do, errors and all.

The app's library is built twice, with `kernels: auto` and `kernels: native`, from a layer of each
operator. Then it is given layers that no trace saw (`geometries.py`): impossible ones, empty ones,
sizes of 1, slices, pictures in channels-last order, and at each CPU level inputs that have a NaN or
an infinity. Inputs lie beside pages that nothing may touch (`consumers/geometry.c`).
"""

from __future__ import annotations

import array
import math
import os
import subprocess
from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice
from math import prod
from pathlib import Path

import pytest
import yaml
from cpu_levels import processor_levels
from geometries import Case, cases, samples
from layer_models import Weight
from native_runner import compile_consumer
from real import CONSUMERS, EACH_RUNTIME, orchestrator, workspace_copy
from test_verified_levels import emulator
from zig_tool import ARM_CC, HOST_CC

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

SEED, COUNT = 1, 150  # of four calls each; CASES and SEED in the environment for a campaign
TARGETS = ("linux-x86_64",)
# What PyTorch's kernels call for layers of other parameters than those that are traced, for images
# without pixels before they refuse them, and for vectors.
OTHERS = ("aten::slow_conv_dilated2d", "aten::mul.Tensor", "aten::mv")
# How the inputs of a case's calls lie in memory, by turns: see `consumers/geometry.c`.
LAYOUTS = ("", "c", "s", "", "e")


def layers_workspace(folder: Path, runtime: str, targets: Sequence[str] = TARGETS) -> Path:
    """A workspace with the same models in two apps, `auto` and `native`, traced and built."""
    root = workspace_copy(folder, runtime=runtime)
    for kernels in ("auto", "native"):
        models = root / "apps" / kernels / "models"
        models.mkdir(parents=True)
        declared = []
        for name, case in samples().items():
            (models / f"{name}.ptl").write_bytes(case.model())
            (shape,) = case.shapes
            inputs = [{"args": [{"shape": list(shape), "fill": "normal"}]}]
            declared.append({"file": f"models/{name}.ptl", "inputs": inputs})
        app = {
            "models": declared,
            "targets": list(targets),
            "kernels": kernels,
            "cpu": {"x86_64": ["avx2", "avx512"]},
            "extra": dict.fromkeys(OTHERS, "other parameters"),
        }
        (models.parent / "app.yaml").write_text(yaml.safe_dump(app))
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//...", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    return root


def called(
    program: Path, library: Path, lines: Sequence[str], *prefix: str, level: str = ""
) -> list[str]:
    """What came of each call; `signal` for those of a case that the process died in."""
    results: list[str] = []
    left = list(lines)
    env = {**os.environ, "LD_LIBRARY_PATH": str(library), "LTA_CPU_LEVEL": level}
    while left:
        done = subprocess.run(
            [*prefix, str(program)],
            input="\n".join(left) + "\n",
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        told = done.stdout.splitlines()
        while left and len(told) >= (calls := left[0].count(" ")):
            results += told[:calls]
            del told[:calls], left[0]
        if left:
            assert done.returncode != 0, done.stderr
            died = left.pop(0).count(" ") - len(told)
            results += [*told, *[f"signal {done.returncode}"] * died]
    return results


def difference(one: str, other: str) -> str | None:
    """What is not the same in two results: of numbers what float32 cannot explain."""
    if not (one.startswith("ran ") and other.startswith("ran ")):
        return None if one == other else "not the same end"
    (shape, data), (other_shape, other_data) = one.split(" ")[1:], other.split(" ")[1:]
    if shape != other_shape:
        return "another shape"
    left, right = (array.array("f", bytes.fromhex(each)) for each in (data, other_data))
    scale = max((abs(x) for x in right if math.isfinite(x)), default=0.0)
    pairs = zip(left, right, strict=True)
    apart = max((_distance(x, y) for x, y in pairs if x != y), default=0.0)
    return f"{apart} apart, of {scale}" if not apart <= 2e-5 * max(scale, 1e-3) else None


def _distance(one: float, other: float) -> float:
    if math.isnan(one) and math.isnan(other):
        return 0
    apart = abs(one - other)
    return math.inf if math.isnan(apart) else apart


def compared(
    root: Path,
    some: Sequence[Case],
    folder: Path,
    abi: str = TARGETS[0],
    compiler: Sequence[str] = HOST_CC,
    prefix: Sequence[str] = (),
) -> Iterator[str]:
    """The calls whose results are not the same in both libraries, and those that end a process.

    prefix: what the programs that the compiler makes run in
    """
    lines = []
    for number, case in enumerate(some):
        path = folder / f"{number}.ptl"
        path.write_bytes(case.model())
        shapes = (",".join(map(str, shape)) or "-" for shape in case.shapes)
        layouts = islice(cycle(LAYOUTS), number, None)
        lines.append(" ".join([str(path), *map("".join, zip(layouts, shapes, strict=False))]))
    results = []
    for app in ("auto", "native"):
        delivered = root / "dist" / app / abi
        program = compile_consumer(CONSUMERS / "geometry.c", folder / app, app, delivered, compiler)
        results.append(called(program, delivered / "lib", lines, *prefix))
    calls = [(case, shape) for case in some for shape in case.shapes]
    for (case, shape), one, other in zip(calls, *results, strict=True):
        yield from _told(f"{case.operator}{case.arguments} of {shape}", one, other)


def _told(call: str, one: str, other: str) -> Iterator[str]:
    crashed = "signal" in (one.split()[0], other.split()[0])
    differs = "a crash" if crashed else difference(one, other)
    if " MISSING_" in one + other:
        differs = "not in the library"
    if differs is not None:
        yield f"{call}: {differs}\n  {one[:200]}\n  {other[:200]}"


def with_special_numbers(some: Sequence[Case], folder: Path) -> Iterator[tuple[str, list[str]]]:
    """For each case a line, with a call for each of some elements of an input: the element is NaN
    or an infinity; and the calls' names."""
    for number, case in enumerate(some):
        path = folder / f"special{number}.ptl"
        path.write_bytes(case.model())
        shape = next((one for one in case.shapes if prod(one) > 0), (1,))
        elements = prod(shape)
        each = max(1, elements // 24)
        sizes = ",".join(map(str, shape)) or "-"
        places = [f"{'n+-'[at % 3]}{at}" for at in range(number % each, elements, each)]
        line = " ".join([str(path), *(f"{place}:{sizes}" for place in places)])
        yield line, [f"{case.operator}{case.arguments} of {shape}, {place}" for place in places]


def specials_compared(
    root: Path,
    some: Sequence[Case],
    folder: Path,
    levels: Sequence[str],
    abi: str = TARGETS[0],
    compiler: Sequence[str] = HOST_CC,
    prefix: Sequence[str] = (),
) -> Iterator[str]:
    """As `compared`, of inputs with a NaN or an infinity, at each CPU level."""
    lines, names = zip(*with_special_numbers(some, folder), strict=True)
    runs = []
    for app, of in (("native", ("",)), ("auto", levels)):
        delivered = root / "dist" / app / abi
        program = compile_consumer(CONSUMERS / "geometry.c", folder / app, app, delivered, compiler)
        runs += [called(program, delivered / "lib", lines, *prefix, level=level) for level in of]
    native, *others = runs
    for level, results in zip(levels, others, strict=True):
        for call, one, other in zip(chain(*names), results, native, strict=True):
            yield from _told(f"{level} {call}", one, other)


def is_winograd(case: Case) -> bool:
    """Whether PyTorch's own kernel on arm64 is Winograd's, where an infinity becomes NaN."""
    weights = [one.sizes for one in case.arguments if isinstance(one, Weight)]
    return any(sizes[1:] == (1, 3, 3) for sizes in weights)


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return layers_workspace(tmp_path_factory.mktemp("geometries"), request.param)


def test_geometries(workspace: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", SEED))
    some = list(islice(cases(seed, 10**9), int(os.environ.get("CASES", COUNT))))
    assert "\n".join(compared(workspace, some, tmp_path)) == ""


LEVELS = ("baseline", *(one for one in ("avx2", "avx512") if one in processor_levels()))


def test_nan_and_infinities_pass(workspace: Path, tmp_path: Path) -> None:
    """Each alone, in layers that have some weights of 0."""
    some = list(islice(cases(SEED, 10**9), int(os.environ.get("CASES", COUNT))))
    assert "\n".join(specials_compared(workspace, some, tmp_path, LEVELS)) == ""


@pytest.mark.full_only
@pytest.mark.parametrize("runtime", EACH_RUNTIME)
def test_geometries_on_arm64(runtime: str, tmp_path: Path) -> None:
    """In an emulator."""
    abi = "linux-arm64"
    root = layers_workspace(tmp_path, runtime, [abi])
    some = list(islice(cases(SEED, 10**9), int(os.environ.get("CASES", COUNT))))
    assert "\n".join(compared(root, some, tmp_path, abi, ARM_CC, emulator())) == ""
    some = [one for one in some if not is_winograd(one)]
    found = specials_compared(root, some, tmp_path, [""], abi, ARM_CC, emulator())
    assert "\n".join(found) == ""
