"""The dispatch keys of PyTorch 1.13 (c10/core/DispatchKey.h)."""

from __future__ import annotations

from typing import Final

from orchestrator.pytorch.dialect import DispatchKeys

KEYS: Final = DispatchKeys(
    host="CPU",
    alias=frozenset({"CompositeImplicitAutograd", "CompositeExplicitAutograd", "CatchAll"}),
    backend_select="BackendSelect",
    # torchgen/gen.py, get_grouped_native_functions
    non_functional="CompositeExplicitAutogradNonFunctional",
    shared=("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd"),
)
