"""Exports `layers`: convolutions and linear layers of all kinds, and what models do with their
results. `changing`, `switched`, `opened`: models whose weight is another one in every run, or from
one on. `rows`: softmax, layer norm and functions of single numbers, of all sizes, as they lie and
of slices, in floats and in others. `pairs`: sums of two tensors and products of batches, in all
layouts. `windows`: depthwise convolutions of many numbers, and pooling between convolutions.
`images`: bilinear interpolation of all sizes, in both orders of channels.
`copied`, `valued`, `turned`, `exact`: models that write to their weight by another name.

Run `PYTHONPATH=. python tests/integration/apps/layers/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orchestrator.export.saving import Export, run


def _normalised(*conv: int, **options: int) -> nn.Sequential:
    layer = nn.Conv2d(*conv, **options)
    norm = nn.BatchNorm2d(layer.out_channels)
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return nn.Sequential(layer, norm)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = _normalised(6, 8, 3, padding=1, bias=False)
        self.strided = _normalised(8, 10, 3, stride=2, padding=1)
        self.dilated = nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.grouped = nn.Conv2d(8, 12, 3, groups=2)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.multiplied = nn.Conv2d(8, 16, 5, padding=2, groups=8, bias=False)
        self.pointwise = nn.Conv2d(8, 9, 1)
        self.wide = nn.Conv2d(8, 4, (1, 3), stride=(2, 1), padding=(0, 1))
        self.same = nn.Conv2d(8, 8, 3, padding="same")
        self.up = nn.ConvTranspose2d(8, 5, 3, stride=2)
        self.sound = nn.Conv1d(6, 7, 5, stride=2, padding=3)
        self.sounds = nn.Conv1d(7, 7, 3, padding=1, groups=7)
        self.dense = nn.Linear(10, 12)
        self.out = nn.Linear(12, 3, bias=False)
        self.exact = nn.Conv2d(2, 3, 3).double()
        self.register_buffer("factors", torch.rand(4, 5))
        self.register_buffer("summand", torch.rand(5))

    def forward(self, x: Tensor) -> list[Tensor]:
        """The result of each layer alone: as it is, or by what a model asks of it."""
        x = F.relu6(self.first(x))
        return [
            x,
            self.strided(x),
            F.relu(self.dilated(x)).view(-1),
            F.hardtanh(self.grouped(x), -0.25, 0.5).permute(0, 2, 3, 1),
            torch.clamp(self.depthwise(x), min=-0.1),
            self.multiplied(x)[:, 3],
            F.max_pool2d(self.pointwise(x), 2),
            self.wide(x).contiguous().view(x.size(0), -1),
            self.same(x),
            self.up(x),
            torch.cat([self.depthwise(x), x], 1),
            self.pointwise(x).mean(dim=[2, 3]),
        ]

    @torch.jit.export
    def chain(self, x: Tensor) -> Tensor:
        """Results that meet, are written to, and go through a loop and a branch."""
        x = self.first(x)
        y = self.depthwise(x)
        for _ in range(2):
            y = F.relu_(self.dilated(y) + x)
        if y.size(0) > 1:  # noqa: SIM108 - the branch is what counts
            z = self.pointwise(y)
        else:
            z = self.pointwise(self.depthwise(y))
        z.mul_(0.5)
        z = F.hardswish(z) + z.size(3)
        return z.reshape(z.size(0), -1)

    @torch.jit.export
    def sequence(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = F.relu(self.sound(x))
        return y, self.sounds(y).transpose(1, 2)

    @torch.jit.export
    def features(self, x: Tensor) -> dict[str, Tensor]:
        y = F.relu(self.dense(x))
        return {"y": y, "out": self.out(y), "again": self.dense(x[0]), "cut": self.dense(x[:, 1:])}

    @torch.jit.export
    def product(self, x: Tensor) -> Tensor:
        return F.relu(torch.addmm(self.summand, x, self.factors))

    @torch.jit.export
    def precise(self, x: Tensor) -> Tensor:
        return F.relu(self.exact(x))


class Windows(nn.Module):
    """Depthwise convolutions of more numbers than XNNPACK has kernels for, with pools between."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(6, 70, 3, padding=1)
        self.seven = _normalised(70, 70, 7, padding=3, groups=70, bias=False)
        self.strided = nn.Conv2d(70, 70, (5, 7), stride=(2, 3), padding=(1, 4), groups=70)
        self.dilated = nn.Conv2d(20, 20, 6, padding=6, dilation=(2, 1), groups=20, bias=False)
        self.sound = nn.Conv1d(40, 40, 31, padding=15, groups=40)
        self.last = nn.Conv2d(70, 4, 1)

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.first(x)
        y = F.relu6(self.seven(F.max_pool2d(x, 3, 2, 1)))
        return [self.last(F.avg_pool2d(y, 2)), self.strided(x), self.dilated(x[:, :20]), y]

    @torch.jit.export
    def sequence(self, x: Tensor) -> Tensor:
        return torch.clamp(self.sound(x), min=-0.5)

    @torch.jit.export
    def whole(self, x: Tensor) -> list[Tensor]:
        """Windows of the image's size, which is another one in every run; one that hangs over."""
        y = self.first(x)
        size = [y.size(2), y.size(3)]
        largest = F.max_pool2d(F.relu(y), size)
        return [F.avg_pool2d(y, size), largest, F.max_pool2d(y, 3, 2, ceil_mode=True)]


