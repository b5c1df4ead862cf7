"""LiteRT with its XNNPACK delegate, which its interpreter applies by itself; int8 by AI Edge
Quantizer, its maker's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import MODELS
from benchmarks.peers.runtimes import Case, Opened, folder_of


def convert(model: str, folder: Path) -> None:
    """Write model.tflite."""
    import litert_torch

    from benchmarks.peers.exporting import subject

    found, path = subject(model), str(folder / "model.tflite")
    converted = litert_torch.convert(found.straight, found.inputs)
    if MODELS[model].float32 is None:
        converted.export(path)
        return
    from ai_edge_quantizer import algorithm_manager, qtyping, quantizer, recipe

    from benchmarks.peers.quantising import calibration

    plain = str(folder / "model.float32.tflite")
    converted.export(plain)
    tool = quantizer.Quantizer(plain, recipe.static_wi8_ai8())
    # floats in and out, as with every other runtime
    for end in (qtyping.TFLOperationName.INPUT, qtyping.TFLOperationName.OUTPUT):
        skip = algorithm_manager.AlgorithmName.NO_QUANTIZE
        tool.update_quantization_recipe(".*", end, algorithm_key=skip)
    calls = [{"args_0": one.numpy()} for one in calibration()]
    tool.quantize(tool.calibrate({"serving_default": calls})).export_model(path, overwrite=True)


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
