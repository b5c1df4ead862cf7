"""The runtime index as a value: what every function in PyTorch's objects references.

Nodes are linker sections (a function or a datum with its exception table); edges are relocations.
A COMDAT section (template, inline function) is one node for all units that hold a copy, since the
linker keeps one.  Registrations (`TORCH_LIBRARY*`, `OperatorGenerator`) are cut out of the graph
and listed with the operator they register, because a selective build keeps only some of them.

On disk: one zstd frame; a JSON header line, then raw little-endian columns (`_COLUMNS`).
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import zstandard

from orchestrator.errors import OrchestratorError
from orchestrator.system.reading import parse_json
from orchestrator.values.operators import OperatorName

FORMAT = 2
_COLUMNS = ("owners", "sizes", "edge_starts", "edges")
COMDAT = -1
# CPU seconds to compile a unit of ours.
_OWN_COST = 6.0
# Counting in bytes: 0, 1, and 2 for more.
_ONE_MORE = b"\1\2\2"
_ONE_ALONE = bytes.maketrans(b"\2", b"\0")


# A constructor or destructor has up to three names for one body (Itanium C++ ABI, 5.1.4.3), of
# which a node keeps one.
_STRUCTOR = re.compile(r"([CD])([012])(?=E)")
# torchgen's file of the kernels under one dispatch key
_REGISTERING_FILE = re.compile(r"generated/Register(\w+)\.cpp")


class IndexUnreadableError(OrchestratorError):
    """The index file is missing, damaged, of another format, or of another source tree."""


@dataclass(frozen=True)
class UnitFacts:
    """Facts about one translation unit.

    path        relative to the source tree; `generated/...` for torchgen's output
    cost        user CPU seconds to compile it when the index was made: a weight, not a promise
    tags        kernel tags (`AT_DISPATCH_*`) its preprocessed text mentions
    open_tags   it computes a tag's name at compile time: it needs the whole selection
    operators   operators it registers by hand (`TORCH_SELECTIVE_NAME`, `TORCH_SELECTIVE_SCHEMA`)
    classes     custom classes it registers; features it asks for
    open_classes  it computes a class's name: it needs all classes of the selection
    promoted    interpreter operators that it always registers, each with its function's name
    init        nodes of its static initialisers: live as soon as the unit is linked
    """

    path: str
    cost: float
    tags: tuple[str, ...] = ()
    open_tags: bool = False
    operators: tuple[OperatorName, ...] = ()
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    promoted: tuple[tuple[str, str], ...] = ()
    init: tuple[int, ...] = ()
    open_classes: bool = False


@dataclass(frozen=True)
class Registration:
    """One kernel or schema registered for `operator` under `key`.

    key is a dispatch key (`CPU`), `schema` for a definition, `jit` for an interpreter operator,
    `promoted` for one that its unit always registers, `fallback:<key>` for a backend fallback, and
    `fallback` where the operator's results carry a dispatch key whose fallback the unit registers.
    targets are the nodes that exist only because of this registration.
    """

    operator: OperatorName
    key: str
    unit: int
    targets: tuple[int, ...]


@dataclass(frozen=True)
class RuntimeIndex:
    """See the module docstring; indices into `units` and nodes are positions in these tuples.

    operator_calls  node -> the operator whose typed entry point it is
    kernel_tags     node -> the kernel tags that its code switches on, sorted
    functions       nodes of the units that a plan may cut that are functions, and no data: they
                    alone can be replaced by a stub
    """

    pytorch: str
    tree: str
    units: tuple[UnitFacts, ...]
    registrations: tuple[Registration, ...]
    names: tuple[str, ...]
    owners: array[int]
    sizes: array[int]
    edge_starts: array[int]
    edges: array[int]
    operator_calls: dict[int, OperatorName]
    kernel_tags: dict[int, tuple[str, ...]]
    functions: frozenset[int] = frozenset()

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Name -> its node, built when first asked for: 14 MB, and planning does without."""
        return {name: node for node, name in enumerate(self.names)}

    @cached_property
    def interpreter_units(self) -> frozenset[int]:
        """The units that register operators of the interpreter, which bytecode calls by name."""
        keys = {"jit", "promoted"}
        return frozenset(r.unit for r in self.registrations if r.key in keys)

    @cached_property
    def referred_to_once(self) -> bytes:
        """A byte for each node: 1 where one node, registration or unit's initialiser refers to it,
        and no other. A set of the nodes would take 11 MB."""
        counts = bytearray(len(self.owners))
        references = (
            self.edges,
            *(registration.targets for registration in self.registrations),
            *(unit.init for unit in self.units),
        )
        for node in chain.from_iterable(references):
            counts[node] = _ONE_MORE[counts[node]]
        return bytes(counts.translate(_ONE_ALONE))

    @cached_property
    def _registered(self) -> Mapping[tuple[int, int], tuple[str, OperatorName]]:
        """(unit, node) -> the dispatch key and the operator that a unit registers the node for."""
        return {
            (r.unit, node): (r.key, r.operator) for r in self.registrations for node in r.targets
        }

    @cached_property
    def _behind(self) -> Mapping[tuple[int, int], tuple[str, OperatorName] | None]:
        """(unit, node) -> what a unit registers that calls the node; None where that is several."""
        found: dict[tuple[int, int], tuple[str, OperatorName] | None] = {}
        for (unit, wrapper), kernel in self._registered.items():
            if self.owners[wrapper] == unit:
                for node in self.targets(wrapper):
                    alone = found.get((unit, node), kernel) == kernel
                    found[unit, node] = kernel if alone else None
        return found

    def direct_kernel(self, node: int) -> tuple[str, OperatorName] | None:
        """The dispatch key and the operator whose kernel `node` is for callers in C++.

        Beside each kernel torchgen writes a function that calls it without the dispatcher:
        `at::cpu::mul_out` for `aten::mul.out` on CPU (torchgen/dest/register_dispatch_key.py, Note
        [Direct dispatch bindings]). It calls what is registered, which a compiler may have put into
        it: then both call the same function of `at::native`.
        """
        owner = self.owners[node]
        file = _REGISTERING_FILE.fullmatch(self.units[owner].path) if owner >= 0 else None
        if file is None:
            return None
        namespace = file[1].lower()
        if not self.names[node].startswith(f"_ZN2at{len(namespace)}{namespace}"):
            return None
        for known in (self._registered, self._behind):
            found = (known.get((owner, target)) for target in self.targets(node))
            kernel = next((one for one in found if one is not None and one[0] == file[1]), None)
            if kernel is not None:
                return kernel
        return None

    @cached_property
    def calling_or_switching(self) -> frozenset[int]:
        """The nodes that lead to a typed entry point of an operator or to a switch on kernel tags:
        a third of all, so walks for those two pass the rest by."""
        return self.leading_to((*self.operator_calls, *self.kernel_tags))

    def leading_to(self, nodes: Iterable[int]) -> frozenset[int]:
        """`nodes`, and those from which a chain of references leads to one of them."""
        found = set(nodes)
        callers, left = self.callers(), list(found)
        while left:
            new = set(callers.get(left.pop(), ())) - found
            found |= new
            left += new
        return frozenset(found)

    def callers(self) -> dict[int, list[int]]:
        """Node -> the nodes that refer to it. Built anew for each call: it takes 25 MB."""
        found: dict[int, list[int]] = {}
        for node in range(len(self.owners)):
            for target in self.targets(node):
                found.setdefault(target, []).append(node)
        return found

    @cached_property
    def _defining(self) -> dict[str, tuple[int, ...]]:
        """Symbol -> the nodes that define it, of the symbols that were asked for so far."""
        return {}

    def defining(self, symbols: Iterable[str]) -> tuple[int, ...]:
        """The nodes that define `symbols`; those that no unit defines are libc's or libc++'s."""
        wanted = {alias for symbol in symbols for alias in aliases(symbol)}
        known = self._defining
        if new := wanted - known.keys():  # variants ask for nearly the same: one pass for most
            found: dict[str, list[int]] = {symbol: [] for symbol in new}
            for node, name in enumerate(self.names):
                symbol = name.split("@", 1)[0]
                if symbol in new:
                    found[symbol].append(node)
            known.update((symbol, tuple(nodes)) for symbol, nodes in found.items())
        return tuple(sorted(node for symbol in wanted for node in known[symbol]))

    @cached_property
    def _starting(self) -> dict[tuple[str, ...], tuple[int, ...]]:
        return {}

    def starting_with(self, starts: tuple[str, ...]) -> tuple[int, ...]:
        """The nodes whose names start with one of `starts`."""
        if starts not in self._starting:
            nodes = (node for node, name in enumerate(self.names) if name.startswith(starts))
            self._starting[starts] = tuple(nodes)
        return self._starting[starts]

    def targets(self, node: int) -> array[int]:
        """The nodes that `node` refers to."""
        return self.edges[self.edge_starts[node] : self.edge_starts[node + 1]]