class Changing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(2, 3, 3)
        self.weight = nn.Parameter(torch.rand(3, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = F.relu(self.layer(x)), F.linear(x[0, 0, :, :4], self.weight)
        self.layer.weight.mul_(-1.5)
        self.weight[0] += 1
        second = F.relu(self.layer(x)), F.linear(x[0, 0, :, :4], self.weight)
        return first[0] - second[0], first[1] - second[1]


class Closed(nn.Module):
    """Its weight is written to in a branch that is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(2, 3, 3)
        self.on = False

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.layer(x))
        if self.on:
            self.layer.weight.mul_(-1.5)
        return y

    @torch.jit.export
    def then(self, x: Tensor) -> Tensor:
        return self.forward(x)


class Opened(Closed):
    """A method opens it that has no layer and writes to no tensor."""

    @torch.jit.export
    def open(self, on: bool) -> bool:
        self.on = on
        return on


class Switched(Closed):
    """A method opens it that has the layer."""

    @torch.jit.export
    def switch(self, x: Tensor) -> Tensor:
        self.on = True
        return self.forward(x)


class Written(nn.Module):
    """Its weight is written to, by a name that no schema tells of."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 4))
        self.other = nn.Parameter(torch.rand(3, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return F.linear(x, self.weight), self.written().mul_(-1.5)

    def written(self) -> Tensor:
        raise NotImplementedError


class Copied(Written):
    def written(self) -> Tensor:
        return [self.weight, self.other].copy()[0]


class Valued(Written):
    def written(self) -> Tensor:
        return list({"weight": self.weight}.values())[0]  # noqa: RUF015


class Turned(Written):
    def written(self) -> Tensor:
        return torch.einsum("ij->ji", self.weight)


class Exact(Written):
    def written(self) -> Tensor:
        return torch.dequantize(self.weight)


class Rows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(size) for size in (1, 7, 8, 40)])
        self.plain = nn.LayerNorm([3, 11], elementwise_affine=False)
        for norm in self.norms:
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)

    def forward(self, x: Tensor) -> list[Tensor]:
        """The rows' first parts: fewer numbers than there are lanes, as many, more."""
        found = [self.plain(x[:6, :33].reshape(-1, 3, 11))]
        for norm in self.norms:
            size = norm.normalized_shape[0]
            part = x[:, :size]
            found += [norm(part), norm(100.0 + part), F.layer_norm(part, [size])]
            found += [torch.softmax(part, -1), torch.log_softmax(5.0 * part, -1)]
        return found

    @torch.jit.export
    def numbers(self, x: Tensor) -> list[Tensor]:
        """Side by side, in slices, turned, written in place, and alone."""
        found = [F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x)]
        found += [torch.sigmoid(x), torch.tanh(x), torch.exp(x), torch.erf(x)]
        found += [F.gelu(x[:, ::3]), F.silu(x.t()), torch.sigmoid(x[1:, 1:9]), torch.tanh(x[:, 2])]
        found += [torch.exp(x.t()[::2]), torch.erf(x[3]), torch.tanh(x[0, 0])]
        found += [x[:, ::2].clone().sigmoid_(), x.clone().tanh_(), x[:, ::5].t().clone().exp_()]
        found += [torch.softmax(x[0, 0], -1), torch.softmax(x.t(), -1), torch.softmax(x, 0)]
        return found

    @torch.jit.export
    def others(self, x: Tensor, whole: Tensor) -> list[Tensor]:
        """Other dtypes, which PyTorch's own kernels compute; whole numbers become floats."""
        exact, short = x.double(), x.to(torch.bfloat16)
        found = [torch.softmax(exact, -1), torch.log_softmax(exact, -1), F.layer_norm(exact, [40])]
        found += [F.gelu(exact), torch.tanh(exact), torch.sigmoid(short), torch.tanh(short)]
        found += [torch.sigmoid(whole), torch.exp(whole), torch.tanh(whole), torch.erf(whole)]
        return found


