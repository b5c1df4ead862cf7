"""What declarations must hold beyond their own form: names that exist, files that are there.

Every check returns its faults; none raises.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App, Group, Toolchain
from orchestrator.load.groups import abis_of
from orchestrator.load.yaml import PlaceIndex
from orchestrator.values.config import NAME, PATTERN_WORDS, System, WorkspaceConfig
from orchestrator.values.names import did_you_mean, did_you_mean_abi
from orchestrator.values.packages import suitable_packages

_FORMATS: Final[Mapping[System, str]] = {
    "linux": "elf",
    "android": "elf",
    "ios": "macho",
    "ios-simulator": "macho",
}
# Compilers that serve some systems only.
_SYSTEMS: Final[Mapping[str, tuple[System, ...]]] = {
    "ndk": ("android",),
    "xcode": ("ios", "ios-simulator"),
}


class AppNameError(OrchestratorError):
    """An app's folder has a name that no label can write."""


class UnknownTargetError(OrchestratorError):
    """A target that no toolchain offers."""


class UnknownRuntimeError(OrchestratorError):
    """A runtime that WORKSPACE does not pin."""


class RepeatedError(OrchestratorError):
    """A list has an entry twice."""


class DuplicateModelError(OrchestratorError):
    """Two models of an app have one name."""


class DuplicatePackageError(OrchestratorError):
    """Two apps have one package name."""


class MissingModelError(OrchestratorError):
    """A model's file is not there."""


class BudgetTargetError(OrchestratorError):
    """A budget for an ABI that the app is not built for."""


class PackageTargetError(OrchestratorError):
    """A package that none of the app's targets can be put in."""


class ToolchainNameError(OrchestratorError):
    """A toolchain's ABI is not its file's name."""


class ToolchainSystemError(OrchestratorError):
    """A toolchain's parts do not go together."""


def check_toolchain(stem: str, toolchain: Toolchain) -> Iterator[OrchestratorError]:
    """Faults of one toolchain; `stem` is its file's name without .yaml."""
    config, places = toolchain.config, toolchain.places
    if config.abi != stem:
        yield ToolchainNameError(
            "the ABI is not the file's name",
            place=places.value(("abi",)),
            expected=stem,
            seen=config.abi,
            hint=f"rename the file to {config.abi}.yaml, or write `abi: {stem}`",
        )
    if config.format != _FORMATS[config.system]:
        yield ToolchainSystemError(
            f"{config.system} has no {config.format} objects",
            place=places.value(("format",)),
            expected=_FORMATS[config.system],
            seen=config.format,
        )
    for kind, systems in _SYSTEMS.items():
        if getattr(config.compiler, kind) is not None and config.system not in systems:
            yield ToolchainSystemError(
                f"the {kind} compiler does not build for {config.system}",
                place=places.key(("compiler", kind)),
                expected=f"system {' or '.join(systems)}",
                seen=config.system,
            )


def check_groups(
    groups: Mapping[str, Group], known: Collection[str]
) -> Iterator[OrchestratorError]:
    """Faults of the targets that stand for several ABIs; see `check_apps` for `known`."""
    for stem, group in groups.items():
        if group.config.abi != stem:
            yield ToolchainNameError(
                "the target is not the file's name",
                place=group.places.value(("abi",)),
                expected=stem,
                seen=group.config.abi,
                hint=f"rename the file to {group.config.abi}.yaml, or write `abi: {stem}`",
            )
        single = sorted({*known} - {*groups})
        for number, abi in enumerate(group.config.members):
            if abi not in single:
                yield UnknownTargetError(
                    f"{abi} is itself a group" if abi in groups else f"no toolchain offers {abi}",
                    place=group.places.value(("members", number)),
                    expected=", ".join(single),
                    seen=abi,
                    hint="name the ABIs that it stands for"
                    if abi in groups
                    else did_you_mean_abi(abi, single, _declare(abi)),
                )
        yield from _repeated(group, "members", group.config.members)


def check_apps(
    apps: Mapping[str, App],
    toolchains: Mapping[str, Toolchain],
    known: Collection[str],
    groups: Mapping[str, tuple[str, ...]],
    runtimes: Collection[str],
) -> Iterator[OrchestratorError]:
    """Faults of all apps; `known` names the targets that have a file, whether or not it is right.

    groups    target -> the ABIs that it stands for
    runtimes  names of those that WORKSPACE pins
    """
    owners: dict[str, App] = {}
    for app in apps.values():
        yield from _name(app)
        yield from _runtime(app, runtimes)
        yield from _models(app)
        yield from _targets(app, known, groups)
        yield from _packages(app, toolchains, groups)
        first = owners.setdefault(app.package_name, app)
        if first is not app:
            yield DuplicatePackageError(
                "two apps have one package name",
                place=app.places.value(("package_name",)),
                seen=f"`{app.package_name}`, which is also //apps/{first.name}'s ({_named(first)})",
                hint="give one of them another `package_name`",
            )


