"""`apps/<app>/app.yaml` as a value: models with their inputs, own sources, settings."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from orchestrator.values.config.forms import (
    ABI,
    INPUTS_FILE,
    NAME,
    OPERATOR,
    OPERATOR_WORD,
    PACKAGE,
    SOURCE_FILES,
    SOURCE_FLAG,
    SOURCE_FOLDER,
    SPDX,
    VERSION,
    AbiName,
    Declared,
    Example,
    Expected,
    Identifier,
    KernelChoice,
    MavenGroup,
    Optimize,
    RuntimeName,
    SelectionPolicy,
    Short,
    Size,
    Threads,
    Tuple,
    inner_path,
    parse_size,
)
from orchestrator.values.operators import OperatorName

Dispatch = Literal["direct", "table"]
CanonicalKind = Literal["off", "static", "traced"]
# How the file is made that is traced, verified and shipped: `exported` is of a program of
# torch.export.
MadeKind = Literal["off", "static", "traced", "exported"]
# What a program of torch.export is called.
PROGRAM_SUFFIX = ".pt2"
_INPUT_FILES = (".npz", ".json")
# Names in the table of CPU levels (orchestrator/libraries/data), and what every library has.
CpuLevel = Literal["baseline", "avx2", "avxvnni", "avx512", "avx512vnni", "dotprod", "vfpv4"]
PackageKind = Literal["tar", "deb", "aar", "xcframework", "wheel"]
# Another library's Java API that an AAR may have beside its own.
JavaApi = Literal["org.pytorch"]
# PyTorch Mobile's headers for iOS, that an XCFramework may have beside the C API.
CxxApi = Literal["LibTorch-Lite"]
Dtype = Literal["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
Fill = Literal["zeros", "ones", "arange", "uniform", "normal", "randint"]

# What the input tensors of one model may hold together: a colour picture of 4K, and a third more.
# They are made in memory, and written as text.
MOST_ELEMENTS: Final = 2**25
MOST_DIMENSIONS: Final = 64

BASELINE: Final = "baseline"
_INTEGER_BITS: Final = {"int64": 63, "int32": 31, "int16": 15, "int8": 7}


def _model_file(text: str) -> str:
    name = re.split(r"[/\\]", text)[-1]
    if "\\" in text:
        raise PydanticCustomError(
            "model_file", "written with `\\`", {"expected": "a relative path with `/`"}
        )
    if PurePosixPath(text).is_absolute() or ".." in PurePosixPath(text).parts:
        raise PydanticCustomError(
            "model_file",
            "not a path inside the app's folder",
            {
                "expected": "a relative path with `/` and without `..`",
                "hint": f"copy the model into the app's folder: models/{name}",
            },
        )
    if not inner_path(text).endswith((".ptl", PROGRAM_SUFFIX)):
        raise PydanticCustomError(
            "model_file",
            "neither a lite-interpreter file nor a program of torch.export",
            {"expected": "a relative path to a .ptl or .pt2"},
        )
    return text


def _inputs_file(text: str) -> str:
    if not inner_path(text).endswith(_INPUT_FILES):
        raise PydanticCustomError(
            "inputs_file", "no file of inputs", {"expected": "a relative path to a .npz or .json"}
        )
    return text


def _kernel_files(text: str) -> str:
    inner_path(text)
    if not text.endswith(".elementwise") or "**" in text:
        raise PydanticCustomError(
            "kernel_files", "not kernels", {"expected": "a path or glob to .elementwise"}
        )
    return text


def _source_files(text: str) -> str:
    inner_path(text)
    if not text.endswith((".cpp", ".cc", ".cxx")) or "**" in text:
        raise PydanticCustomError(
            "source_files", "not C++ files", {"expected": "a path or glob to .cpp, .cc or .cxx"}
        )
    return text


def _kind_of_item(value: Any) -> str:
    return "tensor" if isinstance(value, dict | TensorSpec) else "scalar"


def _kind_of_argument(value: Any) -> str:
    return "list" if isinstance(value, list | tuple) else _kind_of_item(value)


def _kind_of_inputs(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "runs"
    return "file" if isinstance(value, str) and "." in value else "word"


def _kind_of_levels(value: Any) -> str:
    return "levels" if isinstance(value, Mapping) else "word"


CpuChoice = Annotated[
    Annotated[Literal["auto"], Tag("word")]
    | Annotated[
        Mapping[
            Annotated[str, Field(pattern=ABI)], Annotated[Tuple[CpuLevel], Field(min_length=1)]
        ],
        Tag("levels"),
    ],
    Discriminator(_kind_of_levels),
]
# YAML 1.1 reads `off` as false.
Canonical = Annotated[
    CanonicalKind,
    BeforeValidator(lambda value: "off" if value is False else value),
    WithJsonSchema({"enum": ["off", "static", "traced", False]}),
]
# Other libraries' operators that we have C++ for: native/operators/<namespace>/<name>.cpp.
ShippedOperator = Literal[
    "torchvision::deform_conv2d",
    "torchvision::nms",
    "torchvision::ps_roi_align",
    "torchvision::roi_align",
]
SHIPPED_OPERATORS: Final = frozenset(map(OperatorName.parse, get_args(ShippedOperator)))


class TensorSpec(Declared):
    """A generated input tensor; the same seed gives the same values on every machine."""

    shape: Annotated[Tuple[Annotated[int, Field(ge=0)]], Expected("a list of sizes")] = Field(
        description="Sizes; [] is a 0-d tensor."
    )
    dtype: Dtype = Field("float32", description="Its element type.")
    fill: Fill = Field(
        description=(
            "Its values. `arange`: 0, 1, 2, ... `uniform`: [low, high), default [0, 1)."
            " `normal`: mean 0, deviation 1. `randint`: integers in [low, high), low 0 by default."
        )
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of the random fills.")
    low: int | float | None = Field(None, description="Lower bound, included.")
    high: int | float | None = Field(None, description="Upper bound, not included.")

    @model_validator(mode="after")
    def _fill_fits(self) -> Self:
        problem = _fill_problem(self)
        if problem:
            raise PydanticCustomError("fill", problem[0], {"expected": problem[1]})
        return self


def elements(spec: TensorSpec) -> int:
    """Number of elements of a tensor. A size of 0 counts as 1, so that a limit on the number bounds
    the other sizes."""
    return math.prod(size or 1 for size in spec.shape)


def _fill_problem(spec: TensorSpec) -> tuple[str, str] | None:
    """(what is wrong, what is expected), or None where the fill suits the dtype and bounds."""
    if elements(spec) > MOST_ELEMENTS or len(spec.shape) > MOST_DIMENSIONS:
        return (
            "the tensor is too large",
            f"at most {MOST_ELEMENTS:,} elements and {MOST_DIMENSIONS} sizes",
        )
    floating = spec.dtype.startswith("float")
    if spec.fill in ("uniform", "normal") and not floating:
        return f"fill `{spec.fill}` cannot make {spec.dtype}", "a float dtype, or fill `randint`"
    if spec.fill == "randint" and floating:
        return f"fill `randint` cannot make {spec.dtype}", "an integer dtype, or fill `uniform`"
    bounds = [bound for bound in (spec.low, spec.high) if bound is not None]
    # not by math.isfinite, which makes a float of an integer first
    if not all(abs(bound) <= sys.float_info.max for bound in bounds):
        return "a bound is not a number", "finite bounds"
    if bounds and spec.fill not in ("uniform", "randint"):
        return f"fill `{spec.fill}` takes no bounds", "low and high with `uniform` or `randint`"
    if spec.fill == "randint":
        return _randint_problem(spec)
    if bounds and not (spec.low or 0) < (1 if spec.high is None else spec.high):
        return "the range is empty", "low less than high"
    return None


def _randint_problem(spec: TensorSpec) -> tuple[str, str] | None:
    low, high = 0 if spec.low is None else spec.low, spec.high
    if not isinstance(low, int) or not isinstance(high, int):
        return "fill `randint` needs integer bounds", "an integer high, and low where it is not 0"
    if not low < high:
        return "the range is empty", "low less than high"
    bits = _INTEGER_BITS.get(spec.dtype)
    least, end = (-(2**bits), 2**bits) if bits else (0, 2 if spec.dtype == "bool" else 256)
    if low < least or high > end:
        return f"the bounds do not fit {spec.dtype}", f"low >= {least} and high <= {end}"
    return None


Scalar = bool | int | float | str | None
Item = Annotated[
    Annotated[TensorSpec, Tag("tensor")] | Annotated[Scalar, Tag("scalar")],
    Discriminator(_kind_of_item),
]
Argument = Annotated[
    Annotated[TensorSpec, Tag("tensor")]
    | Annotated[Scalar, Tag("scalar")]
    | Annotated[Tuple[Item], Tag("list")],
    Discriminator(_kind_of_argument),
]


class InputRun(Declared):
    """One call of a model: a method and its arguments."""

    method: Identifier = Field("forward", description="The method to call.")
    args: Annotated[Tuple[Argument], Expected("a list of arguments")] = Field(
        description="Its arguments: generated tensors, plain values (null is None), or lists."
    )


Inputs = Annotated[
    Annotated[Literal["bundled"], Tag("word")]
    | Annotated[
        str,
        Field(pattern=INPUTS_FILE),
        AfterValidator(_inputs_file),
        Expected("a .npz or .json file"),
        Tag("file"),
    ]
    | Annotated[Annotated[Tuple[InputRun], Field(min_length=1)], Tag("runs")],
    Discriminator(_kind_of_inputs),
]


def _stem(data: dict[str, Any]) -> str:
    return PurePosixPath(data.get("file", "model")).stem


# Operators, each with the reason.
Reasons = Mapping[
    Annotated[str, Field(pattern=OPERATOR)], Annotated[str, Field(min_length=1, max_length=500)]
]


class ModelConfig(Declared):
    """One of the app's models."""

    file: Annotated[str, AfterValidator(_model_file), Expected("a .ptl or .pt2 file")] = Field(
        description=(
            "The .ptl file, relative to the app's folder; or a .pt2 of torch.export.save, of which"
            " `orchestrator canonical` makes `<name>.canonical.ptl`."
        )
    )
    name: str = Field(
        default_factory=_stem,
        pattern=NAME,
        validate_default=True,
        description="Its name in traces and reports; default: the file's name without its suffix.",
    )
    inputs: Annotated[Inputs, Example("- args: [{shape: [1, 3, 224, 224], fill: uniform}]")] = (
        Field(
            "bundled",
            description=(
                "Its inputs for tracing: those in the file, the runs listed here, or a .npz or"
                " .json file, relative to the app's folder."
            ),
        )
    )
    canonical: Canonical | None = Field(
        None, description="Overrides the app's `canonical`, for this model."
    )

    @model_validator(mode="after")
    def _inputs_fit(self) -> Self:
        arguments = [argument for run in self.runs for argument in run.args]
        items = [i for a in arguments for i in (a if isinstance(a, list | tuple) else (a,))]
        if sum(elements(item) for item in items if isinstance(item, TensorSpec)) > MOST_ELEMENTS:
            raise PydanticCustomError(
                "inputs",
                "its inputs are too large together",
                {"expected": f"at most {MOST_ELEMENTS:,} elements in all tensors"},
            )
        return self

    @model_validator(mode="after")
    def _canonical_fits(self) -> Self:
        if self.is_program and self.canonical not in (None, "static"):
            raise PydanticCustomError(
                "canonical",
                "a program of torch.export is always made canonical",
                {"expected": "no `canonical`, or `static`"},
            )
        return self

    @property
    def is_program(self) -> bool:
        """True if its file is a program of torch.export, which no library loads as it is."""
        return self.file.endswith(PROGRAM_SUFFIX)

    @property
    def runs(self) -> tuple[InputRun, ...]:
        """The runs that app.yaml lists."""
        return () if isinstance(self.inputs, str) else self.inputs

    @property
    def inputs_file(self) -> str | None:
        """The file of its inputs, relative to the app's folder."""
        its = self.inputs
        return its if isinstance(its, str) and its != "bundled" else None


