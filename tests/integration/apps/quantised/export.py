"""Exports `quantised`: int8 layers of all kinds. `channels` is packed for FBGEMM, with a scale for
each output channel; `tensors` for QNNPACK, with one for each weight; `dynamic` has layers whose
inputs are quantised when they run; `chains` has layers that take each other's results, and what
lies between them; `rows` has linear layers of images; `wide` has large weights. What stock
PyTorch computes with the engine that a model was packed for is written beside the models:
`expected.json`.

Run `PYTHONPATH=. python tests/integration/apps/quantised/export.py` with the optional dependency
group `export`.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization import (
    DeQuantStub,
    MinMaxObserver,
    QConfig,
    QuantStub,
    convert,
    default_dynamic_qconfig,
    fuse_modules,
    get_default_qconfig,
    get_default_qconfig_mapping,
    quantize_dynamic,
)
from torch.ao.quantization import (
    prepare as observe,
)
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs

from orchestrator.export.archive import reproducible
from orchestrator.export.saving import prepare

FOLDER = Path(__file__).resolve().parent / "models"


def _normalised(*conv: int, **options: int) -> nn.Sequential:
    layer = nn.Conv2d(*conv, **options)
    norm = nn.BatchNorm2d(layer.out_channels)
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    nn.init.normal_(norm.weight)
    return nn.Sequential(layer, norm, nn.ReLU())


class Layers(nn.Module):
    """The result of each layer alone, and of a chain of them."""

    def __init__(self) -> None:
        super().__init__()
        self.quantise = QuantStub()
        self.quantise_sound = QuantStub()
        self.dequantise = DeQuantStub()
        self.first = _normalised(8, 12, 3, padding=1, stride=2)
        self.plain = nn.Conv2d(8, 5, 3, padding=1)
        self.dilated = nn.Conv2d(8, 8, 3, padding=2, dilation=2, bias=False)
        self.grouped = nn.Conv2d(8, 12, 3, groups=2)
        self.depthwise = _normalised(8, 8, 3, padding=1, groups=8)
        self.wide_depthwise = nn.Conv2d(8, 8, 5, padding=2, groups=8)
        self.pointwise = nn.Conv2d(8, 9, 1)
        self.sound = nn.Conv1d(6, 7, 5, stride=2, padding=2)
        self.sum = FloatFunctional()
        self.sum_relu = FloatFunctional()
        self.product = FloatFunctional()
        self.joined = FloatFunctional()
        self.dense = nn.Linear(7, 6)
        self.dense_relu = nn.Sequential(nn.Linear(7, 10, bias=False), nn.ReLU())
        self.sigmoid = nn.Sigmoid()
        self.hardswish = nn.Hardswish()
        self.relu6 = nn.ReLU6()
        self.leaky = nn.LeakyReLU(0.1)
        self.average = nn.AvgPool2d(2)
        self.global_average = nn.AdaptiveAvgPool2d(1)
        self.largest = nn.MaxPool2d(3, stride=2, padding=1)
        self.chain_first = _normalised(8, 8, 3, padding=1)
        self.chain_second = nn.Conv2d(8, 8, 1)
        self.chain_sum = FloatFunctional()
        self.chain_out = nn.Linear(8, 4)

    def forward(self, x: Tensor, sound: Tensor) -> list[Tensor]:
        x = self.quantise(x)
        sound = self.quantise_sound(sound)
        y = self.depthwise(x)
        found = [
            self.first(x),
            self.plain(x),
            self.dilated(x),
            self.grouped(x),
            y,
            self.wide_depthwise(x),
            self.pointwise(x),
            self.sound(sound),
            self.sum.add(x, y),
            self.sum_relu.add_relu(x, y),
            self.product.mul(x, y),
            self.joined.cat([x, y], 1),
            self.dense(x),
            self.dense_relu(x),
            self.sigmoid(x),
            self.hardswish(x),
            self.relu6(x),
            self.leaky(x),
            self.average(x),
            self.global_average(x),
            self.largest(x),
        ]
        z = self.chain_sum.add(self.chain_second(self.chain_first(x)), x)
        found.append(self.chain_out(self.global_average(z).flatten(1)))
        return [self.dequantise(one) for one in found]

    def fused(self) -> nn.Module:
        groups = [
            [f"{name}.{i}" for i in range(3)] for name in ("first", "depthwise", "chain_first")
        ]
        return fuse_modules(self, [*groups, ["dense_relu.0", "dense_relu.1"]])


class Chains(nn.Module):
    """Layers behind layers: what lies between two of them is seen by those alone, or not."""

    def __init__(self) -> None:
        super().__init__()
        self.quantise = QuantStub()
        self.dequantise = DeQuantStub()
        self.first = nn.Conv2d(6, 20, 1)
        self.deep = nn.Conv2d(20, 20, 3, padding=1, groups=20)
        self.last = nn.Conv2d(20, 9, 1)
        # its weights' zero is not 0: QNNPACK's, between two of XNNPACK's
        self.skewed = nn.Conv2d(20, 20, 1)
        self.behind = nn.Conv2d(20, 5, 1)
        self.seen = nn.Conv2d(20, 7, 3, stride=2)
        self.pooled = nn.Conv2d(20, 7, 3)
        self.clamped = nn.Conv2d(20, 4, 1)
        self.one = nn.Conv2d(6, 20, 3, padding=1)
        self.rows = nn.Linear(6, 11)
        self.columns = nn.Linear(11, 3)

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.quantise(x)
        wide = self.first(x)
        skewed = self.skewed(wide)
        hidden = self.first(x)
        asked = self.deep(hidden)
        if hidden.dtype == torch.quint8:
            asked = self.last(asked)
        # two calls whose results meet; of one layer, as QNNPACK packs for inputs of one scale alone
        either = self.first(x) if x.size(0) > 1 else self.first(x)  # noqa: RUF034
        found = [
            self.last(self.deep(wide)),
            skewed,
            self.behind(skewed),
            self.behind(self.skewed(self.first(x))),
            asked,
            self.seen(either),
            self.clamped(torch.relu(self.one(x))),
            self.columns(self.rows(x)),
            self.pooled(torch.max_pool2d(self.one(x), 2)),
        ]
        return [self.dequantise(each) for each in found]


class Rows(nn.Module):
    """Linear layers alone, of images: the first reads them as they lie."""

    def __init__(self) -> None:
        super().__init__()
        self.quantise = QuantStub()
        self.dequantise = DeQuantStub()
        self.rows = nn.Linear(6, 11)
        self.columns = nn.Linear(11, 3)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.dequantise(self.columns(self.rows(self.quantise(x))))]


class Wide(nn.Module):
    """Of a picture [1, 1024, 1, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1024, 128, 1)
        self.odd = nn.Conv2d(128, 128, 1)
        self.last = nn.Conv2d(128, 1024, 1)

    def forward(self, x: Tensor) -> Tensor:
        found = self.first(x)
        return self.last(self.odd(torch.cat([found, found], 2)[:, :, ::2]))


