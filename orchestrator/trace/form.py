"""The format of a lock file: the names and numbers that it may hold.

Anyone who can propose a change can write a lock, and hardly anyone reviews one: its names are
restricted to what the tracer can record (native/tracer/recorder.cpp) before they reach a plan or
generated C++. All scalars are strings, as in the file. Whether the runtime has what they name is
checked separately: see `Vocabulary`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orchestrator.values.config.forms import IDENTIFIER, NAME, SHA256
from orchestrator.values.coverage import parse_ranges
from orchestrator.values.forms import Class, Dtype, Feature, Operator, Tag, form, held_to, once
from orchestrator.values.operators import OperatorName


@dataclass(frozen=True)
class Vocabulary:
    """The operators and kernel tags of a runtime, which a trace may name."""

    pytorch: str
    operators: frozenset[OperatorName]
    tags: frozenset[str]


TRACER: Final = "[0-9a-f]{16}"
COUNT: Final = "0|[1-9][0-9]{0,17}"
INSTRUCTION_COUNT: Final = "0|[1-9][0-9]{0,6}"
# as TorchScript qualifies a method's name; `\w` is meant in ASCII
FUNCTION: Final = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"

Backend = Annotated[str, held_to("a dispatch key, such as CPU", form(IDENTIFIER))]
Name = Annotated[str, held_to("a name", form(NAME))]
Digest = Annotated[str, held_to("a sha256 digest", form(SHA256))]
InputsDigest = Annotated[str, held_to("`bundled`, or a sha256 digest", form(f"bundled|{SHA256}"))]
TracerDigest = Annotated[str, held_to("16 hexadecimal digits", form(TRACER))]
Count = Annotated[str, held_to("a count: a whole number", form(COUNT))]
# no longer than the longest path that a file may say
Function = Annotated[
    str,
    held_to(
        "a function's name, such as __torch__.net.Classifier.forward",
        form(rf"(?=.{{1,1024}}\Z){FUNCTION}"),
    ),
]
InstructionCount = Annotated[str, held_to("a number of instructions", form(INSTRUCTION_COUNT))]
Instructions = Annotated[str, held_to("ascending instructions, such as 3-5 9", parse_ranges)]
# What a lock has of a function's coverage besides its size: fields of `FunctionCoverage`.
MISSED: Final = ("unrun", "never_held", "never_failed")


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class IdentityPart(_Part):
    """See `values.trace.TraceIdentity`."""

    model: Digest
    runtime: Digest
    inputs: InputsDigest
    backends: Annotated[list[Backend], AfterValidator(once)]
    tracer: TracerDigest
    sources: Digest = ""


class OperatorPart(_Part):
    """Fields of an operator that PyTorch's SelectiveBuilder reads."""

    is_root_operator: Literal["true", "false"]
    is_used_for_training: Literal["false"]
    include_all_overloads: Literal["false"]


class SelectedPart(_Part):
    """Fields of a lock that PyTorch's SelectiveBuilder reads."""

    include_all_non_op_selectives: Literal["false"]
    build_features: Annotated[list[Feature], AfterValidator(once)]
    custom_classes: Annotated[list[Class], AfterValidator(once)]
    kernel_metadata: dict[Tag, list[Dtype]]
    operators: dict[Operator, OperatorPart]


class CoveragePart(_Part):
    """See `values.coverage.FunctionCoverage`."""

    instructions: InstructionCount
    ways: InstructionCount
    unrun: Instructions = ""
    never_held: Instructions = ""
    never_failed: Instructions = ""


class Lock(_Part):
    """A lock file.

    multiply_adds, coverage: none in one that was written before they were recorded
    unreachable_operators: likewise, and where there are none
    """

    format: Literal["1"] = Field(description="a lock file of format 1")
    app: Name
    model: Name
    identity: IdentityPart
    outputs: Digest
    hot_tags: Annotated[list[Tag], AfterValidator(once)]
    multiply_adds: Count | None = None
    unrun_operators: list[Operator]
    unreachable_operators: Annotated[list[Operator], AfterValidator(once)] = []
    calls: dict[Operator, Count]
    kernel_calls: dict[Tag, dict[Dtype, Count]]
    coverage: dict[Function, CoveragePart] | None = None
    selected_operators: SelectedPart
