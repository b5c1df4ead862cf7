"""Guards of a program that was loaded, which are texts of Python: `L['x'].size()[0] <= 64`.

What asked for them is not known any more, so all are kept, as `ExportedProgram.module()` does.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions

from orchestrator.export.program.checks import Input
from orchestrator.export.refusal import Refused


def conditions(guards: Sequence[str], inputs: Sequence[Input]) -> Iterator[tuple[Any, str]]:
    """Each guard as a condition of sympy's on the symbols of these inputs, and no place; none of
    those that always hold. Raises Refused where a guard is no such condition."""
    for text in guards:
        try:
            made = _Reader(inputs).value(ast.parse(text, mode="eval").body)
        except (SyntaxError, KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
            raise Refused("program", f"the guard {text[:200]}: {error}") from error
        if made not in (True, sympy.true):
            yield made, ""


class _Reader:
    def __init__(self, inputs: Sequence[Input]) -> None:
        self.known = {one.name: one.known for one in inputs}
        self.numbered = [one.known for one in inputs]

    def value(self, node: ast.AST) -> Any:
        """A number, or an expression of sympy's."""
        match node:
            case ast.Constant(value=value):
                return sympy.sympify(value) if isinstance(value, int | float) else value
            case ast.Compare(left=left, ops=asked, comparators=others):
                values = [self.value(one) for one in (left, *others)]
                made = [
                    _COMPARISONS[type(its)](one, other)
                    for its, one, other in zip(asked, values, values[1:], strict=False)
                ]
                return sympy.And(*made)
            case ast.BoolOp(op=ast.And(), values=items):
                return sympy.And(*map(self.value, items))
            case ast.BoolOp(op=ast.Or(), values=items):
                return sympy.Or(*map(self.value, items))
            case ast.UnaryOp(op=ast.Not(), operand=one):
                return sympy.Not(self.value(one))
            case ast.UnaryOp(op=ast.USub(), operand=one):
                return -self.value(one)
            case ast.BinOp(left=left, op=its, right=right):
                return _ARITHMETIC[type(its)](self.value(left), self.value(right))
            case ast.Call(func=ast.Name(id="max"), args=items):
                return sympy.Max(*map(self.value, items))
            case ast.Call(func=ast.Name(id="min"), args=items):
                return sympy.Min(*map(self.value, items))
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=value, attr=("size" | "stride") as asked)),
                slice=ast.Constant(value=int(dim)),
            ):
                tensor = self._argument(value)
                return _expression((tensor.shape if asked == "size" else tensor.stride())[dim])
            case ast.Call(func=ast.Attribute(value=value, attr="storage_offset")):
                return _expression(self._argument(value).storage_offset())
        return _expression(self._argument(node))

    def _argument(self, node: ast.AST) -> Any:
        keys: list[Any] = []
        while isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            keys.insert(0, node.slice.value)
            node = node.value
        if not isinstance(node, ast.Name) or node.id != "L" or not keys:
            raise ValueError("it asks of something else than arguments")
        if keys[0] == "flat_args":
            return self.numbered[keys[1]]
        # as `trees.paths` names them
        name = str(keys[0])
        for key in keys[1:]:
            name += f"[{key}]" if isinstance(key, int) else f".{key}"
        return self.known[name]


def _expression(value: Any) -> Any:
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value.node.expr
    return sympy.sympify(value) if isinstance(value, int | float) else value


_COMPARISONS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}
_ARITHMETIC: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.FloorDiv: functions.FloorDiv,
    # of sizes: the exporter's own, which has it for numbers that are not negative
    ast.Mod: functions.Mod,
}
