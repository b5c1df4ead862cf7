"""A thin MobileNetV2: inverted residuals with relu6 and batch norm, for 3x96x96 images."""

from __future__ import annotations

import torch
from torch import nn

# Sandler et al. 2018, table 2, at thin widths: expansion, channels, repeats, first stride.
_STAGES = ((1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2), (6, 24, 2, 2), (6, 32, 1, 1))
_STEM = 8
FEATURES = 64


def _conv(inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    """Expand, filter each channel alone, project; add the input where the shapes allow it."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = [] if expansion == 1 else [_conv(inputs, hidden, 1, 1)]
        layers += [
            _conv(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.residual else y


class MobileNet(nn.Module):
    """Images [N, 3, 96, 96] in 0..1 to class probabilities [N, classes]; `head` sees features."""

    def __init__(self, classes: int, head: nn.Module | None = None) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv(3, _STEM, 3, 2)]
        channels = _STEM
        for expansion, width, repeats, stride in _STAGES:
            for step in range(repeats):
                layers.append(
                    InvertedResidual(channels, width, stride if step == 0 else 1, expansion)
                )
                channels = width
        layers.append(_conv(channels, FEATURES, 1, 1))
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = head if head is not None else nn.Identity()
        self.classifier = nn.Linear(FEATURES, classes)
        self._initialise()

    def _initialise(self) -> None:
        # Not trained: the numbers only have to move, so that a wrong kernel shows.
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                # fan_out would count a depthwise filter's outputs as if every input fed them.
                nn.init.kaiming_normal_(module.weight, mode="fan_in")
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.7, 1.3)
                nn.init.normal_(module.bias, std=0.2)
                nn.init.normal_(module.running_mean, std=0.2)
                nn.init.uniform_(module.running_var, 0.5, 1.5)
        nn.init.normal_(self.classifier.weight, std=0.1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pooled = self.pool(self.features(images)).flatten(1)
        return torch.softmax(self.classifier(self.head(pooled)), dim=1)


def sample_images() -> list[tuple[torch.Tensor]]:
    """Two images [1, 3, 96, 96] in 0..1: a gradient with a disc, and noise."""
    axis = torch.linspace(0, 1, 96)
    rows, columns = torch.meshgrid(axis, axis, indexing="ij")
    disc = ((rows - 0.5) ** 2 + (columns - 0.4) ** 2 < 0.06).float()
    gradient = torch.stack((rows, columns, disc)).unsqueeze(0)
    return [(gradient,), (torch.rand(1, 3, 96, 96),)]
