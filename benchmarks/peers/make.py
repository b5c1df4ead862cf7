"""Writes what every runtime needs of every model, in the peers' Python.

    python -m benchmarks.peers.make FOLDER MODEL...

Of each: `FOLDER/<model>/model.ptl` for ours; the input as `input.npy`, and as `input.bin` and
`input.json` for what has no numpy; `expected.bin`, eager torch's output in float32.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy
import torch

from benchmarks.peers.catalogue import INT8_TOLERANCE, MODELS
from benchmarks.peers.exporting import ROOT, Subject, as_ptl, subject
from benchmarks.peers.quantising import as_int8_ptl, calibration


def make(name: str, folder: Path) -> None:
    """One model's files."""
    folder.mkdir(parents=True, exist_ok=True)
    found = subject(name)
    with torch.no_grad():
        expected = found.model(*found.inputs)
        same = found.straight(*found.inputs)
    torch.testing.assert_close(same, expected)
    if MODELS[name].float32:
        check_int8_tolerance(found, expected)
    (given,) = found.inputs
    numpy.save(folder / "input.npy", given.numpy())
    (folder / "input.bin").write_bytes(given.numpy().tobytes())
    told = {"dtype": str(given.numpy().dtype), "shape": list(given.shape)}
    (folder / "input.json").write_text(json.dumps(told))
    (folder / "expected.bin").write_bytes(expected.numpy().astype(numpy.float32).tobytes())
    committed = MODELS[name].committed
    if committed:
        shutil.copyfile(ROOT / committed, folder / "model.ptl")
    else:
        as_file = as_ptl if MODELS[name].float32 is None else as_int8_ptl
        (folder / "model.ptl").write_bytes(as_file("model", found))


def check_int8_tolerance(found: Subject, expected: torch.Tensor) -> None:
    """The result of another input would not pass as this one's."""
    with torch.no_grad():
        gaps = [(found.model(one) - expected).abs().max() for one in calibration()]
    nearest = float(min(gaps) / (expected.max() - expected.min()))
    assert nearest > INT8_TOLERANCE, f"another input is as near as {nearest:.3f}"


def main(arguments: Sequence[str]) -> int:
    """Make the models that are named."""
    folder = Path(arguments[0])
    for name in arguments[1:]:
        make(name, folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
