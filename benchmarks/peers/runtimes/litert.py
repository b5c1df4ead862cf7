"""LiteRT with its XNNPACK delegate, which its interpreter applies by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.runtimes import Case, Opened, folder_of


def convert(model: str, folder: Path) -> None:
    """Write model.tflite."""
    import litert_torch

    from benchmarks.peers.exporting import subject

    found = subject(model)
    litert_torch.convert(found.straight, found.inputs).export(str(folder / "model.tflite"))


def load(case: Case) -> Any:
    """Import it."""
    from ai_edge_litert import interpreter

    return interpreter


def open(loaded: Any, case: Case) -> Opened:
    """Make an interpreter; the input is copied in once."""
    path = str(case.folder / "model.tflite")
    interpreter = loaded.Interpreter(model_path=path, num_threads=case.threads)
    interpreter.allocate_tensors()
    (wanted,) = interpreter.get_input_details()
    interpreter.set_tensor(wanted["index"], case.input.astype(wanted["dtype"]))
    at = interpreter.get_output_details()[0]["index"]
    return Opened(interpreter.invoke, lambda: interpreter.get_tensor(at))


def libraries() -> Mapping[str, tuple[Path, ...]]:
    """What ran, and the C library for an app that the wheel has besides."""
    folder = folder_of("ai_edge_litert")
    return {
        "libpywrap_litert_common, as run": (folder / "libpywrap_litert_common.so",),
        "libLiteRt, not run": (folder / "libLiteRt.so",),
    }
