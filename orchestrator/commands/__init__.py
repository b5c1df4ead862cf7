"""The verbs of the command line, one module each, registered by hand.

The registry holds what `orchestrator --help` prints; a verb's module is imported only when the verb
is used, so that help and quick verbs stay fast.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol, cast

from orchestrator.context import Context


class CommandModule(Protocol):
    """Interface of a verb's module.

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
    works in a workspace; one that makes it has the folder as its root. One that waits for its user
    may be silent meanwhile."""

    module: str
    help: str
    in_workspace: bool = True
    waits: bool = False

    def load(self) -> CommandModule:
        """Import the verb's module."""
        return cast(CommandModule, import_module(f"orchestrator.commands.{self.module}"))


COMMANDS: Final[Mapping[str, Command]] = {
    "init": Command("init", "turn a folder into a workspace", in_workspace=False),
    "new-app": Command("new_app", "add an app to the workspace, from its models"),
    "build": Command("build", "build, verify and deliver apps' libraries"),
    "plan": Command("plan", "show what a build would need, share and compile"),
    "matrix": Command("matrix", "list the variants that a change affects, for CI"),
    "size": Command("size", "tell what the bytes of libraries are there for"),
    "memory": Command("memory", "tell what models take of memory, when, and in which layer"),
    "report": Command("report", "write a page about libraries, for a browser"),
    "why": Command("why", "explain why an operator or a unit is in a library"),
    "advisories": Command("advisories", "answer known vulnerabilities of PyTorch for libraries"),
    "fits": Command("fits", "check whether a model runs in shipped libraries"),
    "addon": Command("addon", "make an add-on for a shipped library, for a new model"),
    "select": Command("select", "show, merge and compare files of selected operators"),
    "explain": Command("explain", "explain why a unit is compiled again"),
    "export": Command("export", "export a PyTorch module as an app's model, or the plan for Bazel"),
    "canonical": Command("canonical", "rewrite models to fewer operators, and compare them"),
    "run": Command("run", "run a model without an app, compiling what it needs"),
    "watch": Command("watch", "run a model whenever it is saved, and compare", waits=True),
    "trace": Command("trace", "run apps' models and write what they used to lock files"),
    "coverage": Command("coverage", "show how much of models' code their inputs ran"),
    "verify": Command("verify", "run apps' models in the delivered libraries and compare outputs"),
    "runtime": Command("runtime", "maintain the shipped index of a PyTorch version"),
    "library": Command("library", "maintain the shipped index of a kernel library"),
    "toolchain": Command("toolchain", "show what a toolchain can do; write CMake toolchain files"),
    "cache": Command("cache", "show and prune the user's cache folder"),
    "clean": Command("clean", "remove build outputs, and nothing else"),
    "completion": Command("completion", "print a shell completion script"),
    "schema": Command("schema", "print a JSON schema of files and answers", in_workspace=False),
    "doctor": Command("doctor", "check for required and optional tools, and say how to get them"),
    "fetch": Command("fetch", "fetch and verify the pinned source trees"),
}
