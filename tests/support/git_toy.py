"""A small workspace in a git repository, for the tests of what a change touches."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

from orchestrator.trace.lock import lock_text
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace, TraceIdentity

# Nothing of the machine's own configuration, and a name to commit with.
ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nowhere",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": "t@t.t"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}
WORKSPACE = f"""\
version: 1
runtime:
  pytorch: 1.13.1
  tree: "{"0" * 64}"
  sources: [path: here]
defaults:
  optimize: balanced
"""
TOOLCHAIN = """\
abi: {abi}
system: linux
processor: {processor}
format: elf
compiler: {{zig: {{target: {processor}-linux-gnu.2.28}}}}
run: none
"""
CAMERA = """\
# What is in this picture?
models:
  - file: models/classifier.ptl
targets: [linux-arm64, linux-x86_64]
budgets: {linux-x86_64: 2MB}
"""
KEYBOARD = """\
models:
  - file: models/next_word.ptl
targets: [linux-x86_64]
optimize: size
"""
TRACE = Trace(
    app="camera",
    model="classifier",
    identity=TraceIdentity("a" * 64, "b" * 64, "bundled", ("CPU",), "c" * 16),
    root_operators=(Op("aten::relu"),),
    called_operators={Op("aten::relu"): 1},
    kernel_tags={"relu": {"Float": 1}},
    outputs="d" * 64,
)


def git(folder: Path, *words: str) -> str:
    """Runs git in a folder, and gives what it prints."""
    done = subprocess.run(
        ["git", *words], cwd=folder, env=ENV, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, what: str = "a change") -> str:
    """Commits everything in the folder; the commit's name."""
    git(folder, "add", "--all", ".")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", what)
    return git(folder, "rev-parse", "HEAD")


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def workspace(root: Path) -> Path:
    """Two apps and two toolchains, not committed."""
    write(
        root,
        {
            "WORKSPACE": WORKSPACE,
            "toolchains/linux-x86_64.yaml": TOOLCHAIN.format(
                abi="linux-x86_64", processor="x86_64"
            ),
            "toolchains/linux-arm64.yaml": TOOLCHAIN.format(abi="linux-arm64", processor="arm64"),
            "apps/camera/app.yaml": CAMERA,
            "apps/camera/models/classifier.ptl": "a model",
            "apps/camera/traces/classifier.yaml": lock_text(TRACE),
            "apps/camera/traces/classifier.runs.zst": "runs",
            "apps/keyboard/app.yaml": KEYBOARD,
            "apps/keyboard/models/next_word.ptl": "another model",
            "docs/notes.md": "notes",
        },
    )
    return root


def repository(root: Path) -> Path:
    """The same, committed."""
    workspace(root)
    git(root, "init", "--quiet", "--initial-branch=main", ".")
    commit(root, "first")
    return root


def other_trace() -> str:
    """A lock in which one more dtype ran."""
    return lock_text(replace(TRACE, kernel_tags={"relu": {"Float": 1, "Long": 1}}))
