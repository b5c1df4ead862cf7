"""An app's own units as a layer over a runtime index.

Their objects are read like the runtime's (`objects`, `registrations`). The layer only appends nodes
to the index's: the facts about PyTorch do not change, so apps with and without their own units
share objects. An own unit is alwayslink, whatever is selected: what it registers, and what its
kernels call, is reachable from its initialisers.

Pure but for reading objects. `to_json` and `from_json` are for the cache.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from orchestrator.index.mentions import Mentions
from orchestrator.index.model import Registration, RuntimeIndex, UnitFacts, aliases
from orchestrator.index.objects import ObjectFacts, Section
from orchestrator.index.registrations import cut_registrations
from orchestrator.pytorch.dialect import Symbols
from orchestrator.values.operators import OperatorName
from orchestrator.values.own_sources import OwnClass

_EXCEPTION_TABLE = ".gcc_except_table"
_IGNORED_SECTIONS = (".eh_frame", ".rodata.str")
# A mangled name of something in a namespace, or of a function outside of any (Itanium C++ ABI,
# 5.1.2), other than the C++ library's: `_ZN2at3addE...`, `_ZTVN3c107StorageE`, `_Z5helperv`.
_NAMED = re.compile(r"_Z(?:T[VIST]|GV)?(?:N[KVRO]*)?(?=\d)")
_PART = re.compile(r"\d+")
_LIBRARY_OF_CXX = frozenset({"__cxxabiv1", "__gnu_cxx", "__cxx11"})
# c10::Dispatcher::findSchema, findSchemaOrThrow, findOp
_BY_NAME = re.compile(r"_ZNK?3c1010Dispatcher(?:10findSchema|17findSchemaOrThrow|6findOp)E")


@dataclass(frozen=True)
class LayerNode:
    """A section of an own unit's object.

    inner    positions of the unit's nodes that it refers to
    symbols  what it refers to and the unit does not define; of a copy of what other units may have
             too (COMDAT), its own symbol: the linker may keep another copy
    tags     kernel tags that its code switches on
    """

    name: str
    size: int
    inner: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerUnit:
    """Facts about an own unit.

    path           its name in plans
    registrations  operator and dispatch key (or the index's word for none) of each, in order
    blocks         kind (`library`, `fragment`, `impl`) and namespace of each TORCH_LIBRARY block
    own_classes    the TorchBind classes that it registers, in order
    defines        symbol that other units may refer to -> position of its node
    init           positions of the nodes that are live as soon as the unit is linked
    """

    path: str
    cost: float
    mentions: Mentions
    nodes: tuple[LayerNode, ...]
    init: tuple[int, ...]
    defines: Mapping[str, int]
    registrations: tuple[tuple[OperatorName, str], ...]
    blocks: tuple[tuple[str, str], ...]
    own_classes: tuple[OwnClass, ...]


def read_unit(
    path: str,
    cost: float,
    facts: ObjectFacts,
    mentions: Mentions,
    own_classes: tuple[OwnClass, ...],
    known: Symbols,
) -> LayerUnit:
    """The layer's part of one object."""
    by_text = {s.name: s for s in facts.sections.values() if s.name.startswith(".text")}
    # an exception table counts as part of its function
    owner = {
        s.index: by_text.get(".text" + s.name.removeprefix(_EXCEPTION_TABLE), s).index
        for s in facts.sections.values()
        if s.name.startswith(_EXCEPTION_TABLE)
    }
    kept = [s for s in _ordered(facts) if not s.name.startswith(_IGNORED_SECTIONS)]
    position = {s.index: n for n, s in enumerate(s for s in kept if s.index not in owner)}
    position |= {inner: position[outer] for inner, outer in owner.items() if outer in position}
    nodes = [_node(path, section) for section in kept if section.index not in owner]
    registrations: list[tuple[OperatorName, str]] = []
    for section in kept:
        if section.index not in position:
            continue
        number = position[section.index]
        nodes[number] = _with(nodes[number], section, facts, position, number, mentions)
        cut = cut_registrations(facts, section, known)
        registrations += [(one.operator, one.key) for one in cut.cuts] if cut else []
    shared = {**facts.weak_symbols, **facts.global_symbols}
    live = {position[s.index] for s in kept if s.index in position and (s.init or s.comdat)}
    return LayerUnit(
        path=path,
        cost=cost,
        mentions=mentions,
        nodes=tuple(nodes),
        init=tuple(sorted(live)),
        defines={n: position[s] for n, s in sorted(shared.items()) if s in position},
        registrations=tuple(registrations),
        blocks=tuple(_blocks(kept, known)),
        own_classes=own_classes,
    )


def _ordered(facts: ObjectFacts) -> list[Section]:
    return [facts.sections[index] for index in sorted(facts.sections)]


def _node(path: str, section: Section) -> LayerNode:
    symbol = section.defines[0] if section.defines and not section.comdat else ""
    name = symbol if symbol and not symbol.startswith(".L") else f"#{section.index}"
    return LayerNode(f"{name}@{path}", 0, symbols=section.defines if section.comdat else ())


def _with(
    node: LayerNode,
    section: Section,
    facts: ObjectFacts,
    position: Mapping[int, int],
    number: int,
    mentions: Mentions,
) -> LayerNode:
    """The node with what a section of it refers to."""
    inner, symbols, tags = set(node.inner), set(node.symbols), set(node.tags)
    for reference in section.references:
        if not reference.section:
            symbols.add(reference.symbol)
        elif reference.section in position:
            inner.add(position[reference.section])
        text = facts.string_at(reference.section, reference.addend)
        if text is not None and text in mentions.tags:
            tags.add(text)
    return LayerNode(
        node.name,
        node.size + section.size,
        tuple(sorted(inner - {number})),
        tuple(sorted(symbols - {""})),
        tuple(sorted(tags)),
    )


def _blocks(sections: Iterable[Section], known: Symbols) -> Iterator[tuple[str, str]]:
    """The TORCH_LIBRARY blocks that an object has, in its order."""
    for section in sections:
        mangled = known.library_block.search(section.name)
        if mangled is not None and section.name.startswith(".text"):
            match = known.library_name.match(mangled[2][: int(mangled[1])])
            if match is not None and "static_init" not in mangled[2]:
                kinds = ("impl", "fragment", "library")
                yield next((kind, match[kind]) for kind in kinds if match[kind])


def layered(index: RuntimeIndex, units: Sequence[LayerUnit]) -> RuntimeIndex:
    """The index with own units behind PyTorch's and ours."""
    place = _Places(index, units)
    owners, sizes = array("i", index.owners), array("i", index.sizes)
    starts, edges = array("i", index.edge_starts), array("i", index.edges)
    names, tags = list(index.names), dict(index.kernel_tags)
    facts, registrations = list(index.units), list(index.registrations)
    for unit in units:
        number, first = len(facts), place.first[unit.path]
        for position, node in enumerate(unit.nodes):
            targets = {first + inner for inner in node.inner}
            targets.update(*(place.of(symbol) for symbol in node.symbols))
            edges.extend(sorted(targets - {first + position}))
            starts.append(len(edges))
            names.append(node.name)
            owners.append(number)
            sizes.append(node.size)
            if node.tags:
                tags[first + position] = node.tags
        registrations += [Registration(name, key, number, ()) for name, key in unit.registrations]
        facts.append(
            UnitFacts(
                unit.path,
                unit.cost,
                tags=unit.mentions.tags,
                open_tags=unit.mentions.open_tags,
                operators=unit.mentions.operators,
                classes=unit.mentions.classes,
                features=unit.mentions.features,
                init=tuple(first + one for one in unit.init),
                open_classes=unit.mentions.open_classes,
            )
        )
    return replace(
        index,
        units=tuple(facts),
        registrations=tuple(registrations),
        names=tuple(names),
        owners=owners,
        sizes=sizes,
        edge_starts=starts,
        edges=edges,
        kernel_tags=tags,
    )


class _Places:
    """Finds the nodes that define a symbol: first in own units, then in the index."""

    def __init__(self, index: RuntimeIndex, units: Sequence[LayerUnit]) -> None:
        self.first: dict[str, int] = {}
        self._own: dict[str, int] = {}
        end = len(index.names)
        for unit in units:
            self.first[unit.path] = end
            for symbol, position in unit.defines.items():
                self._own.setdefault(symbol, end + position)
            end += len(unit.nodes)
        self._index: dict[str, int] = {}
        providers: dict[str, int] = {}
        for node, name in enumerate(index.names):
            symbol, _, path = name.partition("@")
            if path.startswith("#"):
                providers[symbol] = node
            elif symbol and not symbol.startswith("#"):
                self._index[symbol] = node
        # what another unit instantiates for all: its node stands before the template's
        self._index |= providers

    def of(self, symbol: str) -> frozenset[int]:
        """The nodes that may be what a symbol means; none where it is neither's."""
        found = {self._own[symbol]} if symbol in self._own else set()
        found.update(self._index[a] for a in aliases(symbol) if a in self._index)
        return frozenset(found)


def called_symbols(units: Sequence[LayerUnit]) -> tuple[str, ...]:
    """Symbols that own units refer to, in what is live as soon as they are linked, and that none of
    them defines; sorted. Of functions that headers bring, units define copies."""
    defined = {
        symbol: (unit, position) for unit in units for symbol, position in unit.defines.items()
    }
    found = set[str]()
    left = [(unit, position) for unit in units for position in unit.init]
    met = {(unit.path, position) for unit, position in left}
    while left:
        unit, position = left.pop()
        node = unit.nodes[position]
        found.update(node.symbols)
        more = [(unit, inner) for inner in node.inner]
        for one, at in (*more, *(defined[name] for name in node.symbols if name in defined)):
            if (one.path, at) not in met:
                met.add((one.path, at))
                left.append((one, at))
    return tuple(sorted(found - defined.keys()))


def unknown_symbols(index: RuntimeIndex, units: Sequence[LayerUnit]) -> dict[str, str]:
    """Symbol -> an own unit that refers to it, of those that neither the runtime nor an own unit
    defines and no C++ library has. C's functions are left to the linker."""
    place = _Places(index, units)
    return {
        symbol: unit.path
        for unit in reversed(units)
        for node in unit.nodes
        for symbol in node.symbols
        if _is_named(symbol) and not place.of(symbol)
    }


def _is_named(symbol: str) -> bool:
    parts = _parts(symbol)
    return bool(parts) and parts[0] not in _LIBRARY_OF_CXX


def _parts(symbol: str) -> list[str]:
    start = _NAMED.match(symbol)
    parts, at = list[str](), start.end() if start else len(symbol)
    while length := _PART.match(symbol, at):
        at = length.end() + int(length[0])
        parts.append(symbol[length.end() : at])
    return parts


def readable(symbol: str) -> str:
    """`at::native::helper` of a mangled name, as far as it is a plain one."""
    return "::".join(_parts(symbol)) or symbol


def looked_up_by_name(units: Iterable[LayerUnit]) -> str | None:
    """The first own unit that asks the dispatcher for operators by their names."""
    return next(
        (
            unit.path
            for unit in units
            for node in unit.nodes
            if any(map(_BY_NAME.match, node.symbols))
        ),
        None,
    )


def namespaces_of(index: RuntimeIndex) -> Collection[str]:
    """The namespaces in which an index has operators."""
    return frozenset(one.operator.namespace for one in index.registrations)


def to_json(unit: LayerUnit) -> dict[str, Any]:
    """A unit as plain data."""
    return asdict(unit)


def from_json(data: Mapping[str, Any]) -> LayerUnit:
    """A unit from `to_json`'s data. Raises KeyError, TypeError, ValueError."""
    mentions = data["mentions"]
    return LayerUnit(
        path=data["path"],
        cost=data["cost"],
        mentions=Mentions(
            tags=tuple(mentions["tags"]),
            open_tags=mentions["open_tags"],
            operators=tuple(map(OperatorName.parse, mentions["operators"])),
            classes=tuple(mentions["classes"]),
            open_classes=mentions["open_classes"],
            features=tuple(mentions["features"]),
            promoted=tuple((name, function) for name, function in mentions["promoted"]),
        ),
        nodes=tuple(
            LayerNode(
                one["name"],
                one["size"],
                tuple(one["inner"]),
                tuple(one["symbols"]),
                tuple(one["tags"]),
            )
            for one in data["nodes"]
        ),
        init=tuple(data["init"]),
        defines=dict(data["defines"]),
        registrations=tuple((OperatorName.parse(name), key) for name, key in data["registrations"]),
        blocks=tuple((kind, name) for kind, name in data["blocks"]),
        own_classes=tuple(
            OwnClass(one["name"], tuple(one["methods"]), one["is_open"])
            for one in data["own_classes"]
        ),
    )
