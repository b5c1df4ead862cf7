"""Number of commands that run at once on a machine: one per core, and no more than fit into memory.

Memory is the machine's, or a container's limit; cores are those that the process may use, or a
container's share of them. Sources: proc(5), cgroups(7), and the kernel's
Documentation/admin-guide/cgroup-v2.rst (memory.max, cpu.max) and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Left for the system, this process and the linker.
_KEPT_BYTES: Final = 500 * 10**6


@dataclass(frozen=True)
class Machine:
    """The resources that commands may use: cores, and bytes of memory."""

    cores: int
    memory: int


@dataclass(frozen=True)
class Limits:
    """Commands at once, and how many of them may compile a heavy unit."""

    jobs: int
    heavy_jobs: int


def limits(machine: Machine, jobs: int | None, unit: int, heavy_unit: int) -> Limits:
    """The limits on a machine where a unit takes `unit` bytes, and a heavy one `heavy_unit`.

    jobs: what the user asks for goes before the cores and the memory; the heavy units' limit stays.
    """
    room = max(machine.memory - _KEPT_BYTES, 0)
    at_once = jobs or max(1, min(machine.cores, room // unit))
    # heavy units beside ordinary ones: heavy * heavy_unit + (at_once - heavy) * unit <= room
    spare = room - at_once * unit
    heavy = spare // (heavy_unit - unit) if heavy_unit > unit else at_once
    return Limits(at_once, max(1, min(at_once, heavy)))


def this_machine(root: Path = Path("/")) -> Machine:
    """This process's share of the machine; `root` is where proc and sys are mounted."""
    cores = float(usable_cores())
    memory = _kernel_memory(root)
    for folder in _groups(root):
        cores = min(cores, _quota(folder))
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(folder / name)
            # v2 says `max`, v1 a number near 2**63
            if text.isdigit():
                memory = min(memory, int(text))
    return Machine(max(1, math.ceil(cores)), memory)


def usable_cores() -> int:
    """The cores that this process may run on; all cores if the system does not report it
    (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _kernel_memory(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _groups(root: Path) -> Iterator[Path]:
    """The folders of this process's control groups and of those around them."""
    mounted = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        top = mounted / controllers if controllers else mounted
        group = top / path.lstrip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))


def _quota(folder: Path) -> float:
    """The cores' worth of time that a group may use: `cpu.max` of v2, two files of v1."""
    words = _read(folder / "cpu.max").split()
    if len(words) != 2:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = [_read(folder / name) for name in names]
    if all(word.isdigit() for word in words) and int(words[1]):
        return int(words[0]) / int(words[1])
    return math.inf


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
