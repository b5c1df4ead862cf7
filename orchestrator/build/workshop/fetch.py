"""Fetches the pinned source trees into the user's cache folder: verified, once, all or nothing.

A tree becomes `<cache>/runtime/<name>-<first 12 digits of its digest>/`: only the files that the
digest covers (see `tree.py`), and the marker `.complete`, written last. It is staged under
`<cache>/staging/` and renamed into place, so a folder with that name is complete or does not exist.
The next fetch removes what an interrupted one left in staging. A lock file keeps two processes from
fetching at once; the caller guards the cache as a whole (`system/workspace_lock.py`).

The sources of a pin are tried in order. A source that is unavailable on this machine (an unset
variable, no network) is skipped. A source whose contents do not match the pin aborts the fetch: a
mismatch is never hidden.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from orchestrator.context import Context
from orchestrator.errors import OrchestratorError
from orchestrator.libraries.declared import load_library
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS, load_version
from orchestrator.pytorch.versions import VersionData
from orchestrator.source.apt import AptClient
from orchestrator.source.places import SourceFetcher, source_name
from orchestrator.source.tree import TreeRules, digest_files, tree_files
from orchestrator.system.locks import file_lock
from orchestrator.system.process import SourceUnavailableError
from orchestrator.system.reading import read_json
from orchestrator.system.staging import remove_leftovers, sync_tree
from orchestrator.values.config.workspace import LibraryPin, RuntimePin, Source, ThirdPartyPin

MARKER: Final = ".complete"

# Ninja compares times: the same tree, fetched again, must not look newer than what was built of it.
_FILE_TIME: Final = 946684800  # 2000-01-01

Progress = Callable[[str], None]
# A tree's folder, its digest and what counts in it.
_Identity = tuple[Path, str, TreeRules]


# Folder of the cache with the trees that were fetched and verified.
FETCHED: Final = "runtime"


class RuntimeUnavailableError(OrchestratorError):
    """None of the pinned sources of a tree is available on this machine."""


class SourceMismatchError(OrchestratorError):
    """A source holds a tree that is not the pinned one."""


class LibraryUnknownError(OrchestratorError):
    """WORKSPACE pins an unknown library."""


class CacheFullError(OrchestratorError):
    """The cache folder's disk, quota or file size limit leaves too little room."""


class CacheReadOnlyError(OrchestratorError):
    """The cache folder cannot be made or written to."""


@dataclass(frozen=True)
class FetchedRuntime:
    """The pinned trees on this machine.

    version      PyTorch's, such as `1.13.1`
    tree         the folder of its source files
    digest       that tree's digest, as pinned
    third_party  name of a header set -> the folder that goes on the include path
    libraries    name of a library's tree -> its folder
    """

    version: str
    tree: Path
    digest: str
    third_party: Mapping[str, Path]
    libraries: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class LibraryRules:
    """Rules of our data for the libraries that may be pinned.

    trees   name of a tree -> rules for the files of it that count
    suites  Debian suites that have their archives
    """

    trees: Mapping[str, TreeRules]
    suites: tuple[str, ...] = ()


@dataclass(frozen=True)
class Marker:
    """Content of `.complete`: the tree's digest, number and bytes of its files, the source that it
    was fetched from."""

    digest: str
    files: int
    bytes: int
    way: str


@dataclass(frozen=True)
class _PinnedTree:
    """One pinned tree: what it is, where it goes, what counts in it, how to get it."""

    name: str
    folder: Path
    digest: str
    rules: TreeRules
    sources: tuple[Source, ...]
    suites: tuple[str, ...]

    @property
    def identity(self) -> _Identity:
        """Identity of a verified tree: trees of two pins with the same identity are the same
        files."""
        return self.folder, self.digest, self.rules


def fetch_runtime(
    pin: RuntimePin,
    context: Context,
    progress: Progress,
    *,
    verify: bool = False,
    dialects: Mapping[str, Dialect] = DIALECTS,
    libraries: LibraryRules | None = None,
) -> FetchedRuntime:
    """The pinned PyTorch tree, its third-party headers and the libraries, fetched if they are
    missing.

    With `verify`, existing trees are hashed again, and fetched again if they are damaged. Raises
    `RuntimeUnavailableError`, `SourceMismatchError`, `CacheFullError`, `CacheReadOnlyError`,
    `RuntimeUnsupportedError`, `LibraryUnknownError`, `LocksUnsupportedError`, and the errors of
    `tree.py`, `archive.py` and `apt.py`.
    """
    (fetched,) = fetch_runtimes(
        [pin], context, progress, verify=verify, dialects=dialects, libraries=libraries
    )
    return fetched


