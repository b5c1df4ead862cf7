"""Writes a model as the `.ptl` that an app commits: reproducible, checked, all or nothing.

Contract: `run(models, folder)` is an export script's `main`. Every model is bundled with its
inputs, saved for the lite interpreter, loaded back by torch's own lite loader and compared with
eager execution on every bundled input; only then are the files replaced. The same torch version
writes the same bytes, on any machine and from any folder.
"""

from __future__ import annotations

import argparse
import io
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.jit.mobile import _load_for_lite_interpreter
from torch.utils.bundled_inputs import InflatableArg, bundle_inputs

# Tensor records begin at multiples of this, as PyTorch's own writer places them
# (caffe2/serialize/inline_container.h, kFieldAlignment).
_ALIGNMENT = 64
_LOCAL_HEADER_BYTES = 30
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Export:
    """A model to export: eager, compiled, and the inputs to bundle for each of its methods."""

    eager: torch.nn.Module
    compiled: torch.jit.ScriptModule
    inputs: Mapping[str, Sequence[tuple[torch.Tensor, ...]]]


def prepare() -> None:
    """Fixed seed and one thread, so that weights and inputs are the same on every run."""
    torch.manual_seed(1131)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    # The lite interpreter is what these models are for; torch 2.13 deprecates it.
    warnings.filterwarnings("ignore", message="Lite Interpreter is deprecated")


def run(export: Callable[[], Mapping[str, Export]], folder: Path) -> None:
    """Exports every model to `<folder>/<name>.ptl`, or into the folder given with `--out`."""
    parser = argparse.ArgumentParser(description="Exports this app's models.")
    parser.add_argument("--out", type=Path, default=folder, metavar="DIR")
    parser.add_argument("--with-code", action="store_true", help="keep the TorchScript")
    arguments = parser.parse_args()
    out: Path = arguments.out
    prepare()
    files = {
        f"{name}.ptl": to_ptl(name, model, with_code=arguments.with_code)
        for name, model in export().items()
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        staged = out / f".{name}.new"
        staged.write_bytes(data)
        staged.replace(out / name)


def to_ptl(name: str, model: Export, *, with_code: bool = False) -> bytes:
    """The `.ptl` file of a model; raises AssertionError where it does not compute what eager does.

    `name` becomes the archive's top folder. with_code: as PyTorch writes it, with the TorchScript
    that a canonical model is made of; its bytes are then not the same each time.
    """
    model.eager.eval()
    # Bundling refuses real inputs for their size; this format says "as it is".
    methods = {
        getattr(model.compiled, method): [
            tuple(InflatableArg(value, "{}") for value in row) for row in rows
        ]
        for method, rows in model.inputs.items()
    }
    saved = bundle_inputs(model.compiled, methods)._save_to_buffer_for_lite_interpreter()
    data = saved if with_code else canonical(saved, name)
    _compare(model, data)
    return data


def _compare(model: Export, data: bytes) -> None:
    lite = _load_for_lite_interpreter(io.BytesIO(data))
    with torch.no_grad():
        for method, rows in model.inputs.items():
            for row in rows:
                expected = getattr(model.eager, method)(*row)
                torch.testing.assert_close(lite.run_method(method, *row), expected)


def canonical(data: bytes, root: str) -> bytes:
    """The archive with what the lite loader reads, and nothing that differs between two runs.

    `code/` is TorchScript text for the full interpreter: its debug records hold absolute paths, and
    the order of a class's constants follows Python's hash seed; the archive's identity hashes both.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            path = entry.filename.partition("/")[2]
            if path.startswith("code/") or path == ".data/serialization_id":
                continue
            record = zipfile.ZipInfo(f"{root}/{path}", _EPOCH)
            record.compress_type = entry.compress_type
            # A field that readers skip moves the record's first byte to the alignment.
            start = out.tell() + _LOCAL_HEADER_BYTES + len(record.filename.encode()) + 4
            padding = -start % _ALIGNMENT
            record.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
            new.writestr(record, old.read(entry))
    return out.getvalue()


def trace(model: torch.nn.Module, *inputs: torch.Tensor, **options: Any) -> torch.jit.ScriptModule:
    """`torch.jit.trace` of a model in eval mode; names only operators that ran."""
    with torch.no_grad():
        return torch.jit.trace(model.eval(), inputs, **options)


def freeze(model: torch.nn.Module) -> torch.jit.ScriptModule:
    """The scripted model without its training branches; batch norm stays an operator."""
    return torch.jit.freeze(torch.jit.script(model.eval()), optimize_numerics=False)
