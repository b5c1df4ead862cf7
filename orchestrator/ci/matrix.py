"""The variants that a change affects: the current workspace compared with that of a git commit."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from orchestrator.ci.git_tree import GitTree, git_tree
from orchestrator.ci.jobs import Matrix
from orchestrator.ci.touched import Change, touched
from orchestrator.context import Context
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import Workspace
from orchestrator.load.validate import raise_all
from orchestrator.load.workspace import FILE, load_workspace
from orchestrator.system.reading import read_text
from orchestrator.trace.lock import TraceDamagedError, parse_lock
from orchestrator.trace.reading import LONGEST

_PACKAGE: Final = Path(__file__).parent.parent
_PROJECT: Final = "pyproject.toml"
# What a workspace's script `orchestrate` installs: builtin/orchestrate.sh.
REQUIREMENTS: Final = "orchestrator-requirements.txt"


class NoRevisionError(OrchestratorError):
    """`--since` is empty."""


def matrix_since(
    context: Context, head: Workspace, revision: str, also: Iterable[str] = ()
) -> Matrix:
    """The jobs of a workspace that are touched since a revision, uncommitted changes included.

    also: files of the workspace, besides the list that its script installs from, that touch
    everything when they change.
    The comparison is with the last commit that the revision and this history share: what the
    revision's branch changed since is no change of this one.
    Raises GitMissingError, NotAGitTreeError, ForeignTreeError, NoRevisionError,
    UnknownRevisionError, and the faults of apps that were broken since: their jobs are unknown, so
    no job would report the fault.
    """
    if not revision.strip():
        raise NoRevisionError(
            "there is no commit to compare with: --since is empty",
            expected="a commit, a branch or a tag",
            hint="where a CI system names none (manual, scheduled, merge-queue and tag runs), give"
            " a branch, `--since origin/main`, or for everything forty zeros",
        )
    tree = git_tree(context.root, context.env, context.runner)
    if not revision.strip("0"):
        # what GitHub and GitLab give as the commit before a branch's first push
        raise_all([fault for faults in head.broken.values() for fault in faults])
        return Matrix(None, touched(head, Change(None, (), ("no commit to compare with",))))
    commit = tree.common(tree.commit(revision))
    paths = tree.changed(commit)
    files = tree.files(commit)
    with _workspace_of(tree, commit, files, context) as (base, why):
        raise_all([fault for app in _broken_since(head, base, paths) for fault in head.broken[app]])
        change = Change(
            base,
            paths - _same_locks(tree, files, paths, context.root),
            (*why, *_own_reasons(tree, commit), *sorted(paths & {REQUIREMENTS, *also})),
        )
        return Matrix(commit, touched(head, change))


def _broken_since(head: Workspace, base: Workspace | None, paths: Iterable[str]) -> list[str]:
    """The broken apps that were valid before, or one of whose files changed."""
    changed = {path.split("/")[1] for path in paths if path.startswith("apps/")}
    return [app for app in head.broken if base is None or app not in base.broken or app in changed]


@contextmanager
def _workspace_of(
    tree: GitTree, commit: str, files: Mapping[str, str], context: Context
) -> Iterator[tuple[Workspace | None, tuple[str, ...]]]:
    """The workspace that a commit declares; or none, and why every job is touched.

    Declarations are written to a folder; of other files only empty ones, since a declared model
    must exist.
    """
    if FILE not in files:
        yield None, ("the workspace is new",)
        return
    declared = [
        path
        for path in files
        if path == FILE or path.startswith("toolchains/") or path.endswith("/app.yaml")
    ]
    contents = tree.contents(files[path] for path in declared)
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as name:
        root = Path(name)
        for path in files:
            if path in declared or path.startswith("apps/"):
                file = root / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(contents[files[path]] if path in declared else b"")
        try:
            base = load_workspace(root, context.env)
        except OrchestratorError:
            yield None, ("the previous declarations cannot be read",)
        else:
            yield base, ()


def _same_locks(
    tree: GitTree, files: Mapping[str, str], paths: Iterable[str], root: Path
) -> frozenset[str]:
    """Changed trace locks with the same contents as before."""
    locks = [p for p in paths if p in files and Path(p).match("apps/*/traces/*.yaml")]
    before = tree.contents(files[path] for path in locks)
    same = set()
    for path in locks:
        try:
            old = parse_lock(before[files[path]].decode("utf-8", "replace"), path)
            new = parse_lock(read_text(root / path, LONGEST), path)
        except (TraceDamagedError, OSError):
            continue
        if old == new:
            same.add(path)
    return frozenset(same)


def _own_reasons(tree: GitTree, commit: str) -> tuple[str, ...]:
    """Reasons to build everything: the orchestrator itself changed, if its sources are in the same
    repository."""
    if not _PACKAGE.is_relative_to(tree.top):
        return ()
    project = _PACKAGE.parent
    changed = sorted(tree.changed(commit, _PACKAGE))
    reasons = []
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        reasons.append(f"orchestrator: {changed[0]}{more}")
    there = GitTree(project, tree.top, tree.env, tree.runner)
    if _PROJECT in there.changed(commit):
        before = there.files(commit, _PROJECT)
        old = there.contents(before.values()).get(before.get(_PROJECT, ""), b"").decode()
        names = _project_changes(old, (project / _PROJECT).read_text(encoding="utf-8"))
        reasons += [f"{_PROJECT}: {name}" for name in names]
    return tuple(reasons)


def _project_changes(old: str, new: str) -> list[str]:
    """List the keys of the orchestrator's `pyproject.toml` that differ."""
    tables: list[dict[str, Any]] = [tomllib.loads(text).get("project", {}) for text in (old, new)]
    names = ("version", "requires-python", "dependencies")
    return [name for name in names if tables[0].get(name) != tables[1].get(name)]