def fetch_runtimes(
    pins: Iterable[RuntimePin],
    context: Context,
    progress: Progress,
    *,
    verify: bool = False,
    dialects: Mapping[str, Dialect] = DIALECTS,
    libraries: LibraryRules | None = None,
) -> tuple[FetchedRuntime, ...]:
    """The trees of each pin, as `fetch_runtime` gives them; raises what it raises.

    With `verify`, a tree that several pins share is hashed once.
    """
    hashed: set[_Identity] | None = set() if verify else None
    return tuple(
        _fetch_runtime(pin, context, progress, hashed, dialects, libraries) for pin in pins
    )


def _fetch_runtime(
    pin: RuntimePin,
    context: Context,
    progress: Progress,
    hashed: set[_Identity] | None,
    dialects: Mapping[str, Dialect],
    libraries: LibraryRules | None,
) -> FetchedRuntime:
    version = load_version(pin.pytorch, dialects)
    runtime = _runtime_tree(pin, context, version)
    third = {
        name: _third_party_tree(name, one, context, version)
        for name, one in pin.third_party.items()
    }
    library = {
        name: _library_tree(name, one, context, libraries or _known_libraries())
        for name, one in pin.libraries.items()
    }
    pinned = [runtime, *third.values(), *library.values()]
    if hashed is not None or any(_missing(tree) for tree in pinned):
        with disk_errors_translated(context.cache, version.disk_mb):
            _fetch(pinned, context, version, progress, hashed)
    includes = {name: tree.folder / pin.third_party[name].include for name, tree in third.items()}
    return FetchedRuntime(
        pin.pytorch,
        runtime.folder,
        pin.tree,
        MappingProxyType(includes),
        MappingProxyType({name: tree.folder for name, tree in library.items()}),
    )


def read_marker(tree: Path) -> Marker | None:
    """The contents of the tree's marker; None if the tree is missing or incomplete."""
    try:
        return Marker(**read_json(tree / MARKER))
    except (OSError, ValueError, TypeError):
        return None


def tree_folder(cache: Path, name: str, tree: str) -> Path:
    """Path of a source tree in the cache: by its name and the start of its digest."""
    return cache / FETCHED / f"{name}-{tree[:12]}"


def is_fetched(cache: Path, name: str, tree: str) -> bool:
    """True if a source tree is in the cache, by its name there and its digest."""
    marker = read_marker(tree_folder(cache, name, tree))
    return marker is not None and marker.digest == tree


def _runtime_tree(pin: RuntimePin, context: Context, version: VersionData) -> _PinnedTree:
    folder = tree_folder(context.cache, pin.pytorch, pin.tree)
    rules, suites = version.tree.rules, version.debian_suites
    return _PinnedTree(f"PyTorch {pin.pytorch}", folder, pin.tree, rules, pin.sources, suites)


def _third_party_tree(
    name: str, pin: ThirdPartyPin, context: Context, version: VersionData
) -> _PinnedTree:
    folder = tree_folder(context.cache, name, pin.tree)
    rules = TreeRules((f"{pin.include}/**", "LICENSE*", "COPYING*", "NOTICE*"))
    return _PinnedTree(name, folder, pin.tree, rules, pin.sources, version.debian_suites)


def _known_libraries() -> LibraryRules:
    data = load_library()
    trees = {name: tree.rules for name, tree in data.trees.items()}
    return LibraryRules(trees, data.debian_suites)


def _library_tree(
    name: str, pin: LibraryPin, context: Context, libraries: LibraryRules
) -> _PinnedTree:
    rules = libraries.trees.get(name)
    if rules is None:
        raise LibraryUnknownError(
            f"there is no library {name} that variants could link",
            expected="one of " + ", ".join(sorted(libraries.trees)),
            seen=name,
            hint="correct the name under `runtime: libraries:` in WORKSPACE",
        )
    folder = tree_folder(context.cache, name, pin.tree)
    return _PinnedTree(name, folder, pin.tree, rules, pin.sources, libraries.suites)


def _missing(pinned: _PinnedTree) -> bool:
    marker = read_marker(pinned.folder)
    return marker is None or marker.digest != pinned.digest


def _damaged(pinned: _PinnedTree) -> bool:
    try:
        files = tree_files(pinned.folder, pinned.rules)
        return digest_files(pinned.folder, files) != pinned.digest
    except OrchestratorError:
        return True


