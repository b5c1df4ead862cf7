"""Writes an action graph as `build.ninja`, through the `ninja_syntax` module of the ninja package.

Objects that the cache already holds get no edge: ninja takes them as sources.  Everything that
depends on the machine stands in variables at the top, the rest of the text does not.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from typing import Any

from ninja import ninja_syntax

from orchestrator.values.action import ActionGraph, Compile, Link


def ninja_text(
    graph: ActionGraph,
    *,
    folders: Mapping[str, str],
    toolchains: Mapping[str, Mapping[str, str]],
    present: Collection[str],
    launcher: str = "",
    heavy_cost: float = 15.0,
    heavy_jobs: int = 2,
) -> str:
    """The text of build.ninja.

    folders     absolute folders by variable name (`cache`, `tree`, ...)
    toolchains  abi -> {"cxx": ..., "cc": ..., "ar": ..., "link": fixed link flags}
    present     objects (as `Compile.object`) that exist already
    heavy_cost  units of at least so many CPU seconds (and so much memory) run in a smaller pool
    """
    stream = io.StringIO()
    writer: Any = ninja_syntax.Writer(stream, width=100)  # type: ignore[arg-type]
    writer.comment("Written by the orchestrator; one graph for every app and ABI.")
    writer.variable("ninja_required_version", "1.10")
    for name in sorted(folders):
        writer.variable(name, ninja_syntax.escape_path(folders[name]))
    writer.variable("builddir", "$state")
    writer.variable("launcher", launcher)
    writer.pool("heavy", heavy_jobs)
    for abi in sorted(toolchains):
        _rules(writer, abi, toolchains[abi])
    for object_path in sorted(graph.compiles):
        action = graph.compiles[object_path]
        if object_path not in present:
            _compile(writer, action, heavy=action.cost >= heavy_cost)
    for link in sorted(graph.links, key=lambda link: link.output):
        _link(writer, link)
    writer.newline()
    writer.default([_path(link.output) for link in sorted(graph.links, key=lambda x: x.output)])
    return stream.getvalue()


def _rules(writer: Any, abi: str, tools: Mapping[str, str]) -> None:
    # Compile beside the output and rename: an object in the cache is always a whole one.
    for verb in ("cxx", "cc"):
        writer.rule(
            f"{verb}_{abi}",
            command=(
                f"$launcher {tools[verb]} $flags $include -MD -MF $out.d "
                "-c $in -o $out.part && mv $out.part $out"
            ),
            depfile="$out.d",
            deps="gcc",
            description="$unit",
        )
    writer.rule(
        f"shared_{abi}",
        command=(
            f"{tools['cxx']} -shared $flags $in {tools['link']} -o $out.part && mv $out.part $out"
        ),
        description="link $out",
    )
    writer.rule(
        f"executable_{abi}",
        command=f"{tools['cxx']} $flags $in {tools['link']} -o $out.part && mv $out.part $out",
        description="link $out",
    )
    writer.rule(
        f"archive_{abi}",
        # `D`: no times and no owners, so that equal objects make equal archives
        command=f"rm -f $out && {tools['ar']} rcsD $out.part @$out.rsp && mv $out.part $out",
        rspfile="$out.rsp",
        rspfile_content="$in_newline",
        description="archive $out",
    )


def _compile(writer: Any, action: Compile, heavy: bool) -> None:
    include = [] if action.projection is None else ["-include", projection_path(action.projection)]
    variables = {
        "flags": " ".join(_shell(flag) for flag in action.flags),
        "unit": action.unit,
    }
    if include:
        variables["include"] = " ".join(include)
    writer.build(
        _path(action.object),
        f"{'cxx' if action.language == 'c++' else 'cc'}_{action.abi}",
        inputs=_path(action.source),
        implicit=include[1:],
        variables=variables,
        pool="heavy" if heavy else None,
    )


def _link(writer: Any, link: Link) -> None:
    objects = [_path(path) for path in (*link.whole, *link.by_need)]
    writer.build(
        _path(link.output),
        f"{link.kind}_{link.abi}",
        inputs=objects,
        implicit=[_path(path) for path in link.inputs],
        variables={"flags": " ".join(link.flags)},
    )


def projection_path(digest: str) -> str:
    """Where a projection header lives, by content."""
    return f"$cache/projections/{digest}.h"


def _path(path: str) -> str:
    """Paths keep their leading `$variable`; what follows is ours and needs no escaping."""
    return path


def _shell(flag: str) -> str:
    return f"'{flag}'" if any(c in flag for c in "()<>;&|* ") else flag
