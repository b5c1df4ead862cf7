"""Where an exported model goes, and what is refused before torch is started."""

from __future__ import annotations

import json
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

import crafted
import pytest
from canonical_toy import workspace
from toy_workspace import shipped_runtime, toy_invocation

from orchestrator.build.authoring import export_model as story
from orchestrator.build.authoring.export_model import (
    ExportedTwiceError,
    ModelExport,
    ModelNameError,
    ModuleNameError,
    app_of,
    export_model,
)
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.canonical.exporting import ExportResult, ModuleRequest, NotScriptableError
from orchestrator.canonical.lock import Rewrite
from orchestrator.canonical.python import ExportPython
from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.workspace_lock import workspace_lock
from orchestrator.values.labels import LabelSyntaxError
from tests import ptl

DATA = {"dtype": "uint8", "shape": [2], "data": "AQI="}
INPUTS = json.dumps([{"method": "forward", "args": [{"tensor": DATA}]}]).encode()
CALL = ptl.function(f"{ptl.MODULE}.get_all_bundled_inputs_for_forward")


def invocation(root: Path) -> Invocation:
    return toy_invocation(root, ready=[shipped_runtime()])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ModuleRequest]:
    """The requests; each gives a model without operators."""
    seen: list[ModuleRequest] = []

    def exported(request: ModuleRequest, *_: Any) -> tuple[bytes, bytes, ExportResult]:
        seen.append(request)
        record = ptl.bytecode(ptl.function(signature=ptl.schema()), CALL)
        result = ExportResult(
            torch="2.13.0", folded=False, rewrites=(), comparison=(), via="export"
        )
        return ptl.model(record), INPUTS, result

    python = ExportPython("/python", "2.13.0")
    monkeypatch.setattr(story, "export_module", exported)
    monkeypatch.setattr(story, "find_python", lambda *_: python)
    return seen


def test_a_new_app(tmp_path: Path, asked: list[ModuleRequest]) -> None:
    workspace(tmp_path)
    made = export_model(invocation(tmp_path), "vad", ModelExport("nets:Vad.Net"), tmp_path / "here")
    assert (made.app, made.file, made.created) == ("vad", "apps/vad/models/net.ptl", True)
    assert (tmp_path / made.file).is_file()
    text = (tmp_path / "apps/vad/app.yaml").read_text()
    assert "  - file: models/net.ptl\n    inputs: models/net.npz\n" in text
    assert (made.inputs, made.fed) == ("apps/vad/models/net.npz", True)
    assert zipfile.is_zipfile(tmp_path / made.inputs)
    request = asked[0]
    assert (request.name, request.pytorch, request.compiled) == ("net", "2.6.0", "any")
    assert request.paths == [tmp_path / "here", tmp_path]


