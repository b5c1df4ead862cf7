"""Writes an action graph as `build.ninja`, through the `ninja_syntax` module of the ninja package.

Objects that the cache already holds get no edge: ninja takes them as sources.  Everything that
depends on the machine stands in variables at the top, the rest of the text does not.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ninja import ninja_syntax

from orchestrator.values.action import ActionGraph, Compile, Link, Precompile

# Kinds of links that run a step of ours.
_OWN_STEPS = frozenset({"left_out", "code_archive"})


def ninja_text(
    graph: ActionGraph,
    *,
    folders: Mapping[str, str],
    toolchains: Mapping[str, Mapping[str, str]],
    present: Collection[str],
    launchers: Mapping[str, str] | None = None,
    heavy_cost: float = 15.0,
    heavy_jobs: int = 2,
    python: str = "python3",
) -> str:
    """The text of build.ninja.

    folders     absolute folders by variable name (`cache`, `tree`, ...)
    toolchains  abi -> {"cxx": ..., "cc": ..., "ar": ..., "link": fixed link flags}
    present     objects and precompiled headers (as their actions name them) that exist already
    launchers   abi -> what stands before its compile commands: a launcher with its variables
    heavy_cost  units of at least so many CPU seconds (and so much memory) run in a smaller pool,
                heavy_jobs at once
    python      the interpreter that runs our own steps
    """
    stream = io.StringIO()
    writer: Any = ninja_syntax.Writer(stream, width=100)  # type: ignore[arg-type]
    writer.comment("Written by the orchestrator; one graph for every app and ABI.")
    writer.variable("ninja_required_version", "1.10")
    for name in sorted(folders):
        writer.variable(name, ninja_syntax.escape(folders[name]))
    if any(link.kind in _OWN_STEPS for link in graph.links):
        writer.variable("python", ninja_syntax.escape(shlex.quote(python)))
    writer.variable("builddir", "$state")
    for abi in sorted(launchers or {}):
        writer.variable(f"launcher_{abi}", ninja_syntax.escape((launchers or {})[abi]))
    for abi in sorted(toolchains):
        for verb in ("ar", "cc", "cxx"):
            command = shlex.quote(toolchains[abi][verb])
            writer.variable(f"{verb}_{abi}", ninja_syntax.escape(command))
    writer.pool("heavy", heavy_jobs)
    for abi in sorted(toolchains):
        _rules(writer, abi, toolchains[abi]["link"], launched=abi in (launchers or {}))
        kinds = {link.kind for link in graph.links if link.abi == abi}
        if "relocatable" in kinds:
            _static_rules(writer, abi)
        if "code_archive" in kinds:
            _code_archive_rule(writer, abi)
    todo = [graph.compiles[path] for path in sorted(graph.compiles) if path not in present]
    for header in sorted({c.pch for c in todo if c.pch}, key=lambda pch: pch.output):
        if header.output not in present:
            _precompile(writer, header)
    for action in todo:
        _compile(writer, action, heavy=action.cost >= heavy_cost)
    for link in sorted(graph.links, key=lambda link: link.output):
        _link(writer, link)
    if graph.links:
        writer.newline()
        writer.default([_path(link.output) for link in sorted(graph.links, key=lambda x: x.output)])
    return stream.getvalue()


def _rules(writer: Any, abi: str, link: str, launched: bool) -> None:
    # Compile beside the output and rename: an object in the cache is always a whole one. The
    # shell's number is in the name, because two workspaces may make the same object at once.
    part = "$out.$$$$.part"
    launcher = f"${{launcher_{abi}}} " if launched else ""
    for verb in ("cxx", "cc"):
        writer.rule(
            f"{verb}_{abi}",
            command=(
                f"{launcher}${{{verb}_{abi}}} $flags $include -MD -MF $out.d "
                f"-c $in -o {part} && mv {part} $out"
            ),
            depfile="$out.d",
            deps="gcc",
            description="$unit",
        )
    # Without the headers' times: a fetch of the same tree must not make it stale.
    writer.rule(
        f"pch_{abi}",
        command=(
            f"${{cxx_{abi}}} $flags -x c++-header -Xclang -fno-pch-timestamp -MD -MF $out.d "
            f"$in -o {part} && mv {part} $out"
        ),
        depfile="$out.d",
        deps="gcc",
        description="precompile $unit",
    )
    writer.rule(
        f"shared_{abi}",
        command=f"${{cxx_{abi}}} -shared $flags $in {link} -o {part} && mv {part} $out",
        description="link $out",
    )
    writer.rule(
        f"executable_{abi}",
        command=f"${{cxx_{abi}}} $flags $in {link} -o {part} && mv {part} $out",
        description="link $out",
    )
    writer.rule(
        f"archive_{abi}",
        # `D`: no times and no owners, so that equal objects make equal archives
        command=f"rm -f $out && ${{ar_{abi}}} rcsD {part} @$out.rsp && mv {part} $out",
        rspfile="$out.rsp",
        rspfile_content="$in_newline",
        description="archive $out",
    )


def _code_archive_rule(writer: Any, abi: str) -> None:
    part = "$out.$$$$.part"
    writer.rule(
        f"code_archive_{abi}",
        command=(
            f"rm -rf $out {part}.d && $python -m orchestrator.package.bitcode $out.rsp {part}.d && "
            f"${{ar_{abi}}} rcsD {part} @{part}.d/members && rm -r {part}.d && mv {part} $out"
        ),
        rspfile="$out.rsp",
        rspfile_content="$in_newline",
        description="archive $out",
    )


def _static_rules(writer: Any, abi: str) -> None:
    """What static libraries need besides: see pipeline/static_links.py."""
    part = "$out.$$$$.part"
    for kind, command in (
        ("relocatable", f"${{cxx_{abi}}} -r -nostdlib $flags $in -o {part} && mv {part} $out"),
        ("left_out", "$python -m orchestrator.package.left_out $in $out"),
        ("object", f"${{cxx_{abi}}} $flags -c $in -o {part} && mv {part} $out"),
    ):
        writer.rule(f"{kind}_{abi}", command=command, description="link $out")


def _compile(writer: Any, action: Compile, heavy: bool) -> None:
    variables = {"flags": _flags(action.flags), "unit": action.unit}
    read_first = [] if action.pch is None else [("-include-pch", action.pch.output)]
    if action.projection is not None:
        read_first.append(("-include", projection_path(action.projection)))
    if read_first:
        variables["include"] = _flags(part for pair in read_first for part in pair)
    writer.build(
        _path(action.object),
        f"{'cxx' if action.language == 'c++' else 'cc'}_{action.abi}",
        inputs=_path(action.source),
        implicit=[path for _, path in read_first],
        variables=variables,
        pool="heavy" if heavy else None,
    )


def _precompile(writer: Any, action: Precompile) -> None:
    writer.build(
        action.output,
        f"pch_{action.abi}",
        inputs=_path(action.source),
        variables={"flags": _flags(action.flags), "unit": action.source.rpartition("/")[2]},
    )


def _link(writer: Any, link: Link) -> None:
    objects = [_path(path) for path in (*link.whole, *link.by_need)]
    writer.build(
        _path(link.output),
        f"{link.kind}_{link.abi}",
        inputs=objects,
        implicit=[_path(path) for path in link.inputs],
        variables={"flags": _flags(link.flags)},
    )


def projection_path(digest: str) -> str:
    """Where a projection header lives, by content."""
    return f"$cache/projections/{digest}.h"


def _path(path: str) -> str:
    """Paths keep their leading `$variable`; what follows is ours and needs no escaping."""
    return path


def _flags(flags: Iterable[str]) -> str:
    """Flags for the shell: a folder that a `$variable` stands for may have a space in its name."""
    special = '$()<>;&|*" '
    return " ".join(f"'{flag}'" if any(c in flag for c in special) else flag for flag in flags)
