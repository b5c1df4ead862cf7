"""An app's own sources as input to plans: compiled once for this machine, analysed, and cached.

Before planning, each source is preprocessed and compiled with the flags of the runtime index. The
facts in its object (`index/layers.py`) become a layer over that index, which is stored in the
user's cache under a digest of everything that it depends on. Errors name the app's files, not their
copies in the cache.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import NoReturn

from orchestrator.build.workshop.runtime import Runtime
from orchestrator.codegen.projection import index_text
from orchestrator.compilers.resolve import ResolvedToolchain, compiler_environment
from orchestrator.context import Context
from orchestrator.errors import OrchestratorError, Place
from orchestrator.index.layers import (
    LayerUnit,
    from_json,
    looked_up_by_name,
    namespaces_of,
    read_unit,
    readable,
    to_json,
    unknown_symbols,
)
from orchestrator.index.mentions import mentions_of
from orchestrator.index.model import RuntimeIndex, UnitFacts
from orchestrator.index.objects import ObjectFacts, ObjectUnreadableError, read_object
from orchestrator.index.own_classes import own_classes_of
from orchestrator.plan.graph import projection_files
from orchestrator.plan.variant import RuntimeFacts, VariantSpec, compilation
from orchestrator.system.process import Command
from orchestrator.system.reading import parse_json
from orchestrator.system.staging import write_bytes, write_if_changed
from orchestrator.values.action import Compile
from orchestrator.values.fingerprint import fingerprint, text_digest
from orchestrator.values.operators import OperatorName
from orchestrator.values.own_sources import OwnClass, OwnSources

# Packages whose code decides what a layer says of an object.
_READING = ("index", "pytorch")
# CPU seconds for a source that includes ATen's headers: what a plan weighs it with.
_COST = 10.0
# Seconds; a source that takes longer is reported, not waited for.
_LONGEST = 900.0
_FAULT = re.compile(r"^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<what>.*)")
_PLACE = re.compile(r"^(?:In file included from )?(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?")
_MOST_LINES = 20
_DEPENDENCY = re.compile(r"(?:\\.|[^\s\\])+")
_HEADERS = (
    "sources are compiled with the headers of the app's runtime, of the app's own `include` and"
    " of the sources' folders: operators need <torch/library.h> and <ATen/ATen.h>"
)
_ANY_BLOCK = r"\bTORCH_LIBRARY\w*\s*\(\s*{}\b"
_ANY_CLASS = r"\bclass_\s*<[^;{{}}]*?\"{}\""


class SourceBrokenError(OrchestratorError):
    """A source of an app's own does not compile, or reads a file that is not declared."""


class SourceObjectUnreadableError(OrchestratorError):
    """The host's toolchain makes objects that cannot be added to the runtime's index."""


class NamespaceTakenError(OrchestratorError):
    """A source registers something in a namespace of PyTorch's, or one that another source has."""


class SymbolMissingError(OrchestratorError):
    """A source calls what neither the runtime nor the app defines, or what no plan can follow."""


@dataclass(frozen=True)
class OwnLayer:
    """Additions of an app's own sources to its runtime."""

    sources: OwnSources
    units: tuple[LayerUnit, ...]

    @cached_property
    def classes(self) -> Mapping[str, OwnClass]:
        """`namespace.Name` -> the TorchBind class that the app's sources register, with the place
        of the registration in them."""
        return {
            one.name: replace(one, place=_place_of_class(self.sources, unit.path, one.name))
            for unit in self.units
            for one in unit.own_classes
        }

    def over(self, runtime: Runtime) -> Runtime:
        """A runtime whose index and units have the app's own in addition; `base` is the one that
        was passed."""
        return replace(
            runtime,
            facts=replace(runtime.facts, app=self.sources),
            base=runtime,
            own_units=self.units,
            own_classes=self.classes,
        )


