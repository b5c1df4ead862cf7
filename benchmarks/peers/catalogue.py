"""What is compared: models and runtimes by name. Values only: both Pythons read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SEED: Final = 1131
THREADS: Final = (1, 2)
# A result that is further from eager torch's than this is wrong, not rounded.
TOLERANCE: Final = 1e-3
# The same for an int8 model, as a share of the spread of eager torch's float32 result.
INT8_TOLERANCE: Final = 0.05


@dataclass(frozen=True)
class Model:
    """A model: what it is, in words, and the committed file that ours runs (None: exported).

    `float32` is set for a model in int8: the one in float32 whose weights it has.
    """

    title: str
    committed: str | None = None
    float32: str | None = None


@dataclass(frozen=True)
class Runtime:
    """A runtime: its name for readers, and the Python distributions that bring or convert for it.

    `declared` is set for ours: what the app's declaration says of kernels, CPU levels and threads.
    `level` says which instructions it uses, where that is documented and the runtime itself does
    not tell.
    """

    title: str
    distributions: tuple[str, ...] = ()
    declared: Mapping[str, object] | None = None
    level: str | None = None


MODELS: Final[Mapping[str, Model]] = {
    "camera": Model(
        "camera's classifier, 3x96x96, a thin MobileNetV2", "apps/camera/models/classifier.ptl"
    ),
    "mobilenet": Model("MobileNetV2 1.0, 3x224x224, 1,000 classes"),
    "mobilenet_int8": Model(
        "MobileNetV2 in int8: static, a scale for each output channel; relu in place of relu6",
        float32="mobilenet",
    ),
    "keyboard": Model("keyboard's LSTM, 4 words", "apps/keyboard/models/next_word.ptl"),
    "reader": Model(
        "reader's recogniser, a small transformer", "apps/reader/models/recogniser.ptl"
    ),
    "encoder": Model("transformer encoder, 4 layers, d = 256, 4 heads, ff = 1,024, 64 tokens"),
}

RUNTIMES: Final[Mapping[str, Runtime]] = {
    "ours": Runtime(
        "ours, `kernels: auto`",
        declared={"kernels": "auto"},
        level="FMA3 and AVX2 where the processor has them, AVX-512 for models with much work where"
        " it computes 512 bits at once, int8 layers AVX-512 VNNI or AVX-VNNI, else SSE2"
        " (docs/guide/speed.md)",
    ),
    "ours-avx2": Runtime(
        "ours, without AVX-512 for floats",
        declared={"kernels": "auto", "cpu": {"x86_64": ["avx2", "avx512vnni"]}},
        level="as above without AVX-512 for floats",
    ),
    "ours-avx512": Runtime(
        "ours, AVX-512 declared",
        # a library without int8 layers leaves VNNI out
        declared={"kernels": "auto", "cpu": {"x86_64": ["avx2", "avx512vnni", "avx512"]}},
        level="AVX-512 for all models where it computes 512 bits at once",
    ),
    "ours-threads": Runtime(
        "ours, `threads: 2`",
        declared={"kernels": "auto", "threads": 2},
        level="as with `kernels: auto`",
    ),
    "ours-native": Runtime("ours, `kernels: native`", declared={"kernels": "native"}, level="SSE2"),
    "torch": Runtime("PyTorch, TorchScript", ("torch",)),
    "torch-lite": Runtime("PyTorch, lite interpreter", ("torch",)),
    "onnxruntime": Runtime("ONNX Runtime", ("onnxruntime", "onnx")),
    "litert": Runtime(
        "LiteRT", ("ai-edge-litert", "litert-torch", "litert-converter", "ai-edge-quantizer")
    ),
    "ncnn": Runtime("ncnn", ("ncnn", "pnnx")),
    "executorch": Runtime("ExecuTorch, XNNPACK", ("executorch", "torchao")),
    "mnn": Runtime("MNN", ("MNN",)),
    "openvino": Runtime("OpenVINO", ("openvino", "onnx")),
}
