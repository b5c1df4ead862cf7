"""`orchestrator fits` from the command line: real models and locks, packages of toy libraries."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import package_toy as toy
import pytest
from shipped_fits import offer_of, plan_of
from shipped_index import ROOT, app_traces, shipped
from test_output_schemas import faults

from orchestrator import cli
from orchestrator.deliver.delivered import read_delivery
from orchestrator.deliver.manifest import RuntimeFact, SelectionFact
from orchestrator.deliver.variant import deliver
from orchestrator.packagers import deb, tarball
from orchestrator.trace.lock import lock_text, parse_lock

CAMERA = ROOT / "apps/camera/models/classifier.ptl"
KEYBOARD = ROOT / "apps/keyboard/models/next_word.ptl"
SAMPLE = ROOT / "tests/golden/fits/mapped.ptl"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with camera's library in three forms: `toy`, its tarball, its Debian package."""
    folder = tmp_path_factory.mktemp("packages")
    offer = offer_of(plan_of(app_traces("camera")))
    assert offer.roots is not None
    assert offer.resolved is not None
    inputs = replace(
        toy.quick_inputs(folder / "parts"),
        selection=SelectionFact(
            operators=tuple(offer.operators),
            kernel_dtypes={tag: tuple(d) for tag, d in offer.kernel_dtypes.items()},
            custom_classes=tuple(offer.classes),
            build_features=tuple(offer.features),
            root_operators=tuple(offer.roots),
            resolved_operators=tuple(offer.resolved),
            backends=offer.backends,
        ),
        runtime=RuntimeFact(
            pytorch="1.13.1", tree=shipped().tree, bytecode=(4, 9), archive=(1, 10)
        ),
    )
    made = deliver(inputs, folder / "dist").folder
    tar, _ = tarball.pack([read_delivery(made)], folder / "packages")
    library, *_ = deb.pack([read_delivery(made)], folder / "packages")
    made.rename(folder / "toy")
    tar.rename(folder / "toy.tar.zst")
    library.rename(folder / "toy.deb")
    return folder


