"""Exports `angles` and `waves`: each has an operator that inker's library lacks, and both name
`clamp` and `select`, which only code calls there.

Run `PYTHONPATH=. python tests/integration/apps/additions/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from orchestrator.export.saving import Export, run


class Angles(nn.Module):
    def forward(self, points: Tensor) -> Tensor:
        return torch.clamp(torch.atan2(points.select(0, 1), points.select(0, 0)), -3.0, 3.0)


class Waves(nn.Module):
    def forward(self, points: Tensor) -> Tensor:
        return torch.clamp(torch.sinh(points.select(0, 1)), -3.0, 3.0)


def models() -> dict[str, Export]:
    inputs = [(torch.randn(2, 8),), (10 * torch.randn(2, 3),)]
    return {
        name: Export(model, inputs, canonical="off")
        for name, model in (("angles", Angles()), ("waves", Waves()))
    }


if __name__ == "__main__":
    run(models, Path(__file__).resolve().parent / "models")
