"""The facts about each supported PyTorch version that its own files do not state.

They are data, read strictly: `facts.yaml`, overridden by the version's own (`Dialect.facts`). The
files are ours, so an error in one is our bug and raises pydantic's own error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Strict

from orchestrator.source.tree import TreeRules
from orchestrator.values.config.forms import Optimize

Kind = Literal[
    "c10",
    "aten-core",
    "generated",
    "native",
    "native-cpu-kernel",
    "quantized",
    "torch",
    "serialize",
    "third-party",
]
Strings = Annotated[tuple[str, ...], Strict(False)]

# Licence texts that a source tree does not hold, though code in it is under them.
LICENCES: Final = Path(__file__).parent / "licences"


class _Data(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class TreeData(_Data):
    """Globs of the files that count, see `TreeRules`."""

    include: Strings
    exclude: Strings

    @property
    def rules(self) -> TreeRules:
        return TreeRules(self.include, self.exclude)


class UnitSet(_Data):
    """A set of units: named lists of build_variables.bzl, globs and files of the tree, and files
    written by code generation, relative to the folder it writes to. `without` are globs of units
    that are left out again."""

    lists: Strings
    globs: Strings
    files: Strings
    generated: Strings
    without: Strings


class KindRule(_Data):
    """Units that match the glob are of this kind, unless an earlier rule matched."""

    glob: str
    kind: Kind


class FamilyRule(_Data):
    """Units that match the glob are of this family, unless an earlier rule matched."""

    glob: str
    family: str


class UpstreamData(_Data):
    """Units that upstream's own build of the lite interpreter compiles, by family."""

    units: UnitSet
    families: Annotated[tuple[FamilyRule, ...], Strict(False)]


class ConfigureData(_Data):
    """Headers that CMake configures (path as included -> `.in` file in the tree), and values."""

    headers: Mapping[str, str]
    values: Mapping[str, str]


class AlwaysUnit(_Data):
    """A unit without which nothing runs, though no operator of the selection names it; and why."""

    unit: str
    why: str
    tracer_only: bool = False


class IncludeRule(_Data):
    """A header of ours that one unit is compiled with (`-include`), and why.

    unless: root operators, and the last version of archives (`.data/version`) that mean something
        else by them: variants with such a model have the unit as it is.
    calls: for root operators of `unless`, the other operators that what takes their place names.
    tracer: the header that a tracer's unit is compiled with instead; "" for the same.
    behind: whether it is read behind the unit's projection.
    first: whether it is read before every other header, so that the unit is compiled without the
        precompiled one: it changes what headers mean.
    """

    unit: str
    header: str
    why: str
    tracer: str = ""
    unless: Mapping[str, int] = {}
    calls: Mapping[str, Strings] = {}
    behind: bool = False
    first: bool = False


class FlagsRule(_Data):
    """Flags that some units have before all others, and why. `units` are globs.

    precompiled: whether they have the precompiled header too: the flags mean nothing to what it
        reads.
    """

    units: Strings
    flags: Strings
    why: str
    precompiled: bool = False


class FallbackRule(_Data):
    """A unit that registers a dispatch key's fallback, and the operators whose results carry it."""

    unit: str
    operators: Strings


class AloneUnit(_Data):
    """A unit that cannot be a member of a unity shard, and why."""

    unit: str
    why: str


class UnityData(_Data):
    """Unity shards: operators of nearly every variant, a shard's size in CPU seconds, conflicts."""

    usual: Strings
    cost: float
    undefine: Strings
    alone: Annotated[tuple[AloneUnit, ...], Strict(False)]


class AddonsData(_Data):
    """Kernel tags that a library which takes add-ons has for these dtypes, too."""

    tags: Strings
    dtypes: Strings


class EstimatesData(_Data):
    """Bytes by which libraries differ from what weights tell (`size/estimate.py`).

    base      of each library
    operator  of each operator that it registers
    """

    base: int
    operator: int


