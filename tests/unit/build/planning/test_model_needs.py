"""Which supported versions the apps' models can run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from core_toy import make_index
from test_load import good_workspace

from orchestrator.build.planning.model_needs import (
    ReadModel,
    Unfit,
    VersionUse,
    read_models,
    unfit,
    unusable,
    uses,
)
from orchestrator.build.workshop.offers import offers
from orchestrator.canonical.lock import CanonicalMissingError
from orchestrator.errors import OrchestratorError
from orchestrator.index.model import save_index
from orchestrator.load.workspace import load_workspace
from orchestrator.models.offers import Offer
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.config.workspace import RuntimePin
from orchestrator.values.operators import OperatorName

GOOD = Path(__file__).parents[3] / "golden/models/small.ptl"
BAD = OrchestratorError("damaged")


def names(*texts: str) -> frozenset[OperatorName]:
    return frozenset(OperatorName.parse(text) for text in texts)


def model(name: str, version: str, *operators: str) -> ReadModel:
    app, _, of = name.partition("/")
    return ReadModel(app, of, version, f"apps/{app}/app.yaml", names(*operators))


OLD = Offer("1.13.1", ("stable",), names("aten::both", "aten::gone"))
NEW = Offer("2.6.0", ("next",), names("aten::both", "aten::new"))
BOTH = model("a/both", "1.13.1", "aten::both")
FIRST = model("a/old", "1.13.1", "aten::both", "aten::gone")
LATER = model("b/new", "1.13.1", "aten::both", "aten::new")
NOWHERE = model("c/none", "2.6.0", "toy::none")
BROKEN = replace(model("d/broken", "2.6.0"), fault=BAD)


def test_versions_and_the_models_that_need_them() -> None:
    assert uses([BOTH, FIRST, LATER, NOWHERE, BROKEN], [OLD, NEW]) == (
        VersionUse(
            "1.13.1", ("stable",), ("a/both", "a/old"), ("b/new", "c/none"), needed_by=("a/old",)
        ),
        VersionUse(
            "2.6.0", ("next",), ("a/both", "b/new"), ("a/old", "c/none"), needed_by=("b/new",)
        ),
    )


def test_one_version_is_needed_by_nothing() -> None:
    assert uses([BOTH, LATER], [NEW]) == (
        VersionUse("2.6.0", ("next",), ("a/both", "b/new"), (), ()),
    )


def test_models_that_their_own_runtime_does_not_run() -> None:
    assert unfit([BOTH, FIRST, LATER, NOWHERE, BROKEN], [OLD, NEW]) == (
        Unfit(LATER, ("aten::new",), "next has it: `runtime: next` in apps/b/app.yaml"),
        Unfit(NOWHERE, ("toy::none",), None),
    )


def test_operators_of_an_app_s_own_sources_are_not_asked_of_pytorch() -> None:
    own = replace(model("d/own", "1.13.1", "aten::both", "toy::mine"), own_sources=True)
    assert unfit([own], [OLD, NEW]) == ()
    assert [one.able for one in uses([own], [OLD, NEW])] == [("d/own",), ("d/own",)]
    newer = replace(model("d/own", "1.13.1", "aten::new", "toy::mine"), own_sources=True)
    assert unfit([newer], [OLD, NEW]) == (
        Unfit(newer, ("aten::new",), "next has it: `runtime: next` in apps/d/app.yaml"),
    )


def test_of_a_version_without_an_index_nothing_is_known() -> None:
    assert unfit([NOWHERE, LATER], [OLD]) == (Unfit(LATER, ("aten::new",), None),)


def test_models_are_read_as_their_runtime_reads_them(tmp_path: Path) -> None:
    root = good_workspace(tmp_path)
    (app,) = (one.name for one in (root / "apps").iterdir())
    file = root / "apps" / app / "models/small.ptl"
    file.write_bytes(GOOD.read_bytes())
    (read,) = read_models(load_workspace(root, {}), ())
    assert (read.name, read.version, read.declared) == (
        f"{app}/small",
        "1.13.1",
        f"apps/{app}/app.yaml",
    )
    assert "aten::relu" in {str(operator) for operator in read.operators}
    assert not read.own_sources
    file.write_bytes(b"no model")
    (read,) = read_models(load_workspace(root, {}), ())
    assert read.operators == frozenset()
    assert read.fault is not None
    assert str(read.fault.place) == f"apps/{app}/models/small.ptl"
    assert [*read_models(load_workspace(root, {}), (), {})] == [], "of no supported version"


def test_of_a_canonical_model_the_file_that_ships_is_read(tmp_path: Path) -> None:
    root = good_workspace(tmp_path)
    (app,) = load_workspace(root, {}).apps
    config = root / f"apps/{app}/app.yaml"
    config.write_text(config.read_text() + "canonical: static\n")
    reads = [*read_models(load_workspace(root, {}), ())]
    assert {type(read.fault) for read in reads} == {CanonicalMissingError}


@pytest.fixture
def pins(tmp_path: Path) -> Mapping[str, RuntimePin]:
    pin = load_workspace(good_workspace(tmp_path / "w"), {}).config.pins["default"]
    exact = pin.model_copy(update={"tree": make_index().tree})
    return {
        "exact": exact,
        "changed": pin,
        "unknown": pin.model_copy(update={"pytorch": "3.0.0"}),
    }


def test_pinned_runtimes_that_do_not_work(tmp_path: Path, pins: Mapping[str, RuntimePin]) -> None:
    facts = (DIALECT.folder / "facts.yaml").read_text()
    (tmp_path / "facts.yaml").write_text(facts)
    dialects = {"1.13.1": replace(DIALECT, folder=tmp_path)}
    (tmp_path / "index.zst").write_bytes(save_index(make_index()))
    found = unusable(pins, offers(pins, ("CPU",), dialects), dialects)
    assert {name: fault.what for name, fault in found.items()} == {
        "changed": "the runtime index of PyTorch 1.13.1 was made from another source tree",
        "unknown": "PyTorch 3.0.0 is not a supported runtime",
    }
    (tmp_path / "index.zst").unlink()
    found = unusable(pins, offers(pins, ("CPU",), dialects), dialects)
    assert found["exact"].what == "the runtime index index.zst cannot be read"
    assert found["exact"].hint == "run: ./orchestrate runtime index --runtime exact"
