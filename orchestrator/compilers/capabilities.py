"""A toolchain's capabilities: probed with small sources through its own wrappers, then stored.

Contract: nothing is assumed from the kind of a compiler. The results are stored next to the
wrappers, whose folder is named by the compiler's identity, with a digest of everything else that
they depend on.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestrator.compilers import probes
from orchestrator.compilers.driver import Driver, Tools
from orchestrator.compilers.flags import LTO_FLAGS
from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.process import CommandRunner, Finished
from orchestrator.system.reading import read_json
from orchestrator.system.staging import write_text
from orchestrator.values.config.toolchain import ToolchainConfig


class CompilerBrokenError(OrchestratorError):
    """A toolchain does not compile the smallest sources."""


class LinkerBrokenError(OrchestratorError):
    """A toolchain compiles but cannot link, or cannot make archives."""


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of a toolchain.

    shared           it links shared libraries
    version_script   its linker hides what a version script does not name (`--version-script`)
    fold_functions   its linker folds equal functions (`--icf=safe`)
    pack_relocations its linker packs relocations as bionic reads them (`--pack-dyn-relocs`)
    self_relocate    its linker packs relocations for a library that applies them itself
    lto              its objects hold bitcode beside their code, and it links either (LLVM's
                     `-ffat-lto-objects`; gcc's objects are another thing)
    precompile       it makes precompiled headers that need no times of files (clang's)
    """

    shared: bool
    version_script: bool
    fold_functions: bool
    pack_relocations: bool
    self_relocate: bool
    lto: bool
    precompile: bool


def capabilities(
    config: ToolchainConfig,
    driver: Driver,
    tools: Tools,
    links_shared: bool,
    place: Place,
    runner: CommandRunner,
) -> Capabilities:
    """The remembered capabilities; probed where there are none. Raises what `probe` raises."""
    key = _key(config, driver, links_shared)
    # workspaces with other flags for this compiler have answers of their own
    kept = tools.cc.with_name(f"abilities-{key[:12]}.json")
    found = _read(kept, key)
    if found is None:
        found = probe(config, driver, tools, links_shared, place, runner)
        text = json.dumps({"of": key, "abilities": asdict(found)}, indent=2, sort_keys=True)
        write_text(kept, text + "\n")
    return found


def probe(
    config: ToolchainConfig,
    driver: Driver,
    tools: Tools,
    links_shared: bool,
    place: Place,
    runner: CommandRunner,
) -> Capabilities:
    """Find out what a toolchain can do.

    links_shared: variants are shared libraries, so that one which cannot be linked is an error.
    Raises CompilerBrokenError, LinkerBrokenError.
    """
    with tempfile.TemporaryDirectory(prefix="orchestrator-probe-") as folder:
        bench = probes.Bench(config, tools, Path(folder), driver.lto_flags, runner)
        _require_compiled(bench.compile("twins.c"), config, place)
        modern = bench.compile("plain.cpp", "-std=gnu++17", "-Oz")
        _require_compiled(modern, config, place)
        _require_linked(bench.archive("plain.a", "plain.o"), config, place)
        linked = bench.link("twins.so", "twins.o")
        if links_shared:
            _require_linked(linked, config, place)
            # zig builds its C++ library at the first link: that one is not broken, but slow
            if driver.zig is None:
                _require_linked(bench.whole_library(), config, place)
        shared = linked.code == 0
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = {
                name: pool.submit(check, bench)
                for name, check in probes.CHECKS.items()
                if shared or name in probes.WITHOUT_LINKING
            }
            found = {name: answer.result() for name, answer in answers.items()}
    return Capabilities(**{"shared": shared, **dict.fromkeys(probes.CHECKS, False), **found})


def _require_compiled(done: Finished, config: ToolchainConfig, place: Place) -> None:
    if done.code:
        raise CompilerBrokenError(
            f"the toolchain {config.abi} does not compile",
            place=place,
            expected="an object of one small function",
            seen=_ending(done),
            hint="check its target and compile_flags, and whether its compiler is complete",
            details=_first_lines(done),
        )


def _require_linked(done: Finished, config: ToolchainConfig, place: Place) -> None:
    if done.code:
        raise LinkerBrokenError(
            f"the toolchain {config.abi} compiles but cannot link",
            place=place,
            expected="a library of one small function",
            seen=_ending(done),
            hint="check its link_flags, and whether its compiler is complete",
            details=_first_lines(done),
        )


def _ending(done: Finished) -> str:
    return f"exit code {done.code} of: {_shown(done.argv)}"


def _first_lines(done: Finished) -> str | None:
    said = [line for line in (done.err or done.out).splitlines() if line.strip()]
    return "\n".join(said[:8]) or None


def _shown(argv: Sequence[str]) -> str:
    """The command without the folder of the wrappers."""
    return " ".join([Path(argv[0]).name, *argv[1:]])


def _key(config: ToolchainConfig, driver: Driver, links_shared: bool) -> str:
    """Key of the capabilities: their inputs besides the compiler's identity."""
    parts = {
        "probes": Path(probes.__file__).read_text(encoding="utf-8"),
        "flags": [config.compile_flags, config.link_flags],
        "links": [links_shared, driver.zig is None],
        "lto": [LTO_FLAGS, driver.lto_flags],
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read(kept: Path, key: str) -> Capabilities | None:
    try:
        value = read_json(kept)
        return Capabilities(**value["abilities"]) if value["of"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
