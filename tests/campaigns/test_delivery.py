"""Builds that are killed while they deliver: dist/ has the old folder or the new one, and whole."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import Campaign

from orchestrator.deliver.files import File, tidy_folder, write_folder
from orchestrator.system.folders import MARKER

# Delivers two states of a folder in turn, until it is killed.
_DELIVERS = """
import sys
from itertools import cycle
from pathlib import Path
from orchestrator.deliver import files
if sys.argv[2] == "by two renames":
    files.exchange = lambda one, other: False
print("begun", flush=True)
for state in cycle("ab"):
    parts = [files.File(f"{n % 7}/{n}", state.encode() * 500) for n in range(60)]
    files.write_folder(Path(sys.argv[1]), parts)
"""


def state(folder: Path) -> str:
    """Which of the two states the folder has; fails where it is a mixture or a part."""
    found = {p.relative_to(folder): p.read_text() for p in folder.rglob("*") if p.is_file()}
    del found[Path(MARKER)]
    assert sorted(map(str, found)) == sorted(f"{n % 7}/{n}" for n in range(60))
    (text,) = set(found.values())
    assert text in ("a" * 500, "b" * 500)
    return text[0]


@pytest.mark.parametrize("way", ["in one step", "by two renames"])
def test_a_kill_leaves_one_of_both(way: str, campaign: Campaign, tmp_path: Path) -> None:
    for number, rng in campaign.tries(short=8, long=2_000):
        target = tmp_path / str(number) / "linux-x86_64"
        write_folder(target, [File(f"{n % 7}/{n}", b"a" * 500) for n in range(60)])
        argv = [sys.executable, "-c", _DELIVERS, str(target), way]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline() == "begun\n"
            time.sleep(rng.uniform(0, 0.08))
            process.kill()
        if way == "by two renames":
            # what the next build does first
            tidy_folder(target)
        state(target)
        write_folder(target, [File("c", b"")])
        assert sorted(path.name for path in target.iterdir()) == [MARKER, "c"]
        assert [path.name for path in target.parent.iterdir()] == [target.name], number
