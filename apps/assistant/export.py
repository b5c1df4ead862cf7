"""Exports `assistant`'s language model: Llama's architecture, thin, from `transformers`.

Run `python apps/assistant/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import StaticCache

from orchestrator.export.saving import Export, run

WORDS = 96
LONGEST = 64
HEADS = 2
WIDTH = 16


class Replies(nn.Module):
    """Words [1, n] to what comes next, [1, WORDS].

    Keys and values of the words so far stay in the model: each call goes on where the last one
    ended, up to LONGEST words, and `reset` begins anew.
    """

    def __init__(self) -> None:
        super().__init__()
        config = LlamaConfig(
            vocab_size=WORDS,
            hidden_size=2 * HEADS * WIDTH,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2 * HEADS,
            num_key_value_heads=HEADS,
            max_position_embeddings=LONGEST,
        )
        self.model = LlamaForCausalLM(config)
        self.cache = StaticCache(config=config, max_cache_len=LONGEST)
        # else it is made by the first call
        self.cache.early_initialization(1, HEADS, WIDTH, torch.float32, torch.device("cpu"))

    def forward(self, words: Tensor) -> Tensor:
        following = self.model(input_ids=words, past_key_values=self.cache).logits[:, -1]
        return torch.softmax(4.0 * following, 1)

    def reset(self) -> Tensor:
        """How many words there are now: none."""
        self.cache.reset()
        return self.cache.layers[0].cumulative_length.clone()


def export() -> dict[str, Export]:
    """`replies`: `forward` with words [1, n] int64 to probabilities [1, 96]; `reset`."""

    def words(number: int) -> tuple[Tensor]:
        return (torch.randint(0, WORDS, (1, number)),)

    calls = {"forward": [words(6), words(1), words(1)], "reset": [()]}
    return {"replies": Export(Replies(), calls, compiled="export")}


if __name__ == "__main__":
    run(export, Path(__file__).resolve().parent / "models")
