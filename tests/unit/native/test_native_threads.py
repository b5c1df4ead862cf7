"""What a chunk raises in a thread of the library's pool: `native_threads/raising.cpp`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import package_toy as toy
from zig_tool import zig

HERE = Path(__file__).parent / "native_threads"


def test_what_a_worker_raises_is_raised_in_the_caller(tmp_path: Path) -> None:
    """Of two exceptions the first chunk's, whichever came first; the pool goes on."""
    program = tmp_path / "raising"
    flags = ("-g0", "-O1", "-std=gnu++17", "-Wall", "-Werror", "-DLTA_THREADS=2")
    folders = (f"-I{HERE}", f"-I{toy.ROOT / 'orchestrator/native'}")
    zig("c++", *flags, *folders, HERE / "raising.cpp", "-lpthread", "-o", program)
    done = subprocess.run([program], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
