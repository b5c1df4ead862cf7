"""A declared launcher before anything runs through it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.build.launch import LauncherVariableError, check_launcher
from orchestrator.values.config import Launcher


def session(folder: Path, env: Mapping[str, str]) -> Any:
    (folder / "ccache").write_text("#!/bin/sh\n")
    (folder / "ccache").chmod(0o755)
    launcher = Launcher.model_validate({"command": ["ccache"], "env": env})
    return SimpleNamespace(
        workspace=SimpleNamespace(config=SimpleNamespace(launcher=launcher)),
        context=SimpleNamespace(env={"PATH": str(folder)}),
    )


def test_a_launcher_gets_variables_of_its_own(tmp_path: Path) -> None:
    check_launcher(session(tmp_path, {"CCACHE_PREFIX": "distcc", "DISTCC_HOSTS": "build1/16"}))


def test_a_launcher_hands_compilers_no_variables_that_lead_elsewhere(tmp_path: Path) -> None:
    env = {"CCACHE_PREFIX": "distcc", "NIX_LDFLAGS": "-L/opt", "CPATH": "/opt/include"}
    with pytest.raises(LauncherVariableError) as caught:
        check_launcher(session(tmp_path, env))
    assert caught.value.render() == (
        "WORKSPACE: error: `launcher` sets variables that lead compilers to other files or flags\n"
        "  expected: variables of the launcher's own: the key of an object has none\n"
        "  seen:     CPATH, NIX_LDFLAGS\n"
        "  do:       name them in `compile_flags` or `link_flags` of toolchains/<abi>.yaml"
    )
