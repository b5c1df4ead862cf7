"""`cache`: what it tells, what it prunes, and that builds beside it come to no harm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_clean import WORKSPACE

from orchestrator import cli
from orchestrator.cache.pruning import (
    WORKSPACES,
    Entry,
    entries,
    note_workspace,
    parts,
    to_prune,
    workspaces,
)
from orchestrator.cache.store import ObjectStore
from orchestrator.commands import cache as cache_command
from orchestrator.system.folders import ensure_folder
from orchestrator.system.staging import write_text

ROOT = Path(__file__).parents[3]
CAMPAIGNS = ROOT / "tests/campaigns"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace, and beside it a cache with two objects, of which one is in a workspace."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "WORKSPACE").write_text(WORKSPACE)
    store = ObjectStore((ensure_folder(tmp_path / "cache", "cache"),))
    for name in ("held", "free"):
        (root / name).write_bytes(name.encode() * 250)
        assert store.put(f"objects/ab/{name}.o", root / name)
    (root / "free").unlink()
    (tmp_path / "cache/objects/ab/free.o.part").write_text("not an entry")
    write_text(tmp_path / "cache/runtime/1.13.1/x", "source\n")
    return root


def test_pruning_removes_what_killed_processes_left_a_day_ago(root: Path) -> None:
    cache = root.parent / "cache"
    left = [cache / "staging/generated-1", cache / "objects/ab/.held.o.1234.part"]
    for path in left:
        path.mkdir(parents=True)
    assert _cache(root, "--prune", "--max", "1GB") == 0
    assert all(path.exists() for path in left)
    for path in left:
        os.utime(path, (0, 0))
    assert _cache(root, "--prune", "--max", "1GB", "--dry-run") == 0
    assert all(path.exists() for path in left)
    assert _cache(root, "--prune", "--max", "1GB") == 0
    assert not any(path.exists() for path in left)


def _cache(root: Path, *words: str) -> int:
    return cli.main(["cache", *words], env={"ORCHESTRATOR_CACHE": "../cache"}, cwd=root)


def _names(root: Path) -> list[str]:
    return sorted(path.name.split(".")[0] for path in (root.parent / "cache/objects/ab").iterdir())


def _entry(name: str, used: float, size: int = 10, is_held: bool = False) -> Entry:
    return Entry(Path(name), size, used, is_held)


OLD, MIDDLE, NEW = _entry("old", 1.0), _entry("middle", 2.0), _entry("new", 3.0)
HELD = _entry("held", 0.0, is_held=True)


@pytest.mark.parametrize(
    ("most", "before", "gone"),
    [
        (None, None, ()),
        (100, None, ()),
        (90, None, (OLD,)),
        (85, None, (OLD, MIDDLE)),
        (0, None, (OLD, MIDDLE, NEW)),
        (None, 2.5, (OLD, MIDDLE)),
        (None, 1.0, ()),
        (90, 2.5, (OLD, MIDDLE)),
    ],
)
def test_what_was_not_used_for_longest_goes_first(
    most: int | None, before: float | None, gone: tuple[Entry, ...]
) -> None:
    assert to_prune([NEW, HELD, OLD, MIDDLE], total=100, most=most, before=before) == gone


def _header(name: str, used: float, is_held: bool = False) -> Entry:
    return Entry(Path("cache/pch/0123", name), 100, used, is_held)


@pytest.mark.parametrize(
    ("most", "gone"),
    [
        (420, ()),
        # 300 bytes are headers, of which a quarter of 400 may stay
        (400, ("first",)),
        (300, ("first", "second")),
        (110, ("first", "second", "last")),
        (100, ("first", "second", "last", "old")),
        # of 1,000 they may have 250: none is removed while there is space
        (1000, ()),
    ],
)
def test_precompiled_headers_do_not_crowd_out_objects(most: int, gone: tuple[str, ...]) -> None:
    headers = [_header("last", 6.0), _header("second", 5.0), _header("first", 4.0)]
    found = [OLD, *headers, _header("linked", 0.0, is_held=True)]
    pruned = to_prune(found, total=410, most=most, before=None)
    assert tuple(entry.path.name for entry in pruned) == gone


def test_what_is_there(root: Path) -> None:
    cache = root.parent / "cache"
    note_workspace(cache, root)
    note_workspace(cache, root.parent / "gone")
    told = {part.name: (part.files, part.bytes, part.held) for part in parts(cache)}
    assert told["objects"] == (3, 2012, 1000)
    assert told["runtime"] == (1, 7, 0)
    assert {user.root.name: user.exists for user in workspaces(cache)} == {
        "workspace": True,
        "gone": False,
    }
    assert [(e.path.name.split(".")[0], e.is_held) for e in entries(cache)] == [
        ("free", False),
        ("held", True),
    ]


def test_the_verb_tells_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = root.parent / "cache"
    note_workspace(cache, root)
    (cache / "staging").mkdir()
    assert _cache(root) == 0
    assert capsys.readouterr().out == (
        f"{root}/../cache: {sum(part.bytes for part in parts(cache)) / 1000:.3g} kB\n"
        "  objects        2.01 kB     just now  compiled units, 1 kB linked\n"
        "  runtime            7 B     just now  verified source trees\n"
        "  staging            0 B            -  leftovers of interrupted commands\n"
        f"used just now by {root}\n"
    )
    note_workspace(cache, root.parent / "gone")
    assert _cache(root) == 0
    assert capsys.readouterr().out.endswith(
        f"used just now by {root}\nused by 1 workspace that no longer exists\n"
    )


def test_every_part_of_a_cache_is_described() -> None:
    """Those that are named in the code as `cache / "part"` or `$cache/part`."""
    code = "".join(path.read_text() for path in (ROOT / "orchestrator").rglob("*.py"))
    named = {*re.findall(r'cache / "([\w-]+)"', code), *re.findall(r"\$cache/([\w-]+)", code)}
    assert named - {"store"} <= cache_command._WHAT.keys() | {WORKSPACES}


def test_pruning(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note_workspace(root.parent / "cache", root.parent / "gone")
    assert _cache(root, "--prune", "--unused", "1d", "--quiet") == 0
    assert _names(root) == ["free", "free", "held"]
    assert _cache(root, "--prune", "--max", "0B", "--dry-run", "--quiet") == 0
    assert _names(root) == ["free", "free", "held"]
    note_workspace(root.parent / "cache", root.parent / "gone")
    assert _cache(root, "--prune", "--max", "0B") == 0
    # what a workspace has, and what is being written, stays
    assert _names(root) == ["free", "held"]
    out = capsys.readouterr().out.splitlines()
    assert out[:3] == [
        "removed 0 objects, linked files, precompiled headers and shards, 0 B",
        "would remove 1 objects, linked files, precompiled headers and shards, 1 kB",
        "removed 1 objects, linked files, precompiled headers and shards, 1 kB",
    ]
    assert "gone" not in "".join(out)
    assert out[-1].endswith("`clean` in those, or `clean --cache`, frees more")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--prune"],
            "error: --prune requires --max or --unused\n"
            "  do:       write `cache --prune --max 5GB`, or `cache --prune --unused 30d`\n",
        ),
        (
            ["--max", "1GB"],
            "error: --max and --unused say what --prune removes\n"
            "  do:       write --prune too; with --dry-run it shows what would go\n",
        ),
        (
            ["--prune", "--max", "much"],
            "error: argument --max: `much` is not a size such as 5GB or 500MiB\n"
            "  do:       see `./orchestrate cache --help`\n",
        ),
        (
            ["--prune", "--unused", "30"],
            "error: argument --unused: `30` is not an age such as 12h, 30d or 2w: did you mean"
            " 30d?\n"
            "  do:       see `./orchestrate cache --help`\n",
        ),
        (
            ["--prune", "--unused", "1 month"],
            "error: argument --unused: `1 month` is not an age such as 12h, 30d or 2w\n"
            "  do:       see `./orchestrate cache --help`\n",
        ),
        (
            ["--prune", "--max", "1.2.3GB"],
            "error: argument --max: `1.2.3GB` is not a size such as 5GB or 500MiB\n"
            "  do:       see `./orchestrate cache --help`\n",
        ),
    ],
)
def test_what_is_not_understood(
    words: list[str], told: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _cache(root, *words) == 1
    assert capsys.readouterr().err == told
    assert _names(root) == ["free", "free", "held"]


def test_a_folder_that_is_not_ours_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "WORKSPACE").write_text(WORKSPACE)
    env = {"ORCHESTRATOR_CACHE": "theirs"}
    assert cli.main(["cache"], env=env, cwd=tmp_path) == 0
    assert not (tmp_path / "theirs").exists()
    write_text(tmp_path / "theirs/objects/ab/thesis", "x")
    words = ["cache", "--prune", "--max", "0B"]
    assert cli.main(words, env=env, cwd=tmp_path) == 1
    assert "does not carry our marker" in capsys.readouterr().err
    assert (tmp_path / "theirs/objects/ab/thesis").is_file()


def test_an_object_that_is_pruned_while_it_is_given_out_is_none(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between listing, reading and linking."""
    cache, place = root.parent / "cache", root / "again"
    store = ObjectStore((cache,))
    (free,) = (entry.path for entry in entries(cache) if not entry.is_held)
    listed = store._entries(["objects/ab/free.o"])
    content = free.read_bytes()
    hardlink = Path.hardlink_to

    def pruned(part: Path, target: Path) -> None:
        target.unlink(missing_ok=True)
        hardlink(part, target)

    monkeypatch.setattr(ObjectStore, "_entries", lambda self, names: listed)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "hardlink_to", pruned)
        restored = store.restore({"objects/ab/free.o": place})
    assert (restored.present, restored.damaged, place.exists()) == (frozenset(), (), False)
    restored = store.restore({"objects/ab/free.o": place})
    assert (restored.present, restored.damaged, place.exists()) == (frozenset(), (), False)
    free.write_bytes(content)
    assert store.restore({"objects/ab/free.o": place}).present == {"objects/ab/free.o"}


