"""The manifest of a delivered variant: `manifest.json`, read and written without loss.

Contract: `Manifest.parse(manifest.text()) == manifest`. All collections are sorted, so that equal
facts give equal bytes. Sizes are bytes; digests are lower-case sha256. The packagers make their
packages from a delivered folder and its manifest alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError

from orchestrator.errors import OrchestratorError, Place
from orchestrator.values.config import ABI, GROUP, NAME, PACKAGE, VERSION, Processor, System
from orchestrator.values.methods import Call, Method

MANIFEST: Final = "manifest.json"


class UnreadableManifestError(OrchestratorError):
    """A folder holds no manifest of ours, or a damaged one."""


class _Fact(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


def _canonical(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


# Arrays in the file, sorted tuples without repetition in memory.
Names = Annotated[tuple[str, ...], Strict(False), AfterValidator(_canonical)]


class ModelFact(_Fact):
    """A model that the variant was cut for and has run: what can be called in it, and a call that
    it was traced with, where it is known."""

    name: str = Field(pattern=NAME)
    file: str
    sha256: str
    methods: Annotated[tuple[Method, ...], Strict(False)] = ()
    call: Call | None = None


class SelectionFact(_Fact):
    """What was selected: operators, dtypes by kernel tag, custom classes, build features."""

    operators: Names
    kernel_dtypes: Mapping[str, Names]
    custom_classes: Names = ()
    build_features: Names = ()


class RuntimeFact(_Fact):
    """The PyTorch source: its version, and the digest of the files that were compiled."""

    pytorch: str = Field(pattern=VERSION)
    tree: str


class KernelsFact(_Fact):
    """Kernels of a third-party library: what they are for, the library, its version."""

    features: Names
    library: str
    version: str


class AndroidFact(_Fact):
    """Android: the least API level, the NDK's major release (None for the stub sysroot), and which
    of the NDK's C++ libraries."""

    api: int
    ndk: int | None
    stl: Literal["c++_static", "c++_shared"]


class ToolchainFact(_Fact):
    """What compiled it: `zig`, `0.17.0`. `cxx_library` is what an app that links the archives must
    be built with; `target` is zig's."""

    compiler: str
    version: str = Field(min_length=1)
    identity: str
    cxx_library: Literal["libc++", "libstdc++"]
    target: str | None = None
    android: AndroidFact | None = None


class SourceFact(_Fact):
    """What a part was compiled from, which identifies it whatever its name and version are.

    sha256  of the one file; of several, of the lines that `sha256sum` prints for them in the order
            of their paths (source/tree.py)
    files   globs of the files, relative to the part's own folder; none: a whole pinned tree
    """

    sha256: str
    files: Names = ()


class LicenceFact(_Fact):
    """A part of the libraries or headers, its licence as an SPDX expression, its texts' names.

    `version` is empty where the part has none: code copied into PyTorch's own files."""

    component: str
    version: str
    licence: str
    files: Names
    source: SourceFact | None = None


class FileFact(_Fact):
    """A delivered file."""

    bytes: int
    sha256: str


class LibraryFact(_Fact):
    """The library that apps link, and of a shared one what a debugger finds its symbols by.

    A static library (iOS) has neither a soname nor symbols of its own."""

    file: str
    soname: str | None
    build_id: str | None
    symbols: str | None

    @property
    def is_static(self) -> bool:
        """Whether it is an archive, and the only library of its variant."""
        return self.soname is None


class Manifest(_Fact):
    """The whole of `manifest.json`."""

    format: Literal[1] = 1
    app: str = Field(pattern=NAME)
    abi: str = Field(pattern=ABI)
    version: str = Field(pattern=VERSION)
    package_name: str = Field(pattern=PACKAGE)
    # None: the app's Java package.
    maven_group: Annotated[str, Field(pattern=GROUP)] | None = None
    system: System
    processor: Processor
    for_release: bool
    # Of what the app's variants have in common: one package may join those that have the same.
    fingerprint: str = ""
    models: Annotated[tuple[ModelFact, ...], Strict(False)]
    selection: SelectionFact
    runtime: RuntimeFact
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

    def text(self) -> str:
        """The file's text: JSON with sorted keys, two spaces of indent and a last newline."""
        return json.dumps(self.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """The inverse of `text`; raises pydantic's `ValidationError`."""
        return cls.model_validate_json(text)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a delivered folder; raises `UnreadableManifestError`."""
    path = folder / MANIFEST
    try:
        return Manifest.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError, UnicodeDecodeError) as cause:
        raise UnreadableManifestError(
            "this folder has no readable manifest",
            place=Place(str(path)),
            expected="the manifest.json of a delivered variant",
            seen=str(cause).splitlines()[0],
            hint="build the variant again",
        ) from cause