def aliases(symbol: str) -> tuple[str, ...]:
    """The symbols that may stand for the same body: a node has the name of one of them."""
    match = _STRUCTOR.search(symbol)
    if match is None:
        return (symbol,)
    kinds = "12" if match[1] == "C" else "012"
    return tuple(symbol[: match.start(2)] + kind + symbol[match.end(2) :] for kind in kinds)


def with_own_units(
    index: RuntimeIndex, units: Iterable[tuple[str, Iterable[OperatorName], Iterable[str]]]
) -> RuntimeIndex:
    """The index with units of ours behind PyTorch's own.

    units: of each its path, the operators that it registers, and the symbols that it refers to. A
    unit is linked whole: what one of its operators needs, each of them does.
    """
    paths = list(index.units)
    registrations = list(index.registrations)
    for path, operators, symbols in units:
        registrations += [Registration(name, "schema", len(paths), ()) for name in operators]
        paths.append(UnitFacts(path, _OWN_COST, init=index.defining(symbols)))
    return replace(index, units=tuple(paths), registrations=tuple(registrations))


def save_index(index: RuntimeIndex) -> bytes:
    """The file's bytes; equal indices give equal bytes."""
    header = {
        "format": FORMAT,
        "pytorch": index.pytorch,
        "tree": index.tree,
        "units": [
            {
                name: value
                for name, value in asdict(unit).items()
                if value is not False and value != ()
            }
            for unit in index.units
        ],
        "registrations": [[r.operator, r.key, r.unit, r.targets] for r in index.registrations],
        "operator_calls": sorted(index.operator_calls.items()),
        "kernel_tags": sorted(index.kernel_tags.items()),
        **({"functions": sorted(index.functions)} if index.functions else {}),
        "columns": {name: len(getattr(index, name)) for name in _COLUMNS},
    }
    parts = [json.dumps(header, separators=(",", ":")).encode(), b"\n"]
    parts += ["\n".join(index.names).encode(), b"\0"]
    parts += [_little_endian(getattr(index, name)).tobytes() for name in _COLUMNS]
    return zstandard.ZstdCompressor(level=19).compress(b"".join(parts))


