"""Exports `inker`'s models of pen strokes, which use operators and a class of the app's own, and
one of torchvision's operators.

TorchScript must know them: the app's C++ is compiled for this machine's torch first. Of what is
generated, the elementwise operator, the schema is defined here, with the same arithmetic in Python;
so is that of torchvision's, whose C++ comes with the orchestrator.

Run `python apps/inker/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from export_support.extension import load
from torch import nn

from orchestrator.export.saving import Export, run

APP = Path(__file__).resolve().parent
SHAPES = 6
# As long as it lives, its operators are there.
EASED = torch.library.Library("ink", "FRAGMENT")
VISION = torch.library.Library("torchvision", "FRAGMENT")
# as in app.yaml
load(APP, ["src/*.cpp"], ["include"], ["-DINK_LEAST_POINTS=3"])


def ease(pressure: torch.Tensor, sharpness: torch.Tensor | float) -> torch.Tensor:
    """What `kernels/ease.elementwise` computes."""
    return pressure / (pressure + sharpness * (1 - pressure))


def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """What torchvision computes: boxes by their scores, without those that overlap one before."""
    left: list[int] = scores.argsort(descending=True, stable=True).tolist()
    kept = []
    while left:
        best, *others = left
        kept.append(best)
        corners = torch.stack(
            [torch.maximum(boxes[best, :2], boxes[others, :2]),
             torch.minimum(boxes[best, 2:], boxes[others, 2:])]
        )  # fmt: skip
        both = (corners[1] - corners[0]).clamp(min=0).prod(1)
        areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        overlap = both / (areas[best] + areas[others] - both)
        left = [one for one, much in zip(others, overlap > threshold, strict=True) if not much]
    return torch.tensor(kept)


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


class Outline(nn.Module):
    """A pen's points [N, 3] to its line, smooth, with what it covers: [N, 4] (x, y, width of its
    core, width). The brush is part of the model; the one of the core is made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.brush = torch.classes.ink.Brush(2.5, torch.tensor([0.2, 0.9, 1.3, 1.5]))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        line = torch.ops.ink.smooth(points, 0.5)
        line = torch.cat([line[:, :2], torch.ops.ink.ease(line[:, 2:], 2)], 1)
        core = torch.classes.ink.Brush(self.brush.width / 4, torch.ones(2))
        widths = [core.widths(line), self.brush.scaled(0.5).widths(line)]
        return torch.cat([line[:, :2], torch.stack(widths, 1)], 1)


class Marks(nn.Module):
    """Marks of several pens, each with its centre and size [N, 2], how sure it is [N] and its pen
    [N], to those that no surer mark of the same pen covers: their positions."""

    def forward(
        self, centres: torch.Tensor, sizes: torch.Tensor, sure: torch.Tensor, pens: torch.Tensor
    ) -> torch.Tensor:
        # marks of other pens lie far away
        apart = centres + 1000 * pens.unsqueeze(1)
        boxes = torch.cat([apart - sizes / 2, apart + sizes / 2], 1)
        kept: torch.Tensor = torch.ops.torchvision.nms(boxes, sure, 0.3)
        return kept


def export() -> dict[str, Export]:
    """`strokes`, `outline` and `marks`: one method each, `forward`."""
    EASED.define("ease(Tensor x0, Tensor x1) -> Tensor")
    EASED.define("ease.Scalar(Tensor x0, Scalar x1) -> Tensor")
    EASED.impl("ease", ease, "CPU")
    EASED.impl("ease.Scalar", ease, "CPU")
    VISION.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    VISION.impl("nms", nms, "CPU")
    models = {"strokes": Strokes(), "outline": Outline()}
    inputs = [(torch.rand(count, 3),) for count in (12, 2)]
    exports = {name: Export(model, inputs, canonical="off") for name, model in models.items()}
    marks = (torch.rand(5, 2) * 100, torch.rand(5, 2) * 20, torch.rand(5), torch.arange(5) % 2)
    # its inputs are in app.yaml
    return {**exports, "marks": Export(Marks(), [marks], canonical="off", bundled=False)}


if __name__ == "__main__":
    run(export, APP / "models")
