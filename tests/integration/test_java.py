"""The Java API for real, on the host's JVM: the AAR's Java and JNI sources, delivered libraries.

On Android the JNI objects are part of the app's library; here they are a library of their own
beside the delivered one, which is the same code over the same C API. The JVM checks every call of
JNI (`-Xcheck:jni`).
"""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import crafted
import pytest
import yaml
import zstandard
from real import ROOT, models_of
from test_app_samples import MODELS
from test_calls import taking

from orchestrator.compilers.resolve import compiler_environment
from orchestrator.deliver.app_samples import java_class
from orchestrator.deliver.files import File
from orchestrator.deliver.manifest import ModelFact, read_manifest
from orchestrator.load.workspace import load_workspace
from orchestrator.packagers.aar_java import (
    compile_java,
    find_java_compiler,
    java_package,
    java_sources,
)
from orchestrator.values.methods import Call
from orchestrator.verify.compare import compare_results

pytestmark = pytest.mark.real

NATIVE = ROOT / "orchestrator/native"
PROGRAMS = Path(__file__).parent / "consumers/java"
# what the class in the README prints, by app and model
FIRST_CALLS = {
    "assistant": {"spotter": "Tensor(FLOAT32, [1, 12])"},
    "camera": {"classifier": "Tensor(FLOAT32, [1, 10])"},
    "inker": {
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


def jni_library(folder: Path, app: str, delivered: Path) -> Path:
    """Our JNI sources as a library over an app's delivered one."""
    environment = compiler_environment(load_workspace(ROOT, os.environ).cache, os.environ)
    zig = [sys.executable, "-m", "ziglang", "c++", "-target", "x86_64-linux-gnu.2.28"]
    exports = folder / "exports.map"
    exports.write_text("{ global: JNI_OnLoad; local: *; };\n")
    package = java_package(app).replace(".", "/")
    objects = []
    for source in ("natives", "on_load"):
        objects.append(folder / f"{source}.o")
        flags = ["-std=gnu++17", "-Os", "-g0", "-fPIC", "-Wall", "-Wextra", "-Werror"]
        subprocess.run(
            [
                *(*zig, *flags, f'-DLTA_JNI_PACKAGE="{package}"', f"-I{NATIVE / 'capi'}"),
                *("-c", NATIVE / f"jni/{source}.cpp", "-o", objects[-1]),
            ],
            check=True,
            env=environment,
        )
    library = folder / f"lib{app}_torch_jni.so"
    subprocess.run(
        [
            *zig,
            *("-shared", f"-Wl,--version-script={exports}", "-Wl,-z,defs"),
            *objects,
            *(delivered / f"lib/lib{app}_torch.so", "-o", library),
        ],
        check=True,
        env=environment,
    )
    return library


def run_java(
    folder: Path,
    built: Path,
    apps: list[str],
    main: str,
    *arguments: str | Path,
    programs: tuple[Path, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Compiles the Java API of some apps with our programs, and runs the class `main`."""
    compiler = find_java_compiler(os.environ)
    assert compiler, "the Java API needs a JDK: apt-get install default-jdk-headless"
    sources = [File(program.name, program.read_bytes()) for program in programs]
    for app in apps:
        delivered = built / app / "linux-x86_64"
        jni_library(folder, app, delivered)
        sources += java_sources(app, f"{app}_torch_jni")
        for program in PROGRAMS.glob("each/*.java"):
            text = program.read_text().replace("libtorch.app", java_package(app))
            path = f"{java_package(app).replace('.', '/')}/{program.name}"
            sources.append(File(path, text.encode()))
    classes = folder / "classes"
    for file in compile_java(sources, compiler):
        (classes / file.path).parent.mkdir(parents=True, exist_ok=True)
        file.write(classes / file.path)
    libraries = os.pathsep.join(str(built / app / "linux-x86_64/lib") for app in apps)
    return subprocess.run(
        [
            str(Path(compiler.program).with_name("java")),
            *("-Xcheck:jni", f"-Djava.library.path={folder}"),
            # all of the heap from the start, so that what grows is native
            *("-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch"),
            *("-cp", str(classes), main, *map(str, arguments)),
        ],
        env={**os.environ, "LD_LIBRARY_PATH": libraries},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("app", APPS)
def test_the_models_give_what_was_recorded(built: Path, app: str, tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "apps" / app / "app.yaml").read_text())
    if any("inputs" in model for model in config["models"]):
        pytest.fail(f"{app} declares inputs: teach Driver.java to read them")
    for number, model in enumerate(models_of(app)):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran = run_java(folder, built, [app], f"{java_package(app)}.Driver", model)
        assert (ran.returncode, ran.stderr) == (0, "")
        recorded = (ROOT / "apps" / app / "traces" / f"{model.stem}.runs.zst").read_bytes()
        expected = json.loads(zstandard.ZstdDecompressor().decompress(recorded))
        assert len(expected["runs"]) > 0
        assert compare_results(expected, json.loads(ran.stdout)) == []


def test_the_api_keeps_its_promises(built: Path, tmp_path: Path) -> None:
    (model,) = models_of("camera")
    ran = run_java(tmp_path, built, ["camera"], "libtorch.camera.Checks", model)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (PROGRAMS / "expected.txt").read_text()


def test_two_apps_in_one_process(built: Path, tmp_path: Path) -> None:
    """Their libraries do not see each other, and int64 comes from Java."""
    (picture,), (words,) = models_of("camera"), models_of("keyboard")
    program = (PROGRAMS / "TwoApps.java",)
    apps = ["camera", "keyboard"]
    ran = run_java(tmp_path, built, apps, "TwoApps", picture, words, programs=program)
    assert (ran.returncode, ran.stderr) == (0, "")
    recorded = (ROOT / "apps/keyboard/traces/next_word.runs.zst").read_bytes()
    run = json.loads(zstandard.ZstdDecompressor().decompress(recorded))["runs"][0]
    expected = struct.unpack("<800f", base64.b64decode(run["output"]["tensor"]["data"]))
    seen = [float(number) for number in ran.stdout.split()]
    assert seen == pytest.approx(expected, rel=1e-4, abs=1e-5)


def first_call(folder: Path, built: Path, app: str, fact: ModelFact, model: Path) -> str:
    """What the class in a README prints, without a change to it."""
    folder.mkdir()
    sample = folder / "FirstCall.java"
    sample.write_text(java_class(fact, java_package(app)))
    programs = (sample, PROGRAMS / "CallFirst.java")
    ran = run_java(folder, built, [app], "CallFirst", model, programs=programs)
    assert (ran.returncode, ran.stderr) == (0, ""), fact.name
    return ran.stdout


@pytest.mark.parametrize("app", APPS)
def test_the_first_call_of_a_readme(built: Path, app: str, tmp_path: Path) -> None:
    files = {model.stem: model for model in models_of(app)}
    printed = {
        fact.name: first_call(tmp_path / fact.name, built, app, fact, files[fact.name])
        for fact in read_manifest(built / app / "linux-x86_64").models
    }
    assert printed == {name: f"{line}\n" for name, line in FIRST_CALLS[app].items()}


@pytest.mark.parametrize("name", MODELS)
def test_first_calls_with_other_values(built: Path, name: str, tmp_path: Path) -> None:
    """Every dtype and every kind of value, against a model that takes anything."""
    fact = MODELS[name]
    given = fact.call.arguments if fact.call else ()
    if fact.call:
        fact = fact.model_copy(update={"call": Call(method="forward", arguments=given)})
    model = tmp_path / "any.ptl"
    names = [f"a{index}" for index, _ in enumerate(given)]
    model.write_bytes(taking(*((one, "Any") for one in names)) if names else crafted.model())
    assert first_call(tmp_path / "java", built, "camera", fact, model) == f"{GIVEN_BACK[name]}\n"
