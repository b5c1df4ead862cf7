"""Folders that carry our marker: which are taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.system.folders import FolderNotOursError, ensure_folder, is_ours


def test_a_state_folder_removed_below_a_running_ninja_is_taken_over(tmp_path: Path) -> None:
    state = tmp_path / ".orchestrator"
    (state / "objects" / "camera").mkdir(parents=True)
    for name in (".ninja_log", ".ninja_deps", "started"):
        (state / name).touch()
    assert ensure_folder(state, "state") == state
    assert is_ours(state)


@pytest.mark.parametrize(
    ("kind", "name"), [("state", "notes.txt"), ("cache", "objects"), ("dist", ".ninja_log")]
)
def test_a_folder_with_other_contents_is_not_taken_over(
    tmp_path: Path, kind: str, name: str
) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / name).touch()
    with pytest.raises(FolderNotOursError) as raised:
        ensure_folder(tmp_path / "x", kind)  # type: ignore[arg-type]
    assert raised.value.seen == name
    assert not is_ours(tmp_path / "x")
