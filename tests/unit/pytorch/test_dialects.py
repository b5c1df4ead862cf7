"""A version's constants stand in its folder, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.pytorch.v1_13.dialect import DIALECT

PACKAGE = Path(__file__).parents[3] / "orchestrator"
# What a version's flags, folders, dispatch keys and generators are called.
_OF_A_VERSION = re.compile(
    r'third_party/miniz|-DC10_MOBILE|-DTRACING_BASED|"Composite\w+"|-m torchgen'
    r"|_load_for_mobileE|get_num_threadsEv|parseSchemaOrName"
)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda one: one.version)
def test_what_is_shipped_for_a_version(dialect: Dialect) -> None:
    assert dialect.facts.version == dialect.version
    assert dialect.folder.parent == PACKAGE / "pytorch"
    shipped = (dialect.index, dialect.entry, dialect.kernels, dialect.generated.worker)
    assert [path for path in shipped if not path.is_file()] == []


def test_a_versions_facts_count_before_the_shared_ones(tmp_path: Path) -> None:
    own = yaml.safe_load((DIALECT.folder / "facts.yaml").read_text())
    assert "disk_mb" not in own, "it is of all versions"
    (tmp_path / "facts.yaml").write_text(yaml.safe_dump(own | {"disk_mb": 7}))
    assert replace(DIALECT, folder=tmp_path).facts.disk_mb == 7
    assert DIALECT.facts.disk_mb == 400


def test_no_other_module_has_a_versions_flags_and_keys() -> None:
    found = [
        f"{file.relative_to(PACKAGE)}: {line.strip()}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if file.parent.parent != PACKAGE / "pytorch"
        for line in file.read_text().splitlines()
        if _OF_A_VERSION.search(line) and not line.lstrip().startswith(("#", "*", "`"))
    ]
    assert found == []
