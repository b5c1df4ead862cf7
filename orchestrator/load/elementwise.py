"""Files of elementwise operators (`*.elementwise`): YAML, with one C++ function in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.load.sources import found_sources, read_texts
from orchestrator.load.validate import raise_all, validated
from orchestrator.load.yaml import load_located
from orchestrator.values.config.app import ElementwiseConfig


class FunctorUnfitError(OrchestratorError):
    """A functor is written so that a compiler's line would not be the file's, or twice a dtype."""


@dataclass(frozen=True)
class Elementwise:
    """One such file.

    path     relative to the app's folder
    line     of the functor's first line, counted from 1
    functor  its lines as the file has them, indented
    """

    path: str
    config: ElementwiseConfig
    line: int
    functor: str


def read_elementwise(app: App) -> tuple[Elementwise, ...]:
    """The elementwise operators of an app, by their files.

    Raises SourceUnfitError, FunctorUnfitError, and what reading YAML and its values raises.
    """
    config = app.config.sources
    if config is None or config.kernels is None:
        return ()
    found = found_sources(app, config)
    raise_all(found.faults)
    folder = app.place.file.rpartition("/")[0]
    texts = read_texts(app, found.kernels)
    return tuple(_parsed(path, text, f"{folder}/{path}") for path, text in texts.items())


def _parsed(path: str, text: str, shown: str) -> Elementwise:
    data, places = load_located(text, shown)
    config, faults = validated(ElementwiseConfig, data, places)
    raise_all(faults)
    assert config is not None
    if len(set(config.dtypes)) < len(config.dtypes):
        place = places.value(("dtypes",))
        raise FunctorUnfitError("a dtype is named twice", place=place, hint="remove one")
    if re.search(rf"\b{config.name}\s*\(", config.functor) is None:
        raise FunctorUnfitError(
            "a functor does not define the operator's function",
            place=places.value(("functor",)),
            expected=f"`template <typename T>` of a function {config.name}",
            hint="give it the name under `name`",
        )
    # of a block, the place is its `|`
    at = places.value(("functor",))
    lines = text.splitlines()[at.line : at.line + len(config.functor.splitlines())]
    stripped = [line.strip() for line in config.functor.splitlines()]
    if not any(stripped) or [line.strip() for line in lines] != stripped:
        raise FunctorUnfitError(
            "a functor is not written as a block",
            place=Place(at.file, at.line, at.column),
            expected="`functor: |`, and C++ in the lines below it",
            hint="a compiler then tells the lines of this file",
        )
    return Elementwise(path, config, at.line + 1, "\n".join(lines) + "\n")
