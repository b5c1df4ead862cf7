"""Lists the units that PyTorch compiles: all that variants choose from, and upstream's own list.

Most of the list comes from the tree itself: from `build_variables.bzl` (Starlark that is valid
Python; it is parsed and its list expressions are evaluated, never executed) and from the globs of
its CMake files. What the tree does not contain is data, see `versions.py`.

A unit's path is relative to the source tree, or begins with `generated/`: then it is a file that
code generation writes, relative to the folder it writes to.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from orchestrator.errors import OrchestratorError, Place
from orchestrator.pytorch.versions import Kind, UnitSet, VersionData
from orchestrator.source.tree import TreeRules, tree_files
from orchestrator.values.action import Language

Optimisation = Literal["kernel", "normal"]

LISTS_FILE: Final = "build_variables.bzl"
GENERATED: Final = "generated/"


class ListsUnreadableError(OrchestratorError):
    """A list of `build_variables.bzl` is missing, or more than a sum of lists of strings."""


class UnitMissingError(OrchestratorError):
    """A unit that the lists name is not in the source tree."""


class UnitOfNoKindError(OrchestratorError):
    """The version's data has no rule for a unit that it names."""


@dataclass(frozen=True, order=True)
class Unit:
    """One C or C++ file that is compiled to one object.

    `optimisation` is `kernel` where upstream compiles at -O3, `normal` where at -O2.
    """

    path: str
    language: Language
    kind: Kind
    optimisation: Optimisation

    @property
    def generated(self) -> bool:
        """True if code generation writes it."""
        return self.path.startswith(GENERATED)


@dataclass(frozen=True, order=True)
class UpstreamUnit:
    """One compilation of upstream's own build; units of one family cost about the same.

    `generated/empty.cpp` is the empty file that CMake makes for a library without sources.
    """

    path: str
    language: Language
    family: str
    flag: Literal["-O2", "-O3"]


def runtime_units(tree: Path, version: VersionData) -> tuple[Unit, ...]:
    """All units that a variant may need, sorted by path.

    Raises `ListsUnreadableError`, `UnitMissingError`, `UnitOfNoKindError`.
    """
    rules = [(TreeRules((rule.glob,)), rule.kind) for rule in version.kinds]
    units = []
    for path in _paths(tree, version.units):
        kind = next((kind for glob, kind in rules if glob.counts(path)), None)
        if kind is None:
            raise UnitOfNoKindError(
                f"no rule gives the kind of the unit {path}",
                expected="a glob that matches it",
                hint=f"add one to `kinds` in the data of PyTorch {version.version}",
            )
        optimisation: Optimisation = "kernel" if kind in version.optimised else "normal"
        units.append(Unit(path, _language(path), kind, optimisation))
    return tuple(units)


def upstream_units(tree: Path, version: VersionData) -> tuple[UpstreamUnit, ...]:
    """Units that upstream's selective build of the lite interpreter compiles, sorted by path.

    Raises `ListsUnreadableError`, `UnitMissingError`.
    """
    rules = [(TreeRules((rule.glob,)), rule.family) for rule in version.upstream.families]
    units = []
    for path in _paths(tree, version.upstream.units):
        family = next(family for glob, family in rules if glob.counts(path))
        flag: Literal["-O2", "-O3"] = "-O3" if family in version.optimised else "-O2"
        units.append(UpstreamUnit(path, _language(path), family, flag))
    return tuple(units)


def read_lists(text: str, names: tuple[str, ...], file: str = LISTS_FILE) -> dict[str, list[str]]:
    """The lists of strings that `text` (Starlark) assigns to `names`.

    Understands literals, `+`, `sorted(...)` and names of other lists, evaluated only where they are
    asked for. Raises `ListsUnreadableError`.
    """
    try:
        body = ast.parse(text, file).body
    except SyntaxError as error:
        place = Place(file, error.lineno or 0, error.offset or 0)
        raise ListsUnreadableError("the lists of sources cannot be parsed", place=place) from error
    assigned = {
        statement.targets[0].id: statement.value
        for statement in body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    return {name: _evaluate(ast.Name(name), assigned, file) for name in names}


def _evaluate(node: ast.expr, assigned: dict[str, ast.expr], file: str) -> list[str]:
    match node:
        case ast.List(elts=elements):
            constants = [e.value for e in elements if isinstance(e, ast.Constant)]
            strings = [value for value in constants if isinstance(value, str)]
            if len(strings) == len(elements):
                return strings
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _evaluate(left, assigned, file) + _evaluate(right, assigned, file)
        case ast.Call(func=ast.Name(id="sorted"), args=[argument], keywords=[]):
            return sorted(_evaluate(argument, assigned, file))
        case ast.Name(id=name) if name in assigned:
            return _evaluate(assigned[name], assigned, file)
        case ast.Name(id=name):
            raise ListsUnreadableError(
                f"there is no list of sources called {name}",
                place=Place(file),
                hint="the source tree and the data for its version do not belong together",
            )
    raise ListsUnreadableError(
        "a list of sources is more than a sum of lists of strings",
        place=Place(file, node.lineno, node.col_offset + 1),
        expected="string literals, `+`, sorted(...) and names of other lists",
        seen=ast.unparse(node)[:60],
    )


def _paths(tree: Path, units: UnitSet) -> tuple[str, ...]:
    lists = read_lists((tree / LISTS_FILE).read_text(encoding="utf-8"), units.lists)
    found = {path for paths in lists.values() for path in paths}
    found |= set(tree_files(tree, TreeRules(units.globs)) if units.globs else ())
    found |= set(units.files)
    missing = sorted(path for path in found if not (tree / path).is_file())
    if missing:
        raise UnitMissingError(
            "the source tree lacks files that its own lists name",
            seen=", ".join(missing[:5]) + (", ..." if len(missing) > 5 else ""),
            hint="fetch the runtime again: ./orchestrate fetch --verify",
        )
    without = TreeRules(units.without)
    found |= {GENERATED + path for path in units.generated}
    return tuple(sorted(path for path in found if not without.counts(path)))


def _language(path: str) -> Language:
    return "c" if path.endswith(".c") else "c++"
