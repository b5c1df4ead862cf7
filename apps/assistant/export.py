"""Exports `assistant`'s keyword spotter: a convolution over sound features, then a GRU.

Run `python apps/assistant/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import nn

from orchestrator.export.saving import Export, run, trace

BANDS = 40
FRAMES = 100
KEYWORDS = 12


class Spotter(nn.Module):
    """Mel bands [1, BANDS, FRAMES] to probabilities of keywords [1, KEYWORDS]."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Conv1d(BANDS, 32, 5, stride=2)
        self.gru = nn.GRU(32, 48, batch_first=True)
        self.keywords = nn.Linear(48, KEYWORDS)

    def forward(self, bands: torch.Tensor) -> torch.Tensor:
        frames = torch.relu(self.filter(bands)).transpose(1, 2)
        states, _ = self.gru(frames)
        return torch.softmax(4.0 * self.keywords(states[:, -1]), dim=1)


def export() -> dict[str, Export]:
    """`spotter`: bands [1, 40, 100] float32 to probabilities [1, 12]."""
    model = Spotter()
    sounds = [(torch.randn(1, BANDS, FRAMES),), (torch.zeros(1, BANDS, FRAMES),)]
    return {"spotter": Export(model, sounds, compiled=trace(model, *sounds[0]), canonical="off")}


if __name__ == "__main__":
    run(export, Path(__file__).resolve().parent / "models")
