"""Exports `listener`'s keyword spotter: a depthwise-separable network in int8, packed for QNNPACK.

Run `python apps/listener/export.py [--out DIR]` with the optional dependency group `export`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import nn
from torch.ao.quantization import (
    DeQuantStub,
    QuantStub,
    convert,
    fuse_modules,
    get_default_qconfig,
    prepare,
)

from orchestrator.export.saving import Export, run

WORDS = 12
FEATURES = 40
FRAMES = 49
CHANNELS = 64
BLOCKS = 4


def _layers(*conv: int, **options: object) -> list[nn.Module]:
    layer = nn.Conv2d(*conv, bias=False, **options)  # type: ignore[arg-type]
    return [layer, nn.BatchNorm2d(layer.out_channels), nn.ReLU()]


class Words(nn.Module):
    """Features of a second of sound [1, 1, FEATURES, FRAMES] to a score a word [1, WORDS]."""

    def __init__(self) -> None:
        super().__init__()
        layers = _layers(1, CHANNELS, (10, 4), stride=2, padding=(4, 1))
        for _ in range(BLOCKS):
            layers += _layers(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
            layers += _layers(CHANNELS, CHANNELS, 1)
        self.quantise = QuantStub()
        self.layers = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.scores = nn.Linear(CHANNELS, WORDS)
        self.dequantise = DeQuantStub()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.layers(self.quantise(x)))
        return torch.softmax(self.dequantise(self.scores(torch.flatten(x, 1))), dim=1)


def export() -> dict[str, Export]:
    """`words`: one method, `forward`."""
    # quantised tensors are resized, which torch does not call deterministic
    torch.use_deterministic_algorithms(False)
    torch.backends.quantized.engine = "qnnpack"
    model = Words().requires_grad_(False).eval()
    model = fuse_modules(
        model, [[f"layers.{i + k}" for k in range(3)] for i in range(0, len(model.layers), 3)]
    )
    model.qconfig = get_default_qconfig("qnnpack")
    prepare(model, inplace=True)
    for _ in range(8):
        model(torch.randn(1, 1, FEATURES, FRAMES))
    model = convert(model)
    inputs = [(torch.randn(1, 1, FEATURES, FRAMES),) for _ in range(2)]
    compiled = torch.jit.freeze(torch.jit.script(model))
    return {"words": Export(model, inputs, compiled=compiled, canonical="off")}


if __name__ == "__main__":
    run(export, Path(__file__).resolve().parent / "models")
