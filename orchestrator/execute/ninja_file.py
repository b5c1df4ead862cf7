"""Writes an action graph as `build.ninja`, through the `ninja_syntax` module of the ninja package.

Objects that the cache already holds get no edge: ninja treats them as sources.  Only the variables
at the top depend on the machine.

A folder has two variables: `$tree` for ninja, which quotes paths itself, and `$sh_tree` for flags,
quoted for the shell.  In a flag, `$` and the name of a folder is replaced by that folder; any other
`$`, quote or blank belongs to the flag and reaches the compiler unchanged.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, TypedDict

from ninja import ninja_syntax

from orchestrator.values.action import (
    PRECOMPILE_FLAGS,
    ActionGraph,
    Compile,
    Link,
    Precompile,
    precompiled_headers,
)


class Tools(TypedDict):
    """A toolchain's programs, and the flags of every link."""

    cxx: str
    cc: str
    ar: str
    link: tuple[str, ...]


# The environment's variable with a name for the run, in those of half-written files.
RUN = "ORCHESTRATOR_RUN"
_PART = f"$out.$${RUN}.part"
# Flags, as they stand in a command.
Quote = Callable[[Iterable[str]], str]
# Kinds of links that run a step of ours.
_OWN_STEPS = frozenset({"left_out", "code_archive", "extensible"})


def ninja_text(
    graph: ActionGraph,
    *,
    folders: Mapping[str, str],
    toolchains: Mapping[str, Tools],
    present: Collection[str],
    launchers: Mapping[str, str] | None = None,
    heavy_cost: float = 15.0,
    heavy_jobs: int = 2,
    python: str = "python3",
) -> str:
    """The text of build.ninja.

    folders     absolute folders by variable name (`cache`, `tree`, ...)
    toolchains  abi -> its tools
    present     objects and precompiled headers (as their actions name them) that exist already
    launchers   abi -> the prefix of its compile commands: a launcher with its variables
    heavy_cost  units of at least so many CPU seconds (and so much memory) run in a smaller pool,
                heavy_jobs at once
    python      the interpreter that runs our own steps
    """
    stream = io.StringIO()
    writer: Any = ninja_syntax.Writer(stream, width=100)  # type: ignore[arg-type]
    writer.comment("Written by the orchestrator; one graph for every app and ABI.")
    writer.variable("ninja_required_version", "1.10")
    quote = _quoting(folders)
    for name in sorted(folders):
        writer.variable(name, ninja_syntax.escape(folders[name]))
    for name in sorted(folders):
        writer.variable(f"sh_{name}", ninja_syntax.escape(shlex.quote(folders[name])))
    if any(link.kind in _OWN_STEPS for link in graph.links):
        writer.variable("python", ninja_syntax.escape(shlex.quote(python)))
    writer.variable("builddir", "$state")
    for abi in sorted(launchers or {}):
        writer.variable(f"launcher_{abi}", ninja_syntax.escape((launchers or {})[abi]))
    for abi in sorted(toolchains):
        verbs: tuple[Literal["ar", "cc", "cxx"], ...] = ("ar", "cc", "cxx")
        for verb in verbs:
            command = shlex.quote(toolchains[abi][verb])
            writer.variable(f"{verb}_{abi}", ninja_syntax.escape(command))
    writer.pool("heavy", heavy_jobs)
    for abi in sorted(toolchains):
        always = quote(toolchains[abi]["link"])
        _rules(writer, abi, always, launched=abi in (launchers or {}))
        kinds = {link.kind for link in graph.links if link.abi == abi}
        if "relocatable" in kinds:
            _static_rules(writer, abi)
        if "code_archive" in kinds:
            _code_archive_rule(writer, abi)
        if "extensible" in kinds:
            _extensible_rule(writer, abi, always)
    todo = [graph.compiles[path] for path in sorted(graph.compiles) if path not in present]
    for output, header in sorted(precompiled_headers(todo).items()):
        if output not in present:
            _precompile(writer, header, quote)
    for action in todo:
        _compile(writer, action, quote, heavy=action.cost >= heavy_cost)
    for link in sorted(graph.links, key=lambda link: link.output):
        _link(writer, link, quote)
    if graph.links:
        writer.newline()
        writer.default([_path(link.output) for link in sorted(graph.links, key=lambda x: x.output)])
    return stream.getvalue()


