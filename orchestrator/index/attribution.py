"""Builds the runtime index from the objects of all of the runtime's units.

The objects are those of an all-operators, all-dtypes build with function and data sections.  See
`orchestrator/index/model.py` for what comes out.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.index.model import COMDAT, Registration, RuntimeIndex, UnitFacts, aliases
from orchestrator.index.objects import ObjectFacts, Reference, Section, read_object
from orchestrator.index.registrations import CutSection, cut_registrations
from orchestrator.index.side_by_side import completed
from orchestrator.pytorch.dialect import Symbols
from orchestrator.pytorch.units import GENERATED
from orchestrator.values.operators import OperatorName

_EXCEPTION_TABLE = ".gcc_except_table"


class UnitNotRenewableError(OrchestratorError):
    """A unit references a symbol whose definition only a complete index can find."""


@dataclass
class _Node:
    owner: int
    size: int
    edges: set[int]
    tags: set[str]


class _Builder:
    """Node numbers by name: `<symbol>`, with `@<unit>` where it is not shared between units."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.nodes: list[_Node] = []

    def number(self, name: str) -> int:
        number = self.numbers.get(name)
        if number is None:
            number = self.numbers[name] = len(self.nodes)
            self.nodes.append(_Node(COMDAT, 0, set(), set()))
        return number


def build_index(
    pytorch: str,
    tree: str,
    units: Iterable[UnitFacts],
    objects: Mapping[str, Path],
    known: Symbols,
    fallbacks: Mapping[str, Iterable[str]] | None = None,
    cuttable: Collection[str] = (),
) -> RuntimeIndex:
    """The index of `units`, whose objects are at `objects[unit.path]`.

    fallbacks: unit that registers a dispatch key's fallback -> operators whose results carry it
    cuttable: the units that a plan may cut

    Raises ObjectUnreadableError.
    """
    builder = _Builder()
    ordered = sorted(units, key=lambda unit: unit.path)
    strong: dict[str, str] = {}
    weak: dict[str, int] = {}
    facts_of: list[ObjectFacts] = []
    for number, unit in enumerate(ordered):
        facts = read_object(objects[unit.path])
        facts_of.append(facts)
        for symbol in facts.weak_symbols:
            weak.setdefault(symbol, number)
        for symbol, section in facts.global_symbols.items():
            strong.setdefault(symbol, _node_name(unit.path, facts.sections[section]))
    registrations: list[Registration] = []
    finished: list[UnitFacts] = []
    for number, (unit, facts) in enumerate(zip(ordered, facts_of, strict=True)):
        reader = _UnitReader(builder, known, strong, weak, number, unit, facts)
        registrations += reader.read()
        registrations += reader.promoted()
        carried = (fallbacks or {}).get(unit.path, ())
        registrations += [
            Registration(OperatorName(name), "fallback", number, ()) for name in carried
        ]
        finished.append(replace(unit, init=reader.init))
    functions = {
        unit.path: facts.functions
        for unit, facts in zip(ordered, facts_of, strict=True)
        if unit.path in cuttable
    }
    return _finish(pytorch, tree, finished, registrations, builder, known, functions)


