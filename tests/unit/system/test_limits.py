"""How many commands run at once: the sum, and what kernels say of memory and cores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.system.limits import Limits, Machine, limits, this_machine, usable_cores

GB = 10**9
UNIT, HEAVY = 400 * 10**6, 600 * 10**6


@pytest.mark.parametrize(
    ("cores", "memory", "jobs", "expected"),
    [
        (2, 24 * GB, None, Limits(2, 2)),
        (64, 256 * GB, None, Limits(64, 64)),
        # 10 ordinary units would fill it; 5.5 GB are what 10 of 400 MB leave 1.5 GB free of
        (10, 6 * GB, None, Limits(10, 7)),
        (64, 8 * GB, None, Limits(18, 1)),
        (4, 1 * GB, None, Limits(1, 1)),
        (4, 0, None, Limits(1, 1)),
        # asked for: more than there are cores, and less
        (2, 24 * GB, 8, Limits(8, 8)),
        (2, 4 * GB, 8, Limits(8, 1)),
        (64, 256 * GB, 1, Limits(1, 1)),
    ],
)
def test_limits(cores: int, memory: int, jobs: int | None, expected: Limits) -> None:
    assert limits(Machine(cores, memory), jobs, UNIT, HEAVY) == expected


def test_units_of_one_size() -> None:
    assert limits(Machine(4, 24 * GB), None, UNIT, UNIT) == Limits(4, 4)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = "MemTotal:        8000000 kB\nMemFree:  100 kB\n"


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)))


def test_no_control_groups(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/meminfo": MEMINFO})
    assert this_machine(root) == Machine(8, 8_192_000_000)


def test_control_groups_v2_and_those_around_them(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/memory.max": "3000000000\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max\n",
        "sys/fs/cgroup/outer/cpu.max": "max 100000\n",
        "sys/fs/cgroup/outer/inner/cpu.max": "250000 100000\n",
    }
    assert this_machine(write(tmp_path, files)) == Machine(3, 3 * GB)


def test_a_container_sees_its_own_group_at_the_top(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "2000000000\n",
        "sys/fs/cgroup/cpu.max": "50000 100000\n",
    }
    assert this_machine(write(tmp_path, files)) == Machine(1, 2 * GB)


def test_control_groups_v1(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "9:name=systemd:/\n4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1000000000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "400000\n",
        "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    assert this_machine(write(tmp_path, files)) == Machine(4, GB)


def test_a_system_that_tells_no_cores_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert usable_cores() == this_machine(tmp_path).cores == 7


def test_this_machine_here() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert machine.memory > 10**8
