"""Attributes the bytes of delivered libraries to what asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zstandard

from orchestrator.binary.elf import exported_symbols
from orchestrator.binary.elf_layout import layout
from orchestrator.binary.elf_strip import split
from orchestrator.binary.elf_symbols import placed_symbols
from orchestrator.binary.macho_live import atoms_of
from orchestrator.build.explaining.kept_sizes import SIZES
from orchestrator.build.planning.plan import Variant, plan_variants
from orchestrator.build.workshop.invocation import Invocation, parts_chosen
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.deliver.manifest import MANIFEST, read_manifest
from orchestrator.errors import OrchestratorError, Place
from orchestrator.index.model import aliases
from orchestrator.index.objects import read_object
from orchestrator.libraries.features import (
    asked_by_operators,
    asked_by_units,
    sources_of,
    with_beside,
)
from orchestrator.models.coverage import sites_of
from orchestrator.plan.static_links import StaticLinks
from orchestrator.size.atoms import atoms_graph
from orchestrator.size.attribution import Asked, Attribution, exclusive, shares_of
from orchestrator.size.graph import LinkedGraph, LinkedObject, Registered, Wanted
from orchestrator.size.linked import linked_graph
from orchestrator.system.reading import file_sha256
from orchestrator.system.staging import write_if_changed
from orchestrator.values.action import Compile
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName
from orchestrator.verify.structural import wrappers_of

_CLASS: Final = "class "
# Places in a model's source that are told of an operator.
_MOST_SITES: Final = 4
# Of zstd, as packages are compressed.
_LEVEL: Final = 19


class NothingMeasuredError(OrchestratorError):
    """A library is to be looked into that was not built, or not of what is declared now."""


class OptimisedAsWholeError(OrchestratorError):
    """A library whose code is made when it is linked is to be looked into."""


@dataclass(frozen=True)
class Measured:
    """A library's attribution, and the graph that it was made of."""

    attribution: Attribution
    graph: LinkedGraph


def measured(here: Invocation, label: VariantLabel) -> Measured:
    """Attribute the bytes of a variant's library, as it was delivered, and write the result beside
    it.

    Raises NothingMeasuredError, and what reading traces and planning raise.
    """
    library = _delivered(here, label)
    (variant,) = plan_variants(here, [label], generate=False)
    found = measure(here, here.runtimes.of(label.app), variant, library)
    write_if_changed(record_of(here.context.dist, label), found.attribution.text())
    return found


def measure(
    here: Invocation, runtime: Runtime, variant: Variant, library: Path, *, packed: bool = True
) -> Measured:
    """The same of a planned variant, whose library is at `library`.

    packed: whether its size after compression is told, which takes the longest
    Raises NothingMeasuredError, OptimisedAsWholeError.
    """
    if variant.objects.plan.spec.lto:
        raise OptimisedAsWholeError(
            f"{variant.label} is optimised as a whole: its objects do not tell what it has",
            place=variant.app.place,
            expected="`optimize: balanced` or `speed`",
            seen=f"optimize: {variant.app.optimize}",
        )
    if isinstance(variant.links, StaticLinks):
        graph = _of_archive(runtime, variant, library)
    else:
        graph = _of_shared(runtime, variant, variant.links.shared.output, library)
    told = packed and not isinstance(variant.links, StaticLinks)
    attribution = Attribution(
        app=variant.label.app,
        abi=variant.label.abi,
        library=file_sha256(library),
        size=graph.bytes(range(len(graph.nodes))),
        packed=packed_bytes(library) if told else None,
        made=_made(here, runtime, variant),
        asked=_asked(here, variant, graph),
        shares=shares_of(graph),
    )
    return Measured(attribution, graph)


def packed_bytes(library: Path) -> int:
    """Bytes of a library after compression, as packages are compressed."""
    return len(zstandard.ZstdCompressor(level=_LEVEL).compress(library.read_bytes()))


@dataclass(frozen=True)
class _Linked:
    """Objects that were linked, and what the library was linked for.

    always  objects that are in each library
    """

    objects: Mapping[Path, Compile]
    always: frozenset[str]
    wanted: Wanted


def _linked(runtime: Runtime, variant: Variant) -> _Linked:
    objects = _objects(runtime, variant)
    always = _always(runtime, variant)
    units = {one.unit for one in objects.values() if one.object not in always}
    return _Linked(objects, always, _wanted(runtime, variant, units))


def _of_shared(runtime: Runtime, variant: Variant, output: str, library: Path) -> LinkedGraph:
    linked, unstripped = _linked(runtime, variant), Path(runtime.fill(output))
    stripped = library.read_bytes()
    missing = next((path for path in (unstripped, *linked.objects) if not path.is_file()), None)
    if missing is not None or not _is_of(unstripped, library, stripped):
        raise _not_built(variant, library, missing)
    symbols = placed_symbols(unstripped)
    return linked_graph(
        [
            LinkedObject(
                one.unit, read_object(path), one.object in linked.always, members_of(runtime, one)
            )
            for path, one in linked.objects.items()
        ],
        layout(stripped, symbols),
        symbols,
        sorted(exported_symbols(library)),
        runtime.dialect.symbols,
        linked.wanted,
    )


