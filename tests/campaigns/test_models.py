"""Damaged and hostile models: whatever the bytes, reading ends soon, in a value or in an error.

Two campaigns. The first damages good models: their bytes, their table of contents, their pickles
opcode by opcode, and the values in these, which are then of another kind than they should be. The
second reads the files of `hostile_models.py`.
"""

from __future__ import annotations

import io
import json
import random
import resource
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from harness import Campaign
from hostile_models import WORST

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.checks import (
    check_classes,
    check_operators,
    misfits,
    require_arguments,
    require_inputs,
    require_no_enums,
    require_no_named_tuples,
    require_types,
)
from orchestrator.models.inert import Call, Global, Pairs, Value
from orchestrator.models.info import read_model
from orchestrator.models.pickles import read_pickle
from orchestrator.models.tensors import STORAGE, Tensors
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.operators import Arguments, OperatorName
from tests import ptl

ROOT: Final = Path(__file__).parents[2]
KNOWN: Final = {
    OperatorName.parse(line)
    for line in (ROOT / "tests/failing/models/known.txt").read_text().split()
}
TAKEN: Final = {str(name): Arguments(2, 3) for name in KNOWN}
SECONDS: Final = 2
MEMORY: Final = 500 * 10**6

Records = Mapping[str, bytes]


