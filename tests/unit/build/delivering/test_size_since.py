"""The files of a commit, put beside the workspace to be built."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_toy import ENV, commit, git, workspace

from orchestrator.build.delivering.since import unpacked
from orchestrator.ci.git_tree import UnknownRevisionError, git_tree


def test_a_commit_beside_the_workspace(tmp_path: Path) -> None:
    root = workspace(tmp_path / "repository/workspace")
    git(root.parent, "init", "--quiet")
    old = commit(root.parent)
    before = (root / "apps/camera/app.yaml").read_text()
    (root / "apps/camera/app.yaml").write_text("changed")
    commit(root.parent)
    tree = git_tree(root, ENV)
    folder = unpacked(tree, "HEAD~1", root / ".orchestrator")
    assert folder == root / ".orchestrator/since" / old[:12]
    assert (folder / "apps/camera/app.yaml").read_text() == before
    assert (folder / "WORKSPACE").read_text() == (root / "WORKSPACE").read_text()
    assert (root / "apps/camera/app.yaml").read_text() == "changed"
    with pytest.raises(UnknownRevisionError):
        unpacked(tree, "nowhere", root / ".orchestrator")
