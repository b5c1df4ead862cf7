"""`orchestrator completion`: prints a shell completion script."""

from __future__ import annotations

import argparse

import shtab

from orchestrator.commands import COMMANDS
from orchestrator.commands.patterns import warn_of_broken
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.load.workspace import load_workspace
from orchestrator.values.labels import AppLabel, VariantLabel

NAME = "completion"
HELP = """\
Prints a script for bash, zsh or tcsh that completes verbs, options and this workspace's labels.
The labels are those of today: print it again after adding an app."""
EXAMPLE = """\
./orchestrate completion bash > ~/.local/share/bash-completion/completions/orchestrate
./orchestrate completion zsh > ~/.zfunc/_orchestrate"""

# As users type it: shells look up the last part of a path.
_PROGRAM = "orchestrate"

# Labels contain colons, at which bash splits words.
_PREAMBLE = {"bash": "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help="the shell")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the script."""
    workspace = load_workspace(context.root, context.env)
    warn_of_broken(workspace, stderr_logger(arguments.quiet))
    labels = ["//..."]
    for app, abis in sorted(workspace.targets.items()):
        variants = (VariantLabel(app, abi) for abi in sorted(abis))
        labels += [str(AppLabel(app)), *map(str, variants)]
    print(shtab.complete(_whole_parser(labels), arguments.shell, preamble=_PREAMBLE), end="")
    return ExitCode.OK


def _whole_parser(labels: list[str]) -> argparse.ArgumentParser:
    """The command line as one parser, with the labels as choices."""
    parser = argparse.ArgumentParser(prog=_PROGRAM, allow_abbrev=False)
    verbs = parser.add_subparsers()  # shtab skips one without help
    for name in sorted(COMMANDS):
        module = COMMANDS[name].load()
        verb = verbs.add_parser(name, help=COMMANDS[name].help, allow_abbrev=False)
        module.add_arguments(verb)
        for action in verb._actions:
            if action.dest in ("patterns", "label"):
                action.choices = labels
    return parser
