"""Operators that run graphs: branches and loops of TorchScript, or what is inside of them.

torch/_higher_order_ops has what each takes. None of these graphs changes what it is given.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from orchestrator.export.program.emission import TENSOR, Emitter, Hook, block_input
from orchestrator.export.refusal import Refused

_INT, _BOOL = torch._C.IntType.get(), torch._C.BoolType.get()
_TENSORS = torch._C.ListType.ofTensors()


def _cond(emitter: Emitter, node: Any) -> list[Any]:
    condition, on, off, *rest = node.args
    given = emitter.given(rest[0] if rest else ())
    chosen = emitter.as_bool(condition)
    writer, kinds = emitter.writer, _types(node)
    branch = writer.node("prim::If", [chosen], kinds)
    for graph in (on, off):
        block = branch.addBlock()
        with writer.inside(block):
            for made in emitter.emit(emitter.given(graph), given):
                block.registerOutput(writer.value(made))
    return list(branch.outputs())


def _while_loop(emitter: Emitter, node: Any) -> list[Any]:
    condition, body, carried, *more = node.args
    asked, done = emitter.given(condition), emitter.given(body)
    start, rest = emitter.given(carried), emitter.given(more[0] if more else ())
    writer = emitter.writer

    def goes_on(values: Sequence[Any]) -> Any:
        return _truth(emitter, emitter.emit(asked, [*values, *rest])[0])

    first = [writer.value(one) for one in start]
    inputs = [sys.maxsize, goes_on(first), *first]
    loop = writer.node("prim::Loop", inputs, [one.type() for one in first])
    block = loop.addBlock()
    block_input(block, _INT)
    held = [block_input(block, one.type()) for one in first]
    with writer.inside(block):
        made = [writer.value(one) for one in emitter.emit(done, [*held, *rest])]
        for value in (goes_on(made), *made):
            block.registerOutput(writer.value(value))
    return list(loop.outputs())


def _scan(emitter: Emitter, node: Any) -> list[Any]:
    combine, start, rows, *more = node.args
    given = [emitter.given(one) for one in (combine, start, rows, more[0] if more else ())]
    graph, first, over, rest = given
    return _over_rows(emitter, graph, first, over, rest, len(node.meta["val"]))


def _map(emitter: Emitter, node: Any) -> list[Any]:
    graph, rows, *more = (emitter.given(one) for one in node.args)
    return _over_rows(emitter, graph, (), rows, more[0] if more else (), len(node.meta["val"]))


def _over_rows(
    emitter: Emitter, graph: Any, first: Sequence[Any], over: Any, rest: Any, count: int
) -> list[Any]:
    """A loop over the first dimension: what is carried, then what each round gives, stacked."""
    writer = emitter.writer
    start = [writer.value(one) for one in first]
    lists = [
        writer.node("prim::ListConstruct", [], [_TENSORS]).output()
        for _ in range(count - len(start))
    ]
    rounds = writer.one("aten::size", [over[0], 0], _INT)
    loop = writer.node("prim::Loop", [rounds, True, *start], [one.type() for one in start])
    block = loop.addBlock()
    number = block_input(block, _INT)
    held = [block_input(block, one.type()) for one in start]
    with writer.inside(block):
        rows = [writer.one("aten::select", [one, 0, number]) for one in over]
        made = [writer.value(one) for one in emitter.emit(graph, [*held, *rows, *rest])]
        for items, one in zip(lists, made[len(start) :], strict=True):
            writer.one("aten::append", [items, one], _TENSORS)
        for value in (writer.value(True), *made[: len(start)]):
            block.registerOutput(value)
    return [*loop.outputs(), *(writer.one("aten::stack", [items, 0]) for items in lists)]


def _inside(skipped: int, graph_at: int) -> Hook:
    """Return a hook that emits the subgraph at one argument, called with the arguments after the
    first `skipped` ones."""

    def emit(emitter: Emitter, node: Any) -> list[Any]:
        graph = emitter.given(node.args[graph_at])
        return emitter.emit(graph, emitter.given(list(node.args[skipped:])))

    return emit


def _autocast(emitter: Emitter, node: Any) -> list[Any]:
    if node.args[2]:
        raise Refused("program", "torch.autocast: convert the module itself, `module.half()`")
    made: list[Any] = _inside(5, 4)(emitter, node)
    return made


def _truth(emitter: Emitter, value: Any) -> Any:
    if isinstance(value, torch._C.Value) and value.type().kind() == "TensorType":
        return emitter.writer.one("aten::Bool", [value], _BOOL)
    return value


def _types(node: Any) -> list[Any]:
    kinds = {torch.SymInt: _INT, int: _INT, torch.Tensor: TENSOR}
    found = []
    for one in node.meta["val"]:
        its = next((kind for type_, kind in kinds.items() if isinstance(one, type_)), None)
        if its is None:
            raise Refused("program", f"a branch that gives a {type(one).__name__}")
        found.append(its)
    return found


# By name: not every version of torch has all of them.
_BY_NAME: Mapping[str, Hook] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
    "wrap_with_set_grad_enabled": _inside(2, 1),
    "wrap_with_autocast": _autocast,
    "hints_wrapper": _inside(1, 0),
    "invoke_subgraph": _inside(2, 0),
}


def _found() -> dict[Any, Hook]:
    import torch._higher_order_ops.map
    import torch._higher_order_ops.scan
    import torch._higher_order_ops.while_loop

    every = torch._ops._higher_order_ops
    return {every[name]: hook for name, hook in _BY_NAME.items() if name in every}


CONTROL_FLOW: Final = _found()
