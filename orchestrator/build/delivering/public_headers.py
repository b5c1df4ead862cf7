"""The PyTorch headers that a delivery contains: those that compiling the probe actually reads."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.native import NATIVE
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.compilers.resolve import compiler_environment
from orchestrator.deliver.headers import HeaderFile, headers_from_depfile
from orchestrator.errors import OrchestratorError
from orchestrator.plan.flags import own_folders, unit_flags
from orchestrator.system.process import Command
from orchestrator.system.reading import read_json
from orchestrator.system.staging import write_text
from orchestrator.values.fingerprint import fingerprint

_PROBE = NATIVE / "headers" / "probe.cpp"
_CONSUMER = "$native/consumer"
# Macros that change a header's meaning, and so the ABI: a consumer must define them as we did.
_NOT_FOR_CONSUMERS = (
    "-DNDEBUG",
    "-D_FILE_OFFSET_BITS=64",
    "-D__FILE__",
    "-DMINIZ",
    "-DFMT_HEADER_ONLY",
)


class ProbeFailedError(OrchestratorError):
    """The header probe does not compile with a toolchain."""


def delivered_headers(here: Invocation, runtime: Runtime, abi: str) -> tuple[HeaderFile, ...]:
    """PyTorch's headers for the C++ API; found once for a runtime and toolchain, then cached.

    The variants of one invocation share the value: it has thousands of paths. Raises
    ProbeFailedError.
    """
    if abi not in runtime.public_headers:
        runtime.public_headers[abi] = _find(here, runtime, abi)
    return runtime.public_headers[abi]


def _find(here: Invocation, runtime: Runtime, abi: str) -> tuple[HeaderFile, ...]:
    toolchain = here.toolchains.of(abi)
    flags = _flags(here, runtime, abi)
    key = fingerprint(
        {
            "runtime": runtime.facts.identity,
            "toolchain": toolchain.identity,
            "flags": flags,
            "roots": sorted(_roots(here, runtime, abi)),
            "probe": _PROBE.read_text(encoding="utf-8"),
            "consumer": _consumer_headers(),
        }
    )
    stored = here.context.cache / "headers" / f"{key}.json"
    named = _read(stored)
    if named is not None:
        return tuple(HeaderFile(runtime.fill(one.source), one.destination) for one in named)
    several = len(here.workspace.config.pins) > 1
    of_runtime = f"{runtime.name}'s" if several else "the"
    here.log(f"finding the headers of {of_runtime} C++ API for {abi}")
    roots = {runtime.fill(root): prefix for root, prefix in _roots(here, runtime, abi).items()}
    headers = tuple(headers_from_depfile(_depfile(here, runtime, abi, flags), roots))
    listed = [[_named(runtime, h.source), h.destination] for h in headers]
    # a cache that can only be read serves too
    with suppress(OSError):
        write_text(stored, json.dumps([_digest(listed), listed]))
    return headers


def _consumer_headers() -> str:
    """A digest of what is read in place of headers of ours that are not delivered."""
    folder = NATIVE / "consumer"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return fingerprint(
        {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in files}
    )


def _named(runtime: Runtime, path: str) -> str:
    """A path with a `$variable` for its folder, as it is for every workspace and installation.

    A runtime's folders have its own names and, in a workspace with several, longer ones.
    """
    folders = [(name, f) for name, f in runtime.own_folders.items() if path.startswith(f"{f}/")]
    if not folders:
        return path
    name, folder = min(folders, key=lambda one: (-len(one[1]), len(one[0]), one[0]))
    return f"${name}{path.removeprefix(folder)}"


def _read(stored: Path) -> tuple[HeaderFile, ...] | None:
    """The stored list, in which `$variables` stand for folders; None where there is none, or one
    that is damaged."""
    try:
        digest, listed = read_json(stored)
        if digest != _digest(listed):
            return None
        return tuple(HeaderFile(source, destination) for source, destination in listed)
    except (OSError, ValueError, TypeError):
        return None


def _digest(listed: object) -> str:
    return fingerprint({"headers": listed})


def consumer_definitions(here: Invocation, runtime: Runtime, abi: str) -> tuple[str, ...]:
    """The macros with which a consumer must compile PyTorch's public headers, since they change
    what the headers mean, and so the ABI: `NAME` or `NAME=value`, without -D, sorted."""
    flags = _unit_flags(here, runtime, abi)
    return tuple(
        sorted(
            flag.removeprefix("-D")
            for flag in (*here.toolchains.of(abi).compile_flags, *flags)
            if flag.startswith("-D") and not flag.startswith(_NOT_FOR_CONSUMERS)
        )
    )


def _flags(here: Invocation, runtime: Runtime, abi: str) -> list[str]:
    flags = _unit_flags(here, runtime, abi)
    return [_for_consumer(f) for f in (*here.toolchains.of(abi).compile_flags, *flags)]


def _unit_flags(here: Invocation, runtime: Runtime, abi: str) -> tuple[str, ...]:
    return unit_flags(
        runtime.dialect.flags,
        language="c++",
        kernel=False,
        hot=False,
        optimize="size",
        purpose="release",
        system=here.toolchains.of(abi).config.system,
    )


def _roots(here: Invocation, runtime: Runtime, abi: str) -> dict[str, str]:
    """Include folders, with `$variables`, by where their headers go: see `headers_from_depfile`."""
    flags = runtime.dialect.flags
    of_toolchain = own_folders(here.toolchains.of(abi).compile_flags)
    folders = (*of_toolchain, *(f for f in flags.include if f not in flags.unexported))
    return {_for_consumer(f): "ATen" if f.endswith("/ATen") else "" for f in folders}


def _for_consumer(text: str) -> str:
    """Consumers read their own selection header: ours refers to a file that is not delivered."""
    return text.replace("$native/selection", _CONSUMER)


def _depfile(here: Invocation, runtime: Runtime, abi: str, flags: list[str]) -> str:
    argv = [str(here.toolchains.of(abi).cxx), *map(runtime.fill, flags), "-M", str(_PROBE)]
    env = compiler_environment(here.context.cache, here.context.env, here.context.state)
    done = here.context.runner.run(Command(argv, env))
    if done.code:
        raise ProbeFailedError(
            f"the headers of the C++ API do not compile for {abi}",
            hint=f"check the flags in toolchains/{abi}.yaml",
            details="\n".join(done.err.splitlines()[:12]),
        )
    return done.out
