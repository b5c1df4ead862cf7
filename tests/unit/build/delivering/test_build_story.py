"""What a build leaves in dist/ when a variant passes, and when it does not; what `verify` looks at.

The delivery is the toy's; what is checked of it is put in by hand.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import package_toy as toy
import pytest
from guide import shown_json
from toy_workspace import toy_invocation, toy_runtime

from orchestrator.build.delivering import build as building
from orchestrator.build.delivering import package as packaging
from orchestrator.build.delivering import verify as verifying
from orchestrator.build.delivering.budgets import OverBudgetError, Sizes, check_budget
from orchestrator.build.delivering.verify import NotBuiltError, OtherDeliveryError, verify_delivered
from orchestrator.build.explaining.size import NothingMeasuredError
from orchestrator.deliver.delivered import ChangedDeliveryError
from orchestrator.deliver.manifest import read_manifest
from orchestrator.deliver.variant import Delivered, DeliverInputs, deliver
from orchestrator.errors import OrchestratorError
from orchestrator.size.attribution import Asked, Attribution, Share
from orchestrator.values.config.app import Budget
from orchestrator.values.labels import VariantLabel
from orchestrator.verify.verdict import VerificationFailedError, VerifyResult

LABEL = VariantLabel("toy", "linux-x86_64")
APP = """\
models: [{file: models/toy.ptl}]
targets: [linux-x86_64]
optimize: size
"""


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> DeliverInputs:
    return toy.quick_inputs(tmp_path_factory.mktemp("quick"))


class Workspace:
    """A workspace in which one variant has been linked; `failure` is what is wrong with it."""

    def __init__(self, root: Path, inputs: DeliverInputs, patch: pytest.MonkeyPatch) -> None:
        self.inputs, self.root, self.failure = inputs, root, None
        self.proven: list[Path] = []
        self.folder = root / "dist/toy/linux-x86_64"
        compiler: Any = SimpleNamespace()
        self.here = toy_invocation(
            root, {"toy": APP}, ready=[toy_runtime()], found={LABEL.abi: compiler}
        )
        self.app = self.here.workspace.apps["toy"]
        patch.setattr(building, "deliver_inputs", lambda *_: self.inputs)
        patch.setattr(building, "_prove", self._prove)

    failure: OrchestratorError | None

    def _prove(self, here: Any, variant: Any, variants: Any, delivered: Delivered) -> Any:
        assert not packaging.is_proven(self.here, LABEL)
        assert delivered.shared_library.is_file()
        self.proven.append(delivered.folder)
        if self.failure:
            raise self.failure
        return building._Proof("ok", None)

    def finish(self, levels: tuple[str, ...] = ()) -> Any:
        spec = SimpleNamespace(extensible=False, levels=levels)
        variant: Any = SimpleNamespace(
            label=LABEL,
            objects=SimpleNamespace(compiles=(), plan=SimpleNamespace(spec=spec)),
            selection=SimpleNamespace(operators=()),
            app=self.app,
            traces=(),
        )
        execution: Any = SimpleNamespace(compiled=frozenset())
        return building._finish(self.here, variant, (variant,), execution)

    def version(self) -> str:
        return read_manifest(self.folder).version


@pytest.fixture
def workspace(tmp_path: Path, quick: DeliverInputs, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return Workspace(tmp_path, quick, monkeypatch)


def failed(hint: str | None = "trace again") -> VerificationFailedError:
    return VerificationFailedError("it does not run", hint=hint)


def test_a_variant_is_proven_before_it_is_in_dist(workspace: Workspace) -> None:
    done = workspace.finish()
    assert done.report.verified == "ok"
    assert done.inputs is workspace.inputs
    (where,) = workspace.proven
    assert where.name.startswith(".linux-x86_64.new-")
    assert not where.exists()
    assert workspace.version() == "1.2.0"
    assert packaging.is_proven(workspace.here, LABEL)


def test_what_does_not_pass_leaves_the_library_before(workspace: Workspace) -> None:
    workspace.finish()
    workspace.inputs = replace(workspace.inputs, version="1.3.0")
    workspace.failure = failed()
    with pytest.raises(VerificationFailedError) as caught:
        workspace.finish()
    assert caught.value.hint == (
        "trace again; dist/toy/linux-x86_64 still has the library of an earlier build that passed"
    )
    assert workspace.version() == "1.2.0"
    assert [path.name for path in workspace.folder.parent.iterdir()] == ["linux-x86_64"]
    assert not packaging.is_proven(workspace.here, LABEL)
    workspace.failure = None
    workspace.finish()
    assert workspace.version() == "1.3.0"
    assert packaging.is_proven(workspace.here, LABEL)


def test_what_does_not_pass_is_not_delivered(workspace: Workspace) -> None:
    workspace.failure = failed(hint=None)
    with pytest.raises(VerificationFailedError) as caught:
        workspace.finish()
    assert caught.value.hint == "dist/toy/linux-x86_64 is not written"
    assert list(workspace.folder.parent.iterdir()) == []


def unknown() -> Attribution:
    """Stands for a library whose objects are not here."""
    raise NothingMeasuredError("what it is linked of is not here")


def over_budget(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, budget: int, stripped: int
) -> OrchestratorError:
    """The error of a build whose library is larger than its budget."""

    def prove(here: Any, variant: Any, variants: Any, delivered: Delivered) -> Any:
        limits = {"linux-x86_64": Budget(total=budget)}
        config = workspace.app.config.model_copy(update={"budgets": limits})
        budgeted: Any = SimpleNamespace(label=LABEL, app=replace(workspace.app, config=config))
        check_budget(budgeted, Sizes(budget, delivered.shared_library, unknown))
        check_budget(budgeted, Sizes(stripped, delivered.shared_library, unknown))

    monkeypatch.setattr(building, "_prove", prove)
    with pytest.raises(OverBudgetError) as caught:
        workspace.finish()
    return caught.value


def test_a_library_above_its_budget_is_told_in_full(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert over_budget(workspace, monkeypatch, 1_500_000, 1_718_272).render() == (
        "apps/toy/app.yaml: error: //apps/toy:linux-x86_64 is larger than its budget\n"
        "  expected: at most 1,500,000 bytes\n"
        "  seen:     1,718,272 bytes\n"
        "  do:       raise the budget, use `optimize: size`, or find out which model needs an"
        " operator: ./orchestrate why //apps/toy:linux-x86_64 NAME;"
        " dist/toy/linux-x86_64 is not written"
    )
    assert list(workspace.folder.parent.iterdir()) == []


SIZED = Attribution(
    app="toy",
    abi="linux-x86_64",
    library="",
    size=1000,
    packed=None,
    made={},
    asked={
        "aten::add.Tensor": Asked({"net": ("forward at net.py:3",)}),
        "aten::add.out": Asked({"net": ()}),
        "aten::relu": Asked({"net": ()}),
    },
    shares=(
        Share((), "c10/a.cpp", "code", 400),
        Share(("aten::add.Tensor",), "b.cpp", "code", 350),
        Share(("aten::add.out",), "b.cpp", "code", 150),
        Share(("aten::relu",), "b.cpp", "code", 100),
    ),
)
KEPT = replace(SIZED, size=900, shares=SIZED.shares[:3])


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(compressed=22), ("is larger than its budget after compression", 22, 24)),
        (Budget(growth=99), ("grew by more than its budget", 99, 100)),
        (
            Budget(operators={"aten::add": 499, "aten::relu": 100}),
            ("has more for aten::add alone than its budget", 499, 500),
        ),
        (
            Budget(operators={"aten::add.Tensor": 349}),
            ("has more for aten::add.Tensor alone than its budget", 349, 350),
        ),
    ],
)
def test_other_budgets(
    workspace: Workspace, tmp_path: Path, budget: Budget, said: tuple[str, int, int]
) -> None:
    (tmp_path / "library").write_bytes(bytes(1000) + b"others")
    sizes = Sizes(1000, tmp_path / "library", lambda: SIZED, KEPT)
    config = workspace.app.config.model_copy(update={"budgets": {"linux-x86_64": budget}})
    budgeted: Any = SimpleNamespace(label=LABEL, app=replace(workspace.app, config=config))
    with pytest.raises(OverBudgetError) as caught:
        check_budget(budgeted, sizes)
    what, limit, found = said
    assert caught.value.what == f"//apps/toy:linux-x86_64 {what}"
    assert caught.value.expected == f"at most {limit} bytes"
    assert caught.value.seen == f"{found} bytes"
    assert caught.value.hint is not None
    # which is refused beside budgets of operators
    assert ("optimize: size" in caught.value.hint) == (not budget.operators)
    assert caught.value.details == (
        "what would be gone without it:\n"
        "  350: aten::add.Tensor, net: forward at net.py:3\n"
        "  150: aten::add.out, net\n"
        "  100: aten::relu, net\n"
        "since sizes were last kept: 900 -> 1,000 bytes, +100 (+11.11 %)\n"
        "  +100: aten::relu, net"
    )
    # one byte more is enough, and without sizes that were kept nothing has grown
    more = Budget(
        compressed=budget.compressed and budget.compressed + 2,
        growth=budget.growth and budget.growth + 2,
        operators={name: limit + 2 for name, limit in budget.operators.items()},
    )
    config = workspace.app.config.model_copy(update={"budgets": {"linux-x86_64": more}})
    budgeted = SimpleNamespace(label=LABEL, app=replace(workspace.app, config=config))
    check_budget(budgeted, sizes)
    if budget.growth is not None:
        check_budget(budgeted, replace(sizes, before=None))


def test_the_guide_shows_a_library_above_its_budget(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every value; that the numbers are camera's is compared where camera is built, and so is who
    asks for the bytes."""
    said = {**shown_json("docs/guide/read-a-size-report.md", "code"), "details": None}
    budget, stripped = said["facts"]["budget_bytes"], said["facts"]["stripped_bytes"]
    seen = json.dumps(over_budget(workspace, monkeypatch, budget, stripped).to_json())
    assert seen.replace("/toy", "/camera") == json.dumps(said)


