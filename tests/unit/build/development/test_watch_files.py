"""The files of an app that `watch` looks at, and whether an app has a current trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_elementwise import app
from test_load import good_workspace
from toy_workspace import toy_invocation

from orchestrator.build.development.watch import is_traced
from orchestrator.load.sources import files_on_disk
from orchestrator.trace.lock import write_lock
from orchestrator.values.trace import Trace

APP = """\
models: [{file: small.ptl}]
targets: [linux-x86_64]
sources:
  files: [src/*.cpp]
  kernels: {namespace: ew, files: ["kernels/*.elementwise"]}
  include: [include]
  licence: {expression: MIT, file: LICENSE}
"""
TWO_MODELS = """\
models: [{file: small.ptl}, {file: large.ptl}]
targets: [linux-x86_64]
sources: {files: [src/*.cpp]}
"""
RECORDED: dict[str, Any] = {
    "root_operators": ("aten::relu",),
    "called_operators": {},
    "kernel_tags": {},
    "outputs": "d" * 64,
}


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
def test_an_app_is_traced_where_each_lock_is_current(stale: str, tmp_path: Path) -> None:
    folder = tmp_path / "apps/toy"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.cpp").write_text("int a;\n")
    here = toy_invocation(tmp_path, {"toy": TWO_MODELS})
    declared = here.workspace.apps["toy"]
    for model in declared.config.models:
        identity = here.models.trace_identity(declared, model)
        write_lock(folder, Trace("toy", model.name, identity, **RECORDED), b"")
    if stale == "model":
        (folder / "large.ptl").write_bytes(b"another")
    elif stale == "sources":
        (folder / "src/a.cpp").write_text("int b;\n")
    assert is_traced(toy_invocation(tmp_path), declared) == (not stale)


def test_an_app_without_locks_is_not_traced(tmp_path: Path) -> None:
    here = toy_invocation(good_workspace(tmp_path))
    assert not is_traced(here, here.workspace.apps["camera"])
