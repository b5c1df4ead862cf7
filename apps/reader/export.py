"""Exports `reader`'s two models: a detector of text on a page, and a recogniser of one line.

Run `python apps/reader/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import torch.nn.functional as F
from torch import nn

from orchestrator.export.saving import Export, run, trace

MOST_BOXES = 8
CHARACTERS = 40
COLUMNS = 24
WIDTH = 32
HEADS = 4


class Detector(nn.Module):
    """A grey page [1, 1, 64, 64] to peaks in reading order: positions [K, 2] int64, scores [K]."""

    def __init__(self) -> None:
        super().__init__()
        self.most = MOST_BOXES
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 1, 1),
        )
        self._calibrate()

    @torch.no_grad()
    def _calibrate(self) -> None:
        # Not trained: ink answers above zero, a blank page just below it.
        last = self.layers[4]
        last.weight *= -8.0
        last.bias -= self.layers(torch.zeros(1, 1, 64, 64)).max() + 0.05

    def forward(self, page: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        heat = torch.sigmoid(4.0 * self.layers(page))
        peaks = (heat == F.max_pool2d(heat, 3, stride=1, padding=1)) & (heat > 0.5)
        positions = torch.nonzero(peaks[0, 0])
        scores = torch.masked_select(heat, peaks)
        if scores.numel() > self.most:
            scores, kept = torch.topk(scores, self.most)
            positions = torch.index_select(positions, 0, kept)
        _, order = torch.sort(positions[:, 0] * page.size(3) + positions[:, 1])
        return torch.index_select(positions, 0, order), torch.index_select(scores, 0, order)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward step, written out.

    `nn.TransformerEncoderLayer` of a new torch names `aten::scaled_dot_product_attention`, which
    PyTorch 1.13.1 does not have.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.before_feed = nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.query_key_value(x).reshape(1, COLUMNS, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.matmul(query, key.transpose(-2, -1)) * (WIDTH // HEADS) ** -0.5
        mixed = torch.matmul(torch.softmax(weights, dim=-1), value)
        return self.mix(mixed.transpose(1, 2).reshape(1, COLUMNS, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.feed(self.before_feed(x))


class Recogniser(nn.Module):
    """A line's pixel columns [1, COLUMNS, 16] to log probabilities [1, COLUMNS, CHARACTERS]."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, WIDTH)
        self.place = nn.Parameter(torch.randn(1, COLUMNS, WIDTH))
        self.layers = nn.Sequential(EncoderLayer(), EncoderLayer())
        self.characters = nn.Linear(WIDTH, CHARACTERS)

    def forward(self, columns: torch.Tensor) -> torch.Tensor:
        encoded = self.layers(self.project(columns) + self.place)
        return torch.log_softmax(self.characters(encoded), dim=-1)


def sample_pages() -> list[tuple[torch.Tensor]]:
    """Pages with more than MOST_BOXES peaks, with a few, and with none."""
    dots = torch.zeros(1, 1, 64, 64)
    dots[0, 0, 20, 40] = dots[0, 0, 44, 12] = 1.0
    return [(torch.rand(1, 1, 64, 64),), (dots,), (torch.zeros(1, 1, 64, 64),)]


def export() -> dict[str, Export]:
    """`detector` is scripted, for its outputs depend on the page; `recogniser` is traced."""
    detector = Detector()
    pages = sample_pages()
    recogniser = Recogniser()
    lines = [(torch.rand(1, COLUMNS, 16),), (torch.zeros(1, COLUMNS, 16),)]
    traced = trace(recogniser, *lines[0])
    return {
        "detector": Export(detector, pages, canonical="off"),
        "recogniser": Export(recogniser, lines, compiled=traced, canonical="off"),
    }


if __name__ == "__main__":
    run(export, Path(__file__).resolve().parent / "models")
