"""`orchestrate init`: turns a folder into a workspace."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import shlex
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError, Place
from orchestrator.load.workspace import BUILT_IN, FILE
from orchestrator.system.staging import write_bytes

NAME = "init"
HELP = """\
Turns the current folder into a workspace. Writes WORKSPACE, which pins the PyTorch versions that
this orchestrator supports and lists their sources; a script `orchestrate`, which runs the installed
orchestrator; and a .gitignore if there is none. Commit all of them."""
EXAMPLE = """\
./orchestrate init
./orchestrate init --workspace ml --json"""

_SCRIPT: Final = "orchestrate"
_IGNORED: Final = ".gitignore"
# What the script installs, where it is beside it.
_REQUIREMENTS: Final = "orchestrator-requirements.txt"
_DISTRIBUTION: Final = "libtorch-orchestrator"


class WorkspaceExistsError(OrchestratorError):
    """The folder already is a workspace, or has a file in the way."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print the written files as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Write the files, WORKSPACE last, and print the next steps. Raises WorkspaceExistsError."""
    _require_outside_of_apps(context.root)
    files = _files(context.root)
    written: list[Path] = []
    try:
        for path, data, mode in files:
            write_bytes(path, data, mode)
            written.append(path)
    except BaseException:
        for path in written:
            with suppress(OSError):
                path.unlink()
        raise
    names = [path.name for path in written]
    steps = ["./orchestrate doctor", "./orchestrate new-app NAME --model MODEL.ptl"]
    if not _finds_the_orchestrator(context):
        steps.insert(0, f"echo {shlex.quote(_requirement())} > {_REQUIREMENTS}")
    if arguments.workspace and context.root != Path.cwd():
        steps.insert(0, f"cd {shlex.quote(str(context.root))}")
    if arguments.json:
        result = {"root": str(context.root), "files": names, "next": steps}
        print(json.dumps({"format": 1, **result}, indent=2))
        return ExitCode.OK
    print(f"created {', '.join(names)}")
    print("next:", *(f"  {step}" for step in steps), sep="\n")
    return ExitCode.OK


def _finds_the_orchestrator(context: Context) -> bool:
    """True where the workspace's script finds an orchestrator to run (builtin/orchestrate.sh)."""
    ways = (".venv/bin/orchestrate", _REQUIREMENTS)
    installed = any((context.root / way).is_file() for way in ways)
    return installed or shutil.which(_SCRIPT, path=context.env.get("PATH", "")) is not None


def _requirement() -> str:
    """The running orchestrator as a line for pip: where it was installed from, by the file that
    pip leaves of it (PEP 610), or its version."""
    distribution = importlib.metadata.distribution(_DISTRIBUTION)
    origin = distribution.read_text("direct_url.json")
    if origin is None:
        return f"{_DISTRIBUTION}=={distribution.version}"
    return f"{_DISTRIBUTION} @ {json.loads(origin)['url']}"


def _require_outside_of_apps(root: Path) -> None:
    """Raise WorkspaceExistsError in an app's folder, where the new workspace would hide its own."""
    around = next((one for one in root.parents if (one / FILE).is_file()), None)
    if around is not None and root.relative_to(around).parts[0] == "apps":
        raise WorkspaceExistsError(
            "this folder is in the apps/ of a workspace",
            seen=str(around),
            hint="add an app: ./orchestrate new-app NAME --model MODEL.ptl; for another workspace"
            " run init outside of this one",
        )


def _files(root: Path) -> list[tuple[Path, bytes, int]]:
    """The files of a new workspace: paths, contents and modes; WORKSPACE is the last."""
    for name in (FILE, _SCRIPT):
        if (root / name).is_symlink() or (root / name).exists():
            raise _existing(name)
    script = (BUILT_IN / "orchestrate.sh").read_bytes()
    files = [(root / _SCRIPT, script, 0o755)]
    if not (root / _IGNORED).exists():
        files.append((root / _IGNORED, (BUILT_IN / "gitignore").read_bytes(), 0o644))
    return [*files, (root / FILE, _pins(), 0o644)]


def _pins() -> bytes:
    """Our own WORKSPACE, without the line that names a file of this project."""
    lines = (BUILT_IN / FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if "$schema=" not in line).encode()


def _existing(name: str) -> WorkspaceExistsError:
    if name == FILE:
        return WorkspaceExistsError(
            "this folder already has a WORKSPACE",
            place=Place(name),
            hint="continue with it: ./orchestrate new-app NAME --model MODEL.ptl; if it is another"
            " tool's, run init in a subfolder",
        )
    return WorkspaceExistsError(
        "a file with this name already exists",
        place=Place(name),
        hint="move it away, or run init in a subfolder",
    )
