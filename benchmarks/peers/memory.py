"""This process's resident memory, as Linux tells it (proc_pid_status(5)); without numpy."""

from __future__ import annotations

import re
from pathlib import Path


def status_bytes(name: str) -> int:
    """A line of this process's status in bytes: `VmRSS` or `VmHWM`."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def peak() -> int:
    """The most since the last `resident`."""
    return status_bytes("VmHWM")


def resident() -> int:
    """What there is now; from here on, `peak` is that of what follows."""
    Path("/proc/self/clear_refs").write_text("5")
    return status_bytes("VmRSS")


def added(base: int, loading_peak: int, with_runtime: int, model_peak: int) -> dict[str, int]:
    """What a runtime and a model added. Loading a runtime may take more for a moment than all that
    follows: that is no memory of the model's."""
    return {
        "added": max(loading_peak, model_peak) - base,
        "model_added": model_peak - with_runtime,
    }
