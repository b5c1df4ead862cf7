"""Calls models in one process with shortcuts and without, and tells as JSON what was not the same.

    python shortcut_program.py LIBRARY PLACE SEED CALLS MODEL NAME...

`PLACE` is where the library has the pointer to what puts shortcuts before a module's operators: the
model is loaded with it, and again without. Its methods `m0`, `m1` and so on call the operators of
these names each; arguments are drawn as operators take them, and as they do not. Compared are
results to the last bit, sizes, strides, dtypes, whether a result lies in an argument's memory and
where, and errors. Then, with shortcuts, the same calls from two threads while modules are loaded
and freed, and in a forked process.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.c_api import TensorInfo

LONG, FLOAT, DOUBLE, BOOL = 4, 6, 7, 11
_FORMATS: Final = {LONG: "q", FLOAT: "f", DOUBLE: "d", BOOL: "?"}
_KINDS: Final = ("none", "bool", "int", "double", "string", "tensor", "list", "tuple", "dict")
_INT = 2
_ODD: Final = (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 3.0e38, 1.0e-39, -100.0)

UNSELECTED: Final = ("Could not find schema", "not selected for kernel tag")

Value = Any  # a handle
Drawn = list[Callable[[], Value]]


class Library:
    def __init__(self, path: str, place: int) -> None:
        self.lib = ctypes.CDLL(path)
        for name in ("tensor_borrow", "none", "int", "double", "bool", "list", "string"):
            getattr(self.lib, f"lta_{name}").restype = ctypes.c_void_p
        self.lib.lta_last_error.restype = ctypes.c_char_p
        maps = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
        base = min(int(one[0].split("-")[0], 16) for one in maps if one[-1] == path)
        self.hook = ctypes.c_void_p.from_address(base + place)
        self.shorten = self.hook.value
        assert self.shorten

    def load(self, model: str, *, short: bool) -> Value:
        self.hook.value = self.shorten if short else None
        module = ctypes.c_void_p()
        failed = self.lib.lta_module_load(model.encode(), ctypes.byref(module))
        assert not failed, self.lib.lta_last_error()
        self.hook.value = self.shorten
        return module

    def run(self, module: Value, method: str, given: Sequence[Value]) -> tuple[str, Value]:
        """The error, "" for none, and the result. The arguments are freed."""
        result = ctypes.c_void_p()
        failed = self.lib.lta_module_run(
            module,
            method.encode(),
            (ctypes.c_void_p * len(given))(*given),
            ctypes.c_size_t(len(given)),
            ctypes.byref(result),
        )
        error = self.lib.lta_last_error().decode() if failed else ""
        for value in given:
            self.lib.lta_value_free(ctypes.c_void_p(value))
        return error, result

    def told(self, value: Value, memory: Sequence[tuple[int, int]]) -> object:
        kind = _KINDS[self.lib.lta_value_kind(value)]
        if kind in ("list", "tuple"):
            count = ctypes.c_size_t()
            assert not self.lib.lta_value_size(value, ctypes.byref(count))
            return [kind, *(self._item(value, index, memory) for index in range(count.value))]
        if kind != "tensor":
            return kind
        info = TensorInfo()
        if self.lib.lta_tensor_describe(value, ctypes.byref(info)):
            return self.lib.lta_last_error().decode()
        read = ctypes.create_string_buffer(info.nbytes)
        assert not self.lib.lta_tensor_read(value, read, ctypes.c_size_t(info.nbytes))
        shape, strides = info.shape[: info.ndim], info.strides[: info.ndim]
        within = [
            (index, (info.data or 0) - start)
            for index, (start, size) in enumerate(memory)
            if start <= (info.data or 0) < start + size
        ]
        return [info.dtype, shape, strides, within, read.raw.hex()]

    def _item(self, value: Value, index: int, memory: Sequence[tuple[int, int]]) -> object:
        item = ctypes.c_void_p()
        assert not self.lib.lta_value_item(value, ctypes.c_size_t(index), ctypes.byref(item))
        told = self.told(item, memory)
        self.lib.lta_value_free(item)
        return told


class Draw:
    """Arguments of one call: how to make each, for as many calls as are to be the same."""

    def __init__(self, library: Library, rng: random.Random) -> None:
        self.lib, self.rng = library.lib, rng
        self.memory: list[tuple[int, int]] = []
        self.kept: list[object] = []

    def sizes(self, least: int = 0, most: int = 5) -> list[int]:
        dims = self.rng.choice((*range(least, most), most, 9))
        return [self.rng.choice((1, 2, 3, 4, 5, 7) if dims < 6 else (1, 2)) for _ in range(dims)]

    def tensor(
        self, sizes: Sequence[int], dtype: int = FLOAT, most: int = 1 << 40
    ) -> Callable[[], Value]:
        if self.rng.random() < 0.05:
            dtype = self.rng.choice((LONG, FLOAT, DOUBLE, BOOL))
        strides, span = [0] * len(sizes), 1
        order = list(range(len(sizes)))
        if self.rng.random() < 0.3:
            self.rng.shuffle(order)
        gap = self.rng.choice((1, 1, 1, 2))
        for dim in reversed(order):
            strides[dim] = span * gap
            span, gap = span * gap * max(1, sizes[dim]), 1
        span = (
            0 if 0 in sizes else 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        )
        numbers: list[Any] = []
        for _ in range(span):
            if dtype == LONG:
                numbers.append(self.rng.randrange(-1, 9) if most > 9 else self.rng.randrange(most))
            elif dtype == BOOL:
                numbers.append(self.rng.random() < 0.1)
            else:
                numbers.append(
                    self.rng.choice(_ODD) if self.rng.random() < 0.02 else self.rng.uniform(-4, 4)
                )
        data = struct.pack(f"{span}{_FORMATS[dtype]}", *numbers)
        # where a number may lie, and not only where a vector may
        ahead = self.rng.choice((0, struct.calcsize(_FORMATS[dtype])))
        buffer = ctypes.create_string_buffer(bytes(ahead) + data, ahead + len(data) + 64)
        start = ctypes.addressof(buffer) + ahead
        self.kept.append(buffer)
        self.memory.append((start, max(1, len(data))))
        shape, apart = ((ctypes.c_int64 * len(sizes))(*values) for values in (sizes, strides))
        return lambda: self.lib.lta_tensor_borrow(
            dtype,
            ctypes.c_size_t(len(sizes)),
            shape,
            apart,
            ctypes.c_void_p(start),
            ctypes.c_size_t(len(data)),
            None,
            None,
        )

    def number(self, value: int) -> Callable[[], Value]:
        return lambda: self.lib.lta_int(ctypes.c_int64(value))

    def ints(self, values: Sequence[int]) -> Callable[[], Value]:
        def make() -> Value:
            items = [self.lib.lta_int(ctypes.c_int64(value)) for value in values]
            made = self.lib.lta_list(
                _INT, (ctypes.c_void_p * len(items))(*items), ctypes.c_size_t(len(items))
            )
            for item in items:
                self.lib.lta_value_free(ctypes.c_void_p(item))
            return made

        return make

    def none(self) -> Value:
        return self.lib.lta_none()

    def dim(self, sizes: Sequence[int]) -> Callable[[], Value]:
        return self.number(self.rng.randrange(-len(sizes) - 1, len(sizes) + 2))

    def _shape(self, sizes: Sequence[int]) -> list[int]:
        shape: list[int] = []
        left = 1
        for size in sizes:
            left *= size
        while left > 1 and len(shape) < 5:
            factor = self.rng.choice([n for n in range(1, left + 1) if left % n == 0])
            shape.append(factor)
            left //= factor
        if left > 1 or self.rng.random() < 0.7:
            shape.append(left)
        if shape and self.rng.random() < 0.4:
            shape[self.rng.randrange(len(shape))] = -1
        if shape and self.rng.random() < 0.1:
            shape[self.rng.randrange(len(shape))] = self.rng.choice((0, -1, -2, 3))
        return shape

    def arguments(self, name: str) -> Drawn:
        rng = self.rng
        sizes = self.sizes()
        if rng.random() < 0.05 and sizes:
            sizes[rng.randrange(len(sizes))] = 0
        match name:
            case "aten::view" | "aten::reshape":
                return [self.tensor(sizes), self.ints(self._shape(sizes))]
            case "aten::permute":
                order = [dim - rng.choice((0, len(sizes))) for dim in range(len(sizes))]
                rng.shuffle(order)
                if rng.random() < 0.1 and order:
                    order[0] = order[-1]
                return [self.tensor(sizes, rng.choice((FLOAT, LONG))), self.ints(order)]
            case "aten::transpose.int" | "aten::select.int":
                return [self.tensor(sizes), self.dim(sizes), self.dim(sizes)]
            case "aten::unbind.int" | "aten::unsqueeze":
                return [self.tensor(sizes), self.dim(sizes)]
            case "aten::zeros":
                dtype = rng.choice(
                    (
                        self.none,
                        self.number(FLOAT),
                        self.number(LONG),
                        self.number(BOOL),
                        self.number(99),
                    )
                )
                return [self.ints(sizes), dtype, self.none, self.none]
            case "aten::embedding":
                rows, columns = rng.randrange(1, 9), rng.randrange(1, 9)
                return [self.tensor([rows, columns]), self.tensor(sizes, LONG, rows)]
            case "aten::matmul":
                height, inner, width = (rng.randrange(1, 40) for _ in range(3))
                batch = [rng.randrange(1, 3) for _ in range(rng.randrange(4))]
                left, right = [*batch, height, inner], [*batch, inner, width]
                if rng.random() < 0.2:
                    right = rng.choice(
                        (right[1:], [*right[:-2], inner + 1, width], [1, *right[1:]])
                    )
                return [self.tensor(left), self.tensor(right)]
            case "aten::mul.Tensor" | "aten::add.Tensor":
                other = rng.choice((sizes, sizes, sizes[1:], [], [1]))
                return [
                    self.tensor(sizes),
                    self.tensor(other, rng.choice((FLOAT, FLOAT, DOUBLE, LONG))),
                    *([self.number(rng.choice((1, 1, 2)))] if name == "aten::add.Tensor" else []),
                ]
            case "aten::layer_norm":
                size = sizes[-1] if sizes else 1
                scale_and_shift = [
                    self.none if rng.random() < 0.2 else self.tensor([size + (rng.random() < 0.05)])
                    for _ in range(2)
                ]
                shape = sizes[-1:] if rng.random() < 0.9 else sizes[-2:]
                return [self.tensor(sizes), self.ints(shape), *scale_and_shift]
            case "aten::softmax.int" | "aten::log_softmax.int":
                return [
                    self.tensor(sizes),
                    self.number(-1) if rng.random() < 0.7 else self.dim(sizes),
                    self.none,
                ]
            case "aten::any" | "aten::all":
                return [self.tensor(sizes, rng.choice((BOOL, BOOL, LONG)))]
            case "aten::gelu" | "aten::silu":
                return [self.tensor(sizes)]
            case _:  # eq.Scalar and the like
                return [
                    self.tensor(sizes, rng.choice((LONG, LONG, FLOAT))),
                    self.number(rng.randrange(-1, 9)),
                ]


def run(
    library: Library, module: Value, method: str, drawn: Drawn, memory: list[tuple[int, int]]
) -> object:
    error, result = library.run(module, method, [make() for make in drawn])
    if error:
        return error
    told = library.told(result, memory)
    library.lib.lta_value_free(result)
    return told


def main(path: str, place: str, seed: str, calls: str, model: str, *names: str) -> None:
    library, rng = Library(path, int(place)), random.Random(int(seed))
    short, plain = (library.load(model, short=one) for one in (True, False))
    different: list[object] = []
    failed = 0
    again: list[tuple[str, Drawn, list[tuple[int, int]], object]] = []
    draws = []
    for _ in range(int(calls)):
        index = rng.randrange(len(names))
        draw = Draw(library, rng)
        drawn = draw.arguments(names[index])
        told = [run(library, one, f"m{index}", drawn, draw.memory) for one in (short, plain)]
        failed += isinstance(told[1], str)
        if isinstance(told[1], str) and any(mark in told[1] for mark in UNSELECTED):
            continue  # the operator needs what was not selected; its shortcut does not
        if told[0] != told[1]:
            different.append([names[index], *told])
        if len(again) < 200:
            again.append((f"m{index}", drawn, draw.memory, told[1]))
            draws.append(draw)

    def repeat() -> None:
        different.extend(
            ["again", one[0]] for one in again if run(library, short, *one[:3]) != one[3]
        )

    threads = [threading.Thread(target=repeat) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        library.lib.lta_module_free(library.load(model, short=True))
    child = os.fork()
    if child == 0:
        repeat()
        os._exit(bool(different))
    forked = os.waitpid(child, 0)[1]
    print(json.dumps({"different": different, "failed": failed, "forked": forked}))


if __name__ == "__main__":
    main(*sys.argv[1:])
