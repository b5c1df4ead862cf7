"""Signs texts with a minisign secret key: a file that `minisign -G` wrote.

Contract: the key file is read when the key is opened; its password is used only when a text is
signed, which takes a second and, with minisign's parameters (libsodium's `SENSITIVE`), 1 GB of
memory. The same text, comment and key give the same bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import minisign

from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.environment import SIGNING_PASSWORD

# A key file has two lines of less than 300 bytes.
_MOST_BYTES: Final = 4096


class SigningKeyUnreadableError(OrchestratorError):
    """The signing key does not exist or cannot be read."""


class SigningKeyDamagedError(OrchestratorError):
    """The file for the signing key is not a minisign secret key."""


class SigningKeyLockedError(OrchestratorError):
    """The signing key has a password, which is not given, or a wrong one."""


@dataclass(frozen=True)
class SigningKey:
    """A secret key, possibly encrypted: its file, where it is declared, its password."""

    path: Path
    place: Place
    content: bytes = field(repr=False)
    password: str | None = field(repr=False)

    @property
    def digest(self) -> str:
        """Tells one key file from another; sha256."""
        return hashlib.sha256(self.content).hexdigest()

    def sign(self, text: bytes, comment: str) -> bytes:
        """A signature file's content; `comment` is trusted (printable ASCII).

        Raises `SigningKeyLockedError`, `SigningKeyDamagedError`.
        """
        with minisign.SecretKey.from_bytes(self.content) as key:
            if key.is_encrypted():
                self._unlock(key)
            signature = key.sign(text, trusted_comment=comment)
            try:
                # one without a password is not checked when it is read
                key.get_public_key().verify(text, signature)
            except minisign.VerifyError as cause:
                raise _damaged(self.path, self.place, "an inconsistent key") from cause
        return bytes(signature) + b"\n"

    def _unlock(self, key: minisign.SecretKey) -> None:
        if self.password is None:
            raise self._locked(f"{SIGNING_PASSWORD} is not set")
        try:
            key.decrypt(self.password)
        except MemoryError as cause:
            raise self._locked("not enough memory: minisign needs 1 GB to decrypt a key") from cause
        except ValueError as cause:
            raise self._locked(f"{SIGNING_PASSWORD}: {cause}") from cause

    def _locked(self, seen: str) -> SigningKeyLockedError:
        return SigningKeyLockedError(
            f"the signing key {self.path} cannot be unlocked",
            place=self.place,
            expected=f"its password in the environment variable {SIGNING_PASSWORD}",
            seen=seen,
            hint="the packages are made, but SHA256SUMS is not signed; set it and build again",
        )


def open_key(path: Path, place: Place, password: str | None) -> SigningKey:
    """Read a secret key; `place` is where it is declared.

    Raises `SigningKeyUnreadableError`, `SigningKeyDamagedError`.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as cause:
        raise SigningKeyUnreadableError(
            f"the signing key {path} cannot be read",
            place=place,
            expected="a minisign secret key",
            seen=cause.strerror or str(cause),
            hint="write one with `minisign -G -s FILE -p PUBLIC_FILE`, or remove `signing`",
        ) from cause
    try:
        if len(content) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        minisign.SecretKey.from_bytes(content).wipe()
    except ValueError as cause:
        raise _damaged(path, place, str(cause)) from cause
    return SigningKey(path, place, content, password)


def _damaged(path: Path, place: Place, seen: str) -> SigningKeyDamagedError:
    return SigningKeyDamagedError(
        f"{path} is not a minisign secret key",
        place=place,
        expected="the two lines that `minisign -G` writes into its -s file",
        seen=seen,
        hint="name the secret key's file, not the public one's; restore it if it was changed",
    )
