"""Modules of our own for the zoo: one for each kind of node that a program of torch.export has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from architectures import Architecture
from objects import Named, Objects
from torch import Tensor, nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop


class Counter(nn.Module):
    """A buffer that is added to, and one that is replaced: torch.export mistakes the latter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("last", torch.zeros(3), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before = self.last
        self.last = x * 1.0
        self.count.add_(x)
        return self.count * 2, before


class Part(nn.Module):
    """A branch, and a tuple under TorchScript of which Python gives a part, as detectors do."""

    def forward(self, x: Tensor, most: float = math.inf) -> tuple[Tensor, Tensor]:
        if bool(x.sum() < most) and bool(x.sum() < 10):
            x = x * 2
        if torch.jit.is_scripting():
            return x, x.sum()
        return self._given(x)

    @torch.jit.unused
    def _given(self, x: Tensor) -> Any:
        return x


class Swap(nn.Module):
    """Two buffers that get what the other had, and views of them that are given out."""

    a: Tensor
    b: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.arange(4.0))
        self.register_buffer("b", -torch.arange(4.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(before)
        return self.a.view(2, 2) + x.mean(), self.b[1:]


class Cache(nn.Module):
    """A key-value cache that is written at a place which the caller gives."""

    keys: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(1, 16, 8))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.keys[:, at] = self.query(x)
        return torch.softmax(x @ self.keys.transpose(1, 2), -1) @ self.keys


class Places:
    """As a cache of transformers: no module, with tensors that are buffers of one, too."""

    def __init__(self, keys: Tensor) -> None:
        self.keys, self.length = keys, torch.zeros((), dtype=torch.long)


class Held(nn.Module):
    """State in an object, in a list and in an attribute that is no buffer."""

    keys: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 4))
        self.places, self.sums, self.last = Places(self.keys), [torch.zeros(4)], torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        at = self.places.length + torch.arange(x.shape[0])
        self.places.keys.index_copy_(0, at, x)
        self.places.length.add_(x.shape[0])
        self.sums[0][:2].add_(x.sum(0)[:2])
        self.last.copy_(0.5 * self.last + x[-1])
        return self.keys.cumsum(0)[-1] + self.sums[0] + self.last

    def reset(self) -> Tensor:
        self.places.keys.zero_()
        self.places.length.zero_()
        return self.keys + 0


class Streaming(nn.Module):
    """A convolution over a stream, whose past is an argument that is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(4, 4, 3)

    def forward(self, x: Tensor, past: Tensor) -> Tensor:
        whole = torch.cat([past, x], 2)
        past.copy_(whole[:, :, -2:])
        return self.layer(whole)


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        def left(x: Tensor) -> Tensor:
            return self.left(x).relu()

        def right(x: Tensor) -> Tensor:
            return torch.cond(x.min() > -1, lambda x: x + 1, lambda x: self.right(x), (x,))

        return torch.cond(x.sum() > 0, left, right, (x,))


class Loop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        def goes_on(n: Tensor, x: Tensor) -> Tensor:
            return (n < 5) & (x.abs().max() < 100)

        def body(n: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            return n + 1, x * 2

        return while_loop(goes_on, body, (torch.zeros((), dtype=torch.int64), x))[1]


class Scan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            new = torch.tanh(self.cell(torch.cat([state, row], -1)))
            return new, new * 2

        return scan(step, torch.zeros(4), x)


class Map(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return map_rows(lambda row, y: row.sort().values + y, x, y)


class Items(nn.Module):
    """Sizes that values give, with checks of its own."""

    def forward(self, x: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        n = count.item()
        torch._check(n >= 1)
        torch._check(n <= x.shape[0])
        kept = x[x[:, 0] > 0]
        return x[:n] * 2, kept.sum(0)


class Sizes(nn.Module):
    """Arithmetic, and a way that depends on sizes."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, int]:
        half = (x.shape[1] + 1) // 2
        y = x[:, :half].flatten() if x.shape[0] % 2 == 0 else x[:, half:].flatten()
        wide = nn.functional.pad(x, (0, -x.shape[1] % 8))
        return y * (x.shape[1] ** 0.5), wide.view(x.shape[0], -1, 8), half


