"""Exports `translator`'s model: PyTorch's own Transformer layers, and greedy decoding around them.

`nn.TransformerEncoderLayer` and `nn.TransformerDecoderLayer` are traced as torch is today: they
name `aten::scaled_dot_product_attention`, which PyTorch 1.13.1 does not have. The loop over words
is scripted.

Run `python apps/translator/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import nn

from orchestrator.export.saving import Export, run, trace

VOCABULARY = 320
LONGEST = 16
WIDTH = 48
HEADS = 4
BEGIN = 0
END = 1


class Words(nn.Module):
    """Word ids [1, T] int64, T up to LONGEST, to vectors [1, T, WIDTH] that know their place."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids) + self.places(torch.arange(ids.size(1)))


class Encoder(nn.Module):
    """A text [1, S] int64 to vectors [1, S, WIDTH]; two layers, the norm after and before."""

    def __init__(self) -> None:
        super().__init__()
        self.words = Words()
        self.first = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
        self.second = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 2 * WIDTH, activation="gelu", batch_first=True, norm_first=True
        )

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(self.words(source)))


class Decoder(nn.Module):
    """The encoded text, the words so far [1, T] int64 and a mask [T, T] bool, true where a word
    must not look, to log probabilities of the word after the last one [VOCABULARY]."""

    def __init__(self) -> None:
        super().__init__()
        self.words = Words()
        self.layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
        self.output = nn.Linear(WIDTH, VOCABULARY)
        # Not trained: the likeliest word is to be so by far, whatever rounds how.
        nn.init.normal_(self.output.weight, std=1.0)
        nn.init.constant_(self.output.bias[END], 9.0)

    def forward(
        self, encoded: torch.Tensor, words: torch.Tensor, ahead: torch.Tensor
    ) -> torch.Tensor:
        decoded = self.layer(self.words(words), encoded, tgt_mask=ahead)
        return torch.log_softmax(self.output(decoded[0, -1]), dim=0)


class Translator(nn.Module):
    """A text's word ids [1, S] int64 to the likeliest words [T] int64 and their log probabilities
    [T]; word 0 begins a text and word 1, which is not among them, ends it."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.longest = LONGEST
        self.begin = BEGIN
        self.end = END

    def forward(self, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        encoded = self.encoder(source)
        words = torch.full([1, 1], self.begin, dtype=torch.int64)
        scores = torch.zeros([0])
        while words.size(1) < self.longest:
            length = words.size(1)
            ahead = torch.ones([length, length], dtype=torch.bool).triu(1)
            score, word = torch.max(self.decoder(encoded, words, ahead), dim=0)
            if int(word) == self.end:
                break
            words = torch.cat([words, word.reshape(1, 1)], dim=1)
            scores = torch.cat([scores, score.reshape(1)])
        return words[0, 1:], scores


def export() -> dict[str, Export]:
    """`sentences`: the two first translations are as long as any, the last one ends by itself."""
    encoder, decoder = Encoder().eval(), Decoder().eval()
    eager = Translator(encoder, decoder)
    source = torch.randint(2, VOCABULARY, (1, 5))
    with torch.no_grad():
        encoded = encoder(source)
    ahead = torch.ones([3, 3], dtype=torch.bool).triu(1)
    traced = Translator(trace(encoder, source), trace(decoder, encoded, source[:, :3], ahead))
    sentences = [(torch.randint(2, VOCABULARY, (1, length)),) for length in (6, 1, LONGEST)]
    compiled = torch.jit.script(traced.eval())
    return {"sentences": Export(eager, sentences, compiled=compiled, canonical="off")}


if __name__ == "__main__":
    run(export, Path(__file__).resolve().parent / "models")
