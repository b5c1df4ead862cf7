"""The wheel of a real app: installed by pip into a clean environment, with numpy alone, and used.

What is asked of it there is in `wheel_checks.py`, which runs in that environment. pip gets numpy,
mypy and auditwheel from the package index that it is set up for.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest
from clean_python import NUMPY, environment, run
from real import ROOT, models_of, orchestrator, workspace_copy

from orchestrator.models.stripped import stripped
from orchestrator.trace.runs import runs_in

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

LABEL = "//apps/camera:linux-x86_64"
AUDITWHEEL = "auditwheel==6.8.2"
HERE = Path(__file__).parent
DECLARED = """
packages: [wheel, tar]
deliver_models: true
version: 1.2.0-rc1
"""


def declare(root: Path) -> None:
    with (root / "apps/camera/app.yaml").open("a") as file:
        file.write(DECLARED)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = workspace_copy(tmp_path_factory.mktemp("one"), "camera")
    declare(root)
    ran = orchestrator("build", LABEL, "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    return root


@pytest.fixture(scope="module")
def wheel(workspace: Path) -> Path:
    (path,) = (workspace / "dist/camera/packages").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("installed") / "venv", [wheel, NUMPY])


def test_two_folders_give_equal_wheels(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "another/depth").mkdir(parents=True)
    root = workspace_copy(tmp_path / "another/depth", "camera")
    declare(root)
    ran = orchestrator("build", LABEL, "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    second = root / "dist/camera/packages" / wheel.name
    assert second.read_bytes() == wheel.read_bytes()
    assert f"{wheel.name}\n" in (second.parent / "SHA256SUMS").read_text()


def test_pip_takes_it_as_it_is(python: Path) -> None:
    assert run(python, "-m", "pip", "check") == "No broken requirements found.\n"
    listed = json.loads(run(python, "-m", "pip", "list", "--format=json"))
    assert {one["name"]: one["version"] for one in listed}.keys() - {"pip", "setuptools"} == {
        "camera-libtorch",
        "numpy",
    }
    shown = run(python, "-m", "pip", "show", "--files", "camera-libtorch")
    assert "Version: 1.2.0rc1\n" in shown
    assert "Requires: numpy\n" in shown
    assert "  camera_libtorch/libcamera_torch.so\n" in shown


def test_the_sample_of_its_page_runs(python: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        page = archive.read(name).decode()
    (sample,) = re.findall("```python\n(.*?)```", page, re.DOTALL)
    assert run(python, "-c", f"{sample}print(result.shape)\n") == "(1, 10)\n"


def test_the_tag_is_what_auditwheel_says(wheel: Path, tmp_path: Path) -> None:
    """It names the oldest release with a name of its own that the library fits; ours may be older
    still, and never newer."""
    audited = environment(tmp_path / "venv", [AUDITWHEEL])
    report = json.loads(run(audited, "-m", "auditwheel", "show", "--json", wheel))
    found = json.dumps(report)
    assert "manylinux" in found, found
    (tag,) = [part for part in wheel.stem.split("-") if part.startswith("manylinux")]
    assert tag in found, (tag, found)


def test_every_file_is_as_recorded(wheel: Path, tmp_path: Path) -> None:
    """`wheel unpack` compares each with RECORD."""
    packed = environment(tmp_path / "venv", ["wheel"])
    run(packed, "-m", "wheel", "unpack", "--dest", tmp_path, wheel)
    assert (tmp_path / "camera_libtorch-1.2.0rc1/camera_libtorch/py.typed").is_file()


def test_it_is_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        models = sum(e.compress_size for e in archive.infolist() if e.filename.endswith(".ptl"))
    assert wheel.stat().st_size - models < 750_000


def check(python: Path, name: str, *arguments: str | Path) -> None:
    run(python, "-X", "faulthandler", "-W", "error", HERE / "wheel_checks.py", name, *arguments)


def test_it_gives_the_recorded_outputs(python: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs.json"
    recorded = runs_in(ROOT / "apps/camera/traces/classifier.runs.zst")
    runs.write_text(json.dumps(recorded))
    check(python, "the_recorded_outputs", runs)


def test_a_model_without_its_debug_records_runs_as_before(python: Path, tmp_path: Path) -> None:
    with_debug, without = tmp_path / "debug.ptl", tmp_path / "stripped.ptl"
    shutil.copy(models_of("camera")[0], with_debug)
    with zipfile.ZipFile(with_debug, "a") as archive:
        for name in ("code/__torch__.py.debug_pkl", "callstack_debug_map.pkl"):
            archive.writestr(f"classifier/{name}", b"lines")
    content = stripped(with_debug)
    assert content is not None
    assert content.count(b"debug") == 0
    without.write_bytes(content)
    check(python, "equal_results", models_of("camera")[0], without)


def test_what_is_refused_is_raised(python: Path, tmp_path: Path) -> None:
    (other,) = models_of("assistant")
    damaged = tmp_path / "damaged.ptl"
    damaged.write_bytes(models_of("camera")[0].read_bytes()[:9999])
    check(python, "errors", other, damaged)


@pytest.mark.parametrize(
    "name",
    [
        "the_package_tells_itself",
        "a_missing_dtype",
        "arguments_by_name",
        "values",
        "dtypes",
        "layouts",
        "memory",
        "threads",
        "paths",
    ],
)
def test_in_its_own_environment(name: str, python: Path) -> None:
    check(python, name)


def test_it_is_typed(python: Path, tmp_path: Path) -> None:
    """Strictly: the package itself, and a program that uses it."""
    folder = tmp_path / "venv"
    shutil.copytree(python.parents[1], folder, symlinks=True)
    mypy = f"mypy=={importlib.metadata.version('mypy')}"
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--prefix", folder, mypy)
    program = tmp_path / "program.py"
    program.write_text(
        "import camera_libtorch\n"
        "import numpy as np\n"
        "model: camera_libtorch.Model = camera_libtorch.load('classifier')\n"
        "method: camera_libtorch.Method = model.forward\n"
        "scores = model(np.zeros((1, 3, 96, 96), np.float32))\n"
        "try:\n"
        "    method(1)\n"
        "except camera_libtorch.MissingOperatorError as error:\n"
        "    names: tuple[str, ...] = error.operators\n"
    )
    command = (folder / "bin/python", "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache")
    for checked in ((program,), ("-p", "camera_libtorch")):
        assert run(*command, *checked, cwd=tmp_path).startswith("Success: no issues found")
