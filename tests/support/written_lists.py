"""The lists of members that a build writes for its archives before it runs ninja."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template

from orchestrator.execute.ninja_file import member_lists
from orchestrator.system.staging import write_if_changed
from orchestrator.values.action import Link


def write_lists(links: Iterable[Link], folders: Mapping[str, str]) -> list[Path]:
    """Write the lists of the archives among the links; returns the files.

    folders: as `ninja_text` takes them
    """
    written = []
    for path, text in member_lists(links, lambda one: _filled(one, folders)).items():
        written.append(Path(_filled(path, folders)))
        write_if_changed(written[-1], text)
    return written


def _filled(path: str, folders: Mapping[str, str]) -> str:
    return Template(path).safe_substitute(folders)
