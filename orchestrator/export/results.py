"""Gives of a scripted module what the module itself gives.

A function of TorchScript has one type of results, so a module may give a tuple of all that it has
there, and one part of it in Python: torchvision's detectors give (losses, detections), and the
detections.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from orchestrator.export.calls import Call, Comparison, Make, run


def as_in_python(
    module: torch.jit.ScriptModule, calls: Sequence[Call], eager: Make, comparison: Comparison
) -> tuple[torch.jit.ScriptModule, list[str]]:
    """Such a module, and notes for people; the same one where its results are those in Python.

    calls  with all arguments
    eager  makes the module
    """
    first = {call.method: call for call in reversed(calls)}
    parts = {
        method: _part(module, call, eager, comparison)
        for method, call in first.items()
        if module._c._get_method(method).schema.returns[0].type.kind() == "TupleType"
    }
    if all(part is None for part in parts.values()):
        return module, []
    source = [_source(module, method, parts.get(method)) for method in first]
    if any("__torch__" in text for text in source):
        return module, []
    around = torch._C.ScriptModule("__torch__.InPython", torch._C.CompilationUnit(), True)
    around._register_attribute("its", module._c._type(), module._c)
    around._register_attribute("training", torch._C.BoolType.get(), False)
    made = torch.jit._recursive.wrap_cpp_module(around)
    try:
        for text in source:
            made.define(text)
    except RuntimeError:
        # of a type or a default that TorchScript has no text for
        return module, []
    return made, list(_notes(parts))


def _part(module: Any, call: Call, eager: Make, comparison: Comparison) -> int | None:
    """The number of the only part that is what the module gives in Python, which gives no tuple."""
    expected = run(eager(), call)
    if expected.error or isinstance(expected.value[0], tuple):
        return None
    its = copy.deepcopy(module)
    seen = run(lambda method, *args: getattr(its, method)(*args), call)
    if seen.error:
        return None
    result, arguments = seen.value
    found = [
        number
        for number, part in enumerate(result)
        if not comparison.compare(expected.value, [part, arguments]).bad
    ]
    return found[0] if len(found) == 1 else None


def _source(module: Any, method: str, part: int | None) -> str:
    arguments = module._c._get_method(method).schema.arguments[1:]
    given = ", ".join(
        f"{one.name}: {one.type.annotation_str}"
        f"{f' = {_default(one.default_value)}' if one.has_default_value() else ''}"
        for one in arguments
    )
    call = f"self.its.{method}({', '.join(one.name for one in arguments)})"
    return f"def {method}(self, {given}):\n    return {call}{'' if part is None else f'[{part}]'}\n"


def _default(value: Any) -> str:
    """An argument's default as TorchScript's compiler reads it."""
    if isinstance(value, float):
        return f"float('{value}')"
    return f"torch.{value!r}" if isinstance(value, torch.device) else repr(value)


def _notes(parts: dict[str, int | None]) -> Iterator[str]:
    for method, part in parts.items():
        if part is not None:
            yield (
                f"TorchScript gives a tuple for {method}, and Python its part {part}: the model"
                " gives that"
            )
