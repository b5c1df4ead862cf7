"""The outputs in README.md and the guides are what commands print.

Here are those that take no build: some by the command itself, others by the code that prints them,
from the values that the page speaks of. What takes a build is compared in the tests that build
(`shown` in tests/integration), and a whole page by tests/first_hour.
"""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from guide import ROOT, Shown, agrees, differences, listed, outputs, rough, shown, shown_json
from rich.console import Console
from test_explanation import NEW, OLD, log
from test_load import good_workspace

from orchestrator import cli
from orchestrator.build.tracing.trace import TracedApp, TracedModel
from orchestrator.commands import trace, verify
from orchestrator.errors import Place
from orchestrator.execute.action_log import BuildLogs
from orchestrator.report import coverage
from orchestrator.report.canonical import CanonicalReport, CanonicalRow, PricedApp, RewriteLine
from orchestrator.report.canonical import plain as canonical_text
from orchestrator.report.explanation import explanation
from orchestrator.report.fits import FitRow, FitsReport
from orchestrator.report.packages import MissingAbi, PackageFile, PackageReport
from orchestrator.report.table import BuildReport, VariantReport
from orchestrator.trace.difference import Change
from orchestrator.values.coverage import CoverageSum, MethodCoverage
from orchestrator.values.fits import Lack
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace, TraceIdentity
from orchestrator.verify.verdict import VerifyResult

# every output of it is compared by tests/first_hour
WHOLE = {"docs/guide/your-own-repository.md"}
ASKS = ("shown", "listed")


def asked_for() -> Iterator[tuple[str, str]]:
    """(page, start) of each call of `shown` or `listed` in the tests."""
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if not any(f"{name}(" in text for name in ASKS):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ASKS:
                words = [one.value for one in node.args if isinstance(one, ast.Constant)]
                if len(words) == 2:
                    yield str(words[0]), str(words[1])


def test_every_output_is_compared() -> None:
    """Listings too, and those of a page of which only the outputs are compared as a whole."""
    asked = {*asked_for()}
    wanted = [one for one in outputs() if one.page not in WHOLE or one.is_listing]
    left = [
        one
        for one in wanted
        if not any(one.page == page and one.output.startswith(start) for page, start in asked)
    ]
    assert left == []
    assert len(asked) == len(wanted)


def test_the_rules() -> None:
    assert Shown("docs/guide/trace.md", shown("docs/guide/trace.md", "  next_word:")) in outputs()
    assert rough("app   size\nx    1.5 MB  88.3 %\n") == rough("app  size\nx  1 MB  7 %\n")
    assert rough("ok") != rough("failed")
    assert agrees("one of a, ..., z\n", "one of a, b, z\n")
    assert not agrees("one of a, ..., z\n", "one of a,\nb, z\n")
    assert not agrees("a.b\n", "a+b\n")


def test_the_rules_of_json() -> None:
    said = {"bytes": 1000, "seconds": 1.5, "a": [{"b": "x..."}, None], "n": 7}
    assert (
        differences(said, {"bytes": 1010, "seconds": 9.0, "a": [{"b": "xyz"}, None], "n": 7}) == []
    )
    for key, value in (
        ("bytes", 1011),
        ("seconds", None),
        ("a", [{"b": "yz"}, None]),
        ("a", [{"b": "xyz"}, False]),
        ("a", [{"b": "xyz"}]),
        ("a", [{"c": "xyz"}, None]),
        ("n", 8),
        ("n", "7"),
        ("n", True),
    ):
        assert len(differences(said, {**said, key: value})) == 1, (key, value)
    assert differences({"a": 1, "b": 2}, {"b": 2, "a": 1}) != []
    assert differences({"n": 1}, {"n": True}) == [".n: 1, printed True"]


def test_a_report_for_machines() -> None:
    """Every key, and what follows from other values; all values, where camera is built."""
    said = shown_json("docs/guide/read-a-size-report.md", "variants")
    (row,), (package,) = said["variants"], said["packages"]
    variant = VariantReport(
        app=row["app"],
        abi=row["abi"],
        operators=row["operators"],
        units_compiled=row["units_compiled"],
        units_reused=row["units_reused"],
        stripped_bytes=row["stripped_bytes"],
        all_operators_bytes=row["all_operators_bytes"],
        verified=row["verified"],
        levels_run=tuple(row["levels_run"]),
    )
    files = tuple(PackageFile(**file) for file in package["files"])
    packed = PackageReport(package["app"], package["kind"], tuple(package["abis"]), files)
    report = BuildReport((variant,), said["actions_run"], said["seconds"], (packed,))
    assert report.to_json() == json.dumps(said, indent=2) + "\n"


