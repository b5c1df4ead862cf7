"""`SHA256SUMS` of an app's packages, as coreutils' `sha256sum` checks it, and its signature.

Contract: it lists all of our packages in the folder, sorted, and each file of a package that is a
folder, so that equal packages have an equal list. Like our other package files, it is not replaced
if somebody changed it. While packages are being replaced it still lists the old ones, so a check in
between fails; the next build repairs it.

The signature is minisign's (jedisct1.github.io/minisign, "Signature format"), over the list's
BLAKE2b digest. It covers the trusted comment, which names the list's package and version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from orchestrator.deliver.files import files_below, sha256_of, write_package
from orchestrator.deliver.record import claim_packages, our_packages
from orchestrator.packagers.minisign import SigningKey
from orchestrator.system.folders import MARKER

SUMS: Final = "SHA256SUMS"
SIGNATURE: Final = f"{SUMS}.minisig"
# What the record says that both are of.
SLOT: Final = "sums"
_HINT: Final = "move it away, and build again"


def write_sums(folder: Path, key: SigningKey | None, comment: str) -> bool:
    """Bring the list and its signature up to date; returns whether anything was written.

    Without packages of ours there is no list, without a key no signature. Raises
    `ForeignFileError`, `UnwritableError`, and what `SigningKey.sign` raises.
    """
    text = sums_text(folder).encode()
    names = []
    written = False
    if text:
        names.append(SUMS)
        made_of = hashlib.sha256(text).hexdigest()
        written = write_package(folder / SUMS, made_of, lambda f: f.write(text), hint=_HINT)
        if key is not None:
            names.append(SIGNATURE)
            signed = f"minisign {made_of} {key.digest} {comment}"
            written |= write_package(
                folder / SIGNATURE, signed, lambda f: f.write(key.sign(text, comment)), hint=_HINT
            )
    return bool(claim_packages(folder, SLOT, names)) or written


def sums_text(folder: Path) -> str:
    """The list's text; empty without packages of ours."""
    names = [
        name
        for package in our_packages(folder)
        if package not in (SUMS, SIGNATURE)
        for name in files_of(folder, package)
    ]
    return "".join(f"{sha256_of(folder / name)}  {name}\n" for name in sorted(names))


def files_of(folder: Path, package: str) -> Iterator[str]:
    """The names that the list has for a package: its own, or those of a folder's files."""
    if not (folder / package).is_dir():
        yield package
        return
    yield from (f"{package}/{name}" for name in files_below(folder / package) if name != MARKER)
