"""Other processes that run on a machine now, and the cores that commands get beside them.

Source: proc(5), /proc/loadavg: its fourth field begins with the number of tasks that run or wait
for a core. The averages before it would count the command that ran just before as well. On a system
without that file (macOS), the number of other processes is taken as 0.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.system.limits import this_machine

# One reading says little, as compilers come and go: so many, and so far apart (seconds).
_READINGS: Final = 10
_INTERVAL_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Load:
    """cores: of the machine; usable: of them, for this process; others: tasks that want a core
    now, besides this process, on average."""

    cores: int
    usable: int
    others: float

    def cores_for(self, jobs: int) -> float:
        """Number of cores that `jobs` commands get if the other processes continue and the
        scheduler is fair."""
        runnable = jobs + self.others
        return min(jobs * min(1.0, self.cores / runnable), self.usable)


def present_load(root: Path = Path("/"), sleep: Callable[[float], None] = time.sleep) -> Load:
    """The load now; takes 0.2 s. `root` is where proc is mounted."""
    readings = []
    for _ in range(_READINGS):
        readings.append(_running(root))
        sleep(_INTERVAL_SECONDS)
    usable = this_machine(root).cores
    return Load(
        max(os.cpu_count() or 1, usable),
        usable,
        # this process runs while it reads
        max(sum(readings) / len(readings) - 1, 0.0),
    )


def _running(root: Path) -> int:
    try:
        words = (root / "proc/loadavg").read_text(encoding="ascii").split()
        return int(words[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 1
