"""Exports a model with branches that its attributes decide, as torch's own modules have them, and
the same with one of the attributes turned: it takes a branch that `plain` cannot. `resized`
names an operator that the runtime does not have.

Run `PYTHONPATH=. python tests/integration/apps/flags/export.py` with the optional dependency group
`export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import quantize_dynamic

from orchestrator.export.saving import Export, run


class Flags(nn.Module):
    """Branches of a text, a number, a tensor or None, and of modules inside: torch's linear layer
    that is quantised when it runs has one for float16."""

    def __init__(self, mode: str, mean: Tensor | None = None) -> None:
        super().__init__()
        self.mode = mode
        self.scale = 1
        self.register_buffer("mean", mean)
        self.fast = False
        self.calls = 0
        self.layer = nn.Linear(8, 8)
        self.last = nn.Linear(8, 8)
        self.dropout = nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        x = self.dropout(self.layer(x))
        if self.mode == "cumsum":
            x = torch.cumsum(x, 1)
        elif self.mode == "sort":
            x = torch.sort(x, 1)[0]
        if self.scale > 1:
            x = torch.fft.fft(x).abs()
        if self.mean is not None:
            x = torch.atan2(x, self.mean)
        if self.fast:
            x = torch.erf(x)
        return self.last(x)

    @torch.jit.export
    def hurry(self, fast: bool) -> int:
        self.fast = fast
        return self.calls


def exported(mode: str) -> Export:
    torch.backends.quantized.engine = "qnnpack"
    model = quantize_dynamic(Flags(mode), {"layer"}, dtype=torch.qint8)
    rows = {"forward": [(torch.rand(2, 8),)] * 2, "hurry": [(False,)]}
    return Export(model.requires_grad_(False), rows, canonical="off")


class Resized(nn.Module):
    """`interpolate` with all its branches: for one of them this torch has an operator that no
    runtime of ours has."""

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)


def resized() -> Export:
    calls = {"forward": [(torch.randn(1, 3, 4, 5),)]}
    return Export(torch.jit.script(Resized().eval()), calls, canonical="off")


def models() -> dict[str, Export]:
    return {"plain": exported("plain"), "turned": exported("sort"), "resized": resized()}


if __name__ == "__main__":
    run(models, Path(__file__).resolve().parent / "models")
