"""The source tree's generated files: torchgen's and the autograd generator's, once per version.

No header depends on a selection, so one tree serves every app.  Each generator runs in a separate
process, from the pinned tree, with the tree as working folder, so that no path of this machine
enters the text.  Layout: `<folder>/ATen/...` and `<folder>/autograd/torch/csrc/...`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.pytorch.dialect import Generated
from orchestrator.system.process import LOCAL, Command, CommandRunner
from orchestrator.system.sums import SUMS, publish
from orchestrator.values.fingerprint import fingerprint, text_digest

# Raised when what a folder holds besides changes: releases that share a cache keep theirs apart.
_FORMAT = "SHA256SUMS"


class GenerationFailedError(OrchestratorError):
    """A generator of the pinned tree failed."""


def generated_identity(generated: Generated, tree_digest: str) -> str:
    """Digest that names the generated files of a tree: of the tree, and of the commands that write
    them."""
    commands = [[one.arguments, one.into] for one in generated.sources]
    return fingerprint({"tree": tree_digest, "commands": commands})


def generate_sources(
    generated: Generated,
    tree: Path,
    tree_digest: str,
    cache: Path,
    env: Mapping[str, str],
    progress: Callable[[str], None],
    runner: CommandRunner = LOCAL,
) -> Path:
    """The folder of the generated files; written on first use, all or nothing (about 12 s).

    Raises GenerationFailedError.
    """
    folder = cache / "generated" / _name(generated_identity(generated, tree_digest))
    # The sums are written last. To compare 6,000 files at every build would take longer than to
    # plan it: `fetch --verify` does.
    if (folder / SUMS).is_file():
        return folder
    progress("generating headers and sources with torchgen")
    (cache / "staging").mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix="generated-", dir=cache / "staging"))
    try:
        for generator in generated.sources:
            output = staging / generator.into
            output.mkdir(exist_ok=True)
            _run(generator.arguments, output, tree, env, runner)
        staging.chmod(0o755)
        publish(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def _name(identity: str) -> str:
    return text_digest(f"{identity} {_FORMAT}")[:16]


def _run(
    arguments: str, output: Path, tree: Path, env: Mapping[str, str], runner: CommandRunner
) -> None:
    # The tree is the working folder and comes first for `-m`, as PYTHONPATH for a script; there "."
    # stands for it, for that variable cannot hold a path with a colon.
    argv = [sys.executable, *(word.format(output=output) for word in arguments.split())]
    own = {**env, "PYTHONPATH": ".", "PYTHONDONTWRITEBYTECODE": "1"}
    done = runner.run(Command(argv, own, tree))
    if done.code:
        raise GenerationFailedError(
            f"{arguments.removeprefix('-m ').split()[0]} of the pinned tree failed",
            hint="./orchestrate fetch --verify checks the source tree",
            details="\n".join(done.err.splitlines()[-12:]),
        )
