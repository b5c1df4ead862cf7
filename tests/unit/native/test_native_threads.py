"""The library's threads: what a chunk raises in one (`native_threads/raising.cpp`), how they
compute (`modes.cpp`), a task of a kernel's that raises (`throwing.cpp`), and many callers at once
under GCC's sanitizers (`loaded.cpp`)."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import package_toy as toy
import pytest
from zig_tool import zig

HERE = Path(__file__).parent / "native_threads"


FLAGS = ("-g0", "-O1", "-std=gnu++17", "-Wall", "-Werror", "-DLTA_THREADS=2")
FOLDERS = (f"-I{HERE}", f"-I{toy.ROOT / 'orchestrator/native'}")

# Whether both threads keep a number that is too small to be normal, and whether both round up.
MODES = """\
two threads: 00 00
two threads: 11 00
two threads: 11 11
two threads: 00 11
two threads: 11 00
"""


def _ran(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    program = folder / name
    zig("c++", *FLAGS, *FOLDERS, HERE / f"{name}.cpp", "-lpthread", "-o", program)
    return subprocess.run([program], capture_output=True, text=True, timeout=300, check=False)


def test_what_a_worker_raises_is_raised_in_the_caller(tmp_path: Path) -> None:
    """Of two exceptions the first chunk's, whichever came first; the pool goes on."""
    done = _ran(tmp_path, "raising")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_each_region_computes_in_the_mode_of_its_caller(tmp_path: Path) -> None:
    """Whichever mode a worker was started in, or the last region had."""
    done = _ran(tmp_path, "modes")
    assert (done.returncode, done.stdout, done.stderr) == (0, MODES, "")


def test_a_task_that_raises_ends_the_process(tmp_path: Path) -> None:
    """On the caller's thread as on a worker's: no worker is left in a region that is gone."""
    done = _ran(tmp_path, "throwing")
    assert (done.returncode, done.stdout) == (-signal.SIGABRT, "")
    assert "a task" in done.stderr


@pytest.mark.parametrize("sanitizer", ["thread", "undefined"])
def test_many_callers_share_the_threads_in_order(sanitizer: str, tmp_path: Path) -> None:
    """While the number of threads changes: nothing is read before who writes it is done."""
    program = tmp_path / "loaded"
    flags = (*FLAGS, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    compile_it = ["g++", *flags, *FOLDERS, f"{HERE}/loaded.cpp", "-lpthread", "-o", str(program)]
    subprocess.run(compile_it, check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 wrong, shared\n", "")
