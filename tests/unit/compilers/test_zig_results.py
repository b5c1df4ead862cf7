"""Libraries in zig's cache that are not as they were: zig makes them again, and links those."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.compilers.resolve import checked_environment, compiler_environment, zig_caches
from orchestrator.compilers.zig import zig_program
from orchestrator.compilers.zig_results import damaged_results, note_results
from orchestrator.errors import Place

# With an optimisation: without one zig compiles a runtime for UBSan, too, longer than all the rest.
LINKS = ("cc", "-target", "x86_64-linux-gnu.2.28", "-O2", "c.c", "-o", "c")


@dataclass(frozen=True)
class Linker:
    """Links a program from one source file, with a cache of zig's that nothing else uses."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        return compiler_environment(self.folder / "cache", os.environ, self.folder)

    def program(self, number: int) -> bytes:
        """A program that returns `number`."""
        (self.folder / "c.c").write_text(f"int main(void) {{ return {number}; }}\n")
        argv = [zig_program(Place("x")), *LINKS]
        subprocess.run(argv, cwd=self.folder, env=self.env, check=True, capture_output=True)
        return (self.folder / "c").read_bytes()


@pytest.fixture(scope="module")
def linker(tmp_path_factory: pytest.TempPathFactory) -> Linker:
    linker = Linker(tmp_path_factory.mktemp("linker"))
    linker.program(0)
    return linker


def note(folder: Path) -> None:
    """As a build does that ends a minute later."""
    for path in folder.glob("o/*/*"):
        os.utime(path, (time.time() - 61, time.time() - 61))
    note_results(folder)


def test_what_zig_made_of_its_own_and_of_a_source_is_noted(linker: Linker) -> None:
    common, own = zig_caches(linker.env)
    noted = []
    for folder in (common, own):
        note(folder)
        results = json.loads((folder / "results.json").read_text())["results"]
        noted.append({name.rpartition("/")[2] for name in results})
        assert damaged_results(folder) == ()
    assert {"libcompiler_rt.a", "libc_nonshared.a", "crt1.o"} <= noted[0]
    assert noted[1] == {"c.o"}


@pytest.mark.ci_only
@pytest.mark.parametrize("damage", ["one bit", "cut short", "gone"])
def test_a_damaged_library_is_made_again(linker: Linker, damage: str) -> None:
    common, _ = zig_caches(linker.env)
    expected = linker.program(1)
    note(common)
    (library,) = common.glob("o/*/libcompiler_rt.a")
    whole = library.read_bytes()
    if damage == "gone":
        library.unlink()
    else:
        half = len(whole) // 2
        end = b"" if damage == "cut short" else bytes([whole[half] ^ 1]) + whole[half + 1 :]
        library.write_bytes(whole[:half] + end)
    assert damaged_results(common) == (library.relative_to(common).as_posix(),)
    assert checked_environment(linker.folder / "cache", os.environ, linker.folder) == (
        linker.env,
        1,
    )
    another, _ = zig_caches(linker.env)
    assert (another, common.exists()) == (common.with_name(another.name), True)
    linker.program(2)
    # its archive names the folder that it is in
    assert len(list(another.glob("o/*/libcompiler_rt.a"))) == 1
    assert linker.program(1) == expected
    note(another)
    assert damaged_results(another) == ()


@pytest.mark.ci_only
def test_a_build_goes_on_while_another_finds_damage(linker: Linker, tmp_path: Path) -> None:
    """zig was told of the cache before, and links when it is left."""
    expected, env, state = linker.program(1), linker.env, tmp_path / "other"
    common, _ = zig_caches(env)
    note(common)
    (start,) = common.glob("o/*/crt1.o")
    start.write_bytes(start.read_bytes() + b"damaged, but it still links")
    (linker.folder / "c.c").write_text("int main(void) { return 1; }\n")
    argv = [zig_program(Place("x")), *LINKS]
    cache = linker.folder / "cache"
    others, damaged = checked_environment(cache, os.environ, state)
    assert damaged == 1
    assert subprocess.run(argv, cwd=linker.folder, env=env, capture_output=True).returncode == 0
    assert Path(others["ZIG_GLOBAL_CACHE_DIR"]) not in zig_caches(env)
    # the one that was damaged is not what a build links after it was found
    assert linker.program(1) == expected
    assert checked_environment(cache, os.environ, state) == (others, 0)


def test_a_workspaces_own_part_of_the_cache_is_made_again_in_its_place(linker: Linker) -> None:
    common, own = zig_caches(linker.env)
    note(own)
    next(own.glob("o/*/c.o")).write_bytes(b"damaged")
    found = checked_environment(linker.folder / "cache", os.environ, linker.folder)
    assert found == (linker.env, 1)
    assert not any((own / name).exists() for name in ("h", "o"))
    assert zig_caches(linker.env) == (common, own)
    linker.program(3)
    assert checked_environment(linker.folder / "cache", os.environ, linker.folder)[1] == 0


def noted(folder: Path) -> set[str]:
    file = folder / "results.json"
    return set(json.loads(file.read_text())["results"]) if file.is_file() else set()


def test_what_may_be_unfinished_is_not_noted(tmp_path: Path) -> None:
    old = ("o/a/x.a", "o/a/x_zcu.o", "o/a/z.a.temp-archive-8bf1821.a")
    for name in (*old, "o/b/y.a", "h/manifest"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in old:
        os.utime(tmp_path / name, (0, 0))
    with (tmp_path / "h/manifest").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        note_results(tmp_path)
        assert noted(tmp_path) == set()
    note_results(tmp_path)
    assert noted(tmp_path) == {"o/a/x.a"}


def test_what_is_noted_while_zig_works_is_finished(tmp_path: Path) -> None:
    """In a cache that is empty, in which it builds compiler-rt for seconds; its locks alone tell,
    since every file is made to look old."""
    linker = Linker(tmp_path)
    (tmp_path / "c.c").write_text("int main(void) { return 0; }\n")
    argv = [zig_program(Place("x")), *LINKS]
    common, _ = zig_caches(linker.env)
    zig = subprocess.Popen(argv, cwd=tmp_path, env=linker.env)
    while zig.poll() is None:
        for path in common.glob("o/*/*"):
            with suppress(OSError):
                os.utime(path, (0, 0))
        note_results(common)
    assert zig.returncode == 0
    assert damaged_results(common) == ()
    note(common)
    assert {name.rpartition("/")[2] for name in noted(common)} >= {"libcompiler_rt.a", "crt1.o"}


def test_nothing_is_known_without_a_note(tmp_path: Path) -> None:
    note_results(tmp_path / "no cache")
    assert damaged_results(tmp_path / "no cache") == ()
    assert not (tmp_path / "no cache").exists()


@pytest.mark.parametrize(
    "note",
    [
        *("", "[]", "{", "null", '{"format": 1, "results": {"o/a/x.a": "00"}}'),
        '{"format": 2, "results": {"../a/x.a": "00", "o/../x.a": "00", "/o/a": "00"}}',
    ],
)
def test_a_damaged_note_removes_nothing(tmp_path: Path, note: str) -> None:
    cache = tmp_path / "cache"
    for name in ("o/a/x.a", "h/manifest"):
        (cache / name).parent.mkdir(parents=True)
        (cache / name).touch()
    (cache / "results.json").write_text(note)
    assert damaged_results(cache) == ()
    assert (cache / "o/a/x.a").exists()
    assert (cache / "h/manifest").exists()