def run(tmp_path: Path, *words: object, cwd: Path = ROOT) -> int:
    env = {"ORCHESTRATOR_CACHE": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    (tmp_path / "cache").mkdir(exist_ok=True)
    return cli.main(["fits", *map(str, words)], env=env, cwd=cwd)


def test_the_model_that_has_all(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [packages / name for name in ("toy", "toy.tar.zst", "toy.deb")]
    assert run(tmp_path, CAMERA, "--no-run", "--in", *names) == 0
    assert capsys.readouterr().out == "".join(
        f"{name} (toy 1.2.0 for linux-x86_64, PyTorch 1.13.1): fits by its manifest:"
        " it has all that the model's trace names\n"
        "  not run: not asked for\n"
        for name in names
    )


def test_a_lock_that_is_not_there(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone.yaml"
    assert run(tmp_path, CAMERA, "--no-run", "--trace", gone, "--in", packages / "toy") == 1
    assert capsys.readouterr().err == (
        f"{gone}: error: this trace cannot be read\n"
        "  expected: a lock that `orchestrator trace` wrote\n"
        "  seen:     No such file or directory\n"
        "  do:       check the path, and the file's permissions\n"
    )
    words = (CAMERA, "--no-run", "--trace", gone, "--json", "--in", packages / "toy")
    assert run(tmp_path, *words) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "UNREADABLE_LOCK"


def test_what_lacks_is_told_with_what_it_adds(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # an app of the library's runtime
    root = tmp_path / "workspace"
    shutil.copytree(ROOT / "apps/keyboard", root / "apps/keyboard")
    shutil.copy(ROOT / "WORKSPACE", root)
    kept = ROOT / "tests/golden/traces/v1_13/keyboard/next_word.yaml"
    shutil.copy(kept, root / "apps/keyboard/traces")
    with (root / "apps/keyboard/app.yaml").open("a") as declared:
        declared.write("runtime: pytorch_1_13\n")
    model = root / "apps/keyboard/models/next_word.ptl"
    words = (model, "--no-run", "--json", "--in", packages / "toy.deb")
    assert run(tmp_path, *words, cwd=root) == 1
    text = capsys.readouterr().out
    assert faults("fits", text) == []
    told = json.loads(text)
    assert told["model"]["trace"] == "apps/keyboard/traces/next_word.yaml"
    (row,) = told["packages"]
    assert row["verdict"] == "does not fit"
    lacks = {(one["kind"], one["name"]): one for one in row["lacks"]}
    named = lacks["operator", "aten::embedding"]
    assert (named["needed"], named["asked_by"]) == ("named", [])
    assert named["methods"]
    assert named["bytes"] > 0
    called = [one for one in row["lacks"] if one["needed"] == "called" and one["asked_by"]]
    assert called
    assert row["added_bytes"] > named["bytes"]
    manifest = json.loads((packages / "toy/manifest.json").read_text())
    library = manifest["files"][manifest["library"]["file"]]["bytes"]
    assert row["estimated_bytes"] == library + row["added_bytes"]


def test_the_lines_of_the_models_source_are_told(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, SAMPLE, "--in", packages / "toy") == 1
    out = capsys.readouterr().out
    head, *lines = out.splitlines()
    assert head == (
        f"{packages / 'toy'} (toy 1.2.0 for linux-x86_64, PyTorch 1.13.1): does not fit:"
        " the library lacks what it needs"
    )
    assert lines[0] == (
        "  not run: a package is a program of its author's: with --run it runs here"
    )
    (line,) = (one for one in lines if "aten::erfinv" in one)
    start, _, size = line.rpartition(": about ")
    assert start == ("  lacks operator aten::erfinv, named in forward, at /src/sample.py:13")
    assert size.endswith("kB")
    assert lines[-1].startswith("  with all of it the library would be about ")


def test_no_trace_is_no_yes(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same model as another file: no app of the workspace has it."""
    other = tmp_path / "other.ptl"
    other.write_bytes(CAMERA.read_bytes())
    assert run(tmp_path, other, "--no-run", "--in", packages / "toy") == 0  # found by its digest
    capsys.readouterr()
    changed = _with_another_digest(other)
    assert run(tmp_path, changed, "--no-run", "--in", packages / "toy") == 2
    out = capsys.readouterr().out
    assert (
        "cannot tell: it has no trace, and the library's PyTorch is not here to compare"
        " arguments with\n"
    ) in out
    # with its own lock it is told again
    (trace,) = app_traces("camera")
    digest = hashlib.sha256(changed.read_bytes()).hexdigest()
    lock = tmp_path / "lock.yaml"
    lock.write_text(lock_text(replace(trace, identity=replace(trace.identity, model=digest))))
    words = ("--no-run", "--trace", lock, "--in", packages / "toy")
    assert run(tmp_path, changed, *words) == 0
    stale = parse_lock(lock.read_text(), "x")
    stale = replace(stale, identity=replace(stale.identity, tracer="0" * 16))
    lock.write_text(lock_text(stale))
    assert run(tmp_path, changed, *words) == 2
    assert run(tmp_path, KEYBOARD, *words) == 1
    error = capsys.readouterr().err
    assert "error: this trace is of another model\n" in error
    lock.unlink()
    assert run(tmp_path, changed, *words) == 1
    error = capsys.readouterr().err
    assert f"{lock}: error: this trace cannot be read\n" in error
    assert "seen:     No such file or directory\n" in error


def _with_another_digest(path: Path) -> Path:
    target = path.with_name("changed.ptl")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
        new.writestr(f"{entry.filename.split('/')[0]}/extra/x", b"x")
    return target


def test_what_cannot_be_read_is_told_beside_the_answers(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (packages / "toy.deb").read_bytes()
    (tmp_path / "cut.deb").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "page.aar").write_text("<html>")
    words = (
        "--no-run",
        "--json",
        "--in",
        packages / "toy",
        tmp_path / "cut.deb",
        tmp_path / "page.aar",
    )
    assert run(tmp_path, CAMERA, *words) == 1
    captured = capsys.readouterr()
    assert faults("fits", captured.out) == []
    rows = json.loads(captured.out)["packages"]
    assert [row["verdict"] for row in rows] == ["by manifest", None, None]
    assert [row["error"] and row["error"]["code"] for row in rows] == [
        None,
        "DAMAGED_PACKAGE",
        "NOT_A_PACKAGE",
    ]
    assert captured.err.count("error:") == 2


def test_a_library_of_another_runtime(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "toy"
    (folder / "lib").mkdir(parents=True)
    library = packages / "toy/lib/libtoy_torch.so"
    (folder / "lib/libtoy_torch.so").write_bytes(library.read_bytes())
    manifest = json.loads((packages / "toy/manifest.json").read_text())
    manifest["runtime"] |= {"tree": "0" * 64, "bytecode": [4, 7]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert run(tmp_path, CAMERA, "--no-run", "--in", folder) == 1
    assert "  lacks runtime bytecode version 8 (the library loads 4 to 7)\n" in (
        capsys.readouterr().out
    )
    manifest["runtime"]["bytecode"] = [4, 9]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert run(tmp_path, CAMERA, "--no-run", "--in", folder) == 2
    assert (
        "cannot tell: its trace was made with another runtime, and no index of the library's"
        " PyTorch is at hand\n"
    ) in capsys.readouterr().out


def test_without_a_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, CAMERA) == 1
    assert capsys.readouterr().err == (
        "error: no library is named\n"
        "  expected: a folder of dist/, or packages\n"
        "  do:       run: ./orchestrate fits MODEL.ptl --in dist/<app>/<abi>\n"
    )