def renew_units(
    index: RuntimeIndex,
    units: Iterable[UnitFacts],
    objects: Mapping[str, Path],
    known: Symbols,
    fallbacks: Mapping[str, Iterable[str]] | None = None,
    cuttable: Collection[str] = (),
) -> RuntimeIndex:
    """`index` with some of its units indexed again; the others' objects are not read.

    COMDAT sections keep the references of older objects of these units: the result may need too
    much, but never too little.

    Raises ObjectUnreadableError, UnitNotRenewableError.
    """
    numbers = {unit.path: number for number, unit in enumerate(index.units)}
    renewed = {numbers[unit.path]: unit for unit in units}
    builder = _Builder()
    strong: dict[str, str] = {}
    weak: dict[str, int] = {}
    for node, name in enumerate(index.names):
        builder.number(name)
        symbol, _, path = name.partition("@")
        if path.startswith("#"):
            weak[symbol] = int(path[1:])
        elif index.owners[node] in renewed:
            continue
        elif path and symbol:
            strong[symbol] = name
        builder.nodes[node] = _Node(
            index.owners[node],
            index.sizes[node],
            set(index.targets(node)),
            set(index.kernel_tags.get(node, ())),
        )
    for symbol, name in tuple(strong.items()):
        for alias in aliases(symbol):
            strong.setdefault(alias, name)
    registrations = [one for one in index.registrations if one.unit not in renewed]
    finished = list(index.units)
    read = {number: read_object(objects[unit.path]) for number, unit in renewed.items()}
    for number, facts in read.items():
        for symbol, section in facts.global_symbols.items():
            strong[symbol] = _node_name(renewed[number].path, facts.sections[section])
        for symbol in facts.weak_symbols:
            weak.setdefault(symbol, number)
    for number, unit in sorted(renewed.items()):
        _refuse_unknown_providers(unit.path, read[number], index, strong, weak)
        reader = _UnitReader(builder, known, strong, weak, number, unit, read[number])
        registrations += reader.read()
        registrations += reader.promoted()
        carried = (fallbacks or {}).get(unit.path, ())
        registrations += [
            Registration(OperatorName(name), "fallback", number, ()) for name in carried
        ]
        finished[number] = replace(unit, init=reader.init)
    for node, size in enumerate(index.sizes):
        if index.owners[node] == COMDAT and size:  # the first copy's counts
            builder.nodes[node].size = size
    functions: dict[str, Collection[str]] = {
        unit.path: read[number].functions
        for number, unit in renewed.items()
        if unit.path in cuttable
    }
    for path, symbols in _functions_of(index).items():
        functions.setdefault(path, symbols)
    return _finish(index.pytorch, index.tree, finished, registrations, builder, known, functions)


def _functions_of(index: RuntimeIndex) -> dict[str, set[str]]:
    """Unit -> the functions among its symbols, of the units of which they are known."""
    found: dict[str, set[str]] = {}
    for node in index.functions:
        unit = index.units[index.owners[node]].path
        found.setdefault(unit, set()).add(index.names[node].split("@", 1)[0])
    return found


def _refuse_unknown_providers(
    unit: str,
    facts: ObjectFacts,
    index: RuntimeIndex,
    strong: Mapping[str, str],
    weak: Mapping[str, int],
) -> None:
    """Raises UnitNotRenewableError where the unit wants a template that another one instantiates,
    and the index does not tell which."""
    own = facts.global_symbols.keys() | facts.weak_symbols.keys()
    symbols = {one.symbol for section in facts.sections.values() for one in section.references}
    for symbol in sorted(symbols - own - strong.keys() - weak.keys()):
        if symbol and symbol in index.by_name:
            raise UnitNotRenewableError(
                f"{unit} cannot be indexed alone",
                expected="symbols whose unit is known to the index",
                seen=symbol,
                hint="name the unit that instantiates it too, or index all",
            )


def _node_name(unit: str, section: Section) -> str:
    if section.comdat and section.defines:
        return min(section.defines)
    if section.defines and not section.defines[0].startswith(".L"):
        return f"{section.defines[0]}@{unit}"
    return f"#{section.index}@{unit}"


