"""The manifest of a delivered variant: `manifest.json`, read and written without loss.

Contract: `Manifest.parse(manifest.text()) == manifest`. All collections are sorted, so that equal
facts give equal bytes. Sizes are bytes; digests are lower-case sha256. The packagers make their
packages from a delivered folder and its manifest alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    model_serializer,
    model_validator,
)

from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.reading import read_text
from orchestrator.values.config.app import CxxApi, JavaApi
from orchestrator.values.config.forms import ABI, GROUP, IDENTIFIER, NAME, PACKAGE, SHA256, VERSION
from orchestrator.values.config.toolchain import Processor, System
from orchestrator.values.forms import Class, Dtype, Feature, Operator, Tag
from orchestrator.values.labels import VariantLabel
from orchestrator.values.methods import Call, Method
from orchestrator.values.selection import ALL_DTYPES

MANIFEST: Final = "manifest.json"
# The bill of materials beside it: `sbom.py`.
BILL: Final = "sbom.cdx.json"
# The longest that is read: fifty times the largest of ours.
MAX_MANIFEST: Final = 8 * 2**20


class UnreadableManifestError(OrchestratorError):
    """A folder holds no manifest of ours, or a damaged one."""


class _Fact(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class _SparseFact(_Fact):
    """A fact that is not in the JSON with `left_out`, the fields that came later, where they are
    empty."""

    left_out: ClassVar[tuple[str, ...]]

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = serialize(self)
        for name in self.left_out:
            if not getattr(self, name):
                fields.pop(name, None)
        return fields


def _canonical(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


# Arrays in the file, sorted tuples without repetition in memory.
Names = Annotated[tuple[str, ...], Strict(False), AfterValidator(_canonical)]
# Far more than PyTorch has of anything: a manifest may come from anywhere.
_MOST: Final = 20_000
_All = Literal["*"]
assert get_args(_All) == (ALL_DTYPES,)
Operators = Annotated[
    tuple[Operator, ...], Strict(False), AfterValidator(_canonical), Field(max_length=_MOST)
]
Dtypes = Annotated[tuple[_All | Dtype, ...], Strict(False), AfterValidator(_canonical)]
Classes = Annotated[
    tuple[_All | Class, ...], Strict(False), AfterValidator(_canonical), Field(max_length=_MOST)
]
Features = Annotated[
    tuple[Feature, ...], Strict(False), AfterValidator(_canonical), Field(max_length=_MOST)
]
_Key = Annotated[str, Field(pattern=IDENTIFIER)]
_Symbol = Annotated[str, Field(pattern=r"^[\w.$]+$", max_length=4000)]
Symbols = Annotated[
    tuple[_Symbol, ...], Strict(False), AfterValidator(_canonical), Field(max_length=_MOST)
]
Keys = Annotated[tuple[_Key, ...], Strict(False), AfterValidator(_canonical)]
Digest = Annotated[str, Field(pattern=SHA256)]


class ModelFact(_Fact):
    """A model that the variant was cut for and has run: what can be called in it, and a call that
    it was traced with, where it is known.

    sha256     of the app's file
    delivered  the path of the file that is delivered, which has run too; None where none is
    """

    name: str = Field(pattern=NAME)
    file: str
    sha256: Digest
    methods: Annotated[tuple[Method, ...], Strict(False)] = ()
    call: Call | None = None
    delivered: str | None = None


class SelectionFact(_SparseFact):
    """Selected operators, dtypes by kernel tag, custom classes, build features.

    They decide which other models the library runs (`select/fits.py`). `*` stands for all.

    root_operators      those that its models name, or its app adds; None in manifests from before
    resolved_operators  those that only code calls: they are in the library, and no model can name
                        them; None in manifests from before
    backends            dispatch keys whose kernels count; empty in manifests from before
    left_out_operators  those that its models name only in calls that no input can reach: they load
                        without them; not in the JSON where there are none
    """

    left_out = ("left_out_operators",)

    operators: Operators
    kernel_dtypes: Annotated[Mapping[_All | Tag, Dtypes], Field(max_length=_MOST)]
    custom_classes: Classes = ()
    build_features: Features = ()
    root_operators: Operators | None = None
    resolved_operators: Operators | None = None
    backends: Keys = ()
    left_out_operators: Operators = ()

    @property
    def digest(self) -> str:
        """`selection_digest` of the fields."""
        return selection_digest(self.model_dump(mode="json"))


def selection_digest(fields: Mapping[str, object]) -> str:
    """sha256 (hex) of a selection alone: the same for all ABIs and machines of an app.

    Of the manifest's `selection` as JSON in ASCII, with sorted keys and without blanks. Libraries
    that have shipped report theirs: a field that is added may count only if it is not its default.
    fields: of `SelectionFact`, all of them, and as it has them: sorted, without repetition
    """
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


Versions = Annotated[tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]], Strict(False)]


class RuntimeFact(_Fact):
    """The PyTorch source: its version, and the digest of the files that were compiled.

    bytecode  the first and the last version of models' bytecode that it loads; None in manifests
              from before
    archive   the same of models' archives
    """

    pytorch: str = Field(pattern=VERSION)
    tree: Digest
    bytecode: Versions | None = None
    archive: Versions | None = None


class KernelsFact(_Fact):
    """Kernels of a third-party library: what they are for, the library, its version, and the CPU
    levels above the ABI's baseline that they choose from; None in one from before
    there was a choice."""

    features: Names
    library: str
    version: str
    levels: Names | None = None


class AndroidFact(_Fact):
    """Android: the least API level, the NDK's major release (None for the stub sysroot), and which
    of the NDK's C++ libraries."""

    api: int
    ndk: int | None
    stl: Literal["c++_static", "c++_shared"]


