"""Tools that some tests run and nothing here depends on, from wheels: unpacked, not installed, in
the user's cache folder, where they stay."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from orchestrator.load.workspace import cache_folder, load_config

ROOT = Path(__file__).parents[2]


def from_wheel(requirement: str, only: str = "") -> Path:
    """The folder of a wheel's files.

    requirement: a line of a requirements file, with the digest; only: the one file that is wanted
    """
    config, places = load_config(ROOT)
    name = f"{requirement.split()[0]}-{hashlib.sha256(requirement.encode()).hexdigest()[:8]}"
    folder = cache_folder(config, places, ROOT, os.environ) / "tests" / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            unpacked = _unpacked(requirement, only, Path(scratch))
            # what another run has put there meanwhile is the same
            if not folder.is_dir():
                shutil.move(unpacked, folder)
    return folder


def _unpacked(requirement: str, only: str, scratch: Path) -> Path:
    wanted, files = scratch / "wanted.txt", scratch / "files"
    wanted.write_text(f"{requirement}\n")
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    argv += ["--require-hashes", "--quiet", "-d", str(scratch), "-r", str(wanted)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(files, [only] if only else None)
    return files
