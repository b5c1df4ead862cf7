"""Exports `vectors`: products of matrices and vectors, and of two vectors, in all layouts.

Run `PYTHONPATH=. python tests/integration/apps/vectors/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from orchestrator.export.saving import Export, run


class Vectors(nn.Module):
    def forward(self, a: Tensor, x: Tensor, y: Tensor) -> list[Tensor]:
        """Of a [M, N], x [N] and y [M]: as it lies, turned, with gaps, of few numbers."""
        found = [torch.mv(a, x), torch.mv(a.t(), y), torch.matmul(a, x), torch.matmul(y, a)]
        found += [torch.addmv(y, a, x, beta=0.5, alpha=-2.0), torch.addmv(y, a, x, beta=0)]
        found += [torch.addmv(x, a.t(), y, alpha=0.25), torch.addmv(y[:1], a, x)]
        found += [torch.mv(a[::2], x), torch.mv(a[:, ::2], x[::2]), torch.mv(a[:, 1:], x[1:])]
        found += [torch.mv(a, a[1]), torch.mv(a.t(), a[:, 1]), torch.mv(a, x[:1].expand(x.size(0)))]
        found += [torch.mv(a[:1], x), torch.mv(a[:, :1], x[:1]), torch.mv(a[:0], x)]
        found += [torch.mv(a[:, :0], x[:0]), torch.addmv(y, a[:, :0], x[:0], beta=2)]
        rows = a.clone()
        rows[:, 2].addmv_(a, x)
        rows.t()[1:2].squeeze(0).addmv_(a, x, beta=-1)
        found += [rows]
        return found

    @torch.jit.export
    def pairs(self, x: Tensor, y: Tensor) -> list[Tensor]:
        found = [torch.dot(x, y), torch.matmul(x, y), torch.dot(x[::3], y[::3]), torch.vdot(x, y)]
        found += [torch.dot(x[:1], y[:1]), torch.dot(x[:0], y[:0])]
        return found

    @torch.jit.export
    def others(self, a: Tensor, x: Tensor) -> list[Tensor]:
        """Other dtypes, which PyTorch's own loops compute."""
        whole, some = (8 * a).to(torch.int64), (8 * x).to(torch.int64)
        found = [torch.mv(a.double(), x.double()), torch.dot(x.double(), x.double())]
        found += [torch.mv(whole, some), torch.dot(some, some)]
        return found


def sized(rows: int, columns: int) -> tuple[Tensor, ...]:
    return torch.randn(rows, columns), torch.randn(columns), torch.randn(rows)


def models() -> dict[str, Export]:
    wrong = sized(12, 21)
    wrong[0][3, 20], wrong[0][5, 0], wrong[1][7] = torch.nan, torch.inf, -torch.inf
    wrong[2][4] = torch.nan
    pairs = [torch.randn(size) for size in (1, 5, 64, 1300)]
    inputs: dict[str, list[tuple[Tensor, ...]]] = {
        "forward": [sized(9, 21), sized(40, 33), sized(3, 3), sized(1100, 5), wrong],
        "pairs": [(one, one.flip(0) + 0.5) for one in pairs],
        "others": [sized(9, 21)[:2]],
    }
    return {"vectors": Export(Vectors(), inputs, canonical="off")}


if __name__ == "__main__":
    run(models, Path(__file__).resolve().parent / "models")
