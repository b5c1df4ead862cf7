"""Makes the page of delivered libraries: what is in them, what commits keep, the last build."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from orchestrator.build.explaining.kept_sizes import SIZES, sizes_in
from orchestrator.build.explaining.size import OptimisedAsWholeError, measured
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.ci.git_tree import GitMissingError, NotAGitTreeError, git_tree
from orchestrator.deliver.manifest import MANIFEST, Manifest, read_manifest
from orchestrator.report.events import Event, last_events, read_events
from orchestrator.report.page.document import page
from orchestrator.report.page.history import Recorded
from orchestrator.size.attribution import Attribution
from orchestrator.system.reading import parse_json
from orchestrator.values.labels import VariantLabel

# Commits that the history begins with at the earliest.
_MOST_COMMITS: Final = 100


def made_page(here: Invocation, labels: Sequence[VariantLabel], history: str) -> str:
    """The page of these variants' libraries.

    history: a folder of the repository in which commits keep sizes or manifests. Raises what
    measuring libraries raises.
    """
    apps = here.workspace.apps
    return page(
        [_attribution(here, label) for label in labels],
        {
            (label.app, label.abi): budget.total
            for label in labels
            if (budget := apps[label.app].config.budgets.get(label.abi)) is not None
            if budget.total is not None
        },
        _recorded(here, {(label.app, label.abi) for label in labels}, history),
        _last_build(here),
    )


def _attribution(here: Invocation, label: VariantLabel) -> Attribution:
    """Find what was kept of the library that is there, or else what is found now; of one that is
    optimised as a whole its size."""
    folder = here.context.dist / label.app / label.abi
    if (folder / MANIFEST).is_file():
        kept = sizes_in(folder).get((label.app, label.abi))
        manifest = read_manifest(folder)
        fact = manifest.files[manifest.library.file]
        if kept is not None and not kept.is_total and kept.library == fact.sha256:
            return kept
    try:
        return measured(here, label).attribution
    except OptimisedAsWholeError:
        return sizes_in(folder)[label.app, label.abi]


def _last_build(here: Invocation) -> tuple[Event, ...]:
    try:
        return read_events(last_events(here.context.state).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return ()


def _recorded(here: Invocation, keys: set[tuple[str, str]], history: str) -> tuple[Recorded, ...]:
    """The sizes in the commits that changed a folder, of these apps and ABIs, oldest first."""
    context = here.context
    try:
        tree = git_tree(context.root, context.env, context.runner)
    except (GitMissingError, NotAGitTreeError):
        return ()
    found, known = [], dict[str, tuple[tuple[str, str], int] | None]()
    for commit, date in tree.commits(history, _MOST_COMMITS):
        files = tree.files(commit, history)
        blobs = {blob: path for path, blob in files.items() if _is_kept(path)}
        for blob, data in tree.contents(blobs.keys() - known.keys()).items():
            known[blob] = _size(blobs[blob], data)
        sizes = dict(one for blob in blobs if (one := known[blob]) is not None and one[0] in keys)
        if sizes:
            found.append(Recorded(commit[:12], date, sizes))
    return tuple(found)


def _is_kept(path: str) -> bool:
    parts = PurePosixPath(path)
    return parts.name == MANIFEST or (parts.suffix == ".json" and parts.parent.name == SIZES)


def _size(path: str, data: bytes) -> tuple[tuple[str, str], int] | None:
    """The library that a file tells of, and its bytes; None for another file, and for the manifest
    of a static library, of which it does not tell what an app links."""
    try:
        if PurePosixPath(path).name != MANIFEST:
            one = Attribution.parse(parse_json(data.decode()))
            return (one.app, one.abi), one.size
        manifest = Manifest.parse(data.decode())
    except ValueError:
        return None
    if manifest.library.is_static or manifest.library.file not in manifest.files:
        return None
    return (manifest.app, manifest.abi), manifest.files[manifest.library.file].bytes
