"""Queries git about a working tree: its commits, the files of one, and what changed since.

Only `git` itself is run, never interactive and without taking locks. Lists are read with `-z`,
so that no path needs quoting; paths are relative to the queried folder, with `/`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError
from orchestrator.system.process import LOCAL, Command, CommandRunner, Finished

SECONDS: Final = 300
# Bytes that are asked for at once; models are among a commit's files.
BATCH: Final = 32 * 2**20


class GitMissingError(OrchestratorError):
    """git is not installed."""


class NotAGitTreeError(OrchestratorError):
    """A folder is not inside a git working tree."""


class ForeignTreeError(OrchestratorError):
    """git refuses a working tree that belongs to another user."""


class UnknownRevisionError(OrchestratorError):
    """The repository has no such commit."""


class GitFailedError(OrchestratorError):
    """A git command failed unexpectedly."""


@dataclass(frozen=True)
class GitTree:
    """A folder inside a git working tree; `top` is the tree's root."""

    folder: Path
    top: Path
    env: Mapping[str, str]
    runner: CommandRunner = LOCAL

    def commit(self, revision: str) -> str:
        """The full name of the commit that a revision means. Raises UnknownRevisionError."""
        found = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{}")
        if found.code == 0:
            commit = found.stdout.decode().strip()
            # a full name is taken as it is, whether there is such a commit or not
            if self._run("cat-file", "-e", commit + "^{commit}").code == 0:
                return commit
        shallow = self._run("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        raise UnknownRevisionError(
            f"git has no commit `{revision}`",
            seen="a shallow clone, without its full history" if shallow else None,
            hint=(
                "fetch it: `git fetch --unshallow`; in GitHub Actions `fetch-depth: 0`,"
                " in GitLab `GIT_DEPTH: 0`"
                if shallow
                else "check its spelling, or fetch it first"
            ),
        )

    def common(self, commit: str) -> str:
        """The last commit that a commit and the tree's own history share; where they share none, or
        it was not fetched, the commit itself."""
        found = self._run("merge-base", commit, "HEAD")
        return found.stdout.decode().strip() if found.code == 0 else commit

    def commits(self, path: str, most: int) -> list[tuple[str, str]]:
        """The last commits that changed a path, oldest first: full name and date, `YYYY-MM-DD`.
        None before the first commit."""
        if self._run("rev-parse", "--verify", "--quiet", "HEAD").code:
            return []
        listed = self._read("log", f"--max-count={most}", "--format=%H %cs", "-z", "--", path)
        return [(name, date) for name, _, date in (one.partition(" ") for one in _split(listed))][
            ::-1
        ]

    def files(self, commit: str, *paths: str) -> dict[str, str]:
        """path -> blob, of the folder's files in a commit; of `paths` alone where given."""
        listed = self._read("ls-tree", "-r", "-z", commit, *paths)
        found = {}
        for entry in _split(listed):
            facts, _, path = entry.partition("\t")
            _, kind, blob = facts.split(" ")
            if kind == "blob":
                found[path] = blob
        return found

    def contents(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """blob -> its bytes."""
        names = sorted(set(blobs))
        answer = self._read("cat-file", "--batch", given="".join(f"{n}\n" for n in names).encode())
        found, at = {}, 0
        for name in names:
            end = answer.index(b"\n", at)
            size = int(answer[at:end].split(b" ")[2])
            found[name] = answer[end + 1 : end + 1 + size]
            at = end + 1 + size + 1
        return found

    def in_batches(self, blobs: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield blobs and their bytes, of which no more than a batch is in memory, or one blob."""
        names = sorted(set(blobs))
        listed = "".join(f"{name}\n" for name in names).encode()
        asked = self._read("cat-file", "--batch-check=%(objectsize)", given=listed)
        batch, size = list[str](), 0
        for name, own in zip(names, map(int, asked.split()), strict=True):
            if batch and size + own > BATCH:
                yield from self.contents(batch).items()
                batch, size = [], 0
            batch.append(name)
            size += own
        if batch:
            yield from self.contents(batch).items()

    def changed(self, commit: str, folder: Path | None = None) -> frozenset[str]:
        """The paths under the folder, or under another of the tree's, that differ from a commit.

        What is not committed counts, and so do files that git does not know yet, unless ignored.
        """
        where = self.folder if folder is None else folder
        diff = ("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--relative")
        tracked = self._read(*diff, commit, "--", ".", cwd=where)
        others = ("ls-files", "-z", "--others", "--exclude-standard", "--", ".")
        return frozenset((*_split(tracked), *_split(self._read(*others, cwd=where))))

    def _read(self, *words: str, cwd: Path | None = None, given: bytes = b"") -> bytes:
        done = self._run(*words, cwd=cwd, given=given)
        if done.code:
            raise GitFailedError(
                f"git {words[0]} failed",
                details=done.err,
            )
        return done.stdout

    def _run(self, *words: str, cwd: Path | None = None, given: bytes = b"") -> Finished:
        return _git(words, cwd or self.folder, self.env, self.runner, given)


def git_tree(folder: Path, env: Mapping[str, str], runner: CommandRunner = LOCAL) -> GitTree:
    """The working tree around a folder.

    Raises GitMissingError, NotAGitTreeError, ForeignTreeError.
    """
    done = _git(("rev-parse", "--show-toplevel"), folder, env, runner)
    if done.code:
        said = done.err
        if "dubious ownership" in said:
            raise ForeignTreeError(
                "git refuses this workspace's working tree: it belongs to another user",
                seen=str(folder),
                hint="trust it: `git config --global --add safe.directory"
                f" {_named_by_git(said) or folder}`",
            )
        raise NotAGitTreeError(
            "this workspace is not in a git working tree",
            seen=str(folder),
            hint="run it in a clone of the repository",
            details=None if "not a git repository" in said else said,
        )
    return GitTree(folder, Path(os.fsdecode(done.stdout.removesuffix(b"\n"))), env, runner)


def _named_by_git(said: str) -> str:
    """The folder that git's own advice names, as a shell reads it."""
    return said.rpartition("safe.directory ")[2].strip() if "safe.directory " in said else ""


def _git(
    words: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    runner: CommandRunner,
    given: bytes = b"",
) -> Finished:
    quiet = {**env, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        return runner.run(
            Command(["git", "--literal-pathspecs", *words], quiet, cwd, SECONDS, given)
        )
    except FileNotFoundError:
        raise GitMissingError(
            "git is not installed", hint="install it (Debian: apt-get install git)"
        ) from None


def _split(text: bytes) -> list[str]:
    return [os.fsdecode(part) for part in text.split(b"\0") if part]