def examine(path: Path) -> None:
    """Reads a model and asks all that is ever asked; every error is told."""
    try:
        info = read_model(path, DIALECT.models, name="m")
    except OrchestratorError as error:
        error.render()
        return
    assert info.methods == tuple(sorted(info.methods))
    checks: Sequence[Callable[[], object]] = (
        lambda: require_inputs(info, declared=False),
        lambda: require_no_enums(info),
        lambda: require_no_named_tuples(info),
        lambda: require_types(info),
        lambda: check_operators(info, KNOWN, "1"),
        lambda: require_arguments(misfits(info, TAKEN), TAKEN.keys(), info.place, "1"),
        lambda: check_classes(info, ["quantized.P"], "1"),
    )
    told = []
    for check in checks:
        try:
            check()
        except OrchestratorError as error:
            told.append(error.render())
    # A hostile file may name thousands of things.
    assert all(len(text) < 50_000 for text in told)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Half a gigabyte more than there is now."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    held = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmData:")
    )
    resource.setrlimit(resource.RLIMIT_DATA, (held + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


def unpacked(path: Path) -> Records:
    """The records of a model by their path below the top folder."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


SEEDS: Final = [
    *sorted(ROOT.glob("apps/*/models/*.ptl")),
    *sorted(ROOT.glob("tests/golden/models/*.ptl")),
    *sorted(ROOT.glob("tests/integration/apps/*/models/*.ptl")),
]
PICKLES: Final = ("bytecode.pkl", "data.pkl")
OPCODES: Final = b"])}NKMJGXcqrhj(tledubRQ.\x80\x81\x85\x86\x87\x88\x89\x8a"
NUMBERS: Final = (0, 1, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
PATHS: Final = (
    *("../x", "/etc/passwd", "a//b", "./a", "a/", "", " ", "a\nb", "x" * 60_000, "é/ü", "a\\b"),
    *("m/bytecode.pkl", "m/Bytecode.pkl", "o/data.pkl", "m/../x", "m/\u202e", "m/.data/version"),
)
# What a value may be in place of another.
ODD: Final[tuple[Value, ...]] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63 - 1, -(2**63), 1.5, float("nan")),
    *("", "x", "aten::add", "operators", "\x1b[2J", "a\nb", "a" * 3000, "List[" * 70, "JMP", "OP"),
    *("__torch__.torch.classes.q.P", "__torch__.A", "get_all_bundled_inputs_for_forward"),
    *((), ("a",), ("a", 1), ("a", 1, 2), ("operators", ()), ("LOAD", 1, 0)),
    [],
    *(Pairs([]), Pairs([("a", 1)]), Pairs([(Pairs([]), [])])),
    *(Global("torch", "FloatStorage"), Global("__torch__", "A"), Global("os", "system")),
    Call(Global("__torch__", "A"), Pairs([("_bundled_inputs_deflated_forward", [1, 2])])),
    Call(Global("torch._utils", "_rebuild_tensor_v2"), (1, 2, 3)),
    Call(STORAGE, ("storage", Global("torch", "ByteStorage"), "0", "cpu", 8)),
)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some of them changed, gone, doubled or put in."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8, 32])):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(7):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(changed):
                changed[at] = rng.choice(OPCODES)
            case 2:
                del changed[at : at + rng.choice([1, 2, 4, 16, 200])]
            case 3:
                changed[at:at] = rng.choices(OPCODES, k=rng.choice([1, 2, 5, 40]))
            case 4:
                start = rng.randrange(len(changed) + 1)
                changed[at:at] = changed[start : start + rng.choice([1, 4, 30, 300])]
            case 5:
                width = rng.choice([2, 4, 8])
                number = rng.choice(NUMBERS) % 2 ** (8 * width)
                changed[at : at + width] = number.to_bytes(width, "little")
            case 6:
                del changed[at:]
    return bytes(changed)


def odd(value: Value, share: float, rng: random.Random) -> Value:
    """A value with some of what is in it replaced, gone or added."""
    if rng.random() < share:
        return rng.choice(ODD)
    if isinstance(value, tuple | list):
        parts = [odd(one, share, rng) for one in value]
        if parts and rng.random() < share:
            parts.pop(rng.randrange(len(parts)))
        if rng.random() < share:
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(ODD))
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, Call):
        return Call(value.function, odd(value.argument, share, rng))
    if isinstance(value, Pairs):
        return Pairs([(odd(k, share, rng), odd(v, share, rng)) for k, v in value.entries])
    if type(value) is int and rng.random() < 10 * share:
        return value + rng.choice([-1, 1, 7, 2**20]) if abs(value) < 2**62 else 0
    return value


def dumped(value: Value) -> bytes:
    """The opcodes that push a value."""
    match value:
        case None:
            return ptl.NONE
        case bool():
            return ptl.TRUE if value else ptl.FALSE
        case int():
            return ptl.number(value)
        case float():
            return ptl.real(value)
        case str():
            return ptl.text(value.encode("utf-8", "surrogateescape"))
        case tuple():
            return ptl.tuple_of(*map(dumped, value))
        case list():
            return ptl.list_of(*map(dumped, value))
        case Global():
            return ptl.named(value.module, value.name)
        case Pairs():
            return b"}(" + b"".join(dumped(part) for pair in value.entries for part in pair) + b"u"
        case Call() if value.function == STORAGE:
            return dumped(value.argument) + b"Q"
        case Call():
            return dumped(value.function) + dumped(value.argument) + b"R"


def opcodes(rng: random.Random) -> bytes:
    """A pickle of opcodes by chance, most with operands that suit them."""
    pieces = [
        *(bytes([opcode]) for opcode in b"])}N(tledubRQ\x81\x85\x86\x87\x88\x89"),
        *(b"K\x07", b"M\x00\x01", b"J\xff\xff\xff\xff", b"G" + bytes(8), ptl.number(-1)),
        *(ptl.text(name) for name in ("operators", "aten::add", "", "a" * 5000, b"\xff\xfe")),
        *(ptl.named("__torch__", "A"), ptl.named("torch._utils", "_rebuild_tensor_v2")),
        *(ptl.named("torch", "FloatStorage"), ptl.named("collections", "OrderedDict")),
        *(b"q\x00", b"h\x00", b"h\x01", b"r\x00\x00\x00\x80", b"cos\nsystem\n", b"\x8a\xff"),
    ]
    return ptl.START + b"".join(rng.choices(pieces, k=rng.choice([3, 10, 50, 400]))) + b"."


def packed(records: Sequence[tuple[str, bytes]], rng: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, warnings.catch_warnings():
        # of two records of one name
        warnings.simplefilter("ignore", UserWarning)
        for path, data in records:
            info = zipfile.ZipInfo(path)
            info.compress_type = rng.choice([0, 0, 0, 8])
            archive.writestr(info, data)
    return out.getvalue()


def mutated(rng: random.Random) -> bytes:
    """A model with something wrong in it."""
    path = rng.choice(SEEDS)
    match rng.randrange(6):
        case 0:
            return damaged(path.read_bytes(), rng)
        case 1:
            whole = path.read_bytes()
            table = whole.index(b"PK\x01\x02")
            return whole[:table] + damaged(whole[table:], rng)
    records = dict(unpacked(path))
    match rng.randrange(5):
        case 0:
            for name in PICKLES:
                if rng.random() < 0.6:
                    records[name] = damaged(records[name], rng)
        case 1:
            for name in PICKLES:
                value = with_records(records, name)
                share = rng.choice([0.0003, 0.001, 0.003, 0.01, 0.1])
                records[name] = ptl.pickled(dumped(odd(value, share, rng)))
        case 2:
            records[rng.choice(PICKLES)] = opcodes(rng)
        case 3:
            records["version"] = rng.choice([b"", b"9" * 5000, b"-1", b"\xff", b" 6 ", b"6\0"])
        case 4:
            records = {name: data for name, data in records.items() if rng.random() < 0.8}
    paths = [(f"m/{name}", data) for name, data in records.items()]
    if rng.random() < 0.2:
        paths.insert(rng.randrange(len(paths) + 1), (rng.choice(PATHS), b"x"))
    file = packed(paths, rng)
    return damaged(file, rng) if rng.random() < 0.1 else file


def with_records(records: Records, name: str) -> Value:
    sizes = {path: len(data) for path, data in records.items()}
    folder = "data/" if name == "data.pkl" else "constants/"
    return read_pickle(records[name], name, Place("m"), tensors=Tensors(sizes, folder)).value


@pytest.mark.usefixtures("little_memory")
def test_damaged_models_end_in_a_value_or_an_error(campaign: Campaign, tmp_path: Path) -> None:
    path = tmp_path / "model.ptl"
    for number, rng in campaign.tries(short=300, long=20_000):
        path.write_bytes(mutated(rng))
        with told(number):
            begun = time.process_time()
            examine(path)
            assert time.process_time() - begun < SECONDS


@contextmanager
def told(number: int) -> Iterator[None]:
    """Says with which number what is raised in here can be repeated."""
    try:
        yield
    except Exception as error:
        error.add_note(f"try number {number}")
        raise


def test_what_is_written_again_unchanged_is_read(tmp_path: Path) -> None:
    """So that the campaign's own way of writing values is none of the damage."""
    path = tmp_path / "model.ptl"
    for seed in SEEDS:
        records = dict(unpacked(seed))
        for name in PICKLES:
            records[name] = ptl.pickled(dumped(with_records(records, name)))
        path.write_bytes(ptl.archive(records, zipfile.ZIP_STORED))
        again, before = (
            read_model(path, DIALECT.models),
            read_model(seed, DIALECT.models),
        )
        assert (again.functions, again.bundled_inputs) == (before.functions, before.bundled_inputs)


# Says of each file how it ended, and how many seconds that took.
CHILD: Final = """
import json, resource, sys, time
sys.path[:0] = sys.argv[3:]
from pathlib import Path
from test_models import examine
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2)
begun = time.process_time()
examine(Path(sys.argv[2]))
print(json.dumps(time.process_time() - begun))
"""


def test_the_worst_files_take_little_time_and_memory(campaign: Campaign, tmp_path: Path) -> None:
    path = tmp_path / "model.ptl"
    for number, _ in campaign.tries(short=len(WORST), long=len(WORST)):
        name = list(WORST)[number]
        path.write_bytes(WORST[name]())
        # a busy core does less in a CPU second: the least of some runs counts
        for last in (False, False, True):
            done = subprocess.run(
                [sys.executable, "-c", CHILD, str(MEMORY), str(path), *sys.path],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, ""), f"{name}, try number {number}"
            if json.loads(done.stdout) < SECONDS:
                break
            assert not last, f"{name}, try number {number}"
