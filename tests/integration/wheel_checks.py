"""Checks of an installed wheel, run by its own Python: `python wheel_checks.py NAME ARGUMENT...`.

They import the package that was installed, numpy, and `crafted`, nothing of this project. Models
without operators are written instruction by instruction; they give one of their arguments back.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import camera_libtorch as camera  # type: ignore[import-not-found]
import numpy as np
from crafted import argument, method, model

HALF = b"G?\xe0\x00\x00\x00\x00\x00\x00"


def taking(*arguments: tuple[str, str] | tuple[str, str, bytes], version: int = 7) -> Any:
    """A model whose forward takes these, and gives its last argument."""
    count = len(arguments) + 1
    code = method(
        [("STOREN", 1, count), ("MOVE", count, 0), ("RET", 0, 0)],
        arguments=[argument(*each) for each in arguments],
        version=version,
        registers=count,
    )
    return camera.Model.from_bytes(model(code=code))


def raised(kind: type[BaseException], call: Callable[[], object]) -> Any:
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def bundled() -> Any:
    """The inputs in the app's own file; what is delivered of it has none."""
    own = camera.Model(str(Path(__file__).parents[2] / "apps/camera/models/classifier.ptl"))
    return own.get_all_bundled_inputs()


def the_recorded_outputs(runs: str) -> None:
    """What verify expects of the library, from the delivered model on its own inputs."""
    assert camera.models() == ("classifier",)
    classifier = camera.load("classifier")
    inputs = bundled()
    recorded = json.loads(Path(runs).read_text())["runs"]
    assert len(inputs) == len(recorded) == 2
    for (images,), run in zip(inputs, recorded, strict=True):
        expected = np.frombuffer(base64.b64decode(run["output"]["tensor"]["data"]), np.float32)
        for scores in (
            classifier(images),
            classifier.forward(images),
            classifier.methods["forward"](images=images),
        ):
            assert scores.dtype == np.float32
            np.testing.assert_allclose(scores[0], expected, rtol=1e-5, atol=1e-6)


def equal_results(one: str, other: str) -> None:
    """Of two files, on the inputs of the first."""
    first, second = camera.Model(one), camera.Model(other)
    for arguments in first.get_all_bundled_inputs():
        np.testing.assert_array_equal(first(*arguments), second(*arguments))
    assert "get_all_bundled_inputs" not in second.methods


def the_package_tells_itself() -> None:
    assert camera.__version__ == "1.2.0rc1"
    assert camera.runtime() == "PyTorch 1.13.1, bytecode 4 to 9"
    assert re.fullmatch("[0-9a-f]{64}", camera.selection_digest())
    assert camera.threads() == 1
    camera.set_threads(1)
    for wrong in (0, 2, 1025, 2**40, -(2**40)):
        raised(camera.InvalidArgumentError, partial(camera.set_threads, wrong))
    refused = raised(camera.InvalidArgumentError, lambda: camera.extend("/no/such.so"))
    assert str(refused).startswith("this library takes no add-ons: its app.yaml does not say")
    assert camera.has_operator("aten::conv2d")
    assert not camera.has_operator("aten::stft")
    classifier = camera.load("classifier")
    assert classifier.methods["forward"].schema == "forward(Tensor images) -> Tensor"
    assert "forward" in dir(classifier)
    assert classifier.bytecode_version == 8
    error = raised(LookupError, lambda: camera.load("reader"))
    assert str(error) == "no model 'reader' in this package: it has classifier"


def errors(other_model: str, damaged: str) -> None:
    """`other_model` names operators that camera does not have."""
    missing = raised(camera.MissingOperatorError, lambda: camera.Model(other_model))
    assert missing.operators
    assert all(name.startswith("aten::") for name in missing.operators)
    assert all(not camera.has_operator(name) for name in missing.operators)
    assert missing.operators[0] in str(missing)
    assert missing.status == "MISSING_OPERATOR"
    raised(camera.LoadError, lambda: camera.Model(damaged))
    raised(FileNotFoundError, lambda: camera.Model("/no/such/model.ptl"))
    raised(camera.LoadError, lambda: camera.Model.from_bytes(b""))
    classifier = camera.load("classifier")
    wrong = raised(camera.WrongKindError, lambda: classifier(1.5))
    assert isinstance(wrong, TypeError)
    assert str(wrong) == "forward(Tensor images): argument 1, images, is float, not Tensor"
    error = raised(camera.RunError, lambda: classifier(np.zeros((2, 2), np.float32)))
    assert str(error).startswith("forward(images: float32[2, 2]): ")
    assert error.__cause__ is None
    none = raised(AttributeError, lambda: classifier.backward)
    assert isinstance(none, camera.NoSuchMethodError)
    assert "forward" in none.names
    assert not hasattr(classifier, "backward")
    for call, text in (
        (lambda: classifier(), "forward() lacks its argument 'images'"),
        (lambda: classifier(1, 2), "forward() takes 1 arguments, not 2"),
        (lambda: classifier(1, images=2), "forward() has two values for its argument 'images'"),
        (lambda: classifier(pictures=1), "forward() has no argument 'pictures'"),
    ):
        assert str(raised(TypeError, call)).startswith(text)


