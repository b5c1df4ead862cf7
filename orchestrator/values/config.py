"""The declaration files as values: `WORKSPACE`, `apps/<app>/app.yaml`, `toolchains/<abi>.yaml`.

The models here are the only definition of those files: the loader validates against them, and the
JSON schemas under `schemas/` are generated from them, so every key has its description. They are
strict (no conversions, no unknown keys) and frozen. `orchestrator.load` checks what needs more than
one file, or the disk.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from orchestrator.errors import visible

Optimize = Literal["size", "speed", "balanced"]
SelectionPolicy = Literal["traced", "static", "guarded"]
Dispatch = Literal["direct", "table"]
CanonicalKind = Literal["off", "static", "traced"]
# How the file is made that is traced, verified and shipped: `exported` is of a program of
# torch.export.
MadeKind = Literal["off", "static", "traced", "exported"]
# What a program of torch.export is called.
PROGRAM_SUFFIX = ".pt2"
_INPUT_FILES = (".npz", ".json")
KernelPart = Literal[
    "convolution",
    "linear",
    "pooling",
    "recurrent",
    "gemm",
    "attention",
    "softmax",
    "layer_norm",
    "activation",
    "unary",
    "binary",
]
# Names in the table of CPU levels (orchestrator/libraries/data), and what every library has.
CpuLevel = Literal["baseline", "avx2", "avxvnni", "avx512", "avx512vnni", "dotprod", "vfpv4"]
PackageKind = Literal["tar", "deb", "aar", "xcframework", "wheel"]
System = Literal["linux", "android", "ios", "ios-simulator"]
Processor = Literal["x86_64", "arm64", "armv7"]
ObjectFormat = Literal["elf", "macho"]
CompilerKind = Literal["zig", "command", "ndk", "xcode"]
Dtype = Literal["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
Fill = Literal["zeros", "ones", "arange", "uniform", "normal", "randint"]

SHA256: Final = r"^[0-9a-f]{64}$"
# Names become parts of file names, of which a file system takes 255 bytes.
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
ABI: Final = r"^[a-z0-9][a-z0-9._-]{0,99}$"
PACKAGE: Final = r"^[a-z0-9][a-z0-9+.-]{1,99}$"
# Debian Policy, 5.6.1 and 5.6.8; dpkg-architecture(1) has the names of architectures
DEBIAN: Final = r"^[a-z0-9][a-z0-9+.-]{1,99}(:[a-z0-9][a-z0-9-]{0,99})?$"
ARCHIVE: Final = r"^[A-Za-z0-9][A-Za-z0-9+.~_-]{0,199}$"
# printable ASCII without blanks, and without `user:password@` before the host
URL: Final = r"^https?://[A-Za-z0-9.:\[\]_-]{1,255}/[!-~]{1,1700}$"
GROUP: Final = r"^[A-Za-z][A-Za-z0-9_-]{0,49}(\.[A-Za-z0-9_-]{1,50}){0,9}$"
VERSION: Final = r"^[0-9]{1,9}(\.[0-9]{1,9}){0,9}([-+~][0-9A-Za-z.]{1,99})?$"
SIZE: Final = r"^([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(B|kB|KiB|MB|MiB|GB|GiB)$"
IDENTIFIER: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
# with an overload, or for all that it has
OPERATOR: Final = (
    r"^[A-Za-z_][A-Za-z0-9_]{0,99}::[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z0-9_]{1,99})?$"
)
# Globs of an app's own C++ files. Their names become parts of flags and of a graph of actions.
SOURCE_FILES: Final = r"^[A-Za-z0-9_.+*?/-]{1,500}$"
SOURCE_FOLDER: Final = r"^[A-Za-z0-9_.+/-]{1,500}$"
# Nothing that reads another file or program, or hands a flag on (`-Wl,`).
SOURCE_FLAG: Final = (
    r"^(-D[A-Za-z_][A-Za-z0-9_]{0,99}(=[A-Za-z0-9_.+-]{0,100})?|-U[A-Za-z_][A-Za-z0-9_]{0,99}"
    r"|-O[23sz]|-std=(c|gnu)\+\+(17|20)|-W[a-z][a-z0-9-]{0,99}(=[a-z0-9]{1,20})?)$"
)
# Of a namespace and an operator in generated C++.
OPERATOR_WORD: Final = r"^[a-z][a-z0-9_]{0,62}$"
# SPDX 2.3, annex D: an identifier, or an expression of several
SPDX: Final = r"^[A-Za-z0-9.+-]{1,64}( (AND|OR|WITH) [A-Za-z0-9.+-]{1,64}){0,9}$"
TARGET: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"
ABSOLUTE: Final = r"^/"

# What a pattern asks for, in the words that an error message uses.
_INPUTS_FILE: Final = r"\.(npz|json)$"
PATTERN_WORDS: Final[Mapping[str, str]] = {
    _INPUTS_FILE: "the path of a .npz or .json file",
    SHA256: "a sha256 digest: 64 lower-case hexadecimal digits",
    NAME: "a name of letters, digits, `.`, `_` and `-`, that begins with a letter or digit,"
    " of at most 100",
    ABI: "an ABI name such as `linux-x86_64`: lower-case letters, digits, `.`, `_` and `-`",
    PACKAGE: "a package name: two or more of lower-case letters, digits, `+`, `.` and `-`",
    GROUP: "a Maven group such as `com.example`: letters, digits, `_` and `-`, with `.` between",
    DEBIAN: "a Debian package: `name`, or `name:architecture`",
    ARCHIVE: "a file name of letters, digits, `+`, `.`, `~`, `_` and `-`, without a folder",
    URL: "an address: `https://` or `http://`, a host and a path, without a user's name",
    VERSION: "a version such as `1.2.0` or `1.2.0-rc1`",
    OPERATOR: "an operator, such as aten::rand or aten::add.Tensor",
    IDENTIFIER: "a name of letters, digits and `_`, that does not begin with a digit",
    SOURCE_FILES: "paths of letters, digits, `_`, `.`, `+` and `-`, with `*` and `?` for others",
    SOURCE_FOLDER: "a path of letters, digits, `_`, `.`, `+` and `-`",
    SOURCE_FLAG: "one of -DNAME, -DNAME=VALUE, -UNAME, -O2, -O3, -Os, -Oz, -std=c++17, -std=c++20,"
    " or a warning (-W)",
    OPERATOR_WORD: "at most 63 small letters, digits and `_`, with a letter first",
    SPDX: "an SPDX licence expression, such as `MIT` or `Apache-2.0 OR MIT`",
    TARGET: "letters, digits, `.`, `_` and `-`, as in `x86_64-linux-gnu.2.28`",
    ABSOLUTE: "an absolute path, which begins with `/`",
}

# What the input tensors of one model may hold together: a colour picture of 4K, and a third more.
# They are made in memory, and written as text.
MOST_ELEMENTS: Final = 2**25
MOST_DIMENSIONS: Final = 64

# `threads: cores`, as a number; and the most that a library takes (native/threads/pool.h).
CORES: Final = 0
MOST_THREADS: Final = 1024

BASELINE: Final = "baseline"

_LONGEST_NAME: Final = 255
_UNITS: Final = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
# What one model's first run adds is less.
LEAST_CACHE_SIZE: Final = 100 * 10**6
_INTEGER_BITS: Final = {"int64": 63, "int32": 31, "int16": 15, "int8": 7}


def parse_size(text: object) -> int:
    """Bytes in `1.5MB` (decimal), `1.5MiB` (binary) or a plain integer; a fraction is dropped.

    Raises `PydanticCustomError` for anything else.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = re.fullmatch(SIZE, text) if isinstance(text, str) else None
    if match:
        return int(Decimal(match[1]) * _UNITS[match[2]])
    raise PydanticCustomError(
        "size",
        "not a size",
        {"expected": "a number of bytes, or a number and a unit: B, kB, MB, GB, KiB, MiB or GiB"},
    )


