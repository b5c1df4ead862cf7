"""`--share`: runs at once divide the modules between them. `--brief`: CI's own are left out."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[2] / "conftest.py"
MEET = """\
import time
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def end():
    yield
    # the other run has begun a module, too: each takes its next one with the last test of this
    begun = Path(__file__).parents[2] / "begun"
    until = time.monotonic() + 60
    while len(list(begun.iterdir())) < 3:
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


def shared(folder: Path) -> list[str]:
    """Two folders of tests; the command of a run that shares them."""
    for name, text in (("one/a", MEET), ("one/b", MEET), *((f"two/{n}", BUILD) for n in "cde")):
        path = folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f"test_{path.name}.py").write_text(text)
    shutil.copy(CONFTEST, folder / "tests")
    (folder / "begun").mkdir()
    argv = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    return [*argv, "--share", str(folder / "begun"), "tests"]


def test_each_module_is_run_once_as_a_whole(tmp_path: Path) -> None:
    argv = shared(tmp_path)
    runs = [
        subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    told = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], told
    ran = [passed(text) for text in told]
    assert sorted(ran[0] + ran[1]) == sorted(
        [f"tests/one/test_{name}.py" for name in "ab" for _ in range(3)]
        + [f"tests/two/test_{name}.py" for name in "cde" for _ in range(2)]
    )
    modules = [{*names} for names in ran]
    assert not modules[0] & modules[1]
    # neither had nothing to do, and what builds in the checkout stayed together
    assert all(modules)
    building = {f"tests/two/test_{name}.py" for name in "cde"}
    assert sorted(len(names & building) for names in modules) == [0, 3]


def test_the_module_before_one_of_another_folder_may_be_another_runs(tmp_path: Path) -> None:
    """What comes next is another folder's: the first one's fixtures end."""
    argv = shared(tmp_path)
    elsewhere = str(tmp_path / "tests/one/test_b.py")
    for other in (elsewhere, "none"):
        (tmp_path / "begun" / hashlib.sha256(other.encode()).hexdigest()).touch()
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert passed(done.stdout) == [
        *["tests/one/test_a.py"] * 3,
        *[f"tests/two/test_{name}.py" for name in "ccddee"],
    ]


@pytest.mark.parametrize(
    ("options", "ran"),
    [((), "one other"), (("--brief",), "other"), (("--campaigns",), "one other full")],
)
def test_what_is_marked_is_left_out(options: tuple[str, ...], ran: str, tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(
        "import pytest\n\n"
        "EACH = [pytest.param('one', marks=pytest.mark.ci_only), 'other']\n\n"
        "@pytest.mark.parametrize('name', EACH)\ndef test_it(name):\n    pass\n\n"
        "@pytest.mark.full_only\ndef test_full():\n    pass\n"
    )
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  ci_only\n  full_only\n")
    argv = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    names = re.findall(r"::test_(?:it\[)?(\w+)\]? PASSED", done.stdout)
    assert " ".join(names) == ran
