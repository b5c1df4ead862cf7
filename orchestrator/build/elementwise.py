"""An app's elementwise operators as additional, generated C++ sources of the app."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.codegen.elementwise import elementwise_text
from orchestrator.errors import Place
from orchestrator.load.declared import App
from orchestrator.load.elementwise import read_elementwise
from orchestrator.load.sources import SourceUnfitError, read_sources
from orchestrator.values.own_sources import OwnSources


def all_sources(app: App) -> OwnSources | None:
    """An app's own sources, those that are generated with them; None where it has none.

    Raises what `read_sources` and `read_elementwise` raise, and UnfitTextError.
    """
    sources, config = read_sources(app), app.config.sources
    if sources is None or config is None or config.kernels is None:
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
    files = tuple(sorted({*sources.files, *made}))
    return replace(sources, texts={**sources.texts, **made}, files=files, generated=of)