def test_what_passed_and_does_not_any_more_stays(workspace: Workspace) -> None:
    """Another budget, or another record of what the models give: the library is the same."""
    workspace.finish()
    workspace.failure = failed()
    with pytest.raises(VerificationFailedError) as caught:
        workspace.finish()
    assert caught.value.hint == (
        "trace again; dist/toy/linux-x86_64 already has this library, from an earlier build that"
        " passed"
    )
    assert workspace.proven[-1] == workspace.folder
    assert not packaging.is_proven(workspace.here, LABEL)


def test_an_interrupt_leaves_the_library_before(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.finish()
    workspace.inputs = replace(workspace.inputs, version="1.3.0")

    def interrupted(*_: Any) -> None:
        assert workspace.version() == "1.2.0"
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "_prove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        workspace.finish()
    assert workspace.version() == "1.2.0"


def test_a_row_tells_at_which_cpu_levels_the_models_ran(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`_prove` asks verification, and what it found is in the row."""
    levels = ("avx2", "avxvnni")
    monkeypatch.undo()
    monkeypatch.setattr(building, "deliver_inputs", lambda *_: workspace.inputs)
    monkeypatch.setattr(building, "check_library", lambda *_, **__: None)
    asked = []

    def verified(*arguments: Any) -> tuple[VerifyResult, ...]:
        asked.append(arguments[1].levels)
        return (VerifyResult("toy", "ok", 1, levels=("baseline",), levels_not_run=("avxvnni",)),)

    monkeypatch.setattr(building, "verify_library", verified)
    report = workspace.finish(levels).report
    assert asked == [levels]
    assert (report.verified, report.levels_run) == ("ok", ("baseline", "avx2"))
    assert report.levels_not_run == ("avxvnni",)


# --- verify ---


class Verifier:
    """A delivered toy; `ran` are the libraries that models were run in."""

    def __init__(self, root: Path, inputs: DeliverInputs, patch: pytest.MonkeyPatch) -> None:
        self.ran: list[Path] = []
        self.folder = deliver(inputs, root / "dist").folder
        driver = root / ".orchestrator/variants/toy/linux-x86_64/driver"
        driver.parent.mkdir(parents=True)
        driver.touch()
        compiler: Any = SimpleNamespace(links_shared=True, config=SimpleNamespace(run="native"))
        self.here = toy_invocation(
            root, {"toy": APP}, ready=[toy_runtime()], found={LABEL.abi: compiler}
        )
        patch.setattr(verifying, "read_traces", lambda *_: ())
        patch.setattr(verifying, "verify_library", self._run)

    def _run(self, *arguments: Any) -> tuple[VerifyResult, ...]:
        self.ran.append(arguments[1].file)
        return (VerifyResult("toy", "ok", 1),)


@pytest.fixture
def verifier(tmp_path: Path, quick: DeliverInputs, monkeypatch: pytest.MonkeyPatch) -> Verifier:
    return Verifier(tmp_path, quick, monkeypatch)


def test_verify_runs_what_is_delivered(verifier: Verifier) -> None:
    (result,) = verify_delivered(verifier.here, LABEL)
    assert result.status == "ok"
    assert verifier.ran == [verifier.folder / "lib/libtoy_torch.so"]


@pytest.mark.parametrize("name", ["lib/libtoy_torch.so", "lib/libtoy_torch_core.a", "README.md"])
def test_verify_refuses_a_changed_file_before_anything_runs(name: str, verifier: Verifier) -> None:
    size = (verifier.folder / name).stat().st_size
    with (verifier.folder / name).open("ab") as file:
        file.write(b"x")
    with pytest.raises(ChangedDeliveryError) as caught:
        verify_delivered(verifier.here, LABEL)
    assert caught.value.render() == (
        f"{verifier.folder}: error: the delivered folder was modified\n"
        "  expected: the files that its manifest lists, with their digests\n"
        f"  seen:     {name} has {size + 1:,} bytes, not {size:,}\n"
        "  do:       build the variant again: ./orchestrate build //apps/toy:linux-x86_64"
    )
    assert verifier.ran == []


def test_verify_refuses_a_file_that_is_gone_or_another(verifier: Verifier) -> None:
    (verifier.folder / "README.md").unlink()
    core = verifier.folder / "lib/libtoy_torch_core.a"
    core.write_bytes(bytes(core.stat().st_size))
    with pytest.raises(ChangedDeliveryError) as caught:
        verify_delivered(verifier.here, LABEL)
    assert caught.value.seen == (
        "README.md: No such file or directory, lib/libtoy_torch_core.a has different content"
    )
    assert verifier.ran == []


@pytest.mark.parametrize(("part", "other"), [("abi", "linux-arm64"), ("app", "scanner")])
def test_verify_refuses_another_variant_in_its_place(
    part: str, other: str, verifier: Verifier
) -> None:
    manifest = verifier.folder / "manifest.json"
    told = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**told, part: other}))
    with pytest.raises(OtherDeliveryError) as caught:
        verify_delivered(verifier.here, LABEL)
    seen = {"app": "toy", "abi": "linux-x86_64", part: other}
    assert caught.value.render() == (
        f"{verifier.folder}: error: the delivered folder is of another variant\n"
        "  expected: //apps/toy:linux-x86_64\n"
        f"  seen:     //apps/{seen['app']}:{seen['abi']}\n"
        "  do:       build the variant again: ./orchestrate build //apps/toy:linux-x86_64"
    )
    assert verifier.ran == []


def test_verify_of_what_is_not_there(verifier: Verifier) -> None:
    (verifier.folder / "lib/libtoy_torch.so").unlink()
    with pytest.raises(NotBuiltError):
        verify_delivered(verifier.here, LABEL)
