"""The links of a variant that is delivered as one static archive: iOS apps link no other.

An archive's member is linked when something refers to it, and nothing refers to registrations: they
are static initialisers. So the whole variant is linked beforehand into one relocatable object
(`ld -r`), the archive's only member. Whoever calls one function of the C API gets all
registrations, without flags; `-dead_strip` keeps initialisers. Hidden symbols become local, so that
the archive offers the C API and nothing else, and does not clash with another PyTorch in the app.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.plan.graph import VariantObjects
from orchestrator.values.action import Compile, Link


@dataclass(frozen=True)
class StaticLinks:
    """by_need: units that the prelink takes from where they are referred to; not delivered."""

    by_need: Link
    prelinked: Link
    library: Link
    driver_compiles: tuple[Compile, ...] = ()

    @property
    def all(self) -> tuple[Link, ...]:
        return (self.by_need, self.prelinked, self.library)


def static_links(folder: str, name: str, objects: VariantObjects) -> StaticLinks:
    """The links below `folder` of a variant whose library is called `lib<name>.a`."""
    abi = objects.plan.spec.abi
    by_need = Link(
        output=f"{folder}/lib{name}_by_need.a",
        kind="archive",
        abi=abi,
        whole=objects.by_need,
        by_need=(),
    )
    prelinked = Link(
        output=f"{folder}/{name}.o",
        kind="relocatable",
        abi=abi,
        whole=objects.whole,
        by_need=(by_need.output,),
    )
    library = Link(
        output=f"{folder}/lib{name}.a",
        kind="archive",
        abi=abi,
        whole=(prelinked.output,),
        by_need=(),
    )
    return StaticLinks(by_need, prelinked, library)
