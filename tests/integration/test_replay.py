"""The fast path on a real app: what is no replay, that one says so, and what dist/ holds then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from real import Ran, orchestrator, workspace_copy

pytestmark = pytest.mark.real

LABEL = "//apps/camera:linux-x86_64"
MARK = "up to date since the build of "


@pytest.fixture(scope="module")
def camera(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only model lies outside `models/`, built for the host."""
    root = workspace_copy(tmp_path_factory.mktemp("replay"), "camera")
    app = root / "apps/camera"
    (app / "models").rename(app / "weights")
    declared = (app / "app.yaml").read_text()
    (app / "app.yaml").write_text(declared.replace("models/", "weights/"))
    assert not built(root)["replayed"]
    return root


def built(root: Path, **env: str) -> dict[str, Any]:
    ran = orchestrator("build", LABEL, "--json", "--quiet", cwd=root, **env)
    assert ran.code == 0, ran.err
    report: dict[str, Any] = json.loads(ran.out)
    assert [variant["verified"] for variant in report["variants"]] == ["ok"]
    return report


def library(root: Path) -> Path:
    return root / "dist/camera/linux-x86_64/lib/libcamera_torch.so"


def rewrite(path: Path) -> None:
    """The same content in another file."""
    shutil.copyfile(path, path.with_name(".copy"))
    path.with_name(".copy").replace(path)


def test_a_replay_says_so(camera: Path) -> None:
    built(camera)
    report = built(camera)
    assert report["replayed"]
    assert (report["actions_run"], report["seconds"]) == (0, 0.0)
    first, again = (orchestrator("build", LABEL, "--quiet", cwd=camera) for _ in range(2))
    assert (first.code, again.code, again.err) == (0, 0, "")
    assert MARK not in first.out
    *table, last = again.out.splitlines(keepends=True)
    assert "".join(table) == first.out
    assert last.startswith(MARK)
    assert last.endswith("; report replayed\n")


def test_a_build_of_the_same_without_a_record_runs_nothing(camera: Path) -> None:
    """The ordinary way: the number is what ninja ran."""
    built(camera)
    (camera / ".orchestrator/last-build.json").unlink()
    report = built(camera)
    assert (report["replayed"], report["actions_run"]) == (False, 0)


@pytest.mark.parametrize(
    "path",
    [
        "apps/camera/weights/classifier.ptl",
        "apps/camera/traces/classifier.runs.zst",
        "toolchains/linux-x86_64.yaml",
        "dist/camera/linux-x86_64/lib/libcamera_torch_core.a",
        "dist/camera/packages/camera-libtorch-0.1.0-linux-x86_64.tar.zst",
        ".orchestrator/variants/camera/linux-x86_64/libcamera_torch.so",
    ],
)
def test_another_file_is_no_replay(path: str, camera: Path) -> None:
    built(camera)
    rewrite(camera / path)
    assert not built(camera)["replayed"]
    assert built(camera)["replayed"]


def test_another_environment_is_no_replay(camera: Path, tmp_path: Path) -> None:
    built(camera)
    assert not built(camera, PYTORCH_SOURCE=str(tmp_path))["replayed"]
    assert not built(camera, CPATH=str(tmp_path))["replayed"]
    assert built(camera, CPATH=str(tmp_path), TERM="dumb")["replayed"]


def test_a_new_app_is_no_replay(camera: Path) -> None:
    built(camera)
    shutil.copytree(camera / "apps/camera", camera / "apps/other")
    assert not built(camera)["replayed"]


def test_a_library_that_is_gone_comes_back(camera: Path) -> None:
    built(camera)
    library(camera).unlink()
    assert not built(camera)["replayed"]
    assert library(camera).is_file()


def changed(path: Path) -> bytes:
    """Another byte in the middle of a file; its content before."""
    before = path.read_bytes()
    data = bytearray(before)
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    return before


def test_a_changed_byte_is_told_and_put_right(camera: Path) -> None:
    built(camera)
    before = changed(library(camera))
    told = orchestrator("verify", LABEL, "--quiet", cwd=camera)
    assert (told.code, told.out) == (1, "")
    assert "  seen:     lib/libcamera_torch.so has different content\n" in told.err
    assert f"  do:       build the variant again: ./orchestrate build {LABEL}\n" in told.err
    built(camera)
    assert library(camera).read_bytes() == before
    assert orchestrator("verify", LABEL, "--quiet", cwd=camera).code == 0


def broken(root: Path) -> Ran:
    """A build whose trace has lost an operator that the model calls."""
    lock = root / "apps/camera/traces/classifier.yaml"
    value = yaml.safe_load(lock.read_text())
    value["calls"].pop("aten::_softmax")
    value["selected_operators"]["operators"].pop("aten::_softmax")
    lock.write_text(yaml.safe_dump(value, sort_keys=False))
    ran = orchestrator("build", LABEL, "--quiet", cwd=root)
    assert ran.code == 1
    assert "verification of //apps/camera:linux-x86_64 failed" in ran.err
    return ran


def test_a_failed_build_leaves_the_library_before(camera: Path, tmp_path: Path) -> None:
    built(camera)
    root = tmp_path / "copy"
    shutil.copytree(camera, root, symlinks=True)
    before = library(root).read_bytes()
    said = "dist/camera/linux-x86_64 still has the library of an earlier build that passed"
    assert said in broken(root).err
    assert library(root).read_bytes() == before
    assert [path.name for path in (root / "dist/camera").glob(".*")] == []
    assert not (root / ".orchestrator/last-build.json").exists()


def test_a_first_build_that_fails_leaves_no_library(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    assert "; dist/camera/linux-x86_64 is not written\n" in broken(root).err
    assert list((root / "dist").rglob("*.so")) == []