def test_the_files_of_an_app() -> None:
    """Those that each app here has, for each of its models."""
    app, declaration, model, *traces = listed("docs/guide/add-an-app.md", "apps/greeter/")
    assert (app, declaration) == ("apps/greeter/", "app.yaml")
    for folder in (file.parent for file in ROOT.glob("apps/*/app.yaml")):
        models = yaml.safe_load((folder / "app.yaml").read_text())["models"]
        names = [one.get("name", Path(one["file"]).stem) for one in models]
        found = {
            file.relative_to(folder).as_posix()
            for part in ("models", "traces")
            for file in (folder / part).iterdir()
        }
        assert found == {one["file"] for one in models} | {
            one.replace("hello", name) for one in traces for name in names
        }
    assert model == "models/hello.ptl"


def test_coverage() -> None:
    missing = ("net.py:41-43, 57", "if at net.py:40 never true")
    methods = (
        MethodCoverage("forward", CoverageSum(386, 12, 29, 3), missing),
        MethodCoverage("suggest", CoverageSum(270, 0, 15, 0), ()),
    )
    table = coverage.plain([coverage.ModelCoverage("keyboard", "next_word", methods)])
    assert shown("docs/guide/trace.md", "model               method") == table


def test_readme_has_a_row_for_each_library() -> None:
    """That it is what a build prints is compared where everything is built."""
    header, *others = shown("README.md", "app         ABI").splitlines()
    rows = [one for one in others if not one.startswith("//")]
    assert header.split("  ")[0] == "app"
    declared = {
        (file.parent.name, abi)
        for file in ROOT.glob("apps/*/app.yaml")
        for abi in yaml.safe_load(file.read_text())["targets"]
    }
    assert [tuple(row.split()[:2]) for row in rows] == sorted(declared)


def test_an_error_in_a_declaration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = good_workspace(tmp_path)
    (root / "apps/camera/app.yaml").write_text(
        "models:\n  - file: models/small.ptl\ntargets:\n- linux-x86_46\n"
    )
    assert cli.main(["plan", "//apps/camera"], env={"HOME": "/home/me"}, cwd=root) == 1
    said = shown("docs/guide/troubleshooting.md", "apps/camera/app.yaml:4:3")
    assert agrees(said, capsys.readouterr().err)


def traced(model: str, operators: int, tags: int, unrun: tuple[str, ...], *changes: Change) -> str:
    """What `trace` prints of a model."""
    one = Trace(
        app="camera",
        model=model,
        identity=TraceIdentity("m", "r", "i", ("CPU",), "t"),
        root_operators=tuple(map(Op, unrun)),
        called_operators={Op(f"aten::o{number}"): 1 for number in range(operators)},
        kernel_tags={f"t{number}": {"Float": 1} for number in range(tags)},
    )
    app: Any = SimpleNamespace(name="camera")
    return printed(TracedApp(app, (TracedModel(one, changes, (), ()),), "tracer", 1, 0))


def printed(app: TracedApp) -> str:
    """Without the line on the recorder itself."""
    target = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", target)
        trace.print_traced(app)
    return target.getvalue().partition("\n")[2]


def test_what_changed_in_a_lock() -> None:
    changes = (
        Change("operators", ("aten::gelu",), ("aten::relu",)),
        Change("hot tags", ("GeluKernelImpl",)),
        Change("outputs"),
        Change("calls"),
    )
    said = shown("docs/guide/trace.md", "  next_word:")
    assert said == traced("next_word", 63, 18, ("aten::len.t",), *changes)


def test_what_changed_with_the_runtime() -> None:
    detail = "within the tolerance: forward[0] output[0, 3]: 0.25 -> 0.25000003, at most"
    changes = (
        Change("operators", ("aten::_fused_sdp_choice",), ("aten::_reshape_alias",)),
        Change("outputs", detail=f"{detail} 2.98e-08 apart, and 2 more"),
        Change("calls"),
        Change(
            "runtime",
            detail="pytorch_1_13 -> pytorch_2_6; a library of this model alone, with all dtypes,"
            " by the index: 1.71 MB -> 1.93 MB",
        ),
    )
    said = shown("docs/guide/trace.md", "    changed in the lock: operators +aten::_fused")
    assert said == traced("m", 1, 1, (), *changes).partition("\n")[2]