class Dynamic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(10, 12)
        self.lean = nn.Linear(10, 5, bias=False)
        self.lstm = nn.LSTM(10, 6, batch_first=True)
        self.layers = nn.LSTM(10, 5, num_layers=2, bidirectional=True)
        self.gru = nn.GRU(10, 7)

    def forward(self, x: Tensor) -> list[Tensor]:
        steps, (_, cell) = self.lstm(x)
        both = self.layers(x)[0]
        return [self.dense(x), self.lean(x), steps, cell, both, self.gru(x)[0]]


def _static(engine: str, inputs: list[tuple[Tensor, ...]]) -> nn.Module:
    torch.backends.quantized.engine = engine
    model = Layers().requires_grad_(False).eval().fused()
    model.qconfig = get_default_qconfig(engine)
    observe(model, inplace=True)
    for row in inputs:
        model(*row)
    return convert(model)


def _chains(inputs: list[tuple[Tensor, ...]]) -> nn.Module:
    torch.backends.quantized.engine = "qnnpack"
    model = Chains().requires_grad_(False).eval()
    model.qconfig = get_default_qconfig("qnnpack")
    model.skewed.qconfig = QConfig(
        activation=model.qconfig.activation, weight=MinMaxObserver.with_args(dtype=torch.qint8)
    )
    with torch.no_grad():
        model.skewed.weight.add_(0.1)
    observe(model, inplace=True)
    for row in inputs:
        model(*row)
    return convert(model)


