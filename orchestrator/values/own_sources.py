"""An app's own C++ sources as a value: texts, flags, and their location when they are compiled.

They are compiled from a copy in the user's cache that is named by its content, so a file that
changes meanwhile, or another checkout, gets another copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from orchestrator.errors import Place
from orchestrator.values.fingerprint import fingerprint

# In place of an app's name: no app has it.
NO_APP: Final = "-"


@dataclass(frozen=True)
class OwnClass:
    """A TorchBind class that a source registers.

    name     `namespace.Name`
    methods  those that its registration names, sorted
    is_open  whether it may have others
    place    of its registration, where it is known
    """

    name: str
    methods: tuple[str, ...]
    is_open: bool = False
    place: Place | None = field(default=None, compare=False)

    def may_have(self, method: str) -> bool:
        """True if the class has a method by its registration, or if the registration may add
        others."""
        return self.is_open or method in self.methods


@dataclass(frozen=True)
class OwnSources:
    """See the module docstring; paths are relative to the app's folder.

    texts      path -> text, of the C++ files and of all headers that they may read
    files      the C++ files among them, sorted
    include    folders of headers
    flags      as `app.yaml` has them
    generated  of C++ files that are not the app's: path -> the file of the app that asks for it
    """

    app: str
    texts: Mapping[str, str]
    files: tuple[str, ...]
    include: tuple[str, ...]
    flags: tuple[str, ...]
    generated: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of all of it but the app's name."""
        parts = {
            "texts": dict(self.texts),
            "files": self.files,
            "include": self.include,
            "flags": self.flags,
        }
        return fingerprint(parts)

    @property
    def owner(self) -> str:
        """As messages have it."""
        return "the orchestrator's operators" if self.app == NO_APP else f"//apps/{self.app}"

    @property
    def folder(self) -> str:
        """The folder of the copy."""
        return f"$cache/sources/{self.digest}"

    @property
    def copies(self) -> dict[str, str]:
        """file (`$cache/...`) -> text."""
        return {f"{self.folder}/{path}": text for path, text in self.texts.items()}

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """Flags that follow those of the runtime's units: the app's own, and its include
        folders."""
        return (*self.flags, *(f"-I{self.folder}/{folder}" for folder in self.include))

    @property
    def units(self) -> dict[str, str]:
        """Name of each unit in plans -> its file."""
        return {f"apps/{self.app}/{path}": f"{self.folder}/{path}" for path in self.files}
