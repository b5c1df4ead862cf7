"""What processes do around a library: they set a locale, fork, and open and close it.

The models are made without torch (`layer_models.py`); `consumers/hosted.c` is the process.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from elftools.elf.elffile import ELFFile
from layer_models import Weight, layer_model
from native_runner import compile_consumer
from real import CONSUMERS, EACH_RUNTIME, orchestrator, workspace_copy

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
# Functions of the C library that read or write numbers by LC_NUMERIC.
BY_LOCALE: Final = {
    *("strtod", "strtof", "strtold", "atof", "wcstod", "wcstof", "wcstold", "localeconv"),
    *("nl_langinfo", "strfmon", "sscanf", "fscanf", "scanf", "vsscanf", "vfscanf", "swscanf"),
    *("printf", "fprintf", "sprintf", "snprintf", "vprintf", "vfprintf", "vsprintf", "vsnprintf"),
    *("asprintf", "vasprintf", "dprintf", "swprintf", "vswprintf"),
    *("__printf_chk", "__fprintf_chk", "__sprintf_chk", "__snprintf_chk", "__vfprintf_chk"),
    *("__vsnprintf_chk", "__vasprintf_chk", "__vsprintf_chk", "__asprintf_chk"),
}
# Why a library may have them.
ALLOWED: Final = {
    "snprintf": "libc++'s streams, in its own C locale (uselocale); whole numbers elsewhere",
    "vsnprintf": "libc++'s streams, in its own C locale (uselocale)",
    "__vsnprintf_chk": "libc++'s streams, in its own C locale (uselocale)",
    "vasprintf": "libc++'s streams, in its own C locale (uselocale)",
    "__vasprintf_chk": "libc++'s streams, in its own C locale (uselocale)",
    "fprintf": "messages without numbers that have a point, before the process ends",
    "vfprintf": "messages without numbers that have a point, before the process ends",
    "__vfprintf_chk": "messages without numbers that have a point, before the process ends",
}


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def delivered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = workspace_copy(tmp_path_factory.mktemp("hosts"), runtime=request.param)
    app = root / "apps/hosted"
    (app / "models").mkdir(parents=True)
    inputs = [{"args": [{"shape": [4], "fill": "normal"}]}]
    for name, (model, _) in MODELS.items():
        (app / f"models/{name}.ptl").write_bytes(model)
    declared = [{"file": f"models/{name}.ptl", "inputs": inputs} for name in MODELS]
    config = {"models": declared, "targets": ["linux-x86_64"], "threads": 2}
    (app / "app.yaml").write_text(yaml.safe_dump(config))
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//apps/hosted", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    return root / "dist/hosted/linux-x86_64"


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


def _hosted(program: Path, delivered: Path, *words: str, env: Mapping[str, str]) -> list[str]:
    argv = [str(program), str(delivered / "lib/libhosted_torch.so"), *words]
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
    with (delivered / "lib/libhosted_torch.so").open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".dynsym")
        wanted = {one.name for one in table.iter_symbols() if one["st_shndx"] == "SHN_UNDEF"}
    assert wanted & BY_LOCALE <= ALLOWED.keys()
    assert "setlocale" not in wanted


def test_a_child_of_fork_can_use_the_library(delivered: Path, program: Path) -> None:
    """While another thread loads and runs models."""
    model = _models(delivered)["rows"]
    told = _hosted(program, delivered, "fork", "300", model, env=os.environ)
    assert told == ["300 of 300 children ran, 0 hung"]


def test_little_stays_when_the_library_is_closed(delivered: Path, program: Path) -> None:
    """Over 300 times. What stays are PyTorch's single objects of its types, 16 bytes each, of those
    that a model has. And a fork calls nothing of what was unloaded."""
    model = _models(delivered)["rows"]
    gained, forked = _hosted(program, delivered, "reopen", "310", model, env=os.environ)
    assert int(gained) < 300 * 256
    assert forked == "forked"
