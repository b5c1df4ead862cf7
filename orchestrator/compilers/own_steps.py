"""Our own code that runs in links: part of the identity of what they make."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from orchestrator.values.fingerprint import fingerprint, text_digest

_PACKAGE: Final = Path(__file__).parents[1]
# What runs of ours in links: the wrapper's second link, and the steps of some kinds. `addon` is no
# kind of ninja's links (`build/development/addon_link.py`).
_RELINK: Final = ("compilers/relink.py",)
OWN_STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "code_archive": ("binary/bitcode.py", "errors.py"),
    "left_out": ("binary/dead_stubs.py", "binary/macho.py", "errors.py"),
    "addon": ("binary/elf_addon.py", "binary/elf_imports.py", *_RELINK, "errors.py"),
    **dict.fromkeys(("shared", "extensible", "executable", "relocatable"), _RELINK),
}


def own_steps(kind: str) -> str:
    """A digest of our own code that runs in links of a kind, and which Python runs it."""
    files = [_PACKAGE / name for name in OWN_STEPS.get(kind, ())]
    return _digest_of(tuple(files)) if files else ""


@cache
def _digest_of(files: tuple[Path, ...]) -> str:
    return fingerprint(
        {
            "python": sys.version.partition(" ")[0],
            **{path.name: text_digest(path.read_text(encoding="utf-8")) for path in files},
        }
    )
