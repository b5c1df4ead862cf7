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

from orchestrator.compilers.resolve import compiler_environment, zig_caches
from orchestrator.compilers.zig import zig_program
from orchestrator.compilers.zig_results import note_results, remove_damaged_results
from orchestrator.errors import Place


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
        argv = [zig_program(Place("x")), "cc", "-target", "x86_64-linux-gnu.2.28", "c.c", "-o", "c"]
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
        assert remove_damaged_results(folder) == ()
    assert {"libcompiler_rt.a", "libc_nonshared.a", "crt1.o"} <= noted[0]
    assert noted[1] == {"c.o"}


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
    assert remove_damaged_results(common) == (library.relative_to(common).as_posix(),)
    # the folder stays: a zig that runs has it open
    assert list((common / "h").iterdir()) == []
    linker.program(2)
    (again,) = common.glob("o/*/libcompiler_rt.a")
    assert again.read_bytes() == whole
    assert linker.program(1) == expected
    note(common)
    assert remove_damaged_results(common) == ()


def noted(folder: Path) -> set[str]:
    file = folder / "results.json"
    return set(json.loads(file.read_text())["results"]) if file.is_file() else set()


def test_what_may_be_unfinished_is_not_noted(tmp_path: Path) -> None:
    for name in ("o/a/x.a", "o/a/x_zcu.o", "o/b/y.a", "h/manifest"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    os.utime(tmp_path / "o/a/x.a", (0, 0))
    os.utime(tmp_path / "o/a/x_zcu.o", (0, 0))
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
    argv = [zig_program(Place("x")), "cc", "-target", "x86_64-linux-gnu.2.28", "c.c", "-o", "c"]
    common, _ = zig_caches(linker.env)
    zig = subprocess.Popen(argv, cwd=tmp_path, env=linker.env)
    while zig.poll() is None:
        for path in common.glob("o/*/*"):
            with suppress(OSError):
                os.utime(path, (0, 0))
        note_results(common)
    assert zig.returncode == 0
    assert remove_damaged_results(common) == ()
    note(common)
    assert {name.rpartition("/")[2] for name in noted(common)} >= {"libcompiler_rt.a", "crt1.o"}


def test_nothing_is_known_without_a_note(tmp_path: Path) -> None:
    note_results(tmp_path / "no cache")
    assert remove_damaged_results(tmp_path / "no cache") == ()
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
    assert remove_damaged_results(cache) == ()
    assert (cache / "o/a/x.a").exists()
    assert (cache / "h/manifest").exists()
