"""Writes cases.json: calls of torchvision's operators, and what its own kernels for CPUs give.

Run by hand, where torchvision is installed: `python tests/golden/torchvision/make.py`. No test
needs torchvision. A tensor's data is its elements as they lie in memory.
"""

import base64
import json
from pathlib import Path

import torch
import torchvision

DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.int64: "int64"}
DTYPES[torch.int32] = "int32"


def boxes(count: int, size: float, dtype: torch.dtype) -> torch.Tensor:
    corners = torch.rand(count, 2, dtype=dtype) * size
    extents = torch.rand(count, 2, dtype=dtype) * size / 2
    return torch.cat([corners, corners + extents], 1)


def regions(count: int, images: int, size: float, dtype: torch.dtype) -> torch.Tensor:
    found = torch.cat([torch.randint(images, (count, 1)).to(dtype), boxes(count, size, dtype)], 1)
    found[:, 1:] -= size / 8  # some begin outside
    return found


def calls(dtype: torch.dtype) -> list[tuple[str, tuple[object, ...]]]:
    few, many = boxes(12, 10, dtype), boxes(60, 20, dtype)
    equal = torch.tensor([0.5, 0.5, 0.25, 0.5] * 3, dtype=dtype)
    strange = torch.rand(12, dtype=dtype)
    strange[4] = float("nan")
    backwards = few.clone()
    backwards[::3] = backwards[::3].flip(1)
    found: list[tuple[str, tuple[object, ...]]] = [
        ("nms", (few, torch.rand(12, dtype=dtype), 0.5)),
        ("nms", (many, torch.rand(60, dtype=dtype), 0.1)),
        ("nms", (many, torch.rand(60, dtype=dtype), 0.0)),
        ("nms", (few, equal, 0.3)),
        ("nms", (few, strange, 0.3)),
        ("nms", (backwards, torch.rand(12, dtype=dtype), 0.3)),
        ("nms", (few[:0], equal[:0], 0.5)),
        # of which the union is 0
        ("nms", (torch.zeros(3, 4, dtype=dtype), torch.rand(3, dtype=dtype), 0.5)),
    ]
    images = torch.randn(2, 3, 7, 9, dtype=dtype)
    rois = regions(5, 2, 12, dtype)
    flat = rois.clone()
    flat[0, 3:] = flat[0, 1:3]
    flat[1, 3:] = flat[1, 1:3] - 3
    away = rois.clone()
    away[:, 1:] += 100
    for aligned in (False, True):
        found += [
            ("roi_align", (images, rois, 1.0, 2, 3, -1, aligned)),
            ("roi_align", (images, rois, 0.5, 3, 2, 2, aligned)),
            ("roi_align", (images, flat, 1.0, 2, 2, -1, aligned)),
            ("roi_align", (images, flat, 1.0, 2, 2, 3, aligned)),
            ("roi_align", (images, away, 1.0, 1, 1, 2, aligned)),
            ("roi_align", (images[:, :, :1, :1], rois, 1.0, 2, 2, 0, aligned)),
        ]
    found.append(("roi_align", (images, rois[:0], 1.0, 2, 3, -1, True)))
    many_channels = torch.randn(2, 12, 6, 5, dtype=dtype)
    found += [
        ("ps_roi_align", (many_channels, rois, 1.0, 2, 3, -1)),
        ("ps_roi_align", (many_channels, rois, 0.5, 3, 2, 2)),
        ("ps_roi_align", (many_channels, flat, 1.0, 2, 2, -1)),
        ("ps_roi_align", (many_channels, away, 1.0, 1, 1, 2)),
        ("ps_roi_align", (many_channels, rois[:0], 1.0, 2, 3, -1)),
    ]
    found += [
        deformed(2, 4, 6, (6, 7), (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True, dtype),
        deformed(1, 4, 6, (7, 6), (3, 2), (2, 1), (0, 2), (1, 2), 2, 2, True, dtype),
        deformed(1, 4, 2, (5, 5), (2, 2), (1, 2), (1, 0), (2, 1), 1, 4, False, dtype),
        deformed(0, 4, 2, (5, 5), (2, 2), (1, 1), (0, 0), (1, 1), 1, 1, False, dtype),
    ]
    return found


Pair = tuple[int, int]


def deformed(
    images: int,
    channels: int,
    made: int,
    size: Pair,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    offset_groups: int,
    masked: bool,
    dtype: torch.dtype,
) -> tuple[str, tuple[object, ...]]:
    out = [
        (size[n] + 2 * padding[n] - dilation[n] * (kernel[n] - 1) - 1) // stride[n] + 1
        for n in (0, 1)
    ]
    points = offset_groups * kernel[0] * kernel[1]
    return "deform_conv2d", (
        torch.randn(images, channels, *size, dtype=dtype),
        torch.randn(made, channels // groups, *kernel, dtype=dtype),
        torch.randn(images, 2 * points, *out, dtype=dtype) * 2,
        torch.rand(images, points, *out, dtype=dtype)
        if masked
        else torch.zeros(images, 1, dtype=dtype),
        torch.randn(made, dtype=dtype),
        *stride,
        *padding,
        *dilation,
        groups,
        offset_groups,
        masked,
    )


def plain(value: object) -> object:
    if not isinstance(value, torch.Tensor):
        return value
    data = base64.b64encode(value.contiguous().numpy().tobytes()).decode()
    return {"dtype": DTYPES[value.dtype], "shape": [*value.shape], "data": data}


def main() -> None:
    torch.manual_seed(41)
    found = []
    for dtype in (torch.float32, torch.float64):
        for name, arguments in calls(dtype):
            results = getattr(torch.ops.torchvision, name)(*arguments)
            results = results if isinstance(results, tuple) else (results,)
            found.append(
                {
                    "operator": name,
                    "arguments": [*map(plain, arguments)],
                    "results": [*map(plain, results)],
                }
            )
    made = {"torchvision": torchvision.__version__, "cases": found}
    text = json.dumps(made, separators=(",", ":")).replace('{"operator"', '\n{"operator"')
    Path(__file__).with_name("cases.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
