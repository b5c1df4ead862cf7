"""Turns a declared workspace into runtimes that plans can use: fetched, generated, indexed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.build.fetch import FetchedRuntime, fetch_runtime
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.compilers.zig import zig_library
from orchestrator.context import Context
from orchestrator.index.entry import load_entry, loader_symbols, recording_symbols
from orchestrator.index.layers import LayerUnit, layered
from orchestrator.index.model import (
    IndexUnreadableError,
    RuntimeIndex,
    load_index,
    with_own_units,
)
from orchestrator.libraries.features import headers_of_units, own_units
from orchestrator.load.declared import Workspace
from orchestrator.plan.native_files import NativeFiles, native_files
from orchestrator.plan.unity import UnityRules
from orchestrator.plan.variant import OWN, OwnFlags, OwnHeader, RuntimeFacts
from orchestrator.pytorch.configure import write_configured_headers
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import dialect_of
from orchestrator.pytorch.generated import generate_sources, generated_identity
from orchestrator.pytorch.units import runtime_units
from orchestrator.pytorch.versions import VersionData
from orchestrator.source.tree import TreeRules
from orchestrator.values.config import DEFAULT_RUNTIME, RuntimePin, ThirdPartyPin
from orchestrator.values.fingerprint import fingerprint, text_digest

NATIVE = Path(__file__).parent.parent / "native"
# Headers of ours that any of PyTorch's own units may read. What a single unit reads first
# (`include` in the version's data) is in that unit's fingerprint.
_READ_BY_UNITS = (
    "capi/selection_error.h",
    "selection/ATen/selected_mobile_ops.h",
    "selection/c10/util/Exception.h",
    "stubs/cpuinfo.h",
)
_QUOTED = re.compile(r'^#include "(.+)"', re.MULTILINE)
Progress = Callable[[str], None]


@dataclass(frozen=True)
class PreparedRuntime:
    """A runtime on this machine, ready to plan and compile with.

    name      as WORKSPACE has it
    pin       what it pins by that name
    folders   ninja variable -> absolute folder
    renamed   variables of all runtimes' actions -> its own, where its folders are not the default's
    facts     what the planner needs besides the index
    native    our own C and C++ files
    parts     what `facts.identity` is the digest of
    base, own_units  of an app with sources of its own: the runtime without, and the units that they
                     add to its index
    """

    name: str
    pin: RuntimePin
    dialect: Dialect
    fetched: FetchedRuntime
    generated: Path
    configured: Path
    folders: dict[str, str]
    renamed: Mapping[str, str]
    facts: RuntimeFacts
    native: NativeFiles
    parts: Mapping[str, object]
    base: PreparedRuntime | None = None
    own_units: tuple[LayerUnit, ...] = ()

    @property
    def version(self) -> VersionData:
        """The facts about its version."""
        return self.dialect.facts

    @cached_property
    def index(self) -> RuntimeIndex:
        """The shipped index, with units of ours that register operators.

        Raises IndexUnreadableError where it is not of this source tree.
        """
        if self.base is not None:
            return layered(self.base.index, self.own_units)
        return whole_index(self.dialect, self.fetched.digest, self.name)

    def forget_index(self) -> None:
        """Free the index's memory, some 40 MB. `index` reads it again, which takes 0.2 s."""
        self.__dict__.pop("index", None)

    @cached_property
    def entry(self) -> frozenset[str]:
        """The symbols that every variant's own native code references, and roots that nothing
        references."""
        if self.base is not None:
            return self.base.entry
        loaders = loader_symbols(self.index, self.dialect.symbols)
        return load_entry(self.dialect).library | loaders

    @cached_property
    def tracer_entry(self) -> frozenset[str]:
        """More of them, of a tracer."""
        if self.base is not None:
            return self.base.tracer_entry
        recording = recording_symbols(self.index, self.dialect.symbols)
        return load_entry(self.dialect).tracer | recording


@dataclass(frozen=True)
class Prepared:
    """What planning reads of this machine: found, and tried, before it begins.

    toolchains  ABI -> its toolchain, whose capabilities are known
    """

    toolchains: Mapping[str, ResolvedToolchain]

    def toolchain(self, abi: str) -> ResolvedToolchain:
        """The toolchain of an ABI that was prepared."""
        return self.toolchains[abi]