def a_missing_dtype() -> None:
    classifier = camera.load("classifier")
    images = np.zeros((1, 3, 96, 96), np.float64)
    error = raised(camera.MissingDtypeError, lambda: classifier(images))
    assert (error.kernel_tag, error.dtype) == ("slow_conv2d_cpu", "Double")
    assert str(error).startswith("forward(images: float64[1, 3, 96, 96]): ")
    assert "'Double' not selected for kernel tag slow_conv2d_cpu" in str(error)


def arguments_by_name() -> None:
    picture = taking(("image", "Tensor"), ("scale", "float", HALF))
    one = np.ones(1, np.float32)
    assert picture(one) == 0.5
    assert picture(one, 2) == 2.0
    assert isinstance(picture(one, 2), float)
    assert picture(scale=3.0, image=one) == 3.0
    three = taking(("a", "int"), ("b", "float", HALF), ("c", "Optional[Tensor]"))
    assert three(1) is None
    assert (three(1, 2.0, c=one) == one).all()
    error = raised(TypeError, lambda: three(1, c=one))
    assert str(error).startswith("forward() lacks its argument 'b': one behind it is given")
    old = taking(("a", "Tensor"), ("b", "float"), version=4)
    assert old.forward.schema == "forward(?, ?)"
    assert old(1, "x") == "x"
    assert "names of its arguments" in str(raised(TypeError, lambda: old(1, b=2)))


def values() -> None:
    same = taking(("a", "Any"))
    for value in (
        *(None, True, False, 0, -(2**63), 2**63 - 1, 1.5, float("inf"), "", "ä\0b", "x" * 9999),
        *([], [1, 2], [1.5], ["a"], (), (1, "a", None), [[1], [2, 3]], [(1, 2.0)], {}, {"a": 1}),
        *({1: [1.5]}, {"k": {"l": (True,)}}, [None, 1]),
    ):
        seen = same(value)
        assert (seen, type(seen)) == (value, type(value)), (seen, value)
    assert str(same(float("nan"))) == "nan"
    assert same(np.float32(1.5)) == 1.5
    assert same(np.int16(7)) == 7
    assert same(np.bool_(True)) is True
    raised(OverflowError, lambda: same(2**63))
    raised(camera.WrongKindError, lambda: same(object()))
    raised(camera.WrongKindError, lambda: same(1j))
    raised(UnicodeEncodeError, lambda: same("\ud800"))
    deep: list[object] = []
    for _ in range(70):
        deep = [deep]
    raised(camera.InvalidArgumentError, lambda: same(deep))
    endless: list[object] = []
    endless.append(endless)
    raised(camera.InvalidArgumentError, lambda: same(endless))
    lists = taking(("a", "List[float]"))
    assert lists([1, 2.5]) == [1.0, 2.5]
    assert lists((1, 2)) == [1.0, 2.0]
    assert lists([]) == []
    raised(camera.WrongKindError, lambda: lists(["x"]))
    assert taking(("a", "Tuple[int, float]"))([1, 2]) == (1, 2.0)
    by_name = taking(("a", "Dict[str, Tensor]"))
    assert by_name({}) == {}
    seen = by_name({"b": np.arange(3), "a": np.zeros((2, 2))})
    assert list(seen) == ["b", "a"]
    assert seen["b"].tolist() == [0, 1, 2]


def dtypes() -> None:
    same = taking(("a", "Tensor"))
    for code in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"):
        array = np.array([[0, 1, 1], [1, 0, 1]]).astype(code)
        seen = same(array)
        assert seen.dtype == array.dtype, code
        np.testing.assert_array_equal(seen, array)
        swapped = array.astype(array.dtype.newbyteorder(">"))
        seen = same(swapped)
        assert seen.dtype == array.dtype, code
        np.testing.assert_array_equal(seen, swapped)
    for code in ("u2", "u4", "u8", "S3", "U3", "O", "M8[s]", "V3", "longdouble"):
        error = raised(camera.WrongKindError, partial(same, np.zeros(2, code)))
        assert "convert the array with .astype()" in str(error)
    zero = same(np.array(1.5, np.float32))
    assert (zero.shape, zero.dtype, float(zero)) == ((), np.float32, 1.5)
    assert same(np.int64(3)).shape == ()
    for shape in ((0,), (2, 0, 3), (0, 0)):
        seen = same(np.empty(shape, np.int32))
        assert (seen.shape, seen.dtype) == (shape, np.int32)
    seen = same(np.empty((3, 0), np.float32)[::-1])
    assert seen.shape == (3, 0)


