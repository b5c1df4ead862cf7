"""A clock that goes back: what is newer than now, and the builds after it.

What a machine made while its clock was a day ahead has times of tomorrow when the clock is right
again. Here such times are set, on all that one build made, in a cache of its own. The builds after
it must give what they give without.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from real import ROOT, orchestrator, workspace_copy
from test_real_builds import cache_copy, delivered

pytestmark = pytest.mark.real

LABEL = "//apps/camera:linux-x86_64"
TOMORROW = time.time() + 24 * 3600


def own_cache(folder: Path) -> Path:
    """A copy of the user's cache: objects are copied, since their times change, the rest are hard
    links."""
    # on a new machine there is no cache yet
    ran = orchestrator("build", LABEL, "--quiet", cwd=workspace_copy(folder, "camera"))
    assert ran.code == 0, ran.err
    cache = cache_copy(folder / "cache")
    for path in (path for path in (cache / "objects").rglob("*") if path.is_file()):
        aside = path.with_name("copy")
        shutil.copy2(path, aside)
        aside.replace(path)
    return cache


def put_ahead(*folders: Path) -> None:
    for folder in folders:
        for path in (*folder.rglob("*"), folder):
            os.utime(path, (TOMORROW, TOMORROW), follow_symlinks=False)


def built(root: Path, cache: Path) -> bool:
    """Build; whether it was a replay."""
    ran = orchestrator("build", LABEL, "--json", "--quiet", cwd=root, ORCHESTRATOR_CACHE=str(cache))
    assert ran.code == 0, ran.err
    return bool(json.loads(ran.out)["replayed"])


def take_scanners_model(root: Path) -> None:
    """camera with one operator more."""
    camera, scanner = root / "apps/camera", ROOT / "apps/scanner"
    for name in ("models", "traces"):
        shutil.rmtree(camera / name)
        shutil.copytree(scanner / name, camera / name)
    lock = camera / "traces/pages.yaml"
    lock.write_text(lock.read_text().replace("app: scanner", "app: camera"))
    declared = camera / "app.yaml"
    text = declared.read_text().replace("classifier", "pages")
    declared.write_text(text.replace("runtime: pytorch_1_13", "runtime: pytorch_2_6"))


def test_builds_after_a_clock_went_back(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    cache = own_cache(tmp_path / "users")
    root = workspace_copy(tmp_path, "camera")
    built(root, cache)
    before = delivered(root)

    put_ahead(root, cache / "objects")
    assert not built(root, cache)
    assert delivered(root) == before
    # tomorrow's objects are linked once more, and then no more
    assert built(root, cache)

    # newer than yesterday's library, and older than its times say
    put_ahead(root, cache / "objects")
    take_scanners_model(root)
    built(root, cache)

    (tmp_path / "undisturbed").mkdir()
    fresh = workspace_copy(tmp_path / "undisturbed", "camera")
    take_scanners_model(fresh)
    built(fresh, cache)
    assert delivered(root) == delivered(fresh)
    assert delivered(root) != before
