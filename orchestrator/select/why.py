"""Why something is in a variant: who asked for it, and the path to it through the index. Pure.

A path is a shortest chain of nodes from a root to the subject.  Roots are the symbols that our own
code references, the selected operators' kernels, and the static initialisers of the units that the
runtime always needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from orchestrator.index.model import RuntimeIndex
from orchestrator.select.closure import ROOT, Reach, Registry
from orchestrator.select.readable import readable
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import ADDONS, ALL_DTYPES, EXTRA, Selection
from orchestrator.values.trace import Trace

# Of one operator that no input ran, in a line.
_MOST_CALLS = 4


class Explainer:
    """Answers about one variant, from its walk."""

    def __init__(
        self,
        index: RuntimeIndex,
        kernels: Registry,
        selection: Selection,
        walk: Reach,
        always: Iterable[str],
        unrun: Callable[[str, OperatorName], Sequence[str]] = lambda model, operator: (),
        extra: Mapping[str, str] = MappingProxyType({}),
        unreachable: Callable[[str, OperatorName], Sequence[str]] = lambda model, operator: (),
    ) -> None:
        """unrun: model and operator -> the calls that no input ran, as text; extra: operators that
        app.yaml adds, each with the reason; unreachable: as unrun, the calls that none can run."""
        self.index = index
        self.selection = selection
        self.walk = walk
        self.always = frozenset(always)
        self.unrun = unrun
        self.unreachable = unreachable
        self.extra = extra
        # a node or a unit -> the first selected operator that brings it
        self._brought: dict[int, str] = {}
        self._registered: dict[int, list[str]] = {}
        for operator in sorted(selection.operators):
            for registration in kernels.kernels(operator):
                self._registered.setdefault(registration.unit, []).append(operator)
                for node in registration.targets:
                    self._brought.setdefault(node, operator)
        self._inits = {node: unit.path for unit in index.units for node in unit.init}

    def operator(self, name: OperatorName, traces: Iterable[Trace]) -> list[str]:
        """Lines that name who asked for an operator and what calls it; empty if the variant lacks
        it."""
        lines = [
            f"{trace.model}: {_request(name, trace, self.selection)}{self._unrun(name, trace)}"
            for trace in traces
            if trace.model in self.selection.operators.get(name, ())
        ]
        if EXTRA in self.selection.operators.get(name, ()):
            lines.append(self._added(name))
        if name in self.walk.called:
            node = next(n for n in self.walk.parents if self.index.operator_calls.get(n) == name)
            lines += ["linked kernels can call it:", *self.path(node)]
            if name not in self.selection.operators:
                lines.append("it has no registered kernel: such a call would throw an error")
        return lines

    def _added(self, name: OperatorName) -> str:
        """Why app.yaml brings an operator."""
        reason = self.extra.get(name, self.extra.get(name.qualified))
        if reason is not None:
            return f"app.yaml adds it (`extra`): {reason}"
        return f"in the static closure of what app.yaml adds (`extra`): {', '.join(self.extra)}"

    def _unrun(self, name: OperatorName, trace: Trace) -> str:
        calls = self.unrun(trace.model, name) if name in trace.root_operators else ()
        return f"; not run: {_listed(calls)}" if calls else ""

    def operators(self, names: Sequence[OperatorName], traces: Sequence[Trace]) -> list[str]:
        """The same for several operators, each with its name; for the first alone, just its
        lines."""
        answers = {name: lines for name in names if (lines := self.operator(name, traces))}
        if len(names) == 1 or [*answers] == [names[0]]:
            return answers.get(names[0], [])
        return [
            line for name, of in answers.items() for line in (name, *(f"  {one}" for one in of))
        ]

    def absent(self, names: Sequence[OperatorName], traces: Sequence[Trace]) -> list[str]:
        """Lines that explain why the variant has none of these operators, and how it would get
        them."""
        lines = [f"{trace.model}: {self._absent(names, trace)}" for trace in traces]
        if self.selection.guarded:
            guarded = ", ".join(sorted(self.selection.guarded))
            lines.append(f"operators that no input ran cannot call it: {guarded}")
        bases = {name.partition(".")[0] for name in names}
        others = [one for one in sorted(self.selection.operators) if one.partition(".")[0] in bases]
        if others:
            lines.append(f"other overloads are in it: {', '.join(others)}")
        left_out = any({*names}.intersection(trace.unreachable_operators) for trace in traces)
        lines.append(
            "to have it: `extra` in app.yaml, or a file of the model that reaches it"
            if left_out
            else "to have it: an input that runs it, or `extra` in app.yaml"
        )
        return lines

    def _absent(self, names: Sequence[OperatorName], trace: Trace) -> str:
        """Why a trace asks for none of these operators."""
        left_out = [name for name in names if name in trace.unreachable_operators]
        if not left_out:
            return "its bytecode does not name it, and no input ran it"
        calls = [call for name in left_out for call in self.unreachable(trace.model, name)]
        where = f": {_listed(calls)}" if calls else ""
        return f"its bytecode names it, in branches that no input can take{where}"

    def unit(self, path: str) -> list[str]:
        """Lines that explain why the variant has a unit; empty if it lacks it."""
        number = next((n for n, unit in enumerate(self.index.units) if unit.path == path), None)
        if number is None:
            return []
        lines = []
        if path in self.always:
            lines.append("the runtime always needs its static initialisers")
        registered = sorted(set(self._registered.get(number, ())))
        if registered and number in self.walk.units:
            lines.append(f"it registers {', '.join(registered)}")
        node = next((n for n in self.walk.parents if self.index.owners[n] == number), None)
        if node is not None:
            lines += ["the shortest path to it:", *self.path(node)]
        return lines

    def symbol(self, name: str) -> list[str]:
        """Path to a function or datum, by its mangled name; empty if the variant lacks it."""
        names = self.index.names
        node = next((n for n in self.walk.parents if names[n].split("@", 1)[0] == name), None)
        return [] if node is None else ["the shortest path to it:", *self.path(node)]

    def path(self, node: int) -> list[str]:
        """The chain from a root to a node, a line each."""
        chain = [node]
        while (parent := self.walk.parents[chain[-1]]) != ROOT:
            chain.append(parent)
        return [
            f"  {self._root(chain[-1])}",
            *(f"  -> {self._described(n)}" for n in reversed(chain)),
        ]

    def _root(self, node: int) -> str:
        operator = self._brought.get(node)
        if operator is not None:
            return f"operator {operator}"
        if node in self._inits:
            return f"static initialisers of {self._inits[node]}"
        return "referenced by the library's own code or by registration code"

    def _described(self, node: int) -> str:
        owner = self.index.owners[node]
        where = self.index.units[owner].path if owner >= 0 else "a header"
        return f"{readable(self.index.names[node])}  ({where})"


def _listed(calls: Sequence[str]) -> str:
    more = f" and {len(calls) - _MOST_CALLS} more" if len(calls) > _MOST_CALLS else ""
    return f"{', '.join(calls[:_MOST_CALLS])}{more}"


def _request(name: OperatorName, trace: Trace, selection: Selection) -> str:
    calls = trace.called_operators.get(name)
    if name in trace.root_operators:
        return f"its bytecode names it; {_ran(calls)}"
    if calls:
        return f"kernels called it, {_times(calls)}"
    guarded = sorted(selection.guarded & set(trace.root_operators))
    return "no input ran it; it is in the static closure" + (
        f" of operators that never ran: {', '.join(guarded)}" if guarded else ""
    )


def _ran(calls: int | None) -> str:
    return f"it ran {_times(calls)}" if calls else "no input ran it"


def _times(calls: int) -> str:
    return "once" if calls == 1 else f"{calls:,} times"


def overloads(name: str, known: Iterable[OperatorName]) -> tuple[OperatorName, ...]:
    """The known operators that a name means: of one without an overload all that it has."""
    return tuple(sorted(one for one in known if one == name or one.startswith(f"{name}.")))


def of_selection(name: str, selection: Selection) -> list[str]:
    """Lines that name who asked for a kernel tag, a custom class or a build feature of this
    name."""
    lines = [
        _of_dtype(who, dtype)
        for dtype, models in sorted(selection.kernel_dtypes.get(name, {}).items())
        for who in sorted(models)
    ]
    lines += _asked(selection.custom_classes, name, "uses the custom class")
    lines += _asked(selection.build_features, name, "uses the build feature")
    return lines


def _of_dtype(who: str, dtype: str) -> str:
    if who == ADDONS:
        return f"app.yaml: {dtype}, for add-ons (`extensible: true`)"
    if dtype != ALL_DTYPES:
        return f"{who}: its kernels ran on {dtype}"
    if who == EXTRA:
        return "app.yaml: all dtypes, for the operators under `extra`"
    return f"{who}: all dtypes, because no input ran it"


def _asked(entries: Mapping[str, frozenset[str]], name: str, verb: str) -> Iterator[str]:
    return (
        f"{who}: {verb}" if who != EXTRA else f"app.yaml: an operator under `extra` {verb}"
        for who in sorted(entries.get(name, ()))
    )
