"""The quick way for a build of which nothing has changed: no planning, hardly an import.

After a build its report is kept with a signature of everything that went in and came out: size and
time of every declaration, model, trace, delivered library and of the orchestrator's own files.
While the signature holds and ninja finds no work to do, the report is told again. Times only decide
whether to look closer; what is built is decided by content.

Only the standard library is imported here: a cold import of the pipeline takes longer than all of
this.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_KEPT = "last-build.json"
# Environment variables that decide where things are, or with what they are built.
_ENVIRONMENT = (
    *("ORCHESTRATOR_CACHE", "XDG_CACHE_HOME", "HOME", "PYTORCH_SOURCE"),
    *("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT"),
)
_PACKAGE = Path(__file__).parent.parent
_NINJA_TIME_LIMIT = 60


def told_again(words: Sequence[str], env: Mapping[str, str], cwd: Path) -> bool:
    """Print the last report of the same command again, if nothing has changed since."""
    root = next((f for f in (cwd, *cwd.parents) if (f / "WORKSPACE").is_file()), None)
    if root is None:
        return False
    try:
        kept = json.loads((root / ".orchestrator" / _KEPT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if kept.get("signature") != signature(root, words, env) or not _no_work(root, kept):
        return False
    sys.stdout.write(kept["report"])
    return True


def keep(
    root: Path, words: Sequence[str], env: Mapping[str, str], report: str, folder: Path
) -> None:
    """Keep a report for `told_again`; `folder` is where ninja runs."""
    path = root / ".orchestrator" / _KEPT
    staged = path.with_name(f".{_KEPT}.{os.getpid()}")
    value = {
        "signature": signature(root, words, env),
        "report": report,
        "folder": str(folder),
    }
    staged.write_text(json.dumps(value), encoding="utf-8")
    staged.replace(path)


def forget(root: Path) -> None:
    """Drop the kept report: a build is about to change what it tells of."""
    (root / ".orchestrator" / _KEPT).unlink(missing_ok=True)


def signature(root: Path, words: Sequence[str], env: Mapping[str, str]) -> str:
    """Digest of sizes and times of all that a build reads and delivers."""
    digest = hashlib.sha256(json.dumps([list(words), sys.prefix]).encode())
    digest.update(json.dumps([env.get(name) for name in _ENVIRONMENT]).encode())
    for path in _files(root):
        try:
            status = path.stat()
        except OSError:
            digest.update(f"{path}\0".encode())
            continue
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    yield root / "WORKSPACE"
    yield root / "pyproject.toml"
    for pattern in ("toolchains/*", "apps/*/app.yaml", "apps/*/models/*", "apps/*/traces/*"):
        yield from sorted(root.glob(pattern))
    for pattern in ("*/*/manifest.json", "*/*/lib/*", "*/packages/**/*"):
        yield from sorted((root / "dist").glob(pattern))
    for folder, folders, files in os.walk(_PACKAGE):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        yield from (Path(folder, file) for file in sorted(files))


def _no_work(root: Path, kept: Mapping[str, str]) -> bool:
    build_file = root / ".orchestrator" / "build.ninja"
    argv = [str(Path(sys.executable).with_name("ninja")), "-n", "-f", str(build_file)]
    try:
        done = subprocess.run(
            argv,
            cwd=kept.get("folder"),
            capture_output=True,
            text=True,
            check=False,
            timeout=_NINJA_TIME_LIMIT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and "no work to do" in done.stdout
