"""Exports `inker`'s model of pen strokes, which calls an operator of the app's own.

TorchScript must know the operator, not its C++: its schema is defined here, with the same
arithmetic in Python, which is what eager execution computes.

Run `python apps/inker/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import nn

from orchestrator.export.saving import Export, run

SHAPES = 6
LEAST_POINTS = 3
# As long as it lives, its operators are there.
LIBRARY = torch.library.Library("ink", "DEF")


def smooth(points: torch.Tensor, strength: float) -> torch.Tensor:
    """What `src/smooth.cpp` computes."""
    out = points.clone()
    if points.size(0) >= LEAST_POINTS:
        middles = (points[:-2] + points[2:]) / 2
        out[1:-1] = torch.lerp(points[1:-1], middles, strength)
    return out


class Strokes(nn.Module):
    """A pen's points [N, 3] (x, y, pressure) to scores of what it drew [SHAPES]."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(3, 16)
        self.scores = nn.Linear(16, SHAPES)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        line = torch.ops.ink.smooth(points, 0.5)
        hidden = torch.relu(self.hidden(line))
        return torch.softmax(self.scores(hidden.mean(0, keepdim=True)), 1)


def export() -> dict[str, Export]:
    """`strokes`: one method, `forward`."""
    LIBRARY.define("smooth(Tensor points, float strength) -> Tensor")
    LIBRARY.impl("smooth", smooth, "CPU")
    model = Strokes()
    inputs = [(torch.rand(count, 3),) for count in (12, 2)]
    return {"strokes": Export(model, inputs, canonical="off")}


if __name__ == "__main__":
    run(export, Path(__file__).resolve().parent / "models")
