"""Keeps an app's linker from dropping registrations, for variants that are static archives.

An archive member is linked only if something references it, and nothing references registrations:
they are static initialisers. So each unit that registers something gets its own symbol, its anchor;
one generated unit references all anchors, and the C API's unit references that unit. An app that
calls any function of the C API gets all registrations, without a linker flag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from orchestrator.plan.graph import VariantObjects
from orchestrator.plan.native_files import NativeFiles
from orchestrator.values.action import Compile, identified
from orchestrator.values.fingerprint import text_digest

# Under native/.
ANCHOR_HEADER: Final = "capi/anchor.h"
_INCLUDE = ("-include", f"$native/{ANCHOR_HEADER}")


def anchors_of(objects: VariantObjects) -> tuple[str, ...]:
    """The anchor symbols of all units that register something, sorted: `anchors_text` refers to
    them."""
    units = (*objects.kernels, *objects.registrations, *objects.plan.whole)
    return tuple(sorted(map(_anchor, units)))


def anchored(
    objects: VariantObjects, keeper: Sequence[Compile], native: NativeFiles
) -> VariantObjects:
    """The variant with anchors; `keeper` compiles the unit that refers to them (`anchors_text`)."""
    header = native.digest_of(ANCHOR_HEADER)

    def with_anchors(units: Iterable[Compile]) -> tuple[Compile, ...]:
        return tuple(_with_anchor(unit, header) for unit in units)

    return replace(
        objects,
        plan=replace(objects.plan, whole=with_anchors(objects.plan.whole)),
        kernels=with_anchors(objects.kernels),
        registrations=(*with_anchors(objects.registrations), *keeper),
        native=tuple(_with(unit, header, "-DLTA_KEEPS_ANCHORS") for unit in objects.native),
    )


def anchors_text(anchors: Iterable[str]) -> str:
    """C++ source of the unit that refers to all anchors; ends with a newline.

    It defines the array `lta_anchors`, with hidden visibility, which the C API's unit refers to.
    """
    names = list(anchors)
    lines = [
        "// Refers to every unit that registers something, so that none is left out of an app.",
        'extern "C" {',
        *(f'extern const char {n} __attribute__((visibility("hidden")));' for n in names),
        'extern const char *const lta_anchors[] __attribute__((visibility("hidden")));',
        "const char *const lta_anchors[] = {",
        *(f"    &{name}," for name in names),
        "};",
        "}",
    ]
    return "\n".join(lines) + "\n"


# many apps of a workspace have the same
@lru_cache(maxsize=4096)
def _with_anchor(unit: Compile, header: str) -> Compile:
    return _with(unit, header, f"-DLTA_ANCHOR={_anchor(unit)}")


def _anchor(unit: Compile) -> str:
    """A symbol from the unit's name, so that the object is the same in every app."""
    return f"lta_anchor_{text_digest(unit.unit)[:16]}"


def _with(unit: Compile, header: str, flag: str) -> Compile:
    added = (*_INCLUDE, flag)
    parts = {"of": unit, "anchor": added, "header": header}
    return identified(unit, parts, flags=(*unit.flags, *added))
