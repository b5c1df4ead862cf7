"""The C++ library of the development library: of each folder most sources in one compilation, and
not optimised.  Reading headers and optimising is most of what these sources cost.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from orchestrator.plan.unoptimised import UNOPTIMISED
from orchestrator.values.action import Compile, identified
from orchestrator.values.fingerprint import text_digest

# Sources together cost about so much of what they cost one by one: decision 0081.
_COST: Final = 0.3


@dataclass(frozen=True)
class Together:
    """Compilations that take the place of others.

    texts  file (`$cache/...`) -> text, of their sources
    """

    compiles: tuple[Compile, ...]
    texts: dict[str, str]


def compiled_together(
    library: Iterable[Compile], *, alone: Collection[str], first: Collection[str]
) -> Together:
    """A C++ library with the sources of each folder in one compilation.

    alone: units that stay as they are; first: those that are read before all others
    """
    left, groups = [], dict[tuple[str, tuple[str, ...]], list[Compile]]()
    for one in library:
        if one.language == "c++" and one.unit not in alone:
            groups.setdefault((one.source.rpartition("/")[0], one.flags), []).append(one)
        else:
            left.append(one)
    made, texts = [], dict[str, str]()
    for (folder, _), members in groups.items():
        if len(members) == 1:
            left += members
            continue
        members.sort(key=lambda one: (one.unit not in first, one.unit))
        one, text = _together(folder, members)
        made.append(one)
        texts[one.source] = text
    return Together((*made, *left), texts)


def _together(folder: str, members: list[Compile]) -> tuple[Compile, str]:
    names = [member.unit.rpartition("/")[2] for member in members]
    text = "".join(f"#include <{name}>\n" for name in names)
    flags = (f"-I{folder}", *members[0].flags, *UNOPTIMISED)
    parts = {
        "unit": text_digest(text),
        # folders, which `flags` has, are no part of it
        "of": tuple(members),
        "how": UNOPTIMISED,
    }
    one = identified(
        members[0],
        parts,
        unit=f"{members[0].unit.rpartition('/')[0]}/together.cpp",
        source=f"$cache/unity/{text_digest(text)}.cpp",
        flags=flags,
        cost=sum(member.cost for member in members) * _COST,
    )
    return one, text
