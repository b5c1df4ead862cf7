"""The files of a commit, which anyone may have written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.build.delivering.since import OutsideOfCommitError, unpacked

COMMIT = "0123456789abcdef"


def tree(*paths: str) -> Any:
    return SimpleNamespace(
        commit=lambda revision: COMMIT,
        files=lambda commit: {path: f"blob of {path}" for path in paths},
        in_batches=lambda blobs: ((blob, blob.encode()) for blob in blobs),
    )


def test_the_files_of_a_commit(tmp_path: Path) -> None:
    folder = unpacked(tree("WORKSPACE", "apps/camera/a..b.ptl"), "main", tmp_path)
    assert folder == tmp_path / "since/0123456789ab"
    found = {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}
    assert found == {
        "WORKSPACE": "blob of WORKSPACE",
        "apps/camera/a..b.ptl": "blob of apps/camera/a..b.ptl",
    }


@pytest.mark.parametrize("path", ["../../outside", "/outside", "apps/../../../outside"])
def test_a_file_outside_of_the_folder(path: str, tmp_path: Path) -> None:
    with pytest.raises(OutsideOfCommitError) as raised:
        unpacked(tree("WORKSPACE", path), "main", tmp_path / "state")
    assert raised.value.what == (
        f"a commit has a file outside of its folder, and is not unpacked: `{path}`"
    )
    assert list(tmp_path.iterdir()) == []
