"""Loads a model through the C API, runs `forward` twice on a tensor of ones, and prints in bytes
what the process gained by it at most: of malloc and mmap, in the runs, as `count_malloc.c` counts
it, which is loaded first; and of resident memory, as the system does.

    python taken_program.py LIBRARY MODEL SIZE...
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from memory_program import status

_FLOAT32 = 6


def main(arguments: Sequence[str]) -> int:
    """Load, run, print."""
    path, model, *words = arguments
    library = ctypes.CDLL(path)
    library.lta_tensor_borrow.restype = ctypes.c_void_p
    library.lta_last_error.restype = ctypes.c_char_p
    sizes = [int(word) for word in words]
    shape = (ctypes.c_int64 * len(sizes))(*sizes)
    numbers = (ctypes.c_float * math.prod(sizes))(*[1.0] * math.prod(sizes))
    given = ctypes.c_void_p(
        library.lta_tensor_borrow(
            _FLOAT32,
            ctypes.c_size_t(len(sizes)),
            shape,
            None,
            numbers,
            ctypes.c_size_t(ctypes.sizeof(numbers)),
            None,
            None,
        )
    )
    count = ctypes.CDLL(None)
    count.count_held.restype = count.count_most.restype = ctypes.c_long
    module, result = ctypes.c_void_p(), ctypes.c_void_p()
    Path("/proc/self/clear_refs").write_text("5")
    resident, held = status("VmRSS"), count.count_held()
    failed = library.lta_module_load(model.encode(), ctypes.byref(module))
    count.count_again()  # loading asks for memory that it never has (capi.cpp)
    for _ in range(2):
        failed = failed or library.lta_module_run(
            module,
            b"forward",
            (ctypes.c_void_p * 1)(given),
            ctypes.c_size_t(1),
            ctypes.byref(result),
        )
        assert not failed, library.lta_last_error()
        library.lta_value_free(result)
    print(count.count_most() - held, status("VmHWM") - resident)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
