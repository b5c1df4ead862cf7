"""Makes a declared toolchain usable here: finds its compiler, writes its wrappers, tells who it is.

A toolchain's identity is a digest of the compiler's version and of the wrappers' text (target and
fixed flags, without paths); it is part of every object's fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path

import jinja2

from orchestrator.errors import OrchestratorError, Place
from orchestrator.values.config import ToolchainConfig

# Always said, whatever zig's defaults become: objects carry no debug information (1.95 MB against
# 273 KB each), UBSan is off, and warnings of PyTorch's own headers are not ours to show.
_ZIG_FLAGS = ("-g0", "-fno-sanitize=all", "-Wno-invalid-specialization")


class CompilerMissingError(OrchestratorError):
    """A toolchain's compiler is not on this machine."""


class CompilerUnsupportedError(OrchestratorError):
    """A toolchain names a compiler of a kind that cannot be used for it."""


@dataclass(frozen=True)
class ResolvedToolchain:
    """A toolchain that can compile here.

    identity    hex digest: compiler version, target, fixed flags
    cxx, cc, ar paths of the wrappers
    run         argv prefix that runs its binaries here; None where they cannot run
    """

    config: ToolchainConfig
    identity: str
    version: str
    cxx: Path
    cc: Path
    ar: Path
    run: tuple[str, ...] | None
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]

    @property
    def abi(self) -> str:
        return self.config.abi


def resolve_toolchain(
    config: ToolchainConfig, place: Place, cache_folder: Path, env: Mapping[str, str]
) -> ResolvedToolchain:
    """Find the compiler and write its wrappers under `<cache>/toolchains/<abi>-<identity>/`.

    Raises CompilerMissingError, CompilerUnsupportedError.
    """
    if config.compiler.zig is not None:
        command, version = _zig(place)
        target = config.compiler.zig.target
        verbs = {
            "cxx": ["c++", "-target", target, *_ZIG_FLAGS],
            "cc": ["cc", "-target", target, *_ZIG_FLAGS],
            "ar": ["ar"],
        }
        commands = {verb: [*command, *arguments] for verb, arguments in verbs.items()}
        identity = _digest({"zig": f"ziglang {version}", "verbs": verbs})
    elif config.compiler.command is not None:
        declared = config.compiler.command
        found = {
            "cxx": _find(declared.cxx, place, env),
            "cc": _find(declared.cc, place, env),
            "ar": _find(declared.ar or "ar", place, env),
        }
        commands = {verb: [path] for verb, path in found.items()}
        version = _first_line([found["cxx"], "--version"])
        identity = _digest({"command": version, "digest": _file_digest(found["cxx"])})
        target = version
    else:
        raise CompilerUnsupportedError(
            f"the toolchain {config.abi} needs a compiler that this version cannot drive yet",
            place=place,
            expected="compiler: zig or command",
            hint="choose a toolchain of zig or of this machine's compilers",
        )
    folder = cache_folder / "toolchains" / f"{config.abi}-{identity[:12]}"
    wrappers = {verb: _write_wrapper(folder, verb, target, commands[verb]) for verb in commands}
    return ResolvedToolchain(
        config=config,
        identity=identity,
        version=version,
        cxx=wrappers["cxx"],
        cc=wrappers["cc"],
        ar=wrappers["ar"],
        run=_runner(config, env),
        compile_flags=config.compile_flags,
        link_flags=config.link_flags,
    )


def compiler_environment(cache_folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The environment for compiler processes: one zig cache, so that libc++ is built once."""
    zig = str(cache_folder / "zig")
    return {**env, "ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": zig}


def _zig(place: Place) -> tuple[list[str], str]:
    spec = util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise CompilerMissingError(
            "the Python package ziglang is not installed",
            place=place,
            hint="run ./orchestrate, which installs the pinned dependencies",
        )
    binary = Path(spec.submodule_search_locations[0]) / "zig"
    return [str(binary)], metadata.version("ziglang")


def _find(command: str, place: Place, env: Mapping[str, str]) -> str:
    found = shutil.which(command, path=env.get("PATH"))
    if found is None:
        raise CompilerMissingError(
            f"{command} is not on PATH",
            place=place,
            hint=f"install {command}, or choose a toolchain of zig",
        )
    return found


def _first_line(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    return next(iter((done.stdout or done.stderr).strip().splitlines()), "of unknown version")


@cache
def _file_digest(path: str) -> str:
    return hashlib.sha256(Path(path).resolve().read_bytes()).hexdigest()


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _runner(config: ToolchainConfig, env: Mapping[str, str]) -> tuple[str, ...] | None:
    if config.run == "native":
        return ()
    if config.run == "none":
        return None
    emulator = tuple(config.run.emulator)
    return emulator if shutil.which(emulator[0], path=env.get("PATH")) else None


_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("orchestrator.toolchain", "templates"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # shell text, quoted with shlex
)


def _write_wrapper(folder: Path, verb: str, target: str, command: list[str]) -> Path:
    text = _TEMPLATES.get_template("wrapper.sh.j2").render(
        verb=verb, target=target, command=shlex.join(command), preprocessed=verb != "ar"
    )
    path = folder / verb
    if not path.is_file() or path.read_text() != text:
        folder.mkdir(parents=True, exist_ok=True)
        staged = folder / f".{verb}.{os.getpid()}"
        staged.write_text(text)
        staged.chmod(0o755)
        staged.replace(path)
    return path
