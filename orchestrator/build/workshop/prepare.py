"""Turns a declared workspace into runtimes that plans can use: fetched, generated, indexed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from orchestrator.build.workshop.fetch import fetch_runtime
from orchestrator.build.workshop.native import NATIVE, own_header, own_native_files
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.compilers.zig import zig_library
from orchestrator.context import Context
from orchestrator.libraries.features import headers_of_units, own_units
from orchestrator.load.declared import Workspace
from orchestrator.plan.native_files import NativeFiles
from orchestrator.plan.unity import UnityRules
from orchestrator.plan.variant import OWN, OwnFlags, OwnHeader, RuntimeFacts
from orchestrator.pytorch.configure import configured_identity, write_configured_headers
from orchestrator.pytorch.dialects import dialect_of
from orchestrator.pytorch.generated import generate_sources, generated_identity
from orchestrator.pytorch.units import runtime_units
from orchestrator.pytorch.versions import VersionData
from orchestrator.source.tree import TreeRules
from orchestrator.values.config.workspace import RuntimePin, ThirdPartyPin
from orchestrator.values.fingerprint import fingerprint
from orchestrator.values.operators import OperatorName

Progress = Callable[[str], None]


def prepare_runtime(
    workspace: Workspace, name: str, context: Context, progress: Progress
) -> Runtime:
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
    configured = context.cache / "configured" / configured_identity(fetched.digest, version)[:16]
    write_configured_headers(fetched.tree, version, configured)
    folders = {
        "cache": str(context.texts),
        "state": str(context.state),
        "tree": str(fetched.tree),
        "generated": str(generated),
        "configured": str(configured),
        "native": str(NATIVE),
    }
    if dialect.overlay is not None:
        folders["overlay"] = str(dialect.overlay)
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
    native = own_native_files(dialect.overlay)
    parts = {
        "tree": fetched.digest,
        "generated": generated_identity(dialect.generated, fetched.digest),
        "configured": configured_identity(fetched.digest, version),
        "third_party": {n: pin.third_party[n].tree for n in sorted(pin.third_party)},
        # What one unit alone reads (`include` in the version's data) is in that unit's identity.
        "native": native.found_by([f"-I{folder}" for folder in dialect.flags.include]),
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
        included=own_headers_of(version, native),
        traced={one.unit: own_header(native, one.tracer) for one in version.include if one.tracer},
        flagged=own_flags_of(version, [u.path for u in units], native),
        threading=own_header(native, "threads/at_parallel.h"),
        threads=own_header(native, "threads/parallel_unit.h"),
        pch=native.digest_of("pch/aten.h"),
        cuttable=frozenset(rule.unit for rule in version.cuts),
        unity=unity_rules(version),
        by_name=looked_up(version),
        own={OWN + one.source: native.digest_of(one.source) for one in own_units(dialect)},
    )
    return Runtime(
        name=name,
        pin=pin,
        dialect=dialect,
        fetched=fetched,
        generated=generated,
        configured=configured,
        folders={renamed.get(one, one): folder for one, folder in folders.items()},
        renamed=renamed,
        facts=facts,
        native=native,
        parts=parts,
        backends=workspace.config.defaults.backends,
    )


def precompiled_folder(state: Path, folders: Mapping[str, str]) -> str:
    """Path of a workspace's precompiled headers. They contain the paths of their sources, zig's
    headers among them; none of these is the workspace's own."""
    read = {one: folders[one] for one in sorted(folders) if one != "state"}
    return str(state / "pch" / fingerprint(read)[:12])


def own_variables(name: str, pin: RuntimePin, default: RuntimePin) -> dict[str, str]:
    """Folders of a runtime that are not the default runtime's: variable -> its own variable.

    Folders that two runtimes have in common have one variable, so that their equal actions are one
    action.
    """
    other = list[str]()
    if (pin.pytorch, pin.tree) != (default.pytorch, default.tree):
        other += ["tree", "generated", "configured"]
    if pin.pytorch != default.pytorch:
        other.append("overlay")
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


def own_headers_of(version: VersionData, native: NativeFiles) -> dict[str, OwnHeader]:
    """unit -> header of ours that the version's data gives it, or a kernel of ours."""
    found = {
        rule.unit: own_header(
            native, rule.header, bool(rule.unless), behind=rule.behind, first=rule.first
        )
        for rule in version.include
    }
    kernels = headers_of_units().items()
    return found | {
        unit: own_header(native, header, by_choice=True, behind=True) for unit, header in kernels
    }


def own_flags_of(
    version: VersionData, units: Iterable[str], native: NativeFiles
) -> dict[str, OwnFlags]:
    """unit -> flags that the version's data gives it; a unit takes the first rule that has it."""
    found: dict[str, OwnFlags] = {}
    paths = sorted(units)
    for rule in version.flags:
        own = OwnFlags(rule.flags, fingerprint(native.found_by(rule.flags)), rule.precompiled)
        globs = TreeRules(rule.units)
        for path in paths:
            if globs.counts(path):
                found.setdefault(path, own)
    return found


def unity_rules(version: VersionData) -> UnityRules:
    """The version's rules for unity shards."""
    data = version.unity
    return UnityRules(
        usual=frozenset(map(OperatorName, data.usual)),
        cost=data.cost,
        undefine=tuple(data.undefine),
        alone=frozenset(one.unit for one in data.alone),
    )
