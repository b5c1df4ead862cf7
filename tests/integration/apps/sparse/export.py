"""Exports `sparse`: tensors in coordinates, which a workspace has kernels for by name.

Run `PYTHONPATH=. python tests/integration/apps/sparse/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.bundled_inputs import bundle_inputs

from orchestrator.export.archive import reproducible
from orchestrator.export.saving import prepare

HERE = Path(__file__).resolve().parent


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.arange(24.0).reshape(6, 4))

    def forward(
        self, dense: Tensor, places: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """A product with what stands at `places` of a matrix of 5 x 6; twice `dense`, by way of
        coordinates; its sum; the coordinates, each once."""
        matrix = torch.sparse_coo_tensor(places, values, [5, 6]).coalesce()
        product = torch.sparse.mm(matrix, self.weight)
        coordinates = dense.to_sparse()
        twice = (coordinates + coordinates).to_dense()
        return product, twice, torch.sparse.sum(coordinates), matrix.indices()


def main() -> None:
    prepare()
    model = torch.jit.script(Sparse().eval())
    inputs = (
        torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]]),
        torch.tensor([[0, 1, 4, 1], [2, 0, 5, 0]]),
        torch.tensor([1.0, 2.0, 3.0, 4.0]),
    )
    saved = bundle_inputs(model, [inputs])._save_to_buffer_for_lite_interpreter()
    (HERE / "models/sparse.ptl").write_bytes(reproducible(saved, "sparse"))


if __name__ == "__main__":
    main()
