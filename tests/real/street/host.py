"""A process with an app's library, as strangers have it. Runs in a Python with numpy and the wheel;
through C in any.

Usage: host.py SETTING.json: {"through": "c" or "wheel", "library", "package", "helper", "host",
"model", "calls"}. Prints what the model runner would: {"runs": [...]}.

`host`, what the report says of the process:
  locale   the one that is set before the library is opened
  stack    the KB of the thread that calls
  flush    all calls are made once with flush-to-zero, of another module, and then without
  children  so many children of fork make all calls, while a thread loads and runs
  threads  how many the library may use
"""

from __future__ import annotations

import base64
import ctypes
import importlib
import json
import locale
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.c_api import TensorInfo

Run = dict[str, Any]
Caller = Callable[[str, list[Any]], Any]
P = ctypes.c_void_p
_FIRST = ("INVALID_ARGUMENT", "WRONG_KIND", "LOAD_FAILED", "UNSUPPORTED_MODEL", "MISSING_OPERATOR")
CODES = (
    "OK",
    *_FIRST,
    "MISSING_DTYPE",
    "NO_SUCH_METHOD",
    "RUN_FAILED",
    "OUT_OF_MEMORY",
    "INTERNAL",
)
DTYPES = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
NUMBERS = {**{name: at for at, name in enumerate(DTYPES)}, "bool": 11}
OTHER = 9


class RunError(Exception):
    """Of a model, by the C API's code."""


def array_of(tensor: dict[str, Any]) -> Any:
    import numpy as np

    flat = np.frombuffer(base64.b64decode(tensor["data"]), tensor["dtype"]).copy()
    if "strides" not in tensor:
        return flat.reshape(tensor["shape"])
    strides = [step * flat.itemsize for step in tensor["strides"]]
    return np.lib.stride_tricks.as_strided(flat, tensor["shape"], strides)


class C:
    """The C API."""

    def __init__(self, library: str) -> None:
        self.lib = ctypes.CDLL(library)
        self.lib.lta_last_error.restype = ctypes.c_char_p
        for name in ("none", "bool", "int", "double", "string", "list", "tuple", "dict"):
            getattr(self.lib, f"lta_{name}").restype = P
        self.lib.lta_double.argtypes = (ctypes.c_double,)
        self.lib.lta_int.argtypes = (ctypes.c_int64,)
        self.lib.lta_tensor_copy.restype = P

    def check(self, status: int) -> None:
        if status:
            raise RunError(CODES[status], self.lib.lta_last_error().decode())

    def load(self, path: str) -> Caller:
        module = P()
        self.check(self.lib.lta_module_load(path.encode(), ctypes.byref(module)))

        def run(method: str, values: list[Any]) -> Any:
            result, count = P(), ctypes.c_size_t(len(values))
            given = self.handles(values)
            self.check(
                self.lib.lta_module_run(module, method.encode(), given, count, ctypes.byref(result))
            )
            return result

        return run

    def handles(self, values: list[Any]) -> Any:
        return (P * max(1, len(values)))(*map(self.value, values))

    def value(self, one: Any) -> P:
        if isinstance(one, P):  # what a call gave
            return one
        ((kind, content),) = one.items()
        content = content.encode() if kind == "string" else content
        count = ctypes.c_size_t(len(content) if hasattr(content, "__len__") else 0)
        match kind:
            case "none":
                made = self.lib.lta_none()
            case "bool":
                made = self.lib.lta_bool(int(content))
            case "int" | "double":
                made = getattr(self.lib, f"lta_{kind}")(content)
            case "string":
                made = self.lib.lta_string(content, count)
            case "tensor":
                made = self.tensor(content)
            case "tuple":
                made = self.lib.lta_tuple(self.handles(content), count)
            case "list":
                made = self.lib.lta_list(OTHER, self.handles(content), count)
            case _:
                both = (self.handles([pair[at] for pair in content]) for at in (0, 1))
                made = self.lib.lta_dict(OTHER, OTHER, *both, count)
        if not made:
            self.check(self.lib.lta_last_status())
        return P(made)

    def tensor(self, tensor: dict[str, Any]) -> Any:
        data = base64.b64decode(tensor["data"])
        sizes = (ctypes.c_int64 * 8)(*tensor["shape"])
        strides = (ctypes.c_int64 * 8)(*tensor["strides"]) if "strides" in tensor else None
        ndim, nbytes = ctypes.c_size_t(len(tensor["shape"])), ctypes.c_size_t(len(data))
        dtype = NUMBERS[tensor["dtype"]]
        return self.lib.lta_tensor_copy(dtype, ndim, sizes, strides, data, nbytes)

    def item(self, value: P, at: int) -> P:
        item = P()
        self.check(self.lib.lta_value_item(value, ctypes.c_size_t(at), ctypes.byref(item)))
        return item

    def told(self, value: P) -> Any:
        """As the model runner writes it."""
        lib, size = self.lib, ctypes.c_size_t()
        kind = lib.lta_value_kind(value)
        match kind:
            case 0:
                return {"none": True}
            case 1 | 2 | 3:
                kinds = (ctypes.c_int, ctypes.c_int64, ctypes.c_double)
                name, number = ("bool", "int", "double")[kind - 1], kinds[kind - 1]()
                self.check(getattr(lib, f"lta_value_{name}")(value, ctypes.byref(number)))
                return {name: bool(number.value) if kind == 1 else number.value}
            case 4:
                data = ctypes.c_char_p()
                self.check(lib.lta_value_string(value, ctypes.byref(data), ctypes.byref(size)))
                return {"string": ctypes.string_at(data, size.value).decode()}
            case 5:
                return {"tensor": self.told_tensor(value)}
            case 8:
                self.check(lib.lta_value_size(value, ctypes.byref(size)))
                return {"dict": [self.entry(value, at) for at in range(size.value)]}
        self.check(lib.lta_value_size(value, ctypes.byref(size)))
        items = [self.told(self.item(value, at)) for at in range(size.value)]
        return {"list" if kind == 6 else "tuple": items}

    def entry(self, value: P, at: int) -> list[Any]:
        key, item = P(), P()
        place = ctypes.c_size_t(at)
        self.check(self.lib.lta_value_entry(value, place, ctypes.byref(key), ctypes.byref(item)))
        return [self.told(key), self.told(item)]

    def told_tensor(self, value: P) -> dict[str, Any]:
        info = TensorInfo()
        self.check(self.lib.lta_tensor_describe(value, ctypes.byref(info)))
        data = ctypes.create_string_buffer(info.nbytes)
        self.check(self.lib.lta_tensor_read(value, data, ctypes.c_size_t(info.nbytes)))
        name = next(name for name, number in NUMBERS.items() if number == info.dtype)
        shape = [info.shape[at] for at in range(info.ndim)]
        return {"dtype": name, "shape": shape, "data": base64.b64encode(data.raw).decode()}


