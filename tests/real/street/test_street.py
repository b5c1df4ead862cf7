"""Reports of strangers, each a file in `reports`: a delivered library does what PyTorch does.

All models are in one app, once for each runtime. Hosts drive its library through the C API, its
wheel and its Java API; the model runner makes the calls on arm64, in an emulator. A report is one
file:

  about      what was reported
  module     the source of a class `Module`
  via        how it is exported: `script` (default), `export`, `trace`
  forms      `plain` (default), as torch writes it, and `static`, canonical
  inputs     method -> calls that are traced, each a list of arguments
  archive    `zip64`: the file is packed again by another tool, with sizes of 64 bits
  calls      [method, argument...] of each call that is compared with eager PyTorch; {dies: [..]} of
             one that PyTorch dies of, or reads outside of memory, and that is to be an error
  again      how often the calls are made
  levels     true: at each CPU level of this processor
  host       what the process is like: see `host.py`

Arguments are plain YAML, `{shape: [..], fill: normal|count|NUMBER, dtype: .., layout: ..}`,
`{tuple: [..]}`, `{dict: {..}}` or `{result: [call, item...]}`; `fill: {special: .nan, at: 5}` is
normal but for one number.

Part of `./check --campaigns`: torch is a download of 200 MB. `committed/` has what torch made of
some reports, which `./check --all` runs (`test_committed.py`).
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from clean_python import NUMPY, environment
from cpu_levels import processor_levels
from java_programs import Programs, compile_jni
from real import EACH_RUNTIME, ROOT, orchestrator, workspace_copy
from test_verified_levels import emulator
from torch_python import torch_python
from zig_tool import HOST_CC, zig_environment

from orchestrator.packagers.aar_java import find_java_compiler
from orchestrator.verify.compare import compare_results

pytestmark = [pytest.mark.real, pytest.mark.full_only]

HERE: Final = Path(__file__).parent
X86, ARM = "linux-x86_64", "linux-arm64"
REPORTS: Final[Mapping[str, Mapping[str, Any]]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((HERE / "reports").glob("*.yaml"))
}
MODELS: Final = tuple(
    (name, form) for name, report in REPORTS.items() for form in report.get("forms", ["plain"])
)
LEVELS: Final = ("baseline", *(one for one in ("avx2", "avx512") if one in processor_levels()))


def ways_of(name: str) -> tuple[str, ...]:
    """Through what a report's calls are made. A JVM does not fork, and only C sets modes."""
    needs = REPORTS[name].get("host", {}).keys() & {"flush", "children"}
    return ("c", "wheel", "arm64") if needs else ("c", "wheel", "arm64", "java")


CASES: Final = tuple((name, form, way) for name, form in MODELS for way in ways_of(name))


