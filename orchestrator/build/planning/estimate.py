"""Estimates the size of a planned library."""

from __future__ import annotations

from orchestrator.build.planning.selected import resolved_operators
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.plan.graph import VariantObjects
from orchestrator.platforms import PLATFORMS
from orchestrator.select.tag_code import Switched, UnselectedDtypes
from orchestrator.size.estimate import code_of, estimated_bytes
from orchestrator.values.config.toolchain import ToolchainConfig


def switched_code(runtime: Runtime, dtypes: UnselectedDtypes, objects: VariantObjects) -> Switched:
    """A variant's code that only switches over dtypes lead to."""
    spec, plan = objects.plan.spec, objects.plan
    hot = {n for n, unit in enumerate(runtime.index.units) if unit.path in spec.hot}
    return dtypes.switched(plan.needed.switches, plan.selection, hot)


def estimated_library(
    runtime: Runtime, objects: VariantObjects, switched: Switched, toolchain: ToolchainConfig
) -> int | None:
    """Bytes of the library that apps link; None for a processor for which none was measured."""
    relative = PLATFORMS[toolchain.system].sizes.get(toolchain.processor)
    if relative is None:
        return None
    spec, plan, version = objects.plan.spec, objects.plan, runtime.version.estimates
    resolved = resolved_operators(runtime, plan.selection, plan.request)
    own = version.base + version.operator * (len(plan.selection.operators) - len(resolved))
    code = code_of(plan.needed.bytes, switched, objects.library_bytes, own)
    return estimated_bytes(
        code, relative.scale, relative.more, lto=spec.lto, extensible=spec.extensible
    )
