"""Exports `functions`: activations, functions of single numbers, softmax of any dimension and
pooling, and no layer. `products`: products with matrices of the model's own, and no `linear`.

Run `PYTHONPATH=. python tests/integration/apps/functions/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orchestrator.export.saving import Export, run


class Functions(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        found = [F.hardswish(x), F.hardsigmoid(x), F.mish(x), F.elu(x), F.selu(x), F.celu(x, 0.7)]
        found += [F.leaky_relu(x), F.leaky_relu(x, -0.25), F.elu(x, 1.5), F.softplus(x)]
        found += [F.softplus(x, 2.0, 3.0), F.softplus(-x, -0.5, 1.0)]
        found += [F.glu(x, 0), F.glu(x, 1), F.glu(x[::2, 2:], 1), F.glu(x.t(), 0)]
        found += [torch.log(x), torch.sqrt(x), torch.rsqrt(x), torch.reciprocal(x)]
        found += [torch.sin(x), torch.cos(x), torch.sin(1e5 * x), torch.cos(-3e4 * x)]
        found += [torch.floor(x), torch.ceil(x), torch.round(x), torch.trunc(x)]
        return found

    @torch.jit.export
    def layouts(self, x: Tensor) -> list[Tensor]:
        """In slices, turned, written in place, alone, and nothing."""
        found = [F.leaky_relu(x[:, ::3]), F.hardswish(x.t()), torch.log(x[1:, 1:9].abs())]
        found += [torch.floor(x[:, 2]), torch.round(x.t()[::2]), torch.sqrt(x[0, 0].abs())]
        found += [F.hardswish(x[:, ::2].clone(), inplace=True), F.elu(x.clone(), inplace=True)]
        found += [F.leaky_relu(x[:, ::5].t().clone(), 0.5, inplace=True), F.mish(x[:0])]
        return found

    @torch.jit.export
    def others(self, x: Tensor, whole: Tensor) -> list[Tensor]:
        """Other dtypes, which PyTorch's own kernels compute; whole numbers become floats."""
        exact, short = x.double(), x.to(torch.bfloat16)
        found = [F.hardswish(exact), F.leaky_relu(exact), F.softplus(exact), F.glu(exact, 1)]
        found += [F.hardswish(short), F.leaky_relu(short), F.elu(short), torch.sqrt(short.abs())]
        found += [torch.sqrt(whole), torch.log(whole), torch.sin(whole), torch.reciprocal(whole)]
        found += [torch.softmax(exact, 0), torch.log_softmax(exact, 0), torch.floor(exact)]
        return found

    @torch.jit.export
    def columns(self, x: Tensor) -> list[Tensor]:
        """Of x [3, 5, 7, 9]."""
        found = [torch.softmax(x, 0), torch.softmax(x, 1), torch.softmax(x, 2)]
        found += [torch.log_softmax(x, 0), torch.log_softmax(x, 1), torch.log_softmax(10.0 * x, -2)]
        found += [torch.softmax(x[:, :, :2, :3], 1), torch.softmax(x.permute(0, 2, 3, 1), 1)]
        found += [torch.softmax(x[:, :1], 1), torch.softmax(x[:0], 1)]
        # one number, whose stride is that of five
        found += [torch.softmax(x[:1, :1], 0), torch.log_softmax(x[:1, :1, :1], 1)]
        return found

    @torch.jit.export
    def pools(self, x: Tensor) -> list[Tensor]:
        """Of x [N, C, H, W]: with padding, gaps, what hangs over; and what PyTorch computes."""
        found = [F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 1, 1)]
        found += [F.max_pool2d(x, 3, 2, ceil_mode=True), F.max_pool2d(x, [3, 2], [1, 2], [1, 0])]
        found += [F.max_pool2d(x, 3, 2, 1, 2), F.max_pool2d(x, 2, 2, 1, ceil_mode=True)]
        found += [F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, [2, 3], 1, [1, 0])]
        found += [F.avg_pool2d(x, 3, 2, 1, True), F.avg_pool2d(x, 3, 2, 1, True, False)]
        found += [F.avg_pool2d(x, 3, 2, 1, divisor_override=4), F.max_pool2d(x[0], 2)]
        found += [F.max_pool2d(x.permute(0, 3, 1, 2), 2), F.avg_pool2d(x[:, :, ::2, ::2], 2)]
        found += [F.max_pool2d(x.double(), 2), F.avg_pool2d(x.double(), 2)]
        return found


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(20, 9))
        self.turned = nn.Parameter(torch.randn(9, 20).t())
        self.batch = nn.Parameter(torch.randn(4, 20, 7))
        self.shared = nn.Parameter(torch.randn(20, 20))

    def forward(self, x: Tensor) -> list[Tensor]:
        """Of x [4, 6, 20]; the last ones are none that can be packed, or have no layer's shape."""
        found = [
            F.relu(x @ self.matrix),
            x @ self.turned,
            x[0] @ self.matrix,
            x[0, 0] @ self.matrix,
        ]
        found += [torch.mm(x[1], self.matrix), torch.mm(x[2], self.turned), x @ self.batch]
        found += [torch.bmm(x, self.batch), torch.clamp(torch.bmm(x[:, :1], self.batch), -1.0, 1.0)]
        found += [x[:, ::2] @ self.matrix, x @ self.shared, self.shared @ self.matrix]
        found += [x[0] @ self.batch, x[:, 0].unsqueeze(1).unsqueeze(1) @ self.batch]
        found += [x @ self.matrix[:, 0], x @ self.matrix[:, ::2], x.double() @ self.matrix.double()]
        found += [self.matrix.t() @ x.transpose(1, 2), torch.mm(x[0, :0], self.matrix)]
        return found


def unchanged(model: nn.Module, inputs: dict[str, list[tuple[Tensor, ...]]]) -> Export:
    return Export(model.requires_grad_(False), inputs, canonical="off")


def models() -> dict[str, Export]:
    x = 4 * torch.randn(8, 30)
    edges = [0.0, -0.0, 1e-40, 0.5, -0.5, 1.5, 2.5, -3.0, 3.0, 6.0, -95.0, 104.0, 20.0, 1e30]
    extreme = torch.tensor([*edges, torch.inf, -torch.inf, torch.nan]).repeat(20)[:330]
    inputs: dict[str, list[tuple[Tensor, ...]]] = {
        "forward": [(x,), (extreme[:320].reshape(8, 40),)],
        "layouts": [(x,), (extreme.reshape(11, 30),)],
        "others": [(x, torch.arange(1, 12))],
        "columns": [(torch.randn(3, 5, 7, 9),), (30 * torch.randn(1, 40, 3, 11),)],
        "pools": [(torch.randn(2, 5, 13, 10),), (extreme[:308].reshape(1, 4, 11, 7),)],
    }
    made = {"functions": unchanged(Functions(), inputs)}
    given = torch.randn(4, 6, 20)
    made["products"] = unchanged(Products(), {"forward": [(given,), (2 * given,)]})
    return made


if __name__ == "__main__":
    run(models, Path(__file__).resolve().parent / "models")
