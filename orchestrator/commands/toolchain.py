"""`orchestrator toolchain`: the compiler of an ABI, its capabilities; CMake toolchain files."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from orchestrator.build.workshop.invocation import load
from orchestrator.commands.views import stderr_logger
from orchestrator.compilers.cmake_toolchain import write_toolchain_file
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.compilers.run_prefix import remembered
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError
from orchestrator.load.declared import Workspace
from orchestrator.system.workspace_lock import cache_in_use
from orchestrator.values.names import did_you_mean_abi

NAME = "toolchain"
HELP = """\
`show` prints an ABI's compiler, its capabilities, found by probing, and how its binaries run on
this machine. `cmake` writes a CMake toolchain file for this machine, so that consumers compile as
the orchestrator does, and prints its path."""
EXAMPLE = """\
./orchestrate toolchain show linux-arm64
./orchestrate toolchain show --json
cmake -S . -B build -DCMAKE_TOOLCHAIN_FILE=$(./orchestrate toolchain cmake linux-arm64)"""


class AbiUnknownError(OrchestratorError):
    """A name on the command line is not an ABI of the workspace."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the ABI and --json."""
    parser.add_argument("action", choices=["show", "cmake"], help="the action")
    parser.add_argument(
        "abi", nargs="?", help="an ABI (show: all that apps name or toolchains/ has)"
    )
    parser.add_argument("--json", action="store_true", help="show: print the toolchains as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Show or write; raises AbiUnknownError, and what finding and probing a compiler raises."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    abis = [arguments.abi] if arguments.abi else _abis(here.workspace)
    if arguments.abi not in (None, *here.workspace.toolchains):
        raise _unknown(arguments.abi, sorted(here.workspace.toolchains))
    if arguments.action == "cmake":
        if arguments.abi is None:
            raise AbiUnknownError(
                "`cmake` requires one ABI",
                expected=", ".join(here.workspace.toolchains),
                hint="run: ./orchestrate toolchain cmake ABI",
            )
        with cache_in_use(context.cache, log):
            toolchain = here.toolchains.of(arguments.abi)
            file = write_toolchain_file(toolchain, here.toolchains.running(arguments.abi))
        print(file)
        return ExitCode.OK
    with cache_in_use(context.cache, log):
        shown = {abi: _facts(here.toolchains.of(abi)) for abi in abis}
    if arguments.json:
        rows = [{"abi": abi, **facts} for abi, facts in shown.items()]
        print(json.dumps({"format": 1, "toolchains": rows}, indent=2))
        return ExitCode.OK
    for abi, facts in shown.items():
        print(abi)
        for name, value in facts.items():
            print(f"  {name:<18}{_words(value)}")
    return ExitCode.OK


def _abis(workspace: Workspace) -> list[str]:
    """The ABIs that the workspace declares, and those that we ship and its apps name."""
    named = {abi for abis in workspace.targets.values() for abi in abis}
    toolchains = workspace.toolchains.items()
    return sorted(abi for abi, one in toolchains if not one.built_in or abi in named)


def _facts(toolchain: ResolvedToolchain) -> dict[str, object]:
    return {
        "compiler": toolchain.compiler,
        "target": toolchain.driver.target,
        "identity": toolchain.identity,
        "wrappers": str(toolchain.cc.parent),
        "for_release": toolchain.for_release,
        **asdict(toolchain.capabilities),
        "runs": _runs(remembered(toolchain.config, toolchain.tools)),
    }


def _runs(prefix: tuple[str, ...] | None) -> str:
    if prefix is None:
        return "not on this machine, or not tried yet"
    return f"with {' '.join(prefix)}" if prefix else "natively"


def _words(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _unknown(abi: str, known: list[str]) -> AbiUnknownError:
    return AbiUnknownError(
        f"no toolchain is named {abi}",
        expected=", ".join(known),
        seen=abi,
        hint=did_you_mean_abi(
            abi, known, f"use one of these, or declare it in toolchains/{abi}.yaml"
        ),
    )
