"""Exports `odd`: what a model may do and hardly one should.

It returns memory that nothing has written, and names an operator with more arguments than PyTorch
1.13 knows, on a way that no input takes (torch 2.13 passes `align_to_window` to aten::stft).

Run `PYTHONPATH=. python tests/integration/apps/odd/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs

from orchestrator.export.archive import reproducible
from orchestrator.export.saving import prepare


class Odd(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        whole = x * 2
        small = torch.empty(3)
        like = torch.empty_like(x)
        new = x.new_empty(2, 2, dtype=torch.int64)
        # 40 MB: malloc maps such a block anew each time (M_MMAP_THRESHOLD is at most 32 MB)
        large = torch.empty(10_000_000)
        return whole, small, like, new, large[:4].clone(), torch.zeros(4)

    @torch.jit.export
    def again(self, x: Tensor) -> Tensor:
        """Memory that was freed just before."""
        y = x + 1
        for _ in range(4):
            y = y + 1
        return torch.empty_like(y)

    @torch.jit.export
    def spectrum(self, x: Tensor) -> Tensor:
        if x.dim() > 2:
            return torch.view_as_real(torch.stft(x, 4, center=False, return_complex=True))
        return x + 1


def main() -> None:
    prepare()
    model = torch.jit.script(Odd().eval())
    x = InflatableArg(torch.tensor([1.0, -2.0, 3.0]), "{}")
    methods = {model.forward: [(x,)], model.again: [(x,)], model.spectrum: [(x,)]}
    saved = bundle_inputs(model, methods)._save_to_buffer_for_lite_interpreter()
    path = Path(__file__).resolve().parent / "models" / "odd.ptl"
    path.write_bytes(reproducible(saved, "odd"))


if __name__ == "__main__":
    main()
