"""Which files of PyTorch the units read, and which of them tell that they are somebody else's."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from orchestrator.build.workshop.runtime import Runtime
from orchestrator.pytorch.units import runtime_units

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


class ReadFiles:
    """The files of a PyTorch that its units read."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.tree = runtime.fetched.tree

    def readers(self, path: str) -> frozenset[str]:
        """The units that may read a file of the tree, or are it."""
        reached = _closure(self.tree / path, lambda one: self._users.get(one, ()))
        return frozenset(unit for unit, file in self._units.items() if file in reached)

    @cached_property
    def files(self) -> Sequence[str]:
        """The files of the tree that units may read, and the units themselves."""
        top = f"{self.tree}/"
        return sorted(
            str(path).removeprefix(top) for path in self._graph if str(path).startswith(top)
        )

    def noticed(self) -> Iterator[str]:
        """Those that bear another's notice."""
        for path in self.files:
            text = (self.tree / path).read_text(encoding="utf-8", errors="replace")
            if _NOTICE.search(_OWN.sub("", text)):
                yield path

    @cached_property
    def _units(self) -> Mapping[str, Path]:
        written = Path(self._runtime.fill("$generated/ATen"))
        return {
            unit.path: written / unit.path.removeprefix("generated/")
            if unit.generated
            else self.tree / unit.path
            for unit in runtime_units(self.tree, self._runtime.version)
        }

    @cached_property
    def _graph(self) -> Mapping[Path, frozenset[Path]]:
        """File -> the files that it includes, whatever the preprocessor would leave out."""
        found: dict[Path, frozenset[Path]] = {}
        waiting = list(self._units.values())
        while waiting:
            path = waiting.pop()
            if path not in found and path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace")
                names = _INCLUDE.findall(text)
                resolved = (self._resolved(path.parent, name) for name in names)
                found[path] = frozenset(filter(None, resolved))
                waiting += found[path]
        return found

    @cached_property
    def _users(self) -> Mapping[Path, Sequence[Path]]:
        users: dict[Path, list[Path]] = {}
        for path, read in self._graph.items():
            for other in read:
                users.setdefault(other, []).append(path)
        return users

    def _resolved(self, beside: Path, name: str) -> Path | None:
        known = self._known
        for folder in (beside, *self._searched):
            if (folder, name) not in known:
                path = Path(os.path.normpath(folder / name))
                known[folder, name] = path if path.is_file() else None
            if known[folder, name] is not None:
                return known[folder, name]
        return None

    @cached_property
    def _known(self) -> dict[tuple[Path, str], Path | None]:
        return {}

    @cached_property
    def _searched(self) -> Sequence[Path]:
        include = self._runtime.dialect.flags.include
        return [Path(self._runtime.fill(folder)) for folder in include]


def _closure(path: Path, step: Callable[[Path], Iterable[Path]]) -> set[Path]:
    seen, waiting = {path}, [path]
    while waiting:
        new = set(step(waiting.pop())) - seen
        seen |= new
        waiting += new
    return seen
