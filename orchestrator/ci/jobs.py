"""The jobs that a change affects, in the formats of CI systems. Pure.

- `json`: for scripts; see `to_json`.
- `github`: lines for `$GITHUB_OUTPUT`; an empty `include` is an error there, so `any` tells a job
  whether to run at all (docs.github.com, "Running variations of jobs in a workflow").
- `gitlab`: the text of a child pipeline; one without jobs is an error there, so it has a job
  that does nothing if nothing is affected (docs.gitlab.com, "Downstream pipelines", "Dynamic
  child pipelines").
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.system.yaml_text import yaml_text
from orchestrator.values.labels import VariantLabel

# The most jobs that GitHub runs for one matrix.
GITHUB_MOST: Final = 256


@dataclass(frozen=True)
class Job:
    """One app for one ABI, and the reasons why it is affected: at least one."""

    app: str
    abi: str
    reasons: tuple[str, ...]

    @property
    def label(self) -> str:
        return str(VariantLabel(self.app, self.abi))


@dataclass(frozen=True)
class Matrix:
    """The touched jobs, by app and ABI, since a commit (None: since there was nothing)."""

    commit: str | None
    jobs: tuple[Job, ...]

    def to_json(self) -> str:
        """JSON with a last newline. Its shape:

        {"format": 1, "commit": s|null, "any": b,
        "jobs": [{"label": s, "app": s, "abi": s, "reasons": [s]}]}
        """
        shape = {
            "format": 1,
            "commit": self.commit,
            "any": bool(self.jobs),
            "jobs": [
                {"label": job.label, "app": job.app, "abi": job.abi, "reasons": list(job.reasons)}
                for job in self.jobs
            ],
        }
        return json.dumps(shape, indent=2) + "\n"

    def to_github(self) -> str:
        """`matrix=`, `any=` and `count=`, a line each."""
        include = [
            {"label": job.label, "app": job.app, "abi": job.abi, "reason": "; ".join(job.reasons)}
            for job in self.jobs
        ]
        return (
            f"matrix={json.dumps({'include': include})}\n"
            f"any={json.dumps(bool(self.jobs))}\n"
            f"count={len(self.jobs)}\n"
        )

    def to_gitlab(self, template: str) -> str:
        """A child pipeline: a job a variant, each extending `.libtorch` of the file `template`."""
        jobs: dict[str, Any] = {
            f"build {job.label}": {
                "extends": ".libtorch",
                "variables": {
                    "LABEL": job.label,
                    "APP": job.app,
                    "ABI": job.abi,
                    "REASON": "; ".join(job.reasons),
                },
            }
            for job in self.jobs
        }
        if jobs:
            pipeline = {"include": [{"local": template}], **jobs}
        else:
            script = ["echo 'no app is touched'"]
            # without a repository: it has nothing to do
            pipeline = {
                "nothing to build": {"variables": {"GIT_STRATEGY": "none"}, "script": script}
            }
        return "# Written by `orchestrator matrix`.\n" + yaml_text(pipeline, width=1000)
