"""Which files of PyTorch the units read, and which of them tell that they are somebody else's."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template

from core_toy import session

from orchestrator.pytorch.dialects import load_version
from orchestrator.pytorch.units import runtime_units
from orchestrator.pytorch.v1_13.dialect import DIALECT

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
_NOTICE = re.compile(
    r"copyright (\(c\)|©|michael|malte|20)|SPDX-License-Identifier|\bBoost Software License"
    r"|University of Illinois|taken from\s*(//|\*)?\s*http|copied from http|MIT licensed",
    re.IGNORECASE,
)
# PyTorch's own, whose licence is PyTorch's.
_OWN = re.compile(
    r"copyright (\(c\)|©) .*(facebook|meta platforms)|copyright 2004-present", re.IGNORECASE
)


def readers(path: str) -> frozenset[str]:
    """The units that may read a file of the tree, or are it."""
    reached = _closure(_tree() / path, lambda one: _users().get(one, ()))
    return frozenset(unit for unit, file in _units().items() if file in reached)


def files() -> Sequence[str]:
    """The files of the tree that units may read, and the units themselves."""
    top = f"{_tree()}/"
    return sorted(str(path).removeprefix(top) for path in _graph() if str(path).startswith(top))


def noticed() -> Iterator[str]:
    """Those that bear another's notice."""
    for path in files():
        text = (_tree() / path).read_text(encoding="utf-8", errors="replace")
        if _NOTICE.search(_OWN.sub("", text)):
            yield path


@cache
def _folders() -> Mapping[str, str]:
    return session().runtime.folders


def _tree() -> Path:
    return Path(_folders()["tree"])


@cache
def _units() -> Mapping[str, Path]:
    tree, written = _tree(), Path(_folders()["generated"], "ATen")
    return {
        unit.path: written / unit.path.removeprefix("generated/")
        if unit.generated
        else tree / unit.path
        for unit in runtime_units(tree, load_version("1.13.1"))
    }


@cache
def _graph() -> Mapping[Path, frozenset[Path]]:
    """File -> the files that it includes, whatever the preprocessor would leave out."""
    found: dict[Path, frozenset[Path]] = {}
    waiting = list(_units().values())
    while waiting:
        path = waiting.pop()
        if path not in found and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            names = _INCLUDE.findall(text)
            found[path] = frozenset(filter(None, (_resolved(path.parent, n) for n in names)))
            waiting += found[path]
    return found


@cache
def _users() -> Mapping[Path, Sequence[Path]]:
    users: dict[Path, list[Path]] = {}
    for path, read in _graph().items():
        for other in read:
            users.setdefault(other, []).append(path)
    return users


def _closure(path: Path, step: Callable[[Path], Iterable[Path]]) -> set[Path]:
    seen, waiting = {path}, [path]
    while waiting:
        new = set(step(waiting.pop())) - seen
        seen |= new
        waiting += new
    return seen


@cache
def _resolved(beside: Path, name: str) -> Path | None:
    for folder in (beside, *_searched()):
        path = Path(os.path.normpath(folder / name))
        if path.is_file():
            return path
    return None


@cache
def _searched() -> Sequence[Path]:
    return [Path(Template(folder).substitute(_folders())) for folder in DIALECT.flags.include]
