"""What is known of a good model without running it."""

from __future__ import annotations

import os
import time
import zipfile
from pathlib import Path

import pytest

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models import archive
from orchestrator.models.archive import OversizedModelError
from orchestrator.models.bytecode import Argument, OperatorUse
from orchestrator.models.checks import (
    UnknownOperatorError,
    check_operators,
    require_inputs,
    require_no_enums,
    require_no_named_tuples,
    require_types,
)
from orchestrator.models.info import BundledInputs, UnreadableModelError, read_model
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.operators import OperatorName
from orchestrator.values.versions import ModelVersions

ROOT = Path(__file__).parents[3]
GOOD = ROOT / "tests" / "golden" / "models"
APPS = ROOT / "apps"


def test_a_small_model() -> None:
    info = read_model(GOOD / "small.ptl", DIALECT.models, name="small")
    assert info.place == Place("small")
    assert info.size == (GOOD / "small.ptl").stat().st_size
    assert info.sha256 == "80c3ef2570b6f5b1b7cbf8daa49cda4113b95f109702ebd25945a4ab9921f9a3"
    assert (info.bytecode_version, info.archive_version) == (8, 3)
    assert [str(operator) for operator in info.root_operators] == [
        "aten::__getitem__.t",
        "aten::_set_item.str",
        "aten::add.Scalar",
        "aten::len.t",
        "aten::relu",
    ]
    assert info.methods == (
        "_generate_bundled_inputs_for_forward",
        "forward",
        "get_all_bundled_inputs",
        "get_all_bundled_inputs_for_forward",
        "get_bundled_inputs_functions_and_info",
        "get_num_bundled_inputs",
    )
    assert info.bundled_inputs == (BundledInputs("forward", 1),)
    assert info.custom_classes == ()
    require_inputs(info, declared=False)
    require_no_enums(info)
    require_no_named_tuples(info)
    require_types(info)


def test_a_function_has_its_operators_and_schema() -> None:
    forward = read_model(GOOD / "small.ptl", DIALECT.models).functions[0]
    assert forward.name == "forward"
    assert forward.operators == (
        OperatorUse(OperatorName("aten::add.Scalar"), 2),
        OperatorUse(OperatorName("aten::relu"), 1),
    )
    assert forward.arguments[1:] == (Argument("x", "Tensor"),)
    assert forward.returns == ("Tensor",)


def test_a_quantised_model_names_its_custom_class_and_has_no_inputs() -> None:
    info = read_model(GOOD / "quantised.ptl", DIALECT.models)
    assert info.custom_classes == ("__torch__.torch.classes.quantized.LinearPackedParamsBase",)
    assert OperatorName.parse("quantized::linear_dynamic") in info.root_operators
    assert not info.has_bundled_inputs
    require_inputs(info, declared=True)


def test_a_model_with_inputs_for_two_methods() -> None:
    info = read_model(APPS / "keyboard" / "models" / "next_word.ptl", DIALECT.models)
    assert info.bundled_inputs == (BundledInputs("forward", 2), BundledInputs("suggest", 1))


def test_a_model_that_generates_its_inputs_does_not_say_how_many() -> None:
    info = read_model(GOOD / "generates.ptl", DIALECT.models)
    assert info.bundled_inputs == (BundledInputs("forward", None),)
    require_inputs(info, declared=False)


def test_equal_by_content_not_by_place(tmp_path: Path) -> None:
    copy = tmp_path / "copy.ptl"
    copy.write_bytes((GOOD / "small.ptl").read_bytes())
    assert read_model(copy, DIALECT.models) == read_model(GOOD / "small.ptl", DIALECT.models)


@pytest.mark.parametrize(
    "app",
    ["assistant", "camera", "inker", "keyboard", "listener", "reader", "scanner", "translator"],
)
def test_the_committed_models_are_small(app: str) -> None:
    models = sorted((APPS / app / "models").glob("*.ptl"))
    assert models
    assert all(read_model(model, DIALECT.models).size < 1_000_000 for model in models)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableModelError) as caught:
        read_model(tmp_path / "none.ptl", DIALECT.models, name="apps/a/none.ptl")
    assert caught.value.render() == (
        "apps/a/none.ptl: error: the model cannot be read\n"
        "  expected: a .ptl file\n"
        "  seen:     No such file or directory\n"
        "  do:       check the path under `models:` in app.yaml, and the file's permissions"
    )


def test_several_unknown_operators_are_all_named() -> None:
    info = read_model(GOOD / "small.ptl", DIALECT.models, name="small.ptl")
    texts = ("aten::_set_item.str", "aten::add.Tensor", "aten::add_.Scalar", "aten::relu_")
    with pytest.raises(UnknownOperatorError) as caught:
        check_operators(info, {OperatorName.parse(text) for text in texts}, "1.13.1")
    assert caught.value.what == "this model names 4 operators that PyTorch 1.13.1 does not have"
    assert caught.value.seen == ("aten::__getitem__.t, aten::add.Scalar, aten::len.t, aten::relu")
    assert caught.value.details == (
        "aten::__getitem__.t: nearest aten::_set_item.str\n"
        "  named in _generate_bundled_inputs_for_forward, get_all_bundled_inputs_for_forward"
        " and 2 more\n"
        # Another overload of the same operator comes before a name that looks more like it.
        "aten::add.Scalar: nearest aten::add.Tensor, aten::add_.Scalar\n"
        "  named in forward\n"
        "aten::len.t: none near\n"
        "  named in get_num_bundled_inputs\n"
        "aten::relu: nearest aten::relu_\n"
        "  named in forward"
    )
    assert caught.value.hint is not None
    assert "torch.jit.freeze" in caught.value.hint


def test_known_operators_pass() -> None:
    info = read_model(GOOD / "small.ptl", DIALECT.models)
    check_operators(info, dict.fromkeys(info.root_operators, "a kernel"), "1.13.1")


def test_versions_are_the_runtimes(tmp_path: Path) -> None:
    assert (
        read_model(GOOD / "small.ptl", ModelVersions(range(8, 9), range(1, 11))).bytecode_version
        == 8
    )


@pytest.mark.parametrize(
    ("limit", "value", "seen"),
    [("MAX_RECORDS", 5, "7 records"), ("MAX_PICKLE_BYTES", 100, "bytecode.pkl with 2090 bytes")],
)
def test_limits(monkeypatch: pytest.MonkeyPatch, limit: str, value: int, seen: str) -> None:
    monkeypatch.setattr(archive, limit, value)
    with pytest.raises(OversizedModelError) as caught:
        read_model(GOOD / "small.ptl", DIALECT.models)
    assert caught.value.seen == seen


def test_a_large_file_that_is_no_model_is_not_read(tmp_path: Path) -> None:
    """A checkpoint, or an image of a disk: only its ends tell that it is none."""
    path = tmp_path / "large.ptl"
    with path.open("wb") as file:
        file.truncate(2**32)
    began = time.process_time()
    with pytest.raises(OrchestratorError, match="this is not a"):
        read_model(path, DIALECT.models)
    assert time.process_time() - began < 1


def test_other_compression_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "model.ptl"
    with zipfile.ZipFile(model, "w", zipfile.ZIP_LZMA) as made:
        made.writestr("model/version", "3\n")
    with pytest.raises(archive.DamagedModelError) as caught:
        read_model(model, DIALECT.models)
    assert caught.value.seen == "compression method 14"


def test_a_model_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "m.ptl"
    os.mkfifo(path)
    with pytest.raises(UnreadableModelError) as caught:
        read_model(path, DIALECT.models)
    assert caught.value.seen == "Not a plain file"