def own_layer(
    sources: OwnSources,
    runtime: Runtime,
    toolchain: ResolvedToolchain,
    context: Context,
    log: Callable[[str], None],
) -> OwnLayer:
    """The layer of an app's own sources; quick where the cache has it.

    toolchain: for this machine, with the C++ library that the index was made with
    Raises SourceBrokenError, SourceObjectUnreadableError, NamespaceTakenError, SymbolMissingError.
    """
    work = _Work(sources, runtime, toolchain, context)
    units = work.kept()
    if units is None:
        log(f"reading the sources of {sources.owner}")
        units = work.made()
        work.keep(units)
    packed = {name.partition(".")[0] for name in runtime.version.custom_classes}
    _require_own_namespaces(sources, units, {*namespaces_of(runtime.index), *packed, "_"})
    _require_classes_once(sources, units)
    _require_symbols(units, runtime.index)
    return OwnLayer(sources, units)


@dataclass(frozen=True)
class _Work:
    sources: OwnSources
    runtime: Runtime
    toolchain: ResolvedToolchain
    context: Context

    @property
    def facts(self) -> RuntimeFacts:
        return replace(self.runtime.facts, app=self.sources)

    @property
    def spec(self) -> VariantSpec:
        """As the runtime's units are compiled for the index."""
        return VariantSpec(
            abi=self.toolchain.abi,
            toolchain=self.toolchain.identity,
            compile_flags=self.toolchain.compile_flags,
            purpose="release",
            optimize="size",
            entry=frozenset(),
            precompile=False,
            system=self.toolchain.config.system,
            hardening=frozenset(),
        )

    @property
    def path(self) -> Path:
        """Path of the layer in the cache. Its name is a digest of how the app's units are compiled,
        sources included, and of the code that reads their objects."""
        parts = {
            "app": self.sources.app,
            "units": {unit: self._compilation(unit).fingerprint for unit in self.sources.units},
            "read by": _readers(),
        }
        return self.context.cache / "layers" / f"{fingerprint(parts)}.json"

    def kept(self) -> tuple[LayerUnit, ...] | None:
        """The layer from the cache; None if it is missing or damaged."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            digest, _, text = self.path.read_bytes().partition(b"\n")
            if digest.decode() == hashlib.sha256(text).hexdigest():
                return tuple(map(from_json, parse_json(text)))
        return None

    def keep(self, units: Iterable[LayerUnit]) -> None:
        """Keep the layer, where the cache can be written."""
        text = json.dumps(list(map(to_json, units)), separators=(",", ":")).encode()
        with suppress(OSError):
            digest = hashlib.sha256(text).hexdigest().encode()
            write_bytes(self.path, digest + b"\n" + text)

    def made(self) -> tuple[LayerUnit, ...]:
        """The layer from the sources, each preprocessed and compiled."""
        projection = projection_files({text_digest(index_text()): index_text()})
        for file, text in {**self.sources.copies, **projection}.items():
            write_if_changed(Path(self.runtime.fill(file)), text)
        first = self.runtime.fill(next(iter(projection)))
        folder = Path(tempfile.mkdtemp(prefix="sources-", dir=self.context.state))
        try:
            return tuple(self._read(unit, first, folder) for unit in self.sources.units)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _read(self, unit: str, first: str, folder: Path) -> LayerUnit:
        action = self._compilation(unit)
        source, made, reads = self.runtime.fill(action.source), folder / "unit.o", folder / "unit.d"
        flags = [*map(self.runtime.fill, action.flags), "-include", first]
        command = [str(self.toolchain.cxx), *flags]
        text = self._run([*command, "-E", "-P", "-MMD", "-MF", str(reads), source], unit)
        self._require_declared(unit, reads)
        self._run([*command, "-c", source, "-o", str(made)], unit)
        known = self.runtime.dialect.symbols
        mentions, classes = mentions_of(text), own_classes_of(text, known)
        return read_unit(unit, _COST, self._facts_of(made, unit), mentions, classes, known)

    def _compilation(self, unit: str) -> Compile:
        return compilation(self.facts, self.spec, UnitFacts(unit, _COST))(None)

    def _facts_of(self, made: Path, unit: str) -> ObjectFacts:
        """Raises SourceObjectUnreadableError."""
        try:
            return read_object(made)
        except ObjectUnreadableError as error:
            raise SourceObjectUnreadableError(
                f"objects of {self.toolchain.abi} cannot be added to PyTorch's index",
                place=self.toolchain.place,
                expected=f"{error.expected}, as the index is made of, for {unit}",
                seen=error.seen,
                hint="an app's own `sources` need a toolchain for this machine that compiles to ELF"
                " objects with code: without -flto in `compile_flags`",
            ) from None

    def _run(self, argv: Sequence[str], unit: str) -> str:
        """Run the compiler; return its stdout. Raises SourceBrokenError."""
        context = self.context
        env = compiler_environment(context.cache, context.env, context.state)
        done = context.runner.run(Command(argv, env, timeout=_LONGEST))
        if done.code:
            _raise_broken(
                unit, done.err, self.runtime.fill(self.sources.folder), f"apps/{self.sources.app}"
            )
        if done.code is None:
            raise SourceBrokenError(
                "a source takes too long to compile",
                place=Place(unit),
                expected=f"at most {_LONGEST:.0f} seconds",
            )
        return done.out

    def _require_declared(self, unit: str, reads: Path) -> None:
        """Raises SourceBrokenError where a unit reads a file that is neither the app's, declared,
        nor the runtime's: what it holds would not count."""
        folders = [self.runtime.fill(self.sources.folder), *self.runtime.folders.values()]
        roots = [Path(folder).resolve() for folder in folders if folder]
        texts, state = self.context.texts.resolve(), self.context.state.resolve()
        roots = [root for root in roots if root not in (texts, state)]
        roots.append(texts / "projections")
        text = reads.read_text("utf-8", "replace").partition(":")[2].replace("\\\n", " ")
        for word in _DEPENDENCY.findall(text):
            path = Path(re.sub(r"\\(.)", r"\1", word)).resolve()
            if not any(path.is_relative_to(root) for root in roots):
                raise SourceBrokenError(
                    "a source reads a file outside of the app",
                    place=Place(unit),
                    expected="headers next to the sources, below `include` or of the runtime",
                    seen=str(path),
                    hint="copy it into the app, into a folder under `include:` in `sources:`",
                )


