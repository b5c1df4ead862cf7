"""Defines `Dialect`: the facts about a PyTorch version that the rest of the code needs.

A version is a folder, `v1_13/` for 1.13.1: PyTorch changes its tree, symbols and generators from
one minor release to the next, but not within one. The folder has what is specific to the version:

    dialect.py          the value, from flags.py, symbols.py and keys.py
    facts.yaml          data that its sources do not say; the rest is in `facts.yaml` above it
    index.zst           the runtime index
    entry.json          symbols of it that our native code refers to
    kernels.json        symbols of it that our kernels refer to
    torchgen_worker.py  the script that runs its torchgen

A newer version's modules import an older one's values, and `dataclasses.replace` what differs; its
facts.yaml has the changes to its base's facts (`changes.py`), and `overlay/` has headers of ours
that its units include instead of those in native/ that do not fit: any unit finds those below
`overlay/include`, the others are for units that facts.yaml names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from orchestrator.pytorch.changes import changed
from orchestrator.pytorch.versions import VersionData
from orchestrator.values.versions import ModelVersions

# Facts that no version has for itself.
_SHARED: Final = Path(__file__).with_name("facts.yaml")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class UnitFlags:
    """Flags that its units need, whatever they are optimised for; folders as `$tree`, `$generated`.

    standard    of C++
    macros      of every C++ unit
    release     macros of a release variant, `tracer` of a tracer
    c           of every unit of C
    include     folders on the include path, in order
    unexported  of these, what no header of the C++ API is in
    quoted      folders where only names in quotes are looked up
    """

    standard: str
    macros: tuple[str, ...]
    release: tuple[str, ...]
    tracer: tuple[str, ...]
    c: tuple[str, ...]
    include: tuple[str, ...]
    unexported: frozenset[str]
    quoted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """Units that are compiled in a way of their own, by the starts of their paths.

    reading      units that read models: guarded most against memory errors
    kernels      units that compute, once for many numbers: not guarded
    running      units that run for each operator of a model
    loops        folders of kernels: loops over numbers
    precompiled  units that include ATen/Tensor.h or more, and so a precompiled header
    threads      the one unit that sets the number of threads (with `AT_PARALLEL_OPENMP`)
    """

    reading: tuple[str, ...]
    kernels: tuple[str, ...]
    running: tuple[str, ...]
    loops: tuple[str, ...]
    precompiled: tuple[str, ...]
    threads: str

    def reads(self, unit: str) -> bool:
        """True if a unit reads models; few units are compiled with its flags."""
        return unit.startswith(self.reading)


@dataclass(frozen=True)
class Symbols:
    """Mangled names (Itanium C++ ABI) of what an index is made by, and of what a walk starts at.

    commit          start of a symbol that registers an operator -> `impl`, `def` or `fallback`
    function        start of what a kernel is put into, `torch::CppFunction`
    holds_kernel    a part of a symbol that has the kernel in its type
    constructors    starts of what makes a `torch::jit::Operator`
    library_block   a `TORCH_LIBRARY*` block's function: a length and a name of so many characters
    library_name    that name: groups `impl`, `key`, `fragment`, `library`
    operator_call   a typed entry point: a length, then the operator's struct and the function
    registering     starts of what generated registrations call
    threads         what parallel code asks of the unit `Layout.threads`
    recording       what the dispatcher calls to tell observers of an operator
    loaders         start of PyTorch's own loaders of models
    """

    commit: Mapping[str, str]
    function: str
    holds_kernel: re.Pattern[str]
    constructors: tuple[str, ...]
    library_block: re.Pattern[str]
    library_name: re.Pattern[str]
    operator_call: re.Pattern[str]
    registering: tuple[str, ...]
    threads: tuple[str, ...]
    recording: re.Pattern[str]
    loaders: str


@dataclass(frozen=True)
class DispatchKeys:
    """Dispatch keys by what their kernels are for (c10/core/DispatchKey.h), and what torchgen makes
    of them.

    host            of the backend that every variant has
    alias           serve every backend
    backend_select  finds the backend, and calls the operator again
    non_functional  functional kernels made for structured operators of backends without their own:
                    a kernel of `host` shadows them
    shared          have their Register<key>.cpp in one unit; kernels under another key may have
                    wrappers of the same name, so each other key is a unit of its own
    """

    host: str
    alias: frozenset[str]
    backend_select: str
    non_functional: str
    shared: tuple[str, ...]

    @property
    def direct(self) -> frozenset[str]:
        """Keys under which one kernel may be all that an operator has."""
        return frozenset({*self.shared, self.non_functional})


@dataclass(frozen=True)
class Generator:
    """A generator of the tree: the arguments of Python, where `{output}` is the output folder.

    into  that folder, below the folder of generated files
    """

    arguments: str
    into: str


@dataclass(frozen=True)
class Generated:
    """Files that code generation writes.

    sources     generators that run once for a version, on the tree alone
    selected    starts of the paths of generated units that are written again for each selection
    helpers     functions that torchgen writes into every Register<key>.cpp
    always      operators that the template of RegisterBackendSelect.cpp calls, whatever is selected
    worker      the script that writes registrations
    """

    sources: tuple[Generator, ...]
    selected: tuple[str, ...]
    helpers: tuple[str, ...]
    always: frozenset[str]
    worker: Path


@dataclass(frozen=True, eq=False)
class Dialect:
    """One PyTorch version; see the top. There is one value for each, equal to itself alone."""

    version: str
    folder: Path = field(repr=False)
    flags: UnitFlags = field(repr=False)
    layout: Layout = field(repr=False)
    symbols: Symbols = field(repr=False)
    keys: DispatchKeys = field(repr=False)
    generated: Generated = field(repr=False)
    models: ModelVersions = field(repr=False)
    base: Dialect | None = field(default=None, repr=False)

    @cached_property
    def facts(self) -> VersionData:
        """The facts: the shared ones, and over them the version's own; or, of a version that has a
        base, its changes of the base's."""
        facts = VersionData.model_validate(self._written)
        assert facts.version == self.version, f"{self.folder.name} is of {facts.version}"
        return facts

    @cached_property
    def _written(self) -> dict[str, Any]:
        own = _read(self.folder / "facts.yaml")
        if self.base is None:
            return _read(_SHARED) | own
        written: dict[str, Any] = changed(self.base._written, own)
        return written

    @property
    def overlay(self) -> Path | None:
        """Folder of our headers that only this version's units read; None if it has none."""
        folder = self.folder / "overlay"
        return folder if folder.is_dir() else None

    @property
    def index(self) -> Path:
        """Path of the version's shipped runtime index."""
        return self.folder / "index.zst"

    @property
    def entry(self) -> Path:
        """Path of the shipped list of the version's symbols that our native code refers to."""
        return self.folder / "entry.json"

    @property
    def kernels(self) -> Path:
        """Path of the shipped list of the version's symbols that our kernels refer to."""
        return self.folder / "kernels.json"


def _read(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    return facts
