"""The objects of add-ons, and their link against the library that they extend.

Makes both the add-ons of shipped libraries and the shards of the development library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from orchestrator.binary.elf_addon import finish
from orchestrator.binary.elf_imports import defined_names, importing, linked_names
from orchestrator.binary.macho import ARCHIVE, archive_members
from orchestrator.build.executing.execute import (
    View,
    execute_actions,
    linking_environment,
    require_success,
)
from orchestrator.build.planning.variants import RUNTIME_LIBRARY_SOURCES, own_texts
from orchestrator.build.workshop.invocation import Invocation, Prepared
from orchestrator.build.workshop.native import NATIVE
from orchestrator.codegen.projection import projection_text
from orchestrator.codegen.registrations import GeneratedUnit, generate_registrations
from orchestrator.codegen.stubs import generate_stubs
from orchestrator.codegen.units import unit_of
from orchestrator.compilers.own_steps import own_steps
from orchestrator.compilers.relink import CXX_ARCHIVES, EMULATED, exported_name
from orchestrator.compilers.resolve import ResolvedToolchain, zig_caches
from orchestrator.compilers.zig_results import note_results
from orchestrator.errors import OrchestratorError
from orchestrator.plan.addon import AddonNeeds, entry_request, registration_request
from orchestrator.plan.development import COMPILER_RT
from orchestrator.plan.extension import respelled
from orchestrator.plan.graph import (
    cxx_library_compiles,
    native_compiles,
    projection_files,
    registration_compiles,
    runtime_library_compiles,
    unwritten,
)
from orchestrator.plan.variant import VariantSpec, compilation
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.android import packed_relocations
from orchestrator.select.closure import Registry
from orchestrator.system.process import Command
from orchestrator.values.action import ActionGraph, Compile, identified, unit_names
from orchestrator.values.fingerprint import text_digest
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import Selection

# The second for what the library has nothing of.
_NATIVE: Final = ("addon/register.cpp", "capi/selection_error.cpp")
_ONCE: Final = "addon/once.cpp"
_EXPORTS: Final = "addon/exports.map"


def addon_link_parts() -> dict[str, str]:
    """Parts of an add-on's identity: digests of our own code in its link, of what decides on that,
    which is this module, and of the version script that the link reads."""
    read = {"decided by": Path(__file__), "exports": NATIVE / _EXPORTS}
    texts = {name: text_digest(path.read_text("utf-8")) for name, path in read.items()}
    return {"steps": own_steps("addon"), **texts}


class AddonLinkError(OrchestratorError):
    """An add-on's objects could not be linked against the library: a bug in what was planned."""


@dataclass(frozen=True)
class Extended:
    """The library that an add-on is linked against.

    app        what its exported names are digests of
    has        the names that it exports for add-ons
    build_id   40 hex digits
    described  for people
    cxx_namespace  the inline namespace of its libc++
    """

    app: str
    path: Path
    has: frozenset[str]
    build_id: str
    described: str
    cxx_namespace: str = "__1"

    def exports(self, symbol: str) -> bool:
        """True if the library exports a symbol of the index, under its name for this system: for a
        thread-local variable either of its two names."""
        here = respelled(symbol, self.cxx_namespace)
        names = (here, EMULATED + here)
        return any(exported_name(self.app, name) in self.has for name in names)


@dataclass(frozen=True)
class AddonPart:
    """Operators that an add-on registers in objects of their own.

    needs       of it the entry points and kernels that these objects define, and the add-on's units
    registered  the operators whose entry points ask the dispatcher; the others' raise
    once        of `operators` those that another add-on may have registered, with the same kernels
    """

    operators: tuple[OperatorName, ...]
    needs: AddonNeeds
    registered: Collection[OperatorName]
    once: frozenset[OperatorName] = frozenset()


@dataclass(frozen=True)
class AddonObjects:
    """All that an add-on is linked of.

    generated  objects with registrations and entry points, in the order of the parts
    library    the C++ library, for what the extended one has nothing of
    texts      file (`$cache/...`) -> text, to be written first
    mine       objects whose definitions count, whatever the library has
    """

    generated: tuple[Compile, ...]
    units: tuple[Compile, ...]
    library: tuple[Compile, ...]
    texts: dict[str, str]
    mine: frozenset[str]

    @property
    def compiles(self) -> tuple[Compile, ...]:
        """The compilations of generated and PyTorch's units, each object once; those of the C++
        library are not among them."""
        return tuple({c.object: c for c in (*self.generated, *self.units)}.values())

    def with_compiles(self, how: Callable[[Compile], Compile]) -> AddonObjects:
        """The same objects with other compilations of generated and PyTorch's units."""
        made = {one.object: how(one) for one in self.compiles}
        return replace(
            self,
            generated=tuple(made[one.object] for one in self.generated),
            units=tuple(made[one.object] for one in self.units),
            mine=frozenset(made[name].object for name in self.mine),
        )

    @property
    def graph(self) -> ActionGraph:
        """All compilations, with those of the C++ library, and no link; sorted by object."""
        every = {c.object: c for c in (*self.compiles, *self.library)}
        return ActionGraph({key: every[key] for key in sorted(every)})


