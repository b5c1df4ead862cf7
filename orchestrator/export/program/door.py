"""The way of a module through torch.export: captured, asked at small sizes, ready to be saved."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from orchestrator.export.calls import Call, Comparison, Invoke, run
from orchestrator.export.places import is_torchs
from orchestrator.export.program import trees
from orchestrator.export.program.capture import Captured, Example, capture
from orchestrator.export.program.checks import Least, user_values
from orchestrator.export.program.copies import copied_module, module_in_double
from orchestrator.export.program.module import Program, inputs_of, leaf_names, script_module
from orchestrator.export.program.sizes import Kept, Wanted, with_size
from orchestrator.export.refusal import Refused

_LOOP = re.compile(r"\bfor\b.*\bin\b|\bwhile\b")
# Sizes that the exporter never tries.
_SMALL = (1, 0)


@dataclass
class Entered:
    """A module whose methods are programs.

    calls    the examples, with arguments as the model takes them
    texts    what its checks say
    notes    lines for people
    method   finds a method of the module
    """

    module: torch.nn.Module
    captured: dict[str, Captured]
    calls: list[Call]
    texts: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)
    method: Callable[[Any, str], Any] = getattr

    def build(self) -> Any:
        """A module of TorchScript, with a state of its own and the weights of all."""
        programs = {name: one.program for name, one in self.captured.items()}
        made, self.texts = script_module(programs)
        return made

    def eager(self) -> Invoke:
        """Calls methods of the module, as the model is called; with a state of its own."""
        its = copied_module(self.module)
        return lambda method, *args: self._called(its, method, args)

    def in_double(self) -> Invoke:
        """The same in float64. Raises what torch does where the module cannot be copied."""
        its = module_in_double(self.module)
        return lambda method, *args: self._called(its, method, args)

    def _called(self, its: Any, method: str, args: Sequence[Any]) -> Any:
        program = self.captured[method].program
        given = [
            leaf
            for (_, tree), arg in zip(inputs_of(program), args, strict=True)
            for leaf in trees.leaves_of(tree, arg)
        ]
        positional, named = pytree.tree_unflatten(given, program.core.call_spec.in_spec)
        made = self.method(its, method)(*positional, **named)
        return trees.packed(program.result, pytree.tree_leaves(made))

    @property
    def unrolled(self) -> str:
        """The line of a loop that fixes a size, if there is one: it is run step by step."""
        for one in self.captured.values():
            for place in one.why.values():
                file, _, line = place.rpartition(":")
                code = linecache.getline(file, int(line)) if line.isdigit() else ""
                if _LOOP.search(code) and not is_torchs(file):
                    return f"{Path(file).name}:{line}: {code.strip()}"
        return ""

    @property
    def fixed(self) -> frozenset[str]:
        """The text of the checks of sizes that torch's own modules fixed."""
        return frozenset(
            f"size {dim} of {name} must be "
            for one in self.captured.values()
            for (name, dim), why in one.why.items()
            if why and is_torchs(why)
        )

    def refuses(self, error: str) -> bool:
        """True if an error is one of the model's checks."""
        return any(text in error for text in self.texts)


def enter(
    module: torch.nn.Module,
    examples: Mapping[str, Sequence[Example]],
    asked: Sequence[Wanted],
    kept: Kept,
    comparison: Comparison,
    stage: Callable[[str], None],
) -> Entered:
    """Raises Refused."""
    captured: dict[str, Captured] = {}
    for method, rows in examples.items():
        stage("exporting the module")
        captured[method] = capture(module, method, rows[0], asked, kept)
    entered = Entered(module, captured, [])
    for method, rows in examples.items():
        entered.calls += calls_of(method, captured[method].program, rows)
    return completed(entered, comparison, stage)


def completed(entered: Entered, comparison: Comparison, stage: Callable[[str], None]) -> Entered:
    """With the least sizes that are right, and notes."""
    captured = entered.captured
    comparison.widen(max((one.integers.slack for one in captured.values()), default=0.0))
    stage("trying small sizes")
    for method, one in captured.items():
        least = _least(entered, method, comparison)
        captured[method] = replace(one, program=replace(one.program, least=least))
    entered.notes = [line for name, one in captured.items() for line in _notes(name, one)]
    return entered