class SourcesLicence(Declared):
    """The licence of an app's own sources."""

    expression: Annotated[str, Field(pattern=SPDX), Expected("an SPDX licence expression")] = Field(
        description="Its SPDX expression, such as `MIT`."
    )
    file: Annotated[
        str,
        Field(pattern=SOURCE_FOLDER),
        AfterValidator(inner_path),
        Expected("the file of its text"),
    ] = Field(description="Its text, relative to the app's folder.")


class KernelsConfig(Declared):
    """Elementwise operators of an app's own, each in a file of one C++ function."""

    namespace: Annotated[
        str, Field(pattern=OPERATOR_WORD), Expected("a namespace of the app's own")
    ] = Field(description="What their names begin with: `ink` of `ink::gcd`.")
    files: Annotated[
        Tuple[Annotated[str, Field(pattern=SOURCE_FILES), AfterValidator(_kernel_files)]],
        Expected("a list of .elementwise files"),
    ] = Field(
        min_length=1,
        description="Their files, relative to the app's folder; `*` and `?` stand for others.",
    )


class SourcesConfig(Declared):
    """Operators that are not PyTorch's: C++ of the app's own that PyTorch's TORCH_LIBRARY macros
    register, kernels of which that C++ is generated, and operators of other libraries that the
    orchestrator has the C++ of. At least one of `files`, `kernels` and `operators` is given."""

    files: Annotated[
        Tuple[Annotated[str, Field(pattern=SOURCE_FILES), AfterValidator(_source_files)]],
        Expected("a list of C++ files"),
        Short(),
    ] = Field(
        (), description="C++ files, relative to the app's folder; `*` and `?` stand for others."
    )
    kernels: KernelsConfig | None = Field(None, description="Elementwise operators.")
    operators: Annotated[
        Tuple[ShippedOperator],
        Expected("a list of operators"),
        Example("[torchvision::nms]"),
    ] = Field(
        (),
        description="Operators of other libraries, whose C++ the orchestrator has.",
    )
    include: Tuple[Annotated[str, Field(pattern=SOURCE_FOLDER), AfterValidator(inner_path)]] = (
        Field((), description="Folders of their headers, relative to the app's folder.")
    )
    flags: Tuple[Annotated[str, Field(pattern=SOURCE_FLAG)]] = Field(
        (), description="Flags of their compilation: -D, -U, -O, -std and -W."
    )
    licence: SourcesLicence | None = Field(
        None, description="Their licence, for packages that hold them."
    )


