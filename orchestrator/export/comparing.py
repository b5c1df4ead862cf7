"""Compares an exported model with what it was made of: call by call, and in sequences."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from orchestrator.export.calls import Call, Comparison, Invoke, Make, compared, further, lite
from orchestrator.export.methods import methods_of
from orchestrator.export.sequences import (
    compared_in_sequences,
    remembers,
    without_arguments,
)


@dataclass(frozen=True)
class Comparing:
    """Comparison of models with the module that they were made of.

    own         the calls that it comes with
    more        calls of its methods that need no arguments
    keeps       True if a call may leave state for the next one
    tolerances  dtype -> relative, absolute
    sizes       True to compare calls of other sizes, too
    refuses     True for an error that is a check of the made model
    """

    own: Sequence[Call]
    more: Sequence[Call]
    keeps: bool
    tolerances: Mapping[str, Sequence[float]]
    sizes: bool = True
    refuses: Callable[[str], bool] = lambda error: False

    @classmethod
    def of(
        cls,
        module: Any,
        own: Sequence[Call],
        tolerances: Mapping[str, Sequence[float]],
        sizes: bool = True,
        refuses: Callable[[str], bool] = lambda error: False,
    ) -> Comparing:
        """That with a module in TorchScript, which is not held: its weights may be large."""
        methods = methods_of(module)
        more = without_arguments(module, methods, own)
        return cls(own, more, remembers(module, methods), tolerances, sizes, refuses)

    def __call__(
        self,
        right: Make,
        made: Make,
        probes: Sequence[Call] = (),
        in_double: Make | None = None,
    ) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """As `calls.compared`."""
        comparison = Comparison(self.tolerances)
        every = [*self.own, *further(self.own, self.sizes), *probes]
        rows, wrong = compared(right, made, every, comparison, in_double, self.refuses, self.keeps)
        if wrong is not None:
            return rows, wrong
        calls = [*self.own, *self.more]
        more, wrong = compared_in_sequences(right, made, calls, self.keeps, comparison)
        return [*rows, *more], wrong


def completed(module: Any, calls: Sequence[Call]) -> list[Call]:
    """Calls with the default values of the arguments that they leave out: the interpreter of the
    file takes all that the method has."""
    return [replace(call, args=(*call.args, *_left_out(module, call))) for call in calls]


def _left_out(module: Any, call: Call) -> tuple[Any, ...]:
    arguments = module._c._get_method(call.method).schema.arguments[1 + len(call.args) :]
    if not all(one.has_default_value() for one in arguments):
        # the call fails, and says what it lacks
        return ()
    return tuple(one.default_value for one in arguments)


def made_of(model: bytes | Path, module: Any, calls: Sequence[Call]) -> Make:
    """Makes models of a file, or of what it holds; `module` is the same in TorchScript.

    torch's lite interpreter takes no empty list from Python, since it does not know of what: such
    calls are made of the module.
    """
    if not any(map(_untyped, (arg for call in calls for arg in call.args))):
        return lambda: lite(model)
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)

    def script() -> Invoke:
        its = torch.jit.load(io.BytesIO(buffer.getvalue()))
        return lambda method, *args: getattr(its, method)(*args)

    return script


def in_double(file: str) -> Make:
    """Makes models of a file in float64, of its TorchScript."""

    def invoke_of() -> Invoke:
        its = torch.jit.load(file).double()
        return lambda method, *args: getattr(its, method)(*args)

    return invoke_of


def _untyped(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return (isinstance(value, list) and not value) or any(map(_untyped, value))
    return isinstance(value, dict) and (not value or any(map(_untyped, value.values())))
