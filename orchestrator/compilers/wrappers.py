"""The compiler wrappers (`cxx`, `cc`, `ar`): small scripts, so that a rule, a launcher and a person
all run the same compiler with the same fixed flags.

They contain the paths of one installation's programs: zig, Python and `relink.py`. So each
installation that uses a cache has its own wrappers there or, if the cache is read-only, in its
workspace.
"""

from __future__ import annotations

import errno
import hashlib
import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from orchestrator.compilers.driver import Driver
from orchestrator.system.folders import ensure_folder
from orchestrator.system.staging import write_bytes
from orchestrator.system.templates import environment

_WRAPPER = "wrapper.sh.j2"
_FOLDER: Final = "toolchains"
_RELINK = Path(__file__).with_name("relink.py")
# What writing says where a file system or a folder can only be read.
_READ_ONLY: Final = (errno.EROFS, errno.EACCES, errno.EPERM)


def write_wrappers(
    cache: Path, state: Path | None, abi: str, identity: str, driver: Driver
) -> dict[str, Path]:
    """Write each wrapper (`cxx`, `cc`, `ar`) that does not exist yet.

    state: the workspace's folder, which takes the wrappers that a read-only cache lacks.
    """
    texts = wrapper_texts(driver, (sys.executable, "-I", str(_RELINK)))
    name = _folder_name(abi, identity, texts)
    try:
        return _write(cache / _FOLDER / name, texts)
    except OSError as error:
        if state is None or error.errno not in _READ_ONLY:
            raise
    return _write(ensure_folder(state, "state") / _FOLDER / name, texts)


def wrapper_texts(driver: Driver, relink: tuple[str, ...]) -> dict[str, str]:
    """The wrapper of every verb. `relink` is the command of the program `relink.py`."""
    return {verb: _text(verb, driver, relink) for verb in driver.commands}


def _write(folder: Path, texts: Mapping[str, str]) -> dict[str, Path]:
    return {verb: write_text(folder / verb, text) for verb, text in texts.items()}


def _folder_name(abi: str, identity: str, texts: Mapping[str, str]) -> str:
    """A digest of what decides how objects are compiled and libraries linked, and of all paths.

    `relink.py` affects libraries but no object, and paths affect neither. So they are part of the
    name, but not of the toolchain's identity, and a change to them recompiles nothing.
    """
    made_of = [
        identity,
        _RELINK.read_text(encoding="utf-8"),
        *(texts[verb] for verb in sorted(texts)),
    ]
    return f"{abi}-{hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:12]}"


@cache
def wrapper_digest() -> str:
    """sha256 of what all wrappers are made from: what they make of flags is part of a compiler.

    Releases of ours that share a cache so have wrappers of their own, each with its objects.
    """
    folder = Path(__file__).parent / "templates"
    return hashlib.sha256((folder / _WRAPPER).read_bytes()).hexdigest()


def _text(verb: str, driver: Driver, relink: tuple[str, ...]) -> str:
    return render(
        _WRAPPER,
        verb=verb,
        target=driver.target,
        command=driver.commands[verb],
        zig=driver.zig,
        smallest=driver.smallest,
        archiver=driver.archiver,
        relink=relink,
    )


def render(template: str, **values: object) -> str:
    """The text of a template of this package. Raises UnfitTextError."""
    templates = environment("orchestrator.compilers", blocks=True)
    return templates.get_template(template).render(values)


def write_text(path: Path, text: str, mode: int = 0o755) -> Path:
    """Write all or nothing, and not at all where the text is the same."""
    data = text.encode()
    if not path.is_file() or path.read_bytes() != data:
        write_bytes(path, data, mode)
    return path
