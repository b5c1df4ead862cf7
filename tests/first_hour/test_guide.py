"""docs/guide/your-own-repository.md, done as it says: from an empty folder to two verified ABIs.

The page's `sh` blocks are run one after another in an empty folder, by the wheel that this checkout
builds; a block without a language behind one of them is what it prints, in which numbers and the
widths of columns are not compared. Objects come from the user's cache. What pip would get for the
wheel are this checkout's own installed packages: the rest is what a stranger does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from guide import rough

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guide/your-own-repository.md"
MODEL = ROOT / "apps/camera/models/classifier.ptl"
TOOLS = Path(sys.executable).parent
_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """Commands of the page, and what they print, where it says so."""

    commands: str
    output: str | None


def steps(page: str) -> list[Step]:
    """The page's commands, each block of them with the output behind it."""
    found: list[Step] = []
    for match in _BLOCK.finditer(page):
        if match["info"] == "sh":
            found.append(Step(match["body"], None))
        elif not match["info"]:
            assert found, "an output without commands"
            assert found[-1].output is None, "two outputs of one block"
            found[-1] = Step(found[-1].commands, match["body"])
    return found


def ran(commands: str, folder: Path, **env: str) -> str:
    """What commands print on stdout, in a shell that the first failure ends.

    Nothing leads Python to this checkout.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        ["sh", "-euc", commands],
        cwd=folder,
        env={**own, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{commands}{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built from a copy: setuptools leaves its own files behind."""
    return built_wheel(tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel"))


def built_wheel(source: Path, folder: Path) -> Path:
    """A release's wheel, as CONTRIBUTING.md builds it, from a copy in `source`."""
    for name in ("orchestrator", "schemas", "toolchains"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignore)
    for name in ("WORKSPACE", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    words = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--wheel-dir"]
    argv = [sys.executable, "-m", "pip", "wheel", *words, str(folder), str(source)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.iterdir()
    return file


def test_the_wheel_is_the_same_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    other, out = tmp_path / "another folder", tmp_path / "out"
    other.mkdir()
    out.mkdir()
    again = built_wheel(other, out)
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def borrow_dependencies(folder: Path) -> None:
    """Give a new .venv what pip would have fetched: the packages and programs of this one."""
    (site,) = (folder / ".venv/lib").glob("python*/site-packages")
    places = sorted({sysconfig.get_path(name) for name in ("purelib", "platlib")})
    (site / "borrowed.pth").write_text("".join(f"{place}\n" for place in places))
    (folder / ".venv/bin/ninja").symlink_to(TOOLS / "ninja")


def test_the_wheel_has_every_file(wheel: Path) -> None:
    """Those of linked folders too, with what the links lead to."""
    walk = os.walk(ROOT / "orchestrator", followlinks=True)
    wanted = {
        Path(folder, name).relative_to(ROOT).as_posix()
        for folder, _, names in walk
        for name in names
        if not folder.endswith("__pycache__")
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("orchestrator/")}
        assert archive.read("orchestrator/builtin/WORKSPACE") == (ROOT / "WORKSPACE").read_bytes()
    assert packed == wanted
    assert "orchestrator/builtin/toolchains/linux-x86_64.yaml" in packed


@pytest.mark.real
def test_the_guide(wheel: Path, tmp_path: Path) -> None:
    todo = steps(PAGE.read_text(encoding="utf-8"))
    install, *rest = todo
    env = {"ORCHESTRATOR": str(wheel), "MODEL": str(MODEL), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    ran(install.commands, tmp_path, PIP_NO_DEPS="1", PIP_NO_INDEX="1", **env)
    borrow_dependencies(tmp_path)
    where = "import orchestrator; print(orchestrator.__file__)"
    assert ran(f".venv/bin/python -c '{where}'", tmp_path).startswith(f"{tmp_path}/.venv/")
    for step in rest:
        printed = ran(step.commands, tmp_path, **env)
        assert rough(printed) == rough(step.output or ""), step.commands
    # what is in dist/ then, told by machines' answers
    report = json.loads(ran("./orchestrate verify --json", tmp_path))
    assert [
        (one["app"], one["abi"], [model["status"] for model in one["models"]])
        for one in report["variants"]
    ] == [("camera", "linux-arm64", ["ok"]), ("camera", "linux-x86_64", ["ok"])]
    for abi in ("linux-arm64", "linux-x86_64"):
        assert (tmp_path / f"dist/camera/{abi}/lib/libcamera_torch.so").is_file()


def test_what_is_compared() -> None:
    page = "```sh\na\n```\ntext\n```\nb  7\n```\n```yaml x\ny\n```\n```sh\nc\n```\n"
    assert steps(page) == [Step("a\n", "b  7\n"), Step("c\n", None)]