def shipped_index(dialect: Dialect, tree: str, runtime: str = DEFAULT_RUNTIME) -> RuntimeIndex:
    """The index of a version, for a pinned runtime of that name.

    Raises IndexUnreadableError where it is missing, damaged or of another source tree.
    """
    option = "" if runtime == DEFAULT_RUNTIME else f" --runtime {runtime}"
    make = f"run: ./orchestrate runtime index{option}"
    try:
        index = load_index(dialect.index)
    except IndexUnreadableError as error:
        error.hint = make
        raise
    if index.tree != tree:
        raise IndexUnreadableError(
            f"the runtime index of PyTorch {dialect.version} was made from another source tree",
            expected=tree,
            seen=index.tree,
            hint=make,
        )
    return index


def whole_index(dialect: Dialect, tree: str, runtime: str = DEFAULT_RUNTIME) -> RuntimeIndex:
    """The shipped index, with units of ours that register operators; see `shipped_index`."""
    return with_ours(shipped_index(dialect, tree, runtime), dialect)


def with_ours(index: RuntimeIndex, dialect: Dialect) -> RuntimeIndex:
    """The index of a version, extended by our own units that register operators, as if they were
    PyTorch's. The shipped index does not have them."""
    return with_own_units(
        index,
        ((OWN + one.source, one.operators, one.symbols) for one in own_units(dialect)),
    )


def prepare_runtime(
    workspace: Workspace, name: str, context: Context, progress: Progress
) -> PreparedRuntime:
    """Fetch, generate and configure what the workspace pins by a name; quick when all is there."""
    pin = workspace.config.pins[name]
    dialect = dialect_of(pin.pytorch)
    version = dialect.facts
    fetched = fetch_runtime(pin, context, progress)
    generated = generate_sources(
        dialect.generated,
        fetched.tree,
        fetched.digest,
        context.cache,
        context.env,
        progress,
        context.runner,
    )
    configured = generated.parent / f"{generated.name}-configured"
    write_configured_headers(fetched.tree, version, configured)
    folders = {
        "cache": str(context.cache),
        "state": str(context.state),
        "tree": str(fetched.tree),
        "generated": str(generated),
        "configured": str(configured),
        "native": str(NATIVE),
    }
    for one, include in fetched.third_party.items():
        folders[f"third_party_{one}"] = str(include)
    library = zig_library()
    if library is not None:
        folders["zig"] = str(library)
    folders["pch"] = precompiled_folder(context.state, folders)
    for one, tree in fetched.libraries.items():
        folders[f"library_{one}"] = str(tree)
    renamed = own_variables(name, pin, workspace.config.pins[workspace.config.default_runtime])
    units = runtime_units(fetched.tree, version)
    parts = {
        "tree": fetched.digest,
        "generated": generated_identity(fetched.digest),
        "configure": sorted(version.configure.values.items()),
        "third_party": {n: pin.third_party[n].tree for n in sorted(pin.third_party)},
        "native": {
            name: (NATIVE / name).read_text() for name in (*_READ_BY_UNITS, *dialect.flags.before)
        },
    }
    facts = RuntimeFacts(
        dialect=dialect,
        identity=fingerprint(parts),
        kernels=frozenset(u.path for u in units if u.optimisation == "kernel"),
        always=frozenset(unit.unit for unit in version.always if not unit.tracer_only),
        recording=frozenset(unit.unit for unit in version.always if unit.tracer_only),
        languages={u.path: u.language for u in units},
        unlike=frozenset(version.without_pch),
        making=frozenset(version.making),
        included=own_headers_of(version),
        traced={one.unit: own_header(one.tracer) for one in version.include if one.tracer},
        flagged=own_flags_of(version, [u.path for u in units]),
        threading=own_header("threads/at_parallel.h"),
        threads=own_header("threads/parallel_unit.h"),
        pch=text_digest((NATIVE / "pch/aten.h").read_text()),
        cuttable=frozenset(rule.unit for rule in version.cuts),
        unity=unity_rules(version),
        by_name=looked_up(version),
        own={
            OWN + one.source: text_digest("".join(header_texts(NATIVE / one.source)))
            for one in own_units(dialect)
        },
    )
    return PreparedRuntime(
        name=name,
        pin=pin,
        dialect=dialect,
        fetched=fetched,
        generated=generated,
        configured=configured,
        folders={renamed.get(one, one): folder for one, folder in folders.items()},
        renamed=renamed,
        facts=facts,
        native=own_native_files(),
        parts=parts,
    )


