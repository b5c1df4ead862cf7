"""Texts of a `.pt2` that torch evaluates: sizes, guards and trees of arguments.

Contract: pure; each function returns what is wrong with a text, or None where it is arithmetic, a
condition on sizes, or a tree of ordinary containers. torch evaluates sizes with sympy's `sympify`
and guards with `exec`, both of which take any Python.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, Final

_LONGEST: Final = 20_000
_MOST_DEEP: Final = 100
_LARGEST: Final = 2**64
_LONGEST_KEY: Final = 200
_SYMBOL: Final = re.compile(r"[a-z_]{1,40}\d{1,9}", re.ASCII)
# Names of sympy and of torch/utils/_sympy/functions.py that are functions of numbers.
_FUNCTIONS: Final = frozenset(
    {
        *("Symbol", "Integer", "Rational", "Float", "Add", "Mul", "Pow", "Mod", "Max", "Min"),
        *("Abs", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "Equality", "Unequality", "And", "Or", "Not"),
        *("StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "Piecewise", "Tuple"),
        *("ExprCondPair", "floor", "ceiling", "FloorDiv", "ModularIndexing", "Where", "PythonMod"),
        *("CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural"),
        *("FloatPow", "FloatTrueDiv", "IntTrueDiv", "IsNonOverlappingAndDenseIndicator"),
        *("TruncToFloat", "TruncToInt", "RoundToInt", "RoundDecimal", "ToFloat", "Identity"),
    }
)
_CONSTANTS: Final = frozenset({"true", "false", "oo", "int_oo"})
_ASSUMPTIONS: Final = frozenset({"positive", "integer", "nonnegative", "negative", "zero", "real"})
_NODES: Final = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Load, ast.operator),
    *(ast.unaryop, ast.boolop, ast.cmpop),
)
# Of guards: L['x'].size()[0] and numbers made of such.
_ASKED: Final = frozenset({"size", "stride", "storage_offset"})
_GUARD_FUNCTIONS: Final = frozenset({"max", "min", "abs", "int", "float", "bool", "round"})
_MATHS: Final = frozenset({"floor", "ceil", "trunc", "sqrt", "isnan", "inf"})
# Types of nodes that torch itself registers, and keeps nothing to be run for.
_CONTAINERS: Final = frozenset(
    {"builtins.list", "builtins.tuple", "builtins.dict", "collections.OrderedDict"}
)
# transformers' results are dictionaries; which class it was decides nothing here.
_OUTPUT: Final = re.compile(r"transformers(\.[A-Za-z_]\w*){1,9}", re.ASCII)
_KEY: Final = re.compile(r"[\w.:/\- ]*", re.ASCII)


def expression_fault(text: str) -> str | None:
    """Check a size, as sympy's `srepr` or `str` writes it; returns the fault, or None."""
    return _fault(text, "the size", _expression)


def guard_fault(text: str) -> str | None:
    """Check a condition on arguments, in Python; returns the fault, or None."""
    return _fault(text, "the guard", _guard)


def spec_fault(text: str) -> str | None:
    """Check a tree of arguments, as `torch.utils._pytree.treespec_dumps` writes it; returns the
    fault, or None."""
    shown = f"the tree of arguments {text[:120]!r}"
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return shown
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], dict):
        return shown
    # the names of arguments, in source that torch compiles
    for one in value[1].get("children_spec", ()):
        named = isinstance(one, dict) and one.get("type") == "builtins.dict"
        for key in _texts(one.get("context")) if named else ():
            if not key.isidentifier() or not key.isascii():
                return f"an argument named {key[:120]!r}"
    return next(_spec(value[1], 0), None)


def _fault(text: str, what: str, allowed: Any) -> str | None:
    shown = f"{what} {text[:120]!r}"
    if len(text) > _LONGEST:
        return shown
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return shown
    left: list[tuple[ast.AST, int]] = [(tree, 0)]
    while left:
        node, depth = left.pop()
        more = allowed(node) if depth < _MOST_DEEP else None
        if more is None:
            return shown
        left += [(one, depth + 1) for one in more]
    return None


def _number(node: ast.Constant) -> bool:
    value = node.value
    return isinstance(value, float | bool) or (isinstance(value, int) and abs(value) < _LARGEST)


def _expression(node: ast.AST) -> list[ast.AST] | None:
    """Return the children of an expression's node that are left to check; None if the node is not
    allowed."""
    match node:
        case ast.Constant() if _number(node):
            return []
        case ast.Name(id=name) if _SYMBOL.fullmatch(name) or name in _CONSTANTS:
            return []
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]):
            told = all(
                one.arg in _ASSUMPTIONS
                and isinstance(one.value, ast.Constant)
                and isinstance(one.value.value, bool)
                for one in node.keywords
            )
            return [] if told and _SYMBOL.fullmatch(name) else None
        case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=str(digits))]):
            precise = all(one.arg in ("precision", "dps") for one in node.keywords)
            fine = re.fullmatch(r"-?[\d.e+\-]{1,60}", digits, re.ASCII) and precise
            return [one.value for one in node.keywords] if fine else None
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS - {"Symbol"}:
            return list(node.args)
        case ast.Tuple():
            return list(node.elts)
        case _ if isinstance(node, _NODES):
            return list(ast.iter_child_nodes(node))
    return None


def _guard(node: ast.AST) -> list[ast.AST] | None:
    match node:
        case ast.Constant() if _number(node):
            return []
        case ast.Constant(value=str(text)) if _KEY.fullmatch(text):
            return []
        case ast.Name(id="L"):
            return []
        case ast.Subscript(value=value, slice=ast.Constant() as key):
            return [value, key]
        case ast.Call(func=ast.Attribute(value=value, attr=name), keywords=[]) if name in _ASKED:
            return [value, *node.args]
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _GUARD_FUNCTIONS:
            return list(node.args)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr=name), keywords=[]) if (
            name in _MATHS
        ):
            return list(node.args)
        case ast.Attribute(value=ast.Name(id="math"), attr=name) if name in _MATHS:
            return []
        case _ if isinstance(node, _NODES):
            return list(ast.iter_child_nodes(node))
    return None


def _spec(value: Any, depth: int) -> Iterator[str]:
    """Faults of a node of a tree: {"type", "context", "children_spec"}."""
    children = value.get("children_spec") if isinstance(value, dict) else None
    if not isinstance(children, list) or depth > _MOST_DEEP:
        yield "a tree of arguments that is none"
        return
    kind, context = value.get("type"), value.get("context")
    if kind is not None and kind not in _CONTAINERS and not _OUTPUT.fullmatch(str(kind)):
        yield f"an argument or a result of the type {str(kind)[:120]!r}"
    for key in _texts(context):
        if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key) or "__enum__" in key:
            yield f"an argument or a result named {key[:120]!r}"
    for one in children:
        yield from _spec(one, depth + 1)


def _texts(context: Any) -> Iterator[str]:
    """All texts in a node's context, which is JSON in a text, or JSON."""
    left = [context]
    if isinstance(context, str):
        try:
            left = [json.loads(context)]
        except (ValueError, RecursionError):
            left = [context]
    for _ in range(_LONGEST):
        if not left:
            return
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            left += one
    yield "\n"
