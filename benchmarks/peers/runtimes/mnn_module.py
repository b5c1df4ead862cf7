"""MNN, converted from ONNX; high precision is float32. int8 by its own quantiser."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import MODELS
from benchmarks.peers.runtimes import Case, NotMeasuredError, Opened, folder_of


def convert(model: str, folder: Path) -> None:
    """Write model.mnn."""
    from benchmarks.peers.exporting import write_onnx

    given, made = folder / "model.mnn.onnx", folder / "model.mnn"
    write_onnx(model, given)
    # The engine's own converter. The wheel's command `mnnconvert` calls it too, but installs a
    # package by itself and tells a server of its maker's what was converted.
    import _tools

    command = ["mnnconvert", "-f", "ONNX", "--modelFile", str(given)]
    _tools.mnnconvert([*command, "--MNNModel", str(made), "--bizCode", "peers"])
    if MODELS[model].float32 is not None and made.is_file():
        settings = folder / "mnnquant.json"
        settings.write_text(json.dumps(_quantiser_settings(folder / "calibration")))
        plain = made.rename(folder / "model.float32.mnn")
        # not here: where it fails, it aborts the process
        call = "import sys, _tools; _tools.mnnquant(*sys.argv[1:])"
        command = [sys.executable, "-c", call, str(plain), str(made), str(settings)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise NotMeasuredError(f"mnnquant, its quantiser, fails: {said[-1].strip()}")
    if not made.is_file():
        raise NotMeasuredError("MNN's converter wrote no model")


def _quantiser_settings(pictures: Path) -> dict[str, object]:
    # the quantiser reads pictures of 8 bits
    from benchmarks.peers.quantising import calibration

    pictures.mkdir(exist_ok=True)
    given = calibration()
    for number, one in enumerate(given):
        pixels = (one[0].permute(1, 2, 0) * 255).round().byte().numpy()
        height, width, _ = pixels.shape
        head = f"P6\n{width} {height}\n255\n".encode()
        (pictures / f"{number}.ppm").write_bytes(head + pixels.tobytes())
    return {
        "format": "RGB",
        "mean": [0.0, 0.0, 0.0],
        "normal": [1 / 255, 1 / 255, 1 / 255],
        "width": width,
        "height": height,
        "path": f"{pictures}/",
        "used_image_num": len(given),
        "feature_quantize_method": "KL",
        "weight_quantize_method": "MAX_ABS",
    }


def load(case: Case) -> Any:
    """Import it."""
    import MNN
    import MNN.expr
    import MNN.nn

    return MNN


def open(loaded: Any, case: Case) -> Opened:
    """Load the module; the input is copied in once. A session has no control flow, which MNN
    makes an LSTM of."""
    import numpy

    chosen = {"backend": "CPU", "precision": "high", "numThread": case.threads}
    manager = loaded.nn.create_runtime_manager((chosen,))
    path = str(case.folder / "model.mnn")
    net = loaded.nn.load_module_from_file(path, ["x"], [], runtime_manager=manager)
    given, kind = case.input, loaded.expr.float
    if given.dtype == numpy.int64:
        given, kind = given.astype(numpy.int32), loaded.expr.int
    at = loaded.expr.placeholder(given.shape, loaded.expr.NCHW, kind)
    at.write(given)
    last: list[Any] = []

    def run() -> None:
        last[:] = [net.forward(at)]

    def output() -> Any:
        found = last[0][0] if isinstance(last[0], (list, tuple)) else last[0]
        return numpy.array(found.read())

    return Opened(run, output)


def libraries() -> Mapping[str, tuple[Path, ...]]:
    """The Python module, which is the engine."""
    found = tuple(folder_of("MNN").parent.glob("_mnncengine*.so"))
    return {"the Python module": found}
