"""The first calls in the READMEs for Android and iOS: their texts, and Java that compiles without a
warning, whatever the model is called with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import package_toy as toy
import pytest
from golden_files import Golden
from test_sample import PREFIXES, TENSORS, call, model

from orchestrator.deliver.app_samples import is_called_in_swift, java_class, swift_function
from orchestrator.packagers.aar_java import find_java_compiler, java_sources
from orchestrator.values.methods import Input

SAMPLES = toy.GOLDEN / "samples"
ABIS = ("arm64-v8a",)
VALUES = (
    Input(kind="none"),
    Input(kind="bool", value=True),
    Input(kind="int", value=-(2**63) + 1),
    Input(kind="double", value=-1e300),
    Input(kind="string", value="100 %d {}'"),
    Input(
        kind="tuple",
        items=(
            Input(kind="list", items=(Input(kind="int", value=1),) * 2),
            Input(kind="tensor", dtype="bool", shape=()),
        ),
    ),
)
SIZES = tuple(Input(kind="tensor", dtype="int8", shape=shape) for shape in ((), (0, 3), (1,)))
MODELS = {
    "no_call": model(None),
    "no_arguments": model(call()),
    "every_dtype": model(call(*TENSORS)),
    "swift_dtypes": model(call(*(one for one in TENSORS if "float16" not in str(one.dtype)))),
    "sizes": model(call(*SIZES)),
    "names": model(call(*TENSORS[:5]), "int", "result", "images", "_", "Value"),
    "taken": model(call(*(TENSORS[0],) * 9), *PREFIXES),
    "values": model(call(*VALUES, method="other")),
}


@pytest.mark.parametrize("name", MODELS)
def test_java_compiles_without_a_warning(name: str, tmp_path: Path) -> None:
    compiler = find_java_compiler(os.environ)
    assert compiler is not None
    for file in java_sources("toy", "toy_torch", ABIS):
        path = tmp_path / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        assert isinstance(file.content, bytes)
        path.write_bytes(file.content)
    (tmp_path / "FirstCall.java").write_text(java_class(MODELS[name], "libtorch.toy"))
    flags = ("--release", "8", "-Xlint:all", "-Xlint:-options", "-Werror", "-proc:none")
    done = subprocess.run(
        [compiler.program, *flags, "-d", "out", "FirstCall.java", *tmp_path.rglob("toy/*.java")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", MODELS)
def test_the_texts(name: str, golden: Golden) -> None:
    golden(SAMPLES / f"{name}.java", java_class(MODELS[name], "libtorch.toy"))
    golden(SAMPLES / f"{name}.swift", swift_function(MODELS[name]))


def test_every_text_is_of_a_model() -> None:
    assert {path.stem for path in SAMPLES.iterdir()} == {*MODELS}


def test_swift_has_no_tensors_of_half_precision() -> None:
    assert [name for name, one in MODELS.items() if not is_called_in_swift(one)] == [
        *("no_call", "every_dtype")
    ]