def _little_endian(column: array[int]) -> array[int]:
    if sys.byteorder == "big":
        column = array("i", column)
        column.byteswap()
    return column


def load_index(path: Path) -> RuntimeIndex:
    """Read an index file.

    Raises IndexUnreadableError where it is missing, damaged or of another format.
    """
    try:
        raw = zstandard.ZstdDecompressor().decompress(path.read_bytes())
        head, rest = raw.split(b"\n", 1)
        header = parse_json(head)
        if header["format"] != FORMAT:
            raise ValueError(f"format {header['format']}")
        return _parse(header, rest)
    except (OSError, ValueError, KeyError, TypeError, zstandard.ZstdError) as error:
        raise IndexUnreadableError(
            f"the runtime index {path.name} cannot be read",
            expected=f"an index of format {FORMAT}",
            seen=str(error),
            hint="run: ./orchestrate runtime index",
        ) from None


def _unit(columns: Mapping[str, Any]) -> UnitFacts:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in columns.items()
    }
    fields["operators"] = tuple(map(OperatorName.known, fields.get("operators", ())))
    fields["promoted"] = tuple(tuple(pair) for pair in fields.get("promoted", ()))
    return UnitFacts(**fields)


def _parse(header: dict[str, Any], rest: bytes) -> RuntimeIndex:
    split = rest.index(b"\0")
    names = tuple(rest[:split].decode().split("\n")) if split else ()
    columns: dict[str, array[int]] = {}
    offset = split + 1
    for name in _COLUMNS:
        length = header["columns"][name] * 4
        column = array("i", rest[offset : offset + length])
        columns[name] = _little_endian(column)
        offset += length
    if offset != len(rest):
        raise ValueError("it ends too early, or too late")
    return RuntimeIndex(
        pytorch=header["pytorch"],
        tree=header["tree"],
        units=tuple(_unit(unit) for unit in header["units"]),
        registrations=tuple(
            Registration(OperatorName.known(operator), key, unit, tuple(targets))
            for operator, key, unit, targets in header["registrations"]
        ),
        names=names,
        operator_calls={
            int(node): OperatorName.known(name) for node, name in header["operator_calls"]
        },
        kernel_tags={int(node): tuple(tags) for node, tags in header["kernel_tags"]},
        functions=frozenset(map(int, header.get("functions", ()))),
        **columns,
    )
