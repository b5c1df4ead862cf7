"""Libraries that zig builds for itself and links again: compared with digests before each link.

zig builds the libraries that every program of a target needs (compiler-rt, libunwind, libc's static
part, start files) at the target's first link, into `o/<digest of its inputs>/` of its cache, and
never checks them again. A file that was damaged since would be linked, and a missing one ends the
link. So the digest of each is recorded at the end of a build, and if one differs, zig is made to
build them again: in another cache, if other builds may be using this one (`zig.leave_zig_cache`),
else in this one, which zig does once its manifests (`h/`) are gone.

zig fills `o/` in place. So nothing is recorded while any zig is at work in the cache, which its
locks on manifests show, nor any file younger than a minute.

Trap: files that zig builds again may have other bytes (`crt1.o` names the folder in which zig was
called). So a file that zig may have to build again is removed only together with all others.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from orchestrator.system.locks import is_held
from orchestrator.system.reading import read_json, readable_sha256
from orchestrator.system.staging import write_text

_NOTE: Final = "results.json"
_FORMAT: Final = 2
_RESULTS: Final = "o"
_MANIFESTS: Final = "h"
_LINKED: Final = ("*.a", "*.o")
# What zig makes `libcompiler_rt.a` of: nothing links it.
_INTERMEDIATE: Final = "_zcu.o"
# The name of an archive that LLVM (`writeToTempFile`) is writing, or was when it was killed.
_UNFINISHED: Final = ".temp-archive-"
_YOUNG_SECONDS: Final = 60


def damaged_results(folder: Path) -> tuple[str, ...]:
    """Paths below `folder` of the noted files that changed or are gone, sorted."""
    known = _read(folder)
    seen = _digests(folder, known)
    return tuple(sorted(name for name, digest in known.items() if seen.get(name) != digest))


def remove_results(folder: Path) -> None:
    """Remove zig's results and manifests from a cache that no zig uses now. Raises OSError."""
    # first: what is half removed is not noted
    _write(folder, {})
    for name in (_MANIFESTS, _RESULTS):
        with suppress(FileNotFoundError):
            shutil.rmtree(folder / name)


def note_results(folder: Path) -> None:
    """Note the digests of the files that zig has made since, and of which nothing is known."""
    known = _read(folder)
    if _at_work(folder):
        return
    there = frozenset(_linked_files(folder))
    made = _digests(folder, (name for name in there - known.keys() if _is_old(folder / name)))
    if _at_work(folder):
        return
    if made or not known.keys() <= there:
        # a cache that can only be read serves too
        with suppress(OSError):
            _write(folder, {**{name: known[name] for name in known if name in there}, **made})


def _at_work(folder: Path) -> bool:
    """True if a zig process is building: it holds its manifest's exclusive lock until it is done
    (lib/std/Build/Cache.zig, `Manifest.hit`)."""
    return any(is_held(manifest) for manifest in folder.glob(f"{_MANIFESTS}/*"))


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _YOUNG_SECONDS
    except OSError:
        return False


def _linked_files(folder: Path) -> Iterator[str]:
    for pattern in _LINKED:
        for path in folder.glob(f"{_RESULTS}/*/{pattern}"):
            if not path.name.endswith(_INTERMEDIATE) and _UNFINISHED not in path.name:
                yield path.relative_to(folder).as_posix()


def _read(folder: Path) -> dict[str, str]:
    """Path below `folder` -> sha256; nothing where there is no note, or a damaged one."""
    try:
        value = read_json(folder / _NOTE)
        if value["format"] != _FORMAT:
            return {}
        names = {str(name): str(digest) for name, digest in value["results"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    # a note that somebody wrote names nothing outside
    return {name: digest for name, digest in names.items() if _is_result(name)}


def _is_result(name: str) -> bool:
    parts = name.split("/")
    return len(parts) == 3 and parts[0] == _RESULTS and not {"", ".", ".."} & {*parts}


def _write(folder: Path, results: Mapping[str, str]) -> None:
    ordered = {name: results[name] for name in sorted(results)}
    text = json.dumps({"format": _FORMAT, "results": ordered}, indent=1)
    write_text(folder / _NOTE, text + "\n")


def _digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the sha256 of each file that can be read."""
    ordered = sorted(names)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = pool.map(lambda name: readable_sha256(folder / name), ordered)
        return {name: one for name, one in zip(ordered, digests, strict=True) if one}
