"""The state of an app: a digest of all that its variants for every ABI are made of.

A package joins, and a comparison of structures accepts, only variants of one state. Every field of
app.yaml and of a variant's request counts, unless it is listed here with the reason why it does
not: so a field that is added counts from its first day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from orchestrator.build.planning.variants import VariantRequest
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.load.declared import App
from orchestrator.values.config.app import AppConfig
from orchestrator.values.fingerprint import fingerprint
from orchestrator.values.trace import Trace

# Keys of app.yaml -> why variants that differ in them are of one state.
NOT_OF_CONFIG: Mapping[str, str] = {
    "targets": "which other ABIs are built changes no variant",
    "budgets": "a limit: it fails a build, and changes nothing that is delivered",
    "memory": "a limit: it fails a build, and changes nothing that is delivered",
    "packages": "packages are made of delivered variants",
    "forbid": "it fails a build, and changes nothing that is delivered",
    "extra": "its operators are in the selection; its reasons are not delivered",
    "runtime": "a name: what the runtime is made of counts by its identity",
}
# Fields of a request -> why its variants for all ABIs have no common value, or need none.
NOT_OF_REQUEST: Mapping[str, str] = {
    "abi": "names the ABI",
    "features": "follows from the selection and `kernels`, for each processor",
    "cpu": "the ABI's levels of `cpu` in app.yaml, which counts whole",
    "kernels": "the runtime's registrations of what the selection's root operators can reach",
}


def common_fingerprint(
    runtime: Runtime, app: App, traces: Sequence[Trace], request: VariantRequest
) -> str:
    """Digest of what the app's variants for all ABIs are made of, whatever compiles them and
    wherever."""
    return fingerprint(
        {
            "app": app.name,
            # as completed with the workspace's defaults
            "config": {
                name: _plain(getattr(app if hasattr(app, name) else app.config, name))
                for name in AppConfig.model_fields
                if name not in NOT_OF_CONFIG
            },
            "models": [trace.identity.model for trace in traces],
            "request": {
                field.name: _plain(getattr(request, field.name))
                for field in fields(request)
                if field.name not in NOT_OF_REQUEST
            },
            "runtime": runtime.facts.identity,
            "native": runtime.native.digest,
            "sources": None if runtime.sources is None else runtime.sources.digest,
        }
    )


def _plain(value: Any) -> Any:
    """The value as JSON has it: equal for equal values, whatever the order of their sets."""
    if isinstance(value, BaseModel):
        return _plain(dict(value))
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Set):
        return sorted(_plain(one) for one in value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value
