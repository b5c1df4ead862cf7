"""What `clean`, `addon`, `export`, `library`, `runtime` and `select` print with --json, in success
and failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_load import good_workspace
from test_output_schemas import ERROR, faults
from toy_workspace import toy_runtime

from orchestrator import cli
from orchestrator.build.authoring.export_model import ExportedModel
from orchestrator.build.indexing.make_index import MadeIndex
from orchestrator.build.indexing.make_library_index import MadeFeatures, MadeLibraryIndex
from orchestrator.build.shipped.addon import Addon, Fits
from orchestrator.build.shipped.addon_models import Proof
from orchestrator.build.workshop.runtimes import Runtimes
from orchestrator.commands import addon, export, library, runtime
from orchestrator.models.info import read_model
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.report.canonical import OmittedRewrite, RewriteLine
from orchestrator.system.folders import ensure_folder
from orchestrator.values.operators import OperatorName as Op
from orchestrator.verify.verdict import VerifyResult

ROOT = Path(__file__).parents[3]
CLASSIFIER = ROOT / "apps/camera/models/classifier.ptl"
LOCKS = ROOT / "apps/keyboard/traces/next_word.yaml", ROOT / "apps/camera/traces/classifier.yaml"
Ask = Callable[..., Any]


@dataclass(frozen=True)
class Answer:
    """A command's exit code, stdout and stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    """Runs a command in a workspace that is good."""
    root = good_workspace(tmp_path)
    monkeypatch.chdir(root)
    for module in (addon, export, library, runtime):
        monkeypatch.setattr(module, "cache_in_use", lambda *_: nullcontext())
    for module in (addon, library, runtime):
        monkeypatch.setattr(module, "workspace_lock", lambda *_: nullcontext())
        monkeypatch.setattr(module, "check_launcher", lambda _: None)

    def run(*words: str) -> Answer:
        env = {"ORCHESTRATOR_CACHE": str(tmp_path / "the cache"), "PATH": ""}
        code = cli.main(words, env=env, cwd=root)
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return run


def told(form: str, answer: Answer) -> dict[str, Any]:
    """The answer's value; nothing is said besides."""
    assert (answer.code, answer.err) == (0, "")
    assert faults(form, answer.out) == []
    value: dict[str, Any] = json.loads(answer.out)
    return value


def refused(answer: Answer) -> str:
    """The code of the error that an answer is."""
    assert answer.code == 1
    assert faults("failure", answer.out) == []
    code: str = json.loads(answer.out)["error"]["code"]
    return code


def test_clean(ask: Ask, tmp_path: Path) -> None:
    assert told("clean", ask("clean", "--json")) == {
        "format": 1,
        "is_dry_run": False,
        "removed": [],
        "kept": [],
        "bytes": 0,
    }
    dist = ensure_folder(tmp_path / "dist", "dist")
    (dist / "camera/packages").mkdir(parents=True)
    mine = dist / "camera/packages/mine.txt"
    mine.write_text("12345")
    (dist / "x").write_text("123")
    marker = (dist / ".made-by-orchestrator").stat().st_size
    for words, dry in ((["--dry-run"], True), (["--quiet"], False)):
        value = told("clean", ask("clean", "--json", *words))
        assert value["is_dry_run"] is dry
        assert value["removed"] == [{"folder": str(dist), "bytes": value["bytes"]}]
        assert value["kept"] == [str(mine)]
        assert 3 <= value["bytes"] <= 3 + marker
    assert mine.exists()
    assert not (dist / "x").exists()
    ensure_folder(tmp_path / "the cache", "cache")
    (tmp_path / ".orchestrator").mkdir()
    (tmp_path / ".orchestrator/foreign").touch()
    assert refused(ask("clean", "--json")) == "FOLDER_NOT_OURS"


