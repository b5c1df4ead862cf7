"""The Java API for real, on the host's JVM: the AAR's Java and JNI sources, delivered libraries.

How they come together: `java_programs`.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from pathlib import Path

import crafted
import pytest
import zstandard
from java_programs import PROGRAMS, Programs
from real import ROOT, models_of
from test_app_samples import MODELS
from test_calls import taking

from orchestrator.deliver.app_samples import java_class
from orchestrator.deliver.manifest import ModelFact, read_manifest
from orchestrator.load.workspace import load_workspace
from orchestrator.packagers.aar_java import java_package
from orchestrator.values.methods import Call
from orchestrator.verify.compare import compare_results

pytestmark = pytest.mark.real

# what the class in the README prints, by app and model
FIRST_CALLS = {
    "assistant": {"replies": "Tensor(FLOAT32, [1, 96])"},
    "camera": {"classifier": "Tensor(FLOAT32, [1, 10])"},
    "inker": {
        "marks_of_pens": "Tensor(INT64, [40])",
        "outline": "Tensor(FLOAT32, [12, 4])",
        "strokes": "Tensor(FLOAT32, [1, 6])",
    },
    "keyboard": {"next_word": "Tensor(FLOAT32, [1, 800])"},
    "listener": {"words": "Tensor(FLOAT32, [1, 12])"},
    "reader": {
        "detector": "Value(TUPLE)",
        "recogniser": "Tensor(FLOAT32, [1, 24, 40])",
    },
    "scanner": {"pages": "Tensor(FLOAT32, [1, 4])"},
    "translator": {"sentences": "Value(TUPLE)"},
}
# what the class prints of a model that gives its last argument back, or a number
GIVEN_BACK = {
    "no_arguments": "Tensor(FLOAT64, [1])",
    "no_call": "forward() -> Any",
    "every_dtype": "Tensor(BFLOAT16, [2, 3])",
    "swift_dtypes": "Tensor(BOOL, [2, 3])",
    "sizes": "Tensor(INT8, [1])",
    "names": "Tensor(INT64, [2, 3])",
    "taken": "Tensor(UINT8, [2, 3])",
    "values": "Value(TUPLE)",
}
APPS = sorted(path.parent.name for path in ROOT.glob("apps/*/app.yaml"))


@pytest.mark.parametrize("app", APPS)
def test_the_models_give_what_was_recorded(programs: Programs, app: str) -> None:
    models = load_workspace(ROOT, os.environ).apps[app].config.models
    # Driver.java makes the calls that the file holds
    for model in (ROOT / "apps" / app / one.file for one in models if one.inputs == "bundled"):
        ran = programs.run([app], f"{java_package(app)}.Driver", model)
        assert (ran.returncode, ran.stderr) == (0, "")
        recorded = (ROOT / "apps" / app / "traces" / f"{model.stem}.runs.zst").read_bytes()
        expected = json.loads(zstandard.ZstdDecompressor().decompress(recorded))
        assert len(expected["runs"]) > 0
        assert compare_results(expected, json.loads(ran.stdout)) == []


def test_the_api_keeps_its_promises(programs: Programs) -> None:
    (model,) = models_of("camera")
    ran = programs.run(["camera"], "libtorch.camera.Checks", model)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (PROGRAMS / "expected.txt").read_text()


def test_a_device_that_the_library_is_not_made_for(programs: Programs) -> None:
    told = (
        "libcamera_torch_jni.so is not available on this device, whose ABIs are [amd64]; it is made"
        " for [arm64-v8a, x86_64] (Libtorch.isAvailable() tells it without an error): "
    )
    first = programs.run(["camera"], "libtorch.camera.Absent", natives=False)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith(told)
    assert first.stdout.endswith("\nfalse\n")
    # after it the virtual machine throws an error of its own, with that as its cause
    asked = programs.run(["camera"], "libtorch.camera.Absent", "first", natives=False)
    assert (asked.returncode, asked.stderr) == (0, "")
    before, cause, after = asked.stdout.splitlines()
    assert (before, after) == ("false", "false")
    assert told in cause


def test_two_apps_in_one_process(programs: Programs, tmp_path: Path) -> None:
    """Their libraries do not see each other, and int64 comes from Java."""
    (picture,), (words,) = models_of("camera"), models_of("keyboard")
    apps = ["camera", "keyboard"]
    programs.compile_beside(tmp_path, apps, PROGRAMS / "TwoApps.java")
    ran = programs.run(apps, "TwoApps", picture, words, beside=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    recorded = (ROOT / "apps/keyboard/traces/next_word.runs.zst").read_bytes()
    run = json.loads(zstandard.ZstdDecompressor().decompress(recorded))["runs"][0]
    expected = struct.unpack("<800f", base64.b64decode(run["output"]["tensor"]["data"]))
    seen = [float(number) for number in ran.stdout.split()]
    assert seen == pytest.approx(expected, rel=1e-4, abs=1e-5)


def first_call(folder: Path, programs: Programs, app: str, fact: ModelFact, model: Path) -> str:
    """What the class in a README prints, without a change to it."""
    folder.mkdir()
    sample = folder / "FirstCall.java"
    sample.write_text(java_class(fact, java_package(app)))
    programs.compile_beside(folder, [app], sample, PROGRAMS / "CallFirst.java")
    ran = programs.run([app], "CallFirst", model, beside=folder)
    assert (ran.returncode, ran.stderr) == (0, ""), fact.name
    return ran.stdout


@pytest.mark.parametrize("app", APPS)
def test_the_first_call_of_a_readme(
    built: Path, programs: Programs, app: str, tmp_path: Path
) -> None:
    models = load_workspace(ROOT, os.environ).apps[app].config.models
    files = {one.name: ROOT / "apps" / app / one.file for one in models}
    printed = {
        fact.name: first_call(tmp_path / fact.name, programs, app, fact, files[fact.name])
        for fact in read_manifest(built / app / "linux-x86_64").models
    }
    assert printed == {name: f"{line}\n" for name, line in FIRST_CALLS[app].items()}


@pytest.mark.parametrize("name", MODELS)
def test_first_calls_with_other_values(programs: Programs, name: str, tmp_path: Path) -> None:
    """Every dtype and every kind of value, against a model that takes anything."""
    fact = MODELS[name]
    given = fact.call.arguments if fact.call else ()
    if fact.call:
        fact = fact.model_copy(update={"call": Call(method="forward", arguments=given)})
    model = tmp_path / "any.ptl"
    names = [f"a{index}" for index, _ in enumerate(given)]
    model.write_bytes(taking(*((one, "Any") for one in names)) if names else crafted.model())
    printed = first_call(tmp_path / "java", programs, "camera", fact, model)
    assert printed == f"{GIVEN_BACK[name]}\n"
