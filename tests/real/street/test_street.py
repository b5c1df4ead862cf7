"""Reports of strangers, each a file in `reports`: a delivered library does what PyTorch does.

All models are in one app, once for each runtime; hosts drive its library through the C API and
its wheel. Part of `./check --campaigns`: torch is a download of 200 MB. A report is one file:

  about      what was reported
  module     the source of a class `Module`
  via        how it is exported: `script` (default), `export`, `trace`
  forms      `plain` (default), as torch writes it, and `static`, canonical
  inputs     method -> calls that are traced, each a list of arguments
  calls      [method, argument...] of each call that is compared with eager PyTorch
  again      how often the calls are made
  host       what the process is like: see `host.py`

Arguments are plain YAML, `{shape: [..], fill: normal|count|NUMBER, dtype: .., layout: ..}`,
`{tuple: [..]}`, `{dict: {..}}` or `{result: [call, item...]}`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from clean_python import NUMPY, environment
from real import EACH_RUNTIME, ROOT, orchestrator, workspace_copy
from torch_python import torch_python
from zig_tool import HOST_CC, zig_environment

from orchestrator.verify.compare import compare_results

pytestmark = [pytest.mark.real, pytest.mark.full_only]

HERE: Final = Path(__file__).parent
TARGET: Final = "linux-x86_64"
REPORTS: Final[Mapping[str, Mapping[str, Any]]] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((HERE / "reports").glob("*.yaml"))
}
MODELS: Final = tuple(
    (name, form) for name, report in REPORTS.items() for form in report.get("forms", ["plain"])
)


@dataclass(frozen=True)
class Street:
    """An app with the models of all reports, built."""

    models: Path
    library: Path
    python: Path
    helper: Path
    locales: Path

    def run(
        self, name: str, form: str, through: str, folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """What a host of the report's says."""
        calls = json.loads((self.models / f"{name}.json").read_text(encoding="utf-8"))
        setting = {
            "through": through,
            "library": str(self.library),
            "package": "street_libtorch",
            "helper": str(self.helper),
            "host": REPORTS[name].get("host", {}),
            "model": str(self.models / f"{name}-{form}.ptl"),
            "calls": calls,
        }
        file = folder / "setting.json"
        file.write_text(json.dumps(setting), encoding="utf-8")
        env = {**os.environ, "LOCPATH": str(self.locales), "PYTHONPATH": ""}
        argv = [str(self.python), str(HERE / "host.py"), str(file)]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    def expected(self, name: str) -> dict[str, Any]:
        calls = json.loads((self.models / f"{name}.json").read_text(encoding="utf-8"))
        return {"runs": [call["expected"] for call in calls]}


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


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def street(
    models: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Street:
    folder = tmp_path_factory.mktemp("street")
    root = workspace_copy(folder, runtime=request.param)
    app = root / "apps/street"
    (app / "models").mkdir(parents=True)
    files = [f"{name}-{form}.ptl" for name, form in MODELS]
    for file in files:
        (app / "models" / file).write_bytes((models / file).read_bytes())
    declared = {
        "models": [{"name": f[:-4].replace("-", "_"), "file": f"models/{f}"} for f in files],
        "targets": [TARGET],
        "packages": ["wheel"],
        "threads": 2,
    }
    (app / "app.yaml").write_text(yaml.safe_dump(declared), encoding="utf-8")
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//apps/street", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    (wheel,) = (root / "dist/street/packages").glob("*.whl")
    helper, locales = folder / "flush.so", folder / "locales"
    argv = [*HOST_CC, "-O1", "-shared", "-fPIC", str(HERE / "flush.c"), "-o", str(helper)]
    subprocess.run(argv, env=zig_environment(), check=True)
    locales.mkdir()
    german = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(locales / "de_DE.UTF-8")]
    subprocess.run(german, check=True)
    library = root / f"dist/street/{TARGET}/lib/libstreet_torch.so"
    return Street(models, library, environment(folder / "venv", [wheel, NUMPY]), helper, locales)


@pytest.mark.parametrize("through", ["c", "wheel"])
@pytest.mark.parametrize(("name", "form"), MODELS, ids=lambda one: one)
def test_a_report_is_right(
    street: Street, name: str, form: str, through: str, tmp_path: Path
) -> None:
    done = street.run(name, form, through, tmp_path)
    assert done.returncode == 0, (
        f"{REPORTS[name]['about']}\n{done.returncode}: {done.stderr[-2000:]}"
    )
    seen = json.loads(done.stdout)
    errors = [run["error"] for run in seen["runs"] if run["error"]]
    assert compare_results(street.expected(name), seen) == [], errors
