"""schemas/output.schema.json is true of what commands print with --json, in success and failure."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from memory_toy import MEMORY
from test_load import APP, TOOLCHAIN, good_workspace
from test_report_canonical import REPORT as CANONICAL
from test_report_plan import toy
from test_table import PACKAGES, REPORT

from orchestrator import cli
from orchestrator.build.delivering.keep_going import failed_row
from orchestrator.build.delivering.memory import Measured as Memory
from orchestrator.build.explaining.explain import Answer
from orchestrator.build.explaining.size import Bytes, Measured
from orchestrator.build.tracing.trace import TracedApp, TracedModel
from orchestrator.build.workshop.runtimes import Runtimes
from orchestrator.build.workshop.toolchains import Toolchains
from orchestrator.ci.jobs import Job, Matrix
from orchestrator.commands import COMMANDS, coverage, memory, size, toolchain, verify, why
from orchestrator.commands import explain as explain_command
from orchestrator.commands import trace as trace_command
from orchestrator.compilers.capabilities import Capabilities
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.advisories import OWN, read_advisories
from orchestrator.report import advisories
from orchestrator.report.canonical import to_json
from orchestrator.report.coverage import ModelCoverage
from orchestrator.report.events import Event, last_events
from orchestrator.report.explanation import Difference, Explanation
from orchestrator.report.memory import memory_text
from orchestrator.report.table import BuildReport, Engine, Exported
from orchestrator.size.attribution import Asked, Attribution, Share
from orchestrator.size.graph import LinkedGraph, Node
from orchestrator.trace.difference import Change
from orchestrator.values.advisories import LibraryVerdicts, Verdict
from orchestrator.values.coverage import CoverageSum, MethodCoverage
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace, TraceIdentity
from orchestrator.verify.verdict import Failure, VerifyResult

SCHEMA = json.loads((Path(__file__).parents[3] / "schemas/output.schema.json").read_text())
ERROR = OrchestratorError("too large", place=Place("a", 1, 2), facts={"stripped_bytes": 7})


def faults(form: str, text: str) -> list[str]:
    """What a form of the schema has against an output."""
    schema = {"$ref": f"#/$defs/{form}", "$defs": SCHEMA["$defs"]}
    value = json.loads(text)
    found = [error.message for error in Draft202012Validator(schema).iter_errors(value)]
    return found + [error.message for error in Draft202012Validator(SCHEMA).iter_errors(value)]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return good_workspace(tmp_path)


def run(workspace: Path, *words: str) -> int:
    return cli.main(words, env={"ORCHESTRATOR_CACHE": "cache", "PATH": ""}, cwd=workspace)


def test_the_schema_is_valid() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_every_verb_that_prints_json_has_a_form() -> None:
    def prints(name: str) -> bool:
        parser = argparse.ArgumentParser()
        COMMANDS[name].load().add_arguments(parser)
        return "--json" in parser.format_help()

    assert {n for n in COMMANDS if prints(n)} <= SCHEMA["$defs"].keys()


@pytest.mark.parametrize(
    "report",
    [
        REPORT,
        BuildReport(REPORT.variants, packages=PACKAGES, errors=(ERROR,)),
        BuildReport((failed_row(VariantLabel("a", "b"), ERROR, 1, 2, 3),), replayed=True),
        BuildReport(
            (replace(REPORT.variants[0], levels_run=("baseline",), levels_not_run=("avx2",)),)
        ),
        BuildReport((replace(REPORT.variants[1], extensible=Exported(2, {".dynsym": 48})),)),
        BuildReport(
            (replace(REPORT.variants[1], engines=(Engine("a", 1, ("m",)), Engine("b", 2))),)
        ),
        BuildReport(()),
    ],
)
def test_a_build(report: BuildReport) -> None:
    assert faults("build", report.to_json()) == []


def test_a_failed_variant_tells_the_numbers_that_are_known() -> None:
    row = failed_row(VariantLabel("a", "b"), ERROR, 1, 2, 3)
    (told,) = json.loads(BuildReport((row,)).to_json())["variants"]
    assert told["stripped_bytes"] == 7
    assert told["error"]["facts"] == {"stripped_bytes": 7}


def test_advisories() -> None:
    found = LibraryVerdicts(
        VariantLabel("a", "b"),
        "2.6.0",
        (Verdict(read_advisories(OWN)[0], "not_affected", "code_not_present", ("in Python",)),),
        0,
    )
    delivered = replace(found, package="a.deb")
    text = json.dumps({"format": 1, "libraries": advisories.values([found, delivered])})
    assert faults("advisories", text) == []


def test_what_memory_prints(
    two_abis: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(_: object, labels: list[VariantLabel], **__: object) -> list[Memory]:
        return [Memory(labels[0], (MEMORY,)), Memory(labels[1], (), "no emulator")]

    monkeypatch.setattr(memory, "require_traced", lambda *_: None)
    monkeypatch.setattr(memory, "measured", found)
    assert run(two_abis, "memory", "--json") == 0
    out = capsys.readouterr().out
    assert faults("memory", out) == []
    told = json.loads(out)
    assert [one["abi"] for one in told["models"]] == ["a"]
    assert told["not_measured"] == [{"app": "camera", "abi": "b", "why": "no emulator"}]
    assert run(two_abis, "memory", "--top", "1") == 0
    printed = capsys.readouterr()
    assert printed.out == memory_text(VariantLabel("camera", "a"), MEMORY, 1)
    assert "//apps/camera:b: not measured: no emulator\n" in printed.err
    nothing = Memory(VariantLabel("camera", "b"), (), "no emulator")
    monkeypatch.setattr(memory, "measured", lambda *_, **__: [nothing])
    assert run(two_abis, "memory") == 1
    assert "no library of these runs on this machine" in capsys.readouterr().err


def test_canonical_models() -> None:
    assert faults("canonical", to_json(CANONICAL)) == []


def test_a_plan_and_a_matrix() -> None:
    assert faults("plan", toy().to_json()) == []
    matrix = Matrix("c", (Job("camera", "linux-x86_64", ("its model",)),))
    assert faults("matrix", matrix.to_json()) == []


def test_what_doctor_and_cache_print(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["doctor"], ["cache"], ["cache", "--prune", "--max", "0B", "--dry-run"]):
        (workspace / "cache").mkdir(exist_ok=True)
        code = run(workspace, *words, "--json")
        assert faults(words[0], capsys.readouterr().out) == []
        assert code == (1 if words[0] == "doctor" else 0)


@pytest.mark.parametrize(
    "words",
    [
        ["build", "//apps/nope"],
        ["plan", "camera"],
        ["verify", "//apps/camera:linux-armv7"],
        ["trace", "//apps/camera", "--nope"],
        ["why", "//apps/camera"],
        ["explain", "//apps/camera"],
        ["cache", "--prune"],
        ["bild"],
    ],
)
def test_failures(words: list[str], workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(workspace, *words, "--json") == 1
    assert faults("failure", capsys.readouterr().out) == []


def test_several_faults_are_values_too(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "apps/camera/app.yaml").write_text("models: [{file: x.ptl}]\ntargets: [y]\n")
    assert run(workspace, "plan", "--json") == 1
    out = capsys.readouterr().out
    assert faults("failure", out) == []
    error = json.loads(out)["error"]
    assert error["code"] == "DECLARATION_ERRORS"
    assert [(one["code"], one["place"]["line"]) for one in error["errors"]] == [
        ("MISSING_MODEL", 1),
        ("UNKNOWN_TARGET", 2),
    ]


@pytest.fixture
def two_abis(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with one app and two ABIs, whose runtime is there."""
    (workspace / "apps/camera/app.yaml").write_text(APP.replace("linux-x86_64", "a, b"))
    (workspace / "toolchains/linux-x86_64.yaml").unlink()
    for abi in ("a", "b"):
        declared = TOOLCHAIN.replace("abi: linux-x86_64", f"abi: {abi}")
        (workspace / f"toolchains/{abi}.yaml").write_text(declared)
    monkeypatch.setattr(Runtimes, "prepare", lambda *_: None)
    return workspace


