"""`--update-golden`, in a small tree of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parents[2] / "conftest.py"
TEST = """\
from pathlib import Path


def test_text(golden):
    golden(Path(__file__).with_name("expected.txt"), "one\\ntwo\\n")
"""
DIFFERENCE = """\
--- tests/expected.txt
+++ tests/expected.txt, now
@@ -1 +1,2 @@
 one
+two
"""


def ran(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", *options]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True)


def test_a_text_is_compared_renewed_and_shown(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    shutil.copy(CONFTEST, tests)
    (tests / "test_it.py").write_text(TEST)
    (tests / "expected.txt").write_text("one\n")
    failed = ran(tmp_path)
    assert failed.returncode == 1
    assert "meant so? ./check tests/test_it.py --update-golden" in failed.stdout
    assert (tests / "expected.txt").read_text() == "one\n", "nothing is written unasked"
    renewed = ran(tmp_path, "--update-golden")
    assert renewed.returncode == 0
    assert DIFFERENCE in renewed.stdout
    assert (tests / "expected.txt").read_text() == "one\ntwo\n"
    assert ran(tmp_path).returncode == 0
    assert DIFFERENCE not in ran(tmp_path, "--update-golden").stdout
