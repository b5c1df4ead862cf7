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
    ActionGraph,
    Compile,
    Link,
    Precompile,
    compile_words,
    precompile_words,
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
# An archive's list of objects, written before ninja runs. Not a response file of ninja's, which
# removes it: the ninja of a killed build may still be at work, and take the next one's.
_MEMBERS = ".members"
# A path that leaves the folder that a variable stands for.
_BESIDE = re.compile(r"\$\w+/(?:[^\s=]*/)?\.\.(?:/|$)")
# Flags, as they stand in a command.
Quote = Callable[[Iterable[str]], str]
# Kinds of links that run a step of ours.
_OWN_STEPS = frozenset({"left_out", "code_archive", "extensible"})
# Rules that every ABI has, and those that come with one of these kinds of links.
_LINKS = ("shared", "executable", "archive")
_WITH: Mapping[str, tuple[str, ...]] = {
    "relocatable": ("relocatable", "left_out", "object"),
    "code_archive": ("code_archive",),
    "extensible": ("extensible",),
}
_ARCHIVES = frozenset({"archive", "code_archive"})


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
    present     what exists already: objects and precompiled headers, as their actions name them,
                and linked files
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
        _rules(writer, abi, launched=abi in (launchers or {}))
        kinds = {link.kind for link in graph.links if link.abi == abi}
        _link_rules(
            writer, abi, always, [*_LINKS, *(r for k in _WITH if k in kinds for r in _WITH[k])]
        )
    todo = [graph.compiles[path] for path in sorted(graph.compiles) if path not in present]
    for output, header in sorted(precompiled_headers(todo).items()):
        if output not in present:
            _precompile(writer, header, quote)
    for action in todo:
        _compile(writer, action, quote, heavy=action.cost >= heavy_cost)
    links = [link for link in graph.links if link.output not in present]
    for link in sorted(links, key=lambda link: link.output):
        _link(writer, link, quote)
    if links:
        writer.newline()
        writer.default([_path(link.output) for link in sorted(links, key=lambda x: x.output)])
    return stream.getvalue()


def _rules(writer: Any, abi: str, launched: bool) -> None:
    # Next to the output, and renamed at the end: outputs are complete even if a run is killed. The
    # run's own name comes from the environment, so that the command is the same in every run:
    # compilers of a run that was killed may still be at work in the next one.
    part, depfile = _PART, f"$out.$${RUN}.d"
    launcher = f"${{launcher_{abi}}} " if launched else ""
    moved = f"&& mv {depfile} $out.d && mv {part} $out"
    words = " ".join(compile_words(["$flags"], ["$include"], depfile, "$in", part))
    for verb in ("cxx", "cc"):
        writer.rule(
            f"{verb}_{abi}",
            command=f"{launcher}${{{verb}_{abi}}} {words} {moved}",
            depfile="$out.d",
            deps="gcc",
            description="$unit",
        )
    words = " ".join(precompile_words(["$flags"], depfile, "$in", part))
    writer.rule(
        f"pch_{abi}",
        command=f"${{cxx_{abi}}} {words} {moved}",
        depfile="$out.d",
        deps="gcc",
        description="precompile $unit",
    )


def link_commands(abi: str, link: str) -> dict[str, str]:
    """Kind of link -> its command, with variables of ninja for all that is of a machine.

    link: the flags of every link, quoted for ninja
    """
    part = _PART
    moved = f"-o {part} && mv {part} $out"
    again = "$python -P -m orchestrator.compilers.relink --by-compiler"
    return {
        "shared": f"${{cxx_{abi}}} -shared $flags $in {link} {moved}",
        "executable": f"${{cxx_{abi}}} $flags $in {link} {moved}",
        # `D`: no times and no owners, so that equal objects make equal archives
        "archive": f"${{ar_{abi}}} rcsD {part} @$out{_MEMBERS} && mv {part} $out",
        "code_archive": (
            f"$python -P -m orchestrator.binary.bitcode $out{_MEMBERS} {part}.d && "
            f"${{ar_{abi}}} rcsD {part} @{part}.d/members && rm -r {part}.d && mv {part} $out"
        ),
        # `shared` of a compiler that links twice: see compilers/relink.py
        "extensible": f"{again} ${{cxx_{abi}}} -shared $flags $in {link} {moved}",
        # of static libraries: see plan/static_links.py
        "relocatable": f"${{cxx_{abi}}} -r -nostdlib $flags $in {moved}",
        "left_out": "$python -P -m orchestrator.binary.dead_stubs $in $out",
        "object": f"${{cxx_{abi}}} $flags -c $in {moved}",
    }


def _link_rules(writer: Any, abi: str, link: str, kinds: Iterable[str]) -> None:
    commands = link_commands(abi, link)
    for kind in kinds:
        verb = "archive" if kind in _ARCHIVES else "link"
        writer.rule(f"{kind}_{abi}", command=commands[kind], description=f"{verb} $out")


def member_lists(links: Iterable[Link], fill: Callable[[str], str]) -> dict[str, str]:
    """The files that the archives' commands read, by path (`$state/...`): their objects, as
    archivers and `binary.bitcode` read them, quoted like words of a shell.

    fill: replaces the names of folders in a path
    """
    return {
        f"{link.output}{_MEMBERS}": "".join(
            f"{shlex.quote(fill(path))}\n" for path in (*link.whole, *link.on_demand)
        )
        for link in links
        if link.kind in _ARCHIVES
    }


def _compile(writer: Any, action: Compile, quote: Quote, heavy: bool) -> None:
    variables = {"flags": quote(action.flags), "unit": ninja_syntax.escape(action.unit)}
    read_first = action.read_first
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
    listed = [f"{link.output}{_MEMBERS}"] if link.kind in _ARCHIVES else []
    writer.build(
        _path(link.output),
        f"{link.kind}_{link.abi}",
        inputs=objects,
        implicit=[_path(path) for path in (*link.inputs, *listed)],
        variables={"flags": quote(link.flags)},
    )


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
        # a folder may be a copy, or lie elsewhere: nothing is beside it
        assert not _BESIDE.search(flag), f"a path leaves its folder: {flag}"
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