class Tied(nn.Module):
    """One weight with two names, one that is a view, and one that nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 50, bias=False)
        self.head.weight = self.words.weight
        self.unused = nn.Linear(100, 100)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.words(x))


@dataclass
class Said:
    best: Tensor
    count: int
    more: Tensor | None = None


torch.export.register_dataclass(Said, serialized_type_name="zoo.Said")


class Trees(nn.Module):
    """Arguments and results that are nested."""

    def forward(
        self,
        pair: tuple[Tensor, list[Tensor]],
        named: dict[str, Tensor],
        *,
        scale: float = 2.0,
        on: bool = True,
        mask: Tensor | None = None,
    ) -> dict[str, Any]:
        x = pair[0] * scale + pair[1][0] - pair[1][1]
        if on:
            x = x + named["a"]
        return {
            "said": Said(x, 3),
            "list": [x, x + 1],
            "nothing": None,
            "empty": ((), {}),
            "text": "t",
            "b": named["b"],
        }


class Types(nn.Module):
    """Dtypes: integers, bools, halves, doubles, and complex numbers."""

    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        z = torch.fft.rfft(x)
        return (
            *((x > 0), n.to(torch.int32) // 3, n % 3, x.half() * 2, x.double().sum(), n / 2),
            *(torch.view_as_real(z * 2j), x.bfloat16(), n << 1, x.sign().to(torch.uint8)),
        )


class Modes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x * 2
        with torch.enable_grad():
            y = y + 1
        return y.detach()


class Writes(nn.Module):
    """Writes to parts of its own tensors."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[:, 0] = 5
        y[0].add_(1)
        y[y > 2] = 0
        out = torch.zeros(x.shape[0], 3)
        for n in range(3):
            out[:, n] = y[:, n].sum()
        return torch.cat([y, out], 1)


class Coder(nn.Module):
    """Two methods with a table in common."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.layer = nn.Linear(8, 8)

    def encode(self, x: Tensor) -> Tensor:
        return self.layer(self.table(x)).mean(1)

    def decode(self, state: Tensor, x: Tensor) -> Tensor:
        return (self.table(x) + state[:, None]) @ self.table.weight.t()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(12, 5, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        y, state = self.lstm(x)
        return self.gru(y)[0], state


class Packed(nn.Module):
    """Sequences of several lengths. oneDNN takes too many features, and gives any numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        made, state = self.lstm(packed)
        padded, sizes = nn.utils.rnn.pad_packed_sequence(made, batch_first=True)
        return padded, sizes, state[0]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.layer(x, src_key_padding_mask=padding)


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x) + torch.randn(x.shape[0], 1)


class Windows(nn.Module):
    """A window as long as the sound is: torch.export takes its length for a number."""

    def forward(self, sound: Tensor) -> Tensor:
        return sound * torch.hann_window(sound.shape[1])


class Resize(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        up = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
        to = nn.functional.interpolate(x, size=(7, 5), mode="nearest")
        like = nn.functional.interpolate(to, size=x.shape[2:], mode="bicubic")
        row = nn.functional.interpolate(x[:, 0], size=2 * x.shape[3] + 1, mode="linear")
        grid = nn.functional.affine_grid(x[:, :2, 0, :3], list(x.shape), align_corners=False)
        return (
            up,
            to,
            like,
            nn.functional.adaptive_avg_pool2d(x, (2, 3)),
            nn.functional.unfold(x, 2),
            nn.functional.interpolate(row, size=x.shape[2]),
            nn.functional.grid_sample(x, grid, align_corners=False),
        )


class Reading(dict[str, Tensor]):
    """A mapping that torch does not know."""


@dataclass
class Guess:
    """A dataclass that torch does not know."""

    scores: Tensor
    reading: Reading
    more: Tensor | None = None


class Unregistered(nn.Module):
    def forward(self, given: Guess) -> Guess:
        x = given.scores * 2
        return Guess(x, Reading(a=x + given.reading["a"]))


class Twice(nn.Module):
    """Two arguments, for which an example has the same tensor."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a - 2 * b


class Numbers(nn.Module):
    """Numbers where operators take tensors, and a number of steps that is a size."""

    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        steps = torch.linspace(-1, 1, x.shape[-1])
        return nn.functional.max_pool1d(x + steps, 3, 2, 1), 7 // n


class Parts(nn.Module):
    """Parts as large as torch's operator makes them: it asks a size what the module does not."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(one * 2 for one in x.tensor_split(3, 1))


class Chunks(nn.Module):
    """A size that torch.div computes, as sliding windows of attention have it."""

    def forward(self, x: Tensor) -> Tensor:
        size: Any = x.shape[1]
        count = torch.div(size, 4, rounding_mode="trunc")
        return x[:, : count * 4].reshape(x.shape[0], count, 4).amax(-1)


class Steps(nn.Module):
    """A loop over a size, which torch.export would take step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], 3)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
        return state


class Root(nn.Module):
    """A size for a function that takes numbers alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x / float(np.sqrt(x.shape[1]))


class Choice(nn.Module):
    """Ways that an argument chooses."""

    def forward(self, x: Tensor, mask: Tensor | None = None, low: bool = False) -> Tensor:
        if mask is not None:
            x = x * mask
        return -x if low else x


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
        return y.float() + 1


class Spectrum(nn.Module):
    """Sound that is changed in its spectrum, and made of that again."""

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(24))

    def forward(self, sound: Tensor) -> tuple[Tensor, ...]:
        settings = {"hop_length": 7, "win_length": 24, "window": self.window}
        sides = torch.stft(sound, 32, return_complex=True, normalized=True, **settings)
        whole = torch.stft(sound, 32, onesided=False, return_complex=True, **settings)
        length = sound.shape[-1]
        return (
            torch.istft(sides * sides.abs(), 32, normalized=True, length=length, **settings),
            sides[0].istft(32, 7, length=length + 40, normalized=True),
            torch.istft(whole, 32, onesided=False, **settings),
            torch.istft(whole, 32, return_complex=True, onesided=False, **settings).abs(),
            torch.istft(sides[:, :, 1:], 32, 32, center=False),
        )