class Wheel:
    """The package of the app."""

    def __init__(self, package: str) -> None:
        self.package = importlib.import_module(package)

    def load(self, path: str) -> Caller:
        model = self.package.Model(path)

        def run(method: str, values: list[Any]) -> Any:
            try:
                return getattr(model, method)(*map(self.value, values))
            except self.package.LibtorchError as error:
                raise RunError(_CLASSES.get(type(error).__name__, "INTERNAL"), str(error)) from None

        return run

    def value(self, one: Any) -> Any:
        if not isinstance(one, dict):  # what a call gave
            return one
        ((kind, content),) = one.items()
        match kind:
            case "none":
                return None
            case "tensor":
                return array_of(content)
            case "list" | "tuple":
                items = [self.value(item) for item in content]
                return items if kind == "list" else tuple(items)
            case "dict":
                return {self.value(key): self.value(item) for key, item in content}
        return content

    def item(self, value: Any, at: int) -> Any:
        return value[at]

    def told(self, one: Any) -> Any:
        match one:
            case None:
                return {"none": True}
            case bool() | int() | float() | str():
                names = {bool: "bool", int: "int", float: "double", str: "string"}
                return {names[type(one)]: one}
            case list() | tuple():
                name = "list" if isinstance(one, list) else "tuple"
                return {name: [self.told(item) for item in one]}
            case dict():
                return {"dict": [[self.told(key), self.told(item)] for key, item in one.items()]}
        data = base64.b64encode(one.tobytes()).decode()
        return {"tensor": {"dtype": str(one.dtype), "shape": list(one.shape), "data": data}}


_CLASSES = {
    "RunError": "RUN_FAILED",
    "WrongKindError": "WRONG_KIND",
    "InvalidArgumentError": "INVALID_ARGUMENT",
    "MissingOperatorError": "MISSING_OPERATOR",
    "MissingDtypeError": "MISSING_DTYPE",
}


def sequence(through: C | Wheel, path: str, calls: list[dict[str, Any]]) -> list[Run]:
    """All calls of one module."""
    run = through.load(path)
    results: list[Any] = []
    runs = []

    def given(one: Any) -> Any:
        match one:
            case {"result": [call, *items]}:
                found = results[call]
                for item in items:
                    found = through.item(found, item)
                return found
            case {"list": items} | {"tuple": items}:
                return {next(iter(one)): [given(item) for item in items]}
        return one

    for number, call in enumerate(calls):
        told = {"method": call["method"], "index": number, "output": None, "error": None}
        try:
            results.append(run(call["method"], [given(one) for one in call["args"]]))
            told["output"] = through.told(results[-1])
        except RunError as error:
            results.append(None)
            told["error"] = {"code": error.args[0], "text": error.args[1]}
        runs.append(told)
    return runs


def in_children(through: C | Wheel, setting: dict[str, Any], count: int) -> None:
    """Raises RuntimeError where a child of fork hangs or fails."""
    ended = threading.Event()

    def busy() -> None:
        while not ended.is_set():
            sequence(through, setting["model"], setting["calls"])

    thread = threading.Thread(target=busy)
    thread.start()
    codes = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            sequence(through, setting["model"], setting["calls"])
            os._exit(0)
        codes.append(os.waitpid(child, 0)[1])
    ended.set()
    thread.join()
    if any(codes):
        raise RuntimeError(f"children ended with {codes}")


def main(setting: dict[str, Any]) -> None:
    host, done = setting["host"], []
    if "locale" in host:
        locale.setlocale(locale.LC_ALL, host["locale"])
    kind = setting["through"]
    through = C(setting["library"]) if kind == "c" else Wheel(setting["package"])
    if "threads" in host and isinstance(through, C):
        through.check(through.lib.lta_set_threads(host["threads"]))

    def work() -> None:
        if host.get("flush"):
            helper = ctypes.CDLL(setting["helper"])
            helper.flush_to_zero(1)
            sequence(through, setting["model"], setting["calls"])
            helper.flush_to_zero(0)
        if "children" in host:
            in_children(through, setting, host["children"])
        done.extend(sequence(through, setting["model"], setting["calls"]))

    threading.stack_size(host.get("stack", 0) * 1024)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    print(json.dumps({"runs": done}))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
