"""Real builds, killed and moved: the same bytes come out of them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import Campaign
from real import ROOT, orchestrator, workspace_copy

from orchestrator.load.workspace import load_workspace

pytestmark = pytest.mark.real

LABELS = ("//apps/camera:linux-x86_64", "//apps/scanner:linux-x86_64")
# What a shell, ninja, make's depfiles, a linker's response file or a search path would read
# differently.
NAMES = (
    *("a b", "o'brien", "$HOME", "a#b", "a:b", "a,b", "ümläut 数", "n" * 180, 'say "x"'),
    *("`x`", "a;b", "a\\b", "[a]*", "100%", "a&b"),
)


def delivered(root: Path) -> dict[str, str]:
    """Path below `dist` -> sha256, of all that a build delivers; what begins with a dot, and what
    is in such a folder, is being made."""
    files = {p.relative_to(root): p for p in sorted((root / "dist").rglob("*")) if p.is_file()}
    return {
        name.as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in files.items()
        if not any(part.startswith(".") for part in name.parts)
    }


def libraries(root: Path) -> dict[str, str]:
    return {name: digest for name, digest in delivered(root).items() if name.endswith(".so")}


def cache_copy(place: Path) -> Path:
    """The user's cache by hard links: what is removed or replaced in it stays in the other."""
    users = load_workspace(ROOT, os.environ).cache
    # zig's own, of this installation, is found by the same path in both
    not_finished = shutil.ignore_patterns("staging")
    shutil.copytree(users, place, symlinks=True, copy_function=_link, ignore=not_finished)
    (place / "staging").mkdir()
    return place


def _link(source: str, target: str) -> None:
    """A hard link, unless the file is gone: others write under names that do not last."""
    with contextlib.suppress(FileNotFoundError):
        os.link(source, target)


def built(root: Path, *labels: str, **env: str) -> str:
    ran = orchestrator("build", *labels, "--quiet", cwd=root, **env)
    assert ran.code == 0, ran.err
    return ran.err


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a build of the two apps delivers that nothing disturbs."""
    root = workspace_copy(tmp_path_factory.mktemp("expected"), "camera", "scanner")
    built(root, *LABELS)
    return delivered(root)


def _lose(cache: Path, rng: random.Random, share: float) -> None:
    """Remove some of the cached objects, so that there is something to compile."""
    for path in sorted((cache / "objects").rglob("*.o")):
        if rng.random() < share:
            path.unlink()


def test_killed_at_any_moment_the_next_build_gives_the_same_bytes(
    campaign: Campaign, tmp_path: Path, expected: dict[str, str]
) -> None:
    root, cache = workspace_copy(tmp_path, "camera", "scanner"), cache_copy(tmp_path / "cache")
    argv = [sys.executable, "-P", "-m", "orchestrator", "build", *LABELS, "--quiet"]
    for number, rng in campaign.tries(short=4, long=100):
        if campaign.long:
            _lose(cache, rng, 0.02)
        shutil.rmtree(root / rng.choice(["dist", ".orchestrator", "nothing"]), ignore_errors=True)
        build = subprocess.Popen(
            argv,
            cwd=root,
            env={**os.environ, "ORCHESTRATOR_CACHE": str(cache)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(rng.uniform(0.2, 30 if campaign.long else 6))
        # all of it, as a machine that is reset; or the process alone, whose ninja goes on
        if rng.random() < 0.7:
            os.killpg(build.pid, signal.SIGKILL)
        else:
            build.kill()
        build.wait()
        # what lies in dist at this moment is whole: a proven one, or none
        for name, digest in libraries(root).items():
            assert expected[name] == digest, f"try {number}: {name}"
    built(root, *LABELS, ORCHESTRATOR_CACHE=str(cache))
    assert delivered(root) == expected
    # nothing that a killed process left is delivered
    assert not [p for p in (root / "dist").rglob("*") if ".new-" in p.name or ".part" in p.name]


def test_the_same_bytes_from_any_folder(
    campaign: Campaign, tmp_path: Path, expected: dict[str, str]
) -> None:
    """Workspace, cache and home under odd names; a few units are compiled there, all is linked."""
    for number, rng in campaign.tries(short=2, long=len(NAMES)):
        name = NAMES[number]
        home = tmp_path / name
        home.mkdir()
        root = workspace_copy(home, "camera")
        cache = cache_copy(home / "cache")
        _lose(cache, rng, 0.01)
        built(root, LABELS[0], ORCHESTRATOR_CACHE=str(cache), HOME=str(home))
        seen = delivered(root)
        assert seen == {path: expected[path] for path in seen}, f"try {number}: {name}"
        assert any(path.endswith(".so") for path in seen)
        shutil.rmtree(home)


def test_each_damaged_object_is_found(
    campaign: Campaign, tmp_path: Path, expected: dict[str, str]
) -> None:
    """In copies of the cache's objects; camera's library is the same after each."""
    root, cache = workspace_copy(tmp_path, "camera"), cache_copy(tmp_path / "cache")
    built(root, LABELS[0], ORCHESTRATOR_CACHE=str(cache))
    used = sorted((root / ".orchestrator/objects").rglob("*.o"))
    for number, rng in campaign.tries(short=2, long=3 * len(used)):
        place = used[number % len(used)]
        (entry,) = (cache / "objects").rglob(f"{place.stem}.*.o")
        data = entry.read_bytes()
        entry.unlink()
        kind = number // len(used) if campaign.long else number
        if kind == 0:
            data = b""
        elif kind == 1:
            data = data[: rng.randrange(len(data))]
        else:
            at = rng.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        entry.write_bytes(data)
        shutil.rmtree(root / ".orchestrator/objects")
        (root / ".orchestrator/last-build.json").unlink()
        said = built(root, LABELS[0], ORCHESTRATOR_CACHE=str(cache))
        assert not said or "damaged object" in said
        seen = libraries(root)
        assert seen == {path: expected[path] for path in seen}, f"try {number}: {place.name}"


@pytest.mark.parametrize("checkout", ["this", "another"])
def test_a_complete_cache_that_is_read_only_builds(
    checkout: str, tmp_path: Path, expected: dict[str, str]
) -> None:
    root, cache = workspace_copy(tmp_path, "camera"), cache_copy(tmp_path / "cache")
    ours = ROOT
    if checkout == "another":
        ours = tmp_path / "another"
        # what the package's links lead to comes along, as it does in a wheel
        shutil.copytree(ROOT / "orchestrator", ours / "orchestrator")
    mount = f'mount --bind "{cache}" "{cache}" && mount -o remount,bind,ro "{cache}" && exec "$@"'
    inside = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
    done = subprocess.run(
        [*inside, sys.executable, "-P", "-m", "orchestrator", "build", LABELS[0], "--quiet"],
        cwd=root,
        env={**os.environ, "ORCHESTRATOR_CACHE": str(cache), "PYTHONPATH": str(ours)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    own_wrappers = (root / ".orchestrator/toolchains").exists()
    assert own_wrappers == (checkout == "another")
    assert delivered(root) == {p: d for p, d in expected.items() if p.startswith("dist/camera/")}
