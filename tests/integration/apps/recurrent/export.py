"""Exports `layers`: LSTMs, GRUs and their cells of all kinds. `left`: what is left to PyTorch's own
kernels. `changing`: layers whose weights are others in every run.

Run `PYTHONPATH=. python tests/integration/apps/recurrent/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orchestrator.export.saving import Export, run


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 16)
        self.small = nn.LSTM(6, 1, batch_first=True)
        self.deep = nn.LSTM(6, 9, num_layers=3, bidirectional=True, batch_first=True, dropout=0.5)
        self.bare = nn.LSTM(6, 33, num_layers=2, bias=False)
        self.gru = nn.GRU(6, 16, batch_first=True)
        self.both = nn.GRU(6, 5, num_layers=2, bidirectional=True)
        self.plain = nn.GRU(6, 7, bias=False)
        self.lstm_cell = nn.LSTMCell(6, 11)
        self.bare_cell = nn.LSTMCell(6, 11, bias=False)
        self.gru_cell = nn.GRUCell(6, 11)
        self.bare_gru = nn.GRUCell(6, 11, bias=False)

    def forward(self, x: Tensor) -> list[Tensor]:
        """From [n, m, 6]: each layer's output and last states."""
        a, (ah, ac) = self.lstm(x)
        b, (bh, bc) = self.small(x)
        c, (ch, cc) = self.deep(x)
        d, (dh, dc) = self.bare(x)
        e, eh = self.gru(x)
        f, fh = self.both(x)
        g, gh = self.plain(x)
        return [a, ah, ac, b, bh, bc, c, ch, cc, d, dh, dc, e, eh, f, fh, g, gh]

    @torch.jit.export
    def states(self, x: Tensor, h: Tensor, c: Tensor) -> list[Tensor]:
        """From states of the caller, [1, n, 16]; then on from their last ones, and once more."""
        a, s = self.lstm(x, (h, c))
        b, s = self.lstm(x, s)
        d, last = self.gru(x.transpose(0, 1), h)
        e, last = self.gru(x.transpose(0, 1), last)
        again, _ = self.lstm(x, (h, c))
        return [a, b, s[0], s[1], d, e, last, a - again]

    @torch.jit.export
    def as_they_lie(self, x: Tensor) -> list[Tensor]:
        """Slices, turned ones, one for all; unbatched; and what asks how a result lies."""
        a = self.lstm(x[:, ::2])[0]
        b = self.lstm(x[1:, 1:])[0]
        c = self.gru(x.transpose(0, 1))[0]
        d = self.lstm(x.permute(2, 1, 0)[:, :, :1].expand(6, x.size(1), 6))[0]
        e = self.lstm(x[:, 0])[0]
        f = self.both(x[0])[0]
        g = torch.cat([x, x], 2)[:, :, ::2]
        h = torch.zeros([1, x.size(1), 32])[:, :, ::2]
        i = self.lstm(g, (h, h))[0]
        j = self.gru(x)[0]
        k = [j.stride(0), j.stride(1), a.stride(0), c.transpose(0, 1).stride(0)]
        return [a, b, c, d, e, f, i, j.transpose(0, 1).view(-1), torch.tensor(k)]

    @torch.jit.export
    def cells(self, x: Tensor) -> list[Tensor]:
        """From [n, m, 6], step by step; a clamp follows a cell."""
        h, c = torch.zeros([x.size(1), 11]), torch.zeros([x.size(1), 11])
        g, p, q, r = h, h, h, h
        for step in range(x.size(0)):
            h, c = self.lstm_cell(x[step], (h, c))
            p, q = self.bare_cell(x[step], (p, q))
            g = F.relu(self.gru_cell(x[step], g))
            r = self.bare_gru(x[step], r)
        return [h, c, p, q, g, r, self.gru_cell(x[0, 0])]

    @torch.jit.export
    def steps(self, x: Tensor) -> Tensor:
        """The output alone."""
        return self.lstm(x)[0]


class Left(nn.Module):
    """Other dtypes, projections, packed sequences, dropout while training."""

    def __init__(self) -> None:
        super().__init__()
        self.exact = nn.LSTM(3, 4, num_layers=2).double()
        self.exact_gru = nn.GRU(3, 4).double()
        self.exact_cell = nn.GRUCell(3, 4).double()
        self.projected = nn.LSTM(3, 6, proj_size=2, bidirectional=True)
        self.plain = nn.LSTM(3, 4)
        self.drops = nn.LSTM(3, 4, num_layers=2, dropout=1.0)

    def forward(self, x: Tensor) -> list[Tensor]:
        a, (b, c) = self.exact(x.double())
        d, e = self.exact_gru(x.double())
        f = self.exact_cell(x[0].double())
        g, (h, i) = self.projected(x)
        w = self.plain._flat_weights
        state = [torch.zeros([1, x.size(1), 4]), torch.zeros([1, x.size(1), 4])]
        sizes = torch.full([x.size(0)], x.size(1), dtype=torch.int64)
        j, k, _ = torch.lstm(x.reshape(-1, 3), sizes, state, w, True, 1, 0.0, False, False)
        v = self.drops._flat_weights
        two = [torch.cat([one, one]) for one in state]
        # all of the first layer's output is dropped
        n, o, _ = torch.lstm(x, two, v, True, 2, 1.0, True, False, False)
        return [a, b, c, d, e, f, g, h, i, j, k, n, o]


class Changing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 4)
        self.gru = nn.GRU(3, 4)
        self.held = [one.detach() * 1.0 for one in nn.LSTM(3, 4)._flat_weights]

    def forward(self, x: Tensor) -> list[Tensor]:
        """Weights that are computed; an item of a list that is replaced."""
        found: list[Tensor] = []
        state = torch.zeros([1, x.size(1), 4])
        for time in range(7):
            weights = [one * (1.0 + time) for one in self.gru._flat_weights]
            found.append(torch.gru(x, state, weights, True, 1, 0.0, False, False, False)[0])
            given = [state, state]
            out = torch.lstm(x, given, self.held, True, 1, 0.0, False, False, False)[0]
            self.held[0] = self.held[0] * 1.5
            found += [out, self.layer(x)[0]]
        return found


class Written(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        """A weight that is written to between two runs of its layer."""
        first = self.layer(x)[0]
        self.layer.weight_hh_l0.mul_(-1.5)
        return first - self.layer(x)[0]


def unchanged(model: nn.Module, inputs: dict[str, list[tuple[Tensor, ...]]]) -> Export:
    return Export(model.requires_grad_(False), inputs, canonical="off")


def models() -> dict[str, Export]:
    x = torch.randn(4, 3, 6)
    state = torch.randn(1, 3, 16), torch.randn(1, 3, 16)
    inputs: dict[str, list[tuple[Tensor, ...]]] = {
        "forward": [(x,), (x[:1],), (x[:, :1],), (4 * torch.randn(2, 7, 6),)],
        "states": [(x, *state)],
        "as_they_lie": [(x,)],
        "cells": [(x,), (x[:, :1],)],
        "steps": [(x,), (torch.randn(3, 2, 6),)],
    }
    layers = unchanged(Layers(), inputs)
    given = torch.randn(3, 2, 3)
    return {
        "layers": layers,
        "left": unchanged(Left(), {"forward": [(given,)]}),
        "changing": unchanged(Changing(), {"forward": [(given,), (given,)]}),
        "written": unchanged(Written(), {"forward": [(given,), (given,)]}),
    }


if __name__ == "__main__":
    run(models, Path(__file__).resolve().parent / "models")