def test_the_file_of_an_error_is_relative_to_the_workspace(
    tmp_path: Path, asked: list[ModuleRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace(tmp_path)
    for file, told in ((f"{tmp_path}/models/vad.py", "models/vad.py"), ("/torch/nn.py",) * 2):
        place = Place(file, 19, 1)

        def refuse(*_: Any, place: Place = place) -> Any:
            raise NotScriptableError("x", place=place)

        monkeypatch.setattr(story, "export_module", refuse)
        with pytest.raises(NotScriptableError) as caught:
            export_model(invocation(tmp_path), "vad", ModelExport("nets:Net"), tmp_path)
        assert caught.value.place == Place(told, 19, 1)


@pytest.mark.parametrize(
    ("module", "changes"),
    [
        ("nets", {}),
        ("nets:", {}),
        ("../nets:Net", {}),
        ("nets:Net()", {}),
        ("nets:Net", {"inputs": "os;system:x"}),
    ],
)
def test_a_name_that_python_cannot_import(
    tmp_path: Path, asked: list[ModuleRequest], module: str, changes: Any
) -> None:
    workspace(tmp_path)
    with pytest.raises(ModuleNameError):
        export_model(invocation(tmp_path), "vad", ModelExport(module, "net", **changes), tmp_path)
    assert asked == []


def test_a_name_that_no_model_has(tmp_path: Path, asked: list[ModuleRequest]) -> None:
    workspace(tmp_path)
    with pytest.raises(ModelNameError):
        export_model(invocation(tmp_path), "vad", ModelExport("nets:Net", "../net"), tmp_path)
    assert asked == []


def test_a_model_that_is_made_canonical_by_another_command(
    tmp_path: Path, asked: list[ModuleRequest]
) -> None:
    workspace(tmp_path)
    with pytest.raises(ExportedTwiceError) as caught:
        export_model(invocation(tmp_path), "camera", ModelExport("nets:Net"), tmp_path)
    assert caught.value.render() == (
        "apps/camera/app.yaml: error: app.yaml says `canonical: static` for net, but what is"
        " exported is canonical already, without TorchScript\n"
        "  do:       declare `canonical: off` for net"
    )
    assert asked == []


def named(*operators: str) -> bytes:
    """A model that calls these operators."""
    rows = [crafted.operator(*name.partition(".")[::2]) for name in operators]
    calls = [("OP", number, 0) for number in range(len(rows))]
    code = crafted.method([*calls, *crafted.GIVE_ATTRIBUTE], operators=rows)
    return crafted.model(code=code)


@pytest.mark.parametrize(
    ("more", "left"),
    [
        # relu6 stays in the library for the other model, so clamp would come on top of it
        ("", ("clamp", None)),
        ("forbid: {aten::clamp: why not}\n", ("clamp", "aten::clamp")),
    ],
)
def test_a_rewrite_that_its_app_does_not_want_is_left_out(
    tmp_path: Path,
    asked: list[ModuleRequest],
    monkeypatch: pytest.MonkeyPatch,
    more: str,
    left: tuple[str, str | None],
) -> None:
    workspace(tmp_path, canonical="off")
    (tmp_path / "apps/camera/models/net.ptl").write_bytes(named("aten::relu6"))
    declared = tmp_path / "apps/camera/app.yaml"
    text = declared.read_text().replace("net.ptl}", "net.ptl, inputs: [{args: [1]}]}")
    declared.write_text(text + more)
    clamp = {"name": "clamp", "from": "aten::relu6", "to": ["aten::clamp"], "calls": 1, "why": "x"}

    def exported(request: ModuleRequest, *_: Any) -> tuple[bytes, bytes, ExportResult]:
        asked.append(request)
        rewrites = () if request.without else (Rewrite.model_validate(clamp),)
        result = ExportResult(
            torch="2.13.0", folded=False, rewrites=rewrites, comparison=(), via="export"
        )
        return named("aten::clamp" if rewrites else "aten::relu6"), INPUTS, result

    monkeypatch.setattr(story, "export_module", exported)
    asked.clear()
    made = export_model(invocation(tmp_path), "camera", ModelExport("nets:Other"), tmp_path)
    assert made.file == "apps/camera/models/other.ptl"
    assert (made.inputs, made.fed) == ("apps/camera/models/other.npz", False)
    assert [list(one.without) for one in asked] == [[], ["clamp"]]
    assert (made.rewrites, [(one.name, one.forbidden) for one in made.left]) == ((), [left])
    assert list(map(str, made.info.root_operators)) == ["aten::relu6"]
    assert (tmp_path / made.file).is_file()


def test_a_build_is_waited_for_only_where_it_may_read_the_file(
    tmp_path: Path, asked: list[ModuleRequest]
) -> None:
    workspace(tmp_path, canonical="off")
    state, model = tmp_path / ".orchestrator", tmp_path / "apps/camera/models/net.ptl"
    before = named("aten::relu6")
    model.write_bytes(before)
    declared = tmp_path / "apps/camera/app.yaml"
    text = declared.read_text().replace("net.ptl}", "net.ptl, inputs: [{args: [1]}]}")
    declared.write_text(text)
    waiting = Queue[str]()
    here = replace(invocation(tmp_path), log=waiting.put)
    with ThreadPoolExecutor(1) as pool:
        with workspace_lock(state, False, pytest.fail, command="build //apps/camera"):
            for app, module in (("vad", "nets:Net"), ("camera", "nets:Other")):
                made = export_model(here, app, ModelExport(module), tmp_path)
                assert (tmp_path / made.file).is_file()
                assert waiting.get(timeout=60).startswith("exporting ")
            replacing = pool.submit(export_model, here, "camera", ModelExport("nets:Net"), tmp_path)
            assert waiting.get(timeout=60).startswith("exporting ")
            told = waiting.get(timeout=60)
            assert told.startswith(f"waiting for process {os.getpid()}, since ")
            assert told.endswith(": build //apps/camera")
            assert model.read_bytes() == before
        assert replacing.result(timeout=60).declared
    assert model.read_bytes() != before


def test_nothing_is_written_where_it_is_refused(
    tmp_path: Path, asked: list[ModuleRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OrchestratorError("no")

    workspace(tmp_path)
    monkeypatch.setattr(story, "export_module", refuse)
    with pytest.raises(OrchestratorError):
        export_model(invocation(tmp_path), "vad", ModelExport("nets:Net"), tmp_path)
    assert sorted(path.name for path in (tmp_path / "apps").iterdir()) == ["camera"]


@pytest.mark.parametrize("text", ["apps/vad", "//apps/vad", "apps/vad/"])
def test_how_an_app_is_named(text: str) -> None:
    assert app_of(text) == "vad"


@pytest.mark.parametrize("text", ["vad", "//apps/vad:linux-x86_64", "//...", "apps/../vad"])
def test_what_names_no_app(text: str) -> None:
    with pytest.raises(LabelSyntaxError):
        app_of(text)
