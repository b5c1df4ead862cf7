"""The state of an app: what variants of all ABIs have in common, for packages and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import package_toy as toy
import pytest
import yaml
from toy_workspace import toy_invocation, toy_runtime

from orchestrator.build.delivering.compare import comparable
from orchestrator.build.delivering.package import mark_proven, mark_unproven
from orchestrator.build.planning.app_state import NOT_OF_CONFIG, NOT_OF_REQUEST, common_fingerprint
from orchestrator.build.planning.variants import VariantRequest
from orchestrator.deliver.variant import deliver
from orchestrator.load.declared import App
from orchestrator.select.closure import Registry
from orchestrator.values.config.app import AppConfig
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName
from orchestrator.values.own_sources import OwnSources
from orchestrator.values.selection import Selection

CONFIG: Mapping[str, Any] = MappingProxyType(
    {"models": [{"file": "models/m.ptl"}], "targets": ["linux-arm64"]}
)
# Another value of each key of app.yaml.
OTHER: Mapping[str, Any] = MappingProxyType(
    {
        "models": [{"file": "models/m.ptl", "name": "other"}],
        "targets": ["linux-arm64", "linux-x86_64"],
        "runtime": "pytorch_1_13",
        "optimize": "size",
        "self_relocation": False,
        "extensible": True,
        "dispatch": "table",
        "sources": {"files": ["own.cpp"]},
        "canonical": "static",
        "selection": "static",
        "extra": {"aten::sort": "it is needed"},
        "forbid": {"aten::sort": "it is not needed"},
        "kernels": "native",
        "cpu": {"arm64": ["dotprod"]},
        "threads": 2,
        "budgets": {"linux-arm64": "1MB"},
        "memory": "3MB",
        "packages": ["tar"],
        "deliver_models": True,
        "version": "3.0.0",
        "package_name": "other",
        "maven_group": "org.other",
        "java_api": "org.pytorch",
        "cxx_api": "LibTorch-Lite",
    }
)
# And of each field of a request.
OTHER_REQUEST: Mapping[str, Any] = MappingProxyType(
    {
        "label": "//apps/toy:linux-x86_64",
        "abi": "linux-x86_64",
        "selection": Selection(operators={OperatorName("aten::sort"): frozenset({"m"})}),
        "kernels": Registry({OperatorName("aten::sort"): ()}),
        "purpose": "tracer",
        "optimize": "size",
        "hot": frozenset({"a.cpp"}),
        "lean": frozenset({"a.cpp"}),
        "cut": frozenset({"a.cpp"}),
        "app": "other",
        "self_relocation": False,
        "features": frozenset({"linear"}),
        "cpu": ("dotprod",),
        "multiply_adds": 1000,
        "parts": frozenset({"layers"}),
        "threads": 2,
        "dispatch": "direct",
        "extensible": True,
    }
)
REQUEST = VariantRequest(
    abi="linux-arm64",
    selection=Selection(),
    kernels=Registry({}),
    purpose="release",
    optimize="speed",
    app="toy",
)


def declared(root: Path, name: str = "toy", added: str = "", **changes: Any) -> App:
    text = yaml.safe_dump({**CONFIG, **changes}, default_flow_style=None, sort_keys=False)
    sources = root / "apps" / name / "own.cpp"
    sources.parent.mkdir(parents=True)
    sources.touch()
    return toy_invocation(root, {name: text}, added=added).workspace.apps[name]


def state(app: App, request: VariantRequest = REQUEST) -> str:
    return common_fingerprint(toy_runtime(), app, (), request)


@pytest.fixture
def plain(tmp_path: Path) -> App:
    return declared(tmp_path / "plain")


@pytest.mark.parametrize("key", AppConfig.model_fields)
def test_each_key_of_app_yaml_counts_or_has_a_reason_why_not(
    key: str, tmp_path: Path, plain: App
) -> None:
    changed = declared(tmp_path / "changed", **{key: OTHER[key]})
    assert getattr(changed.config, key) != getattr(plain.config, key)
    assert (state(changed) != state(plain)) == (key not in NOT_OF_CONFIG)


@pytest.mark.parametrize("name", [field.name for field in fields(VariantRequest)])
def test_each_field_of_a_request_counts_or_has_a_reason_why_not(name: str, plain: App) -> None:
    changed = replace(REQUEST, **{name: OTHER_REQUEST[name]})
    assert getattr(changed, name) != getattr(REQUEST, name)
    assert (state(plain, changed) != state(plain)) == (name not in NOT_OF_REQUEST)


def test_reasons_are_given_for_what_there_is() -> None:
    assert NOT_OF_CONFIG.keys() <= AppConfig.model_fields.keys()
    assert NOT_OF_REQUEST.keys() <= {field.name for field in fields(VariantRequest)}
    assert all((*NOT_OF_CONFIG.values(), *NOT_OF_REQUEST.values()))


def test_what_an_app_gets_from_its_workspace_is_as_if_it_were_its_own(
    tmp_path: Path, plain: App
) -> None:
    by_default = declared(tmp_path / "default", added="  threads: 2\n")
    own = declared(tmp_path / "own", threads=2)
    assert state(by_default) == state(own) != state(plain)


def test_the_app_its_runtime_and_its_sources_count(tmp_path: Path, plain: App) -> None:
    runtime = toy_runtime()
    facts = runtime.facts
    own = OwnSources("toy", {"own.cpp": ""}, ("own.cpp",), (), ())
    named = declared(tmp_path / "named", "other", package_name=plain.package_name)
    others = [
        common_fingerprint(runtime, named, (), REQUEST),
        *(
            common_fingerprint(changed, plain, (), REQUEST)
            for changed in (
                replace(runtime, facts=replace(facts, identity="another")),
                replace(runtime, native=replace(runtime.native, digest="another")),
                replace(runtime, facts=replace(facts, app=own)),
            )
        ),
    ]
    assert len({*others, state(plain)}) == 5


def test_the_order_of_sets_does_not_count(plain: App) -> None:
    names = [f"{name}.cpp" for name in range(50)]
    one, other = frozenset(names), frozenset(reversed(names))
    assert state(plain, replace(REQUEST, hot=one)) == state(plain, replace(REQUEST, hot=other))


def test_a_library_of_another_state_is_no_measure(tmp_path: Path) -> None:
    """An iOS library is compared with the host's as it is in dist/, when that is built of the same
    `dispatch` and all else."""
    app = declared(tmp_path / "work", targets=["linux-x86_64", "linux-arm64"])
    here = toy_invocation(tmp_path / "work")
    quick = replace(toy.quick_inputs(tmp_path / "quick"), app="toy", fingerprint=state(app))
    host = VariantLabel("toy", "linux-x86_64")
    deliver(replace(quick, abi=host.abi), here.context.dist)
    same = deliver(replace(quick, abi="linux-arm64"), tmp_path / "elsewhere")
    assert comparable(here, same, host)

    table = declared(tmp_path / "table", dispatch="table")
    other = replace(quick, abi="linux-arm64", fingerprint=state(table))
    assert not comparable(here, deliver(other, tmp_path / "other"), host)
    mark_unproven(here, host)
    assert not comparable(here, same, host)
    mark_proven(here, host)
    assert comparable(here, same, host)