class Limits(Declared):
    """Base of limits that a plain size may stand for: that of their first key."""

    @model_validator(mode="before")
    @classmethod
    def _of_a_size(cls, value: Any) -> Any:
        is_whole = isinstance(value, Mapping | Limits)
        return value if is_whole else {next(iter(cls.model_fields)): parse_size(value)}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        whole = handler(schema)
        first = next(iter(handler.resolve_ref_schema(whole)["properties"].values()))
        size = next(one for one in first["anyOf"] if "null" not in one.values())
        return {"anyOf": [size, whole]}


class Budget(Limits):
    """Limits of one library; a plain size is that of the whole."""

    total: Size | None = Field(None, description="Of the stripped library: `1.5MB`, `1.5MiB`.")
    compressed: Size | None = Field(
        None,
        description=(
            "Of the stripped library after compression with zstd at level 19; not where apps link a"
            " static one (iOS)."
        ),
    )
    growth: Size | None = Field(
        None, description="By how much it may grow since `size` last kept its sizes."
    )
    operators: Annotated[
        Mapping[Annotated[str, Field(pattern=OPERATOR)], Size], Example("{aten::conv2d: 150kB}")
    ] = Field(
        default_factory=dict,
        description=(
            "Of what operators have for themselves alone, as `size --by operator` tells. Not of"
            " shared libraries with `optimize: size`, which are optimised as a whole."
        ),
    )


