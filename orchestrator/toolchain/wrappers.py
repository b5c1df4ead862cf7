"""The compiler wrappers: one small program a verb, so that a rule, a launcher and a person all run
the same compiler with the same fixed flags."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import jinja2

from orchestrator.toolchain.driver import Driver

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("orchestrator.toolchain", "templates"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # shell text, quoted with shlex
)


def write_wrappers(folder: Path, driver: Driver) -> dict[str, Path]:
    """Write the wrapper of every verb into `folder`, where it is not there already."""
    return {verb: write_text(folder / verb, _text(verb, driver)) for verb in driver.commands}


def _text(verb: str, driver: Driver) -> str:
    return render(
        "wrapper.sh.j2",
        verb=verb,
        target=driver.target,
        command=shlex.join(driver.commands[verb]),
        zig=None if driver.zig is None else shlex.quote(driver.zig),
        smallest=shlex.join(driver.smallest),
        archiver=driver.archiver,
    )


def render(template: str, **values: object) -> str:
    """The text of a template of this package."""
    return _TEMPLATES.get_template(template).render(values)


def write_text(path: Path, text: str, mode: int = 0o755) -> Path:
    """Write all or nothing, and not at all where the text is the same."""
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f".{path.name}.{os.getpid()}")
        staged.write_text(text)
        staged.chmod(mode)
        staged.replace(path)
    return path
