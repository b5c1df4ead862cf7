"""The bad models of tests/failing/models: each is refused with exactly its `expected.txt`.

`make.py` there writes the models; `known.txt` has names of operators that PyTorch 1.13.1 has.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from golden_files import Golden

from orchestrator.errors import OrchestratorError, Place
from orchestrator.export.lowering_table import lowered_for
from orchestrator.models.checks import (
    OwnClassError,
    check_classes,
    check_lapack,
    check_operators,
    check_own_classes,
    check_packings,
    misfits,
    require_arguments,
    require_inputs,
    require_no_enums,
    require_no_named_tuples,
    require_types,
)
from orchestrator.models.info import read_model
from orchestrator.pytorch.dialects import load_version
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.operators import Arguments, OperatorName
from orchestrator.values.own_sources import OwnClass

CASES = Path(__file__).parents[2] / "failing" / "models"
APPS = Path(__file__).parents[3] / "apps"
OUTLINE = read_model(APPS / "inker/models/outline.ptl", DIALECT.models, name="outline.ptl")
# of 1.13.1
TAKEN = {"aten::stft": Arguments(2, 8), "aten::std.correction": Arguments(3, 4)}
KNOWN = {OperatorName.parse(line) for line in (CASES / "known.txt").read_text().split()}
# The class that each case must raise, so that a text alone cannot pass for it.
CLASSES = {
    "archive_version_too_new": "UnsupportedVersionError",
    "bytecode_version_too_new": "UnsupportedVersionError",
    "bytecode_version_too_old": "UnsupportedVersionError",
    "before_1_3": "NoBytecodeError",
    "checkpoint": "NoBytecodeError",
    "compressed": "NotAModelError",
    "damaged_record": "DamagedModelError",
    "empty_file": "NotAModelError",
    "executorch": "NotAModelError",
    "enum": "EnumError",
    "exported_program": "NoBytecodeError",
    "extra_arguments": "ExtraArgumentsError",
    "flatbuffer": "FlatbufferModelError",
    "foreign_operator": "UnknownOperatorError",
    "git_lfs_pointer": "NotAModelError",
    "inflates_too_far": "OversizedModelError",
    "keras": "NotAModelError",
    "lapack": "LapackMissingError",
    "lowered": "LoweredModelError",
    "lowered_by_name": "LoweredModelError",
    "missing_arguments": "MissingArgumentsError",
    "mobile_optimised": "UnknownOperatorError",
    "named_tuple": "NamedTupleError",
    "newer_dtype": "UnknownDtypeError",
    "no_inputs": "NoInputsError",
    "no_version": "DamagedModelError",
    "not_bytecode": "DamagedModelError",
    "not_zip": "NotAModelError",
    "onnx": "NotAModelError",
    "overlapping_records": "OversizedModelError",
    "packed_sequence": "NamedTupleError",
    "packed_weights": "UnusableClassError",
    "path_leaves_folder": "OddRecordPathError",
    "pickle": "NotAModelError",
    "pickle_calls_system": "UnsafePickleError",
    "pickle_opcode": "UnsafePickleError",
    "plain_torchscript": "NoBytecodeError",
    "record_twice": "OddRecordPathError",
    "safetensors": "NotAModelError",
    "tensorflow_lite": "NotAModelError",
    "truncated": "DamagedModelError",
    "two_folders": "OddRecordPathError",
    "type_empty": "UnsupportedTypeError",
    "type_union": "UnsupportedTypeError",
    "unknown_attention": "UnknownOperatorError",
    "unknown_interpolation": "UnknownOperatorError",
    "unknown_packing": "UnknownPackingError",
    "web_page": "NotAModelError",
}


def examine(model: Path) -> None:
    """All that is asked of a model, before it is traced and then."""
    info = read_model(model, DIALECT.models, name="model.ptl")
    require_no_enums(info)
    require_no_named_tuples(info)
    require_types(info)
    require_inputs(info, declared=False)
    check_operators(info, KNOWN, "1.13.1", lowered=lowered_for("1.13.1"))
    # as if the tracer had reached all of it
    reached = {str(operator) for operator in info.root_operators}
    require_arguments(misfits(info, TAKEN), reached, info.place, "1.13.1")
    check_lapack(info, load_version("1.13.1").lapack, "1.13.1")
    check_packings(info, load_version("1.13.1").packings, "1.13.1")
    check_classes(info, ["quantized.EmbeddingPackedParamsBase"], "1.13.1")


def test_every_case_is_run() -> None:
    assert {folder.name for folder in CASES.iterdir() if folder.is_dir()} == CLASSES.keys()


@pytest.mark.parametrize("case", sorted(CLASSES))
def test_a_bad_model_is_refused(case: str, golden: Golden) -> None:
    with pytest.raises(OrchestratorError) as caught:
        examine(CASES / case / "model.ptl")
    assert type(caught.value).__name__ == CLASSES[case]
    golden(CASES / case / "expected.txt", caught.value.render() + "\n")


# How a class of `outline`'s own would have to be registered for it to be refused.
BRUSH = OwnClass(
    "ink.Brush",
    ("__getstate__", "__init__", "__setstate__", "scaled", "widths", "width_getter"),
    place=Place("apps/inker/src/brush.cpp", 51, 5),
)
UNFIT = {
    "no_such_class": replace(BRUSH, name="ink.Pen"),
    "not_pickled": replace(BRUSH, methods=("__init__", "scaled", "widths", "width_getter")),
    "no_such_method": replace(BRUSH, methods=("__init__", "__setstate__", "widths")),
}


@pytest.mark.parametrize("case", sorted(UNFIT))
def test_a_class_of_the_apps_own_that_does_not_do(case: str, golden: Golden) -> None:
    with pytest.raises(OwnClassError) as caught:
        check_own_classes(OUTLINE, {UNFIT[case].name: UNFIT[case]}, "apps/inker/app.yaml")
    golden(CASES.parent / f"own_classes/{case}/expected.txt", caught.value.render() + "\n")


def test_classes_of_the_apps_own_that_do() -> None:
    for fit in (BRUSH, replace(BRUSH, methods=(), is_open=True)):
        check_own_classes(OUTLINE, {"ink.Brush": fit}, "apps/inker/app.yaml")
    # an object that is made anew each time is read from no file
    made = replace(OUTLINE, held_classes=())
    check_own_classes(made, {"ink.Brush": UNFIT["not_pickled"]}, "apps/inker/app.yaml")
    # PyTorch's classes have methods that we do not know
    both = (*OUTLINE.custom_classes, "__torch__.torch.classes.quantized.LinearPackedParamsBase")
    other = replace(OUTLINE, custom_classes=both)
    check_own_classes(other, {"ink.Brush": UNFIT["no_such_method"]}, "apps/inker/app.yaml")
    check_own_classes(OUTLINE, {"pen.Pen": BRUSH}, "apps/inker/app.yaml")
