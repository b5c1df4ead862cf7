"""Modules that torch of today exports with operators that PyTorch 1.13.1 does not have.

`python today.py NAME` prints what the module gives, eagerly, for `lines()`: a result as the model
runner's (native/driver/values.h), of the weights that `orchestrate export model` sees.
"""

from __future__ import annotations

import json
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 32


class Attends(nn.Module):
    """Attention by the function itself, with a mask that depends on the input, and RMS norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.parts = nn.Linear(WIDTH, 3 * WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        n, t = x.size(0), x.size(1)
        parts = self.parts(self.norm(x)).reshape(n, t, 3, 4, 8).permute(2, 0, 3, 1, 4)
        mask = (x.abs().sum(-1) > 0)[:, None, None, :]
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], mask)
        causal = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return x + self.mix((mixed + causal).transpose(1, 2).reshape(n, t, 32))


class Encodes(nn.Module):
    """PyTorch's own Transformer layers, scripted."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.last = nn.TransformerEncoderLayer(
            WIDTH, 4, 2 * WIDTH, activation="gelu", batch_first=True, norm_first=True
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.encoder(x)).mean(1)


def lines() -> list[tuple[Tensor]]:
    """The second one is all masked out."""
    return [(torch.randn(2, 6, WIDTH),), (torch.zeros(1, 3, WIDTH),)]


def main() -> None:
    from orchestrator.export.saving import prepare
    from orchestrator.export.values import to_json

    prepare()
    module = globals()[sys.argv[1]]().eval()
    with torch.no_grad():
        outputs = [to_json(module(*call)) for call in lines()]
    runs = [
        {"index": number, "method": "forward", "error": None, "output": output}
        for number, output in enumerate(outputs)
    ]
    print(json.dumps({"error": None, "runs": runs}))


if __name__ == "__main__":
    main()
