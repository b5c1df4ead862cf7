"""Identifies the inputs of a model's trace, and lists the names that it may contain."""

from __future__ import annotations

import hashlib
import json

from orchestrator.build.workshop.native import NATIVE
from orchestrator.index.model import RuntimeIndex
from orchestrator.pytorch.versions import VersionData
from orchestrator.trace.form import Vocabulary
from orchestrator.values.config.app import ModelConfig


def vocabulary_of(index: RuntimeIndex, version: VersionData) -> Vocabulary:
    """Names of a runtime that traces may contain."""
    mentioned = {tag for unit in index.units for tag in unit.tags}
    return Vocabulary(
        version.version,
        frozenset(registration.operator for registration in index.registrations),
        frozenset(mentioned.union(*version.computed_tags.values())),
    )


def inputs_digest(model: ModelConfig) -> str:
    """The identity of a model's declared inputs: `bundled`, or sha256 (hex) of their JSON with
    sorted keys. What a file holds of them is known to who read it."""
    if not model.runs:
        return "bundled"
    text = json.dumps([run.model_dump(mode="json") for run in model.runs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def tracer_digest(*, own_sources: bool = False) -> str:
    """Digest of what decides what a tracer records and a build selects by it: the recorder and the
    set-up calls.

    own_sources: of an app that has some, coverage too: a class of its own whose methods no input
    ran is selected whole
    """
    digest = hashlib.sha256()
    for folder in ("tracer", "coverage") if own_sources else ("tracer",):
        for path in sorted((NATIVE / folder).glob("*")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