def _rules(writer: Any, abi: str, link: str, launched: bool) -> None:
    # Next to the output, and renamed at the end: outputs are complete even if a run is killed. The
    # run's own name comes from the environment, so that the command is the same in every run:
    # compilers of a run that was killed may still be at work in the next one.
    part, depfile = _PART, f"$out.$${RUN}.d"
    launcher = f"${{launcher_{abi}}} " if launched else ""
    for verb in ("cxx", "cc"):
        writer.rule(
            f"{verb}_{abi}",
            command=(
                f"{launcher}${{{verb}_{abi}}} $flags $include -MD -MF {depfile} "
                f"-c $in -o {part} && mv {depfile} $out.d && mv {part} $out"
            ),
            depfile="$out.d",
            deps="gcc",
            description="$unit",
        )
    writer.rule(
        f"pch_{abi}",
        command=(
            f"${{cxx_{abi}}} $flags {' '.join(PRECOMPILE_FLAGS)} -MD -MF {depfile} "
            f"$in -o {part} && mv {depfile} $out.d && mv {part} $out"
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
    part = _PART
    writer.rule(
        f"code_archive_{abi}",
        command=(
            f"rm -rf $out {part}.d && "
            f"$python -P -m orchestrator.binary.bitcode $out.rsp {part}.d && "
            f"${{ar_{abi}}} rcsD {part} @{part}.d/members && rm -r {part}.d && mv {part} $out"
        ),
        rspfile="$out.rsp",
        rspfile_content="$in_newline",
        description="archive $out",
    )


def _extensible_rule(writer: Any, abi: str, link: str) -> None:
    """The rule `shared` of a compiler that links twice: see compilers/relink.py."""
    again = "$python -P -m orchestrator.compilers.relink --by-compiler"
    writer.rule(
        f"extensible_{abi}",
        command=(f"{again} ${{cxx_{abi}}} -shared $flags $in {link} -o {_PART} && mv {_PART} $out"),
        description="link $out",
    )


def _static_rules(writer: Any, abi: str) -> None:
    """The additional rules of static libraries: see plan/static_links.py."""
    part = _PART
    for kind, command in (
        ("relocatable", f"${{cxx_{abi}}} -r -nostdlib $flags $in -o {part} && mv {part} $out"),
        ("left_out", "$python -P -m orchestrator.binary.dead_stubs $in $out"),
        ("object", f"${{cxx_{abi}}} $flags -c $in -o {part} && mv {part} $out"),
    ):
        writer.rule(f"{kind}_{abi}", command=command, description="link $out")


def _compile(writer: Any, action: Compile, quote: Quote, heavy: bool) -> None:
    variables = {"flags": quote(action.flags), "unit": ninja_syntax.escape(action.unit)}
    read_first = [] if action.pch is None else [("-include-pch", action.pch.output)]
    if action.projection is not None:
        read_first.append(("-include", projection_path(action.projection)))
    read_first += [("-include", header) for header in action.behind]
    if read_first:
        variables["include"] = quote(part for pair in read_first for part in pair)
    writer.build(
        _path(action.object),
        f"{'cxx' if action.language == 'c++' else 'cc'}_{action.abi}",
        inputs=_path(action.source),
        implicit=[path for _, path in read_first],
        variables=variables,
        pool="heavy" if heavy else None,
    )


def _precompile(writer: Any, action: Precompile, quote: Quote) -> None:
    writer.build(
        action.output,
        f"pch_{action.abi}",
        inputs=_path(action.source),
        variables={"flags": quote(action.flags), "unit": action.source.rpartition("/")[2]},
    )


def _link(writer: Any, link: Link, quote: Quote) -> None:
    objects = [_path(path) for path in (*link.whole, *link.on_demand)]
    writer.build(
        _path(link.output),
        f"{link.kind}_{link.abi}",
        inputs=objects,
        implicit=[_path(path) for path in link.inputs],
        variables={"flags": quote(link.flags)},
    )


def projection_path(digest: str) -> str:
    """The path of a projection header, named by the digest of its text."""
    return f"$cache/projections/{digest}.h"


def _path(path: str) -> str:
    """Paths keep their leading `$variable`; what follows is ours and needs no escaping."""
    return path


def _quoting(folders: Collection[str]) -> Quote:
    """Quotes flags for the shell and for ninja, with these names for folders."""
    longest_first = sorted(folders, key=len, reverse=True)
    known = re.compile(rf"\$({'|'.join(map(re.escape, longest_first))})(?!\w)")

    def quote(flags: Iterable[str]) -> str:
        return " ".join(map(one, flags))

    def one(flag: str) -> str:
        # Pieces in turn: text, the name of a folder, text, ... The shell joins what has no blank
        # between: -I/home/me' 'x/include
        pieces = known.split(flag) if folders else [flag]
        text = "".join(
            f"${{sh_{piece}}}" if number % 2 else _literal(piece)
            for number, piece in enumerate(pieces)
        )
        return text or "''"

    return quote


def _literal(text: str) -> str:
    """A literal part of a flag: quoted for the shell, then for ninja."""
    if "\n" in text:
        raise ValueError(f"ninja cannot express a line break: {text!r}")
    return str(ninja_syntax.escape(shlex.quote(text))) if text else ""
