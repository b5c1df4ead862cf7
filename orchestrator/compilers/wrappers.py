"""The compiler wrappers: one small program a verb, so that a rule, a launcher and a person all run
the same compiler with the same fixed flags."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

from orchestrator.compilers.driver import Driver
from orchestrator.system.staging import write_bytes
from orchestrator.system.templates import environment

_WRAPPER = "wrapper.sh.j2"
_RELINK = Path(__file__).with_name("relink.py")


def write_wrappers(folder: Path, driver: Driver) -> dict[str, Path]:
    """Write the wrapper of every verb into `folder`, where it is not there already."""
    texts = wrapper_texts(driver, (sys.executable, "-I", str(_RELINK)))
    return {verb: write_text(folder / verb, text) for verb, text in texts.items()}


def wrapper_texts(driver: Driver, relink: tuple[str, ...]) -> dict[str, str]:
    """The wrapper of every verb. `relink` is the command of the program `relink.py`."""
    return {verb: _text(verb, driver, relink) for verb in driver.commands}


@cache
def wrapper_digest() -> str:
    """sha256 of what all wrappers are made from: what they make of flags is part of a compiler.

    Releases of ours that share a cache so have wrappers of their own, each with its objects.
    """
    folder = Path(__file__).parent / "templates"
    return hashlib.sha256((folder / _WRAPPER).read_bytes()).hexdigest()


def wrappers_folder(toolchains: Path, abi: str, identity: str) -> Path:
    """Where a toolchain's wrappers lie.

    They call `relink.py`, which changes libraries and no object: it is part of the name, not of
    the toolchain's identity, so that another one links again, and nothing is compiled for it.
    """
    name = hashlib.sha256(identity.encode() + _RELINK.read_bytes()).hexdigest()
    return toolchains / f"{abi}-{name[:12]}"


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