class ToolchainFact(_Fact):
    """Compiler of the library: `zig`, `0.17.0`. An app that links the archives must be built with
    `cxx_library`; `target` is zig's."""

    compiler: str
    version: str = Field(min_length=1)
    identity: str
    cxx_library: Literal["libc++", "libstdc++"]
    target: str | None = None
    android: AndroidFact | None = None


class SourceFact(_Fact):
    """Sources of a part, which identify it better than its name and version.

    sha256  of the one file; of several, of the lines that `sha256sum` prints for them in the order
            of their paths (source/tree.py)
    files   globs of the files, relative to the part's folder; none: a whole pinned tree
    """

    sha256: str
    files: Names = ()


class LicenceFact(_SparseFact):
    """A part of the libraries or headers, its licence as an SPDX expression, its texts' names.

    `version` is empty where the part has none: code copied into PyTorch's own files.

    mended  names of advisories against which a header of ours stands before a unit of it
    """

    left_out = ("mended",)

    component: str
    version: str
    licence: str
    files: Names
    source: SourceFact | None = None
    mended: Names = ()


class FileFact(_Fact):
    """A delivered file."""

    bytes: int = Field(ge=0)
    sha256: Digest


class LibraryFact(_Fact):
    """The library that apps link, and of a shared one what a debugger finds its symbols by.

    A static library (iOS) has neither a soname nor symbols of its own.

    needed    the libraries of the system that the loader finds for it
    versions  the highest version that it needs of each set of symbols: `GLIBC` -> `2.17`
    """

    file: str
    soname: str | None
    build_id: str | None
    symbols: str | None
    needed: Names = ()
    versions: Mapping[str, str] = Field(default_factory=dict)

    @property
    def is_static(self) -> bool:
        """True if the library is a static archive, as for iOS: it has no soname."""
        return self.soname is None


class Manifest(_SparseFact):
    """The whole of `manifest.json`."""

    left_out = ("source_calls",)

    format: Literal[1] = 1
    app: str = Field(pattern=NAME)
    abi: str = Field(pattern=ABI)
    version: str = Field(pattern=VERSION)
    package_name: str = Field(pattern=PACKAGE)
    # None: the app's Java package.
    maven_group: Annotated[str, Field(pattern=GROUP)] | None = None
    # What an AAR has beside the app's own Java API.
    java_api: JavaApi | None = None
    # What an XCFramework has beside the C API.
    cxx_api: CxxApi | None = None
    system: System
    processor: Processor
    for_release: bool
    # Of what the app's variants have in common: one package may join those that have the same.
    fingerprint: str = ""
    models: Annotated[tuple[ModelFact, ...], Strict(False)]
    selection: SelectionFact
    # What the library itself says (lta_selection_digest); None in a manifest from before it could.
    selection_digest: Digest | None = None
    runtime: RuntimeFact
    # The app's own C++ files and headers, relative to its folder; None where it has none.
    sources: SourceFact | None = None
    # Symbols that these refer to and do not define; empty in a manifest from before, too.
    source_calls: Symbols = ()
    # None: PyTorch's own alone.
    kernels: KernelsFact | None = None
    # That a run uses by default; 0: as many as the machine has cores.
    threads: int = Field(1, ge=0)
    toolchain: ToolchainFact
    # What a C++ consumer of the static libraries must define (`NAME` or `NAME=value`).
    definitions: Names
    library: LibraryFact
    licences: Annotated[tuple[LicenceFact, ...], Strict(False)]
    # By path in the delivered folder; the manifest itself is not in it.
    files: Mapping[str, FileFact] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_its_own_digest(self) -> Self:
        if self.selection_digest not in (None, self.selection.digest):
            raise ValueError("the digest of `selection` is another one than `selection_digest`")
        return self

    @property
    def label(self) -> VariantLabel:
        return VariantLabel(self.app, self.abi)

    def text(self) -> str:
        """The file's text: JSON with sorted keys, two spaces of indent and a last newline."""
        return json.dumps(self.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """The manifest in a JSON text, the inverse of `text`. Raises pydantic's ValidationError."""
        return cls.model_validate_json(text)


def read_manifest(folder: Path) -> Manifest:
    """The manifest in a delivered folder, validated. Raises UnreadableManifestError where there is
    none, or one of another format."""
    path = folder / MANIFEST
    try:
        text = read_text(path, MAX_MANIFEST)
        if len(text) > MAX_MANIFEST:
            raise ValueError(f"more than {MAX_MANIFEST:,} characters")
        return Manifest.parse(text)
    except (OSError, ValueError) as cause:
        raise UnreadableManifestError(
            "this folder has no readable manifest",
            place=Place(str(path)),
            expected="the manifest.json of a delivered variant",
            seen=str(cause).splitlines()[0],
            hint="build the variant again",
        ) from cause
