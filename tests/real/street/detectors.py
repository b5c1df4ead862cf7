"""Thin detectors of torchvision whose scores are apart. Runs in torch's Python.

Usage: detectors.py FOLDER: writes what the detectors give for pictures of other sizes than their
examples, `ssdlite.json` and `rcnn.json`, as `make.py` does.
"""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Tuple  # noqa: UP035

import torch
from make import calls_of
from torch import Tensor, nn
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.models.detection.rpn import AnchorGenerator
from torchvision.models.detection.ssd import SSD, DefaultBoxGenerator
from torchvision.models.detection.ssdlite import SSDLiteHead
from torchvision.ops import MultiScaleRoIAlign


def spread(module: nn.Module, gain: float) -> None:
    """Weights that give scores which are apart, so that their order is not by chance."""
    numbers = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, one in module.named_parameters():
            if one.dim() > 1:
                made = torch.randn(one.shape, generator=numbers)
                one.copy_(made * gain / one[0].numel() ** 0.5)
            elif name.endswith("bias"):
                one.copy_(torch.randn(one.shape, generator=numbers) * 0.3)


class Backbone(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()

        def block(given: int, made: int) -> nn.Sequential:
            layer = nn.Conv2d(given, made, 3, stride=2, padding=1, bias=False)
            return nn.Sequential(layer, nn.BatchNorm2d(made), nn.ReLU6())

        self.first = nn.Sequential(block(3, 8), block(8, 16))
        self.second, self.third = block(16, 16), block(16, 16)
        self.out_channels = 16

    def forward(self, x: Tensor) -> Dict[str, Tensor]:  # noqa: UP006  TorchScript reads it
        first = self.first(x)
        second = self.second(first)
        return {"0": first, "1": second, "2": self.third(second)}


def ssdlite() -> nn.Module:
    torch.manual_seed(0)
    boxes = DefaultBoxGenerator([[2, 3]] * 3, min_ratio=0.2, max_ratio=0.95)
    head = SSDLiteHead([16] * 3, [6] * 3, 5, partial(nn.BatchNorm2d, eps=0.001))
    made = SSD(
        Backbone(),
        boxes,
        (96, 96),
        5,
        head=head,
        score_thresh=0.3,
        detections_per_img=12,
        topk_candidates=50,
    )
    spread(made.backbone, 1.4)
    spread(made.head, 1.0)
    return made.eval()


def rcnn() -> nn.Module:
    torch.manual_seed(0)
    anchors = AnchorGenerator(((16,), (32,), (64,)), ((0.5, 1.0, 2.0),) * 3)
    made = FasterRCNN(
        Backbone(),
        None,
        min_size=64,
        max_size=160,
        rpn_anchor_generator=anchors,
        box_roi_pool=MultiScaleRoIAlign(["0", "1", "2"], 5, 2),
        rpn_pre_nms_top_n_test=60,
        rpn_post_nms_top_n_test=30,
        box_head=nn.Sequential(nn.Flatten(), nn.Linear(400, 32), nn.ReLU()),
        box_predictor=FastRCNNPredictor(32, 4),
        box_score_thresh=0.3,
        box_detections_per_img=10,
    )
    spread(made.backbone, 1.4)
    spread(made.rpn, 0.8)
    spread(made.roi_heads, 1.0)
    return made.eval()


def pictures() -> List[Tuple[Any, ...]]:  # noqa: UP006
    numbers = torch.Generator().manual_seed(7)
    sizes = ([(80, 100)], [(128, 96), (64, 64)])
    return [([torch.randn(3, *one, generator=numbers) for one in each],) for each in sizes]


# Of other sizes than the examples, and two at once. Whose scale TorchScript computes otherwise than
# Python, which makes a size one smaller, are left out.
CALLS = [
    ["forward", [{"shape": [3, 60, 140]}]],
    ["forward", [{"shape": [3, 200, 90]}]],
    ["forward", [{"shape": [3, 96, 48]}, {"shape": [3, 64, 128]}]],
    ["forward", [{"shape": [3, 40, 40]}]],
]

if __name__ == "__main__":
    for make in (ssdlite, rcnn):
        text = json.dumps(calls_of(make(), {"calls": CALLS}))
        Path(sys.argv[1], f"{make.__name__}.json").write_text(text, encoding="utf-8")
