"""The shipped index agrees with a sample of units that is compiled here.

Where this fails, flags or headers of ours have changed what PyTorch's units are compiled to: the
maintainer runs `orchestrator runtime index`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from core_toy import ROOT
from real_units import RealUnits

from orchestrator.compilers.resolve import compiler_environment
from orchestrator.index.attribution import build_index
from orchestrator.index.mentions import mentions_of
from orchestrator.index.model import RuntimeIndex, UnitFacts
from orchestrator.index.objects import read_object
from orchestrator.load.workspace import load_workspace
from orchestrator.plan.variant import index_unit

pytestmark = pytest.mark.real

# Cheap ones, one of each kind: c10, a serialiser, ATen, a kernel with tags.
SAMPLE = (
    "c10/core/DeviceType.cpp",
    "caffe2/serialize/crc.cc",
    "aten/src/ATen/native/TypeProperties.cpp",
    "aten/src/ATen/native/cpu/FillKernel.cpp",
)
# Their texts, against what the index says of tags, classes and operators.
PREPROCESSED = (
    "aten/src/ATen/native/cpu/FillKernel.cpp",
    "aten/src/ATen/native/quantized/cpu/fbgemm_utils.cpp",
    "torch/csrc/jit/runtime/register_prim_ops.cpp",
)


@pytest.fixture(scope="module", params=sorted(load_workspace(ROOT, os.environ).config.pins))
def real(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> RealUnits:
    return RealUnits(tmp_path_factory.mktemp("state"), request.param)


@pytest.fixture(scope="module")
def objects(real: RealUnits) -> dict[str, Path]:
    return real.units(SAMPLE)


@pytest.fixture(scope="module")
def fresh(real: RealUnits, objects: dict[str, Path]) -> RuntimeIndex:
    runtime = real.runtime
    tags = {unit.path: unit.tags for unit in runtime.index.units}
    units = [UnitFacts(path, 0.0, tags=tags[path]) for path in SAMPLE]
    dialect = runtime.dialect
    return build_index(dialect.version, runtime.fetched.digest, units, objects, dialect.symbols)


def nodes_of(index: RuntimeIndex, path: str) -> dict[str, int]:
    """The named nodes that a unit owns, with their sizes."""
    return {
        name: index.sizes[node]
        for node, name in enumerate(index.names)
        if name.endswith(f"@{path}") and not name.startswith(("#", "."))
    }


def targets(index: RuntimeIndex, name: str) -> set[str]:
    return {index.names[node] for node in index.targets(index.by_name[name])}


def plain(name: str) -> str:
    return name.split("@", 1)[0]


@pytest.mark.parametrize("path", SAMPLE)
def test_sections_and_sizes(path: str, real: RealUnits, fresh: RuntimeIndex) -> None:
    assert nodes_of(real.runtime.index, path) == nodes_of(fresh, path)


@pytest.mark.parametrize("path", SAMPLE)
def test_edges(path: str, real: RealUnits, fresh: RuntimeIndex) -> None:
    shipped = real.runtime.index
    for name in nodes_of(fresh, path):
        # a sample knows nothing of other units: their symbols are looked at below
        inside = {t for t in targets(shipped, name) if t in fresh.by_name}
        assert targets(fresh, name) == inside, name


def test_tags_of_functions(real: RealUnits, fresh: RuntimeIndex) -> None:
    shipped = real.runtime.index
    found = {fresh.names[node]: tags for node, tags in fresh.kernel_tags.items()}
    assert set(found.values()) == {("fill_cpu",)}
    assert found == {name: shipped.kernel_tags[shipped.by_name[name]] for name in found}


@pytest.mark.parametrize("path", SAMPLE)
def test_what_a_unit_needs_of_others(
    path: str, real: RealUnits, objects: dict[str, Path], fresh: RuntimeIndex
) -> None:
    shipped = real.runtime.index
    known = {plain(name) for name in shipped.names}
    facts = read_object(objects[path])
    own = {*facts.global_symbols, *facts.weak_symbols}
    needed = {
        r.symbol
        for section in facts.sections.values()
        if not section.comdat and not section.name.startswith(".eh_frame")
        for r in section.references
        if not r.section
    }
    number = [unit.path for unit in shipped.units].index(path)
    said = {
        plain(shipped.names[target])
        for node, owner in enumerate(shipped.owners)
        if owner == number
        for target in shipped.targets(node)
    }
    locals_ = {plain(name) for name in nodes_of(fresh, path)}
    unnamed = {name for name in said if name.startswith(("#", "."))}
    assert needed & known == said - own - locals_ - unnamed


@pytest.mark.parametrize("path", PREPROCESSED)
def test_mentions(path: str, real: RealUnits) -> None:
    here, runtime = real.here, real.runtime
    unit = next(one for one in runtime.index.units if one.path == path)
    action = index_unit(runtime.facts, real.spec("release"), unit)
    done = subprocess.run(
        [
            str(here.toolchains.of(action.abi).cxx),
            *map(runtime.fill, action.flags),
            *("-E", "-P", runtime.fill(action.source)),
        ],
        env=compiler_environment(here.context.cache, here.context.env),
        capture_output=True,
        check=True,
    )
    found = mentions_of(done.stdout.decode())
    assert (found.tags, found.open_tags) == (unit.tags, unit.open_tags)
    assert (found.operators, found.features) == (unit.operators, unit.features)
    assert (found.classes, found.open_classes) == (unit.classes, unit.open_classes)
