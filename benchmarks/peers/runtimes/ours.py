"""Our libraries through their C API. The input is given once and the output is read where it lies:
a run copies neither."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.runtimes import Case, NotMeasuredError, Opened
from tests.c_api import TensorInfo

# lta_dtype, libtorch_app.h
_DTYPES: Final = {"float32": 6, "int64": 4}


def convert(model: str, folder: Path) -> None:
    """Nothing: `make` has written the .ptl."""


def load(case: Case) -> ctypes.CDLL:
    """Open the library, and ask for threads where it has them."""
    assert case.library
    library = ctypes.CDLL(str(case.library))
    library.lta_last_error.restype = ctypes.c_char_p
    library.lta_tensor_borrow.restype = ctypes.c_void_p
    # an app that says `threads: 1` has a library that refuses more
    if library.lta_set_threads(case.threads) != 0:
        raise NotMeasuredError("built with threads: 1")
    return library


def open(loaded: ctypes.CDLL, case: Case) -> Opened:
    """Load the module and borrow the input."""

    def require(status: int) -> None:
        if status:
            raise NotMeasuredError(loaded.lta_last_error().decode(errors="replace"))

    module = ctypes.c_void_p()
    path = str(case.folder / "model.ptl").encode()
    require(loaded.lta_module_load(path, ctypes.byref(module)))
    given = case.input
    shape = (ctypes.c_int64 * given.ndim)(*given.shape)
    value = loaded.lta_tensor_borrow(
        _DTYPES[str(given.dtype)],
        ctypes.c_size_t(given.ndim),
        shape,
        None,
        ctypes.c_void_p(given.ctypes.data),
        ctypes.c_size_t(given.nbytes),
        None,
        None,
    )
    arguments = (ctypes.c_void_p * 1)(value)
    result = ctypes.c_void_p()
    keep = given  # borrowed
    forward, one, at_result = b"forward", ctypes.c_size_t(1), ctypes.byref(result)
    call, free = loaded.lta_module_run, loaded.lta_value_free

    def run() -> None:
        if result:
            free(result)
        require(call(module, forward, arguments, one, at_result))

    def output() -> Any:
        import numpy

        assert keep is not None
        info = TensorInfo()
        require(loaded.lta_tensor_describe(result, ctypes.byref(info)))
        read = numpy.empty([info.shape[i] for i in range(info.ndim)], numpy.float32)
        at = ctypes.c_void_p(read.ctypes.data)
        require(loaded.lta_tensor_read(result, at, ctypes.c_size_t(read.nbytes)))
        return read

    return Opened(run, output)


def libraries() -> Mapping[str, tuple[Path, ...]]:
    """None by themselves: each app has its own."""
    return {}