class LayoutsData(_Data):
    """Additional needs of operators for some sizes and layouts of their tensors.

    calls           operators that they call for these alone
    by_operator     the same of single operators: what others always call
    native          the same of PyTorch's own layers
    tags            kernel tags (globs)
    beside_qnnpack  kernel tags of what QNNPACK, which has none, computes for other sizes
    """

    calls: Strings
    by_operator: Mapping[str, Strings]
    native: Strings
    tags: Strings
    beside_qnnpack: Strings

    @property
    def computing(self) -> frozenset[str]:
        """Operators that compute, among those that are selected: no views and copies."""
        return frozenset(self.native).union(*self.by_operator.values())

    def with_native(self) -> LayoutsData:
        """Copy whose `calls` include those of PyTorch's own layers."""
        return self.model_copy(update={"calls": (*self.calls, *self.native)})


class ByNameRule(_Data):
    """Operators that a unit looks up by name."""

    unit: str
    operators: Strings
    why: str


class CutRule(_Data):
    """A unit that only tensors of one kind reach: replaced by stubs where nothing makes them.

    Tensors of symbolic sizes are Python's, when it traces a program: no model makes one.
    """

    unit: str
    unless: Literal["quantized", "sparse", "symbolic"]


class TextPlace(_Data):
    """A licence's text: a file, or lines of one (first and last, from 1)."""

    file: str
    lines: Annotated[tuple[int, int], Strict(False)] | None = None

    def read(self, folder: Path) -> bytes:
        """The text; raises `OSError`."""
        data = (folder / self.file).read_bytes()
        if self.lines is None:
            return data
        first, last = self.lines
        return b"".join(data.splitlines(keepends=True)[first - 1 : last])


class ShippedText(_Data):
    """A licence's text that we ship: a file of `LICENCES`."""

    shipped: str

    def read(self, folder: Path) -> bytes:
        """The text; raises `OSError`."""
        return (LICENCES / self.shipped).read_bytes()


class LicenceRule(_Data):
    """A part of PyTorch's objects and headers: its licence (an SPDX expression) and texts, by name.

    Variants hold it that hold one of the units, globs as in `tree`. `files` are globs of the files
    of the tree that it consists of; none stands for the whole tree, or header set (`third_party`).
    """

    component: str
    version: str
    licence: str
    texts: Mapping[str, TextPlace | ShippedText]
    units: Strings
    files: Strings = ()
    third_party: str | None = None


class MemoryData(_Data):
    """Megabytes that the compiler takes for a unit, and for one of `heavy_cost` CPU seconds."""

    unit_mb: int
    heavy_unit_mb: int
    heavy_cost: float


class WorkRule(_Data):
    """Work of the kernels with some tags (globs): the unit in which it is counted, and steps for
    each."""

    tags: Strings
    of: Literal["elements", "results", "products"]
    steps: float


class WorkData(_Data):
    """Rules by which traces convert counts into steps, each about a nanosecond (`trace/hot.py`).

    call and kernel are steps of a call of an operator, and of a kernel's start. The first rule that
    matches a tag counts; `element` is for elements of tags that none matches.
    """

    call: int
    kernel: int
    element: float
    rules: Annotated[tuple[WorkRule, ...], Strict(False)]


class VersionData(_Data):
    """The facts about one version of PyTorch; the YAML file's comments explain each."""

    version: str
    tree: TreeData
    debian_suites: Strings
    disk_mb: int
    units: UnitSet
    kinds: Annotated[tuple[KindRule, ...], Strict(False)]
    upstream: UpstreamData
    optimised: Strings
    configure: ConfigureData
    always: Annotated[tuple[AlwaysUnit, ...], Strict(False)]
    without_pch: Strings
    making: Strings
    include: Annotated[tuple[IncludeRule, ...], Strict(False)]
    flags: Annotated[tuple[FlagsRule, ...], Strict(False)]
    fallbacks: Annotated[tuple[FallbackRule, ...], Strict(False)]
    unity: UnityData
    by_name: Annotated[tuple[ByNameRule, ...], Strict(False)]
    cuts: Annotated[tuple[CutRule, ...], Strict(False)]
    licences: Annotated[tuple[LicenceRule, ...], Strict(False)]
    memory: MemoryData
    random: Strings
    usual_calls: Strings
    addons: AddonsData
    layouts: LayoutsData
    lapack: Strings
    custom_classes: Strings
    packings: Mapping[str, Strings] = {}
    computed_tags: Mapping[str, Strings]
    work: WorkData
    estimates: EstimatesData
    all_operators_bytes: Mapping[str, Mapping[Optimize, int]]
