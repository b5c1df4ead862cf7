"""What compilers read, as ninja logged it, against what the identities of their actions cover.

An identity covers single files by their digests, which `explain` lists, and some folders as wholes:

runtime    its source tree, which holds only files that count for its digest; what is generated and
           configured of it; the trees of its third-party libraries
library    the kernel library's trees
toolchain  zig's package, whose wheel lists all its files, and the headers of the stub sysroot; of
           other compilers the headers that they were asked for (`compilers/brought.py`)

What was not compiled in this checkout, since the cache had it, can be preprocessed instead
(`preprocessed`). The log is ninja's binary one, of format 4 (ninja's src/deps_log.cc): `ninja -t
deps` leaves out what the last build.ninja does not make.
"""

from __future__ import annotations

import os
import re
import shlex
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from orchestrator.build.explaining.action_details import Details, shared_details
from orchestrator.build.planning.plan import Variant, compiles_of
from orchestrator.build.planning.variants import identity_with_headers
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.native import own_native_files
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.compilers.driver import Driver
from orchestrator.compilers.stub_sysroot import HEADERS, NULL
from orchestrator.plan.native_files import variable_path
from orchestrator.values.action import (
    Compile,
    Precompile,
    precompiled_headers,
    projection_path,
    read_first,
)
from orchestrator.values.fingerprint import Identity, text_digest

# Output, as ninja names it -> the files that its command read.
Reads = Mapping[str, frozenset[str]]

_SIGNATURE: Final = b"# ninjadeps\n" + struct.pack("<I", 4)
# Words of a record: the output, the two halves of its time, the files.
_FILES: Final = 3
# Folders that the identity of a runtime has as wholes, by their variables.
_OF_RUNTIME: Final = frozenset({"tree", "generated", "configured"})
_THIRD_PARTY: Final = "third_party_"
_INCLUDED: Final = re.compile(r'^#include "(.*)"$', re.MULTILINE)


def logged_reads(log: Path) -> Reads:
    """The reads in a `.ninja_deps`, of each output's last run."""
    data = log.read_bytes()
    assert data.startswith(_SIGNATURE), "ninja's log of dependencies has another format"
    paths, reads, at = list[str](), dict[str, frozenset[str]](), len(_SIGNATURE)
    while at < len(data):
        (head,) = struct.unpack_from("<I", data, at)
        size, at = head & 0x7FFFFFFF, at + 4
        if head >> 31:
            words = struct.unpack_from(f"<{size // 4}I", data, at)
            reads[paths[words[0]]] = frozenset(paths[word] for word in words[_FILES:])
        else:
            paths.append(data[at : at + size - 4].rstrip(b"\0").decode())
        at += size
    return reads


def preprocessed(here: Invocation, runtime: Runtime, action: Compile) -> frozenset[str] | None:
    """The files that a unit reads, as its compiler's preprocessor tells; the header that would be
    precompiled is read as text. None where a generated text is not written."""
    # a compiler reads a precompiled header before all others
    header = [] if action.pch is None else ["-include", action.pch.source]
    projection = None if action.projection is None else projection_path(action.projection)
    first = read_first(None, projection, action.behind)
    if not all(Path(runtime.fill(file)).is_file() for _, file in (*first, ("", action.source))):
        return None
    tools = here.toolchains.of(action.abi).tools
    behind = (word for pair in first for word in pair)
    words = [*header, *action.flags, *behind, "-M", action.source]
    compiler = tools.cxx if action.language == "c++" else tools.cc
    argv = [str(compiler), *map(runtime.fill, words)]
    # zig names files below its folder relative to that
    folder, env = here.context.cache, {**tools.env}
    rule = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=True)
    # in make's words: a blank in a path stands behind a backslash
    words = shlex.split(rule.stdout.partition(": ")[2].replace("\\\n", " "))
    return frozenset(map(os.path.normpath, words))


@dataclass
class Covered:
    """The files and the folders that an identity covers."""

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def misses(self, read: frozenset[str]) -> Iterator[str]:
        """Yield what was read and is not covered."""
        # thousands of units read the same thousands of files
        key = tuple(sorted(f"{folder}/" for folder in self.folders))
        inside = _inside.setdefault(key, set())
        for path in read - inside - self.files:
            if path.startswith(key):
                inside.add(path)
            else:
                yield path


