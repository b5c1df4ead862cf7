"""Exports `spectra`: Fourier transforms, and in expected.json what torch of today makes of them.

Run `PYTHONPATH=. python tests/integration/apps/spectra/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs

from orchestrator.export.archive import reproducible
from orchestrator.export.saving import prepare

HERE = Path(__file__).resolve().parent
SAMPLES = 160


def sound() -> Tensor:
    time = torch.arange(float(SAMPLES), dtype=torch.float64)
    return ((time * 0.37).sin() + (time * time * 0.011).cos()).float()


class Spectra(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        # torch.stft of today gives the operator an argument that 1.13.1 does not take
        spectrum = torch.ops.aten.stft(x, 64, 16, 64, self.window, False, True, True)
        back = torch.istft(spectrum[:, 1:5] * 0.5, 64, 16, window=self.window)
        # 97 is a prime; 90 numbers of it are given
        odd = torch.fft.irfft(torch.fft.rfft(x[:90], n=97), n=97)
        plane = torch.fft.fft2(x.reshape(5, 32)[:, :30].double())
        whole = torch.view_as_real(torch.fft.ifft2(plane)).float()
        return torch.abs(spectrum), back, odd, whole

    @torch.jit.export
    def unchecked(self, x: Tensor, dim: int, last: int) -> Tensor:
        """Gives an operator what only its callers in PyTorch check."""
        return torch.ops.aten._fft_c2r(torch.complex(x, x), [dim], 0, last)


def main() -> None:
    prepare()
    eager = Spectra().eval()
    model = torch.jit.script(eager)
    zeros = InflatableArg(torch.zeros(1), f"torch.arange({SAMPLES}.0) * 0.01")
    inputs = {
        model.forward: [(zeros,)],
        model.unchecked: [(torch.zeros(4), 0, 6)],
    }
    saved = bundle_inputs(model, inputs)._save_to_buffer_for_lite_interpreter()
    (HERE / "models/spectra.ptl").write_bytes(reproducible(saved, "spectra"))
    told = {
        "given": sound().tolist(),
        "outputs": [one.flatten().tolist() for one in eager(sound())],
    }
    (HERE / "expected.json").write_text(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
