"""Builds variants again in folders of their own, and compares what is delivered byte by byte."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from orchestrator.build.delivering.build import build
from orchestrator.build.executing.execute import View
from orchestrator.build.workshop.fetch import FETCHED
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.context import Context
from orchestrator.errors import OrchestratorError, visible
from orchestrator.system.folders import ensure_folder
from orchestrator.system.reading import file_sha256
from orchestrator.system.workspace_lock import workspace_lock
from orchestrator.values.labels import VariantLabel

# A signature says when it was made.
_SIGNATURE: Final = ".minisig"
# So many files are named in an error.
_NAMED: Final = 10


class RebuildDiffersError(OrchestratorError):
    """A second build gave other bytes than the delivered ones."""


@dataclass(frozen=True)
class Rebuilt:
    """A second build of a variant: the number of files that are the same, and paths in `dist/` of
    those that are not, or that one of both builds lacks."""

    label: VariantLabel
    same: int
    differing: tuple[str, ...]


def rebuilt(here: Invocation, labels: Sequence[VariantLabel], view: View) -> tuple[Rebuilt, ...]:
    """Build the variants once more, and compare each with what is delivered: its files, and the
    packages that this build made too.

    Of the cache, only the trees that were fetched are used. All else is made anew, in an empty one
    and in other folders, which are removed afterwards. Raises what a build raises.
    """
    with _folders(here.context) as context:
        again = load(context, here.log)
        again.runtimes.prepare(label.app for label in labels)
        with workspace_lock(context.state, True, here.log, "verify --rebuild"):
            build(again, labels, jobs=again.workspace.config.jobs, view=view)
        return tuple(compared(label, here.context.dist, context.dist) for label in labels)


def require_same(found: Rebuilt) -> None:
    """Raise RebuildDiffersError where a file differs."""
    if not found.differing:
        return
    more = len(found.differing) - _NAMED
    names = ", ".join(map(visible, found.differing[:_NAMED]))
    raise RebuildDiffersError(
        f"{found.label} built again has other bytes",
        expected="the delivered files, byte by byte",
        seen=f"{names}, and {more} more" if more > 0 else names,
        hint="build it here first, from the files as they are now: another state of the app,"
        " another compiler or another version of the orchestrator gives other bytes",
    )


def compared(label: VariantLabel, delivered: Path, again: Path) -> Rebuilt:
    """Compare a variant's files, and its app's packages, in two `dist` folders. Of packages those
    count that `again` has: one of several ABIs is made where all of them are built."""
    packages = f"{label.app}/packages"
    before = {**_digests(delivered, label.delivered), **_digests(delivered, packages)}
    after = {**_digests(again, label.delivered), **_digests(again, packages)}
    names = {name for name in before if not name.startswith(f"{packages}/")} | after.keys()
    differing = sorted(name for name in names if before.get(name) != after.get(name))
    return Rebuilt(label, len(names) - len(differing), tuple(differing))


def _digests(dist: Path, folder: str) -> dict[str, str]:
    """Path in `dist` -> sha256 of each file in one of its folders."""
    return {
        path.relative_to(dist).as_posix(): file_sha256(path)
        for path in sorted((dist / folder).rglob("*"))
        if path.is_file() and path.suffix != _SIGNATURE
    }


@contextmanager
def _folders(context: Context) -> Iterator[Context]:
    """Yield the context of a build whose folders are new, with the trees that were fetched."""
    ensure_folder(context.state, "state")
    folder = Path(tempfile.mkdtemp(prefix="rebuild-", dir=context.state))
    try:
        cache = ensure_folder(folder / "cache", "cache")
        (cache / FETCHED).mkdir()
        for tree in sorted((context.cache / FETCHED).glob("*")):
            (cache / FETCHED / tree.name).symlink_to(tree, target_is_directory=True)
        state = ensure_folder(folder / "state", "state")
        yield replace(
            context, cache=cache, state=state, dist=ensure_folder(folder / "dist", "dist")
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
