"""Locks of canonical models: the same bytes for the same lock, and told clearly where stale."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard
from canonical_toy import DECLARED, INPUTS, MADE, ORIGINAL, digest, lock, workspace

from orchestrator.canonical import lock as canonical_lock
from orchestrator.canonical.lock import (
    CanonicalChangedError,
    CanonicalDamagedError,
    CanonicalMisplacedError,
    CanonicalMissingError,
    CanonicalStaleError,
    files_of,
    inputs_path,
    is_written,
    lock_path,
    lock_text,
    parse_lock,
    shipped_model,
    write_canonical,
)
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import App
from orchestrator.system.reading import file_sha256


@pytest.fixture
def app(tmp_path: Path) -> App:
    made = workspace(tmp_path)
    write_canonical(made, made.config.models[0], lock(), MADE, INPUTS)
    return made


def failure(app: App, root: Path, kind: type[OrchestratorError]) -> str:
    with pytest.raises(kind) as caught:
        shipped_model(app, app.config.models[0], root)
    return caught.value.render()


def test_a_lock_is_read_as_it_was_written() -> None:
    text = lock_text(lock())
    assert parse_lock(text, "x.yaml", "again")[0] == lock()
    assert lock_text(parse_lock(text, "x.yaml", "again")[0]) == text
    assert text.startswith("# Written by `orchestrator canonical`; commit it")
    assert yaml.safe_load(text)["rewrites"][0]["from"] == "aten::relu_"


def test_a_build_uses_the_canonical_file(app: App, tmp_path: Path) -> None:
    shipped = shipped_model(app, app.config.models[0], tmp_path)
    models = tmp_path / "apps/camera/models"
    assert shipped.path == models / "net.canonical.ptl"
    assert shipped.path.read_bytes() == MADE
    assert shipped.inputs == INPUTS
    assert shipped.is_canonical
    assert [path.name for path in files_of(app, app.config.models[0])] == [
        "net.ptl",
        "net.canonical.ptl",
        "net.canonical.yaml",
        "net.canonical.inputs.zst",
    ]


def test_what_is_written_already(app: App, tmp_path: Path) -> None:
    model = app.config.models[0]
    assert is_written(app, model, lock(), tmp_path)
    assert not is_written(app, model, lock().model_copy(update={"torch": "9"}), tmp_path)
    (tmp_path / "apps/camera/models/net.canonical.ptl").write_bytes(MADE + b"x")
    assert not is_written(app, model, lock(), tmp_path)
    lock_path(app, model).unlink()
    assert not is_written(app, model, lock(), tmp_path)


@pytest.mark.parametrize("changed", ["", "net.ptl", "net.canonical.ptl"])
def test_a_file_is_hashed_once(
    app: App, tmp_path: Path, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is refused, too."""
    digests = Counter[str]()

    def counted(path: Path) -> str:
        digests[path.name] += 1
        return sha256(path)

    sha256 = file_sha256
    monkeypatch.setattr(canonical_lock, "file_sha256", counted)
    folder = tmp_path / "apps/camera/models"
    if changed:
        (folder / changed).write_bytes(b"changed")
        with pytest.raises(OrchestratorError):
            shipped_model(app, app.config.models[0], tmp_path)
    else:
        shipped_model(app, app.config.models[0], tmp_path)
    assert max(digests.values()) == 1
    assert digests["net.ptl"] == 1


def test_off_is_the_declared_file(app: App, tmp_path: Path) -> None:
    for canonical, inputs in (("off", ""), ("static", ", canonical: off")):
        plain = workspace(tmp_path, inputs, canonical)
        shipped = shipped_model(plain, plain.config.models[0], tmp_path)
        assert (shipped.path.name, shipped.inputs, shipped.is_canonical) == ("net.ptl", None, False)
        assert files_of(plain, plain.config.models[0]) == (shipped.path,)


def test_a_model_says_it_for_itself(app: App, tmp_path: Path) -> None:
    own = workspace(tmp_path, ", canonical: static", "off")
    assert shipped_model(own, own.config.models[0], tmp_path).is_canonical


def test_a_missing_one(tmp_path: Path) -> None:
    assert failure(workspace(tmp_path), tmp_path, CanonicalMissingError) == (
        "error: the model net of //apps/camera has no canonical model\n"
        "  expected: apps/camera/models/net.canonical.yaml\n"
        "  do:       run: ./orchestrate canonical //apps/camera --write"
    )


@pytest.mark.parametrize("name", ["net.canonical.ptl", "net.canonical.inputs.zst"])
def test_a_missing_file(name: str, app: App, tmp_path: Path) -> None:
    (tmp_path / "apps/camera/models" / name).unlink()
    text = failure(app, tmp_path, CanonicalMissingError)
    assert f"expected: apps/camera/models/{name}\n" in text


def test_the_original_changed(app: App, tmp_path: Path) -> None:
    (tmp_path / "apps/camera/models/net.ptl").write_bytes(b"another export")
    assert failure(app, tmp_path, CanonicalStaleError) == (
        "apps/camera/models/net.canonical.yaml: error: the canonical model of net is stale:"
        " models/net.ptl changed since\n"
        f"  expected: {digest(ORIGINAL)}\n"
        f"  seen:     {digest(b'another export')}\n"
        "  do:       run: ./orchestrate canonical //apps/camera --write"
    )


