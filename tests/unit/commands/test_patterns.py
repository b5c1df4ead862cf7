"""What is said of apps that commands skip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from toy_workspace import toy_invocation

from orchestrator.commands.patterns import warn_of_broken
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.validate import FurtherFaultsError


def test_all_faults_of_a_skipped_app_are_counted(tmp_path: Path) -> None:
    fault = OrchestratorError("no toolchain for x", place=Place("apps/vad/app.yaml"))
    more = FurtherFaultsError("and 29,900 more such faults", facts={"faults": 29_900})
    workspace, told = toy_invocation(tmp_path).workspace, list[str]()
    for faults in ((fault,), (fault, fault), (*[fault] * 100, more)):
        warn_of_broken(replace(workspace, broken={"vad": faults}), told.append)
    skipped = "warning: //apps/vad is skipped: apps/vad/app.yaml: no toolchain for x"
    assert told == [skipped, f"{skipped}, and 1 more", f"{skipped}, and 29,999 more"]
