"""Checks of declarations beyond their schema: names and files that must exist.

Every check returns its errors; none raises.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App, Group, Toolchain
from orchestrator.load.groups import abis_of
from orchestrator.load.sources import found_sources
from orchestrator.load.validate import detailed
from orchestrator.load.yaml import PlaceIndex
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.declared import default_packages, suitable_packages
from orchestrator.platforms.platform import SharedLibrary
from orchestrator.values.config.app import PackageKind
from orchestrator.values.config.forms import NAME, PATTERN_WORDS
from orchestrator.values.config.workspace import RuntimePin, WorkspaceConfig
from orchestrator.values.labels import EVERY_ABI
from orchestrator.values.names import did_you_mean, did_you_mean_abi
from orchestrator.values.operators import OperatorName
from orchestrator.values.packages import (
    PYTHON_NAME_WORDS,
    PYTHON_VERSION_WORDS,
    names_of,
    python_name,
    python_version,
)

# https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
_LFS: Final = b"version https://git-lfs.github.com/spec/"


class AppNameError(OrchestratorError):
    """An app's folder name is not valid in a label."""


class UnknownTargetError(OrchestratorError):
    """A target without a toolchain."""


class UnknownRuntimeError(OrchestratorError):
    """A runtime that WORKSPACE does not pin."""


class RepeatedError(OrchestratorError):
    """A list has an entry twice."""


class DuplicateModelError(OrchestratorError):
    """Two models of an app have the same name."""


class DuplicatePackageError(OrchestratorError):
    """Two apps have the same package name."""


class MissingModelError(OrchestratorError):
    """A model file does not exist."""


class LfsPointerError(OrchestratorError):
    """A model file is what Git LFS has in a clone until the file is fetched."""


class CanonicalSourcesError(OrchestratorError):
    """A canonical model is wanted of an app that has operators of its own."""


class BudgetTargetError(OrchestratorError):
    """A budget for an ABI that the app is not built for."""


class MemoryModelError(OrchestratorError):
    """A limit on the memory of a model that the app does not have."""


class BudgetKindError(OrchestratorError):
    """A limit of something that the libraries of an ABI do not have."""


class ExtraForbiddenError(OrchestratorError):
    """An app adds an operator that it forbids."""


class CpuTargetError(OrchestratorError):
    """CPU levels for an ABI or processor that the app is not built for."""


class PackageTargetError(OrchestratorError):
    """A kind of package that no target of the app supports."""


class PythonNameError(OrchestratorError):
    """An app wants a wheel, and its package name is none of a Python package, or another's."""


class PythonVersionError(OrchestratorError):
    """An app wants a wheel, and its version is none of a Python package."""


class ToolchainNameError(OrchestratorError):
    """A toolchain's ABI does not match its file name."""


class ToolchainSystemError(OrchestratorError):
    """A toolchain's keys contradict each other."""


def check_toolchain(stem: str, toolchain: Toolchain) -> Iterator[OrchestratorError]:
    """Faults of one toolchain; `stem` is its file's name without .yaml."""
    config, places = toolchain.config, toolchain.places
    if config.abi != stem:
        yield ToolchainNameError(
            "`abi` does not match the file name",
            place=places.value(("abi",)),
            expected=stem,
            seen=config.abi,
            hint=f"rename the file to {config.abi}.yaml, or write `abi: {stem}`",
        )
    platform, kind = PLATFORMS[config.system], config.compiler.kind
    if config.format != platform.format:
        yield ToolchainSystemError(
            f"{config.system} has no {config.format} objects",
            place=places.value(("format",)),
            expected=platform.format,
            seen=config.format,
        )
    if config.processor not in platform.processors:
        yield ToolchainSystemError(
            f"{config.system} does not run on {config.processor}",
            place=places.value(("processor",)),
            expected=" or ".join(platform.processors),
            seen=config.processor,
        )
    if kind not in platform.compilers:
        systems = [name for name, one in PLATFORMS.items() if kind in one.compilers]
        yield ToolchainSystemError(
            f"the {kind} compiler does not build for {config.system}",
            place=places.key(("compiler", kind)),
            expected=f"system {' or '.join(systems)}",
            seen=config.system,
        )