def test_the_canonical_file_was_edited(app: App, tmp_path: Path) -> None:
    (tmp_path / "apps/camera/models/net.canonical.ptl").write_bytes(MADE + b"!")
    assert failure(app, tmp_path, CanonicalChangedError) == (
        "apps/camera/models/net.canonical.ptl: error: the canonical model changed since it was"
        " made\n"
        f"  expected: {digest(MADE)}\n"
        f"  seen:     {digest(MADE + b'!')}\n"
        "  do:       check it out again, or run: ./orchestrate canonical //apps/camera --write"
    )


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (zstandard.compress(b"[]"), digest(b"[]")),
        (b"no zstd", "zstd decompress error: Unknown frame descriptor"),
    ],
)
def test_the_inputs_were_edited(data: bytes, seen: str, app: App, tmp_path: Path) -> None:
    inputs_path(app, app.config.models[0]).write_bytes(data)
    text = failure(app, tmp_path, CanonicalChangedError)
    assert text.startswith(
        "apps/camera/models/net.canonical.inputs.zst: error: the recorded inputs"
    )
    assert f"  seen:     {seen}\n" in text


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (Path.mkdir, "Is a directory"),
        (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("/dev/zero"), "Not a plain file"),
    ],
    ids=["folder", "loop", "endless"],
)
def test_what_is_no_file(
    make: Callable[[Path], object], seen: str, app: App, tmp_path: Path
) -> None:
    model = app.config.models[0]
    for path, kind in (
        (inputs_path(app, model), CanonicalChangedError),
        (lock_path(app, model), CanonicalDamagedError),
    ):
        path.unlink()
        make(path)
        assert f"seen:     {seen}\n" in failure(app, tmp_path, kind)


def test_inputs_that_are_declared_now(app: App, tmp_path: Path) -> None:
    other = workspace(tmp_path, DECLARED)
    assert "is stale: its inputs are declared now" in failure(other, tmp_path, CanonicalStaleError)
    model = other.config.models[0]
    write_canonical(other, model, lock(inputs="declared"), MADE, None)
    assert shipped_model(other, model, tmp_path).inputs is None
    assert not inputs_path(other, model).exists()
    bundled = workspace(tmp_path)
    assert "its inputs are bundled now" in failure(bundled, tmp_path, CanonicalStaleError)


@pytest.mark.parametrize(
    ("changes", "seen"),
    [({"app": "other"}, "error: this lock belongs to another app"), ({"model": "m"}, "model")],
)
def test_the_lock_of_another(changes: dict[str, str], seen: str, app: App, tmp_path: Path) -> None:
    lock_path(app, app.config.models[0]).write_text(lock_text(lock(**changes)))
    assert seen in failure(app, tmp_path, CanonicalMisplacedError)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("format: 1", "format: 2", "x.yaml:2:9: error"),
        ("kind: static", "kind: eager", "x.yaml:5:7: error"),
        ("folded: true\n", "folded: true\nextra: 1\n", "x.yaml:12:1: error"),
        ("calls: 1", "calls: 0", "error: this canonical model's lock cannot be read"),
        ("result: same", "result: wrong", "error: this canonical model's lock cannot be read"),
        ("app: camera", "<<<<<<< ours", "x.yaml:3:1: error"),
        ("app: camera", "app: ../camera", "x.yaml:3:6: error"),
        ("operators:", "operators: [", "error: this canonical model's lock cannot be read"),
    ],
)
def test_a_damaged_lock(old: str, new: str, told: str) -> None:
    text = lock_text(lock()).replace(old, new, 1)
    with pytest.raises(CanonicalDamagedError) as caught:
        parse_lock(text, "x.yaml", "./orchestrate canonical //apps/camera --write")
    shown = caught.value.render()
    assert told in shown
    assert shown.endswith("do:       run: ./orchestrate canonical //apps/camera --write")


def test_an_empty_lock() -> None:
    with pytest.raises(CanonicalDamagedError):
        parse_lock("", "x.yaml", "again")


def test_what_was_proposed_is_bounded(app: App, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("orchestrator.canonical.lock.LARGEST_INPUTS", 4)
    assert "seen:     more than 4 bytes" in failure(app, tmp_path, CanonicalChangedError)


def test_the_lock_says_it_for_people() -> None:
    value = yaml.safe_load(lock_text(lock()))
    assert list(value) == [
        *("format", "app", "model", "kind", "original", "canonical", "inputs", "torch", "worker"),
        *("folded", "largest", "operators", "rewrites", "comparison"),
    ]
    assert json.dumps(value["comparison"][1]) == (
        '{"call": "forward[0], longer", "inputs": ["float32[1, 4]"], "result": "not taken"}'
    )


def test_a_model_of_another_kind_than_declared(app: App, tmp_path: Path) -> None:
    declared = workspace(tmp_path, canonical="traced")
    assert failure(declared, tmp_path, CanonicalStaleError) == (
        "apps/camera/models/net.canonical.yaml: error: the canonical model of net is of another"
        " kind than app.yaml says\n"
        "  expected: traced\n"
        "  seen:     static\n"
        "  do:       run: ./orchestrate canonical //apps/camera --write"
    )
    write_canonical(declared, declared.config.models[0], lock(kind="traced"), MADE, INPUTS)
    assert shipped_model(declared, declared.config.models[0], tmp_path).is_canonical


def test_a_lock_names_what_was_left_out() -> None:
    text = lock_text(lock(left=["stack"]))
    assert parse_lock(text, "x.yaml", "again")[0].left == ("stack",)
    assert "left" not in lock_text(lock())