class MemoryBudget(Limits):
    """Limits of the memory that a model takes; a plain size is that of its peak."""

    peak: Size | None = Field(
        None, description="The most at once, loading and in its runs, with weights: `30MB`."
    )
    kept: Size | None = Field(
        None, description="Between runs: weights, what kernels keep of them, state."
    )
    models: Annotated[
        Mapping[Annotated[str, Field(pattern=NAME)], Size], Example("{classifier: 30MB}")
    ] = Field(
        default_factory=dict, description="Peaks of single models, in place of `peak`, by name."
    )


ElementwiseDtype = Literal[
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"
]
Promotion = Literal["default", "int_to_float", "none"]


class ElementwiseConfig(Declared):
    """A file kernels/<name>.elementwise: an operator that computes each element by one function."""

    name: Annotated[str, Field(pattern=OPERATOR_WORD), Expected("the operator's name")] = Field(
        description="Its name, and that of the function in `functor`."
    )
    arity: Annotated[int, Expected("a number from 1 to 8")] = Field(
        ge=1, le=8, description="How many tensors it takes."
    )
    dtypes: Annotated[Tuple[ElementwiseDtype], Expected("a list of dtypes")] = Field(
        min_length=1, description="The dtypes that it computes in."
    )
    promotion: Promotion = Field(
        "default",
        description=(
            "What becomes of inputs of different dtypes: `default`, PyTorch's common dtype;"
            " `int_to_float`, and float32 where all are integers; `none`, an error."
        ),
    )
    functor: Annotated[str, Field(max_length=2**16), Expected("C++, as a block: `functor: |`")] = (
        Field(description="C++: `template <typename T>` of a function of the operator's name.")
    )


