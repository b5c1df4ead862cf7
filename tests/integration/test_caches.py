"""The other caches that the guide names, for real: ccache over HTTP, and sccache with a server."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from fanout import Workspace, free_port, server
from real import EACH_RUNTIME
from storage import http_storage

from tests.debian import CCACHE, SCCACHE, environment_with

pytestmark = pytest.mark.ci_only

# The second reads a header of ours first.
UNITS = {
    "linux-x86_64": ("c10/util/SmallVector.cpp", "caffe2/serialize/inline_container.cc"),
    "linux-arm64": ("c10/util/SmallVector.cpp",),
    "ios-arm64": ("c10/util/SmallVector.cpp",),
}
COUNT = sum(map(len, UNITS.values()))


@pytest.mark.parametrize("runtime", EACH_RUNTIME)
def test_a_second_workspace_gets_its_objects_over_http(runtime: str, tmp_path: Path) -> None:
    env = environment_with({"ccache": CCACHE})
    with http_storage() as storage:
        launcher = {"command": ["ccache"], "env": {"CCACHE_REMOTE_STORAGE": storage.url}}
        first = Workspace(tmp_path / "first", launcher, env, runtime)
        made = first.compile(UNITS)
        assert first.ccache_counts()["cache_miss"] == COUNT
        # the answer to a source's headers, and the object
        assert len(storage.kept) == 2 * COUNT
        second = Workspace(tmp_path / "second", launcher, env, runtime)
        again = second.compile(UNITS)
    assert second.ccache_counts()["direct_cache_hit"] == COUNT
    assert again.objects == made.objects


@pytest.mark.parametrize("runtime", EACH_RUNTIME)
def test_sccache_keeps_abis_apart_and_gives_what_was_made(runtime: str, tmp_path: Path) -> None:
    env = environment_with({"sccache": SCCACHE})
    port = free_port()
    # its server's own folder: Debian's sccache is built without the storages of a network
    told = {"SCCACHE_SERVER_PORT": str(port), "SCCACHE_DIR": str(tmp_path / "kept")}
    daemon = {**env, **told, "SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1"}
    with server(["sccache"], port, daemon, tmp_path / "sccache.log"):
        launcher = {"command": ["sccache"], "env": told}
        workspace = Workspace(tmp_path / "one", launcher, env, runtime)
        made = workspace.compile(UNITS)
        assert _counts({**env, **told}) == {"hits": 0, "misses": COUNT}
        shutil.rmtree(workspace.here.context.cache / "objects")
        again = workspace.compile(UNITS)
        assert _counts({**env, **told}) == {"hits": COUNT, "misses": COUNT}
    assert len(again.execution.compiled) == COUNT
    assert again.objects == made.objects
    # one source, three ABIs
    assert len(set(made.objects.values())) == COUNT


def _counts(env: dict[str, str]) -> dict[str, int]:
    argv = ["sccache", "--show-stats", "--stats-format", "json"]
    told = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    stats = json.loads(told.stdout)["stats"]
    hits, misses = (stats[name]["counts"] for name in ("cache_hits", "cache_misses"))
    return {"hits": sum(hits.values()), "misses": sum(misses.values())}
