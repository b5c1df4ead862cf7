"""Single operators in torch, for `benchmarks.operators`: run by a Python that has torch.

operators_torch.py export FOLDER    writes <number>.ptl for each operator; prints their names
operators_torch.py time             prints the least microseconds of each, in one thread
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# What all take; `benchmarks.operators` declares inputs of this shape, in the same ranges.
SHAPE: Final = (1, 32, 56, 56)
RUNS: Final = 200

OPERATORS: Final[Mapping[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "add": lambda a, b: a + b,
    "add of channels": lambda a, b: a + b[:, :, :1, :1],
    "mul": lambda a, b: a * b,
    "mul by a number": lambda a, b: a * 1.7,
    "div": lambda a, b: a / b,
    "maximum": torch.maximum,
    "where": lambda a, b: torch.where(a > 0.0, a, b),
    "relu": lambda a, b: torch.relu(a),
    "clamp": lambda a, b: torch.clamp(a, -0.5, 0.5),
    "leaky_relu": lambda a, b: F.leaky_relu(a, 0.1),
    "hardswish": lambda a, b: F.hardswish(a),
    "hardsigmoid": lambda a, b: F.hardsigmoid(a),
    "elu": lambda a, b: F.elu(a),
    "softplus": lambda a, b: F.softplus(a),
    "mish": lambda a, b: F.mish(a),
    "gelu": lambda a, b: F.gelu(a),
    "silu": lambda a, b: F.silu(a),
    "glu": lambda a, b: F.glu(a, 1),
    "prelu": lambda a, b: F.prelu(a, b[0, :, 0, 0]),
    "sigmoid": lambda a, b: torch.sigmoid(a),
    "tanh": lambda a, b: torch.tanh(a),
    "exp": lambda a, b: torch.exp(a),
    "log": lambda a, b: torch.log(b),
    "sin": lambda a, b: torch.sin(a),
    "sqrt": lambda a, b: torch.sqrt(b),
    "rsqrt": lambda a, b: torch.rsqrt(b),
    "pow": lambda a, b: b.pow(1.5),
    "atan2": torch.atan2,
    "floor": lambda a, b: torch.floor(a),
    "sum": lambda a, b: a.sum(),
    "sum of channels": lambda a, b: a.sum(1),
    "mean of an image": lambda a, b: a.mean([2, 3]),
    "amax of channels": lambda a, b: a.amax(1),
    "argmax of channels": lambda a, b: a.argmax(1),
    "cumsum": lambda a, b: a.cumsum(-1),
    "sort": lambda a, b: a.sort(-1)[0],
    "softmax": lambda a, b: a.softmax(-1),
    "softmax of channels": lambda a, b: a.softmax(1),
    "log_softmax of channels": lambda a, b: a.log_softmax(1),
    "layer_norm": lambda a, b: F.layer_norm(a, [56]),
    "group_norm": lambda a, b: F.group_norm(a, 8),
    "instance_norm": lambda a, b: F.instance_norm(a),
    "max_pool2d, 3x3": lambda a, b: F.max_pool2d(a, 3, 2, 1),
    "avg_pool2d, 2x2": lambda a, b: F.avg_pool2d(a, 2),
    "adaptive_avg_pool2d": lambda a, b: F.adaptive_avg_pool2d(a, 1),
    "interpolate, nearest": lambda a, b: F.interpolate(a, scale_factor=2.0, mode="nearest"),
    "interpolate, bilinear": lambda a, b: F.interpolate(
        a, scale_factor=2.0, mode="bilinear", align_corners=False
    ),
    "pad": lambda a, b: F.pad(a, [1, 1, 1, 1]),
    "cat of channels": lambda a, b: torch.cat([a, b], 1),
    "permute, contiguous": lambda a, b: a.permute(0, 2, 3, 1).contiguous(),
    "pixel_shuffle": lambda a, b: F.pixel_shuffle(a, 2),
    "gather": lambda a, b: a.gather(1, (b * 10).to(torch.int64)),
    "embedding": lambda a, b: F.embedding(
        (b * 10).to(torch.int64).flatten()[:2000], a.reshape(-1, 56)
    ),
}


class Operator(nn.Module):  # type: ignore[misc]  # torch is not there for mypy
    """One of them, as a module."""

    def __init__(self, operator: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.operator(a, b)


def given() -> tuple[Tensor, Tensor]:
    """Numbers from -1 to 1, and from 0.5 to 1.5."""
    torch.manual_seed(0)
    return 2 * torch.rand(SHAPE) - 1, torch.rand(SHAPE) + 0.5


def export(folder: Path) -> None:
    for number, operator in enumerate(OPERATORS.values()):
        traced = torch.jit.trace(Operator(operator), given(), check_trace=False)
        traced._save_for_lite_interpreter(str(folder / f"{number}.ptl"))


def least(operator: Callable[[Tensor, Tensor], Tensor]) -> float:
    """Microseconds of CPU time."""
    inputs, found = given(), float("inf")
    with torch.inference_mode():
        for _ in range(RUNS):
            began = time.process_time_ns()
            operator(*inputs)
            found = min(found, (time.process_time_ns() - began) / 1000)
    return found


def main(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    told: dict[str, Any] = {"torch": torch.__version__, "operators": list(OPERATORS)}
    if arguments[0] == "export":
        export(Path(arguments[1]))
    else:
        told["microseconds"] = {name: least(one) for name, one in OPERATORS.items()}
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
