"""Models whose numbers are small, flat or in steps: what the comparison says of wrong ones.

Prints a line of JSON of each. Run by `tests/integration/test_export_state.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from orchestrator.export.calls import Call, Comparison, compared
from orchestrator.export.saving import prepare
from orchestrator.export.tolerances import TOLERANCES


class Tiny(nn.Module):
    """Numbers of about 3e-10, or as given."""

    def __init__(self, scale: float, wrong: float = 0.0) -> None:
        super().__init__()
        self.scale, self.wrong = scale, wrong

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale * (1 + self.wrong)


class Cancels(nn.Module):
    """The small difference of large numbers, computed in two ways."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        large = x * 3.1 * self.factor / self.factor
        return large + 1e-6 - x * 3.1


class Quantised(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return torch.quantize_per_tensor(x, self.scale, 0, torch.qint8)


def told(right: nn.Module, made: nn.Module, exact: bool = True) -> dict[str, Any]:
    def of(module: nn.Module, double: bool = False) -> Callable[..., Any]:
        its = module.double() if double else module
        return lambda method, *args: getattr(its, method)(*args)

    call = Call("forward", 0, "own", (torch.linspace(0.5, 2.0, 16),))
    rows, wrong = compared(
        lambda: of(right),
        lambda: of(made),
        [call],
        Comparison(TOLERANCES),
        (lambda: of(right, True)) if exact else None,
    )
    return {"result": rows[0]["result"], "difference": wrong and wrong["difference"]}


def results() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "3e-10, right", told(Tiny(3e-10), Tiny(3e-10, 1e-6))
    yield "3e-10, wrong", told(Tiny(3e-10), Tiny(3e-10, 0.5))
    yield "3e-10, wrong, no float64", told(Tiny(3e-10), Tiny(3e-10, 0.5), exact=False)
    yield "1e-5, wrong", told(Tiny(1e-5), Tiny(1e-5, 0.1))
    yield "1e-5, no float64", told(Tiny(1e-5), Tiny(1e-5, 0.1), exact=False)
    yield "rounding", told(Cancels(), Cancels(3.0))
    yield "flat", told(Tiny(0.0), Tiny(0.0))
    yield "other steps", told(Quantised(0.25), Quantised(0.5))


if __name__ == "__main__":
    prepare()
    for name, result in results():
        print(json.dumps({"case": name, **result}))
