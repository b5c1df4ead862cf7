"""The PyTorch versions, and which of the apps' models need which of them. Pure; for `doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from orchestrator.build.planning.model_needs import ReadModel, Unfit, VersionUse
from orchestrator.commands.findings import Finding
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import Workspace

# Of what a line names.
_MOST: Final = 3


def runtime_findings(
    workspace: Workspace,
    versions: Iterable[VersionUse],
    unusable: Mapping[str, OrchestratorError],
    models: Iterable[ReadModel],
    unfit: Iterable[Unfit],
) -> tuple[Finding, ...]:
    """Supported versions, oldest first; pinned runtimes that do not work; models that do not."""
    return (
        *(_version(one, named=bool(workspace.config.runtimes)) for one in versions),
        *_runtimes(workspace, unusable),
        *_models(workspace, models, unfit),
    )


def _version(one: VersionUse, *, named: bool) -> Finding:
    pinned = "supported, not pinned"
    if one.names:
        pinned = f"pinned as {', '.join(one.names)}" if named else "pinned"
    return Finding(
        f"PyTorch {one.version}",
        "present",
        "; ".join(filter(None, (pinned, _runs(one)))),
        one.needed_by,
        "pin it under `runtimes:` in WORKSPACE, and give apps `runtime:`",
    )


def _runs(one: VersionUse) -> str:
    if not one.able and not one.unable:
        return ""
    if not one.able:
        return "has all operators of no model"
    but = f" but {_some(one.unable)}" if one.unable else ""
    return f"has all models' operators{but}"


def _runtimes(workspace: Workspace, unusable: Mapping[str, OrchestratorError]) -> Iterator[Finding]:
    for name, fault in unusable.items():
        shown = f"runtime {name}" if workspace.config.runtimes else "runtime"
        apps = [app for app in workspace.apps.values() if app.runtime == name]
        targets = sorted({abi for app in apps for abi in app.config.targets})
        yield Finding(shown, "missing" if apps else "absent", "", tuple(targets), _cure(fault))


def _models(
    workspace: Workspace, models: Iterable[ReadModel], unfit: Iterable[Unfit]
) -> Iterator[Finding]:
    for model in models:
        if model.fault is not None:
            yield _model(workspace, model, _cure(model.fault))
    for one in unfit:
        what = f"PyTorch {one.model.version} does not have {_some(one.missing)}"
        yield _model(workspace, one.model, "; ".join(filter(None, (what, one.do))))


def _model(workspace: Workspace, model: ReadModel, cure: str) -> Finding:
    targets = workspace.apps[model.app].config.targets
    return Finding(f"model {model.name}", "missing", "", tuple(sorted(targets)), cure)


def _cure(fault: OrchestratorError) -> str:
    return f"{fault.what}: {fault.hint or fault.seen}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more