def _large_enough(size: int) -> int:
    """A forgotten unit is a fault, and no order to keep nothing."""
    if size < LEAST_CACHE_SIZE:
        raise PydanticCustomError("size", "too small", {"expected": "100MB or more, such as 10GB"})
    return size


def parse_threads(value: object) -> int:
    """How many threads a library may use by default; `CORES` for as many as the machine has cores.

    Raises `PydanticCustomError` for anything else.
    """
    if value == "cores":
        return CORES
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_THREADS:
        return value
    raise PydanticCustomError(
        "threads",
        "not a number of threads",
        {"expected": f"a number from 1 to {MOST_THREADS:,}, or `cores`"},
    )


def _one_line(text: str) -> str:
    """Texts of declarations become arguments, paths, and lines of generated files."""
    if visible(text) != text:
        raise PydanticCustomError(
            "one_line", "it contains a control character", {"expected": "text of one line"}
        )
    return text


def _inner_path(text: str) -> str:
    path = PurePosixPath(_one_line(text))
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in path.parts):
        raise PydanticCustomError(
            "inner_path", "a name in it is too long", {"expected": f"at most {_LONGEST_NAME} bytes"}
        )
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise PydanticCustomError(
            "inner_path",
            "not a path inside the folder",
            {"expected": "a relative path with `/` and without `..`"},
        )
    return text


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
    if not _inner_path(text).endswith((".ptl", PROGRAM_SUFFIX)):
        raise PydanticCustomError(
            "model_file",
            "neither a lite-interpreter file nor a program of torch.export",
            {"expected": "a relative path to a .ptl or .pt2"},
        )
    return text


