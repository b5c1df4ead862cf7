"""`--runtime`: the pinned runtime that a maintainer's verb works on."""

from __future__ import annotations

import argparse

from orchestrator.build.session import RuntimeSession, Session
from orchestrator.load.checks import unknown_runtime


def add_runtime(parser: argparse.ArgumentParser) -> None:
    """Add --runtime."""
    parser.add_argument(
        "--runtime",
        metavar="NAME",
        help="a name under `runtimes` in WORKSPACE; default: its default",
    )


def chosen(session: Session, name: str | None) -> RuntimeSession:
    """The session with the named runtime. Raises UnknownRuntimeError."""
    if name is None:
        return session.default
    pins = session.workspace.config.pins
    if name not in pins:
        raise unknown_runtime(name, pins)
    return session.on(name)
