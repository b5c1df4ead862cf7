"""Small models of many kinds, written, made canonical, and compared on inputs that nothing saw.

Run by a Python that has torch: `python corpus.py <worker.py> <folder> <kind> [name...]`. For each
model it writes `<folder>/<name>.ptl` and `<name>.canonical.ptl`, and one line of JSON to stdout:
{"name", "cpu_seconds", "error"} or {"name", "cpu_seconds", "largest", "calls", "compared",
"rewrites"}; the CPU seconds are the conversion's. Each is converted in this process: importing
torch takes longer than all that is done here.

`python corpus.py write <folder>` writes the models alone.
"""

import importlib.util
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs

TOLERANCES = {"float32": [1e-4, 1e-5], "float16": [1e-2, 1e-3], "quint8": [0, 1], "qint8": [0, 1]}


def images(n: int = 1, c: int = 3, size: int = 12) -> Tensor:
    return torch.randn(n, c, size, size)


def words(n: int = 1, length: int = 6) -> Tensor:
    return torch.randint(0, 20, (n, length))


class ConvBnRelu(nn.Sequential):
    def __init__(self, act: nn.Module) -> None:
        super().__init__(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), act)


class Depthwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.ReLU6(inplace=True))
        self.depth = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU6(inplace=True)
        )
        self.last = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return y + self.last(self.depth(y))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu_(self.a(x))
        z = self.b(y)
        z += y
        return z.relu_()


class PreNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.relu(self.norm(x * 2)))


class SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        s = F.adaptive_avg_pool2d(x, (1, 1))
        return x * F.hardsigmoid(self.b(F.relu(self.a(s), inplace=True)), inplace=True)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(7, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.max_pool2d(torch.relu(self.down(x)), 2)
        y = F.interpolate(y, size=[x.size(2), x.size(3)], mode="nearest")
        return self.up(torch.cat([x, y], 1))


class Bilinear(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, size=[7, 9], mode="bilinear", align_corners=False)


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 2, 2, stride=2)
        self.norm = nn.BatchNorm2d(2)

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(self.norm(self.up(x)), 0.1, inplace=True)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm = nn.Embedding(20, 8), nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, 20)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.lstm(self.embed(x))
        return F.log_softmax(self.head(y[:, -1]), dim=-1)


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(5, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, h = self.gru(x)
        return y, h.squeeze(0)


class CellLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(1), 6)
        out: list[Tensor] = []
        for t in range(x.size(0)):
            h = self.cell(x[t], h)
            out.append(h)
        return torch.stack(out)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        b, t = x.size(0), x.size(1)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.reshape(b, t, 2, 4).transpose(1, 2)
        k = k.reshape(b, t, 2, 4).transpose(1, 2)
        v = v.reshape(b, t, 2, 4).transpose(1, 2)
        w = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / 2.0, dim=-1)
        return self.out(torch.matmul(w, v).transpose(1, 2).reshape(b, t, 8))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.n1, self.n2 = Attention(), nn.LayerNorm(8), nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = self.n1(x + self.a(x))
        return self.n2(x + self.mlp(x))


class RmsNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Powers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.square(x) + x**3 - x.abs().pow(0.5) + (x.abs() + 1).pow(-0.5)


class BagOfWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        mask = (x != 0).unsqueeze(-1)
        y = self.embed(x) * mask
        return self.head(y.sum(1) / mask.sum(1).clamp_min(1)).softmax(-1)


class GroupNorm(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(inplace=True))


class InstanceNorm(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.ELU(inplace=True)
        )


class Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(F.pad(x, [1, 1, 1, 1], mode="reflect"))
        return F.pad(y, [1, 2, 0, 1]) + F.pad(y, [1, 2, 0, 1], value=0.5)


class Replicated(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, [2, 1, 1, 2], mode="replicate")


class Stacked(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.stack([x, y, x * y], -1) - torch.stack([y, x, x + y], -1)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 12)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.up(x).split(6, dim=-1)
        return a * torch.sigmoid(b) + F.glu(self.up(x), -1)


