"""Builds a workspace as it was at a commit, beside the workspace, to compare libraries with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.build.delivering.build import build
from orchestrator.build.executing.execute import View
from orchestrator.build.explaining.size import measured
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.ci.git_tree import GitTree, git_tree
from orchestrator.errors import OrchestratorError, visible
from orchestrator.size.attribution import Attribution
from orchestrator.system.workspace_lock import workspace_lock
from orchestrator.values.labels import VariantLabel


class OutsideOfCommitError(OrchestratorError):
    """A commit's tree is made to write outside of the folder that it is unpacked in."""


def sizes_since(
    here: Invocation, revision: str, labels: Sequence[VariantLabel], view: View
) -> dict[tuple[str, str], Attribution]:
    """App and ABI -> the attribution of each of the libraries that there were at a commit.

    The files of the commit are put into `.orchestrator/since/<commit>`, and built there with this
    orchestrator and the user's cache. Raises what reading the commit and a build raise.
    """
    context = here.context
    folder = unpacked(git_tree(context.root, context.env, context.runner), revision, context.state)
    then = replace(context, root=folder, state=folder / ".orchestrator", dist=folder / "dist")
    old = load(then, here.log)
    known = old.workspace.targets
    wanted = [label for label in labels if label.abi in known.get(label.app, ())]
    if not wanted:
        return {}
    old.runtimes.prepare(label.app for label in wanted)
    with workspace_lock(then.state, True, here.log, "size"):
        build(old, wanted, jobs=old.workspace.config.jobs, view=view)
    return {(label.app, label.abi): measured(old, label).attribution for label in wanted}


def unpacked(tree: GitTree, revision: str, state: Path) -> Path:
    """The files of a commit, in a folder that is named by it.

    Raises UnknownRevisionError, OutsideOfCommitError.
    """
    commit = tree.commit(revision)
    folder = state / "since" / commit[:12]
    files = tree.files(commit)
    outside = next((path for path in files if ".." in Path(path).parts or path[0] == "/"), None)
    if outside is not None:
        raise OutsideOfCommitError(
            f"a commit has a file outside of its folder, and is not unpacked: `{visible(outside)}`",
            seen=f"commit {commit}",
        )
    paths = defaultdict[str, list[str]](list)
    for path, blob in files.items():
        paths[blob].append(path)
    for blob, data in tree.in_batches(paths):
        for path in paths[blob]:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
    return folder
