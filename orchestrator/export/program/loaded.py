"""A `.pt2` file, as `door.enter` gives a module: its programs are captured already.

The file was checked before (`orchestrator/models/programs.py`): none of its texts is code, and its
pickles make tensors. torch itself is kept from unpickling more than that.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

from orchestrator.export.calls import Call, Comparison
from orchestrator.export.program import trees
from orchestrator.export.program.capture import (
    Captured,
    Example,
    argument_names,
    functional,
)
from orchestrator.export.program.checks import user_values
from orchestrator.export.program.door import Entered, calls_of, completed
from orchestrator.export.program.int8 import in_int8
from orchestrator.export.program.module import Program, inputs_of, leaf_names
from orchestrator.export.refusal import Refused
from orchestrator.export.values import from_json

_MODEL, _FORWARD = "model", "forward"
# Types of results that are registered when their package is imported.
_OUTPUT = re.compile(r'\\"type\\": ?\\"(transformers(?:\.\w+)+)\.\w+\\"', re.ASCII)
_OPERATOR = re.compile(r'"target": ?"torch\.ops\.(\w+)\.(\w+)\.(\w+)"', re.ASCII)
# Packages that register the operators of a namespace.
_LIBRARIES = {"torchvision": "torchvision", "torchao": "torchao"}
_DECOMPOSED = "torch.ao.quantization.fx._decomposed"


def enter_file(
    file: Path,
    declared: Sequence[Mapping[str, Any]] | None,
    comparison: Comparison,
    stage: Callable[[str], None],
) -> Entered:
    """declared: calls as the model runner's `--inputs`; None for those in the file.

    Raises Refused.
    """
    stage("loading the program")
    programs = _programs(file)
    stage("making its inputs")
    module = torch.nn.ModuleDict({_key(method): _runnable(one) for method, one in programs.items()})
    plain = {method: _plain(module[_key(method)], one) for method, one in programs.items()}
    calls = _calls(plain, declared)
    if not calls:
        raise Refused("no inputs", "")
    stage("making the program functional")
    captured = {}
    for method, program in plain.items():
        first = next((call for call in calls if call.method == method), None)
        if first is None:
            raise Refused("no inputs", f"there is no call of {method}")
        captured[method] = _captured(program, first)
    entered = Entered(module, captured, calls, method=lambda its, name: its[_key(name)])
    return completed(entered, comparison, stage)


def _key(method: str) -> str:
    """A submodule's name, which is no attribute of every module as `forward` is."""
    return f"program_{method}"


def _programs(file: Path) -> dict[str, Any]:
    """Method -> program. Raises Refused."""
    texts = _texts(file)
    for text in texts:
        _import_for(text)
    unknown = sorted({name for text in texts for name in _unknown(text)})
    if unknown:
        raise Refused("operators", ", ".join(unknown), **_writer(texts))
    load = functools.partial(torch.load, weights_only=True)

    def only_tensors(file: Any, **options: Any) -> Any:
        return load(file)

    try:
        with warnings.catch_warnings(), mock.patch.object(torch, "load", only_tensors):
            warnings.simplefilter("ignore")
            found = _read(file)
    except Exception as error:
        raise Refused("load", f"{type(error).__name__}: {error}", **_writer(texts)) from error
    return {_FORWARD if name == _MODEL else name: one for name, one in sorted(found.items())}


def _read(file: Path) -> dict[str, Any]:
    with zipfile.ZipFile(file) as archive:
        old = "serialized_exported_program.json" in archive.namelist()
    if old:
        return {_MODEL: torch.export.load(str(file))}
    from torch.export.pt2_archive._package import load_pt2

    return dict(load_pt2(str(file)).exported_programs)


def _texts(file: Path) -> list[str]:
    """The programs' records."""
    with zipfile.ZipFile(file) as archive:
        return [
            archive.read(name).decode()
            for name in archive.namelist()
            if re.search(r"(^|/)models/[^/]+\.json$", name)
            or name == "serialized_exported_program.json"
        ]


def _import_for(text: str) -> None:
    """Import the libraries that register the types and operators that a program names, if
    installed."""
    wanted = {_LIBRARIES[space] for space, _, _ in _OPERATOR.findall(text) if space in _LIBRARIES}
    wanted |= set(_OUTPUT.findall(text))
    wanted |= {_DECOMPOSED} if "quantized_decomposed" in text else set()
    for name in sorted(wanted):
        try:
            importlib.import_module(name)
        except ImportError:
            # what is missing then is told by its own name
            continue


def _unknown(text: str) -> list[str]:
    """Operators that this torch does not have."""
    missing = []
    for space, name, overload in set(_OPERATOR.findall(text)):
        if space == "higher_order":
            continue
        try:
            getattr(getattr(getattr(torch.ops, space), name), overload)
        except (AttributeError, RuntimeError):
            missing.append(f"{space}::{name}" + ("" if overload == "default" else f".{overload}"))
    return missing


def _writer(texts: Sequence[str]) -> dict[str, str]:
    """The version of torch that wrote the file, and this one's."""
    value = json.loads(texts[0]) if texts else {}
    return {"written": str(value.get("torch_version", "?"))[:60], "torch": torch.__version__}


def _runnable(exported: Any) -> Any:
    try:
        return exported.module()
    except Exception as error:
        raise Refused("load", f"{type(error).__name__}: {error}") from error


def _plain(module: Any, exported: Any) -> Program:
    args, kwargs = exported.example_inputs or ((), {})
    spec = exported.call_spec.in_spec
    positional, named = pytree.tree_unflatten([0] * spec.num_leaves, spec)
    if not exported.example_inputs:
        args, kwargs = positional, named
    told = exported.module_call_graph[0].signature.forward_arg_names
    count = len(positional) + len(named)
    names = list(told or ()) if told and len(told) == count else None
    if names is None:
        names = argument_names(inspect.unwrap(module.forward), Example(args, kwargs))
    texts = tuple(exported._guards_code)
    core = functional(exported, torch.nn.Module())
    return Program(exported, core, names, {}, texts=texts)


def _calls(
    programs: Mapping[str, Program], declared: Sequence[Mapping[str, Any]] | None
) -> list[Call]:
    calls: list[Call] = []
    if declared is not None:
        counts: dict[str, int] = {}
        for one in declared:
            method = one["method"]
            if method not in programs:
                raise Refused("example inputs", f"the program has no method {method}")
            args = tuple(map(from_json, one["args"]))
            wanted = len(programs[method].names)
            if len(args) != wanted:
                raise Refused(
                    "example inputs", f"{method} with {len(args)} arguments; it takes {wanted}"
                )
            calls.append(Call(method, counts.setdefault(method, 0), "own", args))
            counts[method] += 1
        return calls
    for method, program in programs.items():
        if program.exported.example_inputs:
            args, kwargs = program.exported.example_inputs
            calls += calls_of(method, program, [Example(tuple(args), dict(kwargs))])
    return calls


def _captured(program: Program, call: Call) -> Captured:
    try:
        leaves = [
            leaf
            for (_, tree), arg in zip(inputs_of(program), call.args, strict=True)
            for leaf in trees.leaves_of(tree, arg)
        ]
    except (TypeError, KeyError, IndexError) as error:
        raise Refused("example inputs", f"{call.name}: values nested otherwise") from error
    values = user_values(program.exported)
    why = {
        (name, dim): "as it was exported"
        for name, value in zip(leaf_names(program), values, strict=True)
        if isinstance(value, torch.Tensor)
        for dim, size in enumerate(value.shape)
        if isinstance(size, int)
    }
    return Captured(program, why, in_int8(program.core, leaves))
