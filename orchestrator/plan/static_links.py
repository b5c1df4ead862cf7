"""The links of a variant that is delivered as one static archive, as iOS apps link it.

The archive contains the objects as they were compiled, so that an app's linker can fold what is
equal and drop what is dead. `plan.anchors` keeps registrations; `binary.dead_stubs` makes stubs for
undefined references in dead code. Only for that step, all objects are joined first.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.plan.graph import VariantObjects
from orchestrator.values.action import Compile, Link

_STUB_FLAGS = ("-Oz", "-fPIC", "-fvisibility=hidden", "-std=gnu++17")


@dataclass(frozen=True)
class StaticLinks:
    """`library` is delivered; the others are the steps to the stubs in it."""

    on_demand: Link
    joined: Link
    stubs_source: Link
    stubs_object: Link
    library: Link
    runner_compiles: tuple[Compile, ...] = ()

    @property
    def all(self) -> tuple[Link, ...]:
        """Every link, in the order in which they depend on each other."""
        return (self.on_demand, self.joined, self.stubs_source, self.stubs_object, self.library)


def static_links(folder: str, name: str, objects: VariantObjects) -> StaticLinks:
    """The links below `folder` of a variant whose library is called `lib<name>.a`."""
    abi = objects.plan.spec.abi
    on_demand = Link(f"{folder}/lib{name}_by_need.a", "archive", abi, objects.on_demand, ())
    joined = Link(
        f"{folder}/{name}_joined.o", "relocatable", abi, objects.whole, (on_demand.output,)
    )
    stubs_source = Link(f"{folder}/{name}_left_out.cpp", "left_out", abi, (joined.output,), ())
    stubs_object = Link(
        f"{folder}/{name}_left_out.o",
        "object",
        abi,
        (stubs_source.output,),
        (),
        flags=_STUB_FLAGS,
    )
    members = (*objects.whole, *objects.on_demand, stubs_object.output)
    library = Link(f"{folder}/lib{name}.a", "archive", abi, members, ())
    return StaticLinks(on_demand, joined, stubs_source, stubs_object, library)
