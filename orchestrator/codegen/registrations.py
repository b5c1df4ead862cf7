"""Has torchgen write an app's registrations, once for each distinct request.

The texts live in the user's cache under the request's digest, so that apps and later runs with the
same request share them.  Effects: one process (the worker) and files in the cache.

A folder's `SHA256SUMS` is written last: it marks the folder as complete and has its files' digests.
The files are compared at every use, since they are read anyway; a folder that differs is written
again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from orchestrator.codegen.render import render
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.errors import OrchestratorError
from orchestrator.pytorch.dialect import Dialect
from orchestrator.system.process import LOCAL, Command, CommandRunner
from orchestrator.system.sums import is_whole, publish


class TorchgenFailedError(OrchestratorError):
    """The pinned tree's torchgen failed on a request."""


@dataclass(frozen=True)
class GeneratedUnit:
    """A generated unit: its file and the digest of all text that it includes.

    text: what is to be written into its file before it is compiled; None: the file is there
    """

    name: str
    path: Path
    digest: str
    text: str | None = None


def generate_registrations(
    requests: Iterable[RegistrationRequest],
    dialect: Dialect,
    tree: Path,
    texts: Path,
    env: Mapping[str, str],
    runner: CommandRunner = LOCAL,
    *,
    cache: Path | None = None,
) -> dict[RegistrationRequest, tuple[GeneratedUnit, ...]]:
    """The registration units of each request, written below `texts`.

    cache: where `texts` is another folder, since it can only be read; what it has is copied

    Raises TorchgenFailedError.
    """
    folders = {
        request: texts / _name(request, dialect, tree) for request in sorted(set(requests), key=str)
    }
    missing = {r: f for r, f in folders.items() if not is_whole(f)}
    if missing:
        with _staging(texts) as staging:
            for request, folder in tuple(missing.items()):
                there = (cache or texts) / folder.relative_to(texts)
                if is_whole(there):
                    shutil.copytree(there, staging / folder.name)
                    publish(staging / folder.name, folder)
                    del missing[request]
            if missing:
                _run_worker(missing, staging, dialect, tree, env, runner)
    return {r: _units(r, folder, dialect, folder) for r, folder in folders.items()}


def planned_registrations(
    requests: Iterable[RegistrationRequest], dialect: Dialect, tree: Path, texts: Path, cache: Path
) -> dict[RegistrationRequest, tuple[GeneratedUnit, ...]]:
    """The registration units of each request, without running torchgen.

    Where torchgen has not written them yet, they stand in with the request's digest for their
    text's: their objects are in no cache, and are shared by equal requests alone.
    """
    found = {}
    for request in requests:
        name = _name(request, dialect, tree)
        written = next((one / name for one in (texts, cache) if is_whole(one / name)), None)
        found[request] = _units(request, texts / name, dialect, written)
    return found


def _name(request: RegistrationRequest, dialect: Dialect, tree: Path) -> Path:
    value = {
        # what dataclasses.asdict gives, which takes a hundred times as long
        "request": vars(request),
        "tree": tree.name,
        "worker": _worker_text(dialect),
        "unit": _unit_text(request, dialect),
    }
    digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
    return Path("registrations", digest[:2], digest)


@cache
def _worker_text(dialect: Dialect) -> str:
    return dialect.generated.worker.read_text(encoding="utf-8")


@contextmanager
def _staging(texts: Path) -> Iterator[Path]:
    (texts / "staging").mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix="torchgen-", dir=texts / "staging"))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _run_worker(
    missing: Mapping[RegistrationRequest, Path],
    staging: Path,
    dialect: Dialect,
    tree: Path,
    env: Mapping[str, str],
    runner: CommandRunner,
) -> None:
    staged = {request: staging / folder.name for request, folder in missing.items()}
    request_file = staging / "request.json"
    request_file.write_text(
        json.dumps(
            [
                {
                    "operators": request.operators,
                    "calls": request.calls,
                    "kernels": dict(request.kernels),
                    "direct": dict(request.direct),
                    "resolved": dict(request.resolved),
                    "output": str(folder),
                }
                for request, folder in staged.items()
            ]
        ),
        encoding="utf-8",
    )
    argv = [sys.executable, "-P", str(dialect.generated.worker), str(tree), str(request_file)]
    own = {**env, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    done = runner.run(Command(argv, own))
    if done.code:
        raise TorchgenFailedError(
            "torchgen failed to write the registrations",
            hint="./orchestrate fetch --verify checks the source tree",
            details="\n".join(done.err.splitlines()[-12:]),
        )
    for request, folder in missing.items():
        (staged[request] / "registrations.cpp").write_text(
            _unit_text(request, dialect), encoding="utf-8"
        )
        publish(staged[request], folder)


def _unit_text(request: RegistrationRequest, dialect: Dialect) -> str:
    keys, helpers = request.shared_keys(dialect.keys), dialect.generated.helpers
    return _rendered_unit(keys, helpers, bool(request.resolved))


@cache
def _rendered_unit(keys: tuple[str, ...], helpers: tuple[str, ...], resolved: bool) -> str:
    return render("registrations.cpp.j2", keys=keys, helpers=helpers, resolved=resolved)


def _units(
    request: RegistrationRequest, folder: Path, dialect: Dialect, written: Path | None
) -> tuple[GeneratedUnit, ...]:
    def digest(files: list[Path]) -> str:
        if written is None:
            return f"of request {folder.name}, {files[0].name}"
        return _files_digest(written / file.name for file in files)

    shared = ["Schema", "BackendSelect", *request.shared_keys(dialect.keys)]
    texts = [folder / "registrations.cpp"]
    texts += [folder / f"Register{key}.cpp" for key in shared]
    if request.resolved:
        texts.append(folder / "Resolved.cpp")
    units = [GeneratedUnit("registrations", texts[0], digest(texts))]
    # typed entry points: the same for many selections, as kernels seldom call what models name
    entries = folder / "Operators.cpp"
    units.append(GeneratedUnit("operators", entries, digest([entries])))
    for key in request.own_keys(dialect.keys):
        path = folder / f"Register{key}.cpp"
        units.append(GeneratedUnit(f"registrations-{key}", path, digest([path])))
    return tuple(units)


def _files_digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
