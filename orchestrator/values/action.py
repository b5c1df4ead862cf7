"""Actions: commands with all their inputs and outputs, identified by content.

Texts hold `$variables` for folders (`$cache`, `$tree`, `$state`, ...), so that an action is the
same value on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, Literal

from orchestrator.values.fingerprint import Identity, fingerprint

Language = Literal["c", "c++"]


class _Mark(Enum):
    """Stands among a compilation's parts for the compilation's field of the part's name."""

    FIELD = 0


FIELD: Final = _Mark.FIELD

# How clang precompiles a header. Without the headers' times: a fetch of the same tree must not make
# it stale. Templates that the header uses are instantiated in it: otherwise each unit that reads it
# instantiates all of them again, about 1 CPU second a unit (clang's
# LangOptions::PCHInstantiateTemplates).
PRECOMPILE_FLAGS: Final = (
    *("-x", "c++-header"),
    *("-Xclang", "-fno-pch-timestamp", "-Xclang", "-fpch-instantiate-templates"),
)
# What compilers write beside an object: the files that they read.
_DEPENDENCIES: Final = ("-MD", "-MF")
# With it a unit of an app takes about this share of its cost: an index has that from units with all
# dtypes, which instantiate all templates themselves (decision 0072).
_WITH_HEADER: Final = 0.2


@dataclass(frozen=True)
class Precompile:
    """A header compiled once for many units.

    Specific to one machine: it contains absolute paths, and is never shared.

    fingerprint  digest of what it means, without paths: part of its users' identities
    folder       where ninja writes it: a folder of the workspace, named by the paths that it holds
    parts        what `fingerprint` is the digest of
    """

    source: str
    abi: str
    flags: tuple[str, ...]
    fingerprint: str
    cost: float = 5.0
    folder: str = "$pch"
    parts: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)

    @property
    def identity(self) -> Identity:
        """Identity of the header: its named parts, whose digest is `fingerprint`."""
        return Identity(self.parts)

    @property
    def output(self) -> str:
        """Path of the precompiled header, which ninja writes."""
        return f"{self.folder}/{self.fingerprint}.pch"


def precompile_words(flags: Sequence[str], depfile: str, source: str, output: str) -> list[str]:
    """The arguments that precompile a header."""
    return [*flags, *PRECOMPILE_FLAGS, *_DEPENDENCIES, depfile, source, "-o", output]


def compile_words(
    flags: Sequence[str], first: Sequence[str], depfile: str, source: str, output: str
) -> list[str]:
    """The arguments that compile a unit. first: `read_first`, as words."""
    return [*flags, *first, *_DEPENDENCIES, depfile, "-c", source, "-o", output]


def read_first(
    header: str | None, projection: str | None, behind: Iterable[str]
) -> list[tuple[str, str]]:
    """Options and files, of what a unit reads before its source, in this order: its precompiled
    header, its projection, the headers of ours behind that."""
    first = [] if header is None else [("-include-pch", header)]
    if projection is not None:
        first.append(("-include", projection))
    return [*first, *(("-include", file) for file in behind)]


def projection_path(digest: str) -> str:
    """The path of a projection header, named by the digest of its text."""
    return f"$cache/projections/{digest}.h"


# The commands, as parts of identities: another order of arguments is another command.
COMPILE_COMMAND: Final = " ".join(
    compile_words(
        ["$flags"],
        [word for pair in read_first("$pch", "$projection", ["$behind"]) for word in pair],
        *("$depfile", "$source", "$object"),
    )
)
PRECOMPILE_COMMAND: Final = " ".join(precompile_words(["$flags"], "$depfile", "$source", "$header"))


