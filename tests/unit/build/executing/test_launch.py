"""A declared launcher before anything runs through it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from toy_workspace import toy_invocation

from orchestrator.build.executing.launch import LauncherVariableError, check_launcher
from orchestrator.build.workshop.invocation import Invocation


def launched(folder: Path, env: Mapping[str, str]) -> Invocation:
    """An invocation whose WORKSPACE declares a launcher that gets these variables."""
    (folder / "ccache").write_text("#!/bin/sh\n")
    (folder / "ccache").chmod(0o755)
    launcher = json.dumps({"command": ["ccache"], "env": env})
    edges = {"HOME": str(folder), "PATH": str(folder)}
    return toy_invocation(folder, added=f"launcher: {launcher}\n", env=edges)


def test_a_launcher_gets_variables_of_its_own(tmp_path: Path) -> None:
    check_launcher(launched(tmp_path, {"CCACHE_PREFIX": "distcc", "DISTCC_HOSTS": "build1/16"}))


def test_a_launcher_hands_compilers_no_variables_that_lead_elsewhere(tmp_path: Path) -> None:
    env = {"CCACHE_PREFIX": "distcc", "NIX_LDFLAGS": "-L/opt", "CPATH": "/opt/include"}
    with pytest.raises(LauncherVariableError) as caught:
        check_launcher(launched(tmp_path, env))
    assert caught.value.render() == (
        "WORKSPACE: error: `launcher` sets variables that lead compilers to other files or flags\n"
        "  expected: variables of the launcher's own: the key of an object has none\n"
        "  seen:     CPATH, NIX_LDFLAGS\n"
        "  do:       name them in `compile_flags` or `link_flags` of toolchains/<abi>.yaml"
    )
