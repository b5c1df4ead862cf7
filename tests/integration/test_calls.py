"""What the C API says of arguments that do not fit, of methods and of files: exact texts.

Models are written instruction by instruction, so that a schema can say anything; no operator is in
them, and camera's library runs them all.
"""

from __future__ import annotations

import ctypes
import io
import json
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from crafted import (
    archive,
    argument,
    method,
    model,
    module,
    number,
    operator,
    pickled,
    row,
    tensor,
    text,
)
from real import orchestrator, workspace_copy

pytestmark = pytest.mark.real

LOAD_FAILED, NO_SUCH_METHOD, RUN_FAILED = 3, 7, 8
INT, OTHER = 2, 9
INT64 = 4
CALL_AND_RETURN = (("OP", 0, 0), ("RET", 0, 0))
HALF = b"G" + struct.pack(">d", 0.5)
A_TENSOR, INTEGERS = object(), object()
Handle = ctypes.c_void_p


class Api:
    """The delivered library, and handles of Python's values."""

    def __init__(self, library: Path) -> None:
        self.lib = ctypes.CDLL(str(library))
        self.lib.lta_last_error.restype = ctypes.c_char_p
        self.lib.lta_last_error_names.restype = ctypes.c_char_p
        self.lib.lta_double.argtypes = (ctypes.c_double,)
        self.lib.lta_int.argtypes = (ctypes.c_int64,)
        for name in ("none", "bool", "int", "double", "string", "list", "tuple", "dict"):
            getattr(self.lib, f"lta_{name}").restype = Handle
        self.lib.lta_tensor_copy.restype = self.lib.lta_module_schema.restype = Handle

    def load(self, data: bytes) -> Handle | tuple[int, str]:
        loaded = Handle()
        size = ctypes.c_size_t(len(data))
        status = self.lib.lta_module_load_memory(data, size, ctypes.byref(loaded))
        return (status, self.lib.lta_last_error().decode()) if status else loaded

    def array(self, values: Sequence[object]) -> Any:
        return (Handle * max(1, len(values)))(*map(self.value, values))

    def value(self, value: object) -> Handle:
        lib = self.lib
        match value:
            case None:
                made = lib.lta_none()
            case bool():
                made = lib.lta_bool(int(value))
            case int():
                made = lib.lta_int(value)
            case float():
                made = lib.lta_double(value)
            case str():
                made = lib.lta_string(value.encode(), ctypes.c_size_t(len(value)))
            case tuple():
                made = lib.lta_tuple(self.array(value), ctypes.c_size_t(len(value)))
            case list():
                made = lib.lta_list(OTHER, self.array(value), ctypes.c_size_t(len(value)))
            case dict():
                both = self.array(list(value)), self.array(list(value.values()))
                made = lib.lta_dict(OTHER, INT, *both, ctypes.c_size_t(len(value)))
            case _ if value is INTEGERS:
                shape, size = (ctypes.c_int64 * 1)(2), ctypes.c_size_t(16)
                made = lib.lta_tensor_copy(INT64, ctypes.c_size_t(1), shape, None, None, size)
            case _:
                none, size = ctypes.c_size_t(0), ctypes.c_size_t(4)
                made = lib.lta_tensor_copy(6, none, None, None, None, size)
        assert made, lib.lta_last_error()
        return Handle(made)

    def run(self, loaded: Handle, name: str, *values: object) -> tuple[int, str]:
        """The status, and what was said."""
        result, count = Handle(), ctypes.c_size_t(len(values))
        status = self.lib.lta_module_run(
            loaded, name.encode(), self.array(values), count, ctypes.byref(result)
        )
        assert bool(result) == (status == 0)
        return status, self.lib.lta_last_error().decode() if status else ""

    def schema(self, loaded: Handle, name: str = "forward") -> str:
        data, size = ctypes.c_char_p(), ctypes.c_size_t()
        text = Handle(self.lib.lta_module_schema(loaded, name.encode()))
        assert self.lib.lta_value_string(text, ctypes.byref(data), ctypes.byref(size)) == 0
        assert data.value is not None
        return data.value.decode()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Api:
    root = workspace_copy(tmp_path_factory.mktemp("arguments"), "camera")
    ran = orchestrator("build", "//apps/camera:linux-x86_64", "--json", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    assert variant["verified"] == "ok"
    return Api(root / "dist/camera/linux-x86_64/lib/libcamera_torch.so")


def taking(
    *arguments: tuple[str, str] | tuple[str, str, bytes], result: str = "Any", version: int = 7
) -> bytes:
    """A model whose forward takes so much, and gives its last argument."""
    count = len(arguments) + 1
    code = method(
        [("STOREN", 1, count), ("MOVE", count, 0), ("RET", 0, 0)],
        arguments=[argument(*each) for each in arguments],
        result=result,
        version=version,
        registers=count,
    )
    return model(code=code)


def loaded(api: Api, data: bytes) -> Handle:
    found = api.load(data)
    assert isinstance(found, Handle), found
    return found


PICTURE = taking(("image", "Tensor"), ("scale", "float", HALF), result="Dict[str, Tensor]")
PICTURE_IS = "forward(Tensor image, float scale=...)"
MANY = taking(
    ("a", "List[Tensor]"), ("b", "Dict[str, Tensor]"), ("c", "Tuple[int, Optional[float]]")
)
MANY_IS = "forward(List[Tensor] a, Dict[str, Tensor] b, Tuple[int, Optional[float]] c)"
OTHERS = taking(
    ("a", "Any"),
    ("n", "number"),
    ("s", "str"),
    ("b", "bool"),
    ("d", "Device"),
    ("p", "__torch__.P"),
)
OTHERS_IS = "forward(Any a=..., number n, str s, bool b, Device d, P p)"
DEEP = taking(
    ("a", "List[List[Tensor]]"),
    ("b", "Tuple[List[int], Dict[str, List[Tensor]]]"),
    ("c", "Optional[List[Optional[Tensor]]]"),
)
DEEP_IS = (
    "forward(List[List[Tensor]] a, Tuple[List[int], Dict[str, List[Tensor]]] b,"
    " Optional[List[Optional[Tensor]]] c=...)"
)
TENSORS, BY_NAME = [A_TENSOR], {"k": A_TENSOR}

# Model, arguments -> what is said of them.
REFUSED: dict[str, tuple[bytes, tuple[object, ...], int, str]] = {
    "nothing": (PICTURE, (), 1, f"{PICTURE_IS}: argument 1, image, is missing"),
    "too many": (PICTURE, (A_TENSOR, 1.0, 2), 1, f"{PICTURE_IS}: argument 3 is too many"),
    "an int": (PICTURE, (1,), 2, f"{PICTURE_IS}: argument 1, image, is int, not Tensor"),
    "None": (PICTURE, (None,), 2, f"{PICTURE_IS}: argument 1, image, is None, not Tensor"),
    "a list": (PICTURE, ([1],), 2, f"{PICTURE_IS}: argument 1, image, is List[int], not Tensor"),
    "an int, no float": (
        PICTURE,
        (A_TENSOR, 1),
        2,
        f"{PICTURE_IS}: argument 2, scale, is int, not float",
    ),
    "a list of ints": (
        MANY,
        ([1], BY_NAME, (1, 2.0)),
        2,
        f"{MANY_IS}: argument 1, a, is List[int], not List[Tensor]",
    ),
    "a list with None": (
        MANY,
        ([A_TENSOR, None], BY_NAME, (1, 2.0)),
        2,
        f"{MANY_IS}: argument 1, a, is List[Optional[Tensor]], not List[Tensor]",
    ),
    "an empty list beside a list of ints": (
        DEEP,
        ([[], [1]], ([], {}), None),
        2,
        f"{DEEP_IS}: argument 1, a, is List[Any], not List[List[Tensor]]",
    ),
    "an empty list in a longer tuple": (
        DEEP,
        ([], ([], {}, 1), None),
        2,
        f"{DEEP_IS}: argument 2, b, is Tuple[List[Any], Dict[Any, int], int],"
        " not Tuple[List[int], Dict[str, List[Tensor]]]",
    ),
    "an empty dict for a list": (
        DEEP,
        ({}, ([], {}), None),
        2,
        f"{DEEP_IS}: argument 1, a, is Dict[Any, int], not List[List[Tensor]]",
    ),
    "a key of another kind beside an empty list": (
        DEEP,
        ([], ([], {1: []}), None),
        2,
        f"{DEEP_IS}: argument 2, b, is Tuple[List[Any], Dict[int, List[Any]]],"
        " not Tuple[List[int], Dict[str, List[Tensor]]]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_told_with_names(api: Api, name: str) -> None:
    data, values, status, said = REFUSED[name]
    assert api.run(loaded(api, data), "forward", *values) == (status, said)
    assert api.lib.lta_last_status() == status
    assert api.lib.lta_last_error_names() == b""


TAKEN: dict[str, tuple[bytes, tuple[object, ...]]] = {
    "a default left out": (PICTURE, (A_TENSOR,)),
    "a default given": (PICTURE, (A_TENSOR, 1.5)),
    "containers": (MANY, (TENSORS, BY_NAME, (1, 2.0))),
    "None in a tuple": (MANY, (TENSORS, BY_NAME, (1, None))),
    "an empty list": (MANY, ([], BY_NAME, (1, None))),
    "an empty dict": (MANY, ([], {}, (1, None))),
    "empty ones in others": (DEEP, ([[], [A_TENSOR], []], ([], {"a": [], "b": [A_TENSOR]}), [])),
    "a list of None": (DEEP, ([], ([1], {}), [None, None])),
    "a list without None": (DEEP, ([], ([], {}), [A_TENSOR])),
    "an optional of empty ones": (taking(("m", "Optional[List[Tensor]]")), ([],)),
    "an empty list for anything": (taking(("a", "Any")), ([],)),
    "an empty list of no schema": (taking(("a", "List[Tensor]"), version=4), ([],)),
    "an optional left out": (taking(("m", "Optional[Tensor]")), ()),
    "an optional that is None": (taking(("m", "Optional[Tensor]")), (None,)),
    "an optional": (taking(("m", "Optional[Tensor]")), (A_TENSOR,)),
    "anything": (taking(("a", "Any")), ([1, "x"],)),
    "an int for a number": (taking(("n", "number")), (1,)),
    "a float for a number": (taking(("n", "number")), (1.5,)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_the_interpreter_takes_is_taken(api: Api, name: str) -> None:
    data, values = TAKEN[name]
    assert api.run(loaded(api, data), "forward", *values) == (0, "")


def test_a_default_reaches_the_method(api: Api) -> None:
    picture, result, real = loaded(api, PICTURE), Handle(), ctypes.c_double()
    one = ctypes.c_size_t(1)
    values = api.array([A_TENSOR])
    assert api.lib.lta_module_run(picture, b"forward", values, one, ctypes.byref(result)) == 0
    assert api.lib.lta_value_double(result, ctypes.byref(real)) == 0
    assert real.value == 0.5


SOFTMAX = model(
    code=method(
        [("STOREN", 1, 2), ("MOVE", 2, 0), *(("LOADC", n, 0) for n in (0, 1)), *CALL_AND_RETURN],
        arguments=[argument("x", "Tensor")],
        operators=[operator("aten::softmax", "int", 3)],
        constants=[number(0), b"N"],
        registers=2,
    )
)


def test_a_dtype_that_a_kernel_does_not_have_is_named(api: Api) -> None:
    """Not by a dtype that the app left out: PyTorch's kernel has none for it."""
    status, said = api.run(loaded(api, SOFTMAX), "forward", INTEGERS)
    assert (status, said) == (
        RUN_FAILED,
        "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'"
        " (raised from dtype_not_implemented at selection:0)",
    )


def test_schemas(api: Api) -> None:
    assert api.schema(loaded(api, PICTURE)) == f"{PICTURE_IS} -> Dict[str, Tensor]"
    assert api.schema(loaded(api, MANY)) == f"{MANY_IS} -> Any"
    assert api.schema(loaded(api, taking())) == "forward() -> Any"
    optional = taking(("m", "Optional[List[int]]"), result="Tuple[int, str]")
    assert api.schema(loaded(api, optional)) == (
        "forward(Optional[List[int]] m=...) -> Tuple[int, str]"
    )


def test_a_model_without_schemas(api: Api) -> None:
    """Only the number is known; with another one the interpreter would take what is not there."""
    old = loaded(api, taking(("image", "Tensor"), ("scale", "float"), version=4))
    assert api.schema(old) == "forward(?, ?)"
    assert api.run(old, "forward", 1, "x") == (0, "")
    assert api.run(old, "forward", 1) == (1, "forward(?, ?): argument 2 is missing")
    assert api.run(old, "forward", 1, 2, 3) == (1, "forward(?, ?): argument 3 is too many")
    unknown = loaded(
        api,
        model(
            code=method([("LOADC", 0, 0), ("RET", 0, 0)], constants=[b"N"], version=4, registers=0)
        ),
    )
    assert api.schema(unknown) == "forward(...)"
    assert api.run(unknown, "forward", 1) == (0, "")


def test_a_schema_without_self_is_not_read_beyond_its_end(api: Api) -> None:
    """A file may say so; the interpreter refuses to run it."""
    code = method([("STOREN", 1, 1), ("MOVE", 1, 0), ("RET", 0, 0)], own=())
    none = loaded(api, model(code=code))
    assert api.schema(none) == "forward() -> Any"
    for values in ((), (1,), (1, 2)):
        status, said = api.run(none, "forward", *values)
        assert (status, said[:36]) == (RUN_FAILED, "inputs.size() <= arguments().size() ")


def test_types_that_nest_deep_are_cut(api: Api) -> None:
    deep = "List[" * 40 + "int" + "]" * 40
    said = "List[" * 17 + "?" + "]" * 17
    assert api.schema(loaded(api, taking(("a", deep)))) == f"forward({said} a) -> Any"


def test_no_such_method_lists_those_that_there_are(api: Api) -> None:
    picture = loaded(api, PICTURE)
    said = "the model has no method forwards; it has forward"
    assert api.run(picture, "forwards") == (NO_SUCH_METHOD, said)
    assert api.lib.lta_last_error_names() == b"forward\n"
    assert api.lib.lta_module_schema(picture, b"forwards") is None
    assert (api.lib.lta_last_status(), api.lib.lta_last_error().decode()) == (NO_SUCH_METHOD, said)


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as written:
        for name in names:
            written.writestr(name, b"")
    return out.getvalue()


SCRIPT = archive(
    {
        "data.pkl": module(tensor([1], [1])),
        "code/__torch__/M.py": b"class M(Module):\n",
        "constants.pkl": pickled(b")"),
        "version": b"3\n",
    }
)
PACKED = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
WITHOUT = (
    f"the model holds an object of class {PACKED}, which is not in this library"
    " (raised from missing_class at model:0)"
)
NO_MODEL = "not a lite-interpreter model: "
FILES = {
    "torch.jit.save": (
        SCRIPT,
        f"{NO_MODEL}it is TorchScript of torch.jit.save; write it with "
        "module._save_for_lite_interpreter(path)",
    ),
    "weights": (
        archive({"data.pkl": pickled(b")"), "version": b"3\n"}),
        f"{NO_MODEL}the archive has no bytecode.pkl",
    ),
    "another zip": (zipped("META-INF/MANIFEST.MF"), f"{NO_MODEL}the archive has no bytecode.pkl"),
    "no zip": (b"\x80\x02}q\x00.", f"{NO_MODEL}it is not a zip archive"),
    "no file": (b"", f"{NO_MODEL}it is not a zip archive"),
    "weights that were packed for another library": (
        model(module(b"c" + "\n".join(PACKED.rsplit(".", 1)).encode() + b"\n)\x81(tb")),
        WITHOUT,
    ),
    # its type would be none, which the loader does not ask
    "a list of them": (
        model(
            module(
                b"ctorch.jit._pickle\nrestore_type_tag\n"
                + row(b"]", text(f"List[{PACKED}]"))
                + b"R"
            )
        ),
        WITHOUT,
    ),
    # cut off: nobody knows what it was
    "half of torch.jit.save": (
        SCRIPT[:-40],
        "the archive is damaged: err == MZ_ZIP_NO_ERROR "
        "(raised from check at inline_container.cc:183)",
    ),
    "half of a model": (
        PICTURE[:-40],
        "the archive is damaged: err == MZ_ZIP_NO_ERROR "
        "(raised from check at inline_container.cc:183)",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_other_files_are_told_apart(api: Api, name: str) -> None:
    data, said = FILES[name]
    assert api.load(data) == (LOAD_FAILED, said)