class MaskedSoftmax(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return F.softmax(x.masked_fill(mask, -1e9), dim=-1).masked_fill_(mask, 0.0)


class Limits(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = F.hardtanh(x) + x.clamp_min(0.25) + x.clamp_max(0.5) + x.clamp(-0.5, 0.75)
        return F.relu(y) + F.relu6(y * 4)


class Thresholds(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        both = (x < y) & (x <= 1) | (y > x)
        return both, torch.max(x, y) - torch.min(x, y), torch.where(x < y, x, y)


class Dictionary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.head(x)
        return {"scores": y.softmax(-1), "best": y.argmax(-1), "largest": y.max()}


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) < 3:
            y = self.small(x)
            y.mul_(2)
        elif bool(x.sum() <= 0):
            y = self.large(x).relu_()
        else:
            y = x.clone()
            y.sub_(1)
        return y


class ByRows(nn.Module):
    """Another way for more rows than anybody shows it."""

    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) > 5:
            return x * 2
        return x + 1


class Positions(nn.Module):
    """A table that is as long as the longest input."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Parameter(torch.randn(16, 8)), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        n, t = x.size(0), x.size(1)
        y = self.head(x + self.table[:t]).view(n, t * 4)
        return y, [y.view(n, t, 2, 2).transpose(1, 2).contiguous().view(n, -1), y[:, : t // 2]]


class Pair(nn.Module):
    def forward(self, pair: tuple[Tensor, Tensor], z: Tensor) -> dict[str, Tensor]:
        x, y = pair
        rows, _ = x.shape
        both = torch.cat([x, y], -1)
        both[:, 0] = 1.0
        both = both * z
        return {"both": both, "rows": both.flatten()[:rows] * float(y.size(1))}


class Steps(nn.Module):
    def forward(self, x: Tensor, steps: int) -> Tensor:
        y = x.clone()
        count = 0
        while count < steps and bool(y.abs().sum() < 1000):
            y = y * 1.5
            y.add_(x)
            count += 1
        return y - count


class Slices(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        y[:, 1:] = x[:, :-1]
        y[:, 0] += 1
        return y + torch.ones_like(x) + torch.full_like(x, 2)


class WritesItsInput(nn.Module):
    """The caller sees it."""

    def forward(self, x: Tensor) -> Tensor:
        x.add_(1)
        return x.relu_() * 2


class SharedAliases(nn.Module):
    """In place, and seen through other names: none of these may become functional."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x * 2
        row = y[0]
        y.add_(1)
        z = x + 1
        kept = [z]
        z.mul_(3)
        w = x - 1
        flat = w.view(-1)
        flat.relu_()
        return row + y[0], kept[0], w


class LoopCarried(nn.Module):
    """What one round writes the next one reads."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        last = x
        for _ in range(3):
            fresh = last + 1
            total += last
            fresh.mul_(2)
            last = fresh
        return total


class LastRound(nn.Module):
    """What one round writes is still looked at when the next one writes."""

    def forward(self, x: Tensor) -> Tensor:
        last, before = x + 0, x + 0
        found = torch.zeros_like(x)
        for i in range(4):
            y = last * 1
            if i % 2 == 0:
                before.add_(1)
                y.mul_(3)
            before = last
            last = y
            found = found + before * 2
        return found + last


class ListOfTensors(nn.Module):
    def forward(self, xs: list[Tensor]) -> list[Tensor]:
        found: list[Tensor] = []
        for x in xs:
            y = x.neg()
            y.exp_()
            found.append(y)
        return found


class Variances(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        centred = (x - x.mean()) / (x.std() + 1e-3)
        return centred / (centred.var(1, keepdim=True) + 1) + x.var() + x.std(0)


class TopK(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values, where = x.topk(2)
        order, _ = x.sort(-1, descending=True)
        return values, where, order.gather(-1, where)


class OneHot(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros(x.size(0), x.size(1), 20).scatter_(2, x.unsqueeze(-1), 1.0)


class Bits(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return ((x & 6) | (x ^ 3)) - (x >> 1)


class Integers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x - 4) + F.relu6(x) + x.clamp(1, 5) - x * 2


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.3)
        self.channels = nn.Dropout2d(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.channels(self.drop(x)).detach() * 3


class Sampling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.empty_like(x).normal_() * 0.1


class Counter(nn.Module):
    """State from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        return x * self.seen


class Methods(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 3), nn.Linear(3, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))

    @torch.jit.export
    def encode(self, x: Tensor) -> Tensor:
        return self.encoder(x).relu_()

    @torch.jit.export
    def decode(self, x: Tensor) -> Tensor:
        return torch.sigmoid_(self.decoder(x))


class Einsum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bti,ij->btj", x, self.weight)


class Shuffle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = F.pixel_shuffle(x, 2)
        return F.avg_pool2d(y, 2) + y.unfold(2, 2, 2).sum((1, -1)).mean()