@dataclass(frozen=True)
class Compile:
    """One translation unit to one object.

    unit         its name for people, `aten/src/ATen/native/Linear.cpp`
    source       its file, with a variable in front
    projection   digest of the projection header that is read first; None for an op-agnostic unit
    pch          the precompiled header that it is compiled with, if any
    behind       headers of ours that are read behind the projection
    fingerprint  digest of everything that can change the object
    cost         user CPU seconds by the index; `seconds` is what is expected here
    members      of a unity shard: the compilations that it takes the place of
    parts        what `fingerprint` is the digest of: text, lists of text, other compilations, which
                 count by their fingerprints. `FIELD` stands for the field of that name, so that
                 many compilations have one value: there are 80,000 in a large plan
    """

    unit: str
    source: str
    language: Language
    abi: str
    flags: tuple[str, ...]
    projection: str | None
    fingerprint: str
    cost: float
    pch: Precompile | None = None
    behind: tuple[str, ...] = ()
    members: tuple[Compile, ...] = ()
    parts: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)

    @property
    def identity(self) -> Identity:
        """Identity of the object: its named parts, whose digest is `fingerprint`."""
        return Identity(
            {
                name: _counted(getattr(self, name) if part is FIELD else part, _IDENTITY)
                for name, part in self.parts.items()
            }
        )

    @property
    def read_first(self) -> list[tuple[str, str]]:
        """Options and files, of what is read before the source."""
        projection = None if self.projection is None else projection_path(self.projection)
        return read_first(None if self.pch is None else self.pch.output, projection, self.behind)

    @property
    def seconds(self) -> float:
        """Expected user CPU seconds; a shard's cost is that of what its members share."""
        return self.cost if self.pch is None or self.members else self.cost * _WITH_HEADER

    @property
    def units(self) -> tuple[str, ...]:
        """The units that are in the object: one, or a unity shard's."""
        return tuple(member.unit for member in self.members) or (self.unit,)

    @cached_property
    def object(self) -> str:
        """Path in the workspace at which ninja writes the object. The cache stores it under its
        digest: see `cache/store.py`."""
        return f"$state/objects/{self.fingerprint[:2]}/{self.fingerprint}.o"


def identified(one: Compile, parts: Mapping[str, object], **changes: Any) -> Compile:
    """Another form of a compilation, with these fields changed and an identity of these parts."""
    digest = fingerprint({name: _counted(part, _FINGERPRINT) for name, part in parts.items()})
    return replace(one, **changes, fingerprint=digest, parts=parts)


_FINGERPRINT: Final = attrgetter("fingerprint")
_IDENTITY: Final = attrgetter("identity")


def _counted(part: object, form: Callable[[Compile], object]) -> object:
    """A part, with other compilations in a form of theirs."""
    if isinstance(part, tuple):
        return tuple(_counted(one, form) for one in part)
    return form(part) if isinstance(part, Compile) else part


def count_units(actions: Iterable[Compile]) -> int:
    """Number of units in these objects; a unity shard counts each of its members."""
    return sum(len(action.members) or 1 for action in actions)


def unit_names(actions: Iterable[Compile]) -> tuple[str, ...]:
    """The names of the units in these objects, sorted; one that several objects are made of is
    there for each."""
    return tuple(sorted(unit for action in actions for unit in action.units))


def precompiled_headers(actions: Iterable[Compile]) -> dict[str, Precompile]:
    """The precompiled headers that units are compiled with, by output."""
    return {action.pch.output: action.pch for action in actions if action.pch is not None}


@dataclass(frozen=True)
class Link:
    """Objects to one file.

    kind       `shared` and `executable` are linked, `extensible` is a shared library that its
               compiler links again (`relink.py`); `archive` has all objects as members, and
               `code_archive` has them without bitcode; `relocatable` is one object made of
               several; `left_out` is the source of stubs for what such an object misses, and
               `object` a source compiled beside it
    whole      what comes first in the command: objects, all of which are linked
    on_demand  what comes behind. Objects here are linked, too. Of an archive, a linker takes the
               members that something refers to
    flags      `--gc-sections` among them where the linker drops what nothing refers to of either,
               section by section; registrations stay, as static initialisers refer to them
    inputs     other files that it reads
    """

    output: str
    kind: Literal[
        "shared",
        "extensible",
        "executable",
        "archive",
        "code_archive",
        "relocatable",
        "left_out",
        "object",
    ]
    abi: str
    whole: tuple[str, ...]
    on_demand: tuple[str, ...]
    flags: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ActionGraph:
    """Every action of one invocation; compiles by object, so that equal objects are one node."""

    compiles: Mapping[str, Compile] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
