"""The files of an app that `watch` looks at, and whether an app has a current trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from test_elementwise import app
from test_load import good_workspace

from orchestrator.build.watch import is_traced
from orchestrator.load.sources import files_on_disk
from orchestrator.load.workspace import load_workspace
from orchestrator.trace.lock import parse_lock

ROOT = Path(__file__).parents[3]
APP = """\
models: [{file: small.ptl}]
targets: [linux-x86_64]
sources:
  files: [src/*.cpp]
  kernels: {namespace: ew, files: ["kernels/*.elementwise"]}
  include: [include]
  licence: {expression: MIT, file: LICENSE}
"""


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\xff is no text")


def test_sources_are_found_whatever_is_in_them(tmp_path: Path) -> None:
    folder = tmp_path / "apps/toy"
    named = ("src/a.cpp", "src/inner/a.hpp", "include/deep/b.h", "kernels/ease.elementwise")
    write(folder, *named, "LICENSE", "src/a.txt", "kernels/ease.h", "other/c.h")
    declared = app(tmp_path, APP)
    assert files_on_disk(declared) == {folder / name for name in (*named, "LICENSE")}
    (folder / "src/b.cpp").symlink_to("nowhere")
    (folder / "kernels/ease.elementwise").unlink()
    write(folder, "src/inner/c.h")
    left = {"src/a.cpp", "src/inner/a.hpp", "src/inner/c.h", "include/deep/b.h", "LICENSE"}
    assert files_on_disk(declared) == {folder / name for name in left}


def test_folders_that_are_gone_have_no_files(tmp_path: Path) -> None:
    folder = tmp_path / "apps/toy"
    write(folder, "src/a.cpp", "include/b.h", "kernels/ease.elementwise", "LICENSE")
    declared = app(tmp_path, APP)
    for name in ("src/a.cpp", "include/b.h", "kernels/ease.elementwise", "LICENSE"):
        (folder / name).unlink()
    for name in ("src", "include", "kernels"):
        (folder / name).rmdir()
    # it has one place, and is looked at there
    assert files_on_disk(declared) == {folder / "LICENSE"}
    config = declared.config.model_copy(update={"sources": None})
    assert files_on_disk(replace(declared, config=config)) == set()


@pytest.mark.parametrize("stale", ["", "model", "sources"])
def test_an_app_is_traced_where_each_lock_is_current(stale: str) -> None:
    inker = load_workspace(ROOT, {"HOME": "/home"}).apps["inker"]
    locks = {
        model.name: parse_lock((inker.folder / f"traces/{model.name}.yaml").read_text(), "lock")
        for model in inker.config.models
    }

    def identity(_: Any, model: Any) -> Any:
        made = locks[model.name].identity
        changes: dict[str, Any] = {stale: "0" * 64} if stale and model.name == "outline" else {}
        return replace(made, **changes)

    session = cast(Any, SimpleNamespace(of=lambda _: SimpleNamespace(trace_identity=identity)))
    assert is_traced(session, inker) == (not stale)


def test_an_app_without_locks_is_not_traced(tmp_path: Path) -> None:
    root = good_workspace(tmp_path)
    camera = load_workspace(root, {"HOME": str(root)}).apps["camera"]
    session = cast(Any, SimpleNamespace(of=lambda _: None))
    assert not is_traced(session, camera)
