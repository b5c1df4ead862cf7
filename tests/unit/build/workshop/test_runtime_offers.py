"""What other runtimes offer is read from their indices; one that has none offers nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from core_toy import make_index

from orchestrator import cli
from orchestrator.build.workshop.offers import offers
from orchestrator.index.model import Registration, save_index
from orchestrator.load.workspace import load_config
from orchestrator.models.info import read_model
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.pytorch.v1_13.dialect import DIALECT as OLD
from orchestrator.pytorch.v2_6.dialect import DIALECT as NEW
from orchestrator.values.config.workspace import RuntimePin
from orchestrator.values.operators import OperatorName as Op

ROOT = Path(__file__).parents[4]
MODEL = ROOT / "tests/failing/models/unknown_attention/model.ptl"
ATTENTION = "aten::scaled_dot_product_attention"
LAPACK = "aten::linalg_eig"
TREE = "b" * 64


@pytest.fixture
def newer(tmp_path: Path) -> Dialect:
    """2.6.0, of which an index of four operators is shipped."""
    folder = tmp_path / "v2_6"
    folder.mkdir()
    shutil.copy(NEW.folder / "facts.yaml", folder)
    toy = make_index()
    more = [(ATTENTION, "CompositeImplicitAutograd"), (LAPACK, "CPU"), ("aten::hip_only", "HIP")]
    registrations = (
        *toy.registrations,
        *(Registration(Op(name), key, 0, ()) for name, key in more),
    )
    index = replace(toy, pytorch="2.6.0", tree=TREE, registrations=registrations)
    (folder / "index.zst").write_bytes(save_index(index))
    return replace(NEW, folder=folder)


def pins(**trees: str) -> Mapping[str, RuntimePin]:
    """Pins of PyTorch 2.6.0, by name."""
    pinned = next(iter(load_config(ROOT)[0].pins.values()))
    return {
        name: pinned.model_copy(update={"pytorch": "2.6.0", "tree": tree})
        for name, tree in trees.items()
    }


def test_what_is_shipped_is_offered(newer: Dialect) -> None:
    (found,) = offers(pins(second=TREE, first=TREE), ("CPU",), {"2.6.0": newer})
    assert (found.version, found.names) == ("2.6.0", ("first", "second"))
    operators = {str(operator) for operator in found.operators}
    assert {ATTENTION, "aten::linear", "toy::conv"} <= operators
    assert operators.isdisjoint({"aten::hip_only", "aten::sparse_only"}), "other backends"
    assert LAPACK not in operators, "it fails wherever it is called"


def test_an_index_that_is_missing_or_damaged_offers_nothing(newer: Dialect) -> None:
    assert len([*offers({}, ("CPU",), {"2.6.0": newer})]) == 1
    newer.index.write_bytes(b"half")
    assert [*offers({}, ("CPU",), {"2.6.0": newer})] == []
    newer.index.unlink()
    assert [*offers({}, ("CPU",), {"2.6.0": newer})] == []


def test_a_pin_of_another_tree_offers_nothing(newer: Dialect) -> None:
    dialects = {"2.6.0": newer}
    assert [*offers(pins(changed="c" * 64), ("CPU",), dialects)] == []
    (found,) = offers(pins(changed="c" * 64, exact=TREE), ("CPU",), dialects)
    assert found.names == ("exact",)


def test_versions_come_oldest_first_but_for_one(newer: Dialect) -> None:
    dialects = {"2.6.0": newer, "1.13.1": OLD}
    assert [one.version for one in offers({}, ("CPU",), dialects)] == ["1.13.1", "2.6.0"]
    assert [one.version for one in offers({}, ("CPU",), dialects, "1.13.1")] == ["2.6.0"]


@pytest.fixture
def told(
    tmp_path: Path, newer: Dialect, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[], str]]:
    """What `new-app` says of a model that names the attention, in a workspace of 1.13.1."""
    root = tmp_path / "workspace"
    root.mkdir()
    env = {"HOME": str(tmp_path), "PATH": ""}
    assert cli.main(["init"], env=env, cwd=root) == 0
    text = (root / "WORKSPACE").read_text().replace("runtime: pytorch_2_6", "runtime: pytorch_1_13")
    (root / "WORKSPACE").write_text(text)
    capsys.readouterr()

    def run() -> str:
        words = ["new-app", "reader", "--model", str(MODEL)]
        assert cli.main(words, env=env, cwd=root) == 1
        return next(line for line in capsys.readouterr().err.splitlines() if "do:" in line)

    with pytest.MonkeyPatch.context() as patch:
        pinned = load_config(root)[0].pins["pytorch_2_6"].tree
        index = replace(make_index(), tree=pinned, registrations=_attention())
        newer.index.write_bytes(save_index(index))
        dialects = {**DIALECTS, "2.6.0": newer}
        patch.setattr(
            "orchestrator.build.workshop.offers.offers", partial(offers, dialects=dialects)
        )
        yield run


def _attention() -> tuple[Registration, ...]:
    return (Registration(Op(ATTENTION), "CompositeImplicitAutograd", 0, ()),)


def test_a_command_names_the_pinned_runtime(told: Callable[[], str], newer: Dialect) -> None:
    with_index = told()
    assert "pytorch_2_6 has it: ./orchestrate new-app reader --model" in with_index
    assert "--runtime pytorch_2_6" in with_index
    newer.index.unlink()
    assert "pytorch_2_6" not in told()


def test_the_translator_needs_one_operator_that_1_13_1_does_not_have() -> None:
    old, new = offers({}, ("CPU", "QuantizedCPU"), {"1.13.1": OLD, "2.6.0": NEW})
    info = read_model(ROOT / "apps/translator/models/sentences.ptl", NEW.models)
    missing = set(info.root_operators) - old.operators
    assert {str(operator) for operator in missing} == {ATTENTION}
    assert new.operators.issuperset(info.root_operators)
