"""Exports `packed` and `plain`: layers of all kinds, and a small MobileNet, once as
`optimize_for_mobile` writes them and once as they are; `late`: a model that packs when it runs;
and `expected.json`, what stock PyTorch makes of the inputs of `packed`.

`PYTHONPATH=. python tests/integration/apps/packed/export.py`, with PyTorch 1.13.1 or any other
that is built with XNNPACK: wheels of 2.13 are not.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs
from torch.utils.mobile_optimizer import optimize_for_mobile

from orchestrator.export.archive import reproducible
from orchestrator.export.saving import freeze, prepare

HERE = Path(__file__).resolve().parent


def _normalised(*conv: int, **options: int) -> nn.Sequential:
    layer = nn.Conv2d(*conv, bias=False, **options)
    norm = nn.BatchNorm2d(layer.out_channels)
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    return nn.Sequential(layer, norm)


class Block(nn.Module):
    """Wide, depthwise, narrow again: a MobileNetV2's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide = _normalised(width, 4 * width, 1)
        self.deep = _normalised(4 * width, 4 * width, 3, padding=1, groups=4 * width)
        self.narrow = _normalised(4 * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.hardtanh(self.deep(F.hardtanh(self.wide(x), 0.0, 6.0)), 0.0, 6.0)
        return F.relu(self.narrow(y) + x)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(6, 8, 3, padding=1)
        self.strided = nn.Conv2d(8, 10, 3, stride=2, padding=1)
        self.dilated = nn.Conv2d(8, 8, 3, padding=2, dilation=2, bias=False)
        self.grouped = nn.Conv2d(8, 12, 3, groups=2)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.multiplied = nn.Conv2d(8, 16, 5, padding=2, groups=8, bias=False)
        self.wide = nn.Conv2d(8, 4, (1, 3), stride=(2, 1), padding=(0, 1))
        self.up = nn.ConvTranspose2d(8, 5, 3, stride=2, bias=False)
        self.up_grouped = nn.ConvTranspose2d(
            8, 6, (3, 4), stride=(2, 3), padding=1, output_padding=(1, 2), groups=2
        )
        self.up_deep = nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1, groups=8)
        self.up_dilated = nn.ConvTranspose2d(8, 4, 3, padding=1, dilation=2)
        self.block = Block(8)
        self.dense = nn.Linear(8, 12)
        self.out = nn.Linear(12, 3, bias=False)
        self.rows = nn.Linear(7, 4)

    def forward(self, x: Tensor) -> list[Tensor]:
        """The result of each layer alone: as it is, or by what a model asks of it."""
        x = F.relu(self.first(x))
        y = F.hardtanh(self.dense(x.mean([2, 3])), -0.5, 0.25)
        return [
            x,
            self.strided(x),
            F.relu(self.dilated(x)).reshape(-1),
            F.hardtanh(self.grouped(x), -0.25, 0.5).permute(0, 2, 3, 1),
            F.relu6(self.depthwise(x)),
            self.multiplied(x)[:, 3],
            torch.clamp(F.relu(self.wide(x)), max=0.1),
            F.relu(self.up(x)),
            F.hardtanh(self.up_grouped(x), -0.1, 0.3),
            self.up_deep(self.depthwise(x)),
            self.up_dilated(x).contiguous().view(-1),
            self.block(self.block(x)).mean([2, 3]),
            y,
            self.out(F.relu(self.dense(x[:, :, 0].permute(0, 2, 1)))),
            self.rows(x[:, :, :, :7].contiguous()),
        ]


class Late(nn.Module):
    """Packs weights that are given to it."""

    def forward(self, x: Tensor, weight: Tensor) -> list[Tensor]:
        prepacked = torch.ops.prepacked
        linear = prepacked.linear_clamp_prepack(weight[:, :, 0, 0], None, None, 0.5)
        one = prepacked.conv2d_clamp_prepack(weight, None, [1, 2], [1, 0], [1, 1], 1, -0.25, None)
        up = prepacked.conv2d_transpose_clamp_prepack(
            weight, weight[0, :, 0, 0], [2, 1], [0, 1], [1, 0], [1, 1], 1
        )
        return [
            prepacked.linear_clamp_run(x.permute(0, 2, 3, 1), linear),
            prepacked.conv2d_clamp_run(x, one),
            prepacked.conv2d_transpose_clamp_run(x, up),
        ]


def write(model: torch.jit.ScriptModule, name: str, rows: list[tuple[Tensor, ...]]) -> None:
    given = {model.forward: [tuple(InflatableArg(v, "{}") for v in row) for row in rows]}
    saved = bundle_inputs(model, given)._save_to_buffer_for_lite_interpreter()
    (HERE / "models" / f"{name}.ptl").write_bytes(reproducible(saved, name))


def main() -> None:
    prepare()
    torch.manual_seed(7)
    model = Layers().requires_grad_(False).eval()
    packed = optimize_for_mobile(torch.jit.script(model))
    plain = freeze(model)
    images = [torch.randn(2, 6, 5, 7), torch.randn(1, 6, 4, 9)]
    rows = [*((x,) for x in images), (images[0].contiguous(memory_format=torch.channels_last),)]
    stock = [packed(*row) for row in rows]
    for row, given in zip(rows, stock, strict=True):
        torch.testing.assert_close(given, plain(*row), rtol=1e-4, atol=1e-5)
    lists = [[one.reshape(-1).tolist() for one in given] for given in stock]
    rounded = [[[float(f"{n:.5g}") for n in one] for one in given] for given in lists]
    (HERE / "expected.json").write_text(json.dumps(rounded) + "\n")
    write(packed, "packed", rows)
    write(plain, "plain", rows)
    late = torch.jit.script(Late().eval())
    write(late, "late", [(torch.randn(1, 4, 5, 6), torch.randn(4, 4, 3, 2))])


if __name__ == "__main__":
    main()
