"""Declarations, damaged at random: read, or refused by an error of ours; never more.

Whatever WORKSPACE, app.yaml and a toolchain hold: no other exception, at most 2 CPU seconds and 500
MB, nothing written and no process started.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from bounds import bounded
from harness import Campaign
from mutations import damaged

from orchestrator.commands.patterns import resolve_patterns
from orchestrator.context import usable
from orchestrator.errors import OrchestratorError, visible
from orchestrator.load.declared import Workspace
from orchestrator.load.workspace import load_workspace
from orchestrator.values.config.app import ModelConfig, TensorSpec, elements
from orchestrator.verify.inputs import InputOutOfRangeError, inputs_json

ROOT: Final = Path(__file__).parents[2]
ENV: Final = {"HOME": "/home/me", "FAST": "/fast"}
# What makes of a declaration all that it can have.
WORKSPACE: Final = """
cache: $FAST/cache
jobs: 3
launcher: {command: [ccache, --x], env: {CCACHE_DIR: /x}}
"""
APP: Final = """\
models:
  - file: models/small.ptl
    name: first
    inputs:
      - method: forward
        args: [{shape: [2, 3], fill: uniform, low: -1, high: 1.5, seed: 3}, 1, true, null, word]
      - args: [[{shape: [], dtype: int64, fill: randint, high: 10}, 2.5], []]
  - {file: models/small.ptl, name: second, inputs: bundled}
targets: [chosen, pair]
budgets: {chosen: 1.5MB, pair: 2000000}
packages: [tar]
version: 1.2.0-rc1
package_name: my-app
"""
GROUP: Final = "abi: pair\nmembers: [other]\n"
# Each ends more than one try of a hundred, so that a few hundred tries meet all of them.
LEAST_OUTCOMES: Final = {
    *("read", "DeclarationErrors", "YamlSyntaxError", "YamlDuplicateKeyError"),
    *("BadValueError", "UnreadableFileError"),
}
LEAST_OF_ALL_TRIES: Final = LEAST_OUTCOMES | {"YamlTooLargeError", "MissingKeyError"}


def test_damaged_declarations(campaign: Campaign, tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    toolchains = sorted((ROOT / "toolchains").glob("*.yaml"))
    singles = [file for file in toolchains if "members:" not in file.read_text()]
    outcomes: set[str] = set()
    for number, rng in campaign.tries(short=300, long=20_000):
        files = declared(rng, root, singles)
        victim = rng.choice(files)
        victim.write_bytes(damaged(rng, victim.read_bytes()))
        try:
            with bounded(tmp_path):
                outcomes.add(outcome(root))
        except BaseException as error:
            error.add_note(f"seed {campaign.seed}, try {number}: {victim}")
            raise
    # Nothing is tried where all end alike.
    least = LEAST_OF_ALL_TRIES if campaign.long else LEAST_OUTCOMES
    assert outcomes >= least or campaign.only is not None


def declared(rng: random.Random, root: Path, toolchains: list[Path]) -> list[Path]:
    """A workspace as it should be; its declarations."""
    shutil.rmtree(root, ignore_errors=True)
    (root / "apps/camera/models").mkdir(parents=True)
    (root / "apps/camera/models/small.ptl").touch()
    (root / "toolchains").mkdir()
    chosen = rng.choice(toolchains)
    texts = {
        "WORKSPACE": (ROOT / "WORKSPACE").read_text() + WORKSPACE,
        "apps/camera/app.yaml": APP,
        "toolchains/chosen.yaml": chosen.read_text().replace(f"abi: {chosen.stem}", "abi: chosen"),
        "toolchains/other.yaml": chosen.read_text().replace(f"abi: {chosen.stem}", "abi: other"),
        "toolchains/pair.yaml": GROUP,
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    return [root / name for name in texts]


def outcome(root: Path) -> str:
    """How it ended; an exception of another kind ends the campaign."""
    try:
        workspace = load_workspace(root, ENV)
        usable(workspace.cache, "cache", "")
        assert resolve_patterns(["//..."], workspace, lambda line: None)
    except OrchestratorError as error:
        told = error.render()
        assert told == "\n".join(map(visible, told.splitlines()))
        return type(error).__name__
    used(workspace)
    return "read"


def used(workspace: Workspace) -> None:
    """What commands do first with a workspace that was read."""
    for app in workspace.apps.values():
        for model in app.config.models:
            if model.runs and sum(map(elements, tensors(model))) < 10**5:
                with suppress(InputOutOfRangeError):
                    inputs_json(model.runs)


def tensors(model: ModelConfig) -> Iterator[TensorSpec]:
    for run in model.runs:
        for argument in run.args:
            items = argument if isinstance(argument, tuple) else (argument,)
            yield from (item for item in items if isinstance(item, TensorSpec))