def _alone(model: nn.Module, inputs: list[tuple[Tensor, ...]]) -> nn.Module:
    torch.backends.quantized.engine = "qnnpack"
    model = model.requires_grad_(False).eval()
    model.qconfig = get_default_qconfig("qnnpack")
    observe(model, inplace=True)
    for row in inputs:
        model(*row)
    return convert(model)


def _traced(model: nn.Module, inputs: list[tuple[Tensor, ...]]) -> nn.Module:
    """By FX."""
    torch.backends.quantized.engine = "qnnpack"
    mapping = get_default_qconfig_mapping("qnnpack")
    observed = prepare_fx(model.requires_grad_(False).eval(), mapping, inputs[0])
    for row in inputs:
        observed(*row)
    return torch.jit.trace(convert_fx(observed), inputs[0])


def _dynamic(engine: str) -> nn.Module:
    torch.backends.quantized.engine = engine
    kinds = {nn.Linear, nn.LSTM, nn.GRU}
    spec = dict.fromkeys(kinds, default_dynamic_qconfig)
    return quantize_dynamic(Dynamic().requires_grad_(False).eval(), spec)


def write(name: str, model: nn.Module, inputs: list[tuple[Tensor, ...]]) -> list[list[object]]:
    """Save a model; what it gives for its inputs now: shape and values of each tensor."""
    compiled = torch.jit.script(model)
    methods = {compiled.forward: [tuple(InflatableArg(v, "{}") for v in row) for row in inputs]}
    saved = bundle_inputs(compiled, methods)._save_to_buffer_for_lite_interpreter()
    (FOLDER / f"{name}.ptl").write_bytes(reproducible(saved, name))
    results = [model(*row) for row in inputs]
    tensors = [[found] if isinstance(found, Tensor) else found for found in results]
    return [[[list(y.shape), _rounded(y)] for y in found] for found in tensors]


def _rounded(y: Tensor) -> list[float]:
    return [round(value, 6) for value in y.flatten().tolist()]


def main() -> None:
    prepare()
    # quantised tensors are resized, which torch does not call deterministic
    torch.use_deterministic_algorithms(False)
    warnings.filterwarnings("ignore")
    rows = [(torch.randn(1, 8, 6, 7), torch.randn(1, 6, 9)) for _ in range(2)]
    rows.append((torch.randn(2, 8, 5, 7), torch.randn(2, 6, 8)))
    steps = [(torch.randn(3, 4, 10),), (torch.randn(1, 1, 10),)]
    expected = {
        "channels": write("channels", _static("fbgemm", rows), rows),
        "tensors": write("tensors", _static("qnnpack", rows), rows),
        "dynamic": write("dynamic", _dynamic("qnnpack"), steps),
    }
    images = [(torch.randn(2, 6, 6, 6),), (torch.randn(1, 6, 6, 6),)]
    expected["chains"] = write("chains", _chains(images), images)
    images = [(torch.randn(2, 5, 4, 6),), (torch.randn(1, 5, 4, 6),)]
    expected["rows"] = write("rows", _alone(Rows(), images), images)
    # as tests/integration/memory_program.py has them
    picture = torch.arange(2048) % 7 - 3.0
    picture[::2] = torch.arange(1024) % 5 - 2.0
    images = [(each.reshape(1, -1, 1, 1).clone(),) for each in (picture[:1024], picture[::2])]
    expected["wide"] = write("wide", _traced(Wide(), images), images)
    (FOLDER / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
