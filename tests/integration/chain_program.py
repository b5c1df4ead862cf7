"""Calls chains of operators (chain_models.py) in one process with shortcuts and without.

    python chain_program.py LIBRARY PLACE CALLS MODEL...

Two modules of each model get the same calls, with arguments of changing sizes and layouts: one is
loaded with shortcuts, one without. Chains have views, writes in place, attributes that later calls
read, and operators that fail in the middle of them. Compared are results, to the last bit but for
the sign of NaN, with their strides, and errors. Results are kept for a while, and read again. Then
two threads make the same calls, each with modules of its own, which they load and free.
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any, Final

from shortcut_program import FLOAT, UNSELECTED, Library

METHODS: Final = 40  # of each model
LAST: Final = 8  # the size of arguments' last dimension; the others change from call to call
_KEPT: Final = 12


class Call:
    """Two tensors of the same sizes, in layouts of their own, as often as they are to be made."""

    def __init__(self, library: Library, rng: random.Random) -> None:
        self.lib = library.lib
        self.method = f"m{rng.randrange(METHODS)}"
        most = rng.choice((2, 4, 7, 12))
        self.sizes = [rng.randrange(1, most + 1) for _ in range(3)] + [LAST]
        if rng.random() < 0.03:
            self.sizes[rng.randrange(3)] = 0
        if rng.random() < 0.03:
            self.sizes[3] = 9
        self.given = [self._tensor(rng) for _ in range(2)]

    def _tensor(self, rng: random.Random) -> tuple[list[int], bytes]:
        order = list(range(4))
        if rng.random() < 0.3:
            rng.shuffle(order)
        strides, span = [0] * 4, 1
        for dim in reversed(order):
            strides[dim] = span
            span *= max(1, self.sizes[dim])
        count = 0 if 0 in self.sizes else span
        return strides, struct.pack(f"{count}f", *(rng.uniform(-3, 3) for _ in range(count)))

    def arguments(self) -> list[Any]:
        made = []
        for strides, data in self.given:
            shape, apart = ((ctypes.c_int64 * 4)(*values) for values in (self.sizes, strides))
            made.append(
                self.lib.lta_tensor_copy(
                    FLOAT, ctypes.c_size_t(4), shape, apart, data, ctypes.c_size_t(len(data))
                )
            )
        return made


def run(library: Library, module: Any, call: Call) -> tuple[object, Any]:
    """What is told of a result, and the result; of a failure what the error says."""
    error, result = library.run(module, call.method, call.arguments())
    return (error, None) if error else (library.told(result, ()), result)


def same_nan(told: object) -> object:
    """With one NaN for all."""
    if isinstance(told, list):
        return [same_nan(item) for item in told]
    if (
        isinstance(told, str)
        and told
        and len(told) % 8 == 0
        and set(told) <= set("0123456789abcdef")
    ):
        numbers = struct.unpack(f"{len(told) // 8}f", bytes.fromhex(told))
        return "".join(
            "nan" if number != number else told[8 * at : 8 * at + 8]
            for at, number in enumerate(numbers)
        )
    return told


class Both:
    """A model with shortcuts and without."""

    def __init__(self, library: Library, model: str) -> None:
        self.library, self.model = library, model
        self.short, self.plain = (library.load(model, short=one) for one in (True, False))
        self.kept: deque[tuple[Any, Any]] = deque()
        self.different: list[object] = []
        self.failed = 0

    def call(self, call: Call) -> object:
        """The told of both; noted where it is not the same. None where that says nothing: from then
        on the modules may have other attributes."""
        told, result = run(self.library, self.short, call)
        plain, other = run(self.library, self.plain, call)
        self.failed += isinstance(plain, str)
        # the operator needs what was not selected; its shortcut does not
        unsure = isinstance(plain, str) and any(mark in plain for mark in UNSELECTED)
        if not unsure and same_nan(told) != same_nan(plain):
            self.different.append([self.model, call.method, call.sizes, told, plain])
        self.kept.append((result, other))
        while len(self.kept) > _KEPT:
            self.give_back()
        return None if unsure else same_nan(told)

    def give_back(self) -> None:
        """A later call may have written into what an attribute has too: into that of both."""
        results = self.kept.popleft()
        if all(results):
            told, plain = (same_nan(self.library.told(one, ())) for one in results)
            if told != plain:
                self.different.append([self.model, "a result that was kept", told, plain])
        for one in results:
            self.library.lib.lta_value_free(one)

    def free(self) -> None:
        while self.kept:
            self.give_back()
        for module in (self.short, self.plain):
            self.library.lib.lta_module_free(module)


def main(path: str, place: str, calls: str, *models: str) -> None:
    library = Library(path, int(place))
    library.lib.lta_tensor_copy.restype = ctypes.c_void_p
    different: list[object] = []
    failed = made = 0
    for model in models:
        rng = random.Random(Path(model).name)
        drawn: list[list[tuple[Call, object]]] = []  # each with modules of its own
        wanted = int(calls)
        while wanted > 0 and len(drawn) < int(calls):
            both = Both(library, model)
            drawn.append([])
            for _ in range(wanted):
                call = Call(library, rng)
                told = both.call(call)
                if told is None:
                    break
                drawn[-1].append((call, told))
            both.free()
            different += both.different
            failed += both.failed
            wanted -= len(drawn[-1])
            made += len(drawn[-1])
        different += in_threads(library, model, drawn)
    print(json.dumps({"different": different[:20], "failed": failed, "calls": made}))


def in_threads(
    library: Library, model: str, drawn: list[list[tuple[Call, object]]]
) -> list[object]:
    """The calls that gave something else in a thread of two."""
    different: list[object] = []

    def repeat() -> None:
        for calls in drawn:
            module = library.load(model, short=True)
            for call, expected in calls:
                seen, result = run(library, module, call)
                if same_nan(seen) != expected:
                    different.append([model, call.method, "in a thread", seen, expected])
                if result is not None:
                    library.lib.lta_value_free(result)
            library.lib.lta_module_free(module)

    threads = [threading.Thread(target=repeat) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return different


if __name__ == "__main__":
    main(*sys.argv[1:])
