"""The links of a variant that is delivered as one static archive, as iOS apps link it.

The archive contains the objects as they were compiled, so that an app's linker can fold what is
equal and drop what is dead. `plan.anchors` keeps registrations; `binary.dead_stubs` makes stubs for
undefined references in dead code. Only for that step, all objects are joined first.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.plan.graph import VariantObjects
from orchestrator.values.action import Compile, Link

_STAND_IN_FLAGS = ("-Oz", "-fPIC", "-fvisibility=hidden", "-std=gnu++17")


@dataclass(frozen=True)
class StaticLinks:
    """`library` is delivered; the others are the steps to the stubs in it."""

    by_need: Link
    joined: Link
    stand_ins: Link
    left_out: Link
    library: Link
    driver_compiles: tuple[Compile, ...] = ()

    @property
    def all(self) -> tuple[Link, ...]:
        return (self.by_need, self.joined, self.stand_ins, self.left_out, self.library)


def static_links(folder: str, name: str, objects: VariantObjects) -> StaticLinks:
    """The links below `folder` of a variant whose library is called `lib<name>.a`."""
    abi = objects.plan.spec.abi
    by_need = Link(f"{folder}/lib{name}_by_need.a", "archive", abi, objects.by_need, ())
    joined = Link(f"{folder}/{name}_joined.o", "relocatable", abi, objects.whole, (by_need.output,))
    stand_ins = Link(f"{folder}/{name}_left_out.cpp", "left_out", abi, (joined.output,), ())
    left_out = Link(
        f"{folder}/{name}_left_out.o",
        "object",
        abi,
        (stand_ins.output,),
        (),
        flags=_STAND_IN_FLAGS,
    )
    members = (*objects.whole, *objects.by_need, left_out.output)
    library = Link(f"{folder}/lib{name}.a", "archive", abi, members, ())
    return StaticLinks(by_need, joined, stand_ins, left_out, library)
