"""Damaged models in the delivered library: loaded, run, and all that they give is read.

Each try is a process of its own (`consumers/runner.c`). It may end in an error of the API, in the
time limit, or have gone through; a signal is a crash, and fails the campaign. Those of `KNOWN` are
counted instead: PyTorch's own, which read and write nothing that is not theirs. The guide tells of
them ("Models that you trust").
"""

from __future__ import annotations

import os
import pickletools
import random
import shutil
import subprocess
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from crafted import archive, method, model, module, number, operator, row, tensor, text
from harness import Campaign
from native_runner import FILLED, backtrace, compile_runner, outcomes, with_symbols
from real import ROOT, models_of, orchestrator, workspace_copy

pytestmark = pytest.mark.real

# The signal, and the function that crashes -> why it does so on a model that is made for it.
KNOWN: Mapping[tuple[str, str], str] = {
    ("signal 8", "at::native::check_shape_forward("): "a convolution of 0 groups divides by them",
}
# AddressSanitizer forgets the marks of the frames that an exception leaves where it sees the throw:
# in what is compiled with it. The C++ library is not, and its unwinder is inside ours.
THROWING = """
void __asan_handle_no_return(void);
int real_raise(void *thrown) __asm__("__real__Unwind_RaiseException");
int wrapped_raise(void *thrown) __asm__("__wrap__Unwind_RaiseException");
int wrapped_raise(void *thrown) {
  __asan_handle_no_return();
  return real_raise(thrown);
}
"""
WRAPPED = "-Wl,--wrap=_Unwind_RaiseException"
# What a number in a model is replaced with.
NUMBERS = (
    *(0, 1, 2, 3, 5, 7, 63, 64, 127, 128, 255, 256, 1000, 65535, 65536, 2**20),
    *(2**31 - 1, 2**31, 2**32, 2**61, 2**61 + 1, 2**63 - 1, -1, -2, -8, -(2**31), -(2**63)),
)
OPCODES = (
    *("OP", "OPN", "LOAD", "MOVE", "STOREN", "STORE", "DROP", "DROPR", "LOADC", "JF", "JMP"),
    *("LOOP", "RET", "CALL", "INTERFACE_CALL", "GET_ATTR", "SET_ATTR", "LIST_UNPACK", "DTYPE"),
    *("TUPLE_CONSTRUCT", "NAMED_TUPLE_CONSTRUCT", "LIST_CONSTRUCT", "DICT_CONSTRUCT", "DIM"),
    *("CREATE_OBJECT", "ISINSTANCE", "TUPLE_SLICE", "TUPLE_INDEX", "RAISE_EXCEPTION", "WARN"),
    *("DICT_INDEX", "UNCHECKED_CAST", "__IS__", "UN_INITIALIZED", "__ISNOT__", "FORMAT"),
    *("DEVICE", "__NOT__", "TO_LIST", "NUM_TO_TENSOR", "IS_CUDA"),
)
# Of programs over a library with AddressSanitizer.
SANITIZING = ("gcc", "-fsanitize=address")
Records = Mapping[str, bytes]
Mutation = Callable[[Records, random.Random], bytes]


@dataclass(frozen=True)
class Tried:
    """A model of the campaign.

    number   repeats it
    picture  whether its `forward` takes one
    """

    number: int
    data: bytes
    picture: bool


def records_of(path: Path) -> dict[str, bytes]:
    """The records of a model, without the folder that they lie in."""
    with zipfile.ZipFile(path) as opened:
        return {name.partition("/")[2]: opened.read(name) for name in opened.namelist()}


