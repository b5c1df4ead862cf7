"""Variants that a change to the declarations or their files affects, and the reasons. Pure.

Declarations are compared as values: a comment or another spelling of the same value affects
nothing, and a default in WORKSPACE affects the apps that use it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from orchestrator.canonical.lock import files_of
from orchestrator.ci.jobs import Job
from orchestrator.load.declared import App, Workspace
from orchestrator.trace.lock import lock_path, runs_path
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.config.workspace import RuntimePin, WorkspaceConfig

# Where things are and how many run at once: no object depends on it. Defaults are compared in the
# apps that they end up in, the pins by their digests.
_WORKSPACE_NEUTRAL = frozenset(
    {"version", "runtime", "runtimes", "defaults", "cache", "cache_size", "jobs"}
)
# Fields of an app that are reported for each of its ABIs or models, and by what its runtime is.
_APP_NEUTRAL = frozenset({"models", "targets", "budgets", "runtime"})
# Compared as the app has them in the end, whoever says so.
_WITH_DEFAULTS = ("optimize", "selection", "kernels", "package_name", "maven_group")


@dataclass(frozen=True)
class Change:
    """Changes since a commit.

    base     the earlier declarations; None if there were none that can be read
    paths    changed files, relative to the workspace
    general  reasons that touch every variant
    """

    base: Workspace | None
    paths: Collection[str]
    general: tuple[str, ...] = ()


def touched(head: Workspace, change: Change) -> tuple[Job, ...]:
    """The variants of today's workspace that a change touches, by app and ABI."""
    jobs = []
    general = (*change.general, *_workspace_reasons(head, change.base))
    for app in head.apps.values():
        for abi in sorted(app.config.targets):
            reasons = tuple(_job_reasons(head, change, app, abi))
            if general or reasons:
                jobs.append(Job(app.name, abi, (*general, *reasons)))
    return tuple(sorted(jobs, key=lambda job: (job.app, job.abi)))


def _workspace_reasons(head: Workspace, base: Workspace | None) -> tuple[str, ...]:
    if base is None:
        return ()
    names = [
        *_differences(base.config, head.config, _WORKSPACE_NEUTRAL),
        *(["defaults.backends"] if _backends(base.config) != _backends(head.config) else []),
    ]
    return tuple(f"WORKSPACE: {name}" for name in names)


def _pin_changes(old: RuntimePin, new: RuntimePin) -> Iterator[str]:
    """The pinned contents, not their sources: the digest identifies them."""
    for name in ("pytorch", "tree"):
        if getattr(old, name) != getattr(new, name):
            yield name
    for name in sorted({*old.third_party, *new.third_party}):
        pins = [pin.third_party.get(name) for pin in (old, new)]
        facts = [None if pin is None else (pin.tree, pin.include) for pin in pins]
        if facts[0] != facts[1]:
            yield f"third_party.{name}"
    for name in sorted({*old.libraries, *new.libraries}):
        trees = [one and one.tree for one in (old.libraries.get(name), new.libraries.get(name))]
        if trees[0] != trees[1]:
            yield f"libraries.{name}"


def _backends(config: WorkspaceConfig) -> frozenset[str]:
    return frozenset(config.defaults.backends)


def _job_reasons(head: Workspace, change: Change, app: App, abi: str) -> Iterator[str]:
    if change.base is None:
        return
    old = change.base.apps.get(app.name)
    if old is None or abi not in old.config.targets:
        yield "new"
        return
    yield from _runtime_reasons(head, change.base, old, app)
    yield from _toolchain_reasons(head, change.base, abi)
    yield from _app_reasons(old, app, abi)
    yield from _model_reasons(head, change, old, app)


def _runtime_reasons(head: Workspace, base: Workspace, old: App, app: App) -> Iterator[str]:
    """Differences between an app's runtimes before and after; a new name alone is none."""
    before, after = base.config.pins[old.runtime], head.config.pins[app.runtime]
    names = list(_pin_changes(before, after))
    if names and old.config.runtime != app.config.runtime:
        yield f"{app.place.file}: runtime"
        return
    if names and old.runtime != app.runtime:
        yield "WORKSPACE: defaults.runtime"
        return
    key = "runtime" if head.config.runtime else f"runtimes.{app.runtime}"
    yield from (f"WORKSPACE: {key}.{name}" for name in names)


def _toolchain_reasons(head: Workspace, base: Workspace, abi: str) -> Iterator[str]:
    old, new = base.toolchains.get(abi), head.toolchains[abi]
    names = ["new"] if old is None else _differences(old.config, new.config)
    yield from (f"{new.place.file}: {name}" for name in names)


def _app_reasons(old: App, new: App, abi: str) -> Iterator[str]:
    named = _differences(old.config, new.config, {*_APP_NEUTRAL, *_WITH_DEFAULTS})
    if old.config.budgets.get(abi) != new.config.budgets.get(abi):
        named.append(f"budgets.{abi}")
    yield from (f"{new.place.file}: {name}" for name in named)
    for name in _WITH_DEFAULTS:
        if getattr(old, name) != getattr(new, name):
            by_default = getattr(old.config, name) == getattr(new.config, name)
            yield f"WORKSPACE: defaults.{name}" if by_default else f"{new.place.file}: {name}"


def _model_reasons(head: Workspace, change: Change, old: App, new: App) -> Iterator[str]:
    before = {model.name: model for model in old.config.models}
    for model in new.config.models:
        if before.pop(model.name, None) != model:
            yield f"{new.place.file}: model {model.name}"
        for file in _files(head, new, model):
            if file in change.paths:
                yield file
    yield from (f"{new.place.file}: model {name} was removed" for name in sorted(before))


def _files(head: Workspace, app: App, model: ModelConfig) -> tuple[str, ...]:
    """A model's file, its trace and its recorded runs, relative to the workspace."""
    paths = (
        *files_of(app, model),
        lock_path(app.folder, model.name),
        runs_path(app.folder, model.name),
    )
    return tuple(path.relative_to(head.root).as_posix() for path in paths)


def _differences(
    old: BaseModel, new: BaseModel, without: Collection[str] = frozenset()
) -> list[str]:
    """The fields, in their order, whose values differ."""
    fields = (name for name in type(new).model_fields if name not in without)
    return [name for name in fields if getattr(old, name) != getattr(new, name)]