def check_groups(
    groups: Mapping[str, Group], known: Collection[str]
) -> Iterator[OrchestratorError]:
    """Errors of the targets that are groups of ABIs; see `check_apps` for `known`."""
    for stem, group in groups.items():
        if group.config.abi != stem:
            yield ToolchainNameError(
                "`abi` does not match the file name",
                place=group.places.value(("abi",)),
                expected=stem,
                seen=group.config.abi,
                hint=f"rename the file to {group.config.abi}.yaml, or write `abi: {stem}`",
            )
        single = sorted({*known} - {*groups})
        for number, abi in enumerate(group.config.members):
            if abi not in single:
                yield UnknownTargetError(
                    f"{abi} is itself a group" if abi in groups else f"no toolchain for {abi}",
                    place=group.places.value(("members", number)),
                    expected=", ".join(single),
                    seen=abi,
                    hint="list its ABIs instead"
                    if abi in groups
                    else did_you_mean_abi(abi, single, _declare(abi)),
                )
        yield from _repeated(group, "members", group.config.members)


def check_apps(
    apps: Mapping[str, App],
    toolchains: Mapping[str, Toolchain],
    known: Collection[str],
    groups: Mapping[str, tuple[str, ...]],
    runtimes: Mapping[str, RuntimePin],
) -> Iterator[OrchestratorError]:
    """Errors of all apps; `known` has the targets that have a file, valid or not.

    groups    target -> the ABIs that it stands for
    runtimes  those that WORKSPACE pins, by name
    """
    owners: dict[str, App] = {}
    called: dict[tuple[str, str], App] = {}
    importers: dict[str, App] = {}
    for app in apps.values():
        yield from _name(app)
        yield from _runtime(app, runtimes)
        yield from _models(app)
        if app.config.sources is not None:
            yield from found_sources(app, app.config.sources).faults
            yield from _canonical(app)
        yield from _targets(app, known, groups)
        yield from _budgets(app, toolchains, groups)
        yield from _extra(app)
        yield from _memory(app)
        yield from _cpu(app, toolchains, groups)
        yield from _packages(app, toolchains, groups)
        first = owners.setdefault(app.package_name, app)
        if first is not app:
            yield DuplicatePackageError(
                "two apps have the same package name",
                place=app.places.value(("package_name",)),
                seen=f"`{app.package_name}`, which is also //apps/{first.name}'s ({_named(first)})",
                hint="give one of them another `package_name`",
            )
        else:
            yield from _called_alike(app, toolchains, groups, called)
        if "wheel" in (app.config.packages or ()):
            yield from _python_version(app)
            yield from _python_name(app, importers)


def _called_alike(
    app: App,
    toolchains: Mapping[str, Toolchain],
    groups: Mapping[str, tuple[str, ...]],
    called: dict[tuple[str, str], App],
) -> Iterator[OrchestratorError]:
    """A name that a part of its packages has, or that a kind makes of theirs, and another's too."""
    for kind in _kinds(app, toolchains, groups):
        for name in names_of(kind, app.package_name, app.maven_group):
            first = called.setdefault((kind, name), app)
            if first is not app:
                yield DuplicatePackageError(
                    f"packages of two apps have the same name, of kind {kind}",
                    place=app.places.value(("package_name",)),
                    seen=f"`{name}`, which //apps/{first.name}'s have too ({_named(first)})",
                    hint="give one of them another `package_name`",
                )
                return


def _kinds(
    app: App, toolchains: Mapping[str, Toolchain], groups: Mapping[str, tuple[str, ...]]
) -> list[PackageKind]:
    """The kinds of packages that are made of an app."""
    found = set[PackageKind]()
    for abi in abis_of(app.config.targets, groups):
        if abi in toolchains:
            toolchain = toolchains[abi].config
            suitable = suitable_packages(toolchain)
            wanted = app.config.packages or default_packages(toolchain)
            found.update(kind for kind in wanted if kind in suitable)
    return sorted(found)


def check_runtimes(config: WorkspaceConfig, places: PlaceIndex) -> Iterator[OrchestratorError]:
    """Faults of WORKSPACE's default."""
    name = config.defaults.runtime
    if name is not None and name not in config.pins:
        yield unknown_runtime(name, config.pins, places.value(("defaults", "runtime")))


def _runtime(app: App, pinned: Mapping[str, RuntimePin]) -> Iterator[OrchestratorError]:
    name = app.config.runtime
    if name is not None and name not in pinned:
        yield unknown_runtime(name, pinned, app.places.value(("runtime",)))


def unknown_runtime(
    name: str, pinned: Mapping[str, RuntimePin], place: Place | None = None
) -> UnknownRuntimeError:
    """The fault of a runtime that WORKSPACE does not pin."""
    known = sorted(pinned)
    of_version = [each for each in known if f"{pinned[each].pytorch}.".startswith(f"{name}.")]
    meant = f"did you mean `{of_version[0]}`?" if len(of_version) == 1 else None
    return UnknownRuntimeError(
        f"WORKSPACE pins no runtime {name}",
        place=place,
        expected=", ".join(known),
        seen=name,
        hint=meant or did_you_mean(name, known, "pin it under `runtimes:` in WORKSPACE"),
    )