def words_of(calls: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What `Street.java` reads."""
    for call in calls:
        yield from ("call", call["method"], str(len(call["args"])))
        for one in call["args"]:
            yield from _words(one)


def _words(value: Mapping[str, Any]) -> Iterator[str]:
    ((kind, content),) = value.items()
    yield kind
    match kind:
        case "none":
            return
        case "string":
            yield base64.b64encode(content.encode()).decode()
        case "tensor":
            strides = content.get("strides")
            yield from (content["dtype"], ",".join(map(str, content["shape"])))
            yield from (
                "usual" if strides is None else "strides",
                ",".join(map(str, strides or ())),
            )
            yield content["data"]
        case "result":
            yield ",".join(map(str, content))
        case "list" | "tuple" | "dict":
            items = content if kind != "dict" else [one for pair in content for one in pair]
            yield str(len(items))
            for item in items:
                yield from _words(item)
        case _:
            yield str(content).lower()


@dataclass(frozen=True)
class Street:
    """An app with the models of all reports, built."""

    root: Path
    models: Path
    python: Path
    helper: Path
    locales: Path
    programs: Programs
    classes: Path

    def calls(self, name: str) -> list[dict[str, Any]]:
        text = (self.models / f"{name}.json").read_text(encoding="utf-8")
        return list(json.loads(text))

    def run(
        self, name: str, form: str, through: str, folder: Path, level: str
    ) -> subprocess.CompletedProcess[str]:
        """What a host of the report's says."""
        host = REPORTS[name].get("host", {})
        model = self.models / f"{name}-{form}.ptl"
        if through == "arm64":
            return self._emulated(name, model, folder)
        if through == "java":
            return self._java(name, model, host, folder)
        setting = {
            "through": through,
            "library": str(self.root / f"dist/street/{X86}/lib/libstreet_torch.so"),
            "package": "street_libtorch",
            "helper": str(self.helper),
            "host": host,
            "model": str(model),
            "calls": self.calls(name),
        }
        file = folder / "setting.json"
        file.write_text(json.dumps(setting), encoding="utf-8")
        env = {**os.environ, "LOCPATH": str(self.locales), "PYTHONPATH": "", "LTA_CPU_LEVEL": level}
        argv = [str(self.python), str(HERE / "host.py"), str(file)]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    def _java(
        self, name: str, model: Path, host: Mapping[str, Any], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        words = folder / "words.txt"
        words.write_text("\n".join(words_of(self.calls(name))) + "\n", encoding="utf-8")
        numbers = [str(host.get(name, 0)) for name in ("stack", "threads")]
        env = {"LOCPATH": str(self.locales), "LC_ALL": host.get("locale", "C.UTF-8")}
        main = "libtorch.street.Street"
        given = [str(model), str(words), *numbers]
        return self.programs.run(["street"], main, *given, beside=self.classes, env=env)

    def _emulated(self, name: str, model: Path, folder: Path) -> subprocess.CompletedProcess[str]:
        """By the model runner, which knows neither strides nor results of earlier calls."""
        inputs, output = folder / "inputs.json", folder / "output.json"
        calls = [{"method": call["method"], "args": call["plain"]} for call in self.calls(name)]
        inputs.write_text(json.dumps(calls), encoding="utf-8")
        driver = self.root / f".orchestrator/variants/street/{ARM}/driver"
        argv = [*emulator(), str(driver), "--model", str(model), "--inputs", str(inputs)]
        argv += ["--output", str(output), "--no-args"]
        env = {**os.environ, "LD_LIBRARY_PATH": str(self.root / f"dist/street/{ARM}/lib")}
        ran = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        told = output.read_text(encoding="utf-8") if output.is_file() else ""
        # 1: a call failed, as some are to
        code = min(ran.returncode, 0) if told else ran.returncode
        return subprocess.CompletedProcess(argv, code, told, ran.stderr)

    def expected(self, name: str) -> dict[str, Any]:
        return {"runs": [call["expected"] for call in self.calls(name)]}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    (folder / "reports.json").write_text(json.dumps(REPORTS), encoding="utf-8")
    argv = [torch_python(), "-W", "ignore", str(HERE / "make.py")]
    argv += [str(folder / "reports.json"), str(folder)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def street_workspace(
    folder: Path, runtime: str, models: Path, names: Sequence[str], **declared: Any
) -> Path:
    """A workspace with an app of these models, traced and built."""
    root = workspace_copy(folder, runtime=runtime)
    app = root / "apps/street"
    (app / "models").mkdir(parents=True)
    for name in names:
        (app / f"models/{name}.ptl").write_bytes((models / f"{name}.ptl").read_bytes())
    all_of_it = {
        "models": [
            {"name": name.replace("-", "_"), "file": f"models/{name}.ptl"} for name in names
        ],
        "threads": 2,
        **declared,
    }
    (app / "app.yaml").write_text(yaml.safe_dump(all_of_it), encoding="utf-8")
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//apps/street", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    return root


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def street(
    models: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Street:
    folder = tmp_path_factory.mktemp("street")
    names = [f"{name}-{form}" for name, form in MODELS]
    cpu = {"x86_64": ["avx2", "avx512"]}
    root = street_workspace(
        folder, request.param, models, names, targets=[X86, ARM], packages=["wheel"], cpu=cpu
    )
    (wheel,) = (root / "dist/street/packages").glob("*x86_64.whl")
    helper, locales = folder / "flush.so", folder / "locales"
    argv = [*HOST_CC, "-O1", "-shared", "-fPIC", str(HERE / "flush.c"), "-o", str(helper)]
    subprocess.run(argv, env=zig_environment(), check=True)
    locales.mkdir()
    german = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(locales / "de_DE.UTF-8")]
    subprocess.run(german, check=True)
    compiler = find_java_compiler(os.environ)
    assert compiler, "the Java API needs a JDK: apt-get install default-jdk-headless"
    java = folder / "java"
    java.mkdir()
    programs = Programs(java, root / "dist", compiler, compile_jni("natives", java / "natives.o"))
    source, classes = java / "Street.java", java / "classes"
    source.write_text((HERE / source.name).read_text().replace("libtorch.app", "libtorch.street"))
    classes.mkdir()
    programs.compile_beside(classes, ["street"], source)
    python = environment(folder / "venv", [wheel, NUMPY])
    return Street(root, models, python, helper, locales, programs, classes)


@pytest.mark.parametrize(("name", "form", "through"), CASES)
def test_a_report_is_right(
    street: Street, name: str, form: str, through: str, tmp_path: Path
) -> None:
    by_level = REPORTS[name].get("levels") and through == "c"
    for level in LEVELS if by_level else ("",):
        done = street.run(name, form, through, tmp_path, level)
        assert done.returncode == 0, (
            f"{REPORTS[name]['about']}\n{done.returncode}: {done.stderr[-2000:]}"
        )
        seen = json.loads(done.stdout)
        for number, run in enumerate(seen["runs"]):
            run["index"] = number  # the model runner counts by method
        errors = [run["error"] for run in seen["runs"] if run["error"]]
        differences = [*map(str, compare_results(street.expected(name), seen))]
        assert differences == [], (level, errors)