def layouts() -> None:
    """What PyTorch can read where it lies is not copied; whatever else is, comes out right."""
    same = taking(("a", "Tensor"))
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    shared = {
        "contiguous": base,
        "transposed": base.T,
        "every other": base[:, :, ::2],
        "a column": base[0, :, 1],
        "Fortran's": np.asfortranarray(base),
        "one element": base[:1, :1, :1],
        "0-d": base[1, 2, 3:4].reshape(()),
    }
    for name, array in shared.items():
        seen = same(array)
        assert address(seen) == address(array), name
        np.testing.assert_array_equal(seen, array)
        assert seen.flags.writeable
    still = base.copy()
    still.flags.writeable = False
    odd = np.ndarray((2,), np.float32, bytearray(range(9)), offset=1)
    copied = {
        "read-only": still,
        "backwards": base[::-1],
        "unaligned": odd,
        "parts of elements": np.array([(1, 2), (3, 4)], [("a", "f8"), ("b", "c16")])["b"],
        "broadcast": np.broadcast_to(np.float32(2.0), (4, 5)),
        "big-endian": base.astype(">f4"),
        "bytes": np.frombuffer(b"12345678", np.uint8),
    }
    for name, array in copied.items():
        seen = same(array)
        assert not np.shares_memory(seen, array), name
        np.testing.assert_array_equal(seen, array)
    same(still)[...] = 0
    assert still[1, 2, 3] == 23

    class Holder:
        def __array__(self, dtype: object = None, copy: object = None) -> Any:
            return base

    assert address(same(Holder())) == address(base)


def memory() -> None:
    """A result lives as long as its array, and an argument as long as the library has it."""
    same = taking(("a", "Tensor"))
    million = np.arange(1_000_000, dtype=np.float32)
    kept = same(million)
    del million, same
    gc.collect()
    np.testing.assert_array_equal(kept, np.arange(1_000_000, dtype=np.float32))
    view = kept[10:20]
    del kept
    gc.collect()
    assert view.tolist() == list(map(float, range(10, 20)))

    classifier = camera.load("classifier")
    ((images,), *_) = bundled()
    many = classifier(np.repeat(images, 500, axis=0))
    copy = many.copy()
    del classifier
    gc.collect()
    junk = [np.full(5000, 7.0, np.float32) for _ in range(100)]
    np.testing.assert_array_equal(many, copy)
    del junk

    # what was lent is given back: nothing grows
    lent = sys.modules["camera_libtorch._library"]._lent
    del many, view, images
    gc.collect()
    before = len(lent)
    same = taking(("a", "Tensor"))
    for _ in range(200):
        same(np.zeros(10))
        raised(camera.WrongKindError, lambda: same([np.zeros(10)]))
    gc.collect()
    assert len(lent) == before == 0
    start = resident()
    for _ in range(300):
        same(np.zeros(1_000_000))
    assert resident() - start < 64 * 2**20


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def threads() -> None:
    """Python runs on while a model does; models run at once, and one model one call at a time."""
    classifier, other = camera.load("classifier"), camera.load("classifier")
    ((images,), *_) = bundled()
    batch = np.repeat(images, 400, axis=0)
    expected = classifier(batch)
    beats: list[float] = []
    done = threading.Event()

    def heart() -> None:
        while not done.is_set():
            beats.append(time.perf_counter())
            time.sleep(0.0005)

    beating = threading.Thread(target=heart)
    beating.start()
    started = time.perf_counter()
    classifier(batch)
    ended = time.perf_counter()
    done.set()
    beating.join()
    inside = [
        b for b in beats if started + 0.2 * (ended - started) < b < ended - 0.2 * (ended - started)
    ]
    assert len(inside) > 3, (len(inside), ended - started)

    results: list[Any] = []

    def run(model: Any) -> None:
        for _ in range(5):
            results.append(model(batch))

    for models in ((classifier, other), (classifier,) * 4):
        results.clear()
        runners = [threading.Thread(target=run, args=(one,)) for one in models]
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.join()
        assert len(results) == 5 * len(models)
        for seen in results:
            np.testing.assert_array_equal(seen, expected)

    # a model is used by one thread at a time
    waiting = threading.Thread(target=classifier, args=(images,))
    with classifier.forward._module.lock:
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
    waiting.join()

    # a result may die on another thread than the one that made it
    same = taking(("a", "Tensor"))
    held = [same(np.full(1000, number)) for number in range(50)]
    ending = threading.Thread(target=held.clear)
    ending.start()
    ending.join()
    assert not held


def paths() -> None:
    """A model's path may be any that Python takes."""
    content = (Path(camera.__file__).parent / "models/classifier.ptl").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ein schönes Modell.ptl"
        path.write_bytes(content)
        for taken in (path, str(path), os.fsencode(path)):
            assert "forward" in camera.Model(taken).methods
        raised(ValueError, lambda: camera.Model("a\0b"))
    for data in (content, bytearray(content), memoryview(content)):
        assert "forward" in camera.Model.from_bytes(data).methods


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
