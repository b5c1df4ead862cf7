"""The count of memory behind `memory` (native/memory/heap.h), in a program of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import package_toy as toy
from zig_tool import zig

NATIVE = toy.ROOT / "orchestrator/native"
PROGRAM = Path(__file__).parent / "native_memory/phases.cpp"
# the compiler may leave out a malloc whose block nobody uses
FLAGS = ("-g0", "-O1", "-std=gnu++17", "-Wall", "-Wextra", "-Werror", "-fno-builtin")

TOLD = """\
what was freed was at the peak: 6000 by 3: 1000/0 5000/7; left 1100
an earlier phase's is not left: 0 by 0:; left -1000
relatives of malloc: 4556 by 0: 300/0 4000/0 256/0; left 4556
pages that leave are not there: 66536 by 0: 65536/0 1000/0; left 51000
and are when they come back: 65536 by 0:; left 65536
what was never touched was never there: 700 by 0: 700/0; left 700
what was touched was: 4194304 by 0: 4194304/0; left 0
a thread's is counted: 1 by 5
of what was not counted nothing is: 0 by 0:; left 0
"""


def test_phases(tmp_path: Path) -> None:
    program = tmp_path / "phases"
    sources = (PROGRAM, NATIVE / "memory/heap.cpp")
    zig("c++", *FLAGS, f"-I{NATIVE}", *sources, "-lpthread", "-ldl", "-o", program)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, TOLD, "")
