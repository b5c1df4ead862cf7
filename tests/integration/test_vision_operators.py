"""The operators of torchvision that an app switches on, in each runtime: what torchvision's own
kernels give (tests/golden/torchvision, which torchvision itself wrote) and what a slow reference
does, for well-formed arguments; an error, and no read outside of memory, for others."""

from __future__ import annotations

import base64
import json
import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from elementwise_models import Argument, Calls, Strided, model_of, packed, unpacked
from real import EACH_RUNTIME, orchestrator, workspace_copy
from vision_reference import Array, call

pytestmark = pytest.mark.real

CASES = json.loads(
    (Path(__file__).parents[1] / "golden/torchvision/cases.json").read_text(encoding="utf-8")
)["cases"]
APP, HOST = "vision", "linux-x86_64"
OPERATORS = ("deform_conv2d", "nms", "ps_roi_align", "roi_align")
TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "int32": 0, "int64": 0}
HUGE = 2**31 - 1


def tensor(dtype: str, shape: Sequence[int], elements: Sequence[float]) -> Strided:
    strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
    return Strided(dtype, packed(dtype, elements) or bytes(8), (*shape,), (*strides,))


def read(value: Any) -> Any:
    """An argument or a result of a case: an Array, or a plain value."""
    if not isinstance(value, dict):
        return value
    return Array(tuple(value["shape"]), unpacked(value["dtype"], base64.b64decode(value["data"])))


def argument(value: Any) -> Argument:
    if not isinstance(value, dict):
        found: Argument = value
        return found
    return tensor(value["dtype"], value["shape"], read(value).elements)


def differences(found: Array, expected: Array, tolerance: float) -> list[tuple[float, float]]:
    assert found.shape == expected.shape
    pairs = zip(found.elements, expected.elements, strict=True)
    return [
        (a, b)
        for a, b in pairs
        if not (math.isnan(a) and math.isnan(b)) and not abs(a - b) <= tolerance * max(1, abs(b))
    ]


def inputs_of(methods: Sequence[Calls]) -> list[dict[str, object]]:
    return [{"method": one.method, "args": list[object]()} for one in methods]


