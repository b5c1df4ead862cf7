"""Programs of torch.export (`.pt2`) that a command is given by their path.

A program of an app has a model beside it, with a lock, which `orchestrator canonical` writes. Of
any other one a model is made on first use, and kept in the user's cache: its name there is a digest
of all that it depends on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator.build.workshop.invocation import Invocation
from orchestrator.canonical.convert import worker_digest
from orchestrator.canonical.lock import canonical_path, read_lock, shipped_model
from orchestrator.canonical.programs import convert_program
from orchestrator.canonical.python import find_python
from orchestrator.errors import OrchestratorError
from orchestrator.export.tolerances import TOLERANCES
from orchestrator.models.programs import read_program
from orchestrator.system.reading import parse_json
from orchestrator.system.staging import write_bytes
from orchestrator.values.config.app import PROGRAM_SUFFIX

# The folder in the user's cache; `cache/pruning.py` knows it.
FOLDER: Final = "programs"


@dataclass(frozen=True)
class Loadable:
    """A file that libraries load. inputs: of the program that it was made of, where that brings
    some: the model runner's, JSON."""

    path: Path
    inputs: bytes | None = None


def is_program(path: Path) -> bool:
    """True if a path is that of a program, by its name."""
    return path.suffix == PROGRAM_SUFFIX


def loadable(
    here: Invocation, path: Path, pytorch: str | None = None, given: bytes | None = None
) -> Loadable:
    """The file itself, or the model that was made of a program.

    pytorch  the version of the runtime that it is for; None for the workspace's default
    given    inputs that its conversion is compared with, in place of the file's own
    Raises what reading and converting a program raise, and finding a Python.
    """
    if not is_program(path):
        return Loadable(path)
    info = read_program(path)
    known = _of_app(here, path, info.sha256)
    if known is not None and given is None:
        return known
    context, config = here.context, here.workspace.config
    python = find_python(None, context.env, context.runner, option="")
    version = pytorch or config.pins[config.default_runtime].pytorch
    facts = [info.sha256, python.torch, version, worker_digest(programs=True), path.stem]
    facts.append("" if given is None else hashlib.sha256(given).hexdigest())
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
    model = here.workspace.cache / FOLDER / f"{key}.ptl"
    inputs = model.with_suffix(".json")
    made = _kept(model, inputs)
    if made is not None:
        return made
    here.log(f"making a model of {path} by torch {python.torch}")
    declared: Sequence[Mapping[str, Any]] | None = None if given is None else parse_json(given)
    done = convert_program(
        path,
        str(path),
        path.stem,
        declared,
        version,
        TOLERANCES,
        python,
        context.env,
        context.runner,
    )
    for note in done.notes:
        here.log(f"  {note}")
    model.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(model, done.made)
    # the last: with it the model counts
    write_bytes(inputs, _sealed(done.made, done.inputs))
    return Loadable(model, done.inputs)


def _sealed(model: bytes, inputs: bytes) -> bytes:
    """Inputs, after the digests of both."""
    digests = (hashlib.sha256(one).hexdigest() for one in (model, inputs))
    return " ".join(digests).encode() + b"\n" + inputs


def _kept(model: Path, inputs: Path) -> Loadable | None:
    """Result of an earlier conversion; None unless it is complete."""
    try:
        made, sealed = model.read_bytes(), inputs.read_bytes()
    except OSError:
        return None
    content = sealed.partition(b"\n")[2]
    return Loadable(model, content) if _sealed(made, content) == sealed else None


def _of_app(here: Invocation, path: Path, sha256: str) -> Loadable | None:
    """The model of an app that declares this very file, while its lock holds."""
    for app in here.workspace.apps.values():
        for model in app.config.models:
            if not model.is_program or app.model_path(model).resolve() != path.resolve():
                continue
            try:
                if read_lock(app, model, here.context.root).original == sha256:
                    its = shipped_model(app, model, here.context.root)
                    return Loadable(canonical_path(app, model), its.inputs)
            except OrchestratorError:
                continue
    return None
