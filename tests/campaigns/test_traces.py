"""Models traced again and again, on an idle machine and on a busy one, in their app's tracer and on
demand: one lock comes of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import Campaign
from real import ROOT, V1_13, V2_6, orchestrator, workspace_copy
from torch_python import torch_python

pytestmark = pytest.mark.real

BUSY = 4
SMALL = ROOT / "tests/integration/canonical/corpus.py"
# Apps whose models were written for tests of single parts, and the example apps.
PARTS = sorted(path.parent for path in ROOT.glob("tests/integration/apps/*/app.yaml"))
APPS = sorted(path.parent for path in ROOT.glob("apps/*/app.yaml"))
BACKENDS = "backends: [CPU, QuantizedCPU]"


@contextmanager
def a_busy_machine() -> Iterator[None]:
    """Processes that take all processor time that they can get."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
        for hog in hogs:
            hog.wait()


def traced(root: Path) -> tuple[dict[str, bytes], str]:
    """All files of all traces, and what was printed."""
    ran = orchestrator("trace", "//...", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    files = sorted(root.glob("apps/*/traces/*"))
    return {path.name: path.read_bytes() for path in files}, ran.out


def test_a_model_traced_again_gives_the_same_lock(tmp_path: Path, campaign: Campaign) -> None:
    """`reader` has two models, and takes the branches that its numbers tell it to."""
    root = workspace_copy(tmp_path, "camera", "reader")
    # nothing is to come from a lock that is there
    for path in root.glob("apps/*/traces/*"):
        path.unlink()
    first, said = traced(root)
    assert len(first) == 6
    for number, _ in campaign.tries(short=2, long=19):
        if number % 2:
            again, said = traced(root)
        else:
            with a_busy_machine():
                again, said = traced(root)
        changed = [name for name in first if again.get(name) != first[name]]
        assert (number, changed) == (number, [])
        assert "changed in the lock" not in said


def corpus() -> list[tuple[Path, str]]:
    """An app's folder, and the runtime that it is traced with unless it names one."""
    parts = [(folder, runtime) for runtime in (V2_6, V1_13) for folder in PARTS]
    return [*parts, *((folder, V2_6) for folder in APPS)]


def traced_app(root: Path, recorder: str, *options: str) -> tuple[int, dict[str, bytes], str]:
    """The exit code, the files of all traces, and the error where there is one."""
    ran = orchestrator("trace", "//...", "--quiet", *options, cwd=root)
    if ran.code == 0:
        assert f": {recorder} of " in ran.out
    files = {path.name: path.read_bytes() for path in sorted(root.glob("apps/*/traces/*"))}
    for path in root.glob("apps/*/traces/*"):
        path.unlink()
    return ran.code, files, ran.err


def compared(root: Path) -> tuple[int, str]:
    """Trace all apps of a workspace on demand and in their tracers, with nothing known of them: the
    exit code, and where it is none the error. Fails where one tells anything else than the other.
    """
    declared = root / "WORKSPACE"
    text = declared.read_text()
    assert BACKENDS in text
    declared.write_text(text.replace(BACKENDS, f"{BACKENDS[:-1]}, SparseCPU]"))
    for traces in root.glob("apps/*/traces"):
        shutil.rmtree(traces)
    code, files, error = traced_app(root, "development library")
    assert code == (0 if files else 1), error
    expected = traced_app(root, "tracer", "--tracer")
    assert (code, files) == expected[:2], error + expected[2]
    return code, error


def test_a_trace_on_demand_is_that_of_the_apps_tracer(tmp_path: Path, campaign: Campaign) -> None:
    """Also of a model that does not run: then there is none."""
    known = corpus()
    for number, _ in campaign.tries(short=1, long=len(known)):
        folder, runtime = known[number]
        (place := tmp_path / str(number)).mkdir()
        root = workspace_copy(place, runtime=runtime)
        shutil.copytree(folder, root / "apps" / folder.name)
        compared(root)
        shutil.rmtree(place)


@pytest.mark.full_only
def test_so_is_that_of_each_small_model(tmp_path: Path, campaign: Campaign) -> None:
    """The models that are made canonical by tests, which have a family of operators each.

    Torch of today writes them; what a runtime cannot read, neither of the two recorders traces.
    """
    (tmp_path / "models").mkdir()
    subprocess.run(
        [torch_python(), "-W", "ignore", str(SMALL), "write", str(tmp_path / "models")], check=True
    )
    models = sorted((tmp_path / "models").glob("*.ptl"))
    assert len(models) >= 40
    known = [(model, runtime) for runtime in (V2_6, V1_13) for model in models]
    ran = {V2_6: 0, V1_13: 0}
    for number, _ in campaign.tries(short=2, long=len(known)):
        model, runtime = known[number]
        (place := tmp_path / str(number)).mkdir()
        root = workspace_copy(place, runtime=runtime)
        app = root / "apps/small"
        (app / "models").mkdir(parents=True)
        shutil.copy(model, app / "models" / model.name)
        (app / "app.yaml").write_text(
            f"targets: [linux-x86_64]\nmodels:\n- file: models/{model.name}\n"
        )
        code, error = compared(root)
        assert code == 0 or runtime == V1_13, f"{model.name}: {error}"
        ran[runtime] += code == 0
        shutil.rmtree(place)
    if campaign.long and campaign.only is None:
        assert ran[V2_6] >= 40
        assert ran[V1_13] >= 40