class Broadcast(nn.Module):
    """As transformers make masks: rows of one are for all, but not where the exporter watches."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if mask.shape[0] == 1 and not torch.compiler.is_exporting():
            mask = mask.expand(x.shape[0], -1)
        return x * mask.gather(0, torch.arange(x.shape[0])[:, None].expand(x.shape))


def _products_by_group(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    parts = torch.tensor_split(rows, ends[:-1].long())
    return torch.cat([part @ weight for part, weight in zip(parts, weights, strict=True)])


class Experts(nn.Module):
    """A mixture of experts, with the operator that transformers registers for its products, and
    torch's own, where it has one."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(8, 4), nn.Parameter(torch.randn(4, 8, 6))
        self.down = nn.Parameter(torch.randn(4, 6, 8))
        # the sizes of torch's own are multiples of 16 bytes
        self.square = nn.Parameter(torch.randn(4, 8, 8))
        name, schema = (
            "transformers::grouped_mm_fallback",
            "(Tensor input, Tensor weight, Tensor offs)",
        )
        made = torch.library.custom_op(
            name, _products_by_group, mutates_args=(), schema=f"{schema} -> Tensor"
        )
        made.register_fake(lambda rows, weights, _: rows.new_empty(rows.shape[0], weights.shape[2]))

    def forward(self, x: Tensor) -> Tensor:
        score, expert = self.gate(x).softmax(-1).topk(2, -1)
        order = expert.reshape(-1).argsort(stable=True)
        ends = torch.histc(expert.float(), 4, 0, 3).cumsum(0).int()
        products = torch.ops.transformers.grouped_mm_fallback
        middle = torch.relu(products(x[order // 2], self.up, ends))
        its = products(middle, self.down, ends)
        if hasattr(torch, "_grouped_mm"):
            rows = torch.cat([middle, middle], -1)[:, :8].bfloat16()
            its = its + torch._grouped_mm(rows, self.square.bfloat16(), ends).float()
        its = its * score.reshape(-1)[order][:, None]
        return its[order.argsort()].reshape(x.shape[0], 2, 8).sum(1)


class Keywords(nn.Module):
    """Arguments without names in the signature."""

    def forward(self, x: Tensor, **others: Tensor) -> Tensor:
        for name in sorted(others):
            x = x * 2 + others[name]
        return x


def _own(make: type[nn.Module], rows: Callable[[], Any]) -> Architecture:
    return Architecture("own", lambda: make().eval(), rows)


def _trees() -> Sequence[Any]:
    def one() -> Tensor:
        return torch.randn(2, 3)

    return [{"pair": (one(), [one(), one()]), "named": {"a": one(), "b": one()}, "scale": 3.0}]


def _guesses() -> Sequence[Any]:
    return [(Guess(torch.randn(2, 3), Reading(a=torch.randn(2, 3))),)]


def _coder() -> Mapping[str, Sequence[Any]]:
    tokens = torch.randint(0, 20, (2, 5))
    return {"encode": [(tokens,)], "decode": [(torch.randn(2, 8), tokens)]}


OWN: Mapping[str, Architecture] = {
    "counter": _own(Counter, lambda: [(torch.randn(3),) for _ in range(3)]),
    "swap": _own(Swap, lambda: [(torch.randn(2, 2),) for _ in range(3)]),
    "cache": _own(
        Cache, lambda: [(torch.randn(1, 2, 8), torch.tensor([n, n + 1])) for n in (0, 2, 4)]
    ),
    "held": _own(
        Held,
        lambda: {"forward": [(torch.randn(n, 4),) for n in (3, 2)], "reset": [()]},
    ),
    "streaming": _own(
        Streaming, lambda: [(torch.randn(1, 4, 5), torch.randn(1, 4, 2)) for _ in range(2)]
    ),
    "branch": _own(Branch, lambda: [(torch.full((2, 4), v),) for v in (1.0, -0.5, -2.0)]),
    "loop": _own(Loop, lambda: [(torch.full((3,), v),) for v in (1.0, 90.0)]),
    "scan": _own(Scan, lambda: [(torch.randn(5, 4),)]),
    "map": _own(Map, lambda: [(torch.randn(3, 4), torch.randn(4))]),
    "items": _own(Items, lambda: [(torch.randn(6, 2), torch.tensor(n)) for n in (3, 1)]),
    "sizes": _own(Sizes, lambda: [(torch.randn(2, 11),)]),
    "tied": _own(Tied, lambda: [(torch.randint(0, 50, (1, 4)),)]),
    "trees": _own(Trees, _trees),
    "types": _own(Types, lambda: [(torch.randn(2, 8), torch.randint(0, 99, (4,)))]),
    "modes": _own(Modes, lambda: [(torch.randn(2, 3),)]),
    "writes": _own(Writes, lambda: [(torch.randn(2, 4),)]),
    "coder": _own(Coder, _coder),
    "recurrent": _own(Recurrent, lambda: [(torch.randn(1, 5, 8),)]),
    "packed": _own(Packed, lambda: [(torch.randn(3, 4, 4), torch.tensor([2, 4, 3]))]),
    "attention": _own(
        Attention, lambda: [(torch.randn(1, 5, 8), torch.zeros(1, 5, dtype=torch.bool))]
    ),
    "random": _own(Random, lambda: [(torch.randn(2, 3),)]),
    "unregistered": _own(Unregistered, _guesses),
    "twice": _own(Twice, lambda: [(x := torch.randn(2, 3), x)]),
    "numbers": _own(Numbers, lambda: [(torch.randn(1, 2, 9), torch.tensor([1, 2, 3]))]),
    "parts": _own(Parts, lambda: [(torch.randn(2, 7),)]),
    "chunks": _own(Chunks, lambda: [(torch.randn(2, 11),)]),
    "steps": _own(Steps, lambda: [(torch.randn(2, 5, 4),)]),
    "root": _own(Root, lambda: [(torch.randn(2, 5),)]),
    "choice": _own(Choice, lambda: [(torch.randn(2, 3),), {"x": torch.randn(2, 3), "low": True}]),
    "autocast": _own(Autocast, lambda: [(torch.randn(2, 8),)]),
    "part": _own(Part, lambda: [(torch.full((3,), v),) for v in (1.0, 90.0)]),
    "objects": _own(Objects, lambda: [(torch.randn(n, 4),) for n in (5, 3)]),
    "named": _own(Named, Named.calls),
    "keywords": _own(
        Keywords, lambda: [{"x": torch.randn(3, 4), "b": torch.randn(3, 4), "a": torch.randn(4)}]
    ),
    "spectrum": _own(Spectrum, lambda: [(torch.randn(2, 180),)]),
    "broadcast": _own(Broadcast, lambda: [(torch.randn(2, 5), torch.rand(2, 5))]),
    "experts": _own(Experts, lambda: [(torch.randn(1, 8),), (torch.randn(9, 8),)]),
    "windows": _own(Windows, lambda: [(torch.randn(2, 9),)]),
    "resize": _own(Resize, lambda: [(torch.randn(1, 3, 6, 8),)]),
}