def flipped(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, put in, taken out or doubled, in one to four places."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, length = rng.randrange(len(changed) + 1), rng.choice((1, 1, 2, 4, 16))
        match rng.randrange(4):
            case 0:
                changed[at : at + length] = rng.randbytes(length)
            case 1:
                changed[at:at] = rng.randbytes(length)
            case 2:
                del changed[at : at + length]
            case _:
                changed[at:at] = changed[at : at + length]
    return bytes(changed)


def with_other_numbers(pickle: bytes, rng: random.Random) -> bytes:
    """Some of a pickle's numbers replaced: operands, sizes, indices, versions."""
    places = list(pickletools.genops(pickle))
    ends = [*(place for _, _, place in places[1:] if place is not None), len(pickle)]
    numbers = [
        (start, end)
        for (op, _, start), end in zip(places, ends, strict=True)
        if start is not None and op.name in ("BININT", "BININT1", "BININT2", "LONG1")
    ]
    changed = bytearray(pickle)
    at = sorted(rng.sample(range(len(numbers)), min(len(numbers), rng.choice((1, 1, 2, 3)))))
    for chosen in reversed(at):
        start, end = numbers[chosen]
        changed[start:end] = number(rng.choice(NUMBERS))
    return bytes(changed)


def damaged_pickle(records: Records, rng: random.Random) -> bytes:
    name = rng.choice(("bytecode.pkl", "data.pkl"))
    return archive({**records, name: flipped(records[name], rng)})


def other_numbers(records: Records, rng: random.Random) -> bytes:
    name = rng.choice(("bytecode.pkl", "bytecode.pkl", "data.pkl"))
    return archive({**records, name: with_other_numbers(records[name], rng)})


def damaged_archive(records: Records, rng: random.Random) -> bytes:
    whole = archive(records)
    if rng.random() < 0.5:  # the table of contents is at the end
        return whole[:-600] + flipped(whole[-600:], rng)
    return flipped(whole, rng)


def any_tensor(_: Records, rng: random.Random) -> bytes:
    """A tensor of any sizes over a record of any length, and what the storage says of it."""
    few = (0, 1, 2, 3, 8)
    sizes, strides = ([rng.choice((*few, *few, *NUMBERS)) for _ in range(2)] for _ in range(2))
    kind = rng.choice(
        (b"ctorch\nFloatStorage\n", b"ctorch\nByteStorage\n", number(rng.randrange(30)))
    )
    value = tensor(
        sizes[: rng.randrange(3)],
        strides[: rng.randrange(3)],
        offset=rng.choice((0, 0, *few, *NUMBERS)),
        numel=rng.choice((*few, *NUMBERS)),
        dtype=kind,
    )
    return model(module(value), record=bytes(rng.choice((0, 1, 8, 64))))


def any_program(_: Records, rng: random.Random) -> bytes:
    """Instructions with operands that are mostly near to what there is."""

    def operand() -> int:
        return rng.choice((0, 1, 2, 3)) if rng.random() < 0.9 else rng.choice(NUMBERS)

    body = [
        (rng.choice(OPCODES), operand(), operand() % 2**16) for _ in range(rng.randrange(1, 12))
    ]
    start = [("STOREN", 1, 1), ("LOAD", 1, 0), ("GET_ATTR", 0, 0), ("STORE", 2, 0), ("LOAD", 1, 0)]
    names = (
        *("aten::add.Tensor", "aten::conv2d", "aten::cat", "aten::mul.Tensor", "aten::size.int"),
        *("prim::TupleIndex", "aten::format", "aten::__is__", "prim::unchecked_cast"),
        *("aten::_softmax", "aten::dim", "aten::__getitem__.t", "prim::RaiseException"),
    )
    chosen = [rng.choice(names).partition(".") for _ in range(3)]
    given = [rng.choice((None, 0, 1, 2, 100)) for _ in chosen]
    code = method(
        [*start, *body, ("RET", 0, 0)],
        operators=[
            operator(name, overload, count)
            for (name, _, overload), count in zip(chosen, given, strict=True)
        ],
        constants=[number(rng.choice(NUMBERS)), text("{}"), row(number(1), number(2))],
        types=[text(kind) for kind in ("List[int]", "Dict[int, Tensor]", "Tuple[int, int]")],
        registers=rng.choice((2, 2, 2, 3, 0, *NUMBERS)),
    )
    return model(code=code)


MUTATIONS: tuple[Mutation, ...] = (
    *(damaged_pickle, damaged_pickle, other_numbers, other_numbers),
    *(damaged_archive, any_tensor, any_program, any_program),
)


def tries(campaign: Campaign, short: int, long: int, app: str = "camera") -> Iterator[Tried]:
    (whole,) = models_of(app)
    records = records_of(whole)
    for count, rng in campaign.tries(short=short, long=long):
        make = rng.choice(MUTATIONS)
        picture = app == "camera" and make not in (any_tensor, any_program)
        yield Tried(count, make(records, rng), picture)


def run_all(
    runner: Path, folder: Path, all_tries: Iterator[Tried], env: Mapping[str, str]
) -> Counter[str]:
    """How the tries ended, by kind. Fails with the first crash that is not a known one."""
    ends: Counter[str] = Counter()
    while batch := list(islice(all_tries, 100)):
        for picture in (False, True):
            some = [one for one in batch if one.picture == picture]
            paths = [folder / f"{one.number}.ptl" for one in some]
            for one, path in zip(some, paths, strict=True):
                path.write_bytes(one.data)
            inputs = {"PICTURE": "1"} if picture else {}
            given = {**env, **inputs}
            for one, path, end in zip(some, paths, outcomes(runner, paths, env=given), strict=True):
                ends[judged(runner, one, path, end, given)] += 1
                path.unlink()
    return ends


def judged(runner: Path, one: Tried, path: Path, end: str, env: Mapping[str, str]) -> str:
    """The kind of an end: its first two words; for a crash the known function on its stack."""
    kind = " ".join(end.split()[:2])
    if kind == "signal 14":  # the time limit
        return "time"
    if not end.startswith("signal") and " exit " not in end:
        return kind
    stack = backtrace(runner, path, env)
    crashed = next(iter(stack), "")
    said = said_by_sanitizer(runner, path, env)
    known = [name for signal, name in KNOWN if signal == kind and f" {name}" in crashed]
    frames = "\n".join([*said, *stack[:20]])
    assert known, f"try {one.number} (--only {one.number}): {end}, {path}\n{frames}"
    return f"known: {known[0]}"


def said_by_sanitizer(runner: Path, path: Path, env: Mapping[str, str]) -> list[str]:
    """The report of a library with AddressSanitizer; nothing of another one."""
    if "ASAN_OPTIONS" not in env:
        return []
    done = subprocess.run(
        [str(runner), str(path)], env={**os.environ, **env}, stderr=subprocess.PIPE, text=True
    )
    lines = done.stderr.splitlines()
    return [line for line in lines if "AddressSanitizer" in line or line.lstrip().startswith("#")]


# One of 1.13.1, and one of 2.6.0.
@pytest.mark.parametrize("app", ["camera", "translator"])
def test_damaged_models_in_the_delivered_library(
    app: str, campaign: Campaign, tmp_path: Path
) -> None:
    root = workspace_copy(tmp_path, app)
    ran = orchestrator("build", f"//apps/{app}:linux-x86_64", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    delivered = with_symbols(root / f"dist/{app}/linux-x86_64", tmp_path / "delivered")
    runner = compile_runner(tmp_path, app, delivered)
    limits = {**FILLED, "MEMORY": str(4 << 30), "SECONDS": "2"}
    ends = run_all(runner, tmp_path, tries(campaign, short=400, long=20_000, app=app), limits)
    print(dict(sorted(ends.items())))
    if campaign.only is None:
        assert ends["ran"] > 0
        assert ends["load LOAD_FAILED"] > 0


# In short for one runtime alone: a whole library is compiled again, in two CPU minutes.
@pytest.mark.parametrize("app", ["camera", pytest.param("translator", marks=pytest.mark.full_only)])
def test_damaged_models_under_address_sanitizer(
    app: str, campaign: Campaign, tmp_path: Path
) -> None:
    """The same library with AddressSanitizer in every unit: compiled by zig, over GCC's runtime."""
    root = workspace_copy(tmp_path, app)
    delivered = sanitized(root, app, tmp_path / "delivered")
    runner = compile_runner(tmp_path, app, delivered, SANITIZING)
    options = sanitizer_options(
        abort_on_error=1, handle_sigfpe=0, handle_abort=0, max_allocation_size_mb=4096
    )
    limits = {"ASAN_OPTIONS": options, "SECONDS": "20"}
    ends = run_all(runner, tmp_path, tries(campaign, short=100, long=20_000, app=app), limits)
    print(dict(sorted(ends.items())))
    if campaign.only is None:
        assert ends["ran"] > 0
        assert ends["load LOAD_FAILED"] > 0


def sanitized(
    root: Path, app: str, folder: Path, flags: Sequence[str] = (), objects: Sequence[Path] = ()
) -> Path:
    """A folder with an app's library that has AddressSanitizer in every unit, and its headers.

    flags: more of them for each unit; objects: linked with the library
    """
    runtime = sanitizer_runtime()
    throwing = root / "throwing.o"
    argv = ["gcc", "-c", "-fPIC", "-xc", "-", "-o", str(throwing)]
    subprocess.run(argv, input=THROWING, text=True, check=True)
    compile_flags = ["-fsanitize=address", "-fno-omit-frame-pointer", *flags]
    toolchain = root / "toolchains/linux-x86_64.yaml"
    toolchain.write_text(
        f"{toolchain.read_text()}compile_flags: {compile_flags}\n"
        f"link_flags: {[str(path) for path in (runtime, throwing, *objects)] + [WRAPPED]}\n"
    )
    ran = orchestrator("build", f"//apps/{app}:linux-x86_64", "--quiet", cwd=root)
    # such a library is never delivered: what was linked is what runs here
    assert (
        "error: the library has DT_NEEDED entries that the target system does not provide"
        in ran.err
    ), ran.err
    assert f"seen:     {runtime.name}" in ran.err
    linked = root / f".orchestrator/variants/{app}/linux-x86_64/lib{app}_torch.so"
    shutil.copytree(ROOT / "orchestrator/native/capi", folder / "include")
    (folder / "lib").mkdir()
    shutil.copy(linked, folder / "lib")
    return folder


def sanitizer_options(**more: int) -> str:
    """ASAN_OPTIONS for such a library, with `more`."""
    options = {
        "detect_leaks": 0,  # PyTorch's registries are never freed, and who is killed frees nothing
        "allocator_may_return_null": 1,
        "detect_container_overflow": 0,  # libc++ and the runtime are not of one compiler
        **more,
    }
    return ":".join(f"{name}={value}" for name, value in options.items())


def sanitizer_runtime() -> Path:
    """GCC's AddressSanitizer: its interface, version 8, is clang's too."""
    found = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert Path(found).is_absolute(), "needs AddressSanitizer's runtime: apt-get install gcc"
    # by its soname, as the linker's error tells it
    return next(Path(found).resolve().parent.glob("libasan.so.?"))
