"""What processes do around a library: they set a locale, fork, and open and close it.

The models are made without torch (`layer_models.py`); `consumers/hosted.c` is the process.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
import yaml
from crafted import argument, method
from crafted import model as written
from layer_models import Weight, layer_model
from locale_symbols import ALLOWED, BY_LOCALE, imported
from native_runner import compile_consumer
from real import CONSUMERS, EACH_RUNTIME, V2_6, orchestrator, workspace_copy
from test_verified_levels import emulator
from zig_tool import ARM_CC, HOST_CC, zig_environment

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

# With the defaults of their schemas, and what they give for -2, -0.75, 0.25, 0.75.
SLOPE: Final = (0.125 + 1 / 3) / 2
MODELS: Final[Mapping[str, tuple[bytes, tuple[float, ...]]]] = {
    "leaky": (layer_model("aten::leaky_relu", "x"), (-0.02, -0.0075, 0.25, 0.75)),
    "hard": (layer_model("aten::hardshrink", "x"), (-2, -0.75, 0, 0.75)),
    "soft": (layer_model("aten::softshrink", "x"), (-1.5, -0.25, 0, 0.25)),
    "random": (layer_model("aten::rrelu", "x"), (-2 * SLOPE, -0.75 * SLOPE, 0.25, 0.75)),
    "text": (layer_model("aten::Float.str", "0.5"), (0.5,)),
    "rows": (
        layer_model("aten::linear", "x", Weight((4, 4)), Weight((4,))),
        (),
    ),
}
# Of the model runner and the tracer, whose own thread has the C locale (driver.cpp).
OF_RUNNERS: Final = {*ALLOWED, "strtod"}
# Gives back its argument.
SAME: Final = written(
    code=method(
        [("STOREN", 1, 2), ("MOVE", 2, 0), ("RET", 0, 0)],
        arguments=[argument("value", "Any")],
        registers=2,
    )
)
# As a static initialiser of an app's own sources.
SETS_LOCALE: Final = """
#include <locale.h>
__attribute__((constructor)) static void set(void) { setlocale(LC_ALL, ""); }
"""


def built(folder: Path, runtime: str, abi: str) -> Path:
    """The delivered folder of an app with all models."""
    root = workspace_copy(folder, runtime=runtime)
    app = root / "apps/hosted"
    (app / "models").mkdir(parents=True)
    inputs = [{"args": [{"shape": [4], "fill": "normal"}]}]
    for name, (model, _) in MODELS.items():
        (app / f"models/{name}.ptl").write_bytes(model)
    declared = [{"file": f"models/{name}.ptl", "inputs": inputs} for name in MODELS]
    config = {"models": declared, "targets": [abi], "threads": 2}
    (app / "app.yaml").write_text(yaml.safe_dump(config))
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//apps/hosted", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    return root / "dist/hosted" / abi


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def delivered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("hosts"), request.param, "linux-x86_64")


@pytest.fixture(scope="module")
def program(delivered: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    return compile_consumer(CONSUMERS / "hosted.c", folder / "hosted", "hosted", delivered)


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """An environment whose locale writes 1,5."""
    folder = tmp_path_factory.mktemp("locales")
    argv = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}apt-get install locales"
    return {**os.environ, "LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8"}


def _models(delivered: Path) -> dict[str, str]:
    folder = delivered.parents[2] / "apps/hosted/models"
    return {name: str(folder / f"{name}.ptl") for name in MODELS}


def _hosted(
    program: Path,
    delivered: Path,
    *words: str,
    env: Mapping[str, str],
    prefix: Sequence[str] = (),
) -> list[str]:
    argv = [*prefix, str(program), str(delivered / "lib/libhosted_torch.so"), *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def _numbers(text: str) -> tuple[float, ...]:
    data = bytes.fromhex(text)
    return struct.unpack("<d" if len(data) == 8 else f"<{len(data) // 4}f", data)


@pytest.mark.parametrize(
    ("order", "point"), [("never", "1.5"), ("before", "1,5"), ("after", "1,5")]
)
def test_numbers_are_the_same_in_each_locale(
    delivered: Path, program: Path, german: Mapping[str, str], order: str, point: str
) -> None:
    """Whether a process sets it before it opens the library, or after."""
    some = {name: path for name, path in _models(delivered).items() if MODELS[name][1]}
    first, *told = _hosted(program, delivered, "locale", order, *some.values(), env=german)
    assert first == point
    for name, text in zip(some, told, strict=True):
        assert _numbers(text) == pytest.approx(MODELS[name][1]), name


def test_what_is_linked_obeys_no_locale(delivered: Path) -> None:
    """Of the library, which wheels and Java load too, and of what runs models here: the runner, the
    development library and its shards."""
    wanted = imported(delivered / "lib/libhosted_torch.so")
    assert wanted & BY_LOCALE <= ALLOWED.keys()
    assert "setlocale" not in wanted
    state = delivered.parents[2] / ".orchestrator"
    libraries = list(state.rglob("libdevelopment_*.so"))
    runners = [path for path in state.rglob("driver") if path.is_file()]
    assert len(libraries) >= 3
    assert len(runners) >= 2
    for path in (*libraries, *runners):
        wanted, allowed = imported(path), OF_RUNNERS if path in runners else ALLOWED.keys()
        assert wanted & BY_LOCALE <= allowed, path
        assert "setlocale" not in wanted, path


def test_a_runner_reads_and_writes_points_in_each_locale(
    delivered: Path, german: Mapping[str, str], tmp_path: Path
) -> None:
    """And its nudged inputs are the next floats."""
    source, setting = tmp_path / "set.c", tmp_path / "set.so"
    source.write_text(SETS_LOCALE)
    argv = [*HOST_CC, "-shared", "-fPIC", str(source), "-o", str(setting)]
    subprocess.run(argv, env=zig_environment(), check=True)
    files = {name: tmp_path / f"{name}.json" for name in ("inputs", "output")}
    numbers = struct.pack("<6f", 0.5, -3, 0, 1e-40, float("inf"), float("nan"))
    tensor = {"dtype": "float32", "shape": [6], "data": base64.b64encode(numbers).decode()}
    calls = [{"method": "forward", "args": [one]} for one in ({"double": 0.5}, {"tensor": tensor})]
    files["inputs"].write_text(json.dumps(calls))
    (tmp_path / "same.ptl").write_bytes(SAME)
    state = delivered.parents[2] / ".orchestrator/variants/hosted/linux-x86_64"
    argv = [str(state / "driver"), "--model", str(tmp_path / "same.ptl")]
    argv += [word for name, path in files.items() for word in (f"--{name}", str(path))]
    env = {**german, "LD_PRELOAD": str(setting), "LD_LIBRARY_PATH": str(delivered / "lib")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    double, same = json.loads(files["output"].read_text())["runs"]
    assert double["output"] == {"double": 0.5}
    assert same["output"]["tensor"]["data"] == tensor["data"]
    subprocess.run([*argv, "--layout", "nudged"], env=env, check=True)
    _, nudged = json.loads(files["output"].read_text())["runs"]
    data = base64.b64decode(nudged["output"]["tensor"]["data"])
    steps = [a - b for a, b in zip(*(struct.unpack("<6i", one) for one in (data, numbers)))]  # noqa: B905
    assert [abs(step) for step in steps] == [1, 1, 0, 1, 0, 0]


def test_a_child_of_fork_can_use_the_library(delivered: Path, program: Path) -> None:
    """While another thread loads and runs models."""
    model = _models(delivered)["rows"]
    told = _hosted(program, delivered, "fork", "300", model, env=os.environ)
    assert told == ["300 of 300 children ran, 0 hung"]


@pytest.mark.full_only
def test_numbers_and_forks_on_arm64(tmp_path: Path, german: Mapping[str, str]) -> None:
    """In an emulator."""
    there = built(tmp_path, V2_6, "linux-arm64")
    program = compile_consumer(CONSUMERS / "hosted.c", tmp_path / "hosted", "hosted", there, ARM_CC)
    models, prefix = _models(there), emulator()
    some = {name: path for name, path in models.items() if MODELS[name][1]}
    words = ("locale", "before", *some.values())
    _, *told = _hosted(program, there, *words, env=german, prefix=prefix)
    for name, text in zip(some, told, strict=True):
        assert _numbers(text) == pytest.approx(MODELS[name][1]), name
    words = ("fork", "60", models["rows"])
    told = _hosted(program, there, *words, env=os.environ, prefix=prefix)
    assert told == ["60 of 60 children ran, 0 hung"]


def test_little_stays_when_the_library_is_closed(delivered: Path, program: Path) -> None:
    """Over 300 times. What stays are PyTorch's single objects of its types, 16 bytes each, of those
    that a model has. And a fork calls nothing of what was unloaded."""
    model = _models(delivered)["rows"]
    gained, forked = _hosted(program, delivered, "reopen", "310", model, env=os.environ)
    assert int(gained) < 300 * 256
    assert forked == "forked"
