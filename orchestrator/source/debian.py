"""Debian binary packages unpacked into a folder of ours: programs without root, or of another ABI.

Contract: the folder holds the packages' files as they would lie below `/`, and `.packages.json`,
which says what was unpacked. It appears atomically and once: a lock file next to it keeps two
processes from doing the same work, and the next process removes what an interrupted one left.
Packages come through the machine's apt client, which verifies them by the signed indexes of the
machine's own mirrors. No script of a package is run. Dependencies are not followed: callers name
all packages, since the dependencies would bring a complete system.
"""

from __future__ import annotations

import errno
import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError
from orchestrator.source.apt import DOWNLOAD_SECONDS, PrivateApt, update_fault
from orchestrator.system.locks import file_lock
from orchestrator.system.process import LOCAL, Command, CommandRunner, SourceUnavailableError
from orchestrator.system.reading import read_json
from orchestrator.system.staging import sync_tree

MARKER: Final = ".packages.json"
UNPACK_SECONDS: Final = 300

Progress = Callable[[str], None]


class PackagesUnavailableError(OrchestratorError):
    """This machine's apt client cannot provide the binary packages."""


def binary_packages(
    names: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    progress: Progress,
    runner: CommandRunner = LOCAL,
) -> Path:
    """Unpack packages (`name`, or `name:architecture`) below `folder`, unless they are there.

    A folder that holds other packages of ours is replaced. Returns `folder`. Raises
    `PackagesUnavailableError`, `LocksUnsupportedError`, and the disk's `OSError`.
    """
    wanted = sorted(set(names))
    if _unpacked(folder) == wanted:
        return folder
    with file_lock(
        folder.with_name(f".{folder.name}.lock"),
        lambda _: progress(f"another process is fetching {folder.name}; waiting for it"),
        before=lambda: folder.parent.mkdir(parents=True, exist_ok=True),
    ):
        # another process may have fetched them while we waited for the lock
        if _unpacked(folder) != wanted:
            with _staging(folder) as staging:
                try:
                    _fetch(wanted, folder, staging, env, progress, runner)
                except SourceUnavailableError as reason:
                    raise _unavailable(wanted, str(reason)) from reason
    return folder


class BinaryClient(PrivateApt):
    """Gets binary packages, of this machine's architecture and of those that are named."""

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str],
        architectures: Sequence[str],
        progress: Progress,
        runner: CommandRunner = LOCAL,
    ) -> None:
        super().__init__(folder, env, "deb", (), progress, runner)
        native = self._config(NATIVE="APT::Architecture")["NATIVE"]
        self._architectures = tuple(dict.fromkeys((native, *architectures)))

    def download(self, names: Sequence[str]) -> tuple[Path, ...]:
        """The packages' archives, in this client's folder. Raises `SourceUnavailableError`."""
        update = self._update()
        self._progress(f"apt: downloading {', '.join(names)}")
        argv = ["apt-get", *self._options(), "download", "--", *names]
        done = self._run(argv, DOWNLOAD_SECONDS)
        archives = tuple(sorted(self._folder.glob("*.deb")))
        if done.code != 0 or len(archives) < len(names):
            raise SourceUnavailableError(f"apt-get download: {done.reason()}{update_fault(update)}")
        return archives

    def _options(self) -> list[str]:
        # instead of the machine's list, which has what dpkg was told to install
        words = (("-o", f"APT::Architectures::={name}") for name in self._architectures)
        return [*super()._options(), *(word for pair in words for word in pair)]


def _fetch(
    wanted: Sequence[str],
    folder: Path,
    staging: Path,
    env: Mapping[str, str],
    progress: Progress,
    runner: CommandRunner,
) -> None:
    """Put the packages together in `staging`, and then at once in their place."""
    client, root = staging / "apt", staging / "root"
    client.mkdir()
    root.mkdir()
    foreign = sorted({name.partition(":")[2] for name in wanted} - {"", "all", "any", "native"})
    archives = BinaryClient(client, env, foreign, progress, runner).download(wanted)
    for archive in archives:
        _unpack(archive, root, env, runner)
    text = {"packages": wanted, "archives": [archive.name for archive in archives]}
    (root / MARKER).write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
    # after a power loss the marker must not stand beside empty files
    sync_tree(root)
    if folder.exists():
        if _unpacked(folder) is None and any(folder.iterdir()):
            raise PackagesUnavailableError(
                "packages would be unpacked over existing files",
                seen=str(folder),
                hint="remove that folder",
            )
        folder.rename(staging / "old")
    root.rename(folder)


def _unpack(archive: Path, root: Path, env: Mapping[str, str], runner: CommandRunner) -> None:
    try:
        argv = ["dpkg-deb", "--extract", str(archive), str(root)]
        done = runner.run(Command(argv, env, root, UNPACK_SECONDS))
    except FileNotFoundError:
        raise SourceUnavailableError("dpkg-deb is not installed") from None
    if done.code != 0:
        raise SourceUnavailableError(f"dpkg-deb --extract {archive.name}: {done.reason()}")


def _unpacked(folder: Path) -> list[str] | None:
    """The packages that the folder holds; None where it is not there, or not ours."""
    try:
        packages = read_json(folder / MARKER)["packages"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return packages if isinstance(packages, list) else None


def _unavailable(wanted: Sequence[str], reason: str) -> OrchestratorError | OSError:
    if "No space left on device" in reason:
        return OSError(errno.ENOSPC, reason)
    return PackagesUnavailableError(
        f"apt cannot provide Debian packages here: {', '.join(wanted)}",
        seen=reason,
        hint=f"install them yourself: apt-get install {' '.join(wanted)}",
    )


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """A folder for what is not whole yet. Under the lock, any other such folder is stale."""
    for stale in folder.parent.glob(f".{folder.name}.staging-*"):
        shutil.rmtree(stale)
    staging = folder.with_name(f".{folder.name}.staging-{secrets.token_hex(8)}")
    staging.mkdir()
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