def members_of(runtime: Runtime, shard: Compile) -> dict[str, str]:
    """Unit of each of a unity shard's functions and objects, by symbol."""
    if not shard.members:
        return {}
    index, units = runtime.index, {one.unit for one in shard.members}
    wanted = {number for number, unit in enumerate(index.units) if unit.path in units}
    return {
        alias: index.units[owner].path
        for name, owner in zip(index.names, index.owners, strict=True)
        if owner in wanted
        for alias in aliases(name.split("@", 1)[0])
    }


def _of_archive(runtime: Runtime, variant: Variant, library: Path) -> LinkedGraph:
    linked, members = _linked(runtime, variant), atoms_of(library)
    by_name = {path.name: one for path, one in linked.objects.items()}
    if not by_name.keys() <= {one.member for one in members}:
        raise _not_built(variant, library, None)
    units = [
        (one.unit, one.object in linked.always, members_of(runtime, one))
        if one is not None
        else (member.member, True, {})
        for member in members
        for one in [by_name.get(member.member)]
    ]
    exports = sorted({name for one in members for name in one.exported if name.startswith("lta_")})
    return atoms_graph(members, units, exports, runtime.dialect.symbols, linked.wanted)


def _not_built(variant: Variant, library: Path, missing: Path | None) -> NothingMeasuredError:
    return NothingMeasuredError(
        f"what {variant.label} is linked of is not here",
        place=Place(str(library)),
        expected="the library and the objects of the last build of what is declared now",
        seen="another library" if missing is None else f"no {missing.name}",
        hint=f"run: ./orchestrate build {variant.label}",
    )


def record_of(dist: Path, label: VariantLabel) -> Path:
    """Path of a library's attribution, beside the delivered files."""
    return dist / label.app / SIZES / f"{label.abi}.json"


def _delivered(here: Invocation, label: VariantLabel) -> Path:
    folder = here.context.dist / label.app / label.abi
    if not (folder / MANIFEST).is_file():
        raise NothingMeasuredError(
            f"{label} is not built",
            place=Place(str(folder)),
            expected="a delivered library",
            hint=f"run: ./orchestrate build {label}",
        )
    manifest = read_manifest(folder)
    if (manifest.app, manifest.abi) != (label.app, label.abi):
        raise NothingMeasuredError(
            f"what lies where {label} is delivered is another app's, or for another ABI",
            place=Place(str(folder / MANIFEST)),
            expected=str(label),
            seen=str(VariantLabel(manifest.app, manifest.abi)),
            hint=f"run: ./orchestrate build {label}",
        )
    return folder / manifest.library.file


def _is_of(unstripped: Path, library: Path, stripped: bytes) -> bool:
    """True if a library is what stripping a linked one gives."""
    return split(unstripped.read_bytes(), f"{library.name}.debug").stripped == stripped


def _objects(runtime: Runtime, variant: Variant) -> dict[Path, Compile]:
    """The objects of a variant's library, in the order of its link."""
    links, by_object = variant.links, {one.object: one for one in variant.objects.compiles}
    if isinstance(links, StaticLinks):
        members = (one for one in links.library.whole if one in by_object)
        return {Path(runtime.fill(one)): by_object[one] for one in members}
    of_archives = {link.output: link.whole for link in links.cxx_library}
    order = (
        member
        for output in (*links.shared.whole, *links.shared.on_demand)
        for member in of_archives.get(output, (output,))
    )
    return {Path(runtime.fill(one)): by_object[one] for one in order}


def _always(runtime: Runtime, variant: Variant) -> frozenset[str]:
    """The objects that a library has whatever is selected."""
    objects = variant.objects
    units = runtime.facts.always_for(objects.plan.spec.purpose)
    common: Iterable[Compile] = (
        *objects.native,
        *objects.registrations,
        *objects.runtime_library,
        *objects.java,
        *objects.cxx_library,
        *(one for one in objects.plan.compiles if one.members or one.unit in units),
    )
    return frozenset(one.object for one in common)