class Pairs(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """Sums of [9, 41]: side by side, of slices, turned, with what is there once."""
        found = [
            x + y,
            torch.add(x, y, alpha=-0.75),
            torch.sub(x, y, alpha=2),
            x[:1, :3] + y[:1, :3],
        ]
        found += [x + y[0], y[:, :1] + x, x[3] + y[:, 2:3], x + 1.5, 0.25 - x, x[0, 0] + y[1, 1]]
        found += [x.t() + y.t(), x[:, ::2] + y[:, ::2], x[::2, 1:9] + y[::2, :8], x.t() + y[:, 0]]
        found += [x.t()[:9] + y[:, :9], x[:0] + y[:0], x.clone().add_(y), x.clone().add_(x)]
        z = x.clone()
        z[:, ::3] += y[:, ::3]
        z[2:, 4:] -= y[:-2, :-4]
        found += [z, torch.add(x, y, alpha=3).add_(y[0], alpha=0.1)]
        return found

    @torch.jit.export
    def others(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """In other dtypes, and of two: the result has the wider one."""
        whole, exact, short = (10 * x).to(torch.int64), x.double(), x.to(torch.bfloat16)
        found = [whole + whole, torch.add(whole, whole, alpha=2), exact + y.double(), short + short]
        found += [whole + y, exact + y, x + y[0, 0].double(), (x > 0) + (y > 0)]
        return found

    @torch.jit.export
    def products(self, x: Tensor) -> list[Tensor]:
        """Of x [6, 17, 20]: few numbers and many, turned, with gaps, of one matrix for all."""
        turned = x.transpose(1, 2)
        found = [
            torch.bmm(x, turned),
            torch.bmm(turned, x),
            torch.bmm(x[:, :2, :3], turned[:, :3, :5]),
        ]
        found += [torch.bmm(x[:, :, ::2], turned[:, ::2]), torch.bmm(x[::2], turned[1::2])]
        found += [torch.bmm(x, turned[:1].expand(6, 20, 17)), torch.bmm(x[:, 3:4], turned)]
        found += [torch.bmm(x, turned[:, :, 5:6]), torch.bmm(x[:, :, :1], turned[:, :1])]
        found += [torch.bmm(x[:, 2:9], turned[:, :, 4:]), torch.bmm(x[:1], turned[:1])]
        found += [torch.baddbmm(x[:, :, :17], x, turned, beta=0.5, alpha=-2.0)]
        found += [torch.baddbmm(x[:1, :1, :1], x, turned), torch.bmm(x.double(), turned.double())]
        heads = x.reshape(2, 3, 17, 20).transpose(1, 2)
        found += [torch.matmul(heads, heads.transpose(2, 3)), torch.matmul(x, turned[0])]
        found += [torch.bmm(x[:, :, :0], turned[:, :0]), torch.bmm(x[:0], turned[:0])]
        return found


class Images(nn.Module):
    """By the operators: `interpolate` names all kinds of them, one that PyTorch 1.13 lacks too."""

    def forward(self, x: Tensor) -> list[Tensor]:
        """Larger, smaller, and as wide; in both orders of channels, of few channels and of many."""
        many = torch.cat([x, x.flip(3), x[:, :2]], 1)
        found: list[Tensor] = []
        for some in [x, x[:, :1], many]:
            last = some.contiguous(memory_format=torch.channels_last)
            for y in [some, last, some[:, :, :, ::2]]:
                found += [
                    torch._C._nn.upsample_bilinear2d(y, None, False, [2.0, 2.0]),
                    torch._C._nn.upsample_bilinear2d(y, None, True, [1.7, 1.7]),
                    torch._C._nn.upsample_bilinear2d(y, [3, 2], False, None),
                    torch._C._nn.upsample_bilinear2d(y, [y.size(2), 29], False, None),
                    torch._C._nn.upsample_bilinear2d(y, [1, 3], True, None),
                    torch._C._nn.upsample_bilinear2d(y, None, False, [1.3, 3.2]),
                ]
        return found

    @torch.jit.export
    def others(self, x: Tensor) -> list[Tensor]:
        """What PyTorch's own kernels compute."""
        return [
            torch._C._nn.upsample_bilinear2d(x.double(), None, False, [2.0, 2.0]),
            torch._C._nn.upsample_nearest2d(x, None, [2.0, 2.0]),
            torch._C._nn.upsample_linear1d(x[0], None, False, [2.0]),
        ]


def unchanged(model: nn.Module, inputs: dict[str, list[tuple[Tensor, ...]]]) -> Export:
    return Export(model.requires_grad_(False), inputs, canonical="off")


def models() -> dict[str, Export]:
    image = torch.randn(2, 6, 13, 15)
    last = image.contiguous(memory_format=torch.channels_last)
    inputs: dict[str, list[tuple[Tensor, ...]]] = {
        "forward": [(image,), (image[:1],), (torch.randn(1, 6, 8, 9),), (image,)],
        "chain": [(image,), (image[:1],), (last,)],
        "sequence": [(torch.randn(2, 6, 20),), (torch.randn(1, 6, 7),)],
        "features": [(torch.randn(3, 4, 10),), (torch.randn(1, 2, 10),)],
        "product": [(torch.randn(7, 4),), (torch.randn(1, 4),)],
        "precise": [(torch.randn(1, 2, 5, 5, dtype=torch.float64),)],
    }
    made = {"layers": unchanged(Layers(), inputs)}
    given = torch.randn(1, 2, 6, 6)
    made["changing"] = unchanged(Changing(), {"forward": [(given,), (given,)]})
    x = torch.randn(9, 40)
    edges = [0.0, -0.0, 1e-40, 0.6, -0.7, 3.9, -5.0, 12.0, -95.0, 104.0, torch.inf, -torch.inf]
    extreme = torch.tensor([*edges, torch.nan]).repeat(40)[:520].reshape(13, 40)
    inputs = {
        "forward": [(x,), (extreme.abs().clamp(0, 100).nan_to_num(),), (20 * x[:6],)],
        "numbers": [(x,), (extreme,), (30 * x,)],
        "others": [(x, torch.arange(-4, 5))],
    }
    made["rows"] = unchanged(Rows(), inputs)
    one, other = torch.randn(9, 41), torch.randn(9, 41)
    one[1, :4] = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0])
    other[1, :4] = torch.tensor([-torch.inf, 1.0, 1.0, -0.0])
    usual = torch.randn(9, 41)
    inputs = {
        "forward": [(one, other), (usual, other.nan_to_num())],
        "others": [(usual, usual.flip(0))],
        "products": [(torch.randn(6, 17, 20),)],
    }
    made["pairs"] = unchanged(Pairs(), inputs)
    inputs = {
        "forward": [(image,), (torch.randn(1, 6, 5, 4),), (last,)],
        "sequence": [(torch.randn(2, 40, 50),), (torch.randn(1, 40, 3),)],
        "whole": [(torch.randn(1, 6, 2 + i, 9 - i),) for i in range(8)],
    }
    made["windows"] = unchanged(Windows(), inputs)
    odd = torch.randn(1, 3, 6, 5)
    odd[0, 1, 2:4, 1:3] = torch.tensor([[torch.nan, torch.inf], [-torch.inf, 1e38]])
    sizes = [(7, 9), (1, 2), (2, 33), (40, 3)]
    inputs = {
        "forward": [(odd,), *((torch.randn(2, 3, *size),) for size in sizes)],
        "others": [(torch.randn(1, 3, 4, 5),)],
    }
    made["images"] = unchanged(Images(), inputs)
    calls = {"forward": [(given,)], "switch": [(given,), (given,)], "then": [(given,)]}
    made["switched"] = unchanged(Switched(), calls)
    calls = {"forward": [(given,)], "open": [(True,)], "then": [(given,), (given,), (given,)]}
    made["opened"] = unchanged(Opened(), calls)
    rows = [(torch.randn(2, 4),)] * 2
    for written in (Copied, Valued, Turned, Exact):
        made[written.__name__.lower()] = unchanged(written(), {"forward": rows})
    return made


if __name__ == "__main__":
    run(models, Path(__file__).resolve().parent / "models")
