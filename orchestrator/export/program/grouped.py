"""Products of rows by groups, as mixtures of experts have them: a loop over the groups.

The rows are sorted by group, and a tensor holds where each group ends. Lite interpreters have no
operator for it; transformers has one of its own, in Python (integrations/moe.py,
_grouped_mm_fallback), and newer torch has `aten::_grouped_mm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from orchestrator.export.program.emission import Emitter, Hook, block_input
from orchestrator.export.refusal import Refused

_INT = torch._C.IntType.get()
_TENSORS = torch._C.ListType.ofTensors()


def grouped_products() -> Mapping[Any, Hook]:
    """The operators that there are in this process, and what emits them.

    transformers registers its own when the module that uses it is imported.
    """
    found: dict[Any, Hook] = {}
    for library, name, hook in (
        (torch.ops.transformers, "grouped_mm_fallback", _rows_by_groups),
        (torch.ops.aten, "_grouped_mm", _grouped_mm),
    ):
        operator = getattr(library, name, None)
        if operator is not None:
            found[operator.default] = hook
    return found


def _grouped_mm(emitter: Emitter, node: Any) -> Any:
    given = dict(zip(("self", "mat2", "offs", "bias", "out_dtype"), node.args, strict=False))
    given.update(node.kwargs)
    rows, weights = given["self"], given["mat2"]
    ranks = [one.meta["val"].dim() for one in (rows, weights)]
    other = given.get("out_dtype")
    if given.get("bias") is not None or other not in (None, rows.meta["val"].dtype):
        raise Refused("program", "aten::_grouped_mm with a bias, or with a result of another dtype")
    if ranks == [3, 3]:
        return emitter.call(torch.ops.aten.bmm.default, [rows, weights])
    if ranks != [2, 3] or given.get("offs") is None:
        raise Refused("program", f"aten::_grouped_mm of {ranks[0]} and {ranks[1]} dimensions")
    return _product(emitter, *(emitter.given(one) for one in (rows, weights, given["offs"])))


def _rows_by_groups(emitter: Emitter, node: Any) -> Any:
    return _product(emitter, *emitter.given(node.args))


def _product(emitter: Emitter, rows: Any, weights: Any, ends: Any) -> Any:
    """rows [S, K], weights [groups, K, N] and ends [groups], of which the last is S: [S, N]."""
    writer = emitter.writer
    weights, ends = writer.value(weights), writer.value(ends)
    products = writer.node("prim::ListConstruct", [], [_TENSORS]).output()
    groups = writer.one("aten::size", [weights, 0], _INT)
    loop = writer.node("prim::Loop", [groups, True, 0], [_INT])
    block = loop.addBlock()
    group, start = block_input(block, _INT), block_input(block, _INT)
    with writer.inside(block):
        end = writer.one("aten::Int", [writer.one("aten::select", [ends, 0, group])], _INT)
        some = writer.one("aten::slice", [rows, 0, start, end, 1])
        matrix = writer.one("aten::select", [weights, 0, group])
        writer.one("aten::append", [products, writer.one("aten::mm", [some, matrix])], _TENSORS)
        block.registerOutput(writer.value(True))
        block.registerOutput(end)
    # A program that computes a part of the experts leaves rows behind the last group: none of ours.
    every = writer.one("aten::size", [rows, 0], _INT)
    ended = writer.one("aten::eq", [next(iter(loop.outputs())), every], torch._C.BoolType.get())
    writer.require(ended, "the groups of a product must end with its rows")
    return writer.one("aten::cat", [products, 0])
