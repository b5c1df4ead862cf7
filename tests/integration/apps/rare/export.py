"""Exports `rare`: operators that need more than their own kernel.

Tensors with a dispatch key of their own (conjugate, negative), a kernel tag that no literal in the
sources names (`triu`, `tril`), rows of an embedding that code outside of ATen sums, and questions
that are autograd's: kernels ask for a forward gradient, models for `x.data`.

Run `PYTHONPATH=. python tests/integration/apps/rare/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs

from orchestrator.export.archive import reproducible
from orchestrator.export.saving import prepare


class Rare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.EmbeddingBag(5, 3, mode="sum")
        with torch.no_grad():
            self.rows.weight.copy_(torch.arange(15.0).reshape(5, 3))

    def forward(self, real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.complex(real, imaginary)
        return torch.view_as_real(z * z.conj()), torch.imag(z.conj()) + 1

    @torch.jit.export
    def triangle(self, x: Tensor, upper: bool) -> Tensor:
        if upper:
            return torch.triu(x)
        return torch.tril(x)

    @torch.jit.export
    def gradients(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, bool]:
        weight = torch.ones(1, 4)
        cubes = F.linear(x.reshape(1, 1, 1, 4), weight, torch.ones(1))
        rows = F.embedding_bag(torch.tensor([1, 0]), torch.eye(2), torch.tensor([0]), mode="sum")
        return F.max_pool1d(x.reshape(1, 4), 2), cubes.data, rows, x.requires_grad_(False).is_leaf

    @torch.jit.export
    def bag(self, ids: Tensor, offsets: Tensor) -> Tensor:
        return self.rows(ids, offsets)


def whole(value: Tensor) -> InflatableArg:
    """A bundled tensor that stays as it is: random ones are made anew otherwise."""
    return InflatableArg(value, "{}")


def main() -> None:
    prepare()
    model = torch.jit.script(Rare().eval())
    methods = {
        model.forward: [(whole(torch.tensor([1.0, 2.0])), whole(torch.tensor([3.0, -1.0])))],
        model.triangle: [(whole(torch.ones(2, 2)), True)],
        model.gradients: [(whole(torch.tensor([1.0, 2.0, 4.0, 3.0])),)],
        model.bag: [(whole(torch.tensor([0, 1, 4])), whole(torch.tensor([0, 2])))],
    }
    saved = bundle_inputs(model, methods)._save_to_buffer_for_lite_interpreter()
    path = Path(__file__).resolve().parent / "models" / "rare.ptl"
    path.write_bytes(reproducible(saved, "rare"))


if __name__ == "__main__":
    main()
