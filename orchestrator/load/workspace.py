"""The workspace as its files declare it: `WORKSPACE`, `apps/*/app.yaml`, `toolchains/*.yaml`.

`load_workspace` reads all of them. It raises all errors of `WORKSPACE` and of toolchains together;
it stores those of an app with its name, for commands that need that app. The built-in toolchains
are included; a file of the same name in `toolchains/` overrides one. Places have paths relative to
the workspace's root, with `/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.checks import check_apps, check_groups, check_runtimes, check_toolchain
from orchestrator.load.declared import App, Group, Toolchain, Workspace
from orchestrator.load.groups import without_groups
from orchestrator.load.validate import raise_all, valid_part, validated
from orchestrator.load.yaml import LONGEST, PlaceIndex, load_located
from orchestrator.system.reading import open_file, read_text
from orchestrator.values.config.app import AppConfig
from orchestrator.values.config.toolchain import ToolchainConfig, ToolchainGroup
from orchestrator.values.config.workspace import WorkspaceConfig
from orchestrator.values.packages import default_package_name

__all__ = [
    "App",
    "Toolchain",
    "Workspace",
    "cache_folder",
    "expand",
    "find_root",
    "load_config",
    "load_workspace",
]

FILE: Final = "WORKSPACE"
# The built-in files, laid out as in a workspace: links to this project's own, files in an installed
# package.
BUILT_IN: Final = Path(__file__).parent.parent / "builtin"

# Calls at the beginning of lines: Starlark, and no YAML of ours.
_BAZEL: Final = re.compile(r"^[a-z_]+\(", re.MULTILINE)

M = TypeVar("M", bound=BaseModel)


class NoWorkspaceError(OrchestratorError):
    """No WORKSPACE in a folder or in any above it."""


class UnreadableFileError(OrchestratorError):
    """A declaration is not a text file."""


class NotOurWorkspaceError(OrchestratorError):
    """A file WORKSPACE of another tool, or an empty one."""


class MisnamedFileError(OrchestratorError):
    """A file that is not recognised under its name."""


class UnsetVariableError(OrchestratorError):
    """A path needs an environment variable that is not set."""


class UnexpandedPathError(OrchestratorError):
    """A path that only a shell could expand, or that is relative to nothing."""


def find_root(start: Path) -> Path:
    """The nearest folder at or above `start` that holds WORKSPACE; else `NoWorkspaceError`."""
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return folder
    raise NoWorkspaceError(
        "no workspace found",
        expected=f"a file {FILE} in this folder or a parent folder",
        seen=str(start),
        hint="change to a workspace, pass --workspace DIR, or create one here: orchestrate init",
    )


def load_config(root: Path) -> tuple[WorkspaceConfig, PlaceIndex]:
    """WORKSPACE alone, for commands that need nothing else."""
    config, places, errors, _ = _load(WorkspaceConfig, root, root / FILE)
    if errors:
        _refuse_other(root / FILE)
    raise_all(errors)
    assert config
    return config, places


def _refuse_other(file: Path) -> None:
    """Raise `NotOurWorkspaceError` for a faulty WORKSPACE that was not meant for us."""
    try:
        text = read_text(file, LONGEST).removeprefix("\ufeff")
    except OSError:
        return
    if _BAZEL.search(text):
        raise NotOurWorkspaceError(
            "this WORKSPACE is Bazel's",
            place=Place(FILE),
            expected="YAML that `orchestrate init` writes",
            seen=str(file.parent),
            hint="work in the subfolder that has ours, pass --workspace DIR, or make one:"
            " orchestrate init --workspace DIR",
        )
    if not text.strip():
        raise NotOurWorkspaceError(
            "this WORKSPACE is empty",
            place=Place(FILE),
            expected="YAML that `orchestrate init` writes",
            seen=str(file.parent),
            hint="remove it, and run orchestrate init",
        )


def load_workspace(root: Path, env: Mapping[str, str]) -> Workspace:
    """Every declaration under `root`, checked against each other and against the disk.

    Raises one error for each fault outside of apps, several as `DeclarationErrors`; then with those
    of apps.
    """
    config, places = load_config(root)
    errors: list[OrchestratorError] = [*check_runtimes(config, places)]
    toolchains, groups, known = _load_toolchains(root, errors)
    members = {name: group.config.members for name, group in sorted(groups.items())}
    faults: list[OrchestratorError] = []
    apps = dict[str, App]()
    for file in _declarations(root, "apps/*/*", r"app\.yaml", faults, r"(?i:app\.(ya?ml|json))"):
        app = _load_app(root, file, config, faults)
        if app:
            apps[app.name] = app
    faults.extend(check_apps(apps, toolchains, known, members, config.pins))
    if errors:
        raise_all([*errors, *faults])
    by_app: dict[str, list[OrchestratorError]] = {}
    for fault in sorted(faults, key=lambda fault: fault.place or Place("")):
        by_app.setdefault(_app_of(fault), []).append(fault)
    broken = {name: tuple(found) for name, found in by_app.items()}
    return Workspace(
        root,
        config,
        cache_folder(config, places, root, env),
        MappingProxyType(
            {name: without_groups(app, members) for name, app in apps.items() if name not in broken}
        ),
        MappingProxyType(toolchains),
        MappingProxyType(members),
        MappingProxyType(broken),
    )


def check_new_app(staged: Path, name: str, workspace: Workspace) -> None:
    """Raise the faults of an app that is to be added; `staged`/apps/<name> is its folder."""
    faults: list[OrchestratorError] = []
    app = _load_app(staged, staged / "apps" / name / "app.yaml", workspace.config, faults)
    known = {*workspace.toolchains, *workspace.groups}
    if app:
        apps = {**workspace.apps, name: app}
        pins = workspace.config.pins
        faults.extend(check_apps(apps, workspace.toolchains, known, workspace.groups, pins))
    raise_all(faults)


def _load_toolchains(
    root: Path, errors: list[OrchestratorError]
) -> tuple[dict[str, Toolchain], dict[str, Group], set[str]]:
    """Toolchains and groups, those that we ship too, and every name that has a file.

    A broken one counts as known, or each of its apps would report it again.
    """
    own = list(_declarations(root, "toolchains/*", r"[^/]+\.yaml", errors, r"[^/]+\.yml"))
    known = {file.stem for file in own}
    shipped = [f for f in sorted(BUILT_IN.glob("toolchains/*.yaml")) if f.stem not in known]
    toolchains, groups = dict[str, Toolchain](), dict[str, Group]()
    for file in sorted([*own, *shipped], key=lambda file: file.stem):
        declared = _load_toolchain(root, file, errors)
        if isinstance(declared, Toolchain):
            toolchains[file.stem] = declared
            errors.extend(check_toolchain(file.stem, declared))
        elif declared:
            groups[file.stem] = declared
    known.update(file.stem for file in shipped)
    errors.extend(check_groups(groups, known))
    return toolchains, groups, known


def shipped_toolchains() -> dict[str, Toolchain]:
    """The toolchains that we ship, by ABI, whatever a workspace declares of the same names."""
    faults: list[OrchestratorError] = []
    files = sorted(BUILT_IN.glob("toolchains/*.yaml"))
    loaded = [_load_toolchain(BUILT_IN, file, faults) for file in files]
    raise_all(faults)
    return {one.config.abi: one for one in loaded if isinstance(one, Toolchain)}


def _app_of(fault: OrchestratorError) -> str:
    """The app in whose folder a fault is: `apps/<app>/...`."""
    assert fault.place
    return fault.place.file.split("/")[1]


def cache_folder(
    config: WorkspaceConfig, places: PlaceIndex, root: Path, env: Mapping[str, str]
) -> Path:
    """The user's cache folder: ORCHESTRATOR_CACHE, else WORKSPACE's `cache`, else the XDG one.

    Relative paths are relative to the workspace; `~/` and variables are expanded in either: files
    of CI systems have no shell that would do it. Raises `UnsetVariableError`,
    `UnexpandedPathError`.
    """
    if env.get("ORCHESTRATOR_CACHE"):
        return _expanded(env["ORCHESTRATOR_CACHE"], None, root, env)
    if config.cache is not None:
        return _expanded(config.cache, places.value(("cache",)), root, env)
    base = Path(env.get("XDG_CACHE_HOME", ""))
    # The XDG specification: a relative path is invalid and ignored.
    return (base if base.is_absolute() else _home(env) / ".cache") / "libtorch-orchestrator"


def _expanded(text: str, place: Place | None, root: Path, env: Mapping[str, str]) -> Path:
    """The cache folder that a text names; without a place it is of ORCHESTRATOR_CACHE."""
    if re.match("~[^/]", text):
        raise UnexpandedPathError(
            "`~user` is not supported",
            place=place,
            expected="an absolute path, or one with `~/` or `$VARIABLE`",
            seen=text if place else f"ORCHESTRATOR_CACHE={text}",
        )
    path = expand(text, root, env)
    if path is None:
        raise UnsetVariableError(
            "the cache folder's path uses an unset variable",
            place=place,
            seen=text if place else f"ORCHESTRATOR_CACHE={text}",
            hint="set it, or set ORCHESTRATOR_CACHE" if place else "set it, or write the path out",
        )
    return path


_VARIABLE: Final = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")


def expand(text: str, base: Path, env: Mapping[str, str]) -> Path | None:
    """A declared path with `~`, `$NAME` and `${NAME}` expanded, relative to `base`; `$$` is a `$`.

    None where it has a variable that is not set or is empty. Raises `UnexpandedPathError`.
    """
    names = {match[0]: match[1] or match[2] for match in _VARIABLE.finditer(text)}
    values = {seen: env.get(name) if name else "$" for seen, name in names.items()}
    if not all(values.values()):
        return None
    path = _VARIABLE.sub(lambda match: values[match[0]] or "", text)
    if path == "~" or path.startswith("~/"):
        return _home(env) / path[2:]
    return base / path


def _home(env: Mapping[str, str]) -> Path:
    try:
        home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    except RuntimeError:  # a container's user without an entry in passwd
        home = None
    if home is None or not home.is_absolute():
        raise UnexpandedPathError(
            "the home folder is not known",
            expected="an absolute path in HOME",
            seen=env.get("HOME") or None,
            hint="set HOME, or ORCHESTRATOR_CACHE",
        )
    return home


def _declarations(
    root: Path, pattern: str, name: str, errors: list[OrchestratorError], misnamed: str
) -> Iterator[Path]:
    """The files of one kind, sorted; one that is `misnamed` is an error, not ignored.

    A JSON file next to a declaration belongs to another tool.
    """
    for file in sorted(root.glob(pattern)):
        if re.fullmatch(name, file.name):
            yield file
        elif re.fullmatch(misnamed, file.name) and not (
            file.suffix == ".json" and (file.parent / "app.yaml").exists()
        ):
            errors.append(
                MisnamedFileError(
                    "the file name is not recognised",
                    place=_place(root, file),
                    hint=f"rename it to {_right_name(file)}",
                )
            )


def _right_name(file: Path) -> str:
    return file.with_suffix(".yaml").name if file.parent.name == "toolchains" else "app.yaml"


def _text(file: Path) -> str:
    """A declaration's text; of one that is too long, enough for `load_located` to see that. Raises
    OSError, UnicodeDecodeError."""
    with open_file(file) as opened:
        data = opened.read(4 * LONGEST + 4)
    # the last character of what is too long may be cut
    return data.decode("utf-8-sig", "strict" if len(data) <= 4 * LONGEST else "replace")


def _place(root: Path, file: Path) -> Place:
    if file.is_relative_to(BUILT_IN):
        return Place(f"{file.relative_to(BUILT_IN).as_posix()} (built in)")
    return Place(file.relative_to(root).as_posix())


def _load(
    model: type[M] | Callable[[Any], type[M]], root: Path, file: Path
) -> tuple[M | None, PlaceIndex, list[OrchestratorError], Any]:
    """The value that a file declares, places and faults, and its data; `model` may depend on
    that."""
    place = _place(root, file)
    none = PlaceIndex(place.file, None)
    try:
        text = _text(file)
        data, places = load_located(text, place.file)
    except UnicodeDecodeError as error:
        return (
            None,
            none,
            [
                UnreadableFileError(
                    "the file is not UTF-8 text",
                    place=place,
                    expected="UTF-8",
                    seen=f"byte 0x{error.object[error.start]:02x} at offset {error.start}",
                    hint="save it as UTF-8",
                )
            ],
            None,
        )
    except OSError as error:
        # a folder of that name, a link to nothing, or a file of another user
        fault = UnreadableFileError(
            "the file cannot be read", place=place, expected="a text file", seen=error.strerror
        )
        return None, none, [fault], None
    except OrchestratorError as error:
        return None, none, [error], None
    chosen = model if isinstance(model, type) else model(data)
    value, errors = validated(chosen, data, places)
    return value, places, errors, data


def _load_toolchain(
    root: Path, file: Path, errors: list[OrchestratorError]
) -> Toolchain | Group | None:
    config, places, faults, _ = _load(_toolchain_model, root, file)
    errors.extend(faults)
    if isinstance(config, ToolchainGroup):
        return Group(config, _place(root, file), places)
    built_in = file.is_relative_to(BUILT_IN)
    return Toolchain(config, _place(root, file), places, built_in) if config else None


def _toolchain_model(data: Any) -> type[ToolchainConfig | ToolchainGroup]:
    grouped = isinstance(data, dict) and "members" in data
    return ToolchainGroup if grouped else ToolchainConfig


# Lists that an app must have, each with a valid entry.
_ANY: Final = {"models": [{"file": "any.ptl"}], "targets": ["any"]}


def _load_app(
    root: Path, file: Path, workspace: WorkspaceConfig, errors: list[OrchestratorError]
) -> App | None:
    """An app; for a faulty file its valid part, if any."""
    config, places, faults, data = _load(AppConfig, root, file)
    errors.extend(faults)
    part = config or valid_part(AppConfig, data, _ANY)
    if part is None:
        return None
    if not part.targets:
        part = part.model_copy(update={"budgets": {}, "packages": None})
    name = file.parent.name
    return App(
        name=name,
        folder=file.parent,
        config=part,
        place=_place(root, file),
        optimize=part.optimize or workspace.defaults.optimize,
        runtime=part.runtime or workspace.default_runtime,
        kernels=part.kernels or workspace.defaults.kernels,
        threads=workspace.defaults.threads if part.threads is None else part.threads,
        selection=part.selection or workspace.defaults.selection,
        package_name=part.package_name or default_package_name(name),
        maven_group=part.maven_group or workspace.defaults.maven_group,
        places=places,
    )
