"""ONNX Runtime, its CPU provider, from torch's TorchScript exporter; int8 by its own quantiser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import MODELS
from benchmarks.peers.runtimes import Case, Opened, folder_of


def convert(model: str, folder: Path) -> None:
    """Write model.onnx."""
    write(model, folder / "model.onnx")


def write(model: str, path: Path) -> None:
    """Write a model as ONNX; one in int8 in the form that its documentation recommends for x86:
    QDQ, unsigned activations, signed weights."""
    from benchmarks.peers.exporting import write_onnx

    write_onnx(model, path)
    if MODELS[model].float32 is None:
        return
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    from benchmarks.peers.quantising import calibration

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = iter(calibration())

        def get_next(self) -> Any:
            given = next(self.rest, None)
            return None if given is None else {"x": given.numpy()}

    prepared = path.with_suffix(".prepared.onnx")
    quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared),
        str(path),
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


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
