"""Runs a command and tells what it cost: user CPU seconds of the whole process tree.

The numbers come from wait4(2) for that one child; they hold the child and every descendant that
was waited for, which ninja, zig and the orchestrator do for all of theirs.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import OrchestratorError


class CommandFailedError(OrchestratorError):
    """A command that the benchmark needs has failed, or what it wrote cannot be read."""


@dataclass(frozen=True)
class Finished:
    """A command that has ended: user CPU and wall seconds, exit code, what it printed."""

    user_seconds: float
    wall_seconds: float
    code: int
    stdout: str
    stderr: str

    def require(self, what: str) -> Finished:
        """Itself. Raises CommandFailedError where the command failed."""
        if self.code:
            said = (self.stderr or self.stdout).strip().splitlines()
            raise CommandFailedError(
                f"{what} failed", seen=f"exit code {self.code}", details="\n".join(said[-12:])
            )
        return self


def run(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None) -> Finished:
    """Run a command to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        process = subprocess.Popen(argv, env=dict(env), cwd=cwd, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        wall = round(time.monotonic() - started, 4)
        # subprocess must not wait for a process that is gone
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
        return Finished(usage.ru_utime, wall, process.returncode, texts[0], texts[1])
