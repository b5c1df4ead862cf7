"""ONNX Runtime, its CPU provider, from torch's TorchScript exporter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.runtimes import Case, Opened, folder_of


def convert(model: str, folder: Path) -> None:
    """Write model.onnx."""
    from benchmarks.peers.exporting import write_onnx

    write_onnx(model, folder / "model.onnx")


def load(case: Case) -> Any:
    """Import it."""
    import onnxruntime

    return onnxruntime


def open(loaded: Any, case: Case) -> Opened:
    """Make a session."""
    options = loaded.SessionOptions()
    options.intra_op_num_threads = case.threads
    options.inter_op_num_threads = 1
    path = str(case.folder / "model.onnx")
    session = loaded.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {session.get_inputs()[0].name: case.input}
    last: list[Any] = []

    def run() -> None:
        last[:] = session.run(None, given)

    return Opened(run, lambda: last[0])


def libraries() -> Mapping[str, tuple[Path, ...]]:
    """The engine; the Python module has the same in it and is not counted."""
    found = sorted((folder_of("onnxruntime") / "capi").glob("libonnxruntime.so*"))
    return {"libonnxruntime": tuple(found[:1])}
