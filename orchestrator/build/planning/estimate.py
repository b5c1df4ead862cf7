"""Estimates the size of a planned library."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.build.planning.selected import resolved_operators
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.plan.graph import VariantObjects
from orchestrator.platforms import PLATFORMS
from orchestrator.select.tag_code import Switched, UnselectedDtypes
from orchestrator.size.estimate import code_of, estimated_bytes
from orchestrator.values.config.toolchain import ToolchainConfig


@dataclass(frozen=True)
class SelectedCode:
    """Size of what an app's selection leads to, on any ABI: code behind switches over dtypes, and
    the number of operators that are registered."""

    switched: Switched
    registered: int


def selected_code(
    runtime: Runtime, dtypes: UnselectedDtypes, objects: VariantObjects
) -> SelectedCode:
    """Code of a variant's selection, for its estimate."""
    spec, plan = objects.plan.spec, objects.plan
    hot = {n for n, unit in enumerate(runtime.index.units) if unit.path in spec.hot}
    resolved = resolved_operators(runtime, plan.selection, plan.request)
    return SelectedCode(
        dtypes.switched(plan.needed.switches, plan.selection, hot),
        len(plan.selection.operators) - len(resolved),
    )


def estimated_library(
    runtime: Runtime, objects: VariantObjects, code: SelectedCode, toolchain: ToolchainConfig
) -> int | None:
    """Bytes of the library that apps link; None for a processor for which none was measured."""
    relative = PLATFORMS[toolchain.system].sizes.get(toolchain.processor)
    if relative is None:
        return None
    spec, version = objects.plan.spec, runtime.version.estimates
    own = version.base + version.operator * code.registered
    known = code_of(objects.plan.needed.bytes, code.switched, objects.library_bytes, own)
    return estimated_bytes(
        known, relative.scale, relative.more, lto=spec.lto, extensible=spec.extensible
    )
