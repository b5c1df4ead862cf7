"""Exports `camera`'s classifier: what is in this picture, out of ten classes.

Run `python apps/camera/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from export_support.mobilenet import MobileNet, sample_images

from orchestrator.export.saving import Export, freeze, run


def export() -> dict[str, Export]:
    """`classifier`: images [N, 3, 96, 96] float32 to probabilities [N, 10]."""
    model = MobileNet(classes=10)
    exported = Export(model, sample_images(), compiled=freeze(model), canonical="off")
    return {"classifier": exported}


if __name__ == "__main__":
    run(export, Path(__file__).resolve().parent / "models")
