"""Exports `scanner`'s page classifier: camera's architecture with a hard-swish before the classes.

Run `python apps/scanner/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from export_support.mobilenet import MobileNet, sample_images
from export_support.saving import Export, freeze, run
from torch import nn


def export() -> dict[str, Export]:
    """`pages`: images [N, 3, 96, 96] float32 to probabilities [N, 4] of a page's orientation."""
    model = MobileNet(classes=4, head=nn.Hardswish())
    return {"pages": Export(model, freeze(model), {"forward": sample_images()})}


if __name__ == "__main__":
    run(export, Path(__file__).resolve().parent / "models")