def _fetch(
    pinned: list[_PinnedTree],
    context: Context,
    version: VersionData,
    progress: Progress,
    hashed: set[_Identity] | None,
) -> None:
    """Fetch the trees that are missing and, where `hashed` is given, those that are damaged.

    hashed: the trees that were verified before, which are not hashed again; these are added
    """
    lock = context.cache / FETCHED / ".lock"
    with (
        file_lock(
            lock,
            lambda _: progress("another process is fetching the runtime; waiting for it"),
            before=lambda: lock.parent.mkdir(parents=True, exist_ok=True),
        ),
        _staging(context.cache) as staging,
    ):
        clients: dict[tuple[str, ...], AptClient] = {}
        for tree in pinned:
            # another process may have fetched it while we waited for the lock
            if not _missing(tree):
                if hashed is None or tree.identity in hashed:
                    continue
                hashed.add(tree.identity)
                progress(f"{tree.name}: hashing {tree.folder}")
                if not _damaged(tree):
                    continue
                progress(f"{tree.name}: files were changed or lost; fetching it again")
            _room(context.cache, version.disk_mb)
            if tree.suites not in clients:
                folder = staging / "-".join(("apt", *tree.suites))
                clients[tree.suites] = AptClient(
                    folder, context.env, tree.suites, progress, context.runner
                )
            _fetch_one(tree, SourceFetcher(context, staging, clients[tree.suites], progress))
            if hashed is not None:
                hashed.add(tree.identity)


def _fetch_one(pinned: _PinnedTree, fetcher: SourceFetcher) -> None:
    reasons = []
    for source in pinned.sources:
        way = source_name(source)
        staged = fetcher.staging / secrets.token_hex(4)
        staged.mkdir()
        fetcher.progress(f"{pinned.name}: trying {way}")
        try:
            fetcher.fetch(source, staged, pinned.rules)
        except SourceUnavailableError as reason:
            if "No space left on device" in str(reason):
                raise OSError(errno.ENOSPC, str(reason)) from reason
            fetcher.progress(f"{pinned.name}: not this way: {reason}")
            reasons.append(f"{way}: {reason}")
            continue
        _install(pinned, staged, way, fetcher)
        fetcher.progress(f"{pinned.name}: verified, in {pinned.folder}")
        return
    raise RuntimeUnavailableError(
        f"{pinned.name} cannot be fetched: none of its sources works here",
        details="\n".join(reasons),
        hint="make one of them work, or add a source to WORKSPACE, such as a `path:` to a checkout",
    )


def _install(pinned: _PinnedTree, staged: Path, way: str, fetcher: SourceFetcher) -> None:
    """Verify the staged tree, mark it as complete, and move it into place."""
    files = tree_files(staged, pinned.rules)
    seen = digest_files(staged, files)
    if seen != pinned.digest:
        raise SourceMismatchError(
            f"{pinned.name} from {way} is not the pinned source tree",
            expected=f"tree {pinned.digest}",
            seen=f"tree {seen} ({len(files):,} files)",
            hint="correct that source in WORKSPACE, or the pinned `tree:` if you trust the source",
        )
    size = 0
    for path in files:
        os.utime(staged / path, (_FILE_TIME, _FILE_TIME))
        size += (staged / path).stat().st_size
    marker = Marker(seen, len(files), size, way)
    (staged / MARKER).write_text(json.dumps(asdict(marker), indent=1) + "\n", encoding="utf-8")
    # After a power loss the marker must not stand beside empty files.
    sync_tree(staged)
    if pinned.folder.exists():
        pinned.folder.rename(fetcher.staging / (staged.name + ".old"))
    staged.replace(pinned.folder)


@contextmanager
def _staging(cache: Path) -> Iterator[Path]:
    """A folder for what is not whole yet. Under the lock, any other such folder is stale.

    So is what any other kind of process has begun and not touched for a day.
    """
    (cache / "staging").mkdir(exist_ok=True)
    for stale in (cache / "staging").glob("fetch-*"):
        shutil.rmtree(stale)
    remove_leftovers(cache, cache / "staging")
    folder = cache / "staging" / f"fetch-{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _room(cache: Path, megabytes: int) -> None:
    free = shutil.disk_usage(cache).free
    if free < megabytes * 10**6:
        raise OSError(errno.ENOSPC, f"{free / 10**6:,.0f} MB free")


@contextmanager
def disk_errors_translated(cache: Path, megabytes: int) -> Iterator[None]:
    """Turns what the disk refuses inside this block into `CacheFullError`, `CacheReadOnlyError`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise CacheFullError(
                "the cache folder has too little room for the runtime",
                expected=f"about {megabytes:,} MB free in {cache}",
                seen=error.strerror,
                hint="make room, or set ORCHESTRATOR_CACHE to a folder on another disk",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise CacheReadOnlyError(
                "the cache folder cannot be written to",
                expected=f"a folder that you may write to at {cache}",
                seen=f"{error.strerror}: {error.filename or cache}",
                hint="set ORCHESTRATOR_CACHE to a folder of yours",
            ) from error
        raise
