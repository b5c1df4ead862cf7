"""Modules in PT2E, as torchao quantises them, and their exported models: `int8.py FOLDER [NAME]`.

Writes `<name>.ptl`, what PT2E gives (`<name>.json`), and a JSON line for each: the model's
operators, those that stay in float, and how far its results are from those of PT2E, in steps of
the last int8 tensor's scale.
"""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from export_support.mobilenet import MobileNet, sample_images
from torch import Tensor, nn
from torch.export import Dim
from torch.jit.mobile import _export_operator_list, _load_for_lite_interpreter
from torchao.quantization import Int8WeightOnlyConfig, quantize_
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)
from torchao.testing.pt2e._xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)

from orchestrator.export.saving import Export, export, prepare


def xnnpack(**options: Any) -> Any:
    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**options))


def x86(**options: Any) -> Any:
    config = get_default_x86_inductor_quantization_config(**options)
    return X86InductorQuantizer().set_global(config)


def normalised(*conv: int, clamp: type[nn.Module] = nn.ReLU, **options: Any) -> nn.Sequential:
    layer = nn.Conv2d(*conv, **options)
    norm = nn.BatchNorm2d(layer.out_channels)
    nn.init.normal_(norm.running_mean, std=0.2)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    return nn.Sequential(layer, norm, clamp())


class Net(nn.Module):
    """The parts one behind another, or what a function makes of them and the input."""

    def __init__(self, *parts: nn.Module, of: Callable[..., Tensor] | None = None) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.of = of

    def forward(self, x: Tensor) -> Tensor:
        if self.of is not None:
            return self.of(x, *self.parts)
        for one in self.parts:
            x = one(x)
        return x


def conv(**options: Any) -> nn.Module:
    return nn.Conv2d(6, 6, 3, padding=1, **options)


def residual(x: Tensor, first: nn.Module, second: nn.Module) -> Tensor:
    return torch.relu(second(first(x)) + x)


def several(x: Tensor, first: nn.Module, second: nn.Module, last: nn.Module) -> Tensor:
    """What lies between layers."""
    y = first(x)
    z = torch.cat([y, second(y)], 1)
    z = nn.functional.max_pool2d(z, 2)
    return last(z.flatten(1))


def net(name: str) -> nn.Module:
    """The module of a case: what stands before a dash."""
    makers: dict[str, Callable[[], nn.Module]] = {
        "relu": lambda: Net(normalised(6, 8, 3, padding=1)),
        "relu6": lambda: Net(normalised(6, 8, 3, clamp=nn.ReLU6), conv_of(8)),
        "depthwise": lambda: Net(normalised(6, 6, 3, padding=1, groups=6)),
        "grouped": lambda: Net(normalised(6, 8, 3, stride=2, groups=2)),
        "pointwise": lambda: Net(nn.Conv2d(6, 9, 1, bias=False)),
        "residual": lambda: Net(conv(), conv(), of=residual),
        "product": lambda: Net(conv(), conv(), of=lambda x, a, b: a(x) * b(x)),
        "cat": lambda: Net(conv(), conv(), conv_of(12), of=joined),
        "pools": lambda: Net(conv(), nn.MaxPool2d(2), conv(), nn.AdaptiveAvgPool2d(1), conv_of(6)),
        "head": lambda: Net(conv(), nn.Linear(6, 4), of=lambda x, a, b: b(a(x).mean((2, 3)))),
        "swish": lambda: Net(conv(), nn.Hardswish(), conv(), nn.Sigmoid(), conv()),
        "several": lambda: Net(conv(), conv(), nn.Linear(12 * 16, 5), of=several),
        "linear": lambda: Net(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4)),
        "mobilenet": lambda: MobileNet(10),
    }
    return makers[name.split("-")[0]]().eval().requires_grad_(False)


def conv_of(inputs: int) -> nn.Module:
    return nn.Conv2d(inputs, 5, 1)


def joined(x: Tensor, first: nn.Module, second: nn.Module, last: nn.Module) -> Tensor:
    return last(torch.cat([first(x), second(x)], 1))


