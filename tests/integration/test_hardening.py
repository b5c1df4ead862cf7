"""What a delivered library does where memory or a model is not as it should be, and what it says
of itself: the hardening of what ships (decision 0031)."""

from __future__ import annotations

import ctypes
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from crafted import (
    GIVE_ATTRIBUTE,
    archive,
    method,
    model,
    module,
    named,
    number,
    operator,
    pickled,
    row,
    tensor,
    text,
)
from elftools.elf.elffile import ELFFile
from real import ROOT, orchestrator, workspace_copy

pytestmark = pytest.mark.real

INVALID_ARGUMENT, LOAD_FAILED = 1, 3
# An app of each runtime: its model, and two weights in it. The loader does not read constants.pkl.
APPS = {
    "camera": ("classifier", ("constants/90.storage", "constants/126.storage")),
    "translator": ("sentences", ("data/0", "data/46")),
}


@pytest.fixture(scope="module", params=APPS)
def app(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def whole(app: str) -> Path:
    """The app's model."""
    return ROOT / f"apps/{app}/models/{APPS[app][0]}.ptl"


@pytest.fixture(scope="module")
def library(app: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The app's delivered library for this machine."""
    root = workspace_copy(tmp_path_factory.mktemp("hardening"), app)
    ran = orchestrator("build", f"//apps/{app}:linux-x86_64", "--json", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    assert variant["verified"] == "ok"
    return root / f"dist/{app}/linux-x86_64/lib/lib{app}_torch.so"


def flipped(model: Path, record: str) -> bytes:
    """The model with one bit of one record changed, in the middle of its content."""
    data = bytearray(model.read_bytes())
    with zipfile.ZipFile(model) as archive:
        (entry,) = (i for i in archive.infolist() if i.filename == f"{model.stem}/{record}")
    # the local header: 30 bytes, the name, and an extra field that aligns the content
    name, extra = data[entry.header_offset + 26], data[entry.header_offset + 28 :][:2]
    begin = entry.header_offset + 30 + name + int.from_bytes(extra, "little")
    assert entry.compress_type == zipfile.ZIP_STORED
    data[begin + entry.file_size // 2] ^= 0x10
    return bytes(data)


def load(library: Path, model: bytes) -> tuple[int, str]:
    """The status of loading a model from memory, and what was said."""
    api = ctypes.CDLL(str(library))
    api.lta_last_error.restype = ctypes.c_char_p
    module = ctypes.c_void_p()
    status = api.lta_module_load_memory(model, ctypes.c_size_t(len(model)), ctypes.byref(module))
    if status == 0:
        api.lta_module_free(module)
    return status, api.lta_last_error().decode() if status else ""


def described(library: Path, model: bytes) -> tuple[int, str]:
    """The status of `lta_tensor_describe` for what a model gives, and what was said."""
    api = ctypes.CDLL(str(library))
    api.lta_last_error.restype = ctypes.c_char_p
    api.lta_module_free.argtypes = api.lta_value_free.argtypes = (ctypes.c_void_p,)
    module, result = ctypes.c_void_p(), ctypes.c_void_p()
    size = ctypes.c_size_t(len(model))
    assert api.lta_module_load_memory(model, size, ctypes.byref(module)) == 0
    ran = api.lta_module_run(module, b"forward", None, ctypes.c_size_t(0), ctypes.byref(result))
    assert ran == 0, api.lta_last_error()
    # larger than lta_tensor_info
    status = api.lta_tensor_describe(result, ctypes.create_string_buffer(1024))
    said = api.lta_last_error().decode() if status else ""
    api.lta_value_free(result)
    api.lta_module_free(module)
    return status, said


def test_a_whole_model_loads(library: Path, whole: Path) -> None:
    assert load(library, whole.read_bytes()) == (0, "")


def test_a_flipped_bit_is_refused(app: str, library: Path, whole: Path) -> None:
    for record in (*APPS[app][1], "bytecode.pkl"):
        status, said = load(library, flipped(whole, record))
        assert status == LOAD_FAILED, record
        assert said


def with_debug(debug: bytes) -> bytes:
    """A model with debug information: of its version, and of its one method."""
    return archive(
        {
            "data.pkl": module(tensor([1], [1])),
            "data/0": bytes(8),
            "version": b"3\n",
            "bytecode.pkl": method(GIVE_ATTRIBUTE),
            "constants.pkl": pickled(b")"),
            "mobile_debug_handles.pkl": pickled(row(number(7), debug)),
        }
    )


NAME = text("__torch__.M.forward")
HANDLES = row(*[number(1)] * len(GIVE_ATTRIBUTE))
# What PyTorch reads beyond its end -> what is said of it.
BEYOND = {
    "no operator": (
        model(code=method([("OP", 1, 0), ("RET", 0, 0)], operators=[operator("aten::add")])),
        "an instruction names no operator",
    ),
    "an operator before the first": (
        model(code=method([("OP", -1, 0), ("RET", 0, 0)])),
        "an instruction names no operator",
    ),
    "no name": (model(code=pickled(row(number(7), row()))), "a method is not whole"),
    "no code": (model(code=pickled(row(number(4), row(NAME)))), "a method is not whole"),
    "no schema": (model(code=pickled(row(number(7), row(NAME, row())))), "a method is not whole"),
    "a number": (model(code=pickled(row(number(7), number(1)))), "a method is not whole"),
    "a storage longer than its record": (
        model(module(tensor([1], [1], numel=1000))),
        "a tensor's record is shorter than its storage",
    ),
    "a storage whose bytes wrap around": (
        model(module(tensor([1], [1], numel=2**61 + 1))),
        "a tensor's record is shorter than its storage",
    ),
    "a storage of less than nothing": (
        model(module(tensor([1], [1], numel=-1))),
        "a tensor's record is shorter than its storage",
    ),
    **{
        f"a tensor of {sizes} by {strides} at {offset}": (
            model(module(tensor(sizes, strides, offset=offset))),
            "a tensor reaches beyond its storage",
        )
        for sizes, strides, offset in (
            ([2], [1], 0),
            ([1], [1], 1),
            ([1], [1], 10**9),
            ([1], [1], -1),
            ([-1], [1], 0),
            ([2], [-1], 0),
            # the number of elements, and the last one's place, wrap around
            ([2**32, 2**32], [0, 0], 0),
            ([2**62, 2], [2, 1], 0),
        )
    },
    "a dtype that nobody knows": (
        model(module(tensor([1], [1], dtype=number(99)))),
        "no dtype has this number",
    ),
    "a pickle that takes what is not there": (
        model(pickled(b"\x86")),
        "a pickle takes what is not there",
    ),
    **{
        f"debug {number_of}": (with_debug(debug), "a method's debug information is not whole")
        for number_of, debug in enumerate(
            (number(1), row(NAME), row(NAME, row()), row(NAME, named(function_debug_handles=row())))
        )
    },
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_a_model_leaves_out_is_not_read(name: str, library: Path) -> None:
    damaged, said = BEYOND[name]
    status, why = load(library, damaged)
    assert status == LOAD_FAILED
    assert f"the model is damaged: {said}" in why


@pytest.mark.parametrize("item", [b"s", b"u"])
@pytest.mark.parametrize("holder", [number(1), text("a"), b"]", row(), tensor([1], [1]), b"N"])
def test_an_item_is_set_in_a_dictionary_alone(
    app: str, holder: bytes, item: bytes, library: Path
) -> None:
    """As CVE-2026-24747 is about, of another unpickler."""
    pair = number(1) + number(2)
    entry = b"(" + pair if item == b"u" else pair
    status, _ = load(library, model(module(holder + entry + item)))
    assert status == LOAD_FAILED
    status, _ = load(library, model(module(b"}" + entry + item)))
    # 1.13.1 reads items in numbers alone
    assert status == (LOAD_FAILED if (app, item) == ("camera", b"s") else 0)


def test_a_tensor_of_many_dimensions_is_described_or_refused(library: Path) -> None:
    many = [model(module(tensor([1] * count, [1] * count))) for count in (64, 65)]
    assert described(library, many[0]) == (0, "")
    refused = (INVALID_ARGUMENT, "the tensor has more than 64 dimensions")
    assert described(library, many[1]) == refused


def test_whole_debug_information_is_read(library: Path) -> None:
    for debug in (row(), row(NAME, named(function_debug_handles=row(HANDLES)))):
        status, why = load(library, with_debug(debug))
        assert "debug information" not in why, status


def test_a_tensor_of_a_subclass_in_python_is_refused(library: Path) -> None:
    """1.13.1 knows no such name; 2.6.0 would call the global behind it."""
    python = b"ctorch._tensor\n_rebuild_from_type_v2\n" + row(number(1)) + b"R"
    status, why = load(library, model(module(python)))
    assert status == LOAD_FAILED
    if reads_what_2_6_does(library):
        assert "the model is damaged: a tensor of a subclass in Python" in why


def test_what_else_is_told_of_a_tensor_is_for_other_devices(library: Path) -> None:
    """A key that nobody knows is passed over; 1.13.1 passes all over, 2.6.0 reads it."""
    told = {"other": (b"}(", text("other"), b"\x89u"), "no text": (b"}(", number(1), b"\x89u")}
    bits = {kind: b"".join(parts) for kind, parts in told.items()}
    loaded = {k: load(library, model(module(tensor([1], [1], bits=b)))) for k, b in bits.items()}
    assert loaded["other"] == (0, "")
    assert loaded["no text"][0] == (LOAD_FAILED if reads_what_2_6_does(library) else 0)


def reads_what_2_6_does(library: Path) -> bool:
    api = ctypes.CDLL(str(library))
    api.lta_version.restype = ctypes.c_char_p
    return b"2.6.0" in api.lta_version()


def test_the_library_checks_itself_when_it_runs(library: Path) -> None:
    """Canaries, and the C library's checked functions; the other rules are binary/elf.py's."""
    with library.open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".dynsym")
        needed = {s.name for s in table.iter_symbols() if s["st_shndx"] == "SHN_UNDEF"}
    assert {"__stack_chk_fail", "__memcpy_chk", "__vsnprintf_chk"} <= needed
