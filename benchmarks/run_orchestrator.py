"""The `orchestrator` command, and then a note of how much memory this process needed at most.

    python run_orchestrator.py PEAK_FILE ARGUMENT...

PEAK_FILE gets the bytes of the process's own peak resident set (VmHWM). It is not getrusage's
`ru_maxrss`, which an exec inherits from the process before it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from orchestrator.cli import main


def peak_bytes(status: str) -> int:
    """The peak resident set in the text of /proc/<pid>/status, whose unit `kB` is 1024 bytes."""
    match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert match, "the kernel tells no VmHWM"
    return int(match[1]) * 1024


if __name__ == "__main__":
    code = main(sys.argv[2:])
    Path(sys.argv[1]).write_text(str(peak_bytes(Path("/proc/self/status").read_text())))
    sys.exit(code)
