"""Measures `./check`: on a machine that has nothing yet, and again in the same checkout.

    .venv/bin/python -m benchmarks.checking
    .venv/bin/python -m benchmarks.checking --output trial

The first check is of a new clone of what is committed here, in a folder with a space in its name,
with an empty cache of ours, of pip's, and of zig's: it fetches and makes all that it needs. The
second follows at once, in the same clone, on the cache that the first one filled.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine_facts
from benchmarks.processes import CommandFailedError, run
from benchmarks.written import write_results

HERE = Path(__file__).parent
FORMAT: Final = 1
# What is checked -> aim for the wall time, in seconds.
CHECKS: Final = {"with empty caches, in a new clone": 3600, "again, in the same clone": 480}
# Variables that lead a check to another cache than the scratch one, or that choose its tests.
_LEFT_OUT: Final = ("ORCHESTRATE_", "ORCHESTRATOR_", "PIP_CACHE_DIR", "PYTEST_", "ZIG_")
_PASSED: Final = re.compile(r"\b(\d+) passed\b")


@dataclass(frozen=True)
class Check:
    """One check: wall and user CPU seconds, and how many tests passed."""

    what: str
    wall_seconds: float
    user_seconds: float
    passed: int


def check(what: str, clone: Path, cache: Path) -> Check:
    """Run a check. Raises CommandFailedError where it fails or tells of no test."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_LEFT_OUT)}
    done = run(["./check"], env={**kept, "XDG_CACHE_HOME": str(cache)}, cwd=clone)
    if done.code:
        # mypy and pytest print what is wrong as output
        raise CommandFailedError(
            f"./check failed, {what}",
            seen=f"exit code {done.code}",
            details="\n".join((done.stdout + done.stderr).splitlines()[-40:]),
        )
    passed = passed_tests(done.stdout)
    if not passed:
        raise CommandFailedError(f"./check ran no test, {what}", details=done.stdout[-2000:])
    return Check(what, round(done.wall_seconds, 1), round(done.user_seconds, 1), passed)


def passed_tests(said: str) -> int:
    """Of both runs that a check consists of."""
    return sum(int(count) for count in _PASSED.findall(said))


def render(results: Mapping[str, Any]) -> str:
    """CHECKING.md from checking.json."""
    lines = ["# `./check`", "", "Written by `python -m benchmarks.checking`.", ""]
    lines += [
        "| check | target | measured | user CPU s | tests | met |",
        "|---|---|---|---:|---:|---|",
    ]
    for one in results["checks"]:
        aim = CHECKS[one["what"]]
        met = "yes" if one["wall_seconds"] <= aim else "**no**"
        lines.append(
            f"| {one['what']} | at most {aim // 60} min | {_minutes(one['wall_seconds'])}"
            f" | {one['user_seconds']:,.0f} | {one['passed']:,} passed | {met} |"
        )
    lines += ["", *(f"- {name}: {value}" for name, value in results["machine"].items())]
    return "\n".join(lines) + "\n"


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s"


def main(arguments: Sequence[str]) -> int:
    """Clone, check twice, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checking", description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE, help="for checking.json, CHECKING.md")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="checking-") as name:
        clone, cache = Path(name) / "a clone", Path(name) / "cache"
        argv = ["git", "clone", "--quiet", str(HERE.parent), str(clone)]
        run(argv, env=os.environ).require("git clone")
        machine = machine_facts(None)
        checks = []
        for what in CHECKS:
            checks.append(check(what, clone, cache))
            print(checks[-1], file=sys.stderr, flush=True)
    results = {"format": FORMAT, "machine": machine, "checks": [asdict(one) for one in checks]}
    write_results(chosen.output, "checking", results, render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
