"""Counts the arguments that the operators of a source tree take.

The lite interpreter's bytecode has the number of arguments that a model passes to an operator, and
the runtime fills in missing ones (torch/csrc/jit/mobile/function.cpp, `makeOperatorFunction`). It
does not detect surplus arguments: they stay on the stack, and the kernel reads the wrong ones. If
an argument without a default is missing, it fails without naming the operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from orchestrator.values.operators import Arguments

# `- func: add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)`
_FUNCTION = re.compile(r"^- func: (?P<name>[\w.]+)\((?P<arguments>.*)\) -> ", re.MULTILINE)
# Commas in these are no commas between arguments: `Tensor(a!)`, `int[2] stride=[1, 1]`.
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
# What an operator writes to: `Tensor(a!)`.
_WRITTEN = re.compile(r"\(\w+!\)")


def argument_counts(tree: Path) -> Mapping[str, Arguments]:
    """Operator (`aten::add.out`) -> arguments, from the tree's native_functions.yaml.

    Operators that are declared elsewhere, such as those of the interpreter, are left out.
    """
    text = (tree / "aten/src/ATen/native/native_functions.yaml").read_text(encoding="utf-8")
    return {f"aten::{m['name']}": _counted(m["arguments"]) for m in _FUNCTION.finditer(text)}


def _counted(arguments: str) -> Arguments:
    """`out` arguments are passed last whatever is left out (`Argument::is_out`, function.cpp)."""
    plain = _BRACKETS.sub("", _WRITTEN.sub("!", arguments))
    positional, _, by_name = plain.partition("*,")
    named = _parts(by_name)
    out = [part for part in named if "!" in part]
    filled = [*_parts(positional), *(part for part in named if part not in out)]
    needed = [number for number, part in enumerate(filled, 1) if "=" not in part]
    return Arguments(max(needed, default=0) + len(out), len(filled) + len(out))


def _parts(arguments: str) -> list[str]:
    return [part for part in (one.strip() for one in arguments.split(",")) if part]
