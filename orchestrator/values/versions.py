"""Versions of model files that a runtime loads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelVersions:
    """Versions of a model's bytecode and its archive (caffe2/serialize/versions.h)."""

    bytecode: range
    archive: range
