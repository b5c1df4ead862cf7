"""Loads a model through the C API, does what it is told, and tells as JSON what came of each step.

    python memory_program.py LIBRARY MODEL STEP...

`load`, `load_memory`: bytes that the process has gained, at most, since before it. `run`,
`run_odd`: of a picture [1, channels, 1, 1] whose channels lie side by side, or apart; `run_none`:
of one [1, channels, 0, 1], which no packed convolution takes; some of the result's bytes as
hexadecimal text, or the error. `gained`: bytes by now. `away`: bytes of pages that nothing may
read, in blocks of at least 4 MB; `away_64k`: in blocks of 64 KB. `run_twice`: two threads at once.
`truncate`, `overwrite`, `replace`, `remove`: the model's file.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

CHANNELS: Final = 1024
_FLOAT32: Final = 6


def status(name: str) -> int:
    """A line of this process's status in bytes."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024


class Program:
    """A library, a model's file, and the module that was loaded from it."""

    def __init__(self, library: str, model: str) -> None:
        self.library = ctypes.CDLL(library)
        self.library.lta_last_error.restype = ctypes.c_char_p
        self.library.lta_tensor_copy.restype = ctypes.c_void_p
        self.library.lta_tensor_borrow.restype = ctypes.c_void_p
        self.model = Path(model)
        self.module = ctypes.c_void_p()
        self.picture = (ctypes.c_float * (2 * CHANNELS))(*(i % 7 - 3 for i in range(2 * CHANNELS)))
        for i in range(CHANNELS):
            self.picture[2 * i] = i % 5 - 2
        Path("/proc/self/clear_refs").write_text("5")
        self.before = status("VmRSS")

    def _told(self, failed: int) -> str:
        return f"error: {self.library.lta_last_error().decode()}" if failed else "done"

    def load(self) -> object:
        failed = self.library.lta_module_load(str(self.model).encode(), ctypes.byref(self.module))
        return self._told(failed) if failed else status("VmHWM") - self.before

    def load_memory(self) -> object:
        data = self.model.read_bytes()
        size = ctypes.c_size_t(len(data))
        failed = self.library.lta_module_load_memory(data, size, ctypes.byref(self.module))
        return self._told(failed) if failed else status("VmHWM") - self.before

    def gained(self) -> object:
        return status("VmRSS") - self.before

    def away(self) -> object:
        return sum(size for size in self._closed() if size >= 4 * CHANNELS * CHANNELS)

    def away_64k(self) -> object:
        # neighbours are one span; each has a page more
        block = 64 * 1024
        return sum(size // block * block for size in self._closed())

    def _closed(self) -> list[int]:
        maps = Path("/proc/self/maps").read_text()
        spans = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) ---p 0+ 00:00 0\s*$", maps, re.MULTILINE)
        return [int(end, 16) - int(start, 16) for start, end in spans]

    def run(self, step: int = 1, height: int = 1) -> str:
        """Of a picture whose channels lie `step` numbers apart; of several tensors the second."""
        call, sizes = self.library, [1, CHANNELS, height, 1]
        apart = [CHANNELS * step, step, step, step]
        shape = (ctypes.c_int64 * len(sizes))(*sizes)
        strides = (ctypes.c_int64 * len(sizes))(*apart)
        span = ctypes.c_size_t(4 * ((CHANNELS - 1) * step + 1) * height)
        given = call.lta_tensor_borrow(
            _FLOAT32, ctypes.c_size_t(len(sizes)), shape, strides, self.picture, span, None, None
        )
        assert given, call.lta_last_error()
        arguments, result = (ctypes.c_void_p * 1)(given), ctypes.c_void_p()
        one = ctypes.c_size_t(1)
        if call.lta_module_run(self.module, b"forward", arguments, one, ctypes.byref(result)):
            return self._told(1)
        item = ctypes.c_void_p()
        for number in (1, 0):
            if call.lta_value_item(result, ctypes.c_size_t(number), ctypes.byref(item)) == 0:
                result = item
                break
        # a picture's, or a weight's
        for count in (CHANNELS, CHANNELS * CHANNELS):
            read = (ctypes.c_float * count)()
            if call.lta_tensor_read(result, read, ctypes.c_size_t(4 * count)) == 0:
                break
        return bytes(read)[::97].hex()

    def run_odd(self) -> str:
        return self.run(2)

    def run_none(self) -> str:
        return self.run(height=0)

    def run_twice(self) -> object:
        results: list[str] = []
        threads = [threading.Thread(target=lambda: results.append(self.run())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results[0] == results[1]
        return results[0]

    def truncate(self) -> None:
        self.model.write_bytes(b"PK")

    def overwrite(self) -> None:
        size = self.model.stat().st_size
        with self.model.open("r+b") as file:
            file.write(bytes(size))

    def replace(self) -> None:
        other = self.model.with_suffix(".new")
        other.write_bytes(b"PK")
        other.replace(self.model)

    def remove(self) -> None:
        self.model.unlink()


def main(arguments: Sequence[str]) -> int:
    """Do the steps and print what they gave."""
    library, model, *steps = arguments
    program = Program(library, model)
    does: dict[str, Callable[[], Any]] = {step: getattr(program, step) for step in steps}
    print(json.dumps([does[step]() for step in steps]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
