"""torchvision's operators in plain Python, by their papers and their documentation: slow.

A tensor is its shape and its elements, row by row. Numbers are float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Array:
    shape: tuple[int, ...]
    elements: list[float]

    def at(self, *index: int) -> float:
        """An element."""
        place = 0
        for size, one in zip(self.shape, index, strict=True):
            assert 0 <= one < size
            place = place * size + one
        return self.elements[place]


def nms(dets: Array, scores: Array, threshold: float) -> list[Array]:
    """Boxes by their scores, without those that overlap one before them."""

    def overlap(a: int, b: int) -> float:
        (l1, t1, r1, b1), (l2, t2, r2, b2) = ([dets.at(n, k) for k in range(4)] for n in (a, b))
        both = max(0.0, min(r1, r2) - max(l1, l2)) * max(0.0, min(b1, b2) - max(t1, t2))
        union = (r1 - l1) * (b1 - t1) + (r2 - l2) * (b2 - t2) - both
        return both / union if union else math.nan

    def rank(n: int) -> float:
        score = scores.at(n)
        return math.inf if math.isnan(score) else score

    kept: list[int] = []
    for n in sorted(range(dets.shape[0]), key=rank, reverse=True):
        if not any(overlap(other, n) > threshold for other in kept):
            kept.append(n)
    return [Array((len(kept),), [float(n) for n in kept])]


def _inside(image: Array, n: int, c: int, y: float, x: float) -> float:
    """Bilinear interpolation; beyond the last row it is the last row's, up to one row away."""
    _, _, rows, columns = image.shape
    if not (-1 <= y <= rows and -1 <= x <= columns):
        return 0.0
    y, x = min(max(y, 0), rows - 1), min(max(x, 0), columns - 1)
    total = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            weight = max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(x - column))
            if weight:
                total += weight * image.at(n, c, row, column)
    return total


def _bins(
    rois: Array,
    k: int,
    scale: float,
    size: tuple[int, int],
    ratio: int,
    offset: float,
    least: float,
) -> tuple[int, dict[tuple[int, int], list[tuple[float, float]]], int]:
    """The image of a region, the points of each of its bins, and by what their sum is divided."""
    left, top, right, bottom = (rois.at(k, n) * scale - offset for n in range(1, 5))
    down, across = max(bottom - top, least) / size[0], max(right - left, least) / size[1]
    grid = [ratio if ratio > 0 else math.ceil(one) for one in (down, across)]
    points = {
        (i, j): [
            (
                top + down * (i + (m + 0.5) / grid[0]),
                left + across * (j + (n + 0.5) / grid[1]),
            )
            for m in range(grid[0])
            for n in range(grid[1])
        ]
        for i in range(size[0])
        for j in range(size[1])
    }
    return int(rois.at(k, 0)), points, grid[0] * grid[1]


def roi_align(
    image: Array, rois: Array, scale: float, height: int, width: int, ratio: int, aligned: bool
) -> list[Array]:
    """Means of the bins of regions."""
    out = []
    for k in range(rois.shape[0]):
        offset, least = (0.5, -math.inf) if aligned else (0.0, 1.0)
        n, bins, count = _bins(rois, k, scale, (height, width), ratio, offset, least)
        for c in range(image.shape[1]):
            out += [
                sum(_inside(image, n, c, y, x) for y, x in points) / max(count, 1)
                for points in bins.values()
            ]
    return [Array((rois.shape[0], image.shape[1], height, width), out)]


def ps_roi_align(
    image: Array, rois: Array, scale: float, height: int, width: int, ratio: int
) -> list[Array]:
    """Means of the bins of regions, each bin of channels of its own; and these channels."""
    made = image.shape[1] // (height * width)
    out, channels = list[float](), list[float]()
    for k in range(rois.shape[0]):
        n, bins, count = _bins(rois, k, scale, (height, width), ratio, 0.5, -math.inf)
        for c in range(made):
            for (i, j), points in bins.items():
                channel = (c * height + i) * width + j
                total = sum(_inside(image, n, channel, y, x) for y, x in points)
                out.append(total / count if count else math.nan)
                channels.append(float(channel))
    shape = (rois.shape[0], made, height, width)
    return [Array(shape, out), Array(shape, channels)]


def deform_conv2d(
    image: Array,
    weight: Array,
    offset: Array,
    mask: Array,
    bias: Array,
    *numbers: int,
) -> list[Array]:
    """A convolution at moved points; outside of the image it is 0."""
    *pairs, groups, offset_groups, use_mask = numbers
    stride, padding, dilation = pairs[:2], pairs[2:4], pairs[4:6]
    images, channels, rows, columns = image.shape
    made, in_group, *kernel = weight.shape
    size = offset.shape[2:]

    def seen(n: int, c: int, i: int, j: int, row: int, column: int) -> float:
        point = (c // (channels // offset_groups) * kernel[0] + i) * kernel[1] + j
        y = row * stride[0] - padding[0] + i * dilation[0] + offset.at(n, 2 * point, row, column)
        x = (
            column * stride[1]
            - padding[1]
            + j * dilation[1]
            + offset.at(n, 2 * point + 1, row, column)
        )
        total = 0.0
        for a in (math.floor(y), math.floor(y) + 1):
            for b in (math.floor(x), math.floor(x) + 1):
                if 0 <= a < rows and 0 <= b < columns:
                    total += (1 - abs(y - a)) * (1 - abs(x - b)) * image.at(n, c, a, b)
        return total * (mask.at(n, point, row, column) if use_mask else 1)

    out = [
        bias.at(o)
        + sum(
            weight.at(o, c, i, j) * seen(n, o // (made // groups) * in_group + c, i, j, row, column)
            for c in range(in_group)
            for i in range(kernel[0])
            for j in range(kernel[1])
        )
        for n in range(images)
        for o in range(made)
        for row in range(size[0])
        for column in range(size[1])
    ]
    return [Array((images, made, *size), out)]


def call(operator: str, arguments: Sequence[object]) -> list[Array]:
    """What an operator gives."""
    known = {
        "nms": nms,
        "roi_align": roi_align,
        "ps_roi_align": ps_roi_align,
        "deform_conv2d": deform_conv2d,
    }
    found: list[Array] = known[operator](*arguments)  # type: ignore[operator]
    return found
