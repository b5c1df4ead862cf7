"""OpenVINO's CPU plugin, from ONNX; int8 from what ONNX Runtime's quantiser wrote.

Its own quantiser, NNCF, is not used: it tells a server of its maker's what was quantised.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.runtimes import Case, Opened, folder_of

_LEVELS: Final = ("sse", "avx")


def convert(model: str, folder: Path) -> None:
    """Write model.openvino.onnx."""
    from benchmarks.peers.runtimes.onnx_runtime import write

    write(model, folder / "model.openvino.onnx")


def load(case: Case) -> Any:
    """Import it."""
    import openvino

    return openvino


def open(loaded: Any, case: Case) -> Opened:
    """Compile the model for one request at a time."""
    chosen = {
        "INFERENCE_NUM_THREADS": case.threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    path = str(case.folder / "model.openvino.onnx")
    compiled = loaded.Core().compile_model(path, "CPU", chosen)
    request = compiled.create_infer_request()
    given = loaded.Tensor(case.input)
    request.set_input_tensor(given)
    return Opened(request.infer, lambda: request.get_output_tensor(0).data.copy(), _level(compiled))


def _level(compiled: Any) -> str:
    # such as jit_avx512_FP32
    kinds = [
        operation.get_rt_info()["primitiveType"].astype(str).split("_")
        for operation in compiled.get_runtime_model().get_ops()
        if "primitiveType" in operation.get_rt_info()
    ]
    return ", ".join(sorted({part for kind in kinds for part in kind if part[:3] in _LEVELS}))


def libraries() -> Mapping[str, tuple[Path, ...]]:
    """The engine, its CPU plugin and the reader of ONNX files."""
    folder = folder_of("openvino") / "libs"
    found = []
    for name in ("libopenvino", "libopenvino_intel_cpu_plugin", "libopenvino_onnx_frontend"):
        found += sorted(folder.glob(f"{name}.so*"))[:1]
    return {"libopenvino, CPU plugin, ONNX frontend": tuple(found)}
