"""The bad models of tests/failing/models: each is refused with exactly its `expected.txt`.

`make.py` there writes the models; `known.txt` has names of operators that PyTorch 1.13.1 has.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from golden_files import Golden

from orchestrator.errors import OrchestratorError
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
    require_no_named_tuples,
)
from orchestrator.models.info import read_model
from orchestrator.pytorch.dialects import load_version
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.operators import Arguments, OperatorName

CASES = Path(__file__).parents[2] / "failing" / "models"
# of 1.13.1
TAKEN = {"aten::stft": Arguments(2, 8), "aten::std.correction": Arguments(3, 4)}
KNOWN = {OperatorName.parse(line) for line in (CASES / "known.txt").read_text().split()}
# The class that each case must raise, so that a text alone cannot pass for it.
CLASSES = {
    "archive_version_too_new": "UnsupportedVersionError",
    "bytecode_version_too_new": "UnsupportedVersionError",
    "bytecode_version_too_old": "UnsupportedVersionError",
    "checkpoint": "NoBytecodeError",
    "compressed": "NotAModelError",
    "damaged_record": "DamagedModelError",
    "empty_file": "NotAModelError",
    "executorch": "NotAModelError",
    "exported_program": "NoBytecodeError",
    "extra_arguments": "ExtraArgumentsError",
    "flatbuffer": "FlatbufferModelError",
    "foreign_operator": "UnknownOperatorError",
    "git_lfs_pointer": "NotAModelError",
    "inflates_too_far": "OversizedModelError",
    "keras": "NotAModelError",
    "lapack": "LapackMissingError",
    "missing_arguments": "MissingArgumentsError",
    "mobile_optimised": "UnknownOperatorError",
    "named_tuple": "NamedTupleError",
    "no_inputs": "NoInputsError",
    "no_version": "DamagedModelError",
    "not_bytecode": "DamagedModelError",
    "not_zip": "NotAModelError",
    "onnx": "NotAModelError",
    "overlapping_records": "OversizedModelError",
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
    "unknown_attention": "UnknownOperatorError",
    "unknown_interpolation": "UnknownOperatorError",
    "unknown_packing": "UnknownPackingError",
    "web_page": "NotAModelError",
}


def examine(model: Path) -> None:
    """All that is asked of a model, before it is traced and then."""
    info = read_model(model, DIALECT.models, name="model.ptl")
    require_no_named_tuples(info)
    require_inputs(info, declared=False)
    check_operators(info, KNOWN, "1.13.1")
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


def test_objects_of_an_own_class_are_refused() -> None:
    """Until they are supported; other classes are not this check's."""
    info = replace(
        read_model(CASES / "foreign_operator/model.ptl", DIALECT.models, name="model.ptl"),
        custom_classes=("__torch__.torch.classes.ink.Brush",),
    )
    check_own_classes(info, {"ink.Pen"}, "apps/inker/app.yaml")
    with pytest.raises(OwnClassError) as caught:
        check_own_classes(info, {"ink.Brush"}, "apps/inker/app.yaml")
    assert caught.value.render() == (
        "model.ptl: error: this model holds objects of a class of its app's own, which is not"
        " supported\n"
        "  expected: operators of the app's own alone: those under `sources:` in"
        " apps/inker/app.yaml\n"
        "  seen:     ink.Brush\n"
        "  do:       hold what such an object is made of, numbers and tensors, and pass it to an"
        " operator of the app"
    )