def test_addon(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Addon(
        tmp_path / "dist/addons/x",
        (tmp_path / "dist/addons/x.tar.zst", tmp_path / "dist/addons/x.deb"),
        "camera 1.0",
        (Op("aten::sort"),),
        12_345,
        3,
        (
            Proof("add-on", "x", 64 * "a", VerifyResult("x", "ok", 2), "recorded outputs"),
            Proof("library", "x", 64 * "b", VerifyResult("x", "ok", 1), "the library alone"),
            Proof("library", "y", 64 * "c", None, why_not="//apps/camera has no model y"),
        ),
    )
    monkeypatch.setattr(addon, "addon", lambda *_, **__: made)
    words = ["addon", "--for", "dist/camera/linux-x86_64", "x.ptl"]
    value = told("addon", ask(*words, "--json"))
    assert (value["library"], value["reason"]) == ("camera 1.0", "")
    assert value["addon"]["folder"] == "dist/addons/x"
    assert value["addon"]["archive"] == "dist/addons/x.tar.zst"
    assert value["addon"]["packages"] == ["dist/addons/x.tar.zst", "dist/addons/x.deb"]
    keys = ("of", "model", "sha256", "status", "runs", "reason", "compared_with")
    assert [[one[key] for key in keys] for one in value["addon"]["models"]] == [
        ["add-on", "x", 64 * "a", "ok", 2, "", "recorded outputs"],
        ["library", "x", 64 * "b", "ok", 1, "", "the library alone"],
        ["library", "y", 64 * "c", "not here", 0, "//apps/camera has no model y", None],
    ]
    assert ask(*words).out == (
        "dist/addons/x: 12,345 bytes for camera 1.0, 3 compiled\n  operators: aten::sort\n"
        "  with the library, x: ok\n"
        "  with the library, its own x: ok, compared with the library alone\n"
        "  with the library, its own y: not here, NOT VERIFIED: //apps/camera has no model y\n"
        "  dist/addons/x.tar.zst\n  dist/addons/x.deb\n"
    )
    asked: list[object] = []

    def noting(*_: object, unverified: bool, **__: object) -> Addon:
        asked.append(unverified)
        return made

    monkeypatch.setattr(addon, "addon", noting)
    ask(*words)
    ask(*words, "--unverified")
    assert asked == [False, True]
    monkeypatch.setattr(addon, "addon", lambda *_, **__: Fits("camera 1.0", "it has all"))
    assert told("addon", ask(*words, "--json")) == {
        "format": 1,
        "library": "camera 1.0",
        "reason": "it has all",
        "addon": None,
    }

    def fails(*_: object, **__: object) -> None:
        raise ERROR

    monkeypatch.setattr(addon, "addon", fails)
    assert refused(ask(*words, "--json")) == "ORCHESTRATOR"
    assert refused(ask("addon", "--json")) == "USAGE"


def test_export_of_a_model(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    info = read_model(CLASSIFIER, DIALECT.models, name="classifier.ptl")
    calls = [SimpleNamespace(result=one, why=None) for one in ("same", "same", "not taken")]
    calls.append(SimpleNamespace(result="refused", why="size 1 of x must be 6"))
    result: Any = SimpleNamespace(
        comparison=calls, largest=1e-7, via="export", notes=("the result is tuple(Tensor, Tensor)",)
    )
    rewrites = (RewriteLine("clamp", "aten::hardtanh", ("aten::clamp",), 2, "so"),)
    left = (OmittedRewrite("stack", 12_000), OmittedRewrite("sizes", 0, "aten::numel"))
    file = "apps/vad/models/net.ptl"
    beside = "apps/vad/models/net.npz"
    made = ExportedModel("vad", file, beside, info, result, False, False, False, rewrites, left)
    monkeypatch.setattr(export, "export_model", lambda *_: made)
    words = ["export", "model", "apps/vad", "--module", "a:B", "--inputs", "a:inputs"]
    value = told("export", ask(*words, "--json"))
    assert value["compared"] == {
        **{"same": 2, "not_taken": 1, "refused": 1, "unsteady": 0},
        **{"flat": 0, "too_small": 0},
    }
    assert value["via"] == "export"
    assert value["notes"] == ["the result is tuple(Tensor, Tensor)"]
    assert len(value["operators"]) == 13
    assert [one["name"] for one in value["rewrites"]] == ["clamp"]
    assert value["left_out"][0] == {"name": "stack", "bytes": 12_000, "forbidden": None}
    steps = [
        "declare net.ptl under `models:` in apps/vad/app.yaml",
        "declare `inputs: models/net.npz` for net.ptl in apps/vad/app.yaml",
        "./orchestrate trace //apps/vad",
        "./orchestrate build //apps/vad",
    ]
    assert value["next"] == steps
    assert ask(*words).out == (
        f"apps/vad/models/net.ptl: 13 operators, {info.size:,} bytes\n"
        "  2 calls compared with the module, largest difference 1e-07\n"
        "  1 more were not: the module takes no such inputs\n"
        "  1 more were not: the model does not take them: size 1 of x must be 6\n"
        "  inputs: apps/vad/models/net.npz\n"
        "  the result is tuple(Tensor, Tensor)\n"
        "  clamp: aten::hardtanh (2 calls) becomes aten::clamp: so\n"
        "  stack: left out: with it the app's library is 12 kB larger\n"
        "  sizes: left out: it brings aten::numel, which app.yaml forbids\n"
        "next:\n" + "".join(f"  {step}\n" for step in steps)
    )
    assert refused(ask("export", "model", "apps/vad", "--json")) == "EXPORT_ARGUMENTS"
    for method in ("encode", "encode=", "1=a:b"):
        words = ["export", "model", "apps/vad", "--module", "a:B", "--method", method, "--json"]
        assert refused(ask(*words)) == "EXPORT_ARGUMENTS"


def test_export_for_bazel(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runtimes, "prepare", lambda *_: None)
    monkeypatch.setattr(export, "require_traced", lambda *_: None)
    monkeypatch.setattr(export, "export_bazel", lambda *_: None)
    value = told("export", ask("export", "bazel", "out", "--json"))
    assert value == {
        "format": 1,
        "folder": str(tmp_path / "out"),
        "variants": [{"app": "camera", "abi": "linux-x86_64"}],
    }
    assert ask("export", "bazel", "out").out == f"{tmp_path}/out: 1 variant\n"


def test_library(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "made.zst"
    file.write_bytes(b"12345")
    index = SimpleNamespace(units=[1], names=[1, 2], edges=[1, 2, 3])
    both: Any = SimpleNamespace(index=index)
    pinned = SimpleNamespace(data=SimpleNamespace(indexed={"x86_64": 1, "arm64": 2}))
    monkeypatch.setattr(Runtimes, "on", lambda *_: toy_runtime())
    assert refused(ask("library", "index", "--json")) == "LIBRARY_UNPINNED"
    monkeypatch.setattr(library, "_pinned", lambda _: pinned)
    monkeypatch.setattr(
        library, "make_library_index", lambda *_, **__: MadeLibraryIndex(both, file, ("bad.c",))
    )
    value = told("library", ask("library", "index", "--json"))
    assert [one["processor"] for one in value["files"]] == ["arm64", "x86_64"]
    assert value["files"][0] == {
        "file": "made.zst",
        "bytes": 5,
        "processor": "arm64",
        "units": 1,
        "names": 2,
        "references": 3,
        "left_out": ["bad.c"],
    }
    words = ["library", "index", "--processor", "arm64"]
    assert len(told("library", ask(*words, "--json"))["files"]) == 1
    assert ask(*words).out == (
        "made.zst: 5 bytes\n  1 units\n  2 functions and data, 3 references\n"
        "  bad.c does not compile: omitted\n"
    )
    entry: Any = SimpleNamespace(library=("a", "b"), runtime=("c",))
    monkeypatch.setattr(
        library, "make_features", lambda *_, **__: MadeFeatures({"conv": entry}, file)
    )
    value = told("library", ask("library", "kernels", "--json"))
    assert value["files"] == [
        {"file": "made.zst", "bytes": 5, "kernels": {"conv": {"library": 2, "others": 1}}}
    ]
    assert ask("library", "kernels").out == (
        "made.zst: 5 bytes\n  conv: 2 symbols of the library, 1 others\n"
    )
    assert refused(ask("library", "--json")) == "USAGE"


def test_runtime(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "made.zst"
    file.write_bytes(b"12345")
    index: Any = SimpleNamespace(
        units=[1] * 2, names=[1] * 3000, edges=[1] * 4000, registrations=[1] * 5000
    )
    entry: Any = SimpleNamespace(library=("a", "b"), tracer=("c",))
    made = MadeIndex(index, file, entry, 1, ("_ZN2at4goneEv",))
    asked = list[list[str]]()

    def make(*_: Any, only: list[str], **__: Any) -> MadeIndex:
        asked.append(only)
        return made

    monkeypatch.setattr(Runtimes, "on", lambda *_: toy_runtime())
    monkeypatch.setattr(runtime, "make_index", make)
    assert told("runtime", ask("runtime", "index", "--json", "--unit", "a.cpp")) == {
        "format": 1,
        "file": "made.zst",
        "bytes": 5,
        "units": 2,
        "compiled": 1,
        "names": 3000,
        "references": 4000,
        "registrations": 5000,
        "entry_symbols": {"library": 2, "tracer": 1},
        "undefined": ["_ZN2at4goneEv"],
    }
    assert ask("runtime", "index").out == (
        "made.zst: 5 bytes\n"
        "  2 units, 1 compiled now\n"
        "  3,000 functions and data, 4,000 references\n"
        "  5,000 registrations\n"
        "  3 entry symbols\n"
        "  no unit defines _ZN2at4goneEv\n"
    )
    assert asked == [["a.cpp"], []]
    assert refused(ask("runtime", "--json")) == "USAGE"


def test_select(ask: Ask) -> None:
    words, camera = map(str, LOCKS)
    value = told("select", ask("select", "diff", words, camera, "--json"))
    lines = [f"{'+' if one['added'] else '-'} {one['part']} {one['name']}" for one in
             value["changes"]]  # fmt: skip
    assert lines == ask("select", "diff", words, camera).out.splitlines()
    assert "- operator aten::embedding" in lines
    merged = told("select", ask("select", "merge", words, camera, "--json"))
    assert merged["form"] == "pytorch"
    assert "aten::conv2d" in merged["selection"]["operators"]
    listed = told("select", ask("select", "show", camera, "--as", "list", "--json"))
    assert "aten::conv2d" in listed["selection"]
    assert refused(ask("select", "diff", words, "--json")) == "FILES_MISCOUNTED"
    assert refused(ask("select", "show", "none.yaml", "--json")) == "SELECTION_MISSING"
