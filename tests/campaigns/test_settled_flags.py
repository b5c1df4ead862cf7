"""Branches that are proven to go one way: no run of a random module takes another.

Modules with attributes of all kinds, in objects that are shared and set by methods, are scripted
and called at random in torch's lite interpreter. What is left out of a library is in such branches.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from flag_modules import module_text
from harness import Campaign
from real import ROOT
from torch_python import torch_python

from orchestrator.errors import Place
from orchestrator.models.archive import open_archive
from orchestrator.models.coverage import reachable
from orchestrator.models.inert import Value
from orchestrator.models.listing import read_listings
from orchestrator.models.source_lines import DebugReader

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

PROGRAM = ROOT / "tests/support/flag_modules.py"
FIRST = 1000


def _loaded(rows: Sequence[Value], constants: Sequence[Value]) -> Iterator[tuple[int, int]]:
    """Yield the instructions that load the number of a branch, with it."""
    for at, row in enumerate(rows):
        match row:
            case ("LOADC", int(index), _):
                number = constants[index]
                if isinstance(number, int) and number >= FIRST:
                    yield at, number


def numbers(path: Path) -> tuple[set[int], set[int]]:
    """The numbers of all branches of a module, and those of branches that some input may take."""
    every, able = set[int](), set[int]()
    with path.open("rb") as file, open_archive(file, Place(path.name)) as archive:
        code = DebugReader(archive).code()[1:]
    listings = read_listings(path)
    assert len(listings) == len(code)
    for listing, function in zip(listings, code, strict=True):
        match function:
            case (_, (("instructions", tuple(rows)), _, ("constants", tuple(constants)), *_), *_):
                found = dict(_loaded(rows, constants))
        reached = reachable(listing)
        every |= {*found.values()}
        able |= {number for at, number in found.items() if at in reached}
    return every, able


def test_no_run_takes_what_is_left_out(tmp_path: Path, campaign: Campaign) -> None:
    for number, source in campaign.tries(80, 3000):
        (tmp_path / f"flags{number}.py").write_text(module_text(source))
    ran = subprocess.run(
        [torch_python(), "-W", "ignore", str(PROGRAM), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    left_out = branches = 0
    for name, seen in json.loads(ran.stdout).items():
        every, able = numbers(tmp_path / f"{name}.ptl")
        assert {*seen} <= able, (name, (tmp_path / f"{name}.py").read_text())
        left_out += len(every - able)
        branches += len(every - {*seen})
    # of what no run took, a good part is proven
    assert left_out > branches // 4 or campaign.only is not None
    print(f"{left_out} branches are proven of {branches} that no run took")