def _wanted(runtime: Runtime, variant: Variant, units: set[str]) -> Wanted:
    """Needs that a variant's library is linked for. units: those that are not in each library."""
    selection, index = variant.selection, runtime.index
    kernels = {name: set[str]() for name in selection.operators}
    registering = {name: set[str]() for name in selection.operators}
    for one in index.registrations:
        if one.operator in kernels:
            kernels[one.operator].update(wrappers_of(one.operator, one.key))
            registering[one.operator].update({index.units[one.unit].path} & units)
    selected = {
        name: Registered(frozenset(kernels[name]), frozenset(registering[name])) for name in kernels
    }
    roots = {name for trace in variant.traces for name in trace.root_operators}
    called = {name for trace in variant.traces for name in trace.called_operators}
    parts = parts_chosen(variant.app.kernels)
    asked = dict[str, set[str]]()
    for name in sorted((roots | selection.root_operators) & selection.operators.keys()):
        features = asked_by_operators({name}, called, parts)
        asked[name] = {f"native/{source}" for source in sources_of(features)} & units
    for custom in selection.custom_classes:
        asked[f"{_CLASS}{custom}"] = {
            unit.path for unit in index.units if custom in unit.classes
        } & units
    dtypes = {tag: frozenset(of) for tag, of in selection.kernel_dtypes.items()}
    beside = {
        unit: {f"native/{source}" for source in sources_of(with_beside([feature]))} & units
        for unit, feature in asked_by_units(parts).items()
    }
    return Wanted(selected, asked, dtypes, beside)


def _asked(here: Invocation, variant: Variant, graph: LinkedGraph) -> dict[str, Asked]:
    """Models that ask for each operator and class, with the sites in their sources."""
    app, selection = variant.app, variant.selection
    sites = {
        model.name: {
            name: _first(found)
            for name, found in sites_of(here.models.listings(app, model)).items()
        }
        for model in app.config.models
    }
    found = {}
    for name in sorted(graph.asked):
        of_class = name.startswith(_CLASS)
        who = (
            selection.custom_classes[name.removeprefix(_CLASS)]
            if of_class
            else selection.operators[OperatorName(name)]
        )
        found[name] = Asked({one: sites.get(one, {}).get(name, ()) for one in sorted(who)})
    return found


def _first(sites: tuple[str, ...]) -> tuple[str, ...]:
    more = len(sites) - _MOST_SITES
    return (*sites[:_MOST_SITES], *((f"{more} more",) if more > 0 else ()))


def _made(here: Invocation, runtime: Runtime, variant: Variant) -> Mapping[str, str]:
    """Settings that decide a library's size besides its models, by their names in declarations."""
    toolchain, app = here.toolchains.of(variant.label.abi), variant.app
    spec = variant.objects.plan.spec
    return {
        "compiler": f"{toolchain.driver.kind} {toolchain.version} ({toolchain.identity[:12]})",
        "flags": " ".join(spec.flags_before()),
        "runtime": f"PyTorch {runtime.version.version}",
        "optimize": app.optimize,
        "kernels": " ".join(spec.features),
        "cpu levels": " ".join(spec.levels),
        "threads": str(app.threads),
        "dispatch": app.config.dispatch,
        "extensible": str(app.config.extensible).lower(),
        "selection": app.selection,
    }


@dataclass(frozen=True)
class Bytes:
    """Bytes of a library that are for one subject.

    own     its own functions, objects and texts
    alone   bytes that the library would lose without it
    shared  bytes that it needs and others too; None for a unit or a symbol
    """

    own: int
    alone: int
    shared: int | None

    def text(self) -> str:
        """The amounts as a line."""
        lost = f"without it the library would be {self.alone:,} bytes smaller"
        if self.shared is None:
            return f"it takes {self.own:,} bytes; {lost}"
        return f"{lost}; what it needs as others do takes {self.shared:,} bytes more"


def bytes_of(here: Invocation, label: VariantLabel, subject: str) -> Bytes | None:
    """Bytes for an operator with all of its overloads, a class, a unit or a symbol; None where no
    bytes are of the subject alone: a kernel tag, a feature, what was inlined everywhere.

    Raises NothingMeasuredError, and what reading traces and planning raise.
    """
    return bytes_for(measured(here, label).graph, subject)


def bytes_for(graph: LinkedGraph, subject: str) -> Bytes | None:
    """The same of a library's graph.

    An operator that models ask for: what nobody else asks for, so that the amount is that of `size
    --by operator`, even if linked kernels call the operator. One that only kernels call: what is
    reached through it alone.
    """
    names = {subject, f"aten::{subject}", f"{_CLASS}{subject}"}
    asked = {
        node
        for node in graph.selected
        if graph.nodes[node].name in names or graph.nodes[node].name.partition(".")[0] in names
    }
    if asked:
        base = graph.reached(graph.base, graph.selected)
        needed = graph.bytes(graph.reached(asked) - base)
        others = [node for name, node in graph.asked.items() if node not in asked]
        if len(others) < len(graph.asked):
            gone = graph.reached(asked) - graph.reached(others) - base
            alone = graph.bytes(gone) + sum(amount for _, amount in graph.replaced(gone))
        else:
            alone = exclusive(graph, asked)
        return Bytes(graph.bytes(asked), alone, max(needed - alone, 0))
    nodes = {n for n, node in enumerate(graph.nodes) if subject in (node.unit, node.name)}
    return Bytes(graph.bytes(nodes), exclusive(graph, nodes), None) if nodes else None