def write_app(root: Path, methods: Sequence[Calls], hostile: Sequence[Calls]) -> None:
    """An app whose model has all of these methods, and is traced with the first."""
    folder = root / "apps" / APP
    (folder / "models").mkdir(parents=True)
    (folder / "models/calls.ptl").write_bytes(model_of([*methods, *hostile]))
    config = {
        "models": [{"file": "models/calls.ptl", "inputs": inputs_of(methods)}],
        "targets": [HOST, "linux-arm64"],
        "sources": {"operators": [f"torchvision::{name}" for name in OPERATORS]},
    }
    (folder / "app.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def in_delivered(root: Path, methods: Sequence[Calls]) -> list[Mapping[str, Any]]:
    """Runs of methods in the delivered library."""
    inputs, output = root / "inputs.json", root / "output.json"
    inputs.write_text(json.dumps(inputs_of(methods)))
    driver = root / ".orchestrator/variants" / APP / HOST / "driver"
    argv = [str(driver), "--model", str(root / "apps" / APP / "models/calls.ptl")]
    argv += ["--inputs", str(inputs), "--output", str(output)]
    library = root / "dist" / APP / HOST / "lib"
    env = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    # 1: a run failed, as the output says
    assert done.returncode in (0, 1), done.stderr
    return list(json.loads(output.read_text())["runs"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["operator"])
def test_the_reference_gives_what_torchvision_does(case: Mapping[str, Any]) -> None:
    found = call(case["operator"], [*map(read, case["arguments"])])
    dtype = case["arguments"][0]["dtype"]
    for one, other in zip(found, case["results"], strict=True):
        # torchvision's float32 sums; a point that is just outside in float32 may be inside
        tolerance = 2e-4 if dtype == "float32" else 1e-10
        assert differences(one, read(other), tolerance) == []


IMAGE = tensor("float32", (1, 1, 2, 2), [1, 1, 1, 1])
EMPTY = tensor("float32", (1, 1, 0, 2), [])
WEIGHT = tensor("float32", (1, 1, 1, 1), [1])
STILL = tensor("float32", (1, 2, 2, 2), [0] * 8)
MASK = tensor("float32", (1, 1, 2, 2), [1] * 4)
BIAS = tensor("float32", (1,), [0])
NAN, INF = math.nan, math.inf


def region(*numbers: float) -> Strided:
    return tensor("float32", (1, 5), numbers)


WHOLE = region(0, 0, 0, 1, 1)


def aligned(image: Strided, rois: Strided, height: int = 1, width: int = 1, ratio: int = -1) -> Any:
    return "roi_align", (image, rois, 1.0, height, width, ratio, True)


def moved(*numbers: int, weight: Strided = WEIGHT, offset: Strided = STILL) -> Any:
    return "deform_conv2d", (IMAGE, weight, offset, MASK, BIAS, *numbers, True)


# What no detector asks for -> its elements, or the check that the error tells: builds for mobile
# leave messages out.
HOSTILE: Mapping[str, tuple[Any, list[float] | str]] = {
    "image after the last": (
        aligned(IMAGE, region(1, 0, 0, 1, 1)),
        "number > -1",
    ),
    "image before the first": (aligned(IMAGE, region(-1, 0, 0, 1, 1)), "number > -1"),
    "no image": (aligned(IMAGE, region(NAN, 0, 0, 1, 1)), "number > -1"),
    "no place": (aligned(IMAGE, region(0, NAN, 0, 1, 1)), [0]),
    "endless": (aligned(IMAGE, region(0, 0, 0, INF, 1)), "asked > static_cast<T>(kMostPoints"),
    "from afar": (aligned(IMAGE, region(0, -INF, 0, 1, 1), ratio=2), [0]),
    "too many bins": (aligned(IMAGE, WHOLE, HUGE, HUGE), "is_empty || fits"),
    "fewer than no bins": (aligned(IMAGE, WHOLE, -1), "value >= least"),
    "more bins than numbers": (aligned(IMAGE, WHOLE, 1, 2**40), "value >= least"),
    "too many points": (aligned(IMAGE, WHOLE, ratio=2**62), "asked > static_cast<T>(kMostPoints"),
    "an empty image": (aligned(EMPTY, WHOLE), "input.size(2) > 0"),
    "four numbers": (aligned(IMAGE, tensor("float32", (1, 4), [0] * 4)), "rois.size(1) == 5"),
    "other types": (
        aligned(IMAGE, tensor("float64", (1, 5), [0] * 5)),
        "scalar_type() == ",
    ),
    "integers": (
        aligned(tensor("int32", (1, 1, 1, 1), [1]), tensor("int32", (1, 5), [0] * 5)),
        "not implemented for 'Int'",
    ),
    "not enough channels": (
        ("ps_roi_align", (IMAGE, WHOLE, 1.0, 2, 1, 2)),
        "input.size(1) % bins == 0",
    ),
    "no bins": (("ps_roi_align", (IMAGE, WHOLE, 1.0, 0, 1, 2)), "bins > 0"),
    "as it should be": (moved(1, 1, 0, 0, 1, 1, 1, 1), [1] * 4),
    "moved to nowhere": (
        moved(1, 1, 0, 0, 1, 1, 1, 1, offset=tensor("float32", (1, 2, 2, 2), [NAN] * 8)),
        [0] * 4,
    ),
    "moved by too few": (
        moved(1, 1, 0, 0, 1, 1, 1, 1, offset=tensor("float32", (1, 1, 2, 2), [0] * 4)),
        "tensor.sizes() == ",
    ),
    "no stride": (moved(0, 1, 0, 0, 1, 1, 1, 1), "value >= least"),
    "far apart": (moved(1, 1, 0, 0, 2**40, 1, 1, 1), "value >= least"),
    "padded for ever": (moved(1, 1, HUGE, HUGE, 1, 1, 1, 1), "is_empty || fits"),
    "no groups": (moved(1, 1, 0, 0, 1, 1, 0, 1), "value >= least"),
    "no groups of offsets": (moved(1, 1, 0, 0, 1, 1, 1, 0), "value >= least"),
    "many groups": (moved(1, 1, 0, 0, 1, 1, HUGE, 1), "input.size(1) == weight.size(1) * groups"),
    "a kernel too large": (
        moved(1, 1, 0, 0, 1, 1, 1, 1, weight=tensor("float32", (1, 1, 3, 3), [1] * 9)),
        "left >= 0",
    ),
    "no boxes": (("nms", (tensor("float32", (0, 4), []), tensor("float32", (0,), []), 0.5)), []),
    "boxes of three": (
        ("nms", (tensor("float32", (1, 3), [0] * 3), tensor("float32", (1,), [0]), 0.5)),
        "dets.size(1) == 4",
    ),
    "too few scores": (
        ("nms", (tensor("float32", (2, 4), [0] * 8), tensor("float32", (1,), [0]), 0.5)),
        "dets.size(0) == scores.size(0)",
    ),
    "nothing but NaN": (
        ("nms", (tensor("float32", (2, 4), [NAN] * 8), tensor("float32", (2,), [NAN] * 2), 0.5)),
        [0, 1],
    ),
}


@pytest.mark.ci_only
@pytest.mark.parametrize("runtime", EACH_RUNTIME)
def test_an_app_has_torchvisions_results(runtime: str, tmp_path: Path) -> None:
    """In the development library, of the app and of the file alone, and in what is cut, verified
    and delivered for two processors."""
    root = workspace_copy(tmp_path, runtime=runtime)
    methods = [
        Calls(
            f"call_{number}",
            f"torchvision::{case['operator']}",
            (tuple(map(argument, case["arguments"])),),
            results=len(case["results"]),
        )
        for number, case in enumerate(CASES)
    ]
    hostile = [
        Calls(
            f"hostile_{number}",
            f"torchvision::{operator}",
            (arguments,),
            results=1 + (operator == "ps_roi_align"),
        )
        for number, ((operator, arguments), _) in enumerate(HOSTILE.values())
    ]
    write_app(root, methods, hostile)
    inputs = root / "inputs.json"
    inputs.write_text(json.dumps(inputs_of(methods)))
    ran_in_development = []
    for what in ([f"//apps/{APP}"], [f"apps/{APP}/models/calls.ptl", "--input", str(inputs)]):
        ran = orchestrator("run", *what, "--json", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
        (model,) = json.loads(ran.out)["models"]
        ran_in_development.append(model["runs"])
    for verb in ("trace", "build"):
        ran = orchestrator(verb, f"//apps/{APP}", "--json", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    assert [one["verified"] for one in json.loads(ran.out)["variants"]] == ["ok", "ok"]
    for runs in (*ran_in_development, in_delivered(root, methods)):
        for run, case in zip(runs, CASES, strict=True):
            assert run["error"] is None, (case["operator"], run["error"])
            for one, other in zip(run["output"]["tuple"], case["results"], strict=True):
                found = one["tensor"]
                assert found["dtype"] == other["dtype"]
                tolerance = TOLERANCE[found["dtype"]]
                assert differences(read(found), read(other), tolerance) == [], case["operator"]
    faults = {}
    for (name, (_, expected)), run in zip(
        HOSTILE.items(), in_delivered(root, hostile), strict=True
    ):
        error = run["error"]["text"] if run["error"] else ""
        found = error or read(run["output"]["tuple"][0]["tensor"]).elements
        if found != expected and not (isinstance(expected, str) and expected in error):
            faults[name] = found
    assert faults == {}
    manifest = json.loads((root / "dist" / APP / HOST / "manifest.json").read_text())
    selection = manifest["selection"]
    assert selection["root_operators"] == [f"torchvision::{name}" for name in OPERATORS]
    for name in OPERATORS:
        assert selection["kernel_dtypes"][f"torchvision_{name}"] == ["Double", "Float"]