def addon_objects(
    prepared: Prepared,
    spec: VariantSpec,
    selection: Selection,
    kernels: Registry,
    parts: Sequence[AddonPart],
    own: frozenset[int],
) -> AddonObjects:
    """Plan the objects of an add-on, and generate their sources; `own`: units that it compiles even
    if the library has them. Raises TorchgenFailedError."""
    runtime, cache = prepared.runtime, prepared.context.texts
    facts, dialect = runtime.facts, runtime.dialect
    requests = [
        (
            registration_request(runtime.index, dialect, kernels, part.operators, part.needs),
            entry_request(part.needs, part.registered),
        )
        for part in parts
    ]
    made = generate_registrations(
        (one for pair in requests for one in pair),
        dialect,
        runtime.fetched.tree,
        cache,
        prepared.context.env,
        prepared.context.runner,
        cache=prepared.context.cache,
    )
    written: list[GeneratedUnit] = []
    entries: list[GeneratedUnit] = []
    for part, (registering, entering) in zip(parts, requests, strict=True):
        units = (unit for unit in made[registering] if unit.name != "operators")
        written += [as_fragment(unit, part, cache) for unit in units]
        entries += [unit for unit in made[entering] if unit.name == "operators"]
    symbols = frozenset(name for part in parts for name in part.needs.stubs)
    stubs = generate_stubs(symbols, cache)
    generated = registration_compiles(facts, spec, (*written, *entries, *stubs), cache)
    sources = (*_NATIVE, _ONCE) if any(part.once for part in parts) else _NATIVE
    native = native_compiles(facts, spec, sources, runtime.native)
    texts = {**unwritten([*written, *stubs], cache), **own_texts(runtime)}
    mine = {c.object for c in generated}
    compiles = []
    for number in sorted({unit for part in parts for unit in part.needs.units}):
        unit = runtime.index.units[number]
        text = projection_text(unit, selection) if facts.is_cxx(unit.path) else None
        digest = None if text is None else text_digest(text)
        one = compilation(facts, spec, unit)(digest)
        compiles.append(one)
        if text is not None and digest is not None:
            texts |= projection_files({digest: text})
        if number in own:
            mine.add(one.object)
    return AddonObjects(
        tuple(runtime.placed(_visible(c)) for c in (*native, *generated)),
        tuple(runtime.placed(_visible(c)) for c in compiles),
        _library(prepared, spec),
        texts,
        frozenset(
            runtime.placed(_visible(c)).object for c in (*generated, *compiles) if c.object in mine
        ),
    )


def _library(prepared: Prepared, spec: VariantSpec) -> tuple[Compile, ...]:
    """The C++ library, for what the extended one has nothing of; none where the compiler brings
    one (`_brought`)."""
    driver = prepared.toolchain(spec.abi).driver
    if driver.links_cxx_whole:
        return tuple(
            map(prepared.runtime.placed, cxx_library_compiles(spec, driver.cxx_sources, "-Oz"))
        )
    if not driver.cxx_sources:
        return ()
    sources = driver.cxx_sources
    # our own parts make what is delivered smaller
    own = RUNTIME_LIBRARY_SOURCES if spec.purpose == "release" else ()
    parts = runtime_library_compiles(spec, own, prepared.runtime.native)
    return tuple(
        map(prepared.runtime.placed, (*parts, *cxx_library_compiles(spec, sources, "-Os")))
    )


def compile_objects(
    here: Invocation, objects: AddonObjects, jobs: int | None, view: View
) -> tuple[str, ...]:
    """Compile the objects that are not in the cache; returns the names of their units, sorted.

    Raises ActionFailedError.
    """
    graph = objects.graph
    execution = execute_actions(
        here, graph, objects.texts, name="addon", jobs=jobs, keep_going=False, view=view
    )
    require_success(here, graph, execution)
    return unit_names(graph.compiles[output] for output in execution.compiled)


