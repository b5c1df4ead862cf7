"""Stock PyTorch, TorchScript: what one has without a tool that cuts or converts. Frozen, then as
`torch.jit.optimize_for_inference` leaves it (oneDNN's layers); int8 by torch's FX mode for its own
engine on x86, with that engine's default settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import MODELS
from benchmarks.peers.runtimes import Case, Opened, folder_of


def frozen(model: str) -> Any:
    """The module as TorchScript, frozen; with its control flow where it has some."""
    import torch

    from benchmarks.peers.exporting import subject
    from orchestrator.export.saving import trace

    found = subject(model)
    if MODELS[model].float32 is not None:
        from torch.ao.quantization import get_default_qconfig_mapping

        from benchmarks.peers.quantising import quantised

        mapping = get_default_qconfig_mapping("x86")
        return torch.jit.freeze(trace(quantised(found, "x86", mapping), *found.inputs))
    if found.straight is not found.model:
        return torch.jit.freeze(torch.jit.script(found.model))
    return torch.jit.freeze(trace(found.model, *found.inputs))


def convert(model: str, folder: Path) -> None:
    """Write model.torchscript."""
    frozen(model).save(str(folder / "model.torchscript"))


def load(case: Case) -> Any:
    """Import it."""
    import torch

    return torch


def open(loaded: Any, case: Case) -> Opened:
    """Load the module and optimise it: its oneDNN layers cannot be saved."""
    module = loaded.jit.load(str(case.folder / "model.torchscript"))
    return opened(loaded, loaded.jit.optimize_for_inference(module), case)


def opened(loaded: Any, module: Any, case: Case) -> Opened:
    """The module, without autograd, on a tensor that shares the input's memory."""
    loaded.set_num_threads(case.threads)
    loaded.set_grad_enabled(False)
    given = loaded.from_numpy(case.input)
    last: list[Any] = []

    def run() -> None:
        last[:] = [module(given)]

    level = loaded.backends.cpu.get_cpu_capability()
    return Opened(run, lambda: last[0].numpy(), level.lower())


def libraries() -> Mapping[str, tuple[Path, ...]]:
    """What a C++ app links; the Python module, which calls it, is not counted."""
    folder = folder_of("torch") / "lib"
    names = ("libtorch_cpu.so", "libc10.so", "libgomp.so.1")
    return {"libtorch_cpu, libc10, libgomp": tuple(folder / name for name in names)}
