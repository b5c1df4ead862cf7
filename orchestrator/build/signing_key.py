"""The key that WORKSPACE signs packages with: `signing: {minisign: $VARIABLE or path}`."""

from __future__ import annotations

from pathlib import Path

from orchestrator.build.session import Session
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.workspace import FILE, expand
from orchestrator.packagers.minisign import SigningKey, open_key


class SigningKeyInWorkspaceError(OrchestratorError):
    """The secret key is in the workspace, where it could be committed."""


def check_signing(session: Session) -> None:
    """Say where packages will not be signed though a key is declared; raises as `signing_key`."""
    declared = session.workspace.config.signing
    if declared is not None and signing_key(session) is None:
        session.log(f"packages are not signed: {declared.minisign} names a variable that is unset")


def signing_key(session: Session) -> SigningKey | None:
    """The declared key; None where none is declared, or a variable in its path is unset.

    Raises `SigningKeyInWorkspaceError`, `SigningKeyUnreadableError`, `SigningKeyDamagedError`.
    """
    path = _key_file(session)
    if path is None:
        return None
    if path.resolve().is_relative_to(session.context.root.resolve()):
        raise SigningKeyInWorkspaceError(
            "the signing key is in the workspace",
            place=Place(FILE),
            expected="a file outside of it, so that nobody commits it",
            seen=str(path),
            hint="move it, or name a variable with its path: `minisign: $SIGNING_KEY`",
        )
    return open_key(path, Place(FILE), session.context.signing_password)


def key_files(session: Session) -> tuple[Path, ...]:
    """The declared signing key's path, whether or not the file exists; empty if WORKSPACE declares
    none."""
    path = _key_file(session)
    return () if path is None else (path,)


def _key_file(session: Session) -> Path | None:
    declared = session.workspace.config.signing
    if declared is None:
        return None
    return expand(declared.minisign, session.context.root, session.context.env)
