"""ncnn, converted by pnnx; float32 throughout, on the CPU."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import MODELS
from benchmarks.peers.runtimes import Case, NotMeasuredError, Opened, folder_of


def convert(model: str, folder: Path) -> None:
    """Write model.ncnn.param and .bin."""
    if MODELS[model].float32 is not None:
        raise NotMeasuredError(
            "its wheel has no quantiser: ncnn2table and ncnn2int8 are built from source"
        )
    from benchmarks.peers.exporting import subject, write_torchscript

    found = subject(model)
    write_torchscript(found, folder / "model.pt")
    (given,) = found.inputs
    kind = "i64" if str(given.dtype) == "torch.int64" else "f32"
    shape = ",".join(map(str, given.shape))
    command = [str(folder_of("pnnx") / "pnnx"), str(folder / "model.pt")]
    command += [f"inputshape=[{shape}]{kind}", "fp16=0"]
    subprocess.run(command, check=True, cwd=folder)
    if not (folder / "model.ncnn.param").is_file():
        raise NotMeasuredError("pnnx wrote no ncnn model")


def load(case: Case) -> Any:
    """Import it."""
    import ncnn

    return ncnn


def open(loaded: Any, case: Case) -> Opened:
    """Load the net. Its tensors have no axis for a batch."""
    import numpy

    net = loaded.Net()
    net.opt.num_threads = case.threads
    net.opt.use_vulkan_compute = False
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
        setattr(net.opt, option, False)
    if net.load_param(str(case.folder / "model.ncnn.param")):
        raise NotMeasuredError("ncnn does not load what pnnx wrote")
    net.load_model(str(case.folder / "model.ncnn.bin"))
    given = case.input[0]
    if given.dtype == numpy.int64:
        given = given.astype(numpy.int32)
    mat = loaded.Mat(numpy.ascontiguousarray(given)).clone()
    last: list[Any] = []

    def run() -> None:
        extractor = net.create_extractor()
        extractor.input("in0", mat)
        status, found = extractor.extract("out0")
        if status:
            raise NotMeasuredError(f"ncnn does not run it: status {status}")
        last[:] = [found]

    return Opened(run, lambda: numpy.array(last[0]))


def libraries() -> Mapping[str, tuple[Path, ...]]:
    """The Python module, which is the engine, Vulkan included."""
    return {"the Python module, with Vulkan": tuple(folder_of("ncnn").glob("ncnn*.so"))}
