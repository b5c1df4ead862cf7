"""Where each feature is proven: the table in docs/reliability.md is what the tests' code says.

A test runs on a runtime that it names (`EACH_RUNTIME`, `V1_13`), or on that of the example apps
that it builds; one that names none runs on the default. It runs for the ABIs that it names.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from orchestrator.load.workspace import load_workspace

ROOT = Path(__file__).parents[3]
HOST = "linux-x86_64"
_NAMED: Final = {"EACH_RUNTIME": ("1.13.1", "2.6.0"), "V1_13": ("1.13.1",), "V2_6": ("2.6.0",)}
_ROW = re.compile(r"^\| [^|]+ \| \[`(tests/[\w/.]+)`\][^|]* \|(.*)\|$", re.MULTILINE)


@dataclass(frozen=True)
class Proof:
    """Where a test module runs. when: in `check`, in `--all`, or partly in each."""

    runtimes: tuple[str, ...]
    abis: tuple[str, ...]
    when: str

    @property
    def cells(self) -> str:
        """The last three columns of the module's row."""
        return f" {', '.join(self.runtimes)} | {', '.join(self.abis)} | {self.when} "


@cache
def _runtimes_of_apps() -> dict[str, str]:
    workspace = load_workspace(ROOT, {})
    config = workspace.config
    return {
        name: config.pins[app.config.runtime or config.default_runtime].pytorch
        for name, app in workspace.apps.items()
    }


def proof(source: str, campaign: bool = False) -> Proof:
    """Where a test module with this source runs."""
    tree = ast.parse(source)
    nodes = [*ast.walk(tree)]
    strings = (node.value for node in nodes if isinstance(node, ast.Constant))
    words = {word for one in strings if isinstance(one, str) for word in re.split(r"[^\w-]+", one)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    runtimes = {version for name in names & _NAMED.keys() for version in _NAMED[name]}
    runtimes |= {version for app, version in _runtimes_of_apps().items() if app in words}
    abis = words & {file.stem for file in (ROOT / "toolchains").glob("*.yaml")}
    marked = [
        node for node in tree.body if isinstance(node, ast.Assign) and "ci_only" in ast.dump(node)
    ]
    whole = any(isinstance(t, ast.Name) and t.id == "pytestmark" for m in marked for t in m.targets)
    partly = "EACH_RUNTIME" in names or any(
        isinstance(node, ast.Attribute) and node.attr == "ci_only" for node in nodes
    )
    when = "`--all`" if whole or campaign else "`check`, more in `--all`" if partly else "`check`"
    return Proof(tuple(sorted(runtimes or {"2.6.0"})), tuple(sorted(abis or {HOST})), when)


def rows() -> dict[str, str]:
    """The modules in the table -> the last three columns of their rows."""
    text = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
    return dict(_ROW.findall(text))


@pytest.mark.parametrize("module", sorted(rows()))
def test_the_table_says_where_a_feature_is_proven(module: str) -> None:
    source = (ROOT / module).read_text(encoding="utf-8")
    assert rows()[module] == proof(source, "/campaigns/" in module).cells


def test_nothing_is_proven_on_the_older_runtime_alone() -> None:
    assert [module for module, cells in rows().items() if cells.startswith(" 1.13.1 |")] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("@mark.parametrize('runtime', EACH_RUNTIME)\ndef f(): ...", "1.13.1, 2.6.0"),
        ("build('//apps/camera:linux-arm64')", "1.13.1"),
        ("build('//apps/scanner')", "2.6.0"),
        ("workspace_copy(tmp_path)", "2.6.0"),
    ],
)
def test_the_rule_itself(source: str, expected: str) -> None:
    assert ", ".join(proof(source).runtimes) == expected
