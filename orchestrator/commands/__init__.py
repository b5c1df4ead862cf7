"""The verbs of the command line, one module each, registered by hand.

The registry holds what `orchestrator --help` prints; a verb's module is imported only when the verb
is used, so that help and quick verbs do not pay for the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol, cast

from orchestrator.context import Context


class CommandModule(Protocol):
    """What a verb's module offers.

    NAME     the verb
    HELP     what it does, a few sentences, for its own `--help`
    EXAMPLE  command lines that show it, one a line
    """

    NAME: str
    HELP: str
    EXAMPLE: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's own options and arguments."""

    def run(self, arguments: argparse.Namespace, context: Context) -> int:
        """Do it; returns the exit code. Failures are raised as `OrchestratorError`."""


@dataclass(frozen=True)
class Command:
    """A registered verb: its module, by name, its line in `orchestrator --help`, and whether it
    works in a workspace; one that makes it has the folder as its root."""

    module: str
    help: str
    in_workspace: bool = True

    def load(self) -> CommandModule:
        """Import the verb's module."""
        return cast(CommandModule, import_module(f"orchestrator.commands.{self.module}"))


COMMANDS: Final[Mapping[str, Command]] = {
    "init": Command("init", "make a folder a workspace", in_workspace=False),
    "new-app": Command("new_app", "add an app to the workspace, from its models"),
    "build": Command("build", "build, deliver and verify apps' libraries"),
    "plan": Command("plan", "tell what a build would need, share and compile"),
    "matrix": Command("matrix", "list the variants that a change touches, for CI"),
    "why": Command("why", "tell who asks for an operator or a unit, and the way to it"),
    "explain": Command("explain", "tell why a unit is compiled again: what differs since"),
    "export": Command("export", "write the plan as a Bazel workspace"),
    "trace": Command("trace", "run apps' models in the tracer and write their lock files"),
    "verify": Command("verify", "run apps' models in their delivered libraries, and compare"),
    "runtime": Command("runtime", "maintain what is shipped for a PyTorch version: its index"),
    "library": Command("library", "maintain what is shipped for a library of kernels: its index"),
    "toolchain": Command("toolchain", "tell what a toolchain can do; CMake files for consumers"),
    "cache": Command("cache", "tell what the user's cache folder holds, and make it smaller"),
    "clean": Command("clean", "remove what builds have made, and only that"),
    "completion": Command("completion", "print a script by which a shell completes commands"),
    "doctor": Command("doctor", "tell what is present, what is missing, and how to get it"),
    "fetch": Command("fetch", "get and verify the pinned source trees"),
}
