"""Draws size against latency, one dot a runtime. Needs matplotlib.

    python -m benchmarks.peers.picture PEERS_JSON SVG

The same results give the same bytes. The text and the lines have the page's colour: dark on a light
page, light on a dark one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.peers.catalogue import MODELS
from benchmarks.peers.drawing import COLOURS, INK, LABELS, adapted, label_above
from benchmarks.peers.results import PICTURED, points

_SETTINGS: Final = {
    "svg.hashsalt": "peers",
    "svg.fonttype": "none",
    "font.size": 10,
    "font.family": "sans-serif",
    **{f"{name}.color": INK for name in ("xtick", "ytick", "text", "grid")},
    **{f"axes.{name}color": INK for name in ("edge", "label", "title")},
}


def draw(results: object, output: Path) -> None:
    """Write the picture."""
    found = points(results)  # type: ignore[arg-type]
    with matplotlib.rc_context(_SETTINGS):
        figure, parts = pyplot.subplots(len(PICTURED), 1, figsize=(8, 5.6))
        for part, model in zip(parts, PICTURED, strict=True):
            part.set_title(MODELS[model].title.partition(",")[0])
            part.set_xscale("log")
            part.set_yscale("log")
            part.set_ylabel("one run, ms of CPU time")
            part.grid(visible=True, which="major", alpha=0.25)
            for side in ("top", "right"):
                part.spines[side].set_visible(False)
            for point in (one for one in found if one.model == model):
                at = (point.megabytes, point.milliseconds)
                part.plot(*at, "o", markersize=8, color=COLOURS[point.runtime])
                offset = (0, 8 if label_above(point, found) else -17)
                label = LABELS[point.runtime]
                part.annotate(label, at, offset, textcoords="offset points", ha="center")
            times = [one.milliseconds for one in found if one.model == model]
            # a factor of 4 at least, or small differences would look large
            part.set_ylim(min(times, default=1) / 2, 2 * max(times, default=1))
            part.margins(x=0.15)
            for axis in (part.xaxis, part.yaxis):
                axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter("{x:g}")
        parts[-1].set_xlabel("library, stripped, MB")
        figure.tight_layout()
        figure.savefig(output, format="svg", transparent=True, metadata={"Date": None})
        pyplot.close(figure)
    output.write_text(adapted(output.read_text(encoding="utf-8"), found), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Draw."""
    source, output = map(Path, arguments)
    draw(json.loads(source.read_text()), output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
