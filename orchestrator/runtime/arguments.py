"""How many arguments the operators of a source tree take.

The lite interpreter's bytecode says how many arguments a model passes to an operator, and the
runtime fills up the missing ones (torch/csrc/jit/mobile/function.cpp, `makeOperatorFunction`).
It does not notice arguments that are too many: they stay on the stack, and the kernel reads the
wrong ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

# `- func: add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)`
_FUNCTION = re.compile(r"^- func: (?P<name>[\w.]+)\((?P<arguments>.*)\) -> ", re.MULTILINE)
# Commas in these are no commas between arguments: `Tensor(a!)`, `int[2] stride=[1, 1]`.
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


def argument_counts(tree: Path) -> Mapping[str, int]:
    """Operator (`aten::add.out`) -> arguments, from the tree's native_functions.yaml.

    Operators that are declared elsewhere, such as those of the interpreter, are left out.
    """
    text = (tree / "aten/src/ATen/native/native_functions.yaml").read_text(encoding="utf-8")
    return {f"aten::{m['name']}": _count(m["arguments"]) for m in _FUNCTION.finditer(text)}


def _count(arguments: str) -> int:
    parts = (part.strip() for part in _BRACKETS.sub("", arguments).split(","))
    return sum(part not in ("", "*") for part in parts)
