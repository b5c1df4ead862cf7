"""Lets go what a workspace keeps of variants that its declarations no longer have."""

from __future__ import annotations

import time
from typing import Final

from orchestrator.build.delivering.package import UNPROVEN
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.system.staging import remove

# Another branch may declare the variant.
_UNUSED: Final = 7 * 24 * 3600


def forget_dropped(here: Invocation) -> None:
    """Remove linked files and logs of variants that no declaration has and no build has used for a
    week; the cache has what it can still use. The caller holds the workspace's lock.

    The mark of a variant that was not verified stays: dist/ may have its folder still.
    """
    folder = here.context.state / "variants"
    targets, broken = here.workspace.targets, here.workspace.broken
    before = time.time() - _UNUSED
    for variant in sorted(folder.glob("*/*")):
        app, abi = variant.parent.name, variant.name
        declared = app in broken or abi in targets.get(app, ())
        if not declared and variant.is_dir() and not variant.is_symlink():
            inside = [path for path in variant.iterdir() if path.name != UNPROVEN]
            if all(path.lstat().st_mtime < before for path in inside):
                for path in inside:
                    remove(path)
