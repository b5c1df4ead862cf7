"""The shipped index and the demo apps' traces, for tests that plan real variants."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from core_toy import spec

from orchestrator.build.workshop.native import own_native_files
from orchestrator.build.workshop.prepare import looked_up, own_headers_of, unity_rules
from orchestrator.index.entry import load_entry, loader_symbols
from orchestrator.index.model import RuntimeIndex, load_index
from orchestrator.plan.variant import RuntimeFacts, VariantSpec
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13.dialect import DIALECT as V1_13
from orchestrator.select.backends import cut_units, reachable_backends
from orchestrator.select.closure import Registry, registry
from orchestrator.trace.lock import parse_lock
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace

ROOT = Path(__file__).parents[2]
VERSION = V1_13.version


@cache
def shipped(dialect: Dialect = V1_13) -> RuntimeIndex:
    return load_index(dialect.index)


@cache
def shipped_kernels(backends: tuple[str, ...], dialect: Dialect = V1_13) -> Registry:
    return registry(shipped(dialect), backends, dialect.keys)


@cache
def shipped_facts(dialect: Dialect = V1_13) -> RuntimeFacts:
    version, units = dialect.facts, shipped(dialect).units
    return RuntimeFacts(
        dialect=dialect,
        identity="f" * 64,
        kernels=frozenset(unit.path for unit in units if "/native/cpu/" in unit.path),
        always=frozenset(unit.unit for unit in version.always if not unit.tracer_only),
        recording=frozenset(unit.unit for unit in version.always if unit.tracer_only),
        languages={unit.path: "c" for unit in units if unit.path.endswith(".c")},
        unlike=frozenset(version.without_pch),
        making=frozenset(version.making),
        included=own_headers_of(version, own_native_files(dialect.overlay)),
        pch="p" * 64,
        cuttable=frozenset(rule.unit for rule in version.cuts),
        unity=unity_rules(version),
        by_name=looked_up(version),
    )


def shipped_spec(roots: Iterable[str], dialect: Dialect = V1_13, **changes: object) -> VariantSpec:
    entry = load_entry(dialect).library | loader_symbols(shipped(dialect), dialect.symbols)
    cut = cut_units(dialect.facts, map(Op, roots))
    values: dict[str, object] = {"entry": entry, "cut": cut, "optimize": "balanced"}
    return spec(**(values | changes))


def kernels_for(roots: Iterable[str], dialect: Dialect = V1_13) -> Registry:
    backends = reachable_backends(("CPU", "QuantizedCPU"), map(Op, roots))
    return shipped_kernels(backends, dialect)


def app_traces(app: str) -> list[Trace]:
    """What the app's models ran in PyTorch 1.13.1: camera's own traces, and those that the other
    apps had before they moved to 2.6.0."""
    kept = ROOT / "tests/golden/traces/v1_13" / app
    files = sorted((kept if kept.exists() else ROOT / "apps" / app / "traces").glob("*.yaml"))
    return [parse_lock(file.read_text(), file.name) for file in files]


def locks_of(dialect: Dialect) -> list[Trace]:
    """Every committed trace of the demo apps that was made with a version."""
    folders = (ROOT / "apps", ROOT / "tests/golden/traces")
    files = sorted(
        file for folder in folders for file in folder.rglob("*.yaml") if "traces" in file.parts
    )
    locks = [parse_lock(file.read_text(), str(file)) for file in files]
    return [lock for lock in locks if lock.identity.runtime == shipped(dialect).tree]