def _inputs_file(text: str) -> str:
    if not _inner_path(text).endswith(_INPUT_FILES):
        raise PydanticCustomError(
            "inputs_file", "no file of inputs", {"expected": "a relative path to a .npz or .json"}
        )
    return text


def _kernel_files(text: str) -> str:
    _inner_path(text)
    if not text.endswith(".elementwise") or "**" in text:
        raise PydanticCustomError(
            "kernel_files", "not kernels", {"expected": "a path or glob to .elementwise"}
        )
    return text


def _source_files(text: str) -> str:
    _inner_path(text)
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


def _kind_of_run(value: Any) -> str:
    return "command" if isinstance(value, dict | Emulator) else "word"


T = TypeVar("T")
# Lists in the file, tuples in memory; the entries stay strict.
Tuple = Annotated[tuple[T, ...], Strict(False)]


def _kind_of_kernels(value: Any) -> str:
    return "parts" if isinstance(value, list | tuple) else "word"


KernelChoice = Annotated[
    Annotated[Literal["auto", "native"], Tag("word")]
    | Annotated[Tuple[KernelPart], Field(min_length=1), Tag("parts")],
    Discriminator(_kind_of_kernels),
]


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
Sha256 = Annotated[str, Field(pattern=SHA256)]
AbiName = Annotated[str, Field(pattern=ABI)]
Line = Annotated[str, Field(max_length=4096), AfterValidator(_one_line)]
Text = Annotated[Line, Field(min_length=1)]
MavenGroup = Annotated[str, Field(pattern=GROUP)]
Identifier = Annotated[str, Field(pattern=IDENTIFIER)]
# Any text, and a version that YAML takes for a number: the loader compares it with what is pinned.
RuntimeName = Annotated[
    Text, BeforeValidator(lambda value: str(value) if type(value) in (int, float) else value)
]
Backend = Literal["CPU", "QuantizedCPU", "SparseCPU"]
# Other libraries' operators that we have C++ for: native/operators/<namespace>/<name>.cpp.
ShippedOperator = Literal[
    "torchvision::deform_conv2d",
    "torchvision::nms",
    "torchvision::ps_roi_align",
    "torchvision::roi_align",
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": SIZE}, {"type": "integer"}]}),
]
Threads = Annotated[
    int,
    BeforeValidator(parse_threads),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_THREADS}, {"const": "cores"}]}
    ),
]


@dataclass(frozen=True)
class Expected:
    """What a required field takes, as an error about a missing key states it."""

    text: str


@dataclass(frozen=True)
class Example:
    """A value of a field as a file writes it, for advice on one of the wrong type."""

    text: str


@dataclass(frozen=True)
class Short:
    """Marks the key that a text or a list stands for where its mapping belongs."""


class Declared(BaseModel):
    """Base of all declared values: strict, frozen, no unknown keys."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class OneOf(Declared):
    """Base of values of which exactly one key is given; the key tells the kind."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls.model_config["json_schema_extra"] = {"minProperties": 1, "maxProperties": 1}

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise PydanticCustomError(
                "one_of",
                "exactly one key is allowed here" if given else "a key is missing",
                {
                    "expected": "one of " + ", ".join(type(self).model_fields),
                    "seen": " and ".join(given) or "none of them",
                },
            )
        return self


# --- WORKSPACE ---


class GitSource(Declared):
    """A git remote, cloned at one tag with its submodules."""

    remote: Annotated[Text, Expected("a URL or a path that `git clone` understands")] = Field(
        description="URL or path that `git clone` understands."
    )
    tag: Annotated[Text, Expected("a tag or branch")] = Field(
        description="The tag (or branch) to check out."
    )