# A name in C++'s namespace `std`, or of a table of virtual functions or a type's name in it.
_OF_CXX: Final = re.compile(r"_Z(?:T[A-Z]|G[A-Z])?(?:N[KVRO]*)?St")


def lacks_of_cxx(here: Invocation, base: Extended, objects: AddonObjects) -> frozenset[str]:
    """The names of the C++ library that objects refer to, in functions that the link may drop too,
    and that neither they nor the base have. The objects are there."""
    defined, wanted = set[str](), set[str]()
    for c in (*objects.compiles, *objects.library):
        names = linked_names(Path(here.runtimes.fill(c.object)).read_bytes())
        defined |= names.defined
        wanted |= names.wanted
    left = filter(_OF_CXX.match, wanted - defined)
    return frozenset(name for name in left if not base.exports(name))


def link_addon(
    here: Invocation,
    abi: str,
    base: Extended,
    objects: AddonObjects,
    soname: str,
    folder: Path,
    *,
    as_tracer: bool = False,
) -> Path:
    """The add-on, unstripped, with its note; written into `folder`, a scratch folder.

    as_tracer: see `link_flags`
    Raises AddonLinkError.
    """
    every = (*objects.compiles, *objects.library)
    data = {c.object: Path(here.runtimes.fill(c.object)).read_bytes() for c in every}
    kept = frozenset(
        name
        for c in objects.compiles
        if c.object in objects.mine
        for name in defined_names(data[c.object])
        if not name.startswith("_ZTI")
    )

    def imported(symbol: str) -> str | None:
        if symbol in kept:
            return None
        name = exported_name(base.app, symbol)
        return name if name in base.has else None

    inputs, seen = [], set[str]()
    generated = {c.object for c in objects.generated}
    for number, c in enumerate(objects.compiles):
        path = folder / f"{number}.o"
        text = importing(data[c.object], imported)
        if c.object in generated:
            # two parts write the kernels of one group of operators
            defined = defined_names(text)
            text = importing(text, _those(defined & seen))
            seen |= defined
        path.write_bytes(text)
        inputs.append(str(path))
    toolchain = here.toolchains.of(abi)
    members = []
    library = (data[c.object] for c in objects.library)
    for number, text in enumerate((*library, *_brought(here, toolchain))):
        path = folder / f"library-{number}.o"
        path.write_bytes(importing(text, imported, hidden=True))
        members.append(str(path))
    archive, out = folder / "libc++.a", folder / soname
    linker = _Linker(here, toolchain, base, folder, linking_environment(here))
    linker.run([str(toolchain.ar), "rcsD", str(archive), *members])
    words = [str(toolchain.cxx), *link_flags(toolchain, soname, as_tracer=as_tracer)]
    # -Wl would split a path at its commas
    words += ["-Xlinker", f"--version-script={here.runtimes.fill(f'$native/{_EXPORTS}')}", *inputs]
    words += [str(base.path), str(archive), *_libraries(toolchain)]
    linker.run([*words, "-o", str(out)])
    for kept_by_zig in zig_caches(linker.env):
        note_results(kept_by_zig)
    out.write_bytes(finish(out.read_bytes(), base.build_id, base.described))
    return out


def _brought(here: Invocation, toolchain: ResolvedToolchain) -> Iterator[bytes]:
    """The objects of the C++ library that a compiler brings and would link."""
    driver = toolchain.driver
    if driver.exports_more != "by compiler" or not driver.links_cxx_library:
        return
    for name in CXX_ARCHIVES:
        words = [str(toolchain.cxx), f"-print-file-name={name}"]
        done = here.context.runner.run(Command(words, toolchain.tools.env))
        path = Path(done.out.strip())
        # an archive that is not there is told as its bare name; `libc++.a` may be a script
        if path.is_absolute() and path.read_bytes().startswith(ARCHIVE):
            members = archive_members(path.read_bytes(), path)
            yield from (content for _, content in members if content.startswith(b"\x7fELF"))


def _those(names: frozenset[str]) -> Callable[[str], str | None]:
    """Takes these symbols from elsewhere, by their own names."""
    return lambda symbol: symbol if symbol in names else None


def link_flags(toolchain: ResolvedToolchain, soname: str, *, as_tracer: bool) -> tuple[str, ...]:
    """Flags of an add-on's link for a linker with GNU ld's options, without inputs and output.

    The build id is 20 zero bytes: the real one is filled in from the stripped contents, so that
    equal add-ons are equal files. `-z defs` makes a symbol that nobody defines an error.

    as_tracer: with zig's compiler-rt (`COMPILER_RT`), as executables are linked; folding equal
    functions is by a link that leaves it out (`compilers/relink.py`).
    """
    return (
        "-shared",
        "-Wl,--gc-sections",
        f"-Wl,-soname,{soname}",
        "-Wl,--hash-style=gnu",
        "-Wl,--build-id=0x" + 40 * "0",
        "-Wl,-z,defs",
        *("-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"),
        f"-Wl,-u,{COMPILER_RT}" if as_tracer else "-Wl,--icf=safe",
        *_packed(toolchain),
    )