class _UnitReader:
    """Adds one object's sections to the graph."""

    def __init__(
        self,
        builder: _Builder,
        known: Symbols,
        strong: Mapping[str, str],
        weak: Mapping[str, int],
        number: int,
        unit: UnitFacts,
        facts: ObjectFacts,
    ) -> None:
        self.builder = builder
        self.known = known
        self.strong = strong
        self.weak = weak
        self.number = number
        self.unit = unit
        # Generated registrations are written again for each selection.
        self.selectable = None if unit.path.startswith(GENERATED) else frozenset(unit.operators)
        self.tags_of_unit = frozenset(unit.tags)
        self.facts = facts
        self.init: tuple[int, ...] = ()
        by_text = {s.name: s for s in facts.sections.values() if s.name.startswith(".text")}
        self.merged_into: dict[int, Section] = {}
        self.shared = frozenset(facts.global_symbols.values())
        for section in facts.sections.values():
            if section.name.startswith(_EXCEPTION_TABLE):
                owner = by_text.get(".text" + section.name.removeprefix(_EXCEPTION_TABLE))
                if owner is not None:
                    self.merged_into[section.index] = owner

    def read(self) -> list[Registration]:
        registrations: list[Registration] = []
        init: list[int] = []
        for section in self.facts.sections.values():
            if section.name.startswith(".eh_frame") or section.name.startswith(".rodata.str"):
                continue
            node = self.node_of(self.merged_into.get(section.index, section))
            entry = self.builder.nodes[node]
            if not section.comdat:
                entry.owner = self.number
            cut = cut_registrations(self.facts, section, self.known)
            references = section.references if cut is None else self.always(cut)
            if cut is not None:
                registrations += self.registrations(section, cut)
            first_copy = not (section.comdat and entry.size)
            if first_copy or section.index in self.merged_into:
                entry.size += section.size
            entry.edges.update(self.targets(section, references))
            entry.tags.update(self.tags(section))
            entry.edges.discard(node)
            if section.init:
                init.append(node)
        self.init = tuple(sorted(init))
        return registrations

    def always(self, cut: CutSection) -> list[Reference]:
        """References of the section that do not depend on the selection.

        A registration without TORCH_SELECTIVE_* is in every library that has its unit:
        `aten::is_grad_enabled` of register_special_ops.cpp needs c10::GradMode in a library that
        never selects it.
        """
        kept = list(cut.remainder)
        for one in cut.cuts:
            if self.selectable is not None and one.operator not in self.selectable:
                kept += one.references
        return kept

    def registrations(self, section: Section, cut: CutSection) -> list[Registration]:
        return [
            Registration(
                one.operator,
                one.key,
                self.number,
                tuple(sorted(set(self.targets(section, one.references)))),
            )
            for one in cut.cuts
        ]

    def promoted(self) -> list[Registration]:
        """Registrations by the unit's table that no selection can reduce."""
        return [
            Registration(
                OperatorName(operator), "promoted", self.number, self.function(name) or self.init
            )
            for operator, name in self.unit.promoted
        ]

    def function(self, name: str) -> tuple[int, ...]:
        """The nodes of the functions of this name in the unit, whatever their parameters."""
        mangled = f"{len(name)}{name}E"  # Itanium C++ ABI, 5.1.4: the end of a nested name
        symbols = self.facts.global_symbols | self.facts.weak_symbols
        sections = {section for symbol, section in symbols.items() if mangled in symbol}
        return tuple(self.node_of(self.facts.sections[section]) for section in sorted(sections))

    def node_of(self, section: Section) -> int:
        return self.builder.number(_node_name(self.unit.path, section))

    def targets(self, source: Section, references: Iterable[Reference]) -> Iterator[int]:
        """The nodes that `references` of `source` mean."""
        for reference in self.own(source, references):
            section = self.facts.sections.get(reference.section)
            if not reference.section:
                yield self.elsewhere(reference.symbol)
            elif section is not None and not section.name.startswith(".rodata.str"):
                yield self.node_of(self.merged_into.get(section.index, section))

    def tags(self, source: Section) -> Iterator[str]:
        """The kernel tags that `source` names: see codegen/templates/named_tags.h.j2."""
        for reference in self.own(source, source.references):
            text = self.facts.string_at(reference.section, reference.addend)
            if text in self.tags_of_unit:
                yield text

    def own(self, source: Section, references: Iterable[Reference]) -> Iterator[Reference]:
        """`references` of `source`, without a COMDAT's into its own unit's local sections.

        Those (jump tables, `static` functions and variables of headers) would make every unit with
        a copy seem needed, and the copy that the linker keeps comes from a unit that is linked
        anyway. What those sections refer to in turn is the COMDAT's own: at -Oz `static inline`
        functions are seldom inlined.
        """
        waiting, seen = list(references), {source.index}
        while waiting:
            reference = waiting.pop()
            target = self.facts.sections.get(reference.section)
            target = target and self.merged_into.get(target.index, target)
            if target is None or not self.is_local(source, target):
                yield reference
            elif target.index not in seen:
                seen.add(target.index)
                waiting.extend(target.references)

    def is_local(self, source: Section, target: Section) -> bool:
        """True if `target` belongs to the unit alone, and `source` is a COMDAT that many units
        have."""
        strings = target.name.startswith(".rodata.str")
        shared = target.comdat or target.index in self.shared
        return source.comdat and not shared and not strings

    def elsewhere(self, symbol: str) -> int:
        """The node of a symbol that this object does not define.

        A template that another unit instantiates explicitly (`template class SmallVectorBase<...>`)
        is COMDAT there and undefined here: a node of that unit stands before it.
        """
        if symbol in self.strong or symbol not in self.weak:
            return self.builder.number(self.strong.get(symbol, symbol))
        provider = self.weak[symbol]
        node = self.builder.number(f"{symbol}@#{provider}")
        self.builder.nodes[node].owner = provider
        self.builder.nodes[node].edges.add(self.builder.number(symbol))
        return node


