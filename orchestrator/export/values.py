"""Values that models take and give: as JSON, copied, changed, described."""

from __future__ import annotations

import base64
import ctypes
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from orchestrator.export.refusal import Refused

_DTYPES = {
    name: getattr(torch, name)
    for name in (
        *("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8"),
        *("uint8", "bool", "qint8", "quint8", "qint32", "complex64", "complex128"),
    )
}
DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def from_json(value: Mapping[str, Any]) -> Any:
    """A value of the model runner's `--inputs`."""
    kind, content = next(iter(value.items()))
    if kind == "none":
        return None
    if kind == "double":
        return float(content)
    if kind in ("list", "tuple"):
        items = [from_json(one) for one in content]
        return items if kind == "list" else tuple(items)
    if kind == "tensor":
        data = bytearray(base64.b64decode(content["data"]))
        dtype, shape = _DTYPES[content["dtype"]], content["shape"]
        if not data:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(data, dtype=dtype).reshape(shape).clone()
    return content


def to_json(value: Any) -> dict[str, Any]:
    """The other way round. Raises Refused."""
    match value:
        case None:
            return {"none": True}
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case float():
            return {"double": value if math.isfinite(value) else str(value)}
        case str():
            return {"string": value}
        case list():
            return {"list": [to_json(one) for one in value]} | ({} if value else _empty())
        case tuple():
            return {"tuple": [to_json(one) for one in value]}
        case dict():
            return {"dict": [[to_json(k), to_json(v)] for k, v in value.items()]}
        case torch.Tensor() if value.layout == torch.strided and value.dtype in DTYPE_NAMES:
            return {"tensor": _tensor_json(value)}
    raise Refused("inputs", f"an input of type {type(value).__name__}")


def calls_json(calls: Iterable[Any]) -> str:
    """Calls as the text of the model runner's `--inputs`. Raises Refused."""
    rows = [{"method": one.method, "args": [to_json(arg) for arg in one.args]} for one in calls]
    return json.dumps(rows, separators=(",", ":"))


def _empty() -> dict[str, Any]:
    return {"element": "tensor"}


def _tensor_json(tensor: torch.Tensor) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if tensor.is_quantized:
        if tensor.qscheme() != torch.per_tensor_affine:
            raise Refused("inputs", "an input that is quantised per channel")
        more = {"scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    plain = (tensor.int_repr() if tensor.is_quantized else tensor.detach()).contiguous()
    size = plain.numel() * plain.element_size()
    data = ctypes.string_at(plain.data_ptr(), size) if size else b""
    return {
        "dtype": DTYPE_NAMES[tensor.dtype],
        "shape": list(tensor.shape),
        "data": base64.b64encode(data).decode(),
        **more,
    }


def copied(value: Any) -> Any:
    """A value, and no tensor of it shared."""
    match value:
        case torch.Tensor():
            return value.clone()
        case list():
            return [copied(one) for one in value]
        case tuple():
            return _tuple_as(value, (copied(one) for one in value))
        case dict():
            return {key: copied(one) for key, one in value.items()}
    return value


def _tuple_as(given: Any, items: Iterable[Any]) -> Any:
    """A tuple of the same class: a named one has a constructor of its own."""
    return type(given)(*items) if hasattr(given, "_fields") else tuple(items)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in a value."""
    match value:
        case torch.Tensor():
            yield value
        case list() | tuple():
            for one in value:
                yield from tensors_of(one)
        case dict():
            for one in value.values():
                yield from tensors_of(one)


def changed(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A value with other tensors."""
    match value:
        case torch.Tensor():
            return change(value)
        case list():
            return [changed(one, change) for one in value]
        case tuple():
            return _tuple_as(value, (changed(one, change) for one in value))
        case dict():
            return {key: changed(one, change) for key, one in value.items()}
    return value


def shapes(args: Sequence[Any]) -> list[str]:
    """Describe each argument: dtypes and shapes as text."""

    def text(value: Any) -> str:
        match value:
            case torch.Tensor():
                return f"{DTYPE_NAMES.get(value.dtype, value.dtype)}{list(value.shape)}"
            case list() | tuple():
                return f"({', '.join(map(text, value))})"
            case dict():
                return f"a dictionary of {len(value)}"
        return repr(value)[:60]

    return [text(value) for value in args]
