"""The key that WORKSPACE signs packages with: `signing: {minisign: $VARIABLE or path}`."""

from __future__ import annotations

from pathlib import Path

from orchestrator.build.workshop.invocation import Invocation
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.workspace import FILE, expand
from orchestrator.packagers.minisign import SigningKey, open_key


class SigningKeyInWorkspaceError(OrchestratorError):
    """The secret key is in the workspace, where it could be committed."""


def check_signing(here: Invocation) -> None:
    """Say where packages will not be signed though a key is declared; raises as `signing_key`."""
    declared = here.workspace.config.signing
    if declared is not None and signing_key(here) is None:
        here.log(f"packages are not signed: {declared.minisign} names a variable that is unset")


def signing_key(here: Invocation) -> SigningKey | None:
    """The declared key; None where none is declared, or a variable in its path is unset.

    Raises `SigningKeyInWorkspaceError`, `SigningKeyUnreadableError`, `SigningKeyDamagedError`.
    """
    path = _key_file(here)
    if path is None:
        return None
    if path.resolve().is_relative_to(here.context.root.resolve()):
        raise SigningKeyInWorkspaceError(
            "the signing key is in the workspace",
            place=Place(FILE),
            expected="a file outside of it, so that nobody commits it",
            seen=str(path),
            hint="move it, or name a variable with its path: `minisign: $SIGNING_KEY`",
        )
    return open_key(path, Place(FILE), here.context.signing_password)


def key_files(here: Invocation) -> tuple[Path, ...]:
    """The declared signing key's path, whether or not the file exists; empty if WORKSPACE declares
    none."""
    path = _key_file(here)
    return () if path is None else (path,)


def _key_file(here: Invocation) -> Path | None:
    declared = here.workspace.config.signing
    if declared is None:
        return None
    return expand(declared.minisign, here.context.root, here.context.env)