CONVOLUTIONS = ("relu", "relu6", "depthwise", "grouped", "pointwise")
REST = ("residual", "product", "cat", "pools", "head", "swish", "several", "mobilenet")
CASES: dict[str, Callable[[], Any]] = {
    **{f"{name}-channels": lambda: xnnpack(is_per_channel=True) for name in CONVOLUTIONS + REST},
    **{f"{name}-tensors": xnnpack for name in CONVOLUTIONS},
    **{f"{name}-x86": x86 for name in (*CONVOLUTIONS, *REST, "linear")},
    "relu-narrow": lambda: x86(reduce_range=True),
    "linear-channels": lambda: xnnpack(is_per_channel=True),
    "linear-dynamic": lambda: xnnpack(is_per_channel=True, is_dynamic=True),
    "linear-dynamic_x86": lambda: x86(is_dynamic=True),
}


def inputs(name: str) -> list[Tensor]:
    if name.startswith("linear"):
        return [torch.randn(3, 5, 8), torch.randn(2, 5, 8)]
    if name.startswith("mobilenet"):
        return [torch.cat([one for (one,) in sample_images()]), sample_images()[0][0]]
    return [torch.randn(3, 6, 8, 8), torch.randn(2, 6, 8, 8)]


def quantised(module: nn.Module, quantiser: Any, rows: Sequence[Tensor]) -> Any:
    shapes = ({0: Dim.AUTO},)
    args = (rows[0],)
    program = torch.export.export(module, args, dynamic_shapes=shapes, strict=False)
    prepared = prepare_pt2e(program.module(), quantiser)
    for row in rows:
        prepared(row)
    return convert_pt2e(prepared)


def step(module: Any) -> float:
    """The scale of the last int8 tensor; of dynamic ones the scale of what is compared."""
    name = "quantized_decomposed.dequantize_per_tensor.default"
    nodes = module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ()
    scales = [node.args[1] for node in nodes if str(node.target) == name]
    return float(scales[-1]) if scales else 1 / 256


def apart(module: Any, data: bytes, rows: Sequence[Tensor]) -> float:
    """In steps: the largest difference of a model from a module."""
    mobile = _load_for_lite_interpreter(io.BytesIO(data))
    with torch.no_grad():
        return max(float((module(x) - mobile.forward(x)).abs().max()) for x in rows) / step(module)


def case(name: str, folder: Path) -> dict[str, Any]:
    torch.manual_seed(3)
    torch.backends.quantized.engine = "qnnpack"
    rows = inputs(name)
    if name == "linear-weights":
        module: Any = net(name)
        quantize_(module, Int8WeightOnlyConfig())
    else:
        module = quantised(net(name), CASES[name](), rows)
    made = export(name, Export(module, [(row,) for row in rows], "export"), pytorch="1.13.1")
    (folder / f"{name}.ptl").write_bytes(made.data)
    with torch.no_grad():
        results = [module(row).flatten().tolist() for row in rows]
    (folder / f"{name}.json").write_text(json.dumps(results))
    operators = _export_operator_list(_load_for_lite_interpreter(io.BytesIO(made.data)))
    return {
        "name": name,
        "bytes": len(made.data),
        "operators": sorted(one for one in operators if one not in _OF_INPUTS),
        "float": sorted({one[1] for one in map(_IN_FLOAT.search, made.notes) if one}),
        "step": step(module),
        "steps": round(apart(module, made.data, rows), 3),
    }


_IN_FLOAT = re.compile(r"(\w+::\w+) stays in float")
# What bundled inputs and checks of sizes name.
_OF_INPUTS = ("aten::__getitem__.t", "aten::_set_item.str", "aten::len.t", "aten::size.int")


def main() -> None:
    logging.disable(logging.WARNING)
    prepare()
    torch.use_deterministic_algorithms(False)
    folder, *names = sys.argv[1:]
    for name in names or [*CASES, "linear-weights"]:
        print(json.dumps(case(name, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