class AppConfig(Declared):
    """The file apps/<app>/app.yaml."""

    models: Annotated[
        Tuple[ModelConfig], Expected("a list of models"), Example("- file: models/x.ptl")
    ] = Field(min_length=1, description="The app's models.")
    targets: Annotated[Tuple[AbiName], Expected("a list of ABIs"), Example("[linux-x86_64]")] = (
        Field(min_length=1, description="ABIs to build for: built in, or files under toolchains/.")
    )
    runtime: RuntimeName | None = Field(
        None, description="A name under `runtimes` in WORKSPACE, instead of its default."
    )
    optimize: Optimize | None = Field(None, description="Overrides the workspace's default.")
    self_relocation: bool = Field(
        True,
        description=(
            "Whether its libraries for Linux relocate themselves, which makes them smaller."
            " Without, the system's loader does it, and they change no page's protection."
        ),
    )
    extensible: bool = Field(
        False,
        description=(
            "Whether add-ons can bring operators to its libraries for 64-bit Linux and Android"
            " after they have shipped (`orchestrate addon`). It makes them about 5 % larger."
        ),
    )
    dispatch: Dispatch = Field(
        "direct",
        description=(
            "How kernels call operators that no model names. `direct`: the one kernel that such an"
            " operator has, without a table. `table`: all operators are registered, for C++ code"
            " that looks them up by name or registers kernels of its own."
        ),
    )
    sources: SourcesConfig | None = Field(
        None, description="Operators that are not PyTorch's, and their C++ sources."
    )
    canonical: Canonical = Field(
        "off",
        description=(
            "Which file of its models is traced, verified and shipped. `off`: the declared one."
            " `static`: `<name>.canonical.ptl` next to it, which `orchestrator canonical` writes:"
            " functional, with fewer operators. `traced`: the same from a trace, with fewer still;"
            " refused if the model branches on values, or on sizes."
        ),
    )
    selection: SelectionPolicy | None = Field(
        None, description="Overrides the workspace's default."
    )
    extra: Annotated[Reasons, Example("{aten::sort: why the app needs it}")] = Field(
        default_factory=dict,
        description=(
            "Operators to include although no model asks for them, each with a reason; with"
            " everything that they may call, in all dtypes. A name without an overload stands for"
            " all overloads: `aten::sort: the app sorts with the C++ API`."
        ),
    )
    forbid: Annotated[Reasons, Example("{aten::sort: why the app avoids it}")] = Field(
        default_factory=dict,
        description=(
            "Operators that no model of the app may name, each with a reason; a name without an"
            " overload stands for all overloads: `aten::rand: no random numbers in keyboards`."
        ),
    )
    kernels: KernelChoice | None = Field(None, description="Overrides the workspace's default.")
    cpu: Annotated[CpuChoice, Example("{x86_64: [avx2]}")] = Field(
        "auto",
        description=(
            "CPU levels that its libraries choose from at run time, by ABI or processor:"
            " `x86_64: [avx2, avx512vnni]`. `[baseline]`: only what the ABI guarantees. `auto`, and"
            " for what is not listed: those that make kernels of its models faster."
        ),
    )
    threads: Threads | None = Field(None, description="Overrides the workspace's default.")
    budgets: Annotated[Mapping[str, Budget], Example("{linux-x86_64: 1.5MB}")] = Field(
        default_factory=dict,
        description=(
            "Limits of the stripped shared library, by ABI: a size, `1.5MB`, or `total`,"
            " `compressed`, `growth` and `operators`."
        ),
    )
    memory: Annotated[MemoryBudget, Example("30MB")] | None = Field(
        None,
        description=(
            "Limits of the memory that each of its models takes: a size, `30MB`, for the peak, or"
            " `peak`, `kept` and `models`. Measured in verification, in the libraries whose"
            " binaries run on the build machine."
        ),
    )
    packages: Annotated[Tuple[PackageKind], Field(min_length=1)] | None = Field(
        None, description="Packages to make; default: those of each target's platform."
    )
    deliver_models: bool = Field(
        False,
        description=(
            "Whether its libraries and packages contain its models, without what only debuggers"
            " read."
        ),
    )
    version: str = Field("0.1.0", pattern=VERSION, description="The version of its packages.")
    package_name: Annotated[str, Field(pattern=PACKAGE)] | None = Field(
        None, description="The name of its packages; default: `<app>-libtorch`, with `-` for `_`."
    )
    maven_group: MavenGroup | None = Field(None, description="Overrides the workspace's default.")
    java_api: JavaApi | None = Field(
        None,
        description=(
            "`org.pytorch`: its AAR also has the classes of PyTorch Android 2.1, over this library."
            " An APK can contain one such AAR."
        ),
    )
    cxx_api: CxxApi | None = Field(
        None,
        description=(
            "`LibTorch-Lite`: its XCFramework also has the headers of that pod, `torch::jit` and"
            " `at::Tensor` over this library, and its Swift package a podspec of that name."
        ),
    )
