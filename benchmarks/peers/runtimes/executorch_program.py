"""ExecuTorch with its XNNPACK delegate, run by a program of C++: its Python module imports torch.

The program is `executorch_runner.cpp`, linked with the libraries that the wheel brings: once with
the delegate alone, which is all that some models need, and once with the kernels for what a
delegate leaves over.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.catalogue import MODELS
from benchmarks.peers.runtimes import Case, NotMeasuredError, Opened, folder_of

_ALONE: Final = "libexecutorch, backend_xnnpack, threadpool"
_ALL: Final = "the same and kernels_optimized"
_SOURCE: Final = Path(__file__).with_name("executorch_runner.cpp")
_DELEGATE: Final = ("executorch", "executorch_backend_xnnpack", "executorch_threadpool")
_KERNELS: Final = "executorch_kernels_optimized"


def convert(model: str, folder: Path) -> None:
    """Write model.pte, and as `runner` the smaller program that runs it, as `runner.txt` with
    which libraries."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    from benchmarks.peers.exporting import subject

    found = subject(model)
    straight = found.straight if MODELS[model].float32 is None else _quantised(found)
    exported = torch.export.export(straight, found.inputs)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    (folder / "model.pte").write_bytes(lowered.to_executorch().buffer)
    runner = folder / "runner"
    for what, names in ((_ALONE, _DELEGATE), (_ALL, (*_DELEGATE, _KERNELS))):
        build_runner(os.environ.get("CXX", "c++"), names, runner)
        (folder / "runner.txt").write_text(what)
        given = json.loads((folder / "input.json").read_text())
        once = [str(folder / "input.bin"), str(folder / "tried.bin"), "1", "0", "1", "1", "0"]
        command = [str(runner), str(folder / "model.pte"), *once, given["dtype"]]
        tried = subprocess.run([*command, *map(str, given["shape"])], capture_output=True)
        if not tried.returncode:
            return
    raise NotMeasuredError(f"its program does not run it: {last_line(tried.stderr.decode())}")


def _quantised(found: Any) -> Any:
    import torch
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from benchmarks.peers.quantising import calibration

    tool = XNNPACKQuantizer()
    tool.set_global(get_symmetric_quantization_config(is_per_channel=True))
    observed = prepare_pt2e(torch.export.export(found.straight, found.inputs).module(), tool)
    with torch.no_grad():
        for one in calibration():
            observed(one)
    return convert_pt2e(observed)


def last_line(text: str) -> str:
    """The last line of what a process said."""
    return (text.strip().splitlines() or ["no reason told"])[-1]


def build_runner(compiler: str, libraries: Sequence[str], output: Path) -> None:
    """Compile the program with libraries of the wheel. Raises NotMeasuredError, with what the
    compiler said."""
    folder = folder_of("executorch")
    include = folder / "include"
    command = [compiler, "-std=c++17", "-O2", f"-I{include}"]
    command += [f"-I{include}/executorch/runtime/core/portable_type/c10"]
    # as the wheel's own executorch-config.cmake
    command += ["-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"]
    command += [str(_SOURCE), "-o", str(output), f"-L{folder}/lib", f"-Wl,-rpath,{folder}/lib"]
    command += ["-Wl,--no-as-needed", *(f"-l{name}" for name in libraries)]
    try:
        made = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise NotMeasuredError(f"no C++ compiler for its program: {error.strerror}") from error
    if made.returncode:
        said = [line for line in made.stderr.splitlines() if "error" in line] or ["no reason"]
        raise NotMeasuredError(f"its program does not compile: {said[0]}")


def load(case: Case) -> Any:
    """Not here."""
    raise NotMeasuredError("ExecuTorch is run by a program of its own")


def open(loaded: Any, case: Case) -> Opened:
    """Not here."""
    raise NotMeasuredError("ExecuTorch is run by a program of its own")


def libraries() -> Mapping[str, tuple[Path, ...]]:
    """What was linked: which of them for a model, its runner.txt says."""
    folder = folder_of("executorch") / "lib"
    delegate = tuple(folder / f"lib{name}.so" for name in _DELEGATE)
    return {
        _ALONE: delegate,
        _ALL: (*delegate, folder / f"lib{_KERNELS}.so"),
    }
