"""Stock PyTorch's lite interpreter, which ours are cut from, on the same frozen module.

`optimize_for_mobile` refuses: it needs XNNPACK, which the wheel is built without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.peers.runtimes import Case, Opened
from benchmarks.peers.runtimes.torch_script import frozen, libraries, load, opened

__all__ = ["convert", "libraries", "load", "open"]


def convert(model: str, folder: Path) -> None:
    """Write model.lite.ptl."""
    frozen(model)._save_for_lite_interpreter(str(folder / "model.lite.ptl"))


def open(loaded: Any, case: Case) -> Opened:
    """Load the bytecode."""
    from torch.jit.mobile import _load_for_lite_interpreter

    module = _load_for_lite_interpreter(str(case.folder / "model.lite.ptl"))
    return opened(loaded, module, case)
