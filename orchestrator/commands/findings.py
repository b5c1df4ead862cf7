"""What a workspace needs of a machine, and what the machine has: pure, for `doctor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from orchestrator.errors import OrchestratorError
from orchestrator.load.workspace import Toolchain, Workspace, expand
from orchestrator.values.config import Emulator, RuntimePin, Source

# PyTorch's source unpacked and generated (0.6 GB), and some apps' objects beside it.
LEAST_SPACE: Final = 4 * 10**9
_EVERY: Final = ("every build",)
_AGAIN: Final = "remove .venv and run ./orchestrate again"


@dataclass(frozen=True)
class Machine:
    """What was probed.

    packages   version by Python package, None where it is not installed
    which      the path of a program on PATH, or None
    cache      the user's cache folder, and for the nearest folder that exists at or above it:
    free       bytes free
    writable   whether files can be made there
    is_folder  whether a path is a folder
    fetched    whether the cache has a tree, by its name there and its digest
    able       what a toolchain can do, in words; None where its compiler is not here, an error of
               ours where it is broken
    """

    python: str
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
    """One thing that was looked for.

    state      present; missing: needed and not there; absent: not there, and it can do without
    needed_by  targets, or "every build"; empty where nothing needs it
    get        how to get it
    """

    name: str
    state: Literal["present", "missing", "absent"]
    found: str
    needed_by: tuple[str, ...]
    get: str


def findings(workspace: Workspace, machine: Machine) -> tuple[Finding, ...]:
    """All findings, in the order in which they are told."""
    wanted = {abi for app in workspace.apps.values() for abi in app.config.targets}
    toolchains = [workspace.toolchains[abi] for abi in sorted(wanted)]
    return (
        _finding("python", machine.python, _EVERY, "install Python 3.11 or newer"),
        _finding("ninja", machine.packages["ninja"], _EVERY, _AGAIN),
        _finding("ziglang", machine.packages["ziglang"], _zig_users(toolchains, machine), _AGAIN),
        _finding("cmake", machine.packages["cmake"], (), f"for consumers: {_AGAIN}"),
        *_compilers(toolchains, machine),
        *_abilities(toolchains, machine),
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


def _abis(toolchains: Sequence[Toolchain], compiler: str) -> list[Toolchain]:
    return [each for each in toolchains if getattr(each.config.compiler, compiler) is not None]


def _zig_users(toolchains: Sequence[Toolchain], machine: Machine) -> list[str]:
    """Targets that zig compiles: its own, and those whose real compiler is not here."""
    users = _abis(toolchains, "zig")
    if not machine.which("xcrun"):
        users += _abis(toolchains, "xcode")
    if not _ndk(machine):
        users += [each for each in _abis(toolchains, "ndk") if _has_shim(each)]
    return sorted(each.config.abi for each in users)


def _has_shim(toolchain: Toolchain) -> bool:
    ndk = toolchain.config.compiler.ndk
    return ndk is not None and ndk.shim


_NDK_VARIABLES = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT")


def _ndk(machine: Machine) -> str | None:
    for name in _NDK_VARIABLES:
        folder = machine.env.get(name)
        if folder and machine.is_folder(folder):
            return folder
    return None


def _compilers(toolchains: Sequence[Toolchain], machine: Machine) -> Iterator[Finding]:
    ndk = _abis(toolchains, "ndk")
    named = any(machine.env.get(name) for name in _NDK_VARIABLES)
    yield _finding(
        "Android NDK",
        _ndk(machine),
        # where a variable names one, the stand-in does not stand in for it
        [each.config.abi for each in ndk if named or not _has_shim(each)],
        "install it and set ANDROID_NDK_HOME; without it Android packages are link-only stand-ins",
    )
    yield _finding(
        "Xcode",
        machine.which("xcrun"),
        (),
        "on macOS: xcode-select --install; without it zig builds the iOS archives",
    )
    for each in _abis(toolchains, "command"):
        command = each.config.compiler.command
        assert command
        for name in (command.cxx, command.cc):
            yield _finding(
                name,
                machine.which(name),
                [each.config.abi],
                f"install it, or correct {each.place}",
            )


def _abilities(toolchains: Sequence[Toolchain], machine: Machine) -> Iterator[Finding]:
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
            found = "not on PATH; a build gets it by apt-get"
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
        ways = [way for source in sources if (way := _way(source, workspace.root, machine))]
        fetched = machine.fetched(stored_as, tree)
        yield _finding(
            f"source of {name}",
            "fetched" if fetched else f"not fetched yet; can be, by {ways[0]}" if ways else None,
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


def _way(source: Source, root: Path, machine: Machine) -> str | None:
    """How a source could be fetched here; None where it cannot."""
    if source.git:
        return "git" if machine.which("git") else None
    if source.debian:
        return "apt-get" if machine.which("apt-get") else None
    assert source.path
    path = expand(source.path, root, machine.env)
    return f"path {path}" if path and machine.is_folder(str(path)) else None


def _cache(machine: Machine) -> Iterator[Finding]:
    yield _finding(
        "cache folder",
        str(machine.cache) if machine.writable else None,
        _EVERY,
        f"{machine.cache} cannot be written: correct its mode, or set ORCHESTRATOR_CACHE",
    )
    space = f"{machine.free / 10**9:.1f} GB free"
    yield Finding(
        "disk space",
        "present" if machine.free >= LEAST_SPACE else "missing",
        space,
        _EVERY,
        f"free some: {LEAST_SPACE / 10**9:.0f} GB are wanted, or set ORCHESTRATOR_CACHE",
    )
