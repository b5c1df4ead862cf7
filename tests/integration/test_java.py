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
from dataclasses import dataclass, field
from pathlib import Path

import crafted
import pytest
import yaml
import zstandard
from real import ROOT, models_of
from test_app_samples import MODELS
from test_calls import taking
from zig_tool import zig

from orchestrator.deliver.app_samples import java_class
from orchestrator.deliver.files import File
from orchestrator.deliver.manifest import ModelFact, read_manifest
from orchestrator.packagers.aar_java import (
    JavaCompiler,
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
JAVA_FLAGS = ("--release", "8", "-Xlint:all", "-Xlint:-options", "-Werror", "-proc:none")
# what the class in the README prints, by app and model
FIRST_CALLS = {
    "assistant": {"replies": "Tensor(FLOAT32, [1, 96])"},
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


def compile_jni(source: str, target: Path, *flags: str) -> Path:
    """A JNI source as an object."""
    zig(
        *("c++", "-std=gnu++17", "-Os", "-g0", "-fPIC", "-Wall", "-Wextra", "-Werror", *flags),
        *(f"-I{NATIVE / 'capi'}", "-c", NATIVE / f"jni/{source}.cpp", "-o", target),
    )
    return target


@dataclass
class Programs:
    """Java programs over the delivered libraries of apps.

    folder    where all of it lies
    built     the delivered apps
    natives   the object of the JNI source that all apps share
    compiled  app -> a folder of classes, with the app's JNI library beside them: its Java API and
              our programs `each`, compiled once for all tests
    """

    folder: Path
    built: Path
    compiler: JavaCompiler
    natives: Path
    compiled: dict[str, Path] = field(default_factory=dict)

    def of(self, app: str) -> Path:
        if app not in self.compiled:
            self.compiled[app] = self._compile(app)
        return self.compiled[app]

    def _compile(self, app: str) -> Path:
        folder = self.folder / app
        folder.mkdir()
        self._jni_library(folder, app)
        sources = [*java_sources(app, f"{app}_torch_jni")]
        for program in PROGRAMS.glob("each/*.java"):
            text = program.read_text().replace("libtorch.app", java_package(app))
            path = f"{java_package(app).replace('.', '/')}/{program.name}"
            sources.append(File(path, text.encode()))
        for file in compile_java(sources, self.compiler):
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            file.write(folder / file.path)
        return folder

    def _jni_library(self, folder: Path, app: str) -> None:
        """Our JNI sources as a library over an app's delivered one."""
        exports = folder / "exports.map"
        exports.write_text("{ global: JNI_OnLoad; local: *; };\n")
        package = java_package(app).replace(".", "/")
        define = f'-DLTA_JNI_PACKAGE="{package}"'
        on_load = compile_jni("on_load", folder / "on_load.o", define)
        delivered = self.built / app / f"linux-x86_64/lib/lib{app}_torch.so"
        zig(
            *("c++", "-shared", "-O2", f"-Wl,--version-script={exports}", "-Wl,-z,defs"),
            *(self.natives, on_load, delivered, "-o", folder / f"lib{app}_torch_jni.so"),
        )

    def run(
        self,
        apps: list[str],
        main: str,
        *arguments: str | Path,
        beside: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs the class `main` of some apps' classes, or of the folder `beside`."""
        folders = [self.of(app) for app in apps]
        libraries = os.pathsep.join(str(self.built / app / "linux-x86_64/lib") for app in apps)
        return subprocess.run(
            [
                str(Path(self.compiler.program).with_name("java")),
                *("-Xcheck:jni", f"-Djava.library.path={_path(folders)}"),
                # all of the heap from the start, so that what grows is native
                *("-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch"),
                *("-cp", _path([*folders, *([beside] if beside else [])])),
                *(main, *map(str, arguments)),
            ],
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
            capture_output=True,
            text=True,
            check=False,
        )

    def compile_beside(self, folder: Path, apps: list[str], *sources: Path) -> None:
        """Compiles sources that use the apps' APIs, into `folder`."""
        subprocess.run(
            [
                # short: the second compiler of the JVM would cost more than it saves
                *(self.compiler.program, "-J-XX:TieredStopAtLevel=1", *JAVA_FLAGS),
                *("-cp", _path([self.of(app) for app in apps]), "-d", str(folder)),
                *map(str, sources),
            ],
            check=True,
        )


def _path(folders: list[Path]) -> str:
    return os.pathsep.join(map(str, folders))


@pytest.fixture(scope="module")
def programs(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    compiler = find_java_compiler(os.environ)
    assert compiler, "the Java API needs a JDK: apt-get install default-jdk-headless"
    folder = tmp_path_factory.mktemp("java")
    natives = compile_jni("natives", folder / "natives.o")
    return Programs(folder, built, compiler, natives)


@pytest.mark.parametrize("app", APPS)
def test_the_models_give_what_was_recorded(programs: Programs, app: str) -> None:
    config = yaml.safe_load((ROOT / "apps" / app / "app.yaml").read_text())
    if any("inputs" in model for model in config["models"]):
        pytest.fail(f"{app} declares inputs: teach Driver.java to read them")
    for model in models_of(app):
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
    files = {model.stem: model for model in models_of(app)}
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
