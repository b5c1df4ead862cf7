"""All sources of an app: its own, and those that are added to them. These are C++ that is generated
of its elementwise operators, and ours of other libraries' operators that it switches on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from orchestrator.build.workshop.native import NATIVE
from orchestrator.codegen.elementwise import elementwise_text
from orchestrator.errors import Place
from orchestrator.load.declared import App
from orchestrator.load.elementwise import read_elementwise
from orchestrator.load.sources import SourceUnfitError, read_sources
from orchestrator.values.own_sources import NO_APP, OwnSources

_SHIPPED: Final = NATIVE / "operators"


def all_sources(app: App) -> OwnSources | None:
    """An app's own sources, those that are generated or ours with them; None where it has none.

    Raises what `read_sources` and `read_elementwise` raise, and UnfitTextError.
    """
    sources, config = read_sources(app), app.config.sources
    if sources is None or config is None:
        return sources
    return _with_shipped(app, _with_generated(app, sources), config.operators)


def _with_generated(app: App, sources: OwnSources) -> OwnSources:
    config = app.config.sources
    if config is None or config.kernels is None:
        return sources
    made, of = dict[str, str](), dict[str, str]()
    for one in read_elementwise(app):
        path = f"{one.path}.cpp"
        if path in sources.texts:
            raise SourceUnfitError(
                "a source has the same name as a generated one",
                place=Place(f"apps/{app.name}/{path}"),
                seen=f"apps/{app.name}/{one.path}, of which it would be generated",
                hint="rename one of them",
            )
        # what a compiler tells is of the user's file, not of a copy of what is generated
        shown = f"apps/{app.name}/{one.path}"
        namespace = config.kernels.namespace
        made[path] = elementwise_text(one.config, namespace, one.functor, shown, one.line)
        of[path] = one.path
    return _added(sources, made, made, of)


def shipped_sources(operators: Collection[str]) -> OwnSources:
    """Ours of these operators, of which there is at least one, for a model of no app."""
    texts = _texts_of_shipped(operators)
    files = tuple(sorted(map(_file_of, operators)))
    return OwnSources(NO_APP, dict(sorted(texts.items())), files, (), ())


def _with_shipped(app: App, sources: OwnSources, operators: Collection[str]) -> OwnSources:
    """The sources with one file for each operator, and the headers beside it."""
    files, texts = {*map(_file_of, operators)}, _texts_of_shipped(operators)
    for path in sorted(texts):
        if path in sources.texts:
            raise SourceUnfitError(
                "a source has the same name as one of an operator's",
                place=Place(f"apps/{app.name}/{path}"),
                seen=f"`operators` in {app.place.file}",
                hint="rename it, or remove it where it is the same operator",
            )
    # what is wrong with them is the switch's, in the app
    declared = app.place.file.rpartition("/")[2]
    return _added(sources, texts, files, dict.fromkeys(files, declared))


def _file_of(operator: str) -> str:
    return operator.replace("::", "/") + ".cpp"


def _texts_of_shipped(operators: Collection[str]) -> dict[str, str]:
    """The operators' files and the headers beside them: path -> text."""
    return {
        path.relative_to(_SHIPPED).as_posix(): path.read_text(encoding="utf-8")
        for name in map(_file_of, operators)
        for path in (_SHIPPED / name, *(_SHIPPED / name).parent.glob("*.h"))
    }


def _added(
    sources: OwnSources,
    texts: Mapping[str, str],
    files: Collection[str],
    origins: Mapping[str, str],
) -> OwnSources:
    return replace(
        sources,
        texts={**sources.texts, **dict(sorted(texts.items()))},
        files=tuple(sorted({*sources.files, *files})),
        generated={**sources.generated, **origins},
    )
