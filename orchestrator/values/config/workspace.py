"""`WORKSPACE` as a value: what is pinned, defaults, launcher, signing key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from orchestrator.values.config.forms import (
    ARCHIVE,
    PACKAGE,
    SHA256,
    URL,
    VERSION,
    Declared,
    Example,
    Expected,
    Identifier,
    KernelChoice,
    Line,
    MavenGroup,
    OneOf,
    Optimize,
    RuntimeName,
    SelectionPolicy,
    Size,
    Text,
    Threads,
    Tuple,
    inner_path,
)

# What one model's first run adds is less.
LEAST_CACHE_SIZE: Final = 100 * 10**6


def _large_enough(size: int) -> int:
    """A forgotten unit is a fault, and no order to keep nothing."""
    if size < LEAST_CACHE_SIZE:
        raise PydanticCustomError("size", "too small", {"expected": "100MB or more, such as 10GB"})
    return size


Sha256 = Annotated[str, Field(pattern=SHA256)]
Backend = Literal["CPU", "QuantizedCPU", "SparseCPU"]


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
    include: Annotated[str, AfterValidator(inner_path), Expected("a folder inside the tree")] = (
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
    """Settings of an app whose app.yaml does not set them."""

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
        default_factory=lambda: Defaults(),
        description="Settings of an app whose app.yaml does not set them.",
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
