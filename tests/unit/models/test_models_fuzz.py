"""Whatever happened to a model's bytes, reading it ends soon, in a value or in our own error."""

from __future__ import annotations

import struct
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from zips import zipped

from orchestrator.errors import OrchestratorError
from orchestrator.models.info import read_model
from orchestrator.pytorch.v1_13.dialect import DIALECT

GOOD = Path(__file__).parents[2] / "golden" / "models" / "small.ptl"
DATA = GOOD.read_bytes()
with zipfile.ZipFile(GOOD) as _archive:
    RECORDS = {name: _archive.read(name) for name in _archive.namelist()}
BYTECODE = "model/bytecode.pkl"
OPCODES = [bytes([opcode]) for opcode in b"N](te}u)\x85\x86\x87bRQ.l\x81d"]
# A second is the limit that matters to a user; reading the whole model takes milliseconds.
fuzz = settings(max_examples=300, deadline=1000)
FLIPS = st.lists(st.tuples(st.integers(0, 2**16), st.integers(1, 255)), min_size=1, max_size=8)


def read(data: bytes) -> None:
    """Reads bytes as a model; anything but one of our errors fails the test."""
    with tempfile.TemporaryDirectory() as folder, suppress(OrchestratorError):
        model = Path(folder) / "model.ptl"
        model.write_bytes(data)
        read_model(model, DIALECT.models)


def flip(data: bytes, flips: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for at, mask in flips:
        changed[at % len(changed)] ^= mask
    return bytes(changed)


@fuzz
@given(st.integers(0, len(DATA)), st.binary(max_size=8))
def test_truncated(length: int, tail: bytes) -> None:
    read(DATA[:length] + tail)


@fuzz
@given(FLIPS)
def test_flipped_bytes(flips: list[tuple[int, int]]) -> None:
    read(flip(DATA, flips))


@fuzz
@given(st.integers(1, 1200), st.integers(1, 255))
def test_flipped_table_of_contents(back: int, mask: int) -> None:
    read(flip(DATA, [(len(DATA) - back, mask)]))


@fuzz
@given(FLIPS)
def test_flipped_bytecode_with_a_right_checksum(flips: list[tuple[int, int]]) -> None:
    read(zipped({**RECORDS, BYTECODE: flip(RECORDS[BYTECODE], flips)}))


@fuzz
@given(st.integers(0, 2**16), st.binary(max_size=40))
def test_bytecode_with_pieces_put_in(at: int, piece: bytes) -> None:
    code = RECORDS[BYTECODE]
    at %= len(code)
    read(zipped({**RECORDS, BYTECODE: code[:at] + piece + code[at:]}))


@fuzz
@given(
    st.lists(st.sampled_from([bytes([b]) for b in b"N](te}u)\x85\x86\x87bRQ.l\x81d"]), max_size=60)
)
def test_sequences_of_opcodes(opcodes: list[bytes]) -> None:
    read(zipped({**RECORDS, BYTECODE: b"\x80\x02" + b"".join(opcodes) + b"."}))


@fuzz
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_lying_sizes(packed_size: int, size: int, offset: int) -> None:
    entry = DATA.rindex(b"PK\x01\x02")
    sizes = struct.pack("<II", packed_size, size)
    changed = DATA[: entry + 20] + sizes + DATA[entry + 28 : entry + 42]
    read(changed + struct.pack("<I", offset) + DATA[entry + 46 :])
