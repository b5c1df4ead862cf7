"""`--share`: runs at once divide the modules between them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parents[2] / "conftest.py"
MEET = """\
import time
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def end():
    yield
    # the other run has begun a module, too
    begun = Path(__file__).parents[1] / "begun"
    until = time.monotonic() + 60
    while len(list(begun.iterdir())) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("number", range(3))
def test_one(number):
    pass
"""
BUILD = """\
import pytest


@pytest.fixture
def built():
    pass


def test_it(built):
    pass


def test_more():
    pass
"""


def passed(told: str) -> list[str]:
    return re.findall(r"^(\S+)::\S+ PASSED", told, re.MULTILINE)


def test_each_module_is_run_once_as_a_whole(tmp_path: Path) -> None:
    tests, begun = tmp_path / "tests", tmp_path / "begun"
    tests.mkdir()
    begun.mkdir()
    shutil.copy(CONFTEST, tests)
    for name in ("a", "b"):
        (tests / f"test_{name}.py").write_text(MEET)
    for name in ("c", "d", "e"):
        (tests / f"test_{name}.py").write_text(BUILD)
    argv = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    argv += ["--share", str(begun), "tests"]
    runs = [
        subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    told = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], told
    ran = [passed(text) for text in told]
    assert sorted(ran[0] + ran[1]) == sorted(
        [f"tests/test_{name}.py" for name in "ab" for _ in range(3)]
        + [f"tests/test_{name}.py" for name in "cde" for _ in range(2)]
    )
    modules = [{*names} for names in ran]
    assert not modules[0] & modules[1]
    # neither had nothing to do, and what builds in the checkout stayed together
    assert sorted(len(names & {"tests/test_a.py", "tests/test_b.py"}) for names in modules) == [
        1,
        1,
    ]
    building = {f"tests/test_{name}.py" for name in "cde"}
    assert sorted(len(names & building) for names in modules) == [0, 3]
