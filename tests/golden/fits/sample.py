"""The module of `plain.ptl` and `mapped.ptl`, which `python /src/sample.py` wrote (torch 2.13)."""

import torch
from torch.utils.bundled_inputs import augment_model_with_bundled_inputs


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.cumprod(x, 0) * 2


class Sample(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.erfinv(x)
        return scaled(y)


if __name__ == "__main__":
    module = torch.jit.script(Sample().eval())
    module._save_for_lite_interpreter("plain.ptl")
    augment_model_with_bundled_inputs(module, [(torch.tensor([0.1, 0.5, -0.25]),)])
    module._save_for_lite_interpreter("mapped.ptl", _save_mobile_debug_info=True)