@cache
def _readers() -> str:
    """A digest of the code that reads objects and preprocessed sources."""
    here = Path(__file__)
    package = here.parents[2]
    files = sorted(file for name in _READING for file in (package / name).rglob("*.py"))
    return fingerprint(
        {
            file.relative_to(package).as_posix(): text_digest(file.read_text(encoding="utf-8"))
            for file in (*files, here)
        }
    )


def _raise_broken(unit: str, said: str, folder: str, app: str) -> NoReturn:
    """The error for what a compiler says against a unit: its first, at its place in the app."""
    lines = said.replace(f"{folder}/", f"{app}/").splitlines()
    at, fault = next(
        ((n, found) for n, line in enumerate(lines) if (found := _FAULT.match(line))), (0, None)
    )
    place = Place(unit)
    if fault is not None:
        # where a header of PyTorch's does not fit, a note says which of our lines asked for it
        before = [_PLACE.match(line) for line in (*lines[at:], *reversed(lines[:at]))]
        own = next((one for one in before if one and one["file"].startswith(f"{app}/")), None)
        if own is not None:
            place = Place(own["file"], int(own["line"]), int(own["column"] or 1))
    raise SourceBrokenError(
        "a source of the app does not compile",
        place=place,
        seen=(fault["what"] if fault else next(iter(lines), "no message"))[:300],
        hint=_HEADERS if fault and "file not found" in fault["what"] else None,
        details="\n".join(lines[at : at + _MOST_LINES]),
    )


