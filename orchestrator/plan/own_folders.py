"""Actions of a runtime whose folders are not the default runtime's.

Flags and sources name folders by variables (`$tree/aten/src`), so that they are the same text for
every runtime, and their content identifies them: `fingerprint`. In one graph, the folders that
belong to one runtime have their own variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from orchestrator.plan.graph import VariantObjects
from orchestrator.values.action import Compile

_VARIABLE = re.compile(r"\$(\w+)")


def filled(text: str, folders: Mapping[str, str]) -> str:
    """A text with its `$variables` filled in; those that are not among the folders stay."""
    # in one pass: a folder's own name may hold what looks like a variable
    return _VARIABLE.sub(lambda match: folders.get(match[1], match[0]), text)


def in_own_folders(action: Compile, renamed: Mapping[str, str]) -> Compile:
    """The action with the variables of its paths renamed, where two runtimes in one graph have
    different folders. Its fingerprint stays: folders are no part of it."""
    if not renamed:
        return action

    def own(text: str) -> str:
        return _VARIABLE.sub(lambda match: f"${renamed.get(match[1], match[1])}", text)

    def all_own(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(own, texts))

    header = action.pch
    if header is not None:
        header = replace(header, flags=all_own(header.flags), folder=own(header.folder))
    return replace(
        action,
        source=own(action.source),
        flags=all_own(action.flags),
        pch=header,
        behind=all_own(action.behind),
    )


def objects_in_own_folders(objects: VariantObjects, renamed: Mapping[str, str]) -> VariantObjects:
    """A variant's compilations, each as by `in_own_folders`; `renamed` is variable -> variable."""
    if not renamed:
        return objects

    def own(actions: tuple[Compile, ...]) -> tuple[Compile, ...]:
        return tuple(in_own_folders(action, renamed) for action in actions)

    plan = objects.plan
    return replace(
        objects,
        plan=replace(plan, whole=own(plan.whole), on_demand=own(plan.on_demand)),
        registrations=own(objects.registrations),
        native=own(objects.native),
        runtime_library=own(objects.runtime_library),
        java=own(objects.java),
        kernels=own(objects.kernels),
        library=own(objects.library),
        cxx_library=own(objects.cxx_library),
    )
