"""Fast path for no-op builds: replays the last report without planning.

A successful build stores its report in `.orchestrator/last-build.json`, with size, times and inode
of all files that it depends on (`build/delivering/inputs_read.py`) and digests of the environment's
variables that it used. If all of that is unchanged, and ninja finds no work to do, the next build
with the same arguments replays the report and says so. Timestamps only decide whether to check more
closely; content decides what is built.

Files of events (`--trace`, `--events`) are no part of the command: a replay writes into them that
nothing was to be done.

The variables that count are those that were looked up (`system/environment.py`) and, because
compilers and models' runs get the whole environment, those that are known to affect them: see
`_DECIDING`. Others, such as TERM or a desktop's, differ from shell to shell.

Only the standard library is imported here: a cold import of the pipeline takes longer than the
replay.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.system.environment import Environment
from orchestrator.system.process import LOCAL, Command
from orchestrator.system.reading import read_json

if TYPE_CHECKING:
    from orchestrator.build.delivering.inputs_read import InputsRead

_KEPT = "last-build.json"
_FORMAT = 2
# Beginnings of names. gcc: "Environment Variables Affecting GCC" and collect2's; clang: CCC_*,
# SDKROOT and the deployment targets; zig: ZIG_*, NIX_*; the linkers' own; launchers; javac and the
# JVM; Python; what affects how a program is loaded, which kernels PyTorch and our libraries take,
# in how many threads, how qemu runs it.
_DECIDING = (
    *("PATH", "CC", "CXX", "CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "OBJC"),
    *("COMPILER_PATH", "LIBRARY_PATH", "GCC_", "COLLECT_", "DEPENDENCIES_OUTPUT"),
    *("SUNPRO_DEPENDENCIES", "SOURCE_DATE_EPOCH", "ZERO_AR_DATE", "LD_", "LDEMULATION"),
    *("GNUTARGET", "DYLD_", "SDKROOT", "DEVELOPER_DIR", "TOOLCHAINS", "MACOSX_DEPLOYMENT_TARGET"),
    *("IPHONEOS_DEPLOYMENT_TARGET", "ANDROID_", "NDK_", "ZIG_", "NIX_", "LANG", "LC_"),
    *("CCACHE_", "SCCACHE_", "RECC_", "DISTCC_", "ICECC", "ORCHESTRATOR_", "PYTORCH_"),
    *("JAVA_", "JDK_", "_JAVA_OPTIONS", "CLASSPATH", "PYTHON", "GLIBC_TUNABLES", "QEMU_"),
    *("ATEN_", "TORCH_", "OMP_", "MKL_", "LTA_"),
)
# What is written of a build that happens: `report/events.py`.
_FILES = ("--trace", "--events")
_CHECK = "check what is up to date"
_PACKAGE = Path(__file__).parent.parent
_NINJA_TIME_LIMIT = 60
# The kernel's clock for files goes in steps (at most 10 ms, CONFIG_HZ=100).
_CLOCK_STEP_NS = 20_000_000


def replay_last_build(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> bool:
    """Print the last report of the same command again, if everything is up to date."""
    root = next((f for f in (cwd, *cwd.parents) if (f / "WORKSPACE").is_file()), None)
    if root is None:
        return False
    begun = time.monotonic()
    try:
        kept = read_json(_kept(root))
        if difference(kept, root, argv, env, cwd) is not None or not _no_work(root, kept):
            return False
        report = str(kept["report"])
        for option, file in _split(argv)[1]:
            Path(cwd, file).write_text(_told(option, time.monotonic() - begun), encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    sys.stdout.write(report)
    return True


def started(root: Path) -> int:
    """The file system's time before a build reads anything."""
    mark = root / ".orchestrator" / "started"
    times = [time.time_ns() - _CLOCK_STEP_NS]
    # a file server may have a different clock
    with suppress(OSError):
        mark.touch()
        times.append(mark.stat().st_mtime_ns)
    return min(times)


def keep(
    root: Path,
    argv: Sequence[str],
    env: Mapping[str, str],
    read: InputsRead,
    report: str,
    *,
    folder: Path,
    since: int,
) -> bool:
    """Keep a report for `replay_last_build`; False where something that was read may have changed
    since.

    folder is where ninja runs, since what `started` gave before anything was read.
    """
    from orchestrator.system.staging import write_text

    salt = os.urandom(8).hex()
    looked_up = env.looked_up if isinstance(env, Environment) else frozenset(env)
    patterns = [[str(base), text, _matches(base, text)] for base, text in read.patterns]
    inputs = {*map(str, read.read), *(path for _, _, paths in patterns for path in paths)}
    stats = {path: _stat(path) for path in sorted(inputs)}
    sought = {path: _stat(path) for path in sorted(map(str, read.sought))}
    seen = [*stats.values(), *sought.values(), *(_stat(path) for path in _code_files())]
    if None in stats.values() or any(_is_since(stat, since) for stat in seen):
        return False
    value = {
        "format": _FORMAT,
        "command": _command(root, argv, env, Path.cwd()),
        "salt": salt,
        "environment": _digests(env, looked_up, salt),
        "patterns": patterns,
        "paths": {**stats, **sought, **{path: _stat(path) for path in sorted(map(str, read.made))}},
        "objects": {path: _linked_stat(path) for path in sorted(map(str, read.objects))},
        "code": _code(),
        "folder": str(folder),
        "report": report,
    }
    write_text(_kept(root), json.dumps(value))
    return True


