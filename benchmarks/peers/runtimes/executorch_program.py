"""ExecuTorch with its XNNPACK delegate, run by a program of C++: its Python module imports torch.

The program is `executorch_runner.cpp`, linked with the libraries that the wheel brings.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.runtimes import Case, NotMeasuredError, Opened, folder_of

RUNNER: Final = "executorch-runner"
_SOURCE: Final = Path(__file__).with_name("executorch_runner.cpp")
_DELEGATE: Final = ("executorch", "executorch_backend_xnnpack", "executorch_threadpool")
_KERNELS: Final = "executorch_kernels_optimized"


def convert(model: str, folder: Path) -> None:
    """Write model.pte, and the program beside the models' folders."""
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    from benchmarks.peers.exporting import subject

    runner = folder.parent / RUNNER
    if not runner.is_file() or runner.stat().st_mtime < _SOURCE.stat().st_mtime:
        build_runner(os.environ.get("CXX", "c++"), runner)
    found = subject(model)
    exported = torch.export.export(found.straight, found.inputs)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    (folder / "model.pte").write_bytes(lowered.to_executorch().buffer)


def build_runner(compiler: str, output: Path) -> None:
    """Compile the program. Raises NotMeasuredError, with what the compiler said last."""
    folder = folder_of("executorch")
    include = folder / "include"
    command = [compiler, "-std=c++17", "-O2", f"-I{include}"]
    command += [f"-I{include}/executorch/runtime/core/portable_type/c10"]
    # as the wheel's own executorch-config.cmake
    command += ["-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"]
    command += [str(_SOURCE), "-o", str(output), f"-L{folder}/lib", f"-Wl,-rpath,{folder}/lib"]
    command += ["-Wl,--no-as-needed", *(f"-l{name}" for name in (*_DELEGATE, _KERNELS))]
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
    """What was linked, and the same without the kernels that no delegate has."""
    folder = folder_of("executorch") / "lib"
    delegate = tuple(folder / f"lib{name}.so" for name in _DELEGATE)
    return {
        "with kernels_optimized, as run": (*delegate, folder / f"lib{_KERNELS}.so"),
        "libexecutorch, backend_xnnpack, threadpool": delegate,
    }
