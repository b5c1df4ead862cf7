"""Writes the bad models of this folder again, and the good ones of tests/golden/models.

Run `PYTHONPATH=. python tests/failing/models/make.py` with the optional dependency group `export`
(torch 2.13).
Each case is a folder with `model.ptl`; the test compares the error with its `expected.txt`. What a
case breaks is written by real torch first and damaged here, so that only one thing is wrong.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import warnings
import zipfile
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.bundled_inputs import bundle_inputs

from tests import ptl

HERE = Path(__file__).resolve().parent
GOOD = HERE.parents[1] / "golden" / "models"
EPOCH = (1980, 1, 1, 0, 0, 0)
Records = dict[str, bytes]


class Small(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + 1)


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class ReturnsNamedTuple(nn.Module):
    def forward(self, x: torch.Tensor) -> Pair:
        return Pair(x, x + 1)


class Enlarge(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=2.0, mode="bilinear")


class Attend(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x)


class Spectrum(nn.Module):
    """torch 2.13 passes `align_to_window` to aten::stft, which 1.13 does not have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.stft(x, 4, center=False, return_complex=True))


class Spread(nn.Module):
    """torch 2.13 traces `std()` as an overload and leaves out what has no default in 1.13."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.std()


class Generates(Small):
    """Makes its inputs itself, when it is asked for them."""

    @torch.jit.export
    def _generate_bundled_inputs_for_forward(self) -> list[tuple[torch.Tensor]]:
        return [(torch.ones(2),)]


class Quantised(nn.Module):
    """Dynamic int8: its weights lie in a custom class of the runtime."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Inverts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x) if bool(x.sum() > 2) else x.inverse() + torch.det(x)


def lite(module: nn.Module, inputs: list[tuple[torch.Tensor, ...]] | None = None) -> Records:
    scripted = torch.jit.script(module.eval())
    if inputs:
        scripted = bundle_inputs(scripted, inputs)
    return unpack(scripted._save_to_buffer_for_lite_interpreter())


def unpack(data: bytes) -> Records:
    """The records by their path below the top folder, without what holds paths or differs."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        paths = {name.partition("/")[2]: name for name in archive.namelist()}
        return {
            path: archive.read(name)
            for path, name in paths.items()
            if not path.endswith(".debug_pkl") and path != ".data/serialization_id"
        }


def exported(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Records:
    """What torch.export.save writes, with its texts emptied: they name files of this machine."""
    out = io.BytesIO()
    torch.export.save(torch.export.export(module, inputs), out)
    records = unpack(out.getvalue())
    kept = ("archive_format", "archive_version", "byteorder", "models/model.json")
    return {path: b"" if path.endswith(".json") else records[path] for path in kept}


def pack(records: Records, method: int = zipfile.ZIP_STORED) -> bytes:
    return pack_paths([(f"model/{path}", data) for path, data in records.items()], method)


def pack_paths(records: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for path, data in records:
            info = zipfile.ZipInfo(path, EPOCH)
            info.compress_type = method
            archive.writestr(info, data)
    return out.getvalue()


def with_version(records: Records, version: int) -> Records:
    code = records["bytecode.pkl"]
    assert code.startswith(b"\x80\x02(K\x08")
    return {**records, "bytecode.pkl": code.replace(b"(K\x08", b"(K" + bytes([version]), 1)}


def with_code(records: Records, code: bytes) -> bytes:
    return pack({**records, "bytecode.pkl": code})


def naming(records: Records, operator: str, other: str) -> bytes:
    """The model with another operator's name in place of one."""

    def text(name: str) -> bytes:
        return b"X" + struct.pack("<I", len(name)) + name.encode()

    assert text(operator) in records["bytecode.pkl"]
    return with_code(records, records["bytecode.pkl"].replace(text(operator), text(other)))


def claiming(data: bytes, size: int) -> bytes:
    """The archive whose last record says that it unpacks to `size` bytes."""
    entry = data.rindex(b"PK\x01\x02")
    return data[: entry + 24] + struct.pack("<I", size) + data[entry + 28 :]


