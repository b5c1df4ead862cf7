"""What the picture says and how it fits its page; values and text only, without matplotlib."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.peers.results import Point

# stands for the page's colour of text; nothing else in a picture has it
INK: Final = "#010203"
_LIGHT: Final = "#1f2328"
_DARK: Final = "#e6edf3"


LABELS: Final[Mapping[str, str]] = {
    "ours": "ours",
    "torch": "PyTorch",
    "torch-lite": "PyTorch, lite",
    "onnxruntime": "ONNX Runtime",
    "litert": "LiteRT",
    "ncnn": "ncnn",
    "executorch": "ExecuTorch",
    "mnn": "MNN",
    "openvino": "OpenVINO",
}
# Dots whose sizes differ by less than this factor stand over each other.
_NEAR: Final = 1.5
# Readable on white and on black.
COLOURS: Final[Mapping[str, str]] = dict.fromkeys(LABELS, "#4a90d9") | {"ours": "#d1242f"}


def label_above(point: Point, points: Sequence[Point]) -> bool:
    """Whether a dot's label goes above it: where no other dot of its model is there."""
    return not any(
        other.model == point.model
        and 1 / _NEAR < other.megabytes / point.megabytes < _NEAR
        and (other.milliseconds, other.runtime) > (point.milliseconds, point.runtime)
        for other in points
    )


def description(points: Sequence[Point]) -> str:
    """The picture in words, exact enough to tell whether it is that of some results."""
    told = [
        f"{one.model}, {one.runtime}: {one.megabytes:.3f} MB, {one.milliseconds:.3f} ms"
        for one in points
    ]
    return "; ".join(told)


def adapted(svg: str, points: Sequence[Point]) -> str:
    """An SVG of matplotlib's with the page's colours and a description."""
    style = (
        f"<style>svg {{ color: {_LIGHT}; font-family: system-ui, sans-serif }}"
        f" @media (prefers-color-scheme: dark) {{ svg {{ color: {_DARK} }} }}</style>\n"
    )
    head = (
        "<title>Bytes of the library against CPU time of a run</title>\n"
        f"<desc>{description(points)}</desc>\n{style}"
    )
    svg = re.sub(r" <metadata>.*?</metadata>\n", "", svg, flags=re.DOTALL)
    svg = svg.replace(INK, "currentColor")
    return re.sub(r"(<svg [^>]*>\n)", lambda found: found[1] + head, svg, count=1)