def test_a_model_with_random_numbers() -> None:
    target = io.StringIO()
    result = VerifyResult("speaker", "ok in part", 1, uncompared=("forward[0] output[1]",))
    verify._print(VariantLabel("voices", "linux-x86_64"), (result,), Console(file=target))
    assert shown("docs/guide/trace.md", "//apps/voices") == target.getvalue()


def test_a_canonical_model() -> None:
    before = (*(f"aten::o{number}" for number in range(12)), "aten::hardtanh")
    row = CanonicalRow(
        app="camera",
        model="classifier",
        file="apps/camera/models/classifier.canonical.ptl",
        kind="static",
        state="differs",
        torch="2.13.0",
        before=before,
        after=before[:8],
        bytes_before=445_000,
        bytes_after=171_000,
        library_before=1_732_000,
        library_after=1_597_000,
        largest=3e-07,
        compared=18,
        not_taken=0,
        unsteady=0,
        rewrites=(
            RewriteLine(
                "clamp", "aten::hardtanh", ("aten::clamp",), 17, "clamp is what computes it"
            ),
            RewriteLine(
                "freeze",
                "aten::batch_norm",
                (),
                25,
                "folded into constants, or not reached in a model that does not learn",
            ),
            RewriteLine(
                "ranks",
                "aten::gt.int",
                (),
                1,
                "what the model computes with tells it for all inputs",
            ),
        ),
        microseconds=(2588.0, 2073.0),
    )
    app = PricedApp("camera", 13, 8, 1_732_000, 1_597_000, ())
    report = CanonicalReport((row,), (app,))
    assert shown("docs/guide/canonical-models.md", "app     model") == canonical_text(report)


def test_a_package_that_lacks_an_abi() -> None:
    report = PackageReport(
        "camera",
        "aar",
        ("android-arm64-v8a",),
        missing=(MissingAbi("android-x86_64", "is not built"),),
    )
    assert shown("docs/guide/packages.md", "//apps/camera: no aar") == report.why_not() + "\n"


def test_why_a_unit_is_compiled_again() -> None:
    unit = "aten/src/ATen/native/Linear.cpp"
    old = log(
        "1",
        {OLD: {"version": "0.16.0"}, "c": {"kernel dtypes": ()}},
        toolchain=OLD,
        projection="c",
    )
    new = log(
        "2",
        {NEW: {"version": "0.17.0"}, "d": {"kernel dtypes": ("addmm_impl_cpu_ Long",)}},
        toolchain=NEW,
        projection="d",
    )
    told = explanation(
        "//apps/camera:linux-x86_64",
        "a.cpp",
        new,
        BuildLogs(old),
        cached=False,
        made=False,
        is_link=False,
    )
    said = shown("docs/guide/why-is-it-compiled-again.md", "aten/src/ATen/native/Linear.cpp of")
    assert said == told.text().replace("a.cpp", unit, 1)


def test_a_model_that_does_not_fit() -> None:
    row = FitRow(
        package="camera-libtorch_1.1.0_amd64.deb",
        app="camera",
        abi="linux-x86_64",
        version="1.1.0",
        pytorch="1.13.1",
        verdict="does not fit",
        reason="the library lacks what it needs",
        lacks=(
            Lack(
                "operator",
                "aten::erfinv",
                "named",
                methods=("forward",),
                places=(Place("model.py", 13),),
                bytes=7100,
            ),
            Lack(
                "kernel tag",
                "mul_cpu",
                "called",
                dtypes=("Double",),
                has=("Float", "Long"),
                asked_by=("aten::mul.Tensor",),
                places=(Place("model.py", 14),),
                bytes=12_000,
                at_most=True,
            ),
        ),
        added_bytes=8_100,
        estimated_bytes=1_350_000,
    )
    report = FitsReport("new.ptl", "0" * 64, 1, None, "", (row,))
    assert shown("docs/guide/will-it-fit.md", "camera-libtorch_1.1.0_amd64.deb") == report.text()
