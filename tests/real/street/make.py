"""Models of reports, and what PyTorch gives for their calls. Runs in torch's Python.

Usage: make.py REPORTS.json FOLDER: of each report NAME writes `NAME-FORM.ptl` in the forms that it
names, and `NAME.json`, its calls: {"method", "args", "plain", "expected"}.

Values are as the model runner has them (`native/driver/values.h`); besides, a tensor may have
strides, its data then being all that these span, and {"result": [call, item...]} is what an earlier
call gave. `plain` has neither: what is there is written out.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import torch

from orchestrator.export.saving import Export, export, prepare

HEAD = """
from typing import Dict, List, NamedTuple, Optional, Tuple
import torch
import torch.nn.functional as F
from torch import Tensor, nn
"""


def module_of(name: str, source: str, folder: Path) -> torch.nn.Module:
    path = folder / f"{name}.py"
    path.write_text(HEAD + source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"street_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    torch.manual_seed(0)
    return loaded.Module().eval()


def tensor(given: dict[str, Any]) -> torch.Tensor:
    shape, dtype = given["shape"], getattr(torch, given.get("dtype", "float32"))
    match given.get("fill", "normal"):
        case "normal":
            made = torch.randn(shape)
        case "count":
            made = torch.arange(torch.Size(shape).numel()).reshape(shape)
        case {"special": number, "at": place}:
            made = torch.randn(shape)
            made.view(-1)[place] = float(number)
        case number:
            made = torch.full(shape, float(number))
    made = made.to(dtype)
    match given.get("layout"):
        case "channels_last":
            return made.contiguous(memory_format=torch.channels_last)
        case "transposed":
            return made.mT.contiguous().mT
        case "cut" | "cut_channels_last" as layout:
            around = torch.full([size + 3 for size in shape], 7).to(dtype)
            if layout == "cut_channels_last":
                around = around.contiguous(memory_format=torch.channels_last)
            part = around[tuple(slice(0, size) for size in shape)]
            part.copy_(made)
            return part
    return made


def value(given: Any, results: list[Any]) -> Any:
    match given:
        case {"shape": _}:
            return tensor(given)
        case {"tuple": items}:
            return tuple(value(item, results) for item in items)
        case {"dict": items}:
            return {key: value(item, results) for key, item in dict(items).items()}
        case {"result": [call, *items]}:
            found = results[call]
            for item in items:
                found = found[item]
            return found
        case list():
            return [value(item, results) for item in given]
    return given


def told(one: Any, given: Any = None) -> dict[str, Any]:
    """A value for JSON. given: what it was made of."""
    match given:
        case {"result": _}:
            return dict(given)
    match one:
        case torch.Tensor():
            # an argument lies in memory as the module has it; of a result only the numbers count
            laid_out = one.detach() if given else one.detach().contiguous()
            return {"tensor": told_tensor(laid_out)}
        case bool():
            return {"bool": one}
        case int():
            return {"int": one}
        case float():
            return {"double": one}
        case str():
            return {"string": one}
        case None:
            return {"none": True}
        case dict():
            entries = dict((given or {}).get("dict", {}))
            return {
                "dict": [[told(key), told(item, entries.get(key))] for key, item in one.items()]
            }
        case list() | tuple():
            kind = "list" if isinstance(one, list) else "tuple"
            inner = given.get("tuple") if isinstance(given, dict) else given
            parts = inner or [None] * len(one)
            return {kind: [told(*each) for each in zip(one, parts, strict=True)]}
    raise TypeError(type(one))


def told_tensor(one: torch.Tensor) -> dict[str, Any]:
    facts: dict[str, Any] = {"dtype": str(one.dtype).partition(".")[2], "shape": list(one.shape)}
    if one.is_contiguous():
        flat = one
    else:
        facts["strides"] = list(one.stride())
        span = 1 + sum((n - 1) * s for n, s in zip(one.shape, one.stride(), strict=True))
        flat = one.as_strided([span], [1])
    facts["data"] = base64.b64encode(flat.contiguous().numpy().tobytes()).decode()
    return facts


def calls_of(module: torch.nn.Module, report: dict[str, Any]) -> list[dict[str, Any]]:
    """The report's calls, with what the module gives."""
    results: list[Any] = []
    calls = []
    for number, call in enumerate(report["calls"] * report.get("again", 1)):
        dies = isinstance(call, dict)
        method, *given = call["dies"] if dies else call
        args = [value(one, results) for one in given]
        names = [told(*each) for each in zip(args, given, strict=True)]
        plain = [told(one) for one in args]
        run: dict[str, Any] = {"method": method, "index": number, "output": None, "error": None}
        try:
            if dies:
                raise RuntimeError("so would this process")
            # oneDNN gives empty tensors where PyTorch's own kernels raise
            with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
                results.append(getattr(module, method)(*args))
            run["output"] = told(results[-1])
        except (RuntimeError, ValueError, IndexError, ArithmeticError, torch.jit.Error):
            results.append(None)
            run["error"] = {"code": "RUN_FAILED"}
        calls.append({"method": method, "args": names, "plain": plain, "expected": run})
    return calls


def as_zip64(data: bytes) -> bytes:
    """The archive by another tool, with all sizes and places in 64 bits and no alignment."""
    made = io.BytesIO()
    with (
        mock.patch.object(zipfile, "ZIP64_LIMIT", 0),
        zipfile.ZipFile(io.BytesIO(data)) as read,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as written,
    ):
        for entry in read.infolist():
            written.writestr(entry.filename, read.read(entry))
    return made.getvalue()


def make(name: str, report: dict[str, Any], folder: Path) -> None:
    torch.manual_seed(len(name))
    inputs = {
        method: [tuple(value(one, []) for one in call) for call in calls]
        for method, calls in report["inputs"].items()
    }
    for form in report.get("forms", ["plain"]):
        module = module_of(name, report["module"], folder)
        way: Literal["static", "off"] = "static" if form == "static" else "off"
        compiled = report.get("via", "script")
        made = export(name, Export(module, inputs, canonical=way, compiled=compiled))
        data = as_zip64(made.data) if "archive" in report else made.data
        (folder / f"{name}-{form}.ptl").write_bytes(data)
    module = module_of(name, report["module"], folder)
    text = json.dumps(calls_of(module, report))
    (folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    prepare()
    for named, one in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
        make(named, one, Path(sys.argv[2]))
