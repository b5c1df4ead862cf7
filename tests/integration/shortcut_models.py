"""Models that call one operator in each method, and both ways to do so: see shortcut_program.py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crafted import (
    archive,
    argument,
    bytecode,
    function,
    module,
    number,
    operator,
    pickled,
    row,
)
from elftools.elf.elffile import ELFFile

from orchestrator.values.operators import OperatorName

# Operators that have a shortcut (native/kernels/shortcut*.cpp) -> how many arguments they get.
SHORTCUTS = {
    "aten::view": 2,
    "aten::reshape": 2,
    "aten::permute": 2,
    "aten::transpose.int": 3,
    "aten::select.int": 3,
    "aten::unbind.int": 2,
    "aten::unsqueeze": 2,
    "aten::zeros": 4,
    "aten::embedding": 2,
    "aten::mul.Tensor": 2,
    "aten::eq.Scalar": 2,
    "aten::ne.Scalar": 2,
    "aten::lt.Scalar": 2,
    "aten::le.Scalar": 2,
    "aten::gt.Scalar": 2,
    "aten::ge.Scalar": 2,
    "aten::any": 1,
    "aten::all": 1,
    "aten::add.Tensor": 3,
    "aten::gelu": 1,
    "aten::silu": 1,
    "aten::layer_norm": 4,
    "aten::softmax.int": 3,
    "aten::log_softmax.int": 3,
    "aten::matmul": 2,
}


def one_in_each(names: Sequence[str]) -> bytes:
    """A model whose methods `m0`, `m1` and so on give what these operators give."""
    functions = []
    for index, name in enumerate(names):
        count = SHORTCUTS[name]
        parsed = OperatorName.parse(name)
        functions.append(
            row(
                *function(
                    f"m{index}",
                    [
                        ("STOREN", 1, count + 1),
                        *(("MOVE", 2 + place, 0) for place in range(count)),
                        ("OP", 0, 0),
                        ("RET", 0, 0),
                    ],
                    arguments=[argument(f"x{place}", "Any") for place in range(count)],
                    operators=[
                        operator(f"{parsed.namespace}::{parsed.name}", parsed.overload, count)
                    ],
                    registers=count + 1,
                )
            )
        )
    return archive(
        {
            "data.pkl": module(number(0)),
            "version": b"10\n",  # an older one's `gelu` is upgraded
            "bytecode.pkl": bytecode(*functions),
            "constants.pkl": pickled(b")"),
        }
    )


def place_of(built: Path) -> int:
    """Where a library has the pointer to what puts shortcuts before a module's operators."""
    (symbols,) = (built / "symbols").iterdir()
    with symbols.open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".symtab")
        (place,) = {
            int(one["st_value"])
            for one in table.iter_symbols()
            if one.name == "_ZN3lta14shorten_moduleE"
        }
    return place


def compared(built: Path, program: str, *words: object) -> Any:
    """What a program beside this one prints of a library for linux-x86_64, which it calls with
    shortcuts and without."""
    (library,) = (built / "lib").glob("*.so")
    path = Path(__file__).with_name(program)
    ran = subprocess.run(
        [sys.executable, *map(str, (path, library.resolve(), place_of(built), *words))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def root_operators(built: Path) -> list[str]:
    """Those of a library."""
    selection = json.loads((built / "manifest.json").read_text())["selection"]
    return list(selection["root_operators"])


def both_ways(
    built: Path, folder: Path, *, calls: int, seed: int = 0
) -> tuple[dict[str, Any], set[str]]:
    """Calls all operators that a library for linux-x86_64 has a shortcut for; which they are."""
    names = sorted(set(SHORTCUTS) & {*root_operators(built)})
    made = folder / "one_in_each.ptl"
    made.write_bytes(one_in_each(names))
    return compared(built, "shortcut_program.py", seed, calls, made, *names), set(names)