class DebianSource(Declared):
    """A Debian source package, got through the machine's apt client."""

    package: str = Field(pattern=PACKAGE, description="Name of the source package.")
    archive: str = Field(
        pattern=ARCHIVE, description="File name of its upstream archive (`*.orig.tar.*`)."
    )
    sha256: Sha256 = Field(description="sha256 of that archive.")


class ArchiveSource(Declared):
    """A source archive at a URL: tar (plain, gz, bz2, xz, zst) or zip."""

    url: Annotated[str, Field(pattern=URL, max_length=2048)] = Field(
        description="Its address: `https://` or `http://`, without a user's name."
    )
    sha256: Sha256 = Field(description="sha256 of the archive.")


class Source(OneOf):
    """A place to get a source tree from."""

    path: Text | None = Field(
        None,
        description=(
            "A folder on this machine: absolute, relative to WORKSPACE, or with `~` or `$VARIABLE`."
            " Skipped where a variable in it is unset."
        ),
    )
    git: GitSource | None = Field(None, description="A git remote and tag, with submodules.")
    archive: ArchiveSource | None = Field(None, description="An archive by its URL and digest.")
    debian: DebianSource | None = Field(None, description="A Debian source package.")


Sources = Annotated[
    Tuple[Source],
    Expected("a list of sources: path, git, archive or debian"),
    Example("- path: FOLDER"),
]


class ThirdPartyPin(Declared):
    """A pinned header set that the runtime's units need."""

    tree: Sha256 = Field(description="Digest of the files that we compile with.")
    sources: Sources = Field(min_length=1, description="Sources, tried in order.")
    include: Annotated[str, AfterValidator(_inner_path), Expected("a folder inside the tree")] = (
        Field(description="The folder inside the tree that goes on the include path.")
    )


class LibraryPin(Declared):
    """A pinned source tree of a third-party library, whose units variants link on demand."""

    tree: Sha256 = Field(description="Digest of the files that we compile with.")
    sources: Sources = Field(min_length=1, description="Sources, tried in order.")


# The name of a runtime that is pinned without one.
DEFAULT_RUNTIME: Final = "default"


class RuntimePin(Declared):
    """The PyTorch source tree that variants are cut from."""

    pytorch: str = Field(pattern=VERSION, description="PyTorch's version, such as `1.13.1`.")
    tree: Sha256 = Field(description="Digest of the source files that we compile from.")
    sources: Sources = Field(min_length=1, description="Sources, tried in order.")
    third_party: Mapping[Identifier, ThirdPartyPin] = Field(
        default_factory=dict, description="Header sets that units need, by name."
    )
    libraries: Mapping[Identifier, LibraryPin] = Field(
        default_factory=dict,
        description=(
            "Source trees of libraries with faster kernels, by name; without them models run on"
            " PyTorch's own."
        ),
    )


class Defaults(Declared):
    """What apps get unless they say otherwise."""

    runtime: RuntimeName | None = Field(
        None, description="A name under `runtimes`; to be given where there are several."
    )
    optimize: Optimize = Field(
        "balanced",
        description=(
            "`size`: -Oz, optimised as a whole at each link. `speed`: -O2, kernels -O3."
            " `balanced`: speed for the kernels that the trace shows hot, size for the rest."
        ),
    )
    selection: SelectionPolicy = Field(
        "guarded",
        description=(
            "`traced`: what ran. `static`: all that the models could call. `guarded`: what ran,"
            " and the static closure of the root operators that never ran."
        ),
    )
    kernels: KernelChoice = Field(
        "auto",
        description=(
            "`auto`: a library's kernels if `runtime: libraries:` has one for what the models"
            " compute. `native`: only PyTorch's own. A list: the library's, for these parts only."
        ),
    )
    threads: Threads = Field(
        1,
        description=(
            "Threads that a library uses for one model by default; the app can change the number at"
            " run time. `cores`: as many as the machine has. 1: the library has no threads of its"
            " own and no code for them."
        ),
    )
    maven_group: MavenGroup | None = Field(
        None,
        description="The group of Maven artifacts; default: `libtorch.<app>`, the Java package.",
    )
    backends: Tuple[Backend] = Field(
        ("CPU", "QuantizedCPU"), min_length=1, description="Dispatch keys whose kernels are kept."
    )


class Launcher(Declared):
    """A compiler launcher, run with every compile command: ccache, distcc, icecc, ..."""

    command: Annotated[Tuple[Text], Expected("a list: a program and its arguments")] = Field(
        min_length=1, description="Its argument list."
    )
    env: Mapping[Identifier, Line] = Field(
        default_factory=dict, description="Environment variables set for it."
    )


