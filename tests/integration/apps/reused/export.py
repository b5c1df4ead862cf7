"""Exports models that change what a layer takes besides its input, in a run, by another name: what
was packed for the call before must not be used again. One model for each way, since a write that is
seen keeps all of a module's weights from being packed.

Run `PYTHONPATH=. python tests/integration/apps/reused/export.py` with the optional dependency group
`export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orchestrator.export.saving import Export, run


class Bias(nn.Module):
    """A bias, and the weights of a recurrent cell, that are no model's own, and are written to."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 4))
        self.kernel = nn.Parameter(torch.rand(3, 2, 3, 3))
        self.register_buffer("mean", torch.rand(3))
        self.cell = nn.GRUCell(4, 3)

    def forward(self, x: Tensor, images: Tensor) -> list[Tensor]:
        bias, scale = torch.zeros(3), torch.ones(3)
        found: list[Tensor] = []
        for _ in range(3):
            found.append(F.linear(x, self.weight, bias))
            found.append(F.conv2d(images, self.kernel, bias))
            h = F.conv2d(images, self.kernel)
            norm = torch.batch_norm(h, None, None, self.mean, scale, False, 0.1, 1e-5, False)
            found.append(norm)
            bias.add_(1.0)
            scale.mul_(2.0)
        return found

    @torch.jit.export
    def recurrent(self, x: Tensor) -> list[Tensor]:
        weight, h = self.cell.weight_hh.clone(), torch.zeros(x.size(0), 3)
        found: list[Tensor] = []
        for _ in range(3):
            cell = self.cell
            h = torch.gru_cell(x, h, cell.weight_ih, weight, cell.bias_ih, cell.bias_hh)
            found.append(h)
            weight.mul_(-1.5)
        return found


class Chosen(nn.Module):
    """A weight that is the model's own only in some runs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 4))

    def forward(self, x: Tensor, other: Tensor) -> list[Tensor]:
        other = other.clone()
        found: list[Tensor] = []
        weight = self.weight
        if other.size(0) == 3:
            weight = other
        for _ in range(3):
            found.append(F.linear(x, weight))
            other.add_(1.0)
        return found


class Statistics(nn.Module):
    """Running statistics that are written to without a word in the operator's schema."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.rand(3, 2, 3, 3))
        self.register_buffer("mean", torch.rand(3))
        self.register_buffer("var", torch.rand(3) + 0.5)

    def forward(self, x: Tensor) -> list[Tensor]:
        found: list[Tensor] = []
        for _ in range(3):
            h = F.conv2d(x, self.kernel)
            found.append(
                torch.batch_norm(h, None, None, self.mean, self.var, False, 0.1, 1e-5, False)
            )
            h = torch.relu(F.conv2d(x, self.kernel))
            found.append(
                torch.batch_norm(h, None, None, self.mean, self.var, True, 0.5, 1e-5, False)
            )
        return found


class Passed(nn.Module):
    """A weight that an operator gives back as its result, without a word in its schema."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 4))

    def forward(self, x: Tensor) -> list[Tensor]:
        found: list[Tensor] = []
        for _ in range(3):
            found.append(F.linear(x, self.weight))
            # what nobody uses would be left out
            found.append(torch.dropout(self.weight, 0.5, False).mul_(-1.5).sum())
        return found


class Listed(nn.Module):
    """A weight that is written to through a list that it was put into."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 4))

    def forward(self, x: Tensor) -> list[Tensor]:
        found: list[Tensor] = []
        weights: list[Tensor] = []
        weights.append(self.weight)
        for _ in range(3):
            found.append(F.linear(x, self.weight))
            for weight in weights:
                weight.mul_(-1.5)
        return found


class Kept(nn.Module):
    """An attribute that is given a tensor of the caller's, who writes to it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.rand(3, 4)
        self.calls = 0

    def forward(self, x: Tensor, weight: Tensor) -> list[Tensor]:
        own = weight.clone()
        self.weight = own
        self.calls += 1
        found: list[Tensor] = []
        for _ in range(3):
            found.append(F.linear(x, self.weight))
            own.add_(1.0)
        return found


def twice(model: nn.Module, inputs: dict[str, tuple[Tensor, ...]]) -> Export:
    rows = {method: 2 * [row] for method, row in inputs.items()}
    return Export(model.requires_grad_(False), rows, canonical="off")


def models() -> dict[str, Export]:
    x, weight, images = torch.rand(5, 4), torch.rand(3, 4), torch.rand(2, 2, 6, 6)
    calls: list[tuple[nn.Module, dict[str, tuple[Tensor, ...]]]] = [
        (Bias(), {"forward": (x, images), "recurrent": (x,)}),
        (Chosen(), {"forward": (x, weight)}),
        (Statistics(), {"forward": (images,)}),
        (Passed(), {"forward": (x,)}),
        (Listed(), {"forward": (x,)}),
        (Kept(), {"forward": (x, weight)}),
    ]
    return {type(model).__name__.lower(): twice(model, inputs) for model, inputs in calls}


if __name__ == "__main__":
    run(models, Path(__file__).resolve().parent / "models")