def _packed(toolchain: ResolvedToolchain) -> tuple[str, ...]:
    """Linker flags for packed relocations if the system's loader reads them. An add-on never
    applies relocations itself: its initialisers run only after the library has compared the build
    id."""
    android = toolchain.driver.android
    if android is None or not toolchain.capabilities.pack_relocations:
        return ()
    return packed_relocations(android.api)


def _libraries(toolchain: ResolvedToolchain) -> tuple[str, ...]:
    system = PLATFORMS[toolchain.config.system].link_libraries
    # one that lies beside the library is the compiler's to find
    held = ("-nostdlib++",) if toolchain.driver.links_cxx_library else ()
    return (*system, *toolchain.link_flags, *held, "-O2")


@dataclass(frozen=True)
class _Linker:
    """The programs of an add-on's link; `folder`: where they run."""

    here: Invocation
    toolchain: ResolvedToolchain
    base: Extended
    folder: Path
    env: Mapping[str, str]

    def run(self, words: Sequence[str]) -> None:
        """Raises AddonLinkError, and what finding a compiler raises where it is gone by now."""
        try:
            done = self.here.context.runner.run(Command(words, self.env, cwd=self.folder))
            code, seen, said = done.code, f"exit code {done.code}", done.err
        except FileNotFoundError as error:
            code, seen, said = None, f"no such file: {error.filename}", ""
        if code != 0:
            # which also writes the compiler's wrappers again
            self.here.toolchains.require([self.toolchain.abi])
            raise AddonLinkError(
                f"the add-on for {self.base.described} cannot be linked",
                seen=seen,
                hint="run the same command again" if code is None else None,
                details="\n".join(said.splitlines()[:12]) or None,
            )


_HIDING: Final = ("-fvisibility=hidden", "-fvisibility-inlines-hidden")


def _visible(one: Compile) -> Compile:
    """The compilation whose object reaches all that has a name as it would in another library: its
    definitions may be taken from the one that is extended.

    It keeps the precompiled header: clang compares neither option, and decides what is visible when
    it writes an object.
    """
    flags = tuple(flag for flag in one.flags if flag not in _HIDING)
    return identified(one, {"hidden": one, "flags": flags}, flags=flags)


# Where a registration begins. torchgen's templates write some of them whatever is selected.
_DEFINES = re.compile(r'^\s*m\.def\("(?:aten::)?([\w.]+)\(')
_IMPLEMENTS = re.compile(r'^\s*m\.impl\(.*"(?:aten::)?([\w.]+)"')
_INCLUDES = re.compile(r'^#include "(Register\w+\.cpp)"$')


def as_fragment(unit: GeneratedUnit, part: AddonPart, cache: Path) -> GeneratedUnit:
    """A unit of registrations that adds to the library's namespaces, which are there, with the
    part's operators alone."""
    folder = unit.path.parent
    operators = frozenset(part.operators)

    def lines(text: str) -> Iterator[str]:
        for line in text.splitlines():
            inner = _INCLUDES.match(line)
            named = _DEFINES.match(line) or _IMPLEMENTS.match(line)
            if inner:
                yield from lines((folder / inner[1]).read_text(encoding="utf-8"))
            elif named is None:
                yield line
            elif (operator := OperatorName(f"aten::{named[1]}")) in operators:
                yield f"{_condition(operator)} {line.lstrip()}" if operator in part.once else line

    text = "\n".join(
        (
            "// Registrations of an add-on: the library has the namespaces.",
            "#include <torch/library.h>",
            *((_REGISTERS,) if part.once else ()),
            "#undef TORCH_LIBRARY",
            "#define TORCH_LIBRARY TORCH_LIBRARY_FRAGMENT",
            *lines(unit.path.read_text(encoding="utf-8")),
            "",
        )
    )
    return unit_of(unit.name, text, cache / "addons")


# Of native/addon/once.h, which generated text does not find.
_REGISTERS: Final = "namespace lta { bool registers(const char* name, const char* overload); }"


def _condition(operator: OperatorName) -> str:
    return f'  if (lta::registers("{operator.qualified}", "{operator.overload}"))'