def precompiled_folder(state: Path, folders: Mapping[str, str]) -> str:
    """Where a workspace has its precompiled headers. They hold the paths of what they were made
    from, zig's headers among them; none of them is a workspace's own."""
    read = {one: folders[one] for one in sorted(folders) if one != "state"}
    return str(state / "pch" / fingerprint(read)[:12])


def own_variables(name: str, pin: RuntimePin, default: RuntimePin) -> dict[str, str]:
    """Which folders of a runtime are not the default runtime's: variable -> its own variable.

    What two runtimes have alike has one variable, so that their equal actions are one action.
    """
    other = list[str]()
    if (pin.pytorch, pin.tree) != (default.pytorch, default.tree):
        other += ["tree", "generated", "configured"]
    other += [
        f"third_party_{one}"
        for one, its in pin.third_party.items()
        if one not in default.third_party or _place(its) != _place(default.third_party[one])
    ]
    other += [
        f"library_{one}"
        for one, its in pin.libraries.items()
        if one not in default.libraries or its.tree != default.libraries[one].tree
    ]
    if other:  # a precompiled header is of all that it has read
        other.append("pch")
    return {one: f"{one}_{name}" for one in other}


def _place(pin: ThirdPartyPin) -> tuple[str, str]:
    return pin.tree, pin.include


def looked_up(version: VersionData) -> dict[str, frozenset[str]]:
    """Unit -> the operators (`aten::add.Tensor`) that its code looks up by name at run time.
    Relocations do not show such calls, so the version's data lists them (`by_name`)."""
    return {rule.unit: frozenset(rule.operators) for rule in version.by_name}


def own_headers_of(version: VersionData) -> dict[str, OwnHeader]:
    """unit -> header of ours that the version's data gives it, or a kernel of ours."""
    found = {
        rule.unit: own_header(rule.header, bool(rule.unless), behind=rule.behind, first=rule.first)
        for rule in version.include
    }
    kernels = headers_of_units().items()
    return found | {
        unit: own_header(header, by_choice=True, behind=True) for unit, header in kernels
    }


def own_header(
    path: str, by_choice: bool = False, *, behind: bool = False, first: bool = False
) -> OwnHeader:
    """A header of ours, by its path under native/; the digest covers what it includes in quotes as
    well.

    by_choice  only variants whose specification asks for it are compiled with it
    behind     the unit reads it after its projection
    first      the unit reads it before every other header
    """
    digest = text_digest("".join(header_texts(NATIVE / path)))
    return OwnHeader(path, digest, by_choice, behind, first)


def own_flags_of(version: VersionData, units: Iterable[str]) -> dict[str, OwnFlags]:
    """unit -> flags that the version's data gives it; a unit takes the first rule that has it."""
    found: dict[str, OwnFlags] = {}
    paths = sorted(units)
    for rule in version.flags:
        texts = [text for name in rule.headers for text in header_texts(NATIVE / name)]
        own = OwnFlags(rule.flags, text_digest("".join(texts)), rule.precompiled)
        globs = TreeRules(rule.units)
        for path in paths:
            if globs.counts(path):
                found.setdefault(path, own)
    return found


def header_texts(header: Path) -> tuple[str, ...]:
    """The texts of a header of ours and of all that it includes in quotes, which are ours too."""
    return tuple(headers_read(header).values())


def headers_read(header: Path) -> dict[Path, str]:
    """Path -> text of a header of ours and of all that it includes in quotes, each once.

    Angle brackets are PyTorch's and the system's headers, which have identities of their own.
    """
    texts: dict[Path, str] = {}
    wanted = [header]
    while wanted:
        path = wanted.pop()
        if path not in texts:
            texts[path] = path.read_text()
            wanted += [path.parent / name for name in _QUOTED.findall(texts[path])]
    return texts


def unity_rules(version: VersionData) -> UnityRules:
    """The version's rules for unity shards."""
    data = version.unity
    return UnityRules(
        usual=frozenset(data.usual),
        cost=data.cost,
        undefine=tuple(data.undefine),
        alone=frozenset(one.unit for one in data.alone),
    )


def own_native_files() -> NativeFiles:
    """Our own sources and headers in C and C++ (`.h`, `.cpp`, `.c`) under native/."""
    paths = (p for p in NATIVE.rglob("*") if p.suffix in {".h", ".cpp", ".c"})
    return native_files({p.relative_to(NATIVE).as_posix(): p.read_bytes() for p in paths})