def _named(app: App) -> str:
    """Return the place that gives an app its package name: the key, or the file if there is
    none."""
    return str(app.places.value(("package_name",)))


def _name(app: App) -> Iterator[OrchestratorError]:
    if not re.fullmatch(NAME, app.name):
        yield AppNameError(
            "the app's folder name is not valid in a label",
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
                "the model file does not exist",
                place=place,
                seen=model.file,
                hint="export it, or correct the path; it is relative to the app's folder",
            )
        elif _is_lfs_pointer(app.model_path(model)):
            yield LfsPointerError(
                "the model file was not fetched from Git LFS",
                place=place,
                expected="the model",
                seen=f"{model.file} is a Git LFS pointer",
                hint="run: git lfs pull",
            )
        if first.setdefault(model.name, number) != number:
            yield DuplicateModelError(
                f"two models are named `{model.name}`",
                place=app.places.value(("models", number, "name")),
                seen=f"`{app.config.models[first[model.name]].file}` has that name too",
                hint="give one of them a `name` of its own",
            )


def _is_lfs_pointer(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(_LFS)) == _LFS
    except OSError:  # reported by whoever reads it
        return False


def _canonical(app: App) -> Iterator[OrchestratorError]:
    """A canonical model is made by torch's Python, which knows no operator of the app's own."""
    for number, model in enumerate(app.config.models):
        # a program's torch has the operators that it was exported with
        if app.is_canonical(model) and not model.is_program:
            path = ("models", number, "canonical") if model.canonical else ("canonical",)
            yield CanonicalSourcesError(
                "an app with sources of its own has no canonical models",
                place=app.places.value(path),
                expected="`off`",
                seen=app.canonical_kind(model),
                hint="remove it: torch, which makes them, does not have the app's operators",
            )


def _targets(
    app: App, known: Collection[str], groups: Mapping[str, tuple[str, ...]]
) -> Iterator[OrchestratorError]:
    targets = app.config.targets
    named, stood_for = {*targets}, {*abis_of(targets, groups)}
    yield from _repeated(app, "targets", targets)
    for number, target in enumerate(targets):
        twice = named.intersection(groups.get(target, ()))
        for abi in sorted(twice):
            yield RepeatedError(
                f"`targets` lists `{abi}` twice",
                place=app.places.value(("targets", number)),
                seen=f"{target}, which stands for {', '.join(groups[target])}",
                hint=f"keep {target} or {abi}",
            )

    def place(number: int) -> Place:
        return app.places.value(("targets", number))

    yield from detailed(
        [number for number, abi in enumerate(targets) if abi not in known],
        lambda number: unknown_target(targets[number], known, place(number)),
        place,
    )
    yield from detailed(
        [abi for abi in app.config.budgets if abi not in named and abi not in stood_for],
        lambda abi: _budget_of_no_target(app, abi),
        lambda abi: app.places.key(("budgets", abi)),
    )


def _budget_of_no_target(app: App, abi: str) -> BudgetTargetError:
    return BudgetTargetError(
        f"a budget for {abi}, which is not a target of this app",
        place=app.places.key(("budgets", abi)),
        expected=", ".join(app.config.targets),
        seen=abi,
        hint=did_you_mean_abi(abi, app.config.targets, "remove it, or add the target"),
    )


def _memory(app: App) -> Iterator[OrchestratorError]:
    """Models under `memory` that are none of the app's."""
    names = [model.name for model in app.config.models]
    limits = {} if app.config.memory is None else app.config.memory.models
    for name in limits:
        if name not in names:
            yield MemoryModelError(
                f"a memory budget for {name}, which is no model of this app",
                place=app.places.key(("memory", "models", name)),
                expected=", ".join(names),
                seen=name,
                hint=did_you_mean(name, names, "remove it, or add the model"),
            )


def _budgets(
    app: App, toolchains: Mapping[str, Toolchain], groups: Mapping[str, tuple[str, ...]]
) -> Iterator[OrchestratorError]:
    for target, budget in app.config.budgets.items():
        systems = {
            toolchains[abi].config.system for abi in abis_of([target], groups) if abi in toolchains
        }
        shared = [one for one in systems if isinstance(PLATFORMS[one].library, SharedLibrary)]
        if budget.compressed is not None and len(shared) < len(systems):
            yield BudgetKindError(
                f"a budget of the compressed library for {target}, where apps link a static one",
                place=app.places.key(("budgets", target, "compressed")),
                expected="`total`, `growth` or `operators`: of what an app's linker takes",
                seen="compressed",
                hint="remove it: what ships is the app that links this library",
            )
        if budget.operators and shared and app.optimize == "size":
            yield BudgetKindError(
                f"budgets of operators for {target}, whose library is optimised as a whole",
                place=app.places.key(("budgets", target, "operators")),
                expected="`optimize: balanced` or `speed`",
                seen="optimize: size",
                hint="remove them: such a library does not tell its operators apart",
            )


