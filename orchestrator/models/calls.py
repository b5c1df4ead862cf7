"""The results of the calls in a pickle, as inert values.

Contract: pure. `called` returns what the runtime would have built, described, or raises `Fault`
where the runtime does not take its arguments. These are the cases of `Unpickler::readGlobal`
in `torch/csrc/jit/serialization/unpickler.cpp`.
"""

from __future__ import annotations

from orchestrator.models.inert import Call, Fault, Global, Pairs, Value
from orchestrator.models.tensors import TENSORS, check_tensor
from orchestrator.models.typetexts import type_fault


def called(function: Global, argument: Value, types: dict[int, str]) -> Value:
    """The value of a call; `function.can_be_called`.

    types: the valid type texts so far, by identity.
    """
    if function.types_a_list:
        return _typed(function, argument, types)
    made = Call(function, argument)
    if function.module == TENSORS:
        check_tensor(made)
    elif not (function.is_model_class or _takes(function, argument)):
        raise Fault(f"{function.name} without its arguments")
    return made


def _typed(function: Global, argument: Value, types: dict[int, str]) -> Value:
    """A list or dictionary; the types of its elements are all that the call would add."""
    match function.name, argument:
        case "restore_type_tag", tuple((list() | Pairs() as typed, str(text))):
            if id(text) not in types:
                fault = type_fault(text)
                if fault:
                    raise Fault(fault)
                types[id(text)] = text
            return typed
        case name, tuple((list() as typed,)) if name != "restore_type_tag":
            return typed
    raise Fault(f"{function.name} without its arguments")


def _takes(function: Global, argument: Value) -> bool:
    """True if one of the runtime's own functions can be called with this argument.

    `TensorID` and `build_tensor_from_id` cannot: they refer to a table that no `.ptl` has.
    """
    match function.name, argument:
        case ("OrderedDict", _) | ("IntList", list()) | ("device", tuple((str(), *_))):
            return True
        case "complex", tuple((float(), float())):
            return True
    return False
