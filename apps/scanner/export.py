"""Exports `scanner`'s page classifier: camera's architecture with a hard-swish before the classes.

Run `python apps/scanner/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from export_support.mobilenet import MobileNet, sample_images
from torch import nn

from orchestrator.export.saving import Export, freeze, run


def export() -> dict[str, Export]:
    """`pages`: images [N, 3, 96, 96] float32 to probabilities [N, 4] of a page's orientation."""
    model = MobileNet(classes=4, head=nn.Hardswish())
    exported = Export(model, sample_images(), compiled=freeze(model), canonical="off")
    return {"pages": exported}


if __name__ == "__main__":
    run(export, Path(__file__).resolve().parent / "models")
