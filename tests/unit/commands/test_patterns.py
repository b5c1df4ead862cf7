"""What is said of apps that commands skip."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from orchestrator.commands.patterns import warn_of_broken
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.validate import FurtherFaultsError


def test_all_faults_of_a_skipped_app_are_counted() -> None:
    fault = OrchestratorError("no toolchain for x", place=Place("apps/vad/app.yaml"))
    more = FurtherFaultsError("and 29,900 more such faults", facts={"faults": 29_900})
    told = list[str]()
    for faults in ((fault,), (fault, fault), (*[fault] * 100, more)):
        workspace: Any = SimpleNamespace(root=Path("/w"), broken={"vad": faults})
        warn_of_broken(workspace, told.append)
    skipped = "warning: //apps/vad is skipped: apps/vad/app.yaml: no toolchain for x"
    assert told == [skipped, f"{skipped}, and 1 more", f"{skipped}, and 29,999 more"]