def test_a_copy_tells_when_it_was_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = root.parent / "cache"
    (free,) = (entry.path for entry in entries(cache) if not entry.is_held)

    def refused(part: Path, target: Path) -> None:
        raise OSError("another file system")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    for _ in range(2):  # copied, and there already
        os.utime(free, (1.0, 1.0))
        ObjectStore((cache,)).restore({"objects/ab/free.o": root / "copy"})
        assert free.stat().st_mtime > time.time() - 60


def test_builds_come_to_no_harm(tmp_path: Path) -> None:
    """Two processes build, again and again in new workspaces, while others prune all there is."""
    cache, count = tmp_path / "cache", 12
    ensure_folder(cache, "cache")
    (tmp_path / "WORKSPACE").write_text(WORKSPACE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    script = str(CAMPAIGNS / "toy_build.py")
    prune = [sys.executable, "-m", "orchestrator", "--workspace", str(tmp_path)]
    prune += ["cache", "--prune", "--max", "0B", "--quiet"]
    pruner = {**environment, "ORCHESTRATOR_CACHE": str(cache)}
    pruned = 0
    for turn in range(3):
        roots = [tmp_path / f"{turn} {name}" for name in ("one", "other")]
        builds = [
            subprocess.Popen(
                [sys.executable, script, str(root), str(cache), str(count)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for root in roots
        ]
        while any(build.poll() is None for build in builds):
            done = subprocess.run(prune, env=pruner, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            pruned += int(done.stdout.split()[1])
        for build, root in zip(builds, roots, strict=True):
            said, _ = build.communicate()
            assert (build.returncode, said) == (0, "")
            made = (root / "state/library.so").read_text()
            assert made == "".join(f"first half of source {n}\n" for n in range(count))
        for root in roots:  # what is in no workspace is free to go
            for path in (root / "state/objects").rglob("*.o"):
                path.unlink()
    assert pruned
