"""Runs a driver (or a tracer: a driver that records) on a model, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.pipeline.inputs import inputs_json
from orchestrator.report.verify import DriverRun
from orchestrator.values.config import ModelConfig

# A model that runs longer than this on its own inputs is stuck (seconds).
TIME_LIMIT = 600


def run_driver(
    argv: Sequence[str], model_file: Path, model: ModelConfig, env: Mapping[str, str]
) -> DriverRun:
    """Run `argv` on a model's inputs; arguments are left out of the result."""
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
        output = Path(folder) / "result.json"
        arguments = ["--model", str(model_file), "--output", str(output), "--no-args"]
        if model.inputs != "bundled":
            inputs = Path(folder) / "inputs.json"
            inputs.write_text(json.dumps(inputs_json(model.inputs)))
            arguments += ["--inputs", str(inputs)]
        try:
            done = subprocess.run(
                [*argv, *arguments],
                env=dict(env),
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=TIME_LIMIT,
            )
        except subprocess.TimeoutExpired:
            return DriverRun(-1, None, f"still running after {TIME_LIMIT} s")
        return DriverRun(done.returncode, _read(output), done.stderr)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    # The file's own path would make a recording differ from machine to machine.
    value.pop("model", None)
    return value
