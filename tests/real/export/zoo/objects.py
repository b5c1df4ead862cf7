"""A module that makes objects of its own classes, which TorchScript compiles.

Without `from __future__ import annotations`: TorchScript reads those of attributes as they are.
"""

from collections import OrderedDict
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class _Beam:
    """An object that changes while others have it."""

    def __init__(self, score: Tensor, token: int) -> None:
        self.score = score
        self.token = token
        self.length = 1

    def grow(self, more: Tensor) -> None:
        self.score = self.score + more
        self.length += 1


class _Slot:
    """One that holds another, of which another takes the place."""

    def __init__(self, beam: _Beam) -> None:
        self.beam = beam


class _Counted:
    """What is entered and left."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> int:
        self.count += 1
        return self.count

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.count += 10


class _Limits:
    """One that is made once, and then read."""

    def __init__(self, rows: int, scales: list[float]) -> None:
        self.rows = rows
        self.scales = scales


class Objects(nn.Module):
    """Objects of own classes: in lists, dictionaries and branches, and kept from call to call."""

    limits: _Limits | None

    def __init__(self) -> None:
        super().__init__()
        self.limits = None

    def forward(self, x: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        if self.limits is None:
            self.limits = _Limits(x.shape[0], [0.5, 2.0])
        limits = self.limits
        assert limits is not None
        beams: list[_Beam] = []
        for row in range(min(limits.rows, x.shape[0])):
            beams.append(_Beam(x[row], row))
        best = beams[0]
        for beam in beams:
            if beam.token % 2 == 0:
                beam.grow(x[-1] * limits.scales[0])
            if float(beam.score.sum()) > float(best.score.sum()):
                best = beam
        table = {"best": best, "last": beams[-1]}
        table["last"].grow(x[0] * limits.scales[1])
        counted = _Counted()
        for slot in [_Slot(_Beam(x[0], 7)), _Slot(best)]:
            with counted:
                slot.beam.grow(x[-1] * counted.count)
            if slot.beam.length < 3:
                slot.beam = beams[0]
            slot.beam.grow(x[0])
        scores = torch.stack([beam.score for beam in beams])
        lengths = torch.tensor([beam.length for beam in beams])
        same = torch.tensor([table["best"] is beams[-1], best.token == 0])
        made = OrderedDict([(str(n), scores[n]) for n in range(scores.shape[0])])
        made["lengths"], made["same"] = lengths, same
        if torch.jit.is_scripting():
            return made, scores
        return made  # type: ignore[return-value]


class _State(NamedTuple):
    """What a stream keeps from call to call."""

    past: Tensor
    step: int


class Named(nn.Module):
    """Named tuples as arguments and results, in lists, dictionaries, branches and an attribute."""

    last: _State | None

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.last = None

    def forward(
        self, x: Tensor, states: list[_State], scale: float = 2.0
    ) -> tuple[Tensor, list[_State], dict[str, _State]]:
        new: list[_State] = []
        for number, layer in enumerate(self.layers):
            state = states[number]
            if bool(state.past.sum() > 0):
                x = layer(x) + state.past * scale
            new.append(_State(x, state.step + 1))
        last = self.last
        if last is not None:
            x = x + last.past * last.step
        self.last = _State(x, 2)
        return x, new, {"last": new[-1], "first": new[0]}

    @torch.jit.export  # type: ignore[untyped-decorator]
    def start(self, size: int) -> list[_State]:
        return [_State(torch.zeros(size, 4), 0), _State(torch.ones(size, 4), 1)]

    @staticmethod
    def calls() -> dict[str, list[Any]]:
        """Example calls."""

        def states(*sums: int) -> list[_State]:
            return [_State(torch.full((3, 4), float(one)), one) for one in sums]

        return {
            "forward": [(torch.randn(3, 4), states(1, -1)), (torch.randn(3, 4), states(0, 2), 0.5)],
            "start": [(2,)],
        }