def calls_of(method: str, program: Program, rows: Sequence[Example]) -> Iterator[Call]:
    """Examples, as the model is called. Raises Refused where they nest values otherwise."""
    spec, known_values = program.core.call_spec.in_spec, user_values(program.exported)
    for number, row in enumerate(rows):
        leaves, its = pytree.tree_flatten((row.args, dict(row.kwargs)))
        if its != spec:
            why = f"call {number} of {method} has other arguments than the first one"
            raise Refused("example inputs", why, other=True)
        for name, known, leaf in zip(leaf_names(program), known_values, leaves, strict=True):
            if isinstance(known, bool | float | str | None) and leaf != known:
                why = f"call {number} of {method} has {name}={leaf!r}, and the first one {known!r}"
                raise Refused("example inputs", why, other=True)
        args = tuple(trees.packed(tree, leaves) for _, tree in inputs_of(program))
        yield Call(method, number, "own", args)


def _least(entered: Entered, method: str, comparison: Comparison) -> dict[str, Least]:
    """Symbol -> the small sizes with which the program is right, where those are not all."""
    program = entered.captured[method].program
    first = next(call for call in entered.calls if call.method == method)
    given = list(inputs_of(program))
    leaves = [
        leaf
        for (_, tree), arg in zip(given, first.args, strict=True)
        for leaf in trees.leaves_of(tree, arg)
    ]
    symbols = _symbols(program)

    def right(those: Sequence[str], size: int) -> bool | None:
        its = list(leaves)
        for number, dim in (place for one in those for place in symbols[one]):
            its[number] = with_size(its[number], dim, size)
        args = tuple(trees.packed(tree, its) for _, tree in given)
        return _right(entered, Call(method, 0, "small", args), comparison)

    sizes = {one: leaves[number].shape[dim] for one, ((number, dim), *_) in symbols.items()}
    found: dict[str, Least] = {}
    for symbol in symbols:
        alike = [one for one in symbols if one != symbol and sizes[one] == sizes[symbol]]
        for size in _SMALL:
            if right([symbol], size) is not False:
                continue
            known = found.get(symbol)
            tried = [*([one] for one in alike), alike] if known is None else [[*known.beside]]
            beside = next((these for these in tried if these and right([symbol, *these], size)), [])
            if beside and known is None:
                found[symbol] = Least(size + 1, tuple(beside))
            elif not beside:
                found[symbol] = Least(size + 1) if known is None else replace(known, floor=size + 1)
                break
    return found


def _right(entered: Entered, call: Call, comparison: Comparison) -> bool | None:
    """True if a model gives the module's result or refuses the call by a check; None if the module
    fails."""
    expected = run(entered.eager(), call)
    if expected.error:
        return None
    built = entered.build()
    seen = run(lambda method, *args: getattr(built, method)(*args), call)
    if seen.error:
        return entered.refuses(seen.error)
    return not comparison.compare(expected.value, seen.value).bad


def _symbols(program: Program) -> dict[str, list[tuple[int, int]]]:
    """Return the places of each open size: symbol -> (leaf, dimension)."""
    found: dict[str, list[tuple[int, int]]] = {}
    for number, value in enumerate(user_values(program.exported)):
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                found.setdefault(str(size.node.expr), []).append((number, dim))
    return found


def _notes(method: str, one: Captured) -> Iterator[str]:
    """Yield the notes for people about a method."""
    program = one.program
    prefix = "" if method == "forward" else f"{method}: "
    for name, tree in inputs_of(program):
        if isinstance(tree, trees.Branch):
            yield f"{prefix}{name} is {trees.told(tree)}"
    if isinstance(program.result, trees.Branch):
        yield f"{prefix}the result is {trees.told(program.result)}"
    yield from (f"{prefix}{line}" for line in one.integers.notes)
    for (name, dim), why in one.why.items():
        value = user_values(program.exported)[leaf_names(program).index(name)]
        if why:
            place = f"fixed by {why}" if not is_torchs(why) else "fixed by torch's own modules"
            place = why if why.startswith(("the example", "as it was")) else place
            yield f"{prefix}size {dim} of {name} is always {int(value.shape[dim])}: {place}"
    sizes = {
        symbol: f"size {dim} of {leaf_names(program)[number]}"
        for symbol, ((number, dim), *_) in _symbols(program).items()
    }
    for symbol, least in program.least.items():
        if least.beside:
            others = " and ".join(sizes[one] for one in least.beside)
            why = f"at least {least.size}, or as {others}: else it would differ"
            yield f"{prefix}{sizes[symbol]} is {why}"
        floor = least.floor if least.beside else least.size
        if floor:
            yield f"{prefix}{sizes[symbol]} is at least {floor}: with less it would differ"
