"""`inker`: an operator and a class of the app's own, from C++ to a verified library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crafted import Instruction, method, model, module, tensor, text
from native_runner import compile_runner, outcomes
from real import ROOT, orchestrator, workspace_copy

from orchestrator.trace.lock import parse_lock
from orchestrator.values.operators import OperatorName as Op

pytestmark = pytest.mark.real

HOST = "linux-x86_64"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workspace_copy(tmp_path_factory.mktemp("inker"), "inker")


def test_it_is_cut_verified_and_delivered(built: Path) -> None:
    """On this machine and, in an emulator, for arm64; with what its kernel calls, and a licence."""
    for abi in (HOST, "linux-arm64"):
        manifest = json.loads((built / "inker" / abi / "manifest.json").read_text())
        selection = manifest["selection"]
        assert "ink::smooth" in selection["root_operators"]
        # what the operator calls, and the model does not
        assert {"aten::lerp.Scalar", "aten::empty_like"} <= {*selection["operators"]}
        assert not {"aten::lerp.Scalar", "aten::empty_like"} & {*selection["root_operators"]}
        assert selection["kernel_dtypes"]["ink_middles"] == ["Float"]
        # with their headers, and with what was generated for the elementwise operator
        assert {"src/brush.cpp", "src/smooth.cpp"} < {*manifest["sources"]["files"]}
        texts = built / "inker" / abi / "share/doc/inker_libtorch/licences/inker-sources/LICENSE"
        assert texts.read_bytes() == (ROOT / "apps/inker/LICENSE").read_bytes()
        # the elementwise operator, of whose three dtypes one ran
        assert "ink::ease.Scalar" in selection["root_operators"]
        assert selection["kernel_dtypes"]["ink_ease"] == ["Float"]
        # the class, and what its method calls
        assert selection["custom_classes"] == ["Brush"]
        assert "aten::clamp" in {*selection["operators"]} - {*selection["root_operators"]}
        assert selection["kernel_dtypes"]["ink_brush_widths"] == ["Float"]
        ran = orchestrator("verify", f"//apps/inker:{abi}", "--quiet")
        assert ran.code == 0, ran.err
        for name in ("strokes", "outline", "marks_of_pens"):
            assert f"//apps/inker:{abi} {name}: ok" in ran.out


def test_its_lock_is_of_its_sources() -> None:
    lock = parse_lock((ROOT / "apps/inker/traces/strokes.yaml").read_text(), "strokes.yaml")
    assert lock.identity.sources
    assert lock.called_operators[Op("ink::smooth")] > 0


BRUSH = "__torch__.torch.classes.ink.Brush"
# ink.Brush of width 1.0 and a response of two elements
RESPONSE = tensor([2], [1], numel=2)
HELD = b"c__torch__.torch.classes.ink\nBrush\n)\x81(G\x3f\xf0" + bytes(6) + RESPONSE + b"tb"
SELF: tuple[Instruction, ...] = (("STOREN", 1, 1), ("LOAD", 1, 0), ("GET_ATTR", 0, 0))
WIDTH: tuple[Instruction, ...] = (("INTERFACE_CALL", 0, 1), ("RET", 0, 0))


def crafted(
    *instructions: Instruction, constant: str = "width_getter", held: bytes = HELD
) -> bytes:
    """A model with a brush of which `forward` does something."""
    return model(
        module(held),
        method(
            [*SELF, *instructions],
            constants=[text(constant)],
            types=[text(BRUSH)],
        ),
        record=bytes(16),
    )


DAMAGED = "run RUN_FAILED the model is damaged: "
# What an exporter does not write -> how it ends.
CRAFTED = {
    "as exported": (crafted(*WIDTH), "ran"),
    "made and not initialised": (crafted(("CREATE_OBJECT", 0, 0), *WIDTH), "run "),
    "its memory": (
        crafted(("GET_ATTR", 0, 0), ("RET", 0, 0)),
        DAMAGED + "an instruction takes what is not there",
    ),
    "other memory": (
        crafted(("LOADC", 0, 0), ("SET_ATTR", 0, 0), ("RET", 0, 0)),
        DAMAGED + "an instruction takes what is not there",
    ),
    "no such method": (
        crafted(*WIDTH, constant="depth"),
        DAMAGED + "an instruction calls a method that its object does not have",
    ),
    "too few arguments": (
        crafted(*WIDTH, constant="scaled"),
        DAMAGED + "an instruction calls a method with more or fewer arguments than it takes",
    ),
    "too many arguments": (
        crafted(("LOAD", 1, 0), ("INTERFACE_CALL", 0, 2), ("RET", 0, 0)),
        DAMAGED + "an instruction calls a method with more or fewer arguments than it takes",
    ),
    "an argument of another type": (
        crafted(("LOAD", 1, 0), ("INTERFACE_CALL", 0, 2), ("RET", 0, 0), constant="scaled"),
        "run ",
    ),
    "a state of another type": (crafted(*WIDTH, held=HELD.replace(b"(G", b"(NG")), "load "),
}


def test_objects_that_no_exporter_writes(built: Path, tmp_path: Path) -> None:
    """Methods are C++, and take their arguments and the object for what they should be."""
    runner = compile_runner(tmp_path, "inker", built / "inker" / HOST)
    files = [tmp_path / f"{number}.ptl" for number in range(len(CRAFTED))]
    for file, (data, _) in zip(files, CRAFTED.values(), strict=True):
        file.write_bytes(data)
    ends = dict(zip(CRAFTED, outcomes(runner, files), strict=True))
    assert {n: end for n, end in ends.items() if not end.startswith(CRAFTED[n][1])} == {}


def test_a_source_that_does_not_compile(workspace: Path) -> None:
    source = workspace / "apps/inker/src/smooth.cpp"
    text = source.read_text()
    source.write_text(text.replace("at::lerp(", "at::lerq("))
    ran = orchestrator("plan", "//apps/inker", cwd=workspace)
    source.write_text(text)
    assert ran.code == 1
    line = 1 + text[: text.index("at::lerp(")].count("\n")
    assert f"apps/inker/src/smooth.cpp:{line}:" in ran.err
    assert "no member named 'lerq' in namespace 'at'" in ran.err


def test_a_functor_that_does_not_compile(workspace: Path) -> None:
    """The compiler's first error, at the line and the column of the user's file."""
    source = workspace / "apps/inker/kernels/ease.elementwise"
    text = source.read_text()
    source.write_text(text.replace("+ sharpness", "+ sharp"))
    ran = orchestrator("plan", "//apps/inker", cwd=workspace)
    source.write_text(text)
    assert ran.code == 1
    before = text[: text.index("+ sharpness") + 2]
    place = f"{1 + before.count(chr(10))}:{len(before) - before.rfind(chr(10))}"
    assert f"apps/inker/kernels/ease.elementwise:{place}: error: a source of the app" in ran.err
    assert "use of undeclared identifier 'sharp'" in ran.err


def test_a_changed_source_wants_a_new_trace(workspace: Path) -> None:
    source = workspace / "apps/inker/src/smooth.cpp"
    text = source.read_text()
    source.write_text(text + "// changed\n")
    ran = orchestrator("plan", "//apps/inker", cwd=workspace)
    source.write_text(text)
    assert ran.code == 1
    assert "the trace of strokes is stale: sources changed since" in ran.err