def _extra(app: App) -> Iterator[OrchestratorError]:
    """Operators under `extra` that `forbid` names, as a whole or by an overload."""
    for extra in app.config.extra:
        for forbidden, reason in app.config.forbid.items():
            if (
                extra in (forbidden, OperatorName(forbidden).qualified)
                or forbidden == OperatorName(extra).qualified
            ):
                yield ExtraForbiddenError(
                    f"{extra} is under `extra` and under `forbid`",
                    place=app.places.key(("extra", extra)),
                    expected="operators that the app does not forbid",
                    seen=f"{forbidden}: {reason}",
                    hint="take it out of one of them",
                )


def _cpu(
    app: App, toolchains: Mapping[str, Toolchain], groups: Mapping[str, tuple[str, ...]]
) -> Iterator[OrchestratorError]:
    if app.config.cpu == "auto":
        return
    abis = abis_of(app.config.targets, groups)
    processors = {toolchains[abi].config.processor for abi in abis if abi in toolchains}
    for name, levels in app.config.cpu.items():
        if name not in abis and name not in processors:
            names = sorted({*abis, *processors})
            yield CpuTargetError(
                f"CPU levels for {name}, which is no target of this app, nor a target's processor",
                place=app.places.key(("cpu", name)),
                expected=", ".join(names),
                seen=name,
                hint=did_you_mean_abi(name, names, "remove it, or add the target"),
            )
        yield from _repeated(app, ("cpu", name), levels)


def unknown_target(
    abi: str, known: Collection[str], place: Place | None = None
) -> UnknownTargetError:
    """The fault of a target without a toolchain."""
    return UnknownTargetError(
        f"no toolchain for {abi}",
        place=place,
        expected=", ".join(sorted(known)),
        seen=abi,
        hint=did_you_mean_abi(abi, known, _declare(abi)),
    )


def _declare(abi: str) -> str:
    if abi in EVERY_ABI:
        return "list them: an app is built for the ABIs that it names"
    *systems, last = PLATFORMS
    named = f"{', '.join(systems)} or {last}"
    return f"use one of these, or declare it in toolchains/{abi}.yaml, for system {named}"


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
                f"no target of this app can be packaged as {kind}",
                place=app.places.value(("packages", number)),
                expected=", ".join(possible),
                seen=kind,
            )


def _python_version(app: App) -> Iterator[OrchestratorError]:
    version = app.config.version
    if python_version(version) is None:
        yield PythonVersionError(
            "a wheel cannot have this version",
            place=app.places.value(("version",)),
            expected=PYTHON_VERSION_WORDS,
            seen=version,
            hint="give the app another `version`, or remove `wheel` from its packages",
        )


def _python_name(app: App, importers: dict[str, App]) -> Iterator[OrchestratorError]:
    """Faults of the name that Python imports a wheel by; `importers` has those before, by name."""
    name = python_name(app.package_name)
    place = app.places.value(("package_name",))
    if name is None:
        yield PythonNameError(
            "a wheel cannot have this package name",
            place=place,
            expected=PYTHON_NAME_WORDS,
            seen=app.package_name,
            hint="give the app another `package_name`, or remove `wheel` from its packages",
        )
        return
    first = importers.setdefault(name, app)
    if first is not app and first.package_name != app.package_name:
        yield PythonNameError(
            f"two apps' wheels are imported as `{name}`",
            place=place,
            seen=f"`{app.package_name}`, and //apps/{first.name}'s `{first.package_name}`"
            f" ({_named(first)})",
            hint="give one of them another `package_name`",
        )


def _repeated(
    declared: App | Group, key: str | tuple[str, ...], values: Sequence[str]
) -> Iterator[OrchestratorError]:
    counts = Counter(values)
    last_of = {value: number for number, value in enumerate(values)}
    path = (key,) if isinstance(key, str) else key

    def place(value: str) -> Place:
        return declared.places.value((*path, last_of[value]))

    yield from detailed(
        sorted((v for v, count in counts.items() if count > 1), key=last_of.__getitem__),
        lambda value: RepeatedError(
            f"`{path[-1]}` lists `{value}` twice", place=place(value), hint="keep one of them"
        ),
        place,
    )
