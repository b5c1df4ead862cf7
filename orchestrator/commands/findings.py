"""The tools that a workspace needs, and those that the machine has: pure, for `doctor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from orchestrator.compilers.registry import COMPILERS
from orchestrator.errors import OrchestratorError
from orchestrator.load.workspace import Toolchain, Workspace, expand
from orchestrator.values.config.toolchain import Emulator
from orchestrator.values.config.workspace import RuntimePin, Source

# PyTorch's source unpacked and generated (0.6 GB), and some apps' objects.
LEAST_SPACE: Final = 4 * 10**9
EVERY_BUILD: Final = "every build"
_EVERY: Final = (EVERY_BUILD,)


@dataclass(frozen=True)
class Machine:
    """The probed machine.

    install    what to do where a Python package is missing
    packages   version by Python package, None where it is not installed
    which      the path of a program on PATH, or None
    cache      the user's cache folder, and for the nearest folder that exists at or above it:
    free       bytes free
    writable   whether files can be made there
    is_folder  whether a path is a folder
    fetched    whether the cache has a tree, by its name there and its digest
    able       the capabilities of a toolchain, as text; None where its compiler is not here, an
    error of
               ours where it is broken
    """

    python: str
    install: str
    packages: Mapping[str, str | None]
    which: Callable[[str], str | None]
    env: Mapping[str, str]
    cache: Path
    free: int
    writable: bool
    is_folder: Callable[[str], bool]
    fetched: Callable[[str, str], bool]
    able: Callable[[Toolchain], str | None]


@dataclass(frozen=True)
class Finding:
    """One tool, folder or source that was looked for.

    state      present; missing: required and not found; absent: optional and not found
    needed_by  targets, or "every build"; empty where nothing needs it
    get        how to get it
    """

    name: str
    state: Literal["present", "missing", "absent"]
    found: str
    needed_by: tuple[str, ...]
    get: str


def findings(workspace: Workspace, machine: Machine) -> tuple[Finding, ...]:
    """All findings, in the order of the report."""
    wanted = {abi for app in workspace.apps.values() for abi in app.config.targets}
    toolchains = [workspace.toolchains[abi] for abi in sorted(wanted)]
    again = machine.install
    return (
        _finding("python", machine.python, _EVERY, "install Python 3.11 or newer"),
        _finding("ninja", machine.packages["ninja"], _EVERY, again),
        _finding("ziglang", machine.packages["ziglang"], _zig_users(toolchains, machine), again),
        _finding("cmake", machine.packages["cmake"], (), f"for consumers: {again}"),
        *_compilers(toolchains, machine),
        *_capabilities(toolchains, machine),
        *_emulators(toolchains, machine),
        *_launcher(workspace, machine),
        *_programs(machine),
        *_sources(workspace, machine),
        *_cache(machine),
    )


def _finding(name: str, found: str | None, needed_by: Sequence[str], get: str) -> Finding:
    state: Literal["present", "missing", "absent"] = (
        "present" if found else "missing" if needed_by else "absent"
    )
    return Finding(name, state, found or "", tuple(needed_by), get)


def _zig_users(toolchains: Sequence[Toolchain], machine: Machine) -> list[str]:
    """Targets that zig compiles: its own, and those whose real compiler is not here."""
    configs = [each.config for each in toolchains]
    return sorted(one.abi for one in configs if COMPILERS[one.compiler.kind].runs_zig(one, machine))


def _compilers(toolchains: Sequence[Toolchain], machine: Machine) -> Iterator[Finding]:
    for kind, compiler in COMPILERS.items():
        declared = [each for each in toolchains if each.config.compiler.kind == kind]
        for one in compiler.requirements(declared, machine):
            yield _finding(one.name, one.found, one.needed_by, one.get)


def _capabilities(toolchains: Sequence[Toolchain], machine: Machine) -> Iterator[Finding]:
    for each in toolchains:
        name, get = f"toolchain {each.config.abi}", ""
        try:
            found = machine.able(each)
        except OrchestratorError as broken:
            found, get = "", f"{broken.what}: {broken.hint or broken.seen}"
        if found is not None:
            yield _finding(name, found or None, [each.config.abi], get)


def _emulators(toolchains: Sequence[Toolchain], machine: Machine) -> Iterator[Finding]:
    users: dict[str, list[Emulator]] = {}
    abis: dict[str, list[str]] = {}
    for each in toolchains:
        if not isinstance(each.config.run, str):
            name = each.config.run.emulator[0]
            users.setdefault(name, []).append(each.config.run)
            abis.setdefault(name, []).append(each.config.abi)
    for name, emulators in sorted(users.items()):
        found = machine.which(name)
        if not found and all(e.debian for e in emulators) and machine.which("apt-get"):
            found = "not on PATH; a build gets it through apt-get"
        yield _finding(name, found, abis[name], "Debian: apt-get install qemu-user-static")


def _launcher(workspace: Workspace, machine: Machine) -> Iterator[Finding]:
    launcher = workspace.config.launcher
    if launcher:
        name = launcher.command[0]
        yield _finding(
            name, machine.which(name), _EVERY, "install it, or remove `launcher` from WORKSPACE"
        )
    if not launcher or launcher.command[0] != "ccache":
        yield _finding(
            "ccache",
            machine.which("ccache"),
            (),
            "a `launcher` in WORKSPACE may use it (Debian: apt-get install ccache)",
        )


def _programs(machine: Machine) -> Iterator[Finding]:
    yield _finding(
        "javac",
        machine.which("javac"),
        (),
        "for the Java API in AARs (Debian: apt-get install default-jdk-headless)",
    )
    yield _finding("git", machine.which("git"), (), "for `git` sources: apt-get install git")
    yield _finding("apt-get", machine.which("apt-get"), (), "for `debian` sources: a Debian system")


def _sources(workspace: Workspace, machine: Machine) -> Iterator[Finding]:
    pins: dict[tuple[str, str], _Pin] = {}
    for runtime, pin in workspace.config.pins.items():
        for one in _pins_of(runtime, pin):
            pins.setdefault((one.name, one.tree), one)
    times = Counter(name for name, _ in pins)
    for runtime, called, stored_as, tree, sources in pins.values():
        name = called if times[called] == 1 else f"{called} ({runtime})"
        found = [text for one in sources if (text := _available(one, workspace.root, machine))]
        fetched = machine.fetched(stored_as, tree)
        yield _finding(
            f"source of {name}",
            "fetched"
            if fetched
            else f"not fetched yet; available from {found[0]}"
            if found
            else None,
            _EVERY,
            "install git or an apt client, or add a `path` to its sources in WORKSPACE",
        )


class _Pin(NamedTuple):
    """A pinned tree of a runtime, and its name in the cache."""

    runtime: str
    name: str
    stored_as: str
    tree: str
    sources: tuple[Source, ...]


def _pins_of(runtime: str, pin: RuntimePin) -> Iterator[_Pin]:
    yield _Pin(runtime, "pytorch", pin.pytorch, pin.tree, pin.sources)
    for name, third in sorted(pin.third_party.items()):
        yield _Pin(runtime, name, name, third.tree, third.sources)
    for name, library in sorted(pin.libraries.items()):
        yield _Pin(runtime, name, name, library.tree, library.sources)


def _available(source: Source, root: Path, machine: Machine) -> str | None:
    """A source that is available here, as text; None where it is not."""
    if source.git:
        return "git" if machine.which("git") else None
    if source.debian:
        return "apt-get" if machine.which("apt-get") else None
    if source.archive:
        return source.archive.url
    assert source.path
    path = expand(source.path, root, machine.env)
    return f"path {path}" if path and machine.is_folder(str(path)) else None


def _cache(machine: Machine) -> Iterator[Finding]:
    yield _finding(
        "cache folder",
        str(machine.cache) if machine.writable else None,
        _EVERY,
        f"{machine.cache} is not writable: correct its mode, or set ORCHESTRATOR_CACHE",
    )
    space = f"{machine.free / 10**9:.1f} GB free"
    yield Finding(
        "disk space",
        "present" if machine.free >= LEAST_SPACE else "missing",
        space,
        _EVERY,
        f"free some: {LEAST_SPACE / 10**9:.0f} GB are needed, or set ORCHESTRATOR_CACHE",
    )
