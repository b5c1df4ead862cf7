"""The contents behind the digests in actions' parts: compiler, PyTorch, headers, selection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from orchestrator.build.planning.plan import Variant
from orchestrator.build.planning.variants import identity_with_headers
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.native import own_native_files
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.codegen.projection import Projection, projection
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.compilers.wrappers import wrapper_digest
from orchestrator.execute.action_log import Value
from orchestrator.libraries.features import own_units
from orchestrator.pytorch.dialect import DispatchKeys
from orchestrator.values.fingerprint import fingerprint, text_digest

# A digest among parts -> what it is made of, by name.
Details = Mapping[str, Mapping[str, Value]]


def shared_details(here: Invocation, abis: Iterable[str]) -> Details:
    """Contents behind the digests in actions' parts, but for those of a single variant."""
    toolchains = [here.toolchains.of(abi) for abi in sorted(abis)]
    found: dict[str, Mapping[str, Value]] = {
        identity_with_headers(one, own_native_files()): _toolchain(one) for one in toolchains
    }
    for runtime in here.runtimes.prepared:
        found |= _runtime_details(runtime)
    return found


def _runtime_details(runtime: Runtime) -> dict[str, Mapping[str, Value]]:
    """The same of one runtime, and of the library that is pinned with it."""
    library = runtime.library
    configured = {"configure": runtime.version.configure.values}
    found: dict[str, Mapping[str, Value]] = {
        runtime.facts.identity: _readable({**runtime.parts, **configured}),
        **{
            runtime.native.digest_of(source): runtime.native.read_by(source)
            for source in runtime.native.texts
        },
    }
    if library is not None:
        found[library.facts.digest] = {**library.pinned, **_read(runtime, library.data.headers)}
    return {**found, **dict(_headers(runtime))}


def own_details(variant: Variant, known: DispatchKeys) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """The same of a variant: what its units are told of its selection, what is generated.

    known  the dispatch keys of its runtime
    """
    for digest, unit in variant.objects.plan.bearing.items():
        found = projection(unit, variant.selection)
        if found is not None:
            yield digest, _projected(found)
    for action in variant.objects.registrations:
        source = action.identity.parts.get("unit")
        if isinstance(source, str):
            yield source, _generated(action.unit, variant.objects.plan.request, known)


def _toolchain(toolchain: ResolvedToolchain) -> dict[str, Value]:
    driver = toolchain.driver
    own = _readable(driver.identity)
    return {
        "version": driver.version,
        **{name.replace("verbs ", "arguments of "): value for name, value in own.items()},
        "wrapper": wrapper_digest(),
        **own_native_files().found_by(toolchain.compile_flags),
    }


def _headers(runtime: Runtime) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """Headers of ours that single units read, with those that they include."""
    facts, version = runtime.facts, runtime.version
    included = (*facts.included.values(), *facts.traced.values())
    for header in (*included, facts.threading, facts.threads):
        if header is not None:
            yield header.digest, _read(runtime, [header.name])
    for rule in version.flags:
        files = runtime.native.found_by(rule.flags)
        yield fingerprint(files), files
    for own in own_units(runtime.dialect):
        yield runtime.native.digest_of(own.source), _read(runtime, [own.source])


def _read(runtime: Runtime, names: Iterable[str]) -> dict[str, Value]:
    """Digests of files of ours, and of what they may include."""
    return {name: one for first in names for name, one in runtime.native.read_by(first).items()}


def _readable(parts: Mapping[str, object]) -> dict[str, Value]:
    """Parts of an identity as texts and lists of texts; of a longer text its digest."""
    found = dict[str, Value]()
    for name, value in parts.items():
        if isinstance(value, Mapping):
            found |= {f"{name} {key}": one for key, one in _readable(value).items()}
        elif isinstance(value, str):
            found[name] = text_digest(value) if "\n" in value else value
        elif isinstance(value, list | tuple):
            found[name] = tuple(_texts_in(value))
        else:
            found[name] = str(value)
    return found


def _texts_in(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _texts_in(value)
        else:
            yield str(value)


def _projected(found: Projection) -> dict[str, Value]:
    tags = [f"{tag.name} {dtype}" for tag in found.tags for dtype in tag.dtypes]
    lists = {
        "operators": found.operators,
        "classes": found.classes,
        "build features": found.features,
    }
    return {
        "kernel dtypes": ("all",) if found.everything else tuple(tags),
        **{name: names for name, names in lists.items() if names is not None},
    }


def _generated(unit: str, request: RegistrationRequest, known: DispatchKeys) -> dict[str, Value]:
    """Operators that torchgen was asked to write into a unit, by kind."""
    name = unit.removeprefix("generated/").removesuffix(".cpp")
    resolved = tuple(f"{operator} {key}" for operator, key in request.resolved)
    if name == "operators":
        return {"entry points": request.calls}
    if name.partition("-")[0] != "registrations":
        return {}
    own = name.partition("-")[2]
    keys = (own,) if own else request.shared_keys(known)
    kernels = {f"{k} kernels": of for k, of in request.kernels if k in keys}
    direct = {f"{k} kernels called directly": of for k, of in request.direct if k in keys}
    schemas: dict[str, Value] = (
        {} if own else {"operators": request.operators, "resolved operators": resolved}
    )
    return {**schemas, **kernels, **direct}
