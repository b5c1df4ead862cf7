"""The callable methods of a model, for its users, and an example call with its inputs.

Contract: pure, and never an error: methods without plain names, types or values are omitted, since
a README that cannot describe them is no reason to refuse a model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.models.bytecode import Function
from orchestrator.models.inert import Call as Made
from orchestrator.models.inert import Global, Value
from orchestrator.models.tensors import STORAGE
from orchestrator.values.config.app import MOST_DIMENSIONS, MOST_ELEMENTS, InputRun, TensorSpec
from orchestrator.values.methods import (
    DEEPEST,
    ELEMENTS,
    METHOD,
    MOST_INPUTS,
    PLAIN,
    TYPE,
    Call,
    Input,
    Method,
    Parameter,
)

_INT64: Final = 2**63
# What torch/utils/bundled_inputs.py adds to a model.
_BUNDLING: Final = re.compile(
    r"_generate_bundled_inputs(_for_\w+)?|get_all_bundled_inputs(_for_\w+)?"
    r"|get_num_bundled_inputs|get_bundled_inputs_functions_and_info|_inflate_helper_\w+"
)
# A stored input is the argument itself where the code that unfolds it does no more than this.
_UNFOLDING: Final = frozenset({"aten::__getitem__.t", "aten::contiguous"})
_DTYPES: Final = {
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "HalfStorage": "float16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "BoolStorage": "bool",
    "BFloat16Storage": "bfloat16",
}


class _Unsaid(Exception):
    """A value that an example call cannot contain."""


def methods_of(functions: Iterable[Function], root: str) -> tuple[Method, ...]:
    """The methods of the class `root`, in file order, without what bundling of inputs added."""
    found = []
    for function in functions:
        owner, _, name = function.qualified.rpartition(".")
        if owner != root or _BUNDLING.fullmatch(name) or not re.fullmatch(METHOD, name):
            continue
        taken = [(one.name, one.type) for one in function.arguments[1:]]
        plain = (
            all(re.fullmatch(METHOD, n) and re.fullmatch(TYPE, t) for n, t in taken)
            and all(re.fullmatch(TYPE, given) for given in function.returns)
            # `self` is always there where the file has a schema
            and function.arguments
        )
        parameters = tuple(Parameter(name=n, type=t) for n, t in taken) if plain else None
        found.append(
            Method(name=name, parameters=parameters, returns=function.returns if plain else ())
        )
    return tuple(found)


def is_bundling(name: str) -> bool:
    """True if bundling of inputs adds a method of this name to a model."""
    return _BUNDLING.fullmatch(name) is not None


def bundled_call(method: str, inputs: Value, functions: Iterable[Function]) -> Call | None:
    """The call of a method with the first of its inputs in the model."""
    if not isinstance(inputs, list) or not inputs or not isinstance(inputs[0], tuple):
        return None
    unfolding = {f"_generate_bundled_inputs_for_{method}", "_generate_bundled_inputs"}
    done = {
        str(use.operator)
        for function in functions
        if function.name in unfolding or function.name.startswith("_inflate_helper")
        for use in function.operators
    }
    return _call(method, inputs[0]) if done <= _UNFOLDING else None


def declared_call(run: InputRun) -> Call | None:
    """The call that an app declares as an input; its lists are tuples in memory."""
    arguments = [list(one) if isinstance(one, tuple) else one for one in run.args]
    return _call(run.method, arguments)


@dataclass(frozen=True)
class _Sizes:
    """A tensor of the model runner's, without its elements."""

    dtype: str
    shape: tuple[int, ...]


def recorded_call(call: Mapping[str, Any]) -> Call | None:
    """A call of the model runner's inputs (native/driver/values.h), which are valid."""
    try:
        return _call(call["method"], [_recorded(one) for one in call["args"]])
    except _Unsaid:
        return None


def _recorded(value: Mapping[str, Any]) -> object:
    match next(iter(value.items())):
        case "tensor", {"dtype": str(dtype), "shape": list(shape)}:
            return _Sizes(dtype, tuple(shape))
        case "none", _:
            return None
        case ("list" | "tuple") as kind, list(items):
            made = [_recorded(one) for one in items]
            return made if kind == "list" else tuple(made)
        case (("bool" | "int" | "double" | "string"), content):
            plain: object = content
            return plain
    raise _Unsaid


def _call(method: str, arguments: Sequence[object]) -> Call | None:
    if not re.fullmatch(METHOD, method):
        return None
    try:
        items = _items(arguments, 0, iter(range(MOST_INPUTS)))
    except _Unsaid:
        return None
    return Call(method=method, arguments=items)


def _items(values: Sequence[object], depth: int, left: Iterator[int]) -> tuple[Input, ...]:
    if depth > DEEPEST:
        raise _Unsaid
    return tuple(_input(value, depth, left) for value in values)


def _input(value: object, depth: int, left: Iterator[int]) -> Input:
    # a list that holds another one 64 times, and so on, is small in a file
    if next(left, None) is None:
        raise _Unsaid
    match value:
        case None:
            return Input(kind="none")
        case bool():
            return Input(kind="bool", value=value)
        case int() if -_INT64 < value < _INT64:
            return Input(kind="int", value=value)
        case float() if math.isfinite(value):
            return Input(kind="double", value=value)
        case str() if re.fullmatch(PLAIN, value):
            return Input(kind="string", value=value)
        case TensorSpec() | _Sizes():
            return _tensor(value.dtype, value.shape)
        # an empty list does not say of what it is one
        case list() if value:
            return Input(kind="list", items=_items(value, depth + 1, left))
        case tuple() if value:
            return Input(kind="tuple", items=_items(value, depth + 1, left))
        case Made(
            Global("torch._utils", "_rebuild_tensor_v2"),
            (Made(made, ("storage", Global(_, kind), *_)), _, tuple(sizes), *_),
        ) if made == STORAGE and kind in _DTYPES:
            return _tensor(_DTYPES[kind], sizes)
    raise _Unsaid


def _tensor(dtype: str, sizes: Sequence[object]) -> Input:
    shape = tuple(size for size in sizes if isinstance(size, int))
    large = math.prod(size or 1 for size in shape) > MOST_ELEMENTS
    if dtype not in ELEMENTS or large or len(shape) > MOST_DIMENSIONS:
        raise _Unsaid
    return Input(kind="tensor", dtype=dtype, shape=shape)
