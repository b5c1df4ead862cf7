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

import core_toy
import pytest
from harness import Campaign
from real import ROOT, orchestrator, workspace_copy

from orchestrator.build.planning.plan import plan_variants
from orchestrator.compilers.zig import zig_cache
from orchestrator.load.workspace import load_workspace
from orchestrator.plan.graph import action_graph
from orchestrator.values.labels import VariantLabel

pytestmark = pytest.mark.real

LABELS = ("//apps/camera:linux-x86_64", "//apps/scanner:linux-x86_64")
BUILD_CAMERA = (sys.executable, "-P", "-m", "orchestrator", "build", LABELS[0], "--quiet")
# A namespace of processes of its own, as in a container.
CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
# What a shell, ninja, make's depfiles, a response file or a search path would read differently;
# `orchestrator.context.usable` refuses the others.
NAMES = (
    *("a b", "o'brien", "$HOME", "a#b", "a:b", "a,b", "ümläut 数", "n" * 180, 'say "x"'),
    *("`x`", "a;b", "[a]*", "a&b"),
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


def declared(cache: Path) -> str:
    """A cache's path as ORCHESTRATOR_CACHE names it, which may use variables."""
    return str(cache).replace("$", "$$")


def libraries(root: Path) -> dict[str, str]:
    return {name: digest for name, digest in delivered(root).items() if name.endswith(".so")}


def cache_copy(place: Path) -> Path:
    """The user's cache by hard links: what is removed or replaced in it stays in the other. zig's
    manifests are copied: it writes and locks them in place. Without linked files: builds link."""
    users = load_workspace(ROOT, os.environ).cache
    place.mkdir()
    _link_all(
        [path for path in users.iterdir() if path.name not in ("staging", "zig", "links")], place
    )
    (place / "staging").mkdir()
    # zig's own, of this installation, is found by the same path in both; others' are not looked at
    installation = zig_cache(users).name.partition("-")[0]
    (place / "zig").mkdir()
    _link_all(sorted((users / "zig").glob(f"{installation}*")), place / "zig")
    for manifest in place.glob("zig/*/h/*"):
        manifest.unlink()
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(users / manifest.relative_to(place), manifest)
    for unfinished in place.glob("zig/*/tmp"):
        shutil.rmtree(unfinished)
    return place


def _link_all(sources: list[Path], folder: Path) -> None:
    """Hard links of folders, without files that are gone: others write under names that do not
    last. A program does it: the cache has tens of thousands of files."""
    done = subprocess.run(
        ["cp", "-al", *sources, folder],
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = [line for line in done.stderr.splitlines() if "No such file" not in line]
    assert failed == []


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


def of_camera(files: dict[str, str]) -> dict[str, str]:
    """What the build of camera alone delivers."""
    return {name: digest for name, digest in files.items() if name.startswith("dist/camera/")}


def _lose(cache: Path, rng: random.Random, share: float) -> None:
    """Remove some of the cached objects, so that there is something to compile, and as many
    linked files."""
    for path in sorted((*(cache / "objects").rglob("*.o"), *(cache / "links").rglob("*.link"))):
        if rng.random() < share:
            path.unlink()


def test_killed_at_any_moment_the_next_build_gives_the_same_bytes(
    campaign: Campaign, tmp_path: Path, expected: dict[str, str]
) -> None:
    root, cache = workspace_copy(tmp_path, "camera", "scanner"), cache_copy(tmp_path / "cache")
    argv = [sys.executable, "-P", "-m", "orchestrator", "build", *LABELS, "--quiet"]
    for number, rng in campaign.tries(short=4, long=100):
        _lose(cache, rng, 0.02 if campaign.long else 0.005)
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
        if number % 10 == 9:
            built(root, *LABELS, ORCHESTRATOR_CACHE=str(cache))
            assert delivered(root) == expected, f"try {number}"
    built(root, *LABELS, ORCHESTRATOR_CACHE=str(cache))
    assert delivered(root) == expected
    # nothing that a killed process left is delivered
    assert not [p for p in (root / "dist").rglob("*") if ".new-" in p.name or ".part" in p.name]


def test_containers_build_at_once_on_one_cache(
    campaign: Campaign, tmp_path: Path, expected: dict[str, str]
) -> None:
    """Their processes have the same small numbers; both compile what the cache lost."""
    names = ("one", "other")
    for name in names:
        (tmp_path / name).mkdir()
    roots = [workspace_copy(tmp_path / name, "camera") for name in names]
    cache = cache_copy(tmp_path / "cache")
    for number, rng in campaign.tries(short=1, long=10):
        _lose(cache, rng, 0.005)
        for root in roots:
            shutil.rmtree(root / ".orchestrator", ignore_errors=True)
        builds = [
            subprocess.Popen(
                [*CONTAINER, *BUILD_CAMERA],
                cwd=root,
                env={**os.environ, "ORCHESTRATOR_CACHE": str(cache)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for root in roots
        ]
        said = [build.communicate()[0] for build in builds]
        assert [build.returncode for build in builds] == [0, 0], said
        for root in roots:
            assert delivered(root) == of_camera(expected), f"try {number}"


_ON_A_SMALL_DISK = """
mkdir disk && mount -t tmpfs -o size=$1k none disk && cp -r "$2/." disk && cd disk || exit 99
shift 2
"$@" >/dev/null
code=$?
mount -o remount,size=1g . || exit 99
"$@" || exit 98
[ ! -d dist ] || cp -r dist "$OLDPWD"
exit $code
"""


def on_a_small_disk(
    folder: Path, size: int, workspace: Path, argv: tuple[str, ...], **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a copy of a workspace on a file system of `size` KB, and again when that
    has grown: its exit code the first time, what it told both times, its answer the second time,
    and `dist` in the folder. The first time it must say what failed, or succeed."""
    inside = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _ON_A_SMALL_DISK, "sh")
    done = subprocess.run(
        [*inside, str(size), str(workspace), *argv],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    told = f"{size} KB: {done.stderr}"
    assert done.returncode in {0, 1}, told
    assert (done.returncode == 0) == ("o space left" not in done.stderr), told
    return done


def test_a_full_disk(campaign: Campaign, tmp_path: Path, expected: dict[str, str]) -> None:
    """A workspace on a small file system, a larger one at each try: the build fails and says so, or
    is right; with more space it is right."""
    source = workspace_copy(tmp_path, "camera")
    # from none of camera's 60 MB of state and 30 MB of deliveries to all of them
    sizes = range(1_000, 101_000, 5_000)
    codes = set()
    for number, _ in campaign.tries(short=2, long=len(sizes)):
        size = sizes[number] if campaign.long else (9_000, 100_000)[number]
        into = tmp_path / str(number)
        into.mkdir()
        done = on_a_small_disk(into, size, source, BUILD_CAMERA)
        told = f"try {number}, {size} KB: {done.stderr}"
        assert delivered(into) == of_camera(expected), told
        codes.add(done.returncode)
    assert codes == {0, 1} or campaign.only is not None


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
        built(root, LABELS[0], ORCHESTRATOR_CACHE=declared(cache), HOME=str(home))
        seen = delivered(root)
        assert seen == {path: expected[path] for path in seen}, f"try {number}: {name}"
        assert any(path.endswith(".so") for path in seen)
        shutil.rmtree(home)


def test_the_same_bytes_from_a_checkout_in_any_folder(
    campaign: Campaign, tmp_path: Path, expected: dict[str, str]
) -> None:
    """The orchestrator itself lies in a folder of an odd name; its own C++ is compiled there."""
    # Python's search path cannot hold the others
    names = ["a b'$x", *(name for name in NAMES if ":" not in name)]
    for number, _ in campaign.tries(short=1, long=len(names)):
        home = tmp_path / names[number]
        home.mkdir()
        root, cache = workspace_copy(home, "camera"), cache_copy(home / "cache")
        shutil.copytree(ROOT / "orchestrator", home / "checkout/orchestrator")
        lost = [path for stem in _own_objects() for path in cache.glob(f"objects/*/{stem}.*")]
        for path in lost:
            path.unlink()
        assert len(lost) > 10
        ours = str(home / "checkout")
        built(root, LABELS[0], ORCHESTRATOR_CACHE=declared(cache), PYTHONPATH=ours)
        seen = delivered(root)
        assert seen == of_camera(expected)
        # it was this checkout that built
        ninja = (root / ".orchestrator/build.ninja").read_text()
        assert "/checkout/orchestrator/native\n" in ninja
        shutil.rmtree(home)


def _own_objects() -> list[str]:
    """What the cache calls the objects of our own C++ sources in camera's library."""
    (variant,) = plan_variants(core_toy.this_checkout(), [VariantLabel("camera", "linux-x86_64")])
    compiles = action_graph([variant.objects], []).compiles
    return [Path(output).stem for output, one in compiles.items() if one.source.startswith("$nat")]


def test_each_damaged_object_is_found(
    campaign: Campaign, tmp_path: Path, expected: dict[str, str]
) -> None:
    """In a copy of the cache, some in one build; camera's library is the same after each."""
    root, cache = workspace_copy(tmp_path, "camera"), cache_copy(tmp_path / "cache")
    built(root, LABELS[0], ORCHESTRATOR_CACHE=str(cache))
    used = sorted((root / ".orchestrator/objects").rglob("*.o"))
    batches = [used[at : at + 16] for at in range(0, len(used), 16)]
    if not campaign.long:
        batches = [[place] for place in used]
    for number, rng in campaign.tries(short=2, long=3 * len(batches)):
        batch = batches[number % len(batches)]
        for place in batch:
            (entry,) = (cache / "objects").rglob(f"{place.stem}.*.o")
            _damage(entry, number // len(batches) if campaign.long else number, rng)
        shutil.rmtree(root / ".orchestrator/objects")
        (root / ".orchestrator/last-build.json").unlink(missing_ok=True)
        ran = orchestrator("build", LABELS[0], cwd=root, ORCHESTRATOR_CACHE=str(cache))
        assert ran.code == 0, ran.err
        plural = "s" if len(batch) > 1 else ""
        assert f"{len(batch)} damaged object{plural} in the cache: removed" in ran.err
        seen = libraries(root)
        assert seen == {path: expected[path] for path in seen}, f"try {number}: {batch[0].name}"
        assert seen


def test_each_damaged_linked_file_is_found(
    campaign: Campaign, tmp_path: Path, expected: dict[str, str]
) -> None:
    """Archives and programs too, in which no model of the verification runs: in the workspace, and
    in the cache."""
    root, cache = workspace_copy(tmp_path, "camera"), cache_copy(tmp_path / "cache")
    built(root, LABELS[0], ORCHESTRATOR_CACHE=str(cache))
    camera = of_camera(expected)
    linked = sorted(p for p in (root / ".orchestrator/variants").rglob("*") if p.is_file())
    files = [path for path in linked if path.suffix in {".so", ".a", ""}]
    assert {path.suffix for path in files} == {".so", ".a", ""}
    for number, rng in campaign.tries(short=3, long=3 * len(files)):
        damaged = files[number // 3] if campaign.long else rng.choice(files)
        (entry,) = (one for one in (cache / "links").rglob("*.link") if damaged.samefile(one))
        _damage(damaged, number % 3, rng)
        # the cache has it, then has it damaged, then has nothing
        told = ""
        if number % 2:
            _damage(entry, number % 3, rng)
            told = "1 damaged linked file in the cache: removed, to be linked again"
            told += f" ({entry.name[:12]}...)"
        elif number % 4:
            entry.unlink()
            told = f"{damaged} changed since the link: linked again"
        ran = orchestrator("build", LABELS[0], cwd=root, ORCHESTRATOR_CACHE=str(cache))
        assert ran.code == 0, ran.err
        assert told in ran.err
        assert delivered(root) == camera, f"try {number}: {damaged.name}"


def test_a_damaged_library_of_zigs_own_is_found(tmp_path: Path, expected: dict[str, str]) -> None:
    root, cache = workspace_copy(tmp_path, "camera"), cache_copy(tmp_path / "cache")
    # what this machine made just now is not noted yet; its file is the user's, too
    for path in zig_cache(cache).glob("o/*/libcompiler_rt.a"):
        whole = path.read_bytes()
        path.unlink()
        path.write_bytes(whole)
        os.utime(path, (0, 0))
    built(root, LABELS[0], ORCHESTRATOR_CACHE=str(cache))
    damaged = sorted(zig_cache(cache).glob("o/*/libcompiler_rt.a"))
    assert damaged
    for path in damaged:
        _damage(path, 2, random.Random(1))
    shutil.rmtree(root / ".orchestrator/variants")
    shutil.rmtree(cache / "links")
    (root / ".orchestrator/last-build.json").unlink(missing_ok=True)
    plural = "s" if len(damaged) > 1 else ""
    them = "them: " if plural else "it: "
    told = f"{len(damaged)} file{plural} in zig's cache changed since zig made {them}made again"
    ran = orchestrator("build", LABELS[0], cwd=root, ORCHESTRATOR_CACHE=str(cache))
    assert ran.code == 0, ran.err
    assert told in ran.err
    assert delivered(root) == of_camera(expected)


def _damage(entry: Path, kind: int, rng: random.Random) -> None:
    """Empty a file (0), cut it short (1), or flip one bit (2); hard links of it stay whole."""
    data = entry.read_bytes()
    entry.unlink()
    if kind == 0:
        data = b""
    elif kind == 1:
        data = data[: rng.randrange(len(data))]
    else:
        at = rng.randrange(len(data))
        data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    entry.write_bytes(data)


# Contents that a record may have after a crash, a full disk or somebody's hand; a folder or pipe is
# made in its place.
DEEP, HUGE = b"[" * 200_000, b" " * (2**24 + 1) + b"{}"
CONTENTS = (b"", b"{", b"null", b"[]", b"{}", b'{"format":99}', b"\xff\x00", DEEP, HUGE)
OTHERS = ("folder", "pipe", "half", "link")


def test_damaged_records_are_made_again_or_refused_by_name(
    campaign: Campaign, tmp_path: Path, expected: dict[str, str]
) -> None:
    """What is in the cache, in `.orchestrator` and in `dist` beside objects and sources."""
    root, cache = workspace_copy(tmp_path, "camera"), cache_copy(tmp_path / "cache")
    camera = of_camera(expected)
    built(root, LABELS[0], ORCHESTRATOR_CACHE=str(cache))
    assert delivered(root) == camera
    for number, rng in campaign.tries(short=3, long=80):
        records = _records(root, cache)
        damaged = rng.sample(records, min(rng.choice([1, 2, 8]), len(records)))
        told = f"try {number}: {[str(path.relative_to(tmp_path)) for path in damaged]}"
        for path in damaged:
            _spoil(path, rng)
        for verb in ("build", "verify"):
            ran = subprocess.run(
                [sys.executable, "-P", "-m", "orchestrator", verb, LABELS[0], "--quiet"],
                cwd=root,
                env={**os.environ, "ORCHESTRATOR_CACHE": str(cache)},
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            if ran.returncode == 0:
                continue
            assert ran.returncode in {1, 2}, f"{told}\n{ran.stderr}"
            assert any(path.name in ran.stderr for path in damaged), f"{told}\n{ran.stderr}"
            for path in damaged:
                _remove(path)
            built(root, LABELS[0], ORCHESTRATOR_CACHE=str(cache))
        assert delivered(root) == camera, told


def _records(root: Path, cache: Path) -> list[Path]:
    """Every file of the cache, the state and `dist` but objects and what is fetched."""
    state = root / ".orchestrator"
    big = {cache / "objects", cache / "pch", cache / "runtime", state / "objects", state / "pch"}
    found = []
    for top in (cache, state, root / "dist"):
        for folder, folders, files in os.walk(top):
            folders[:] = sorted(name for name in folders if Path(folder) / name not in big)
            found += [Path(folder) / name for name in sorted(files)]
    plain = (path for path in found if path.is_file() and not path.is_symlink())
    ninjas = {state / name for name in (".ninja_log", ".ninja_deps", "build.ninja")}
    return [path for path in plain if path.suffix == ".json" or path in ninjas]


def _spoil(path: Path, rng: random.Random) -> None:
    kind = rng.choice([*CONTENTS, *OTHERS])
    whole = path.read_bytes()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/nowhere/at/all")
    else:
        path.write_bytes(kind if isinstance(kind, bytes) else whole[: len(whole) // 2])


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("checkout", ["this", "another"])
def test_a_complete_cache_that_is_read_only_builds(
    checkout: str, tmp_path: Path, expected: dict[str, str]
) -> None:
    cache = cache_copy(tmp_path / "cache")
    # what zig links with is in its cache too, also where a build found its libraries linked
    before = tmp_path / "before"
    before.mkdir()
    built(workspace_copy(before, "camera"), LABELS[0], ORCHESTRATOR_CACHE=str(cache))
    shutil.rmtree(cache / "links")
    root = workspace_copy(tmp_path, "camera")
    ours = ROOT
    if checkout == "another":
        ours = tmp_path / "another"
        # what the package's links lead to comes along, as it does in a wheel
        shutil.copytree(ROOT / "orchestrator", ours / "orchestrator")
    mount = f'mount --bind "{cache}" "{cache}" && mount -o remount,bind,ro "{cache}" && exec "$@"'
    inside = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
    done = subprocess.run(
        [*inside, *BUILD_CAMERA],
        cwd=root,
        env={**os.environ, "ORCHESTRATOR_CACHE": str(cache), "PYTHONPATH": str(ours)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    own_wrappers = (root / ".orchestrator/toolchains").exists()
    assert own_wrappers == (checkout == "another")
    assert delivered(root) == of_camera(expected)