def _require_own_namespaces(
    sources: OwnSources, units: Sequence[LayerUnit], taken: Collection[str]
) -> None:
    """Raises NamespaceTakenError.

    taken: the namespaces of the runtime's operators and classes
    """
    whole = dict[str, str]()
    for unit in units:
        for kind, namespace in unit.blocks:
            place = _place_of(sources, unit.path, namespace)
            if namespace in taken:
                raise _taken(namespace, place)
            first = whole.setdefault(namespace, unit.path) if kind == "library" else unit.path
            if first != unit.path:
                raise NamespaceTakenError(
                    f"two sources have a TORCH_LIBRARY of the namespace {namespace}",
                    place=place,
                    seen=first,
                    hint="make one of them a TORCH_LIBRARY_FRAGMENT",
                )
        for one in unit.own_classes:
            namespace = one.name.partition(".")[0]
            if namespace in taken:
                raise _taken(namespace, _place_of_class(sources, unit.path, one.name))
    _require_once(sources, units)


def _taken(namespace: str, place: Place) -> NamespaceTakenError:
    return NamespaceTakenError(
        f"the namespace {namespace} is PyTorch's",
        place=place,
        expected="a namespace of the app's own",
        seen=namespace,
        hint="rename it, in the sources and in the model's export",
    )


def _require_classes_once(sources: OwnSources, units: Sequence[LayerUnit]) -> None:
    """Raises NamespaceTakenError: PyTorch ends the process on the second."""
    registered = dict[str, str]()
    for unit in units:
        for one in unit.own_classes:
            if one.name in registered:
                raise NamespaceTakenError(
                    f"the class {one.name} is registered twice",
                    place=_place_of_class(sources, unit.path, one.name),
                    seen=registered[one.name],
                    hint="remove one, or give it another name; a header that registers a class does"
                    " so in each source that includes it",
                )
            registered[one.name] = unit.path


def _require_once(sources: OwnSources, units: Sequence[LayerUnit]) -> None:
    defined = dict[OperatorName, str]()
    for unit in units:
        for operator, key in unit.registrations:
            if key not in ("schema", "catchall"):
                continue
            if operator in defined:
                raise NamespaceTakenError(
                    f"{operator} is defined twice",
                    place=_place_of(sources, unit.path, operator.namespace),
                    seen=defined[operator],
                    hint="remove one, or give it another overload name: `name.overload(...)`",
                )
            defined[operator] = unit.path


def _place_of(sources: OwnSources, unit: str, namespace: str) -> Place:
    """Place at which a unit registers in a namespace."""
    return _place_in(sources, unit, _ANY_BLOCK.format(re.escape(namespace)))


def _place_of_class(sources: OwnSources, unit: str, name: str) -> Place:
    """Place at which a unit registers a class, `namespace.Name`."""
    return _place_in(sources, unit, _ANY_CLASS.format(name.partition(".")[2]))


def _place_in(sources: OwnSources, unit: str, pattern: str) -> Place:
    path = unit.removeprefix(f"apps/{sources.app}/")
    if path in sources.generated:
        return Place(f"apps/{sources.app}/{sources.generated[path]}")
    text = sources.texts[path]
    found = re.search(pattern, text)
    if found is None:
        return Place(unit)
    line_start = text.rfind("\n", 0, found.start()) + 1
    return Place(unit, text.count("\n", 0, found.start()) + 1, found.start() - line_start + 1)


def _require_symbols(units: Sequence[LayerUnit], index: RuntimeIndex) -> None:
    """Raises SymbolMissingError."""
    by_name = looked_up_by_name(units)
    if by_name is not None:
        raise SymbolMissingError(
            "a source looks up operators by name, which no plan can follow",
            place=Place(by_name),
            expected="calls such as `at::relu(x)`",
            seen="c10::Dispatcher::findSchema",
            hint="call the operator's function in C++",
        )
    missing = unknown_symbols(index, units)
    if missing:
        symbol = min(missing)
        raise SymbolMissingError(
            "a source calls a function that this runtime does not have",
            place=Place(missing[symbol]),
            expected=f"functions of PyTorch {index.pytorch} for mobile, or the app's own",
            seen=readable(symbol),
            hint="call operators (`at::...`) instead, or add the source that defines it",
            details="\n".join(sorted(missing)[:_MOST_LINES]),
        )