class Signing(Declared):
    """The key that signs SHA256SUMS, the list of the packages' digests."""

    minisign: Annotated[Text, Expected("the path of a minisign secret key")] = Field(
        description=(
            "The file of a minisign secret key, outside of the workspace: absolute, or with `~` or"
            " `$VARIABLE`. Nothing is signed where a variable in it is unset. The key's password is"
            " in the variable ORCHESTRATOR_SIGNING_PASSWORD."
        )
    )


class WorkspaceConfig(Declared):
    """The file WORKSPACE at the root of the monorepo."""

    version: Literal[1] = Field(description="Version of the file format.")
    runtime: RuntimePin | None = Field(
        None, description="The pinned PyTorch source tree, where the workspace has one."
    )
    runtimes: Mapping[Identifier, RuntimePin] = Field(
        default_factory=dict,
        description=(
            "Several runtimes by name, instead of `runtime`; `defaults: runtime:` is the one for"
            " apps that name none."
        ),
    )
    defaults: Defaults = Field(
        default_factory=lambda: Defaults(), description="What apps get unless they say otherwise."
    )
    cache: Text | None = Field(
        None,
        description=(
            "The user's cache folder: absolute, relative to WORKSPACE, or with `~` or `$VARIABLE`."
            " The variable ORCHESTRATOR_CACHE takes precedence."
        ),
    )
    cache_size: Annotated[Size, AfterValidator(_large_enough)] = Field(
        10 * 10**9,
        description=(
            "The most that objects, linked files, precompiled headers and shards may take in the"
            " cache, besides those that other workspaces link; above it, `run`, `watch` and"
            " `trace` remove the least recently used ones. Default: 10GB."
        ),
    )
    jobs: int | None = Field(
        None, ge=1, le=10_000, description="Commands run at once; default: one per core."
    )
    launcher: Launcher | None = Field(None, description="A compiler launcher, such as ccache.")
    signing: Signing | None = Field(
        None, description="What packages are signed with; without it they are not signed."
    )
    precompiled_headers: bool = Field(
        True,
        description="Whether units share a precompiled header; never used with a launcher.",
    )
    unity_shards: bool = Field(
        True,
        description="Whether the units that every variant has are compiled in unity batches.",
    )

    @model_validator(mode="after")
    def _runtimes_given(self) -> Self:
        given = [name for name in ("runtime", "runtimes") if getattr(self, name)]
        if len(given) != 1:
            raise PydanticCustomError(
                "runtimes",
                "no runtime is pinned" if not given else "runtimes are pinned in two ways",
                {
                    "expected": "`runtime`, or `runtimes` with an entry for each",
                    "seen": " and ".join(given) or "neither",
                },
            )
        named = self.defaults.runtime
        if named is None and len(self.pins) > 1:
            raise PydanticCustomError(
                "runtimes",
                "no runtime is the default",
                {
                    "expected": "`runtime` under `defaults`: one of " + ", ".join(self.pins),
                    "seen": "nothing",
                },
            )
        return self

    @property
    def pins(self) -> Mapping[str, RuntimePin]:
        """All pinned runtimes by name; a single one may have none, and is `DEFAULT_RUNTIME`."""
        return self.runtimes if self.runtime is None else {DEFAULT_RUNTIME: self.runtime}

    @property
    def default_runtime(self) -> str:
        """The name of the runtime that apps are cut from which name none."""
        return self.defaults.runtime or next(iter(self.pins))