def check_runtimes(config: WorkspaceConfig, places: PlaceIndex) -> Iterator[OrchestratorError]:
    """Faults of WORKSPACE's default."""
    name = config.defaults.runtime
    if name is not None and name not in config.pins:
        yield unknown_runtime(name, config.pins, places.value(("defaults", "runtime")))


def _runtime(app: App, pinned: Collection[str]) -> Iterator[OrchestratorError]:
    name = app.config.runtime
    if name is not None and name not in pinned:
        yield unknown_runtime(name, pinned, app.places.value(("runtime",)))


def unknown_runtime(
    name: str, pinned: Collection[str], place: Place | None = None
) -> UnknownRuntimeError:
    """The fault of a runtime that WORKSPACE does not pin."""
    known = sorted(pinned)
    return UnknownRuntimeError(
        f"WORKSPACE pins no runtime {name}",
        place=place,
        expected=", ".join(known),
        seen=name,
        hint=did_you_mean(name, known, "pin it under `runtimes:` in WORKSPACE"),
    )


def _named(app: App) -> str:
    """Where an app gets its package name from: its key, or the file where there is none."""
    return str(app.places.value(("package_name",)))


def _name(app: App) -> Iterator[OrchestratorError]:
    if not re.fullmatch(NAME, app.name):
        yield AppNameError(
            "the app's folder has a name that no label can write",
            place=app.place,
            expected=PATTERN_WORDS[NAME],
            seen=app.name,
        )


def _models(app: App) -> Iterator[OrchestratorError]:
    first: dict[str, int] = {}
    for number, model in enumerate(app.config.models):
        place = app.places.value(("models", number, "file"))
        if not app.model_path(model).is_file():
            yield MissingModelError(
                "the model's file is not there",
                place=place,
                seen=model.file,
                hint="export it, or correct the path; it is relative to the app's folder",
            )
        if first.setdefault(model.name, number) != number:
            yield DuplicateModelError(
                f"two models are called `{model.name}`",
                place=app.places.value(("models", number, "name")),
                seen=f"`{app.config.models[first[model.name]].file}` has that name too",
                hint="give one of them a `name` of its own",
            )


def _targets(
    app: App, known: Collection[str], groups: Mapping[str, tuple[str, ...]]
) -> Iterator[OrchestratorError]:
    targets = app.config.targets
    yield from _repeated(app, "targets", targets)
    for number, target in enumerate(targets):
        twice = {*groups.get(target, ())}.intersection(targets)
        for abi in sorted(twice):
            yield RepeatedError(
                f"`{abi}` is in `targets` twice",
                place=app.places.value(("targets", number)),
                seen=f"{target}, which stands for {', '.join(groups[target])}",
                hint=f"keep {target} or {abi}",
            )
    for number, abi in enumerate(targets):
        if abi not in known:
            yield unknown_target(abi, known, app.places.value(("targets", number)))
    for abi in app.config.budgets:
        if abi not in targets and abi not in abis_of(targets, groups):
            yield BudgetTargetError(
                f"a budget for {abi}, which is not a target of this app",
                place=app.places.key(("budgets", abi)),
                expected=", ".join(targets),
                seen=abi,
                hint=did_you_mean_abi(abi, targets, "remove it, or add the target"),
            )


def unknown_target(
    abi: str, known: Collection[str], place: Place | None = None
) -> UnknownTargetError:
    """The fault of a target that no toolchain offers."""
    return UnknownTargetError(
        f"no toolchain offers {abi}",
        place=place,
        expected=", ".join(sorted(known)),
        seen=abi,
        hint=did_you_mean_abi(abi, known, _declare(abi)),
    )


def _declare(abi: str) -> str:
    *systems, last = _FORMATS
    named = f"{', '.join(systems)} or {last}"
    return f"take one of these, or declare it in toolchains/{abi}.yaml, for system {named}"


def _packages(
    app: App, toolchains: Mapping[str, Toolchain], groups: Mapping[str, tuple[str, ...]]
) -> Iterator[OrchestratorError]:
    wanted = app.config.packages or ()
    yield from _repeated(app, "packages", wanted)
    abis = abis_of(app.config.targets, groups)
    if not all(abi in toolchains for abi in abis):
        return
    possible = sorted({kind for abi in abis for kind in suitable_packages(toolchains[abi].config)})
    for number, kind in enumerate(wanted):
        if kind not in possible:
            yield PackageTargetError(
                f"none of the app's targets can be put in a package of kind {kind}",
                place=app.places.value(("packages", number)),
                expected=", ".join(possible),
                seen=kind,
            )


def _repeated(
    declared: App | Group, key: str, values: Sequence[str]
) -> Iterator[OrchestratorError]:
    counts = Counter(values)
    for value in sorted(value for value, count in counts.items() if count > 1):
        last = len(values) - 1 - values[::-1].index(value)
        yield RepeatedError(
            f"`{value}` is in `{key}` twice",
            place=declared.places.value((key, last)),
            hint="keep one of them",
        )