def test_what_verify_prints(
    two_abis: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Failure("m", "forward[0]", "MISSING_OPERATOR", "x", ("aten::x",))

    def delivered(_: object, label: VariantLabel) -> tuple[VerifyResult, ...]:
        if label.abi == "a":
            raise ERROR
        return (VerifyResult("m", "failed", 1, (failed,)), VerifyResult("n", "ok", 2))

    monkeypatch.setattr(verify, "verify_delivered", delivered)
    assert run(two_abis, "verify", "--json") == 1
    captured = capsys.readouterr()
    assert faults("verify", captured.out) == []
    first, second = json.loads(captured.out)["variants"]
    assert (first["models"], first["error"]["message"]) == ([], "too large")
    assert second["error"]["code"] == "VERIFICATION_FAILED"
    assert [model["status"] for model in second["models"]] == ["failed", "ok"]
    # what is wrong with the first does not hide the second, in words too
    assert captured.err.count("error:") == 2
    assert run(two_abis, "verify") == 1
    assert capsys.readouterr().out == (
        "//apps/camera:b m: failed, 1 runs\n//apps/camera:b n: ok, 2 runs\n"
    )


def test_what_toolchain_show_prints(
    two_abis: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    able = Capabilities(*([True, False] * 3 + [True]))
    tool = SimpleNamespace(
        compiler="zig 1",
        driver=SimpleNamespace(target="x"),
        identity="ab",
        cc=Path("/c/cc"),
        for_release=True,
        capabilities=able,
        config=None,
        tools=None,
    )
    monkeypatch.setattr(Toolchains, "of", lambda *_: tool)
    monkeypatch.setattr(toolchain, "remembered", lambda *_: ())
    assert run(two_abis, "toolchain", "show", "--json") == 0
    out = capsys.readouterr().out
    assert faults("toolchain", out) == []
    assert [one["abi"] for one in json.loads(out)["toolchains"]] == ["a", "b"]
    assert run(two_abis, "toolchain", "show") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["a", "  compiler          zig 1", "  target            x"]


def test_what_trace_prints(
    two_abis: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace("camera", "m", TraceIdentity("m", "r", "i", ("CPU",), "t"), (Op("x::y"),), {}, {})
    app: Any = SimpleNamespace(name="camera")
    changes = (Change("hot tags", ("a", "b"), ("c",)), Change("outputs", detail="a\n"))
    methods = (MethodCoverage("forward", CoverageSum(40, 4, 4, 1), ("net.py:3-5",)),)
    flat = ("forward output[1] (all 0)", "forward output[2] (none)")
    first = TracedModel(trace, None, ("forward[0] output",), (), methods, flat=flat)
    traced = TracedApp(app, (first, replace(first, changes=changes, flat=())), "tracer", 12, 3)
    monkeypatch.setattr(trace_command, "trace_apps", lambda *_, **__: (traced,))
    assert run(two_abis, "trace", "--json") == 0
    out = capsys.readouterr().out
    assert faults("trace", out) == []
    first, again = json.loads(out)["apps"][0]["models"]
    assert (first["never_ran"], first["changes"]) == (["x::y"], None)
    assert again["changes"] == [
        {"part": "hot tags", "added": ["a", "b"], "removed": ["c"], "detail": ""},
        {"part": "outputs", "added": [], "removed": [], "detail": "a\n"},
    ]
    assert first["coverage"]["percent"] == 88
    assert run(two_abis, "trace") == 0
    printed = capsys.readouterr().out
    assert printed == (
        "//apps/camera: tracer of 12 units, 3 compiled\n"
        "  m: 0 operators ran, 0 kernel tags; never ran: x::y\n"
        "    its inputs ran 88 % of its code: 4 instructions and 1 ways out of branches are left"
        " (./orchestrate coverage //apps/camera)\n"
        "    compared by kind and shape only: forward[0] output\n"
        "    numbers that are all the same prove nothing:"
        " forward output[1] (all 0), forward output[2] (none)\n"
        "  m: 0 operators ran, 0 kernel tags; never ran: x::y\n"
        "    its inputs ran 88 % of its code: 4 instructions and 1 ways out of branches are left"
        " (./orchestrate coverage //apps/camera)\n"
        "    compared by kind and shape only: forward[0] output\n"
        "    changed in the lock: hot tags +a +b -c; outputs (a\\n)\n"
    )
    assert run(two_abis, "trace", "--require-coverage=88") == 0
    capsys.readouterr()
    # what was traced is told first
    assert run(two_abis, "trace", "--require-coverage") == 1
    captured = capsys.readouterr()
    assert captured.out == printed
    assert captured.err == (
        "error: the inputs of models leave code unrun\n"
        "  expected: 100 % of the instructions and of the ways out of branches\n"
        "  seen:     camera/m 88 %, camera/m 88 %\n"
        "  do:       add inputs that run what is missing, or take it out of the models\n"
    )


def test_what_trace_prints_of_models_that_failed(
    two_abis: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace("camera", "m", TraceIdentity("m", "r", "i", ("CPU",), "t"), (), {}, {})
    camera: Any = SimpleNamespace(name="camera")
    vad: Any = SimpleNamespace(name="vad")
    two = SimpleNamespace(models=(None, None))
    gate: Any = SimpleNamespace(name="gate", config=two)
    both = (ERROR, OrchestratorError("it died", hint="run it in PyTorch"))
    traced = (
        TracedApp(camera, (TracedModel(trace, None, (), ()),), "tracer", 12, 3, both),
        TracedApp(vad, (TracedModel(trace, None, (), ()),), "development library", 2, 0),
        TracedApp(gate, (), None, 0, 0, (ERROR,)),
    )
    monkeypatch.setattr(trace_command, "trace_apps", lambda *_, **__: traced)
    told = "a:1:2: error: too large\nerror: it died\n  do:       run it in PyTorch\n"
    told += "a:1:2: error: too large\n"
    assert run(two_abis, "trace", "--require-coverage", "100", "--json") == 1
    out, err = capsys.readouterr()
    assert faults("trace", out) == []
    failed, good, refused = json.loads(out)["apps"]
    recorders = [one["recorder"] for one in (failed, good, refused)]
    assert recorders == ["tracer", "development library", None]
    assert [one["message"] for one in failed["errors"]] == ["too large", "it died"]
    assert good["errors"] == []
    assert (refused["models"], len(refused["errors"])) == ([], 1)
    assert err == told
    assert run(two_abis, "trace") == 1
    out, err = capsys.readouterr()
    assert out == (
        "//apps/camera: tracer of 12 units, 3 compiled\n"
        "  m: 0 operators ran, 0 kernel tags\n"
        "  no lock was written: 2 of 3 models failed\n"
        "//apps/vad: development library of 2 units, 0 compiled\n"
        "  m: 0 operators ran, 0 kernel tags\n"
        "//apps/gate: 1 of 2 models refused\n"
    )
    assert err == told


COVERED = (
    ModelCoverage(
        "camera",
        "m",
        (
            MethodCoverage("forward", CoverageSum(40, 4, 4, 1), ("net.py:3-5", "if at net.py:9")),
            MethodCoverage("suggest", CoverageSum(9, 0, 2, 0), ()),
        ),
    ),
    ModelCoverage("camera", "old", None),
)


def test_what_coverage_prints(
    two_abis: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "covered", lambda *_: iter(COVERED))
    assert run(two_abis, "coverage", "--json") == 0
    out = capsys.readouterr().out
    assert faults("coverage", out) == []
    model, old = json.loads(out)["models"]
    assert (model["coverage"]["percent"], old["coverage"]) == (90, None)
    assert run(two_abis, "coverage") == 0
    assert capsys.readouterr().out == (
        "model       method   instructions  unrun  ways  untaken  cover  missing\n"
        "camera/m    forward            40      4     4        1    88%  net.py:3-5; if at"
        " net.py:9\n"
        "camera/m    suggest             9      0     2        0   100%\n"
        "camera/old                                                   -  not recorded: trace it"
        " again\n"
        "total                          49      4     6        1    90%\n"
    )
    assert run(two_abis, "coverage", "--require", "90") == 1
    assert capsys.readouterr().err == (
        "error: the inputs of //apps/camera old leave code unrun\n"
        "  expected: 90 % of the instructions and of the ways out of branches\n"
        "  seen:     camera/old not recorded\n"
        "  do:       trace the models again\n"
    )


@pytest.mark.parametrize("text", ["101", "-1", "x", "//apps/camera", "9999"])
def test_what_is_no_percentage(text: str, workspace: Path) -> None:
    assert run(workspace, "coverage", f"--require={text}") == 1


@pytest.mark.parametrize("lines", [(), ("m: it ran once",)])
def test_what_why_prints(
    lines: tuple[str, ...],
    two_abis: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(why, "require_traced", lambda *_: None)
    absent = () if lines else ("m: its bytecode does not name it, and no input ran it",)
    monkeypatch.setattr(
        why, "why", lambda _, label, subject: Answer(label, subject, lines, absent=absent)
    )
    monkeypatch.setattr(why, "bytes_of", lambda *_: Bytes(1, 2, None))
    for words in ([], ["--bytes"]):
        assert run(two_abis, "why", "//apps/camera", "x", "--json", *words) == 0
        out = capsys.readouterr().out
        assert faults("why", out) == []
        assert json.loads(out)["present"] == bool(lines)
        assert tuple(json.loads(out).get("absent", ())) == absent
        assert ("bytes" in json.loads(out)) == bool(lines and words)


@pytest.mark.parametrize("by", ["area", "operator", "dtype", "model", "unit", "symbol"])
def test_what_size_prints(
    by: str, two_abis: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = (Share((), "c10/a.cpp", "code", 5), Share(("aten::add",), "", "strings", 2))
    asked = {"aten::add": Asked({"m": ("forward at m.py:1",)})}
    found = Attribution("camera", "a", "", 7, None, {}, asked, shares)
    graph = LinkedGraph([Node("f", "c10/a.cpp", {"code": 7})], [0], {}, set())
    monkeypatch.setattr(size, "require_traced", lambda *_: None)
    monkeypatch.setattr(size, "measured", lambda *_: Measured(found, graph))
    assert run(two_abis, "size", "//apps/camera:a", f"--by={by}", "--json") == 0
    out = capsys.readouterr().out
    assert faults("size", out) == []
    (library,) = json.loads(out)["libraries"]
    assert sum(row["bytes"] for row in library["rows"]) == library["bytes"] == 7
    assert run(two_abis, "size", "//apps/camera:a", f"--by={by}") == 0
    assert capsys.readouterr().out.startswith("//apps/camera:a: 7 bytes\n")


def test_what_size_prints_of_two_builds(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"aten::add": Asked({"m": ("forward at m.py:1",)})}
    before = Attribution("camera", "a", "", 5, 3, {}, {}, (Share((), "c10/a.cpp", "code", 5),))
    after = replace(
        before,
        size=7,
        asked=asked,
        shares=(*before.shares, Share(("aten::add",), "", "strings", 2)),
    )
    paths = [str(workspace / "before.json"), str(workspace / "after.json")]
    for path, one in zip(paths, (before, after), strict=True):
        Path(path).write_text(one.text())
    assert run(workspace, "size", *paths, "--json", "--growth", "2B") == 0
    out = capsys.readouterr().out
    assert faults("size", out) == []
    assert json.loads(out)["changes"][0]["operators"] == [
        {"name": "aten::add", "before": 0, "after": 2, "sites": "m: forward at m.py:1"}
    ]
    assert run(workspace, "size", *paths, "--format=markdown", "--growth", "1B") == 1
    out, err = capsys.readouterr()
    assert "| `camera:a` | 5 | 7 | +2 (+40.00 %) | +0 | :x: more than 1 bytes |" in out
    assert err == (
        "error: 1 library grew by more than allowed\n"
        "  expected: at most 1 bytes more\n"
        "  seen:     2 bytes more in //apps/camera:a\n"
        "  do:       see what grew above, or allow more: --growth\n"
    )
    assert run(workspace, "size", *paths, "--growth", "1 parsec") == 1
    assert "not a size, such as 20kB: '1 parsec'" in capsys.readouterr().err
    # one document, also where the answer is no
    assert run(workspace, "size", *paths, "--json", "--growth", "1B") == 1
    out, err = capsys.readouterr()
    assert faults("size", out) == []
    assert json.loads(out)["changes"][0]["grew_too_much"]
    assert err == ""


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["//...", "--growth", "1B"], "--growth"),
        (["//...", "--format", "markdown"], "--format markdown"),
        (["WORKSPACE"], "WORKSPACE"),
        (["WORKSPACE", "WORKSPACE", "--since", "HEAD"], "WORKSPACE"),
    ],
)
def test_what_needs_two_builds(
    words: list[str],
    what: str,
    workspace: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(workspace)
    assert run(workspace, "size", *words) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: {what} goes with a comparison of two builds\n")


def test_rows_are_at_least_one(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(workspace, "size", "--top", "-3") == 1
    assert "`-3` is not an integer of at least 1" in capsys.readouterr().err


def test_what_explain_prints_of_the_last_build(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(workspace, "explain", "--last", "--json") == 1
    out = capsys.readouterr().out
    assert faults("failure", out) == []
    assert json.loads(out)["error"]["code"] == "NO_LAST_BUILD"
    assert run(workspace, "explain") == 1
    assert "error: there is nothing to explain\n" in capsys.readouterr().err
    events = (Event("begun", 0.0, said="//apps/camera:a"), Event("stage", 1.0, "plan", 1.0))
    kept = last_events(workspace / ".orchestrator")
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("".join(one.line() for one in events))
    assert run(workspace, "explain", "--last", "--json") == 0
    assert faults("explain", capsys.readouterr().out) == []
    assert run(workspace, "explain", "--last") == 0
    assert capsys.readouterr().out == "the last build: //apps/camera:a\n      1.00 s  plan\n"


def test_what_explain_prints(
    two_abis: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def explained(_: object, label: VariantLabel, name: str) -> tuple[Explanation, ...]:
        assert name == "link"
        flags = (Difference("flags", added=("-s",)), Difference("compiler", before="1", after="2"))
        first = Explanation(str(label), "x.so", "link", "changed", flags)
        return first, Explanation(str(label), "x.a", "nothing", "same", last_change=flags)

    monkeypatch.setattr(explain_command, "require_traced", lambda *_: None)
    monkeypatch.setattr(explain_command, "explain", explained)
    assert run(two_abis, "explain", "//apps/camera:a", "link", "--json") == 0
    out = capsys.readouterr().out
    assert faults("explain", out) == []
    told = json.loads(out)
    assert (told["label"], told["subject"]) == ("//apps/camera:a", "link")
    assert [one["action"] for one in told["actions"]] == ["x.so", "x.a"]
    assert run(two_abis, "explain", "//apps/camera:a", "link") == 0
    assert capsys.readouterr().out == (
        "x.so of //apps/camera:a: to be linked again; since the last build:\n"
        "  flags: added -s\n"
        "  compiler: 1 -> 2\n"
        "x.a of //apps/camera:a: up to date\n"
        "  what differed when it was last made:\n"
        "    flags: added -s\n"
        "    compiler: 1 -> 2\n"
    )


def test_explain_takes_one_variant(
    two_abis: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(two_abis, "explain", "//apps/camera", "link") == 1
    assert capsys.readouterr().err == (
        "error: explain needs one variant\n"
        "  expected: one label, such as //apps/camera:a\n"
        "  seen:     //apps/camera, which is 2 variants\n"
    )