# --- apps/<app>/app.yaml ---


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
    """How many elements a tensor has; an empty size counts as 1, so that no other is endless."""
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
        Field(pattern=_INPUTS_FILE),
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
        """Whether its file is a program of torch.export, which no library loads as it is."""
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
        AfterValidator(_inner_path),
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
    include: Tuple[Annotated[str, Field(pattern=SOURCE_FOLDER), AfterValidator(_inner_path)]] = (
        Field((), description="Folders of their headers, relative to the app's folder.")
    )
    flags: Tuple[Annotated[str, Field(pattern=SOURCE_FLAG)]] = Field(
        (), description="Flags of their compilation: -D, -U, -O, -std and -W."
    )
    licence: SourcesLicence | None = Field(
        None, description="Their licence, for packages that hold them."
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
    budgets: Annotated[Mapping[str, Size], Example("{linux-x86_64: 1.5MB}")] = Field(
        default_factory=dict,
        description="Maximum size of the stripped shared library, by ABI: `1.5MB`, `1.5MiB`.",
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


# --- toolchains/<abi>.yaml ---


class ZigCompiler(Declared):
    """The clang and lld inside PyPI's ziglang."""

    target: str = Field(
        pattern=TARGET, description="zig's target, such as `x86_64-linux-gnu.2.28`."
    )


class CommandCompiler(Declared):
    """Compilers installed on this machine, by name or path."""

    cxx: Annotated[Text, Expected("the name or path of a C++ compiler")] = Field(
        description="The C++ compiler."
    )
    cc: Annotated[Text, Expected("the name or path of a C compiler")] = Field(
        description="The C compiler."
    )
    ar: Text | None = Field(None, description="The archiver; default: `ar`.")


class NdkCompiler(Declared):
    """The Android NDK at ANDROID_NDK_HOME or ANDROID_NDK_ROOT."""

    api: Annotated[int, Expected("an Android API level, 21 or higher")] = Field(
        ge=21, description="The minimum Android API level (minSdk)."
    )
    stl: Literal["c++_static", "c++_shared"] = Field(
        "c++_static", description="libc++ linked into the library, or delivered next to it."
    )
    shim: bool = Field(
        False,
        description="Without an NDK, build against a stub sysroot. Such libraries must not ship.",
    )


class XcodeCompiler(Declared):
    """Xcode through `xcrun`; zig with Darwin headers where there is none."""

    sdk: str = Field(
        pattern=TARGET, description="The SDK's name for xcrun: `iphoneos`, `iphonesimulator`."
    )
    minimum: str = Field(pattern=VERSION, description="The minimum iOS version, such as `15.0`.")


class Compiler(OneOf):
    """The compiler and linker of a toolchain."""

    zig: ZigCompiler | None = Field(None, description="PyPI's ziglang.")
    command: CommandCompiler | None = Field(None, description="Compilers of this machine.")
    ndk: NdkCompiler | None = Field(None, description="The Android NDK.")
    xcode: XcodeCompiler | None = Field(None, description="Xcode.")

    @property
    def kind(self) -> CompilerKind:
        """The key that is given."""
        kinds: tuple[CompilerKind, ...] = get_args(CompilerKind)
        return next(kind for kind in kinds if getattr(self, kind) is not None)


class Emulator(Declared):
    """An emulator command that runs binaries of this ABI on the build machine."""

    emulator: Annotated[Tuple[Text], Expected("a list: a program and its arguments")] = Field(
        min_length=1,
        description="Its argument list: a program, and its arguments; `$sysroot` is filled in.",
    )
    sysroot: (
        Annotated[str, Field(pattern=ABSOLUTE, max_length=4096), AfterValidator(_one_line)] | None
    ) = Field(
        None,
        description=(
            "The value of `$sysroot`: the folder of the ABI's C library, searched for on this"
            " machine, then in the files of the Debian packages."
        ),
    )
    debian: Tuple[Annotated[str, Field(pattern=DEBIAN)]] = Field(
        (),
        description=(
            "Debian packages with the libraries and the program, `name` or `name:architecture`: got"
            " through the apt client, without root, until the binaries run."
        ),
    )


Run = Annotated[
    Annotated[Literal["native", "none"], Tag("word")] | Annotated[Emulator, Tag("command")],
    Discriminator(_kind_of_run),
]


class ToolchainConfig(Declared):
    """The file toolchains/<abi>.yaml."""

    abi: AbiName = Field(description="The ABI's name: the file's name without .yaml.")
    system: System = Field(description="The operating system.")
    processor: Processor = Field(description="The processor.")
    format: ObjectFormat = Field(description="The object format.")
    compiler: Annotated[
        Compiler,
        Expected("one of zig, command, ndk, xcode"),
        Example("{zig: {target: x86_64-linux-gnu.2.28}}"),
    ] = Field(description="The compiler and linker.")
    compile_flags: Tuple[Line] = Field((), description="Flags of every compilation.")
    link_flags: Tuple[Line] = Field((), description="Flags of every link.")
    run: Annotated[Run, Expected("native, none or a mapping with `emulator`")] = Field(
        description="How its binaries run on the build machine: native, an emulator, or not at all."
    )


class ToolchainGroup(Declared):
    """A file toolchains/<name>.yaml that stands for several others, as one target."""

    abi: AbiName = Field(description="The target's name: the file's name without .yaml.")
    members: Annotated[Tuple[AbiName], Expected("a list of ABIs")] = Field(
        min_length=1, description="The ABIs in the group: names of other toolchains."
    )
