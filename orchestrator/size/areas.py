"""Names the parts of a library that units, headers and kinds of bytes belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchestrator.binary.elf_layout import Kind
from orchestrator.size.attribution import Attribution, Share
from orchestrator.size.graph import COMPILER, FILE, HEADER, SYSTEM

_OPERATORS: Final = "operators"
_TENSORS: Final = "tensors"
_INTERPRETER: Final = "interpreter and schemas"
_DISPATCHER: Final = "dispatcher"
_READING: Final = "reading of models"
_API: Final = "C API"
_CXX: Final = "C++ library"
_OWN: Final = "the app's own sources"
_UNWINDING: Final = "unwinding"
_TEXTS: Final = "texts"
_LOADING: Final = "what the loader reads"
_PADDING: Final = "headers and padding"
# Whatever unit they are of.
_KINDS: Final[Mapping[Kind, str]] = {
    "strings": _TEXTS,
    "unwinding": _UNWINDING,
    "loading": _LOADING,
    "padding": _PADDING,
}
# Starts of units' names, the first that fits.
_UNITS: Final = (
    ("xnnpack/", "XNNPACK"),
    ("aten/src/ATen/native/quantized/cpu/qnnpack/", "QNNPACK"),
    ("native/kernels/", "kernels of ours"),
    ("pthreadpool/", "threads"),
    ("native/threads/", "threads"),
    ("native/runtime_library/", _CXX),
    ("native/archive/", _READING),
    ("native/", _API),
    ("libcxx", _CXX),
    ("libunwind", _CXX),
    (COMPILER, _CXX),
    (f"{HEADER}std", _CXX),
    (f"{HEADER}__", _CXX),
    (f"{HEADER}libunwind", _CXX),
    (f"{HEADER}lta", _API),
    (f"{HEADER}torch", _INTERPRETER),
    (f"{HEADER}at::native", _OPERATORS),
    (f"{HEADER}caffe2", _READING),
    (HEADER, _TENSORS),
    ("aten/src/ATen/native/", _OPERATORS),
    ("generated/", _OPERATORS),
    ("aten/src/ATen/core/dispatch/", _DISPATCHER),
    ("aten/src/ATen/core/boxing/", _DISPATCHER),
    ("aten/src/ATen/core/op_registration/", _DISPATCHER),
    ("torch/csrc/jit/serialization/", _READING),
    ("torch/csrc/jit/mobile/import", _READING),
    ("torch/", _INTERPRETER),
    ("unity/torch", _INTERPRETER),
    ("caffe2/serialize/", _READING),
    ("third_party/", _READING),
    ("aten/", _TENSORS),
    ("unity/", _TENSORS),
    ("c10/", _TENSORS),
    ("caffe2/", _TENSORS),
    (SYSTEM, _LOADING),
    (FILE, _PADDING),
)


def area_of(share: Share) -> str:
    """Name of the part of a library that a share belongs to."""
    if share.kind in _KINDS:
        return _KINDS[share.kind]
    if share.unit and share.unit.startswith("texts"):
        return _TEXTS
    if not share.unit:
        return _OPERATORS
    return next((area for start, area in _UNITS if share.unit.startswith(start)), _OWN)


def by_area(attribution: Attribution) -> dict[str, int]:
    """Bytes of each part, largest first."""
    found: dict[str, int] = {}
    for share in attribution.shares:
        area = area_of(share)
        found[area] = found.get(area, 0) + share.bytes
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))