def _finish(
    pytorch: str,
    tree: str,
    units: list[UnitFacts],
    registrations: list[Registration],
    builder: _Builder,
    known: Symbols,
    functions: Mapping[str, Collection[str]],
) -> RuntimeIndex:
    """Renumber: external symbols (libc, libc++) go; nodes are sorted by name for stable bytes."""
    names = {number: name for name, number in builder.numbers.items()}
    kept = sorted(
        (number for number, node in enumerate(builder.nodes) if node.size or node.edges),
        key=lambda number: names[number],
    )
    new = {old: number for number, old in enumerate(kept)}
    starts, edges = array("i", [0]), array("i")
    for old in kept:
        edges.extend(sorted(new[t] for t in builder.nodes[old].edges if t in new))
        starts.append(len(edges))
    plain = [names[old] for old in kept]
    calls = _operator_calls(plain, {r.operator for r in registrations}, known)
    index = RuntimeIndex(
        pytorch=pytorch,
        tree=tree,
        units=tuple(
            replace(unit, init=tuple(sorted(new[n] for n in unit.init if n in new)))
            for unit in units
        ),
        registrations=tuple(
            sorted(
                (
                    replace(r, targets=tuple(sorted(new[t] for t in r.targets if t in new)))
                    for r in registrations
                ),
                key=lambda r: (r.operator, r.key, r.unit, r.targets),
            )
        ),
        names=tuple(plain),
        owners=array("i", [builder.nodes[old].owner for old in kept]),
        sizes=array("i", [builder.nodes[old].size for old in kept]),
        edge_starts=starts,
        edges=edges,
        operator_calls=calls,
        kernel_tags={
            new[old]: tuple(sorted(builder.nodes[old].tags))
            for old in kept
            if builder.nodes[old].tags
        },
        functions=frozenset(
            new[old]
            for old in kept
            if (owner := builder.nodes[old].owner) != COMDAT
            and names[old].split("@", 1)[0] in functions.get(units[owner].path, ())
        ),
    )
    return completed(index)


def _operator_calls(
    names: list[str], operator_names: Iterable[OperatorName], known: Symbols
) -> dict[int, OperatorName]:
    """Map the nodes of typed entry points (`call`, `redispatch`) to their operators."""
    structs = {
        name.removeprefix("aten::").replace(".", "_"): name
        for name in operator_names
        if name.namespace == "aten"
    }
    found = {}
    for number, name in enumerate(names):
        match = known.operator_call.match(name.split("@", 1)[0])
        if match:
            length = int(match[1])
            struct, entry = match[2][:length], match[2][length:]
            if struct in structs and entry.startswith(("4callE", "10redispatchE")):
                found[number] = structs[struct]
    return found
