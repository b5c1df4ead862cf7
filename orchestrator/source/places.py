"""The sources of a source tree: a path, an archive by its URL, a Debian source package, a git
remote.

Each copies the files that count into a staging folder. A source that is not available on this
machine raises `SourceUnavailableError`; one with unusable contents raises an `OrchestratorError`.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.context import Context
from orchestrator.load.workspace import expand
from orchestrator.source.apt import AptClient
from orchestrator.source.download import download, shown
from orchestrator.source.git_clone import clone
from orchestrator.source.members import ArchiveBrokenError
from orchestrator.source.tree import TreeRules, tree_files
from orchestrator.source.unpack import unpack
from orchestrator.system.process import SourceUnavailableError
from orchestrator.values.config.workspace import ArchiveSource, DebianSource, GitSource, Source


def source_name(source: Source) -> str:
    """A short description of a source, such as `debian pytorch_1.13.1+dfsg.orig.tar.xz`."""
    if source.git:
        return f"git {source.git.remote} {source.git.tag}"
    if source.debian:
        return f"debian {source.debian.archive}"
    if source.archive:
        return f"archive {shown(source.archive.url)}"
    return f"path {source.path}"


@dataclass(frozen=True)
class SourceFetcher:
    """Gets trees from sources; `staging` is a folder on the cache's disk that is removed
    afterwards."""

    context: Context
    staging: Path
    apt: AptClient
    progress: Callable[[str], None]

    def fetch(self, source: Source, staged: Path, rules: TreeRules) -> None:
        """Put the files of `source` that count into the empty folder `staged`, unverified.

        Raises `SourceUnavailableError`, and the errors of `tree.py`, `archive.py`, `download.py`
        and `apt.py`.
        """
        if source.git:
            self._git(source.git, staged, rules)
        elif source.debian:
            self._debian(source.debian, staged, rules)
        elif source.archive:
            self._archive(source.archive, staged, rules)
        else:
            assert source.path
            self._path(source.path, staged, rules)

    def _path(self, text: str, staged: Path, rules: TreeRules) -> None:
        place = expand(text, self.context.root, self.context.env)
        if place is None:
            raise SourceUnavailableError("it uses an unset variable")
        try:
            if place.is_dir():
                _copy(place, staged, rules)
            elif place.is_file():
                _unpack(place, staged, rules)
            else:
                raise SourceUnavailableError(f"{place} does not exist")
        except PermissionError as error:
            if str(error.filename).startswith(str(self.staging)):
                raise
            raise SourceUnavailableError(f"{error.filename} is not readable") from error
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG or error.filename != str(place):
                raise
            raise SourceUnavailableError("the path is too long") from error

    def _debian(self, source: DebianSource, staged: Path, rules: TreeRules) -> None:
        archive = self.apt.download(source)
        self.progress(f"unpacking {archive.name}")
        _unpack(archive, staged, rules)
        archive.unlink()

    def _archive(self, source: ArchiveSource, staged: Path, rules: TreeRules) -> None:
        archive = download(source, self.staging, self.context.env, self.progress)
        self.progress(f"unpacking {shown(source.url)}")
        _unpack(archive, staged, rules)
        archive.unlink()

    def _git(self, source: GitSource, staged: Path, rules: TreeRules) -> None:
        checkout = staged.with_name(staged.name + ".git")
        context = self.context
        clone(source, checkout, context.root, context.env, self.progress, context.runner)
        _copy(checkout, staged, rules)
        shutil.rmtree(checkout)


def _unpack(archive: Path, staged: Path, rules: TreeRules) -> None:
    """Unpack what counts. Of a tree whose own archive is flat, another's may have a folder at its
    top, as those that git hosts make of a commit: there nothing counts at first."""
    unpack(archive, staged, rules.counts, flat=rules.flat)
    if rules.flat and not any(staged.iterdir()):
        # it could be read: all that may be wrong now is that it has no such folder
        with suppress(ArchiveBrokenError):
            unpack(archive, staged, rules.counts)


def _copy(tree: Path, into: Path, rules: TreeRules) -> None:
    for path in tree_files(tree, rules):
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree / path, into / path)
