"""Exports `keyboard`'s next-word model: an LSTM with the control flow that TorchScript keeps.

The bundled inputs run a short and a long text. They do not run two branches: an empty text, and a
word outside the vocabulary (`aten::masked_fill.Scalar`, which nothing else here calls).

Run `python apps/keyboard/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import nn

from orchestrator.export.saving import Export, run

VOCABULARY = 800
WINDOW = 16
SUGGESTIONS = 3


class NextWord(nn.Module):
    """Word ids [1, T] int64 to log probabilities of the next word [1, VOCABULARY].

    Word 0 begins a text, word 1 stands for every unknown word.
    """

    def __init__(self) -> None:
        super().__init__()
        self.vocabulary = VOCABULARY
        self.window = WINDOW
        self.suggestions = SUGGESTIONS
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.lstm = nn.LSTM(32, 48, batch_first=True)
        self.output = nn.Linear(48, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if ids.size(1) == 0:
            ids = torch.zeros([1, 1], dtype=torch.int64)
        if ids.size(1) > self.window:
            ids = ids[:, -self.window :]
        unknown = ids >= self.vocabulary
        if bool(unknown.any()):
            ids = ids.masked_fill(unknown, 1)
        states, _ = self.lstm(self.embedding(ids))
        return torch.log_softmax(self.output(states[:, -1]), dim=1)

    @torch.jit.export
    def suggest(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The most likely next words: log probabilities and ids, [1, SUGGESTIONS] each."""
        best, words = torch.topk(self.forward(ids), self.suggestions, dim=1)
        return best, words


def export() -> dict[str, Export]:
    """`next_word`: methods `forward` and `suggest`, both from ids [1, T] int64."""
    model = NextWord()
    short = (torch.tensor([[0, 17, 256, 3]]),)
    long = (torch.randint(2, VOCABULARY, (1, WINDOW + 5)),)
    inputs = {"forward": [short, long], "suggest": [short]}
    return {"next_word": Export(model, inputs, canonical="off")}


if __name__ == "__main__":
    run(export, Path(__file__).resolve().parent / "models")
