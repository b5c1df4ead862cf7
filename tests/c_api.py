"""The C API's structures for ctypes: `orchestrator/native/capi/libtorch_app.h`."""

from __future__ import annotations

import ctypes


class TensorInfo(ctypes.Structure):
    """`lta_tensor_info`."""

    _fields_ = (
        ("dtype", ctypes.c_int),
        ("ndim", ctypes.c_size_t),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("numel", ctypes.c_size_t),
        ("nbytes", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("is_contiguous", ctypes.c_int),
        ("is_quantized", ctypes.c_int),
    )
