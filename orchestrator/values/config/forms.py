"""Forms of values that several declaration files have, and the base of all declared values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self, TypeVar

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
KernelPart = Literal[
    "convolution",
    "linear",
    "pooling",
    "recurrent",
    "gemm",
    "attention",
    "softmax",
    "layer_norm",
    "bilinear",
    "activation",
    "unary",
    "binary",
    "shortcuts",
]

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
INPUTS_FILE: Final = r"\.(npz|json)$"
PATTERN_WORDS: Final[Mapping[str, str]] = {
    INPUTS_FILE: "the path of a .npz or .json file",
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

# `threads: cores`, as a number; and the most that a library takes (native/threads/pool.h).
CORES: Final = 0
MOST_THREADS: Final = 1024

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


def parse_threads(value: object) -> int:
    """Parse the default number of threads of a library; `cores` becomes `CORES`, a thread for each
    core of the machine.

    Raises `PydanticCustomError` for anything else than a number in range or `cores`.
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


def one_line(text: str) -> str:
    """Texts of declarations become arguments, paths, and lines of generated files."""
    if visible(text) != text:
        raise PydanticCustomError(
            "one_line", "it contains a control character", {"expected": "text of one line"}
        )
    return text


def inner_path(text: str) -> str:
    path = PurePosixPath(one_line(text))
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
AbiName = Annotated[str, Field(pattern=ABI)]
Line = Annotated[str, Field(max_length=4096), AfterValidator(one_line)]
Text = Annotated[Line, Field(min_length=1)]
MavenGroup = Annotated[str, Field(pattern=GROUP)]
Identifier = Annotated[str, Field(pattern=IDENTIFIER)]
# Any text, and a version that YAML takes for a number: the loader compares it with what is pinned.
RuntimeName = Annotated[
    Text, BeforeValidator(lambda value: str(value) if type(value) in (int, float) else value)
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
    """Description of the value of a required field, for the error about a missing key."""

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
