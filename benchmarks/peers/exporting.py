"""The models in eager torch, the same weights every time. Needs torch.

The apps' own models come from their export scripts, at the seed that these use; so they have the
weights of the committed files.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "apps")]

import torch  # noqa: E402
from export_support.mobilenet import InvertedResidual, _conv  # noqa: E402
from torch import nn  # noqa: E402

from benchmarks.peers.catalogue import SEED  # noqa: E402
from orchestrator.export.saving import Export, export, prepare, trace  # noqa: E402

# Sandler et al. 2018, table 2: expansion, channels, repeats, first stride.
_STAGES: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_WIDTH: Final = 256
_HEADS: Final = 4
_FEED: Final = 1024
_TOKENS: Final = 64
_LAYERS: Final = 4


@dataclass(frozen=True)
class Subject:
    """A model and the input that it is timed with; `straight` is what runtimes without control
    flow get: the part of the model that this input reaches."""

    model: Any
    inputs: tuple[Any, ...]
    straight: Any


class MobileNetV2(nn.Module):  # type: ignore[misc]  # torch is not there for mypy
    """Images [1, 3, 224, 224] to scores [1, 1000]."""

    def __init__(self) -> None:
        super().__init__()
        layers = [_conv(3, 32, 3, 2)]
        channels = 32
        for expansion, width, repeats, stride in _STAGES:
            for step in range(repeats):
                first = stride if step == 0 else 1
                layers.append(InvertedResidual(channels, width, first, expansion))
                channels = width
        layers.append(_conv(channels, 1280, 1, 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(images).mean([2, 3]))


class EncoderLayer(nn.Module):  # type: ignore[misc]
    """Self-attention and a feed-forward step, written out: PyTorch 1.13.1 has no
    `scaled_dot_product_attention`."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(_WIDTH)
        self.query = nn.Linear(_WIDTH, _WIDTH)
        self.key = nn.Linear(_WIDTH, _WIDTH)
        self.value = nn.Linear(_WIDTH, _WIDTH)
        self.mix = nn.Linear(_WIDTH, _WIDTH)
        self.before_feed = nn.LayerNorm(_WIDTH)
        self.feed = nn.Sequential(nn.Linear(_WIDTH, _FEED), nn.GELU(), nn.Linear(_FEED, _WIDTH))

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(1, _TOKENS, _HEADS, _WIDTH // _HEADS).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = self.before_attention(x)
        query, key, value = self.query(seen), self.key(seen), self.value(seen)
        weights = torch.matmul(self.heads(query), self.heads(key).transpose(-2, -1))
        weights = torch.softmax(weights * (_WIDTH // _HEADS) ** -0.5, dim=-1)
        mixed = torch.matmul(weights, self.heads(value)).transpose(1, 2)
        x = x + self.mix(mixed.reshape(1, _TOKENS, _WIDTH))
        return x + self.feed(self.before_feed(x))


class StraightNextWord(nn.Module):  # type: ignore[misc]
    """What keyboard's model computes for a few known words."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        # not the model itself: a converter would see its other methods
        self.embedding, self.lstm, self.output = model.embedding, model.lstm, model.output

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.embedding(ids))
        return torch.log_softmax(self.output(states[:, -1]), dim=1)


def _script(app: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{app}_export", ROOT / f"apps/{app}/export.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _committed(app: str, name: str) -> Subject:
    export = _script(app).export()[name]
    model, inputs = export.eager.eval(), export.inputs
    forward = inputs["forward"] if isinstance(inputs, Mapping) else inputs
    return Subject(model, forward[0], model)


def _camera() -> Subject:
    return _committed("camera", "classifier")


def _keyboard() -> Subject:
    found = _committed("keyboard", "next_word")
    return Subject(found.model, found.inputs, StraightNextWord(found.model).eval())


def _reader() -> Subject:
    return _committed("reader", "recogniser")


def images(count: int, seed: int) -> Any:
    """Pictures [count, 3, 224, 224] in 0..1: blobs of other sizes, colours and contrasts in each,
    and a little noise."""
    drawn = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        cells = int(torch.randint(2, 17, (1,), generator=drawn))
        blobs = torch.rand(1, 3, cells, cells, generator=drawn)
        low, contrast = torch.rand(2, 1, 3, 1, 1, generator=drawn)
        picture = nn.functional.interpolate(blobs, size=224, mode="bilinear")
        picture = 0.6 * low + (1 - 0.6 * low) * contrast * picture
        made.append(0.95 * picture + 0.05 * torch.rand(1, 3, 224, 224, generator=drawn))
    return torch.cat(made)


def _mobilenet() -> Subject:
    """Its scores depend on the picture, as a trained network's do, so that a wrong kernel shows.

    Batch norm has the statistics of pictures: with made-up ones, each layer leaves less of what a
    picture is. Most activations are positive: random layers that cut half of theirs off would make
    more of every rounding than of the picture.
    """
    model = MobileNetV2()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_in")
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.7, 1.3)
            nn.init.normal_(module.bias, mean=1, std=0.2)
            module.momentum = None  # the statistics are those of all that it sees
    with torch.no_grad():
        model(images(8, SEED))
    return Subject(model.eval(), (images(1, SEED + 1),), model)


def _mobilenet_int8() -> Subject:
    found = _mobilenet()
    for module in found.model.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU6):
                # as torchvision's quantised one: tools know "relu" as the end of a convolution
                setattr(module, name, nn.ReLU().eval())
    return found


def _encoder() -> Subject:
    model = nn.Sequential(*(EncoderLayer() for _ in range(_LAYERS))).eval()
    return Subject(model, (torch.randn(1, _TOKENS, _WIDTH),), model)


_SUBJECTS: Final[Mapping[str, Callable[[], Subject]]] = {
    "camera": _camera,
    "mobilenet": _mobilenet,
    "mobilenet_int8": _mobilenet_int8,
    "keyboard": _keyboard,
    "reader": _reader,
    "encoder": _encoder,
}


def subject(name: str) -> Subject:
    """A model by its name in the catalogue, seeded."""
    prepare()
    return _SUBJECTS[name]()


def as_ptl(name: str, found: Subject) -> bytes:
    """The model's file for our libraries: traced, and frozen as the guide says, which folds batch
    norm."""
    compiled = torch.jit.freeze(trace(found.model, *found.inputs))
    model = Export(found.model, [found.inputs], compiled=compiled, canonical="off")
    return export(name, model).data


def write_onnx(name: str, path: Path) -> None:
    """The model as ONNX, by torch's TorchScript exporter."""
    found = subject(name)
    torch.onnx.export(
        found.straight, found.inputs, str(path), opset_version=17, dynamo=False, input_names=["x"]
    )


def write_torchscript(found: Subject, path: Path) -> None:
    """The model, traced, for converters that read TorchScript."""
    trace(found.straight, *found.inputs).save(str(path))