def forget(root: Path) -> None:
    """Drop the stored report: a build is about to change its subject."""
    _kept(root).unlink(missing_ok=True)


def difference(
    kept: Mapping[str, Any], root: Path, argv: Sequence[str], env: Mapping[str, str], cwd: Path
) -> str | None:
    """The first difference since the report was stored; None where there is none."""
    if kept["format"] != _FORMAT or kept["command"] != _command(root, argv, env, cwd):
        return "command"
    before = kept["environment"]
    now = _digests(env, before, kept["salt"])
    if now != before:
        return min(name for name in now if now[name] != before.get(name))
    for base, pattern, paths in kept["patterns"]:
        if _matches(Path(base), pattern) != paths:
            return f"{base}/{pattern}"
    for path, seen in kept["paths"].items():
        if _stat(path) != seen:
            return str(path)
    for path, seen in kept["objects"].items():
        if _linked_stat(path) != seen:
            return str(path)
    return None if kept["code"] == _code() else str(_PACKAGE)


def _is_since(stat: Sequence[int] | None, since: int) -> bool:
    """True if a file was changed at that time or later."""
    return stat is not None and stat[2] >= since


def _kept(root: Path) -> Path:
    return root / ".orchestrator" / _KEPT


def _command(root: Path, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> list[Any]:
    """Identify a command: the workspace, its arguments, its place, and the Python and machine that
    run it."""
    path = dict(env).get("PATH", "").split(os.pathsep)
    place = None if all(map(os.path.isabs, path)) else str(cwd)
    who = [sys.executable, sys.version, os.uname().sysname, os.uname().machine]
    return [str(root), _split(argv)[0], place, *who]


def _split(argv: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """A command's words without its files of events, and these: an option, and the path."""
    rest, files, words = list[str](), list[tuple[str, str]](), iter(argv)
    for word in words:
        option, equals, file = word.partition("=")
        if option in _FILES:
            files.append((option, file if equals else next(words, "")))
        else:
            rest.append(word)
    return rest, files


def _told(option: str, seconds: float) -> str:
    """The events of a build that only checks what is up to date."""
    # read where it is asked for alone, as every import here
    from orchestrator.report.events import Event, chrome_trace

    seconds = round(seconds, 6)
    stage = Event("stage", seconds, _CHECK, seconds)
    if option == "--trace":
        return chrome_trace([stage])
    ended = Event("ended", seconds, said="up to date; report replayed")
    return "".join(one.line() for one in (Event("begun", 0.0), stage, ended))


def _digests(env: Mapping[str, str], names: Iterable[str], salt: str) -> dict[str, str | None]:
    """By name a digest of the value, since a value may be a secret; None where it is not set."""
    values = dict(env)
    wanted = {*names, *(name for name in values if name.startswith(_DECIDING))}
    return {name: _digest(salt, values.get(name)) for name in sorted(wanted)}


def _digest(salt: str, value: str | None) -> str | None:
    if value is None:
        return None
    return hashlib.sha256(salt.encode() + os.fsencode(value)).hexdigest()


def _matches(base: Path, pattern: str) -> list[str]:
    return sorted(map(str, base.glob(pattern)))


def _stat(path: str) -> list[int] | None:
    """The identity of a state of a file or folder; None where it does not exist.

    The time of its last change (`st_ctime`) cannot be set, as the one of its content can.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 (a Path for each of thousands takes as long again)
    except (OSError, ValueError):
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _linked_stat(path: str) -> list[int] | None:
    """The same for a file whose links others add and remove, which changes `st_ctime`."""
    stat = _stat(path)
    return None if stat is None else [stat[0], stat[1], stat[3]]


def _code_files() -> Iterator[str]:
    for folder, folders, files in os.walk(_PACKAGE):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        yield from (f"{folder}/{file}" for file in sorted(files))


def _code() -> str:
    """Digest of the state of the orchestrator's own files."""
    text = json.dumps([(path, _stat(path)) for path in _code_files()])
    return hashlib.sha256(text.encode()).hexdigest()


def _no_work(root: Path, kept: Mapping[str, str]) -> bool:
    build_file = root / ".orchestrator" / "build.ninja"
    argv = [str(Path(sys.executable).with_name("ninja")), "-n", "-f", str(build_file)]
    try:
        done = LOCAL.run(Command(argv, None, Path(kept["folder"]), _NINJA_TIME_LIMIT))
    except OSError:
        return False
    return done.code == 0 and "no work to do" in done.out