def overlapping(records: Records) -> bytes:
    """The archive whose table of contents lists a large record three times."""
    paths = [("model/" + path, data) for path, data in records.items()]
    data = pack_paths([*paths, ("model/data/0", bytes(4096))])
    entry, end = data.rindex(b"PK\x01\x02"), data.rindex(b"PK\x05\x06")
    row = data[entry:end]
    rows = row + row.replace(b"data/0", b"data/1") + row.replace(b"data/0", b"data/2")
    count, size = len(paths) + 3, end - data.index(b"PK\x01\x02") + 2 * len(row)
    tail = struct.pack("<HHI", count, count, size)
    return data[:entry] + rows + data[end : end + 8] + tail + data[end + 16 :]


def flipped(data: bytes, record: bytes) -> bytes:
    at = data.index(record)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def cases() -> dict[str, bytes]:
    inputs = [(torch.ones(2, 2),)]
    small = lite(Small(), inputs)
    good = pack(small)
    plain, weights = io.BytesIO(), io.BytesIO()
    torch.jit.save(torch.jit.script(Small()), plain)
    torch.save({"weight": torch.ones(2)}, weights)
    paths = [(f"model/{path}", data) for path, data in small.items()]
    return {
        "archive_version_too_new": pack({**small, "version": b"11\n"}),
        "bytecode_version_too_new": pack(with_version(small, 10)),
        "bytecode_version_too_old": pack(with_version(small, 3)),
        "checkpoint": pack(unpack(weights.getvalue())),
        "damaged_record": flipped(good, b"get_num_bundled_inputs"),
        "empty_file": b"",
        "executorch": b"\x30\0\0\0ET12" + bytes(16),
        "exported_program": pack(exported(Small(), inputs[0])),
        "flatbuffer": b"\x18\0\0\0PTMF" + bytes(16),
        "foreign_operator": naming(small, "aten::relu", "torchvision::nms"),
        "git_lfs_pointer": b"version https://git-lfs.github.com/spec/v1\nsize 445543\n",
        "onnx": b"\x08\x07\x12\x07pytorch\x1a\x052.6.0" + bytes(64),
        "tensorflow_lite": b"\x1c\0\0\0TFL3" + bytes(64),
        "web_page": b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n",
        "compressed": b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + bytes(64),
        "pickle": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
        "safetensors": b'\x40\0\0\0\0\0\0\0{"__metadata__":{"format":"pt"}}' + b" " * 32,
        "keras": b"\x89HDF\r\n\x1a\n" + bytes(64),
        "inflates_too_far": claiming(pack(small, zipfile.ZIP_DEFLATED), 2**30),
        "mobile_optimised": naming(small, "aten::relu", "vulkan_prepack::run_linear_context"),
        "named_tuple": pack(lite(ReturnsNamedTuple(), inputs)),
        "no_inputs": pack(lite(Small())),
        "no_version": pack({path: data for path, data in small.items() if path != "version"}),
        "not_bytecode": with_code(small, b"\x80\x02(K\x08X\x01\0\0\0at."),
        "not_zip": b"not a model\n",
        "overlapping_records": overlapping(small),
        "path_leaves_folder": pack_paths([*paths, ("model/../../evil", b"")]),
        "pickle_calls_system": with_code(small, pickle.dumps(Evil(), protocol=2)),
        "pickle_opcode": with_code(small, b"\x80\x02X\x02\0\0\0osX\x06\0\0\0system\x93."),
        "plain_torchscript": pack(unpack(plain.getvalue())),
        "record_twice": pack_paths([*paths, ("model/version", b"3\n")]),
        "truncated": good[: len(good) // 2],
        "two_folders": pack_paths([*paths, ("other/data.pkl", b"")]),
        "unknown_attention": pack(lite(Attend(), [(torch.ones(1, 2, 2),)])),
        "unknown_interpolation": pack(lite(Enlarge(), [(torch.ones(1, 1, 2, 2),)])),
    }


class Evil:
    """Runs a command when an ordinary unpickler reads it."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


def quantised() -> nn.Module:
    torch.backends.quantized.engine = "qnnpack"
    module: nn.Module = torch.ao.quantization.quantize_dynamic(Quantised().eval(), {nn.Linear})
    return module


def good_models() -> dict[str, bytes]:
    return {
        "small.ptl": pack(lite(Small(), [(torch.ones(2, 2),)])),
        "generates.ptl": pack(
            unpack(
                bundle_inputs(
                    torch.jit.script(Generates()), None
                )._save_to_buffer_for_lite_interpreter()
            )
        ),
        "quantised.ptl": pack(lite(quantised())),
    }


def packed_as(version: str) -> bytes:
    """A layer whose weights are packed in a format of this version; no PyTorch writes another."""
    state = ptl.tuple_of(ptl.text(version), ptl.list_of(), ptl.list_of())
    name = ptl.named("__torch__.torch.classes.quantized", "Conv2dPackedParamsBase")
    bundled = {"_bundled_inputs_deflated_forward": ptl.list_of(ptl.tuple_of(ptl.number(1)))}
    names = ("forward", "get_all_bundled_inputs_for_forward")
    functions = (ptl.function(f"{ptl.MODULE}.{method}") for method in names)
    data = ptl.module(layer=name + b")\x81" + state + b"b", **bundled)
    return ptl.model(ptl.bytecode(*functions), data)


def by_hand() -> dict[str, bytes]:
    """What no damage makes of the others: opcode by opcode, as torch 2.13 writes them."""
    names = (f"{ptl.MODULE}.forward", f"{ptl.MODULE}.get_all_bundled_inputs_for_forward")
    inputs = {"_bundled_inputs_deflated_forward": ptl.list_of(ptl.tuple_of(ptl.number(1)))}

    def model(result: str = "Tensor", types: bytes = ptl.EMPTY, **data: bytes) -> bytes:
        signature = ptl.schema(returns=ptl.tuple_of(ptl.argument("", result)))
        forward = ptl.function(names[0], ptl.code(types=types), signature)
        return ptl.model(
            ptl.bytecode(forward, ptl.function(names[1])), ptl.module(**{**inputs, **data})
        )

    def tagged(kind: str) -> bytes:
        held = ptl.list_of(ptl.tuple_of(ptl.number(1)))
        return ptl.call("torch.jit._pickle", "restore_type_tag", held, ptl.text(kind))

    sequence = "__torch__.torch.nn.utils.rnn.PackedSequence"
    colour = ptl.named("__torch__.net", "Colour") + ptl.number(1) + b"R"
    small = ptl.storage(kind="UInt16")
    held = {"mainModule": {"torchscriptArena": {"key": "code/model.py"}, "name": "model"}}
    return {
        "before_1_3": pack(
            {
                "version": b"1\n",
                "model.json": json.dumps({"protoVersion": "2", **held}).encode(),
                "code/model.py": b"op_version_set = 1\n",
            }
        ),
        "enum": model("__torch__.net.Colour", colour=colour),
        "newer_dtype": model(weight=ptl.tensor(small, ptl.numbers(1), ptl.numbers(1))),
        "packed_sequence": model(sequence),
        "type_empty": model(_bundled_inputs_deflated_forward=tagged("List[Tuple[()]]")),
        "type_union": model(
            "Union[Tensor, int]",
            ptl.tuple_of(ptl.text("Dict[str,Union[Tensor, int]]")),
        ),
    }


def later_cases() -> dict[str, bytes]:
    """Made last: torch numbers the classes that it compiles, and the others keep their numbers."""
    return {
        "packed_weights": pack(lite(quantised(), [(torch.ones(1, 4),)])),
        "extra_arguments": pack(lite(Spectrum(), [(torch.ones(1, 8),)])),
        "missing_arguments": pack(
            lite(torch.jit.trace(Spread().eval(), torch.ones(2)), [(torch.ones(2),)])
        ),
        "unknown_packing": packed_as("4"),
        **by_hand(),
        "lapack": pack(lite(Inverts(), [(torch.eye(2),)])),
    }


def main() -> None:
    torch.manual_seed(1131)
    warnings.filterwarnings("ignore")
    bad, good, later = cases(), good_models(), later_cases()
    for name, data in (bad | later).items():
        (HERE / name).mkdir(exist_ok=True)
        (HERE / name / "model.ptl").write_bytes(data)
    GOOD.mkdir(exist_ok=True)
    for name, data in good.items():
        (GOOD / name).write_bytes(data)


if __name__ == "__main__":
    main()
