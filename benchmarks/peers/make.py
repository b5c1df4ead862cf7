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

from benchmarks.peers.catalogue import MODELS
from benchmarks.peers.exporting import ROOT, as_ptl, subject


def make(name: str, folder: Path) -> None:
    """One model's files."""
    folder.mkdir(parents=True, exist_ok=True)
    found = subject(name)
    with torch.no_grad():
        expected = found.model(*found.inputs)
        same = found.straight(*found.inputs)
    torch.testing.assert_close(same, expected)
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
        (folder / "model.ptl").write_bytes(as_ptl("model", found))


def main(arguments: Sequence[str]) -> int:
    """Make the models that are named."""
    folder = Path(arguments[0])
    for name in arguments[1:]:
        make(name, folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
