"""Compiler launchers for real: ccache over Redis, and distcc, with servers on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from fanout import Made, Workspace, distccd, redis
from real import EACH_RUNTIME, V1_13, V2_6, orchestrator, workspace_copy

from tests.debian import CCACHE, DISTCC, REDIS, environment_with

pytestmark = pytest.mark.ci_only
HOST = "linux-x86_64"

# Light units of PyTorch; for iOS and arm64 the version in zig's target must reach the server. Some
# read a header of ours first: for 2.6.0 one of its overlay.
UNITS: dict[str, tuple[str, ...]] = {
    HOST: (
        "c10/core/Allocator.cpp",
        "c10/core/DefaultDtype.cpp",
        "c10/core/Device.cpp",
        "c10/core/DeviceType.cpp",
        "c10/core/DispatchKey.cpp",
        "c10/core/DispatchKeySet.cpp",
        "c10/core/InferenceMode.cpp",
        "c10/core/Stream.cpp",
        "c10/util/Backtrace.cpp",
        "c10/util/SmallVector.cpp",
        "c10/util/StringUtil.cpp",
        "c10/util/typeid.cpp",
        "aten/src/ATen/AccumulateType.cpp",
        "aten/src/ATen/core/Dimname.cpp",
        "aten/src/ATen/native/DispatchStub.cpp",
        "caffe2/serialize/inline_container.cc",
    ),
    "linux-arm64": ("c10/util/SmallVector.cpp", "aten/src/ATen/native/DispatchStub.cpp"),
    "ios-arm64": ("c10/core/DeviceType.cpp", "c10/util/SmallVector.cpp"),
}
# Found by a folder of the version's own: miniz, which is C, and what reads a stand-in for cpuinfo.
OF_VERSION = {
    V1_13: "third_party/miniz-2.1.0/miniz.c",
    V2_6: "c10/core/thread_pool.cpp",
}
COUNT = sum(map(len, UNITS.values())) + 1


def units_of(runtime: str) -> dict[str, tuple[str, ...]]:
    return {**UNITS, HOST: (*UNITS[HOST], OF_VERSION[runtime])}


@dataclass(frozen=True)
class Builds:
    """The same units in three workspaces.

    first   compiled by the distcc servers; second  from Redis
    third   Redis was killed after the first action; the rest was compiled here
    logs    what the distcc servers said after the first
    """

    units: dict[str, tuple[str, ...]]
    first: Workspace
    made: Made
    second: Workspace
    again: Made
    third: Workspace
    alone: Made
    logs: tuple[str, str]


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def builds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """Servers are started here and killed at the end."""
    runtime = str(request.param)
    units = units_of(runtime)
    env = environment_with(
        {"ccache": CCACHE, "redis-server": REDIS, "distcc": DISTCC, "distccd": DISTCC}
    )
    folder = tmp_path_factory.mktemp("fanout")
    with redis(folder, env) as (port, kill):
        # ccache gives up after 0.1 s, which a busy machine may take
        patient = "|connect-timeout=20000|operation-timeout=20000"
        storage = {"CCACHE_REMOTE_STORAGE": f"redis://127.0.0.1:{port}{patient}"}
        with distccd(folder, env) as one, distccd(folder, env) as two:
            spread = {
                "CCACHE_PREFIX": "distcc",
                "DISTCC_HOSTS": f"127.0.0.1:{one[0]}/2 127.0.0.1:{two[0]}/2",
                "DISTCC_FALLBACK": "0",
                "DISTCC_DIR": str(folder),
            }
            distributed = {"command": ["ccache"], "env": {**storage, **spread}}
            first = Workspace(folder / "first", distributed, env, runtime)
            made = first.compile(units)
            logs = (one[1].read_text(), two[1].read_text())
        launcher = {"command": ["ccache"], "env": storage}
        second = Workspace(folder / "second", launcher, env, runtime)
        again = second.compile(units)
        third = Workspace(folder / "third", launcher, env, runtime)
        alone = third.compile(units, lambda actions: kill() if actions == 1 else None)
    return Builds(units, first, made, second, again, third, alone, logs)


def test_both_servers_compiled_and_nothing_else_did(builds: Builds) -> None:
    assert builds.first.ccache_counts()["cache_miss"] == COUNT
    done = [log.count("COMPILE_OK") for log in builds.logs]
    assert sum(done) == COUNT
    assert min(done) > 0


def test_a_second_workspace_gets_its_objects_from_redis(builds: Builds) -> None:
    counts = builds.second.ccache_counts()
    assert counts["remote_storage_hit"] >= 0.95 * COUNT
    assert counts["direct_cache_hit"] + counts["preprocessed_cache_hit"] == COUNT
    assert len(builds.again.execution.compiled) == COUNT
    assert builds.again.objects == builds.made.objects


def test_a_build_goes_on_without_redis(builds: Builds) -> None:
    counts = builds.third.ccache_counts()
    assert counts["remote_storage_hit"] > 0
    assert counts["remote_storage_error"] > 0
    assert counts["cache_miss"] > COUNT / 2
    assert counts["remote_storage_hit"] + counts["cache_miss"] == COUNT


def test_servers_and_this_machine_make_the_same_objects(builds: Builds) -> None:
    assert builds.alone.objects == builds.made.objects


def test_what_an_object_depends_on_is_there(builds: Builds) -> None:
    """An object from elsewhere brings the depfile of elsewhere."""
    cache = builds.second.here.context.cache
    lines = builds.second.dependencies().splitlines()
    heads = [line for line in lines if line.startswith("/")]
    assert len(heads) == COUNT
    assert all(line.endswith("(VALID)") for line in heads)
    files = {line.strip() for line in lines if line.startswith(" ")}
    assert {f for f in files if not (cache / f).is_file()} == set()
    paths = {path for several in builds.units.values() for path in several}
    assert len({f for path in paths for f in files if f.endswith(path)}) == len(paths)
    # nothing of another workspace
    assert {f for f in files if "/first/" in f} == set()


def test_a_missing_launcher_is_told_before_anything_runs(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    with (root / "WORKSPACE").open("a") as file:
        file.write("launcher:\n  command: [no-such-launcher]\n")
    cache = tmp_path / "cache"
    for verb in ("build", "trace"):
        ran = orchestrator(verb, "//apps/camera", cwd=root, ORCHESTRATOR_CACHE=str(cache))
        assert (ran.code, ran.out, ran.err) == (
            1,
            "",
            "WORKSPACE: error: the compiler launcher no-such-launcher is not on PATH\n"
            "  do:       install no-such-launcher, or remove `launcher` from WORKSPACE\n",
        )
        assert not cache.exists()
