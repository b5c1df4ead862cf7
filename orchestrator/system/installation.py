"""The way the orchestrator was installed, for messages that say how to install it again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

_PROJECT: Final = "libtorch-orchestrator"
# A checkout's, beside the script that installs from it; no wheel has it.
_LOCK: Final = "requirements/run.txt"


def install_again(above: Path = Path(__file__).parents[2]) -> str:
    """Return the advice for an error about a missing dependency: how to install again.

    above: the folder that holds our package. A workspace has a script `orchestrate` either way;
    only a checkout's installs anything.
    """
    if (above / _LOCK).is_file():
        return "remove .venv and run ./orchestrate again, which installs the pinned dependencies"
    return f"install {_PROJECT} again, with all that it depends on, in {sys.prefix}"


def pip() -> str:
    """The command that is pip for the packages that we run with."""
    return f"{shlex.quote(sys.executable)} -m pip"