class Optionals(nn.Module):
    def forward(self, x: Tensor, bias: Tensor | None = None, scale: float = 1.0) -> Tensor:
        if bias is not None:
            x = x + bias
        return x * scale


class Vocabulary(nn.Module):
    words: dict[str, int]

    def __init__(self) -> None:
        super().__init__()
        self.words = {"a": 1, "b": 2}
        self.embed = nn.Embedding(3, 4)

    def forward(self, text: str) -> Tensor:
        # no `get`: TorchScript has this too
        ids = [self.words[w] if w in self.words else 0 for w in text.split(" ")]  # noqa: SIM401
        return self.embed(torch.tensor(ids)).mean(0)


class Shapes(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = x.view_as(y) + x.reshape_as(y) + x.reshape(-1)[:1].expand_as(y)
        return z.swapaxes(0, 1).reshape(-1) * torch.arange(0, y.numel())


class Conv1d(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(4, 6, 3, padding=1), nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool1d(F.relu(self.norm(self.conv(x))), 2).flatten(1)


class HalfPrecision(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.half()
        y += 1.5
        return y.float()


class Quantised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class QuantisedTensors(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        q = torch.quantize_per_tensor(x, 0.05, 128, torch.quint8)
        return F.max_pool2d(F.relu(q), 2).dequantize()


def scripted(module: nn.Module) -> torch.jit.ScriptModule:
    return torch.jit.script(module.eval())


def traced(module: nn.Module, *inputs: Tensor) -> torch.jit.ScriptModule:
    with torch.no_grad():
        return torch.jit.trace(module.eval(), inputs)


def dynamic() -> torch.jit.ScriptModule:
    torch.backends.quantized.engine = "qnnpack"
    made = torch.ao.quantization.quantize_dynamic(Quantised().eval(), {nn.Linear})
    return torch.jit.script(made)


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.conv(x)).mean((2, 3))
        return self.head(y.view(y.size(0), -1)).view(x.size(0), 2)


class Pooled(nn.Module):
    """One picture, or some."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(F.relu(self.conv(x)), 1).flatten(1)

    @torch.jit.export
    def one(self, x: Tensor) -> Tensor:
        return self.forward(x)


class OtherAttention(nn.Module):
    """Looks at something else than itself."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.narrow = nn.Conv1d(3, 8, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x, y = self.narrow(x).transpose(1, 2), self.narrow(y).transpose(1, 2)
        return self.attention(x, y, y, need_weights=False)[0]


class EncoderLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.second = nn.TransformerEncoderLayer(
            8, 2, 16, activation="gelu", norm_first=True, batch_first=True
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class Peaks(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, int]:
        heat = torch.sigmoid(x)
        peaks = (heat == F.max_pool2d(heat, 3, 1, 1)) & (heat > 0.5)
        found, scores = peaks[0, 0].nonzero(), heat[peaks]
        return found[:, 0] * x.size(3) + found[:, 1] + 1, scores, scores.numel()


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.layer(x)
        a, b = torch.split(y, [2, 4], -1)
        c, d = torch.split(b, 3, -1)
        e, f, g = y.reshape(y.size(0), 3, 2).unbind(1)
        # how many rows there are is not known, so it stays
        h, i = torch.split(y, [1, y.size(0) - 1])
        return a * e + f * g, c - h[:, :3], y.unflatten(1, [2, 3]) + d.sum() + i.sum()


class Fills(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        n = x.size(0)
        whole = torch.zeros(n, 3, dtype=torch.int64)
        ahead = torch.ones(n, n, dtype=torch.bool).triu(1)
        mask = torch.zeros_like(ahead, dtype=torch.float32).masked_fill_(ahead, -1.0)
        same = torch.ones_like(whole)
        # how many dimensions it has is not known
        return torch.ones(2, n), whole, mask, same, torch.zeros_like(ahead), torch.zeros_like(x)


class Ranks(nn.Module):
    """What it asks for is not known: the checks stay."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() not in (2, 3):
            raise ValueError(f"{x.dim()} dimensions")
        batched = x.dim() == 3
        y = x if batched else x.unsqueeze(0)
        if y.size(0) >= 4:
            y = y * 2
        return y if batched else y.squeeze(0)

    @torch.jit.export
    def one(self, x: Tensor) -> Tensor:
        return self.forward(x)


class Growing(nn.Module):
    """A tensor that has one dimension more after each round."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3))

    def forward(self, x: Tensor, rounds: int) -> tuple[Tensor, int]:
        y, deep = self.weight + 0, 0
        for _ in range(rounds):
            y = y.unsqueeze(0)
            if y.dim() > 3:
                deep += y.dim()
        return y.flatten(0) + x, deep


class Escaping(nn.Module):
    """A size that only one branch knows."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("not a table")
        else:
            n = x.size(0)
            y = torch.ones(x.size(1), n)
        z = torch.zeros(y.size(1), x.size(1))
        return torch.cat([x, z]) + y.t().sum()


class OneNumber(nn.Module):
    """Beside a tensor without dimensions, a tensor counts for the dtype, and a number does not."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.max() * 3 + 1, x.reshape(-1) * 3 + 1


class Copied(nn.Module):
    """What is asked for here is how the tensors lie in memory."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.transpose(0, 1).contiguous()
        return y.view(-1) + y.reshape(-1)


Inputs = Callable[[], tuple[Any, ...]]
# name -> how to make it, and inputs of one call of each method
CORPUS: dict[str, tuple[Callable[[], torch.jit.ScriptModule], dict[str, Inputs]]] = {
    "conv_relu": (
        lambda: scripted(ConvBnRelu(nn.ReLU(inplace=True))),
        {"forward": lambda: (images(),)},
    ),
    "conv_hardswish": (
        lambda: scripted(ConvBnRelu(nn.Hardswish(inplace=True))),
        {"forward": lambda: (images(),)},
    ),
    "conv_traced": (
        lambda: traced(ConvBnRelu(nn.ReLU6()), images()),
        {"forward": lambda: (images(),)},
    ),
    "depthwise": (lambda: scripted(Depthwise()), {"forward": lambda: (images(2),)}),
    "residual": (lambda: scripted(Residual()), {"forward": lambda: (images(),)}),
    "pre_norm": (lambda: scripted(PreNorm()), {"forward": lambda: (images(),)}),
    "squeeze_excite": (lambda: scripted(SqueezeExcite()), {"forward": lambda: (images(),)}),
    "unet": (lambda: scripted(UNet()), {"forward": lambda: (images(),)}),
    "bilinear": (lambda: scripted(Bilinear()), {"forward": lambda: (images(),)}),
    "transposed": (lambda: scripted(Transposed()), {"forward": lambda: (images(),)}),
    "lstm": (lambda: scripted(Lstm()), {"forward": lambda: (words(),)}),
    "gru": (lambda: scripted(Gru()), {"forward": lambda: (torch.randn(4, 2, 5),)}),
    "cell_loop": (lambda: scripted(CellLoop()), {"forward": lambda: (torch.randn(4, 2, 5),)}),
    "attention": (lambda: scripted(Attention()), {"forward": lambda: (torch.randn(2, 5, 8),)}),
    "attention_traced": (
        lambda: traced(Attention(), torch.randn(2, 5, 8)),
        {"forward": lambda: (torch.randn(2, 5, 8),)},
    ),
    "encoder": (lambda: scripted(Encoder()), {"forward": lambda: (torch.randn(1, 5, 8),)}),
    "rms_norm": (lambda: scripted(RmsNorm()), {"forward": lambda: (torch.randn(3, 8),)}),
    "powers": (lambda: scripted(Powers()), {"forward": lambda: (torch.randn(3, 8),)}),
    "bag_of_words": (lambda: scripted(BagOfWords()), {"forward": lambda: (words(),)}),
    "group_norm": (lambda: scripted(GroupNorm()), {"forward": lambda: (images(),)}),
    "instance_norm": (lambda: scripted(InstanceNorm()), {"forward": lambda: (images(),)}),
    "padded": (lambda: scripted(Padded()), {"forward": lambda: (images(),)}),
    "replicated": (lambda: scripted(Replicated()), {"forward": lambda: (images(),)}),
    "stacked": (
        lambda: scripted(Stacked()),
        {"forward": lambda: (torch.randn(3, 4), torch.randn(3, 4))},
    ),
    "gated": (lambda: scripted(Gated()), {"forward": lambda: (torch.randn(3, 8),)}),
    "masked_softmax": (
        lambda: scripted(MaskedSoftmax()),
        {"forward": lambda: (torch.randn(3, 4), torch.rand(3, 4) < 0.3)},
    ),
    "limits": (lambda: scripted(Limits()), {"forward": lambda: (torch.randn(3, 4),)}),
    "thresholds": (
        lambda: scripted(Thresholds()),
        {"forward": lambda: (torch.randn(3, 4), torch.randn(3, 4))},
    ),
    "dictionary": (lambda: scripted(Dictionary()), {"forward": lambda: (torch.randn(3, 4),)}),
    "branches": (lambda: scripted(Branches()), {"forward": lambda: (torch.randn(2, 4),)}),
    "by_rows": (lambda: scripted(ByRows()), {"forward": lambda: (torch.randn(2, 4),)}),
    "positions": (lambda: scripted(Positions()), {"forward": lambda: (torch.randn(2, 6, 8),)}),
    "pair": (
        lambda: scripted(Pair()),
        {"forward": lambda: ((torch.randn(3, 4), torch.randn(3, 2)), torch.randn(3, 1))},
    ),
    "steps": (lambda: scripted(Steps()), {"forward": lambda: (torch.randn(2, 4), 5)}),
    "slices": (lambda: scripted(Slices()), {"forward": lambda: (torch.randn(2, 4),)}),
    "writes_its_input": (
        lambda: scripted(WritesItsInput()),
        {"forward": lambda: (torch.randn(2, 4),)},
    ),
    "shared_aliases": (
        lambda: scripted(SharedAliases()),
        {"forward": lambda: (torch.randn(2, 4),)},
    ),
    "loop_carried": (lambda: scripted(LoopCarried()), {"forward": lambda: (torch.randn(2, 4),)}),
    "last_round": (lambda: scripted(LastRound()), {"forward": lambda: (torch.randn(2, 4),)}),
    "list_of_tensors": (
        lambda: scripted(ListOfTensors()),
        {"forward": lambda: ([torch.randn(2), torch.randn(3)],)},
    ),
    "variances": (lambda: scripted(Variances()), {"forward": lambda: (torch.randn(3, 4),)}),
    "top_k": (lambda: scripted(TopK()), {"forward": lambda: (torch.randn(3, 5),)}),
    "one_hot": (lambda: scripted(OneHot()), {"forward": lambda: (words(2),)}),
    "bits": (lambda: scripted(Bits()), {"forward": lambda: (words(2),)}),
    "integers": (lambda: scripted(Integers()), {"forward": lambda: (words(2),)}),
    "noisy": (lambda: scripted(Noisy()), {"forward": lambda: (images(),)}),
    "sampling": (lambda: scripted(Sampling()), {"forward": lambda: (torch.randn(3, 5),)}),
    "counter": (lambda: scripted(Counter()), {"forward": lambda: (torch.randn(3),)}),
    "methods": (
        lambda: scripted(Methods()),
        {
            "forward": lambda: (torch.randn(2, 6),),
            "encode": lambda: (torch.randn(2, 6),),
            "decode": lambda: (torch.randn(2, 3),),
        },
    ),
    "einsum": (lambda: scripted(Einsum()), {"forward": lambda: (torch.randn(2, 3, 4),)}),
    "shuffle": (lambda: scripted(Shuffle()), {"forward": lambda: (images(1, 4, 6),)}),
    "optionals": (
        lambda: scripted(Optionals()),
        {"forward": lambda: (torch.randn(3), torch.randn(3), 2.0)},
    ),
    "vocabulary": (lambda: scripted(Vocabulary()), {"forward": lambda: ("a b zzz",)}),
    "shapes": (
        lambda: scripted(Shapes()),
        {"forward": lambda: (torch.randn(6), torch.randn(2, 3))},
    ),
    "conv1d": (lambda: scripted(Conv1d()), {"forward": lambda: (torch.randn(2, 4, 8),)}),
    "half_precision": (lambda: scripted(HalfPrecision()), {"forward": lambda: (torch.randn(3),)}),
    "dynamic": (dynamic, {"forward": lambda: (torch.randn(3, 8),)}),
    "quantised": (lambda: scripted(QuantisedTensors()), {"forward": lambda: (images(),)}),
    "flat_traced": (lambda: traced(Flat(), images(2)), {"forward": lambda: (images(2),)}),
    "pooled": (
        lambda: scripted(Pooled()),
        {"forward": lambda: (images(2),), "one": lambda: (images()[0],)},
    ),
    "other_attention": (
        lambda: traced(OtherAttention(), torch.randn(2, 3, 5), torch.randn(2, 3, 4)),
        {"forward": lambda: (torch.randn(2, 3, 5), torch.randn(2, 3, 4))},
    ),
    "encoder_layers": (
        lambda: traced(EncoderLayers(), torch.randn(2, 5, 8)),
        {"forward": lambda: (torch.randn(2, 5, 8),)},
    ),
    "peaks": (lambda: scripted(Peaks()), {"forward": lambda: (images(1, 1),)}),
    "parts": (lambda: scripted(Parts()), {"forward": lambda: (torch.randn(3, 5),)}),
    "fills": (lambda: scripted(Fills()), {"forward": lambda: (torch.randn(3, 2),)}),
    "ranks": (
        lambda: scripted(Ranks()),
        {"forward": lambda: (torch.randn(5, 2, 3),), "one": lambda: (torch.randn(2, 3),)},
    ),
    "growing": (lambda: scripted(Growing()), {"forward": lambda: (torch.randn(6), 3)}),
    "escaping": (lambda: scripted(Escaping()), {"forward": lambda: (torch.randn(3, 2),)}),
    "one_number": (
        lambda: scripted(OneNumber()),
        {"forward": lambda: (torch.randint(0, 200, (2, 3), dtype=torch.uint8),)},
    ),
    "copied": (lambda: scripted(Copied()), {"forward": lambda: (torch.randn(3, 2),)}),
}
# How often each method is called with inputs that the conversion did not have.
UNSEEN = 5


def bundled(value: Any) -> Any:
    return InflatableArg(value, "{}") if isinstance(value, Tensor) else value


def written(name: str, folder: Path) -> Path:
    make, methods = CORPUS[name]
    model = make()
    for module in model.modules():
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.copy_(torch.randn_like(module.running_mean) * 0.2)
            module.running_var.copy_(torch.rand_like(module.running_var) + 0.5)
    calls = {
        getattr(model, method): [tuple(map(bundled, inputs()))]
        for method, inputs in methods.items()
    }
    path = folder / f"{name}.ptl"
    bundle_inputs(model, calls)._save_for_lite_interpreter(str(path))
    return path


def unseen(name: str, original: bytes, made: bytes) -> tuple[float, int]:
    """The largest difference on inputs that nobody has seen; raises where it is no rounding."""
    torch.manual_seed(4711)
    from orchestrator.export.calls import Call, Comparison, lite, run

    models = [lite(data) for data in (original, made)]
    comparison, largest, calls = Comparison(TOLERANCES), 0.0, 0
    for method, inputs in CORPUS[name][1].items():
        for _ in range(UNSEEN):
            call = Call(method, calls, "unseen", inputs())
            expected, seen = (run(model, call) for model in models)
            assert not expected.error, expected.error
            assert not seen.error, seen.error
            difference = comparison.compare(expected.value, seen.value)
            assert not difference.bad, difference.bad
            largest, calls = max(largest, difference.largest), calls + 1
    return largest, calls


def converted(worker: Any, name: str, folder: Path, kind: str) -> dict[str, Any]:
    path = written(name, folder)
    with tempfile.TemporaryDirectory() as place:
        request = {
            "task": "canonical",
            "model": str(path),
            "name": name,
            "kind": kind,
            "folder": place,
            "declared": None,
            "pytorch": "1.13.1",
            "without": [],
            "tolerances": TOLERANCES,
        }
        started = time.process_time()
        result = worker.result(request)
        seconds = round(time.process_time() - started, 4)
        if "error" in result:
            return {"name": name, "cpu_seconds": seconds, "error": result["error"]}
        data = Path(place, "canonical.ptl").read_bytes()
    (folder / f"{name}.canonical.ptl").write_bytes(data)
    largest, calls = unseen(name, path.read_bytes(), data)
    return {
        "name": name,
        "cpu_seconds": seconds,
        "largest": largest,
        "calls": calls,
        "compared": sum(row["result"] == "same" for row in result["comparison"]),
        "rewrites": sorted({row["name"] for row in result["rewrites"]}),
    }


def write(folder: Path) -> None:
    """All models, and nothing else."""
    for name in CORPUS:
        torch.manual_seed(1131)
        written(name, folder)


def main() -> None:
    warnings.simplefilter("ignore")
    if sys.argv[1] == "write":
        return write(Path(sys.argv[2]))
    script, folder, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    spec = importlib.util.spec_from_file_location("worker", script)
    assert spec is not None
    assert spec.loader is not None
    worker = importlib.util.module_from_spec(spec)
    sys.modules["worker"] = worker
    spec.loader.exec_module(worker)
    worker._find_package()
    torch.set_num_threads(1)
    for name in sys.argv[4:] or CORPUS:
        torch.manual_seed(1131)
        print(json.dumps(converted(worker, name, folder, kind)), flush=True)


if __name__ == "__main__":
    main()
