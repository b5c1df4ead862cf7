"""Apps' models, made canonical: what is converted, priced, refused and written. Models and what
torch makes of them are written by hand; the runtime's index is real."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crafted
import pytest
from toy_workspace import shipped_runtime, toy_invocation

from orchestrator.build.authoring import canonical
from orchestrator.build.authoring.canonical import Attempt, canonical_apps, permitted
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.canonical.convert import Converted, UntraceableError
from orchestrator.canonical.lock import ComparedCall, Rewrite
from orchestrator.canonical.python import ExportPython
from orchestrator.errors import Place
from orchestrator.models.archive import NotAModelError
from orchestrator.models.checks import ForbiddenOperatorError
from orchestrator.models.info import read_model
from orchestrator.pytorch.v2_6.dialect import DIALECT
from orchestrator.report.canonical import CanonicalReport, OmittedRewrite

# A rewrite by its name: from, to.
REWRITES = {
    "clamp": ("aten::relu6", "aten::clamp"),
    "softmax": ("aten::softmax.int", "aten::_softmax"),
    "lowering": ("aten::rms_norm", "aten::mul.Tensor"),
}


def model(*operators: str) -> bytes:
    rows = [crafted.operator(*name.partition(".")[::2]) for name in operators]
    calls = [("OP", number, 0) for number in range(len(rows))]
    code = crafted.method([*calls, *crafted.GIVE_ATTRIBUTE], operators=rows, registers=1)
    return crafted.model(code=code)


@dataclass
class Torch:
    """In the place of torch: applies REWRITES to models that it is told the operators of."""

    operators: dict[str, tuple[str, ...]] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    damaged: frozenset[str] = frozenset()
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def convert(self, file: Path, shown: str, name: str, *rest: Any, **_: Any) -> Converted:
        without = frozenset(rest[-1])
        self.asked.append((name, tuple(sorted(without))))
        if name in self.damaged:
            file.write_bytes(b"damaged")
        if name in self.refused:
            raise UntraceableError("this model cannot be traced", place=Place(shown), seen="item")
        after, rows = list(self.operators[name]), []
        for rewrite, (old, new) in REWRITES.items():
            if old in after and rewrite not in without:
                after = [new if one == old else one for one in after]
                row = {"name": rewrite, "from": old, "to": [new], "calls": 1, "why": "so"}
                rows.append(Rewrite.model_validate(row))
        same = ComparedCall(call="forward[0]", inputs=("float32[1]",), result="same", largest=0.0)
        return Converted(
            model(*dict.fromkeys(after)), b"[]", "2.13.0", True, tuple(rows), (same,), (20.0, 10.0)
        )


Made = Callable[..., CanonicalReport]


@pytest.fixture
def torch() -> Torch:
    return Torch()


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: Torch) -> Made:
    """Declares apps, and makes their models canonical."""
    monkeypatch.setattr(canonical, "convert", torch.convert)
    monkeypatch.setattr(canonical, "find_python", lambda *_: ExportPython("python", "2.13.0"))
    # no sources of PyTorch are needed
    monkeypatch.setattr(Runtime, "arguments", {})

    def run(
        apps: Mapping[str, Mapping[str, Iterable[str]]], more: str = "", **options: Any
    ) -> CanonicalReport:
        declared = dict[str, str]()
        for app, models in apps.items():
            folder = tmp_path / "apps" / app
            (folder / "models").mkdir(parents=True, exist_ok=True)
            rows = []
            for name, operators in models.items():
                stem, _, kind = name.partition(" ")
                torch.operators[stem] = tuple(operators)
                (folder / f"models/{stem}.ptl").write_bytes(model(*operators))
                said = f", canonical: {kind}" if kind else ""
                rows.append(f"  - {{file: models/{stem}.ptl, inputs: [{{args: [1]}}]{said}}}\n")
            declared[app] = f"models:\n{''.join(rows)}targets: [linux-x86_64]\n{more}"
        here = toy_invocation(tmp_path, declared, ready=[shipped_runtime()])
        chosen = [here.workspace.apps[name] for name in apps]
        return canonical_apps(here, chosen, python=None, **options)

    return run


def files(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("apps/*/models/*canonical*"))


def test_what_is_declared_is_written(made: Made, tmp_path: Path) -> None:
    report = made({"camera": {"net static": ["aten::softmax.int"]}}, write=True)
    (row,) = report.rows
    assert (row.state, row.before, row.after) == (
        "written",
        ("aten::softmax.int",),
        ("aten::_softmax",),
    )
    assert row.microseconds == (20.0, 10.0)
    assert files(tmp_path) == ["net.canonical.ptl", "net.canonical.yaml"]


def test_a_refused_model_does_not_stop_the_others(made: Made, torch: Torch, tmp_path: Path) -> None:
    torch.refused = frozenset({"odd"})
    apps = {
        "camera": {"odd static": ["aten::sort"], "net static": ["aten::softmax.int"]},
        "reader": {"other static": ["aten::softmax.int"]},
    }
    report = made(apps, write=True)
    assert [(one.app, one.model, one.error.code) for one in report.refused] == [
        ("camera", "odd", "UNTRACEABLE")
    ]
    assert [row.model for row in report.rows] == ["net", "other"]
    assert files(tmp_path) == [
        *("net.canonical.ptl", "net.canonical.yaml"),
        *("other.canonical.ptl", "other.canonical.yaml"),
    ]
    # it stays in its app, as it is
    assert (report.apps[0].before, report.apps[0].after) == (2, 2)


def test_what_cannot_be_read_ends_it_before_anything_is_written(
    made: Made, torch: Torch, tmp_path: Path
) -> None:
    """A model whose operators nobody knows: its app cannot be priced."""
    torch.refused = torch.damaged = frozenset({"odd"})
    apps = {
        "camera": {"net static": ["aten::softmax.int"]},
        "reader": {"odd static": ["aten::sort"]},
    }
    with pytest.raises(NotAModelError):
        made(apps, write=True)
    assert files(tmp_path) == []


def test_off_is_left_out_and_what_is_not_said_is_shown(made: Made, torch: Torch) -> None:
    models = {"net": ["aten::softmax.int"], "odd off": ["aten::sort"]}
    report = made({"camera": models}, write=False)
    assert [(row.model, row.state) for row in report.rows] == [("net", "unused")]
    assert {name for name, _ in torch.asked} == {"net"}
    # for the whole app
    assert made({"camera": {"net": ["aten::sort"]}}, "canonical: off\n", write=False).rows == ()
    assert made({"camera": {"net": ["aten::sort"]}}, write=True).rows == ()


def test_a_dry_run_tells_what_is_written(made: Made) -> None:
    """What app.yaml declares is priced without what it might declare as well."""
    models = {"net static": ["aten::relu6"], "other": ["aten::relu6"]}
    dry = {row.model: row for row in made({"camera": models}, write=False).rows}
    (wet,) = made({"camera": models}, write=True).rows
    assert (dry["net"].after, dry["net"].left) == (wet.after, wet.left)
    # relu6 stays in the library for the other model, so clamp would come on top of it
    assert [one.name for one in wet.left] == ["clamp"]
    assert dry["net"].state == "differs"


def test_a_rewrite_that_brings_what_is_forbidden_is_left_out(made: Made, torch: Torch) -> None:
    forbid = "forbid: {aten::_softmax: why not}\n"
    (row,) = made({"camera": {"net static": ["aten::softmax.int"]}}, forbid, write=True).rows
    assert row.after == ("aten::softmax.int",)
    assert row.left == (OmittedRewrite("softmax", 0, "aten::_softmax"),)
    assert str(row.left[0]) == (
        "softmax: left out: it brings aten::_softmax, which app.yaml forbids"
    )
    assert torch.asked == [("net", ()), ("net", ("softmax",))]


def test_what_is_forbidden_and_cannot_be_left_out_is_refused(made: Made, tmp_path: Path) -> None:
    forbid = "forbid: {aten::mul: no products}\n"
    apps = {"camera": {"net static": ["aten::rms_norm"]}}
    (refused,) = made(apps, forbid, write=True).refused
    assert refused.error.render() == (
        "apps/camera/models/net.canonical.ptl: error: this model names an operator that its app"
        " forbids\n"
        "  expected: none of those under `forbid:` in app.yaml\n"
        "  seen:     aten::mul.Tensor\n"
        "  do:       express that part of the model in other operators, or take them out of"
        " `forbid:`\n"
        "  | aten::mul.Tensor: no products; named in forward"
    )
    assert files(tmp_path) == []


def test_a_rewrite_that_is_applied_although_it_is_left_out_is_refused(tmp_path: Path) -> None:
    """Leaving it out again would change nothing."""
    file = tmp_path / "net.ptl"
    file.write_bytes(model("aten::clamp"))
    info = read_model(file, DIALECT.models, name="net.ptl")
    row = {"name": "clamp", "from": "aten::relu6", "to": ["aten::clamp"], "calls": 1, "why": "so"}
    given: list[Mapping[str, str]] = []

    def attempt(forbidden: Mapping[str, str]) -> Attempt[None]:
        given.append(forbidden)
        return None, info, (Rewrite.model_validate(row),)

    for left, rounds in [((), [{}, {"clamp": "aten::clamp"}]), (("clamp",), [{}])]:
        given.clear()
        with pytest.raises(ForbiddenOperatorError):
            permitted(attempt, left, {"aten::clamp": "why not"})
        assert given == rounds


def test_apps_that_have_more_in_common(made: Made) -> None:
    apps = {
        "camera": {"net static": ["aten::softmax.int", "aten::relu"]},
        "reader": {"other static": ["aten::_softmax", "aten::sort"]},
    }
    camera, reader = made(apps, write=False).apps
    assert [(its.app, its.before, its.after) for its in camera.shares] == [("reader", 0.0, 0.5)]
    assert [(its.app, its.before, its.after) for its in reader.shares] == [("camera", 0.0, 0.5)]