_inside: dict[tuple[str, ...], set[str]] = {}


@dataclass(frozen=True)
class Coverage:
    """What the identities of one runtime's actions cover.

    details  a digest among their parts -> the files that it is of, as `explain` has them
    drivers  the identity of a toolchain, as actions have it -> its compiler
    """

    runtime: Runtime
    details: Details
    drivers: Mapping[str, Driver]

    def of(self, action: Compile | Precompile, read: frozenset[str]) -> Covered:
        """What the identity of an action, which read these files, covers; with that of a unit's
        precompiled header."""
        if isinstance(action, Precompile):
            return self._of_parts(_texts_in(action.identity))
        parts = frozenset(_texts_in(action.identity))
        found = self._of_parts(parts)
        found.files |= {
            self._path(f"$cache/{kind}/{part}.{suffix}")
            for kind, suffix in (("projections", "h"), ("unity", "cpp"))
            for part in parts | {text_digest(part) for part in parts if "\n" in part}
        }
        found.folders |= {self._path(f"$cache/sources/{part}") for part in parts}
        if action.source.startswith("$cache/"):
            # two requests may have generated the same text, of which one was compiled
            name = action.source.rpartition("/")[2]
            for source in (file for file in read if file.endswith(f"/{name}")):
                found.files |= {str(file) for file in _generated(Path(source), parts)}
        if action.pch is not None and action.pch.fingerprint in parts:
            own = self.of(action.pch, read)
            found.files |= {*own.files, self._path(action.pch.output)}
            found.folders |= own.folders
        return found

    def _of_parts(self, parts: Iterable[str]) -> Covered:
        found, runtime = Covered(), self.runtime
        for part in parts:
            names = {*self.details.get(part, ())}
            if part == runtime.facts.identity:
                names |= {*_texts_in(runtime.parts["native"])}
                found.folders |= {
                    folder
                    for name, folder in runtime.own_folders.items()
                    if name in _OF_RUNTIME or name.startswith(_THIRD_PARTY)
                }
            if runtime.library is not None and part == runtime.library.facts.digest:
                found.folders |= {*map(str, runtime.library.trees.values())}
            if part in self.drivers:
                driver = self.drivers[part]
                found.files |= {*map(str, driver.brought)}
                found.folders |= set() if driver.zig is None else {str(Path(driver.zig).parent)}
                found.folders |= {str(HEADERS)} if driver.kind == "ndk-shim" else set()
                found.files |= {str(NULL)} if driver.kind == "ndk-shim" else set()
            found.files |= {
                self._path(variable_path(name)) for name in names & runtime.native.texts.keys()
            }
        return found

    def _path(self, path: str) -> str:
        return self.runtime.fill(path)


def _generated(source: Path, parts: frozenset[str]) -> tuple[Path, ...]:
    """The generated source and those that it includes, in order, if an identity has their digest.

    torchgen's have one over all of them with their names: see `codegen/registrations.py`.
    """
    text = source.read_text()
    files = (source, *(source.parent / name for name in _INCLUDED.findall(text)))
    if text_digest(text) in parts:
        return (source,)
    if not all(file.is_file() for file in files):
        return ()
    named = "".join(f"{file.name}\0{file.read_text()}\0" for file in files)
    return files if text_digest(named) in parts else ()


def _texts_in(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Identity):
        for one in part.parts.values():
            yield from _texts_in(one)
    elif isinstance(part, tuple | list | dict):
        for one in part:
            yield from _texts_in(one)


def coverage_of(here: Invocation, variant: Variant) -> Coverage:
    """What the identities of a variant's actions cover."""
    toolchain = here.toolchains.of(variant.label.abi)
    named = identity_with_headers(toolchain, own_native_files())
    details = shared_details(here, [variant.label.abi])
    return Coverage(here.runtimes.of(variant.label.app), details, {named: toolchain.driver})


def actions_of(variant: Variant) -> Mapping[str, Compile | Precompile]:
    """Every action of a variant whose command reads headers, by its output."""
    compiles = compiles_of(variant)
    return {**{one.object: one for one in compiles}, **precompiled_headers(compiles)}
