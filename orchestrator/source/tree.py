"""The identity of a source tree: one digest over the files that we compile from.

A git checkout with submodules and a distribution's archive of the same version hold different
files, yet the same source. `TreeRules` names, as data, the files that count; only these are hashed,
and only these are installed into the cache, so a unit that reads any other file fails at once
instead of differing from machine to machine.

The digest is what `sha256sum` would print for the files in the order of their paths (bytewise),
hashed once more:

    LC_ALL=C sort -z paths | xargs -0 sha256sum | sha256sum
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError
from orchestrator.system.reading import file_sha256

_NO_LINE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


class TreeEmptyError(OrchestratorError):
    """No file in the folder counts: it is not the source tree that was expected."""


class TreeLinkError(OrchestratorError):
    """A symbolic link, pipe or device where a file or folder that counts should be."""


class TreeNameError(OrchestratorError):
    """The name of a file that counts is not one line of UTF-8."""


@dataclass(frozen=True)
class TreeRules:
    """Rules that select files: those that match a glob of `include` and none of `exclude`.

    Globs are relative, with `/`. `*` and `?` stay inside one name, `**` spans any number of
    folders, none included.

    flat: Debian's archive of the tree has no folder at its top; others' may have one.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    flat: bool = False

    @cached_property
    def _included(self) -> re.Pattern[str]:
        return _union(self.include)

    @cached_property
    def _excluded(self) -> re.Pattern[str]:
        return _union(self.exclude)

    def counts(self, path: str) -> bool:
        """True if the file at `path` (relative, with `/`) is selected."""
        return bool(self._included.fullmatch(path)) and not self._excluded.fullmatch(path)

    def folders(self) -> tuple[str, ...]:
        """The folders to walk, none inside another; `""` is the root with all below it."""
        heads = {_head(glob) for glob in self.include if "/" in glob or glob == "**"}
        if "" in heads:
            return ("",)
        return tuple(sorted(h for h in heads if not any(h.startswith(o + "/") for o in heads)))


def tree_files(root: Path, rules: TreeRules) -> tuple[str, ...]:
    """The files that count, relative to `root`, sorted.

    Raises `TreeEmptyError`, `TreeLinkError`, `TreeNameError`.
    """
    found = tuple(sorted(path for path in _walk(root, rules) if rules.counts(path)))
    if not found:
        raise TreeEmptyError(
            "this folder is not the expected source tree",
            expected="files such as " + ", ".join(rules.include[:3]),
            seen=f"none of them in {root}",
            hint="name the root of its checkout or of its unpacked archive",
        )
    return found


def tree_digest(root: Path, rules: TreeRules) -> str:
    """The tree's digest, 64 hexadecimal digits. Raises what `tree_files` raises."""
    return digest_files(root, tree_files(root, rules))


def digest_files(root: Path, files: Iterable[str]) -> str:
    """The digest of `files` (relative to `root`, sorted)."""
    return digest_of({path: file_sha256(root / path) for path in files})


def digest_of(files: Mapping[str, str]) -> str:
    """The digest of files whose own are known. files: path -> sha256, sorted by path"""
    lines = "".join(f"{sha256}  {path}\n" for path, sha256 in files.items())
    return hashlib.sha256(lines.encode()).hexdigest()


def _walk(root: Path, rules: TreeRules) -> Iterator[str]:
    folders = rules.folders()
    if "" not in folders and root.is_dir():
        yield from _counting(root, "", [entry.name for entry in root.iterdir()], rules)
    for folder in folders:
        _refuse_link(root, folder)
        for here, inner, files in os.walk(root / folder):
            inside = Path(here).relative_to(root).as_posix() + "/"
            inside = "" if inside == "./" else inside
            for name in inner:
                _refuse_link(root, inside + name)
            yield from _counting(root, inside, files, rules)


def _counting(root: Path, inside: str, names: Iterable[str], rules: TreeRules) -> Iterator[str]:
    for name in names:
        path = inside + name
        if rules.counts(path) and _is_file(root, path):
            _refuse_name(root, path)
            yield path


def _is_file(root: Path, path: str) -> bool:
    """True for a plain file, False for a folder. Raises TreeLinkError for anything else."""
    place = f"{root}/{path}"
    # one call for each of thousands of files, and no Path
    mode = os.lstat(place).st_mode
    if stat.S_ISREG(mode):
        return True
    if os.path.isdir(place):  # noqa: PTH112
        return False
    _refuse_link(root, path)
    raise TreeLinkError(
        "the source tree contains a pipe, socket or device",
        expected=f"a file at {path}",
        hint="use a checkout or archive with plain files in these folders",
    )


def _refuse_name(root: Path, path: str) -> None:
    """The digest is over lines of text, and so are the lists of units and ninja's file."""
    if _NO_LINE.search(path):
        raise TreeNameError(
            "a file name in the source tree is not a single line of UTF-8",
            seen=f"{os.fsencode(path)!r} in {root}",
            hint="remove the file, or use a checkout or archive without it",
        )


def _refuse_link(root: Path, path: str) -> None:
    if path and (root / path).is_symlink():
        raise TreeLinkError(
            "the source tree contains a symbolic link",
            expected=f"a file or folder at {path}",
            seen=f"a link to {(root / path).readlink()}",
            hint="use a checkout or archive without links in these folders",
        )


def _head(glob: str) -> str:
    """The folders in front of the first wildcard: `a/b` for `a/b/**/*.h`, `a` for `a/file`."""
    names = glob.split("/")[:-1]
    plain = []
    for name in names:
        if re.search(r"[*?]", name):
            break
        plain.append(name)
    return "/".join(plain)


def _union(globs: tuple[str, ...]) -> re.Pattern[str]:
    if not globs:
        return re.compile(r"(?!)")
    return re.compile("|".join(f"(?:{_regex(glob)})" for glob in globs))


def _regex(glob: str) -> str:
    names = glob.split("/")
    parts = []
    for index, name in enumerate(names):
        last = index == len(names) - 1
        if name == "**":
            parts.append(".*" if last else "(?:[^/]+/)*")
        else:
            text = "".join({"*": "[^/]*", "?": "[^/]"}.get(c, re.escape(c)) for c in name)
            parts.append(text if last else text + "/")
    return "".join(parts)
