"""The runtimes, each a module of its own, all alike; they import their wheels when called.

A module satisfies `RuntimeModule`. ExecuTorch's, which needs a program of its own for what others
do in Python, has the same `convert` and `libraries`, and says what it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast


class NotMeasuredError(Exception):
    """This runtime cannot do this; the text says why, and is shown in the table."""


@dataclass(frozen=True)
class Case:
    """What to run: a model's folder, how many threads, and our library where it is ours."""

    folder: Path
    threads: int
    library: Path | None = None

    @cached_property
    def input(self) -> Any:
        import numpy

        return numpy.load(self.folder / "input.npy")


@dataclass(frozen=True)
class Opened:
    """A model that is ready: `run` once more, and the last run's `output` as a numpy array."""

    run: Callable[[], object]
    output: Callable[[], Any]
    level: str | None = None


class RuntimeModule(Protocol):
    """One runtime."""

    def convert(self, model: str, folder: Path) -> None:
        """Write the model in the runtime's own format into its folder."""

    def load(self, case: Case) -> Any:
        """Bring the runtime into the process: import it, or open the library."""

    def open(self, loaded: Any, case: Case) -> Opened:
        """Open the model."""

    def libraries(self) -> Mapping[str, tuple[Path, ...]]:
        """The files that an app needs of the runtime; the key says what they are."""


_MODULES: Final[Mapping[str, str]] = {
    "ours": "ours",
    "ours-avx2": "ours",
    "ours-avx512": "ours",
    "ours-threads": "ours",
    "ours-native": "ours",
    "torch": "torch_script",
    "torch-lite": "torch_lite",
    "onnxruntime": "onnx_runtime",
    "litert": "litert",
    "ncnn": "ncnn_net",
    "executorch": "executorch_program",
    "mnn": "mnn_module",
    "openvino": "openvino_model",
}


def runtime_module(name: str) -> RuntimeModule:
    """A runtime of the catalogue."""
    return cast(RuntimeModule, import_module(f"{__name__}.{_MODULES[name]}"))


def folder_of(package: str) -> Path:
    """The folder of an installed package, without importing it."""
    from importlib.util import find_spec

    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise NotMeasuredError(f"{package} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))
