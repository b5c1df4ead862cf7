"""Modules that are refused, each with the same module after the advice was followed.

Prints a line of JSON of each: what is told and of which line, and whether the advice works. Run by
`tests/integration/test_refusals.py`.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from orchestrator.export.refusal import Refused
from orchestrator.export.saving import Export, export, prepare


@torch.jit.script
class Box:
    def __init__(self, x: Tensor):
        self.x = x

    def area(self) -> Tensor:
        return self.x.sum()

    def __lt__(self, other: Box) -> bool:
        return bool(self.area() < other.area())


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Forks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        other = torch.jit.fork(torch.relu, x)
        return torch.jit.wait(other) + x


class Boxes(nn.Module):
    def forward(self, x: Tensor) -> Box:
        return Box(x)


class Areas(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Box(x).area()


class Sorts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        boxes = [Box(x), Box(x + 1)]
        boxes.sort()
        return boxes[0].area()


class Enumerates(nn.Module):
    def pick(self, colour: Colour) -> int:
        return 2 if colour == Colour.BLUE else 1

    def forward(self, x: Tensor, n: int) -> Tensor:
        return x * self.pick(Colour.RED if n > 0 else Colour.BLUE)


class Pools(nn.Module):
    def __init__(self, size: float = 3.1) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size=size)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x)


class Tries(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        try:
            return x + 1
        except ValueError:
            return x


class Lambdas(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        f = lambda y: y + 1  # noqa: E731
        return f(x)


class Many(nn.Module):
    def forward(self, *xs: Tensor) -> Tensor:
        return xs[0]


class Asserts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert x.size(0) > 5, "at least five"
        return x


class Elsewhere(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.zeros(4, device="cuda")


class Values(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x + 1
        return x


class Heads(nn.Module):
    @torch.jit.export
    def head(self, x: Tensor, raw: bool = False) -> Tensor:
        return x if raw else x + 1

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


class Passes(Heads):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(x, False)


def quantised(engine: str) -> nn.Module:
    """A layer whose input is quantised when it runs; `x86` leaves a bit of it free."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        its = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
        return torch.ao.quantization.quantize_dynamic(its, {nn.Linear}, dtype=torch.qint8)
    finally:
        torch.backends.quantized.engine = before


# Module and inputs, how it is exported, and after the advice: the module, its inputs, and how.
X, PICTURE = torch.rand(2, 4), torch.rand(1, 3, 9, 9)
Asked = tuple[nn.Module, Sequence[Any], str]
CASES: dict[str, tuple[Asked, Asked]] = {
    "fork": ((Forks(), (X,), "script"), (Forks(), (X,), "export")),
    "class": ((Boxes(), (X,), "script"), (Areas(), (X,), "script")),
    "sorted objects": ((Sorts(), (X,), "script"), (Areas(), (X,), "script")),
    "enumeration": ((Enumerates(), (X, 1), "script"), (Enumerates(), (X, 1), "export")),
    "float for a size": ((Pools(), (PICTURE,), "script"), (Pools(3), (PICTURE,), "script")),
    "float, any way": ((Pools(), (PICTURE,), "any"), (Pools(3), (PICTURE,), "any")),
    "try": ((Tries(), (X,), "script"), (Tries(), (X,), "export")),
    "lambda": ((Lambdas(), (X,), "script"), (Lambdas(), (X,), "export")),
    "any number": ((Many(), (X,), "script"), (Many(), (X,), "trace")),
    "assertion": ((Asserts(), (X,), "script"), (Asserts(), (torch.rand(6, 4),), "script")),
    "assertion, any way": ((Asserts(), (X,), "any"), (Asserts(), (torch.rand(6, 4),), "any")),
    "device": ((Elsewhere(), (X,), "any"), (Tries(), (X,), "any")),
    "default": ((Heads(), (X,), "script"), (Passes(), (X,), "script")),
    "value": ((Values(), (X,), "export"), (Values(), (X,), "script")),
    "engine": ((quantised("x86"), (X,), "any"), (quantised("qnnpack"), (X,), "any")),
    "value, traced": ((Values(), (X,), "trace"), (Values(), (X,), "script")),
}


def refusal(asked: Asked) -> dict[str, Any] | None:
    module, inputs, way = asked
    try:
        export("m", Export(module, [tuple(inputs)], compiled=way))  # type: ignore[arg-type]
    except Refused as error:
        facts = {"kind": error.kind, "said": str(error).splitlines()[0]}
        return facts | {key: error.facts.get(key) for key in ("code", "engine")}
    return None


if __name__ == "__main__":
    prepare()
    for name, (first, then) in CASES.items():
        torch.backends.quantized.engine = "x86"
        told = refusal(first) or {}
        torch.backends.quantized.engine = "qnnpack"
        print(json.dumps({"case": name, **told, "then": refusal(then)}))
