"""Writes an action graph as a Bazel workspace: the second output format of a plan, after ninja's.

Every action is a target with its inputs declared: whole source trees as directories, texts of the
cache as files, objects as labels.  Paths are relative to the workspace, so that an action is the
same on every machine and a remote cache can hold its output.  The rule uses only what Bazel has had
since 2.0 and still has: `ctx.actions.run`, `args`, `declare_file`.

A precompiled header is an action too.  clang makes the paths in it absolute, so it is given them
through `/proc/self/cwd`, which is the same path in every sandbox.

Pure: returns texts by path, and the folders and files that they need next to them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from orchestrator.values.action import (
    ActionGraph,
    Compile,
    Link,
    Precompile,
    compile_words,
    precompile_words,
    projection_path,
    read_first,
)

# Where the workspace has what is not generated for it.
SOURCES: Final = "sources"
# The same as an absolute path, for what is run in the folder where Bazel runs actions.
ABSOLUTE_SOURCES: Final = f"/proc/self/cwd/{SOURCES}"
# Either makes a folder a workspace: Bazel 9 knows the first alone, old ones the second alone.
WORKSPACE_MARKS: Final = ("MODULE.bazel", "WORKSPACE")
_VARIABLE = re.compile(r"\$(\w+)")
# A source in the user's cache: registrations include each other, and an app's own sources their
# headers; other texts stand alone.
_CACHED = re.compile(r"\$cache/(registrations/\w+/\w+|sources/\w+|[\w./-]+)")
# Not Starlark's: what an argument stands for in the rule below.
_OUT, _DEPFILE, _OTHERS, _PCH = "{out}", "{depfile}", "{others}", "{pch}"
_OBJECTS, _LIST = "{objects}", "{object_list}"

RULE: Final = """\
# Written by the orchestrator, not to be edited.

def _impl(ctx):
    out = ctx.actions.declare_file(ctx.attr.out)
    outputs = [out] + [ctx.actions.declare_file(name) for name in ctx.attr.others]
    inputs = ctx.files.srcs + ctx.files.objects + ctx.files.pch + [ctx.file.tool]
    args = ctx.actions.args()
    for word in ctx.attr.argv:
        if word == "{out}":
            args.add(out)
        elif word == "{depfile}":
            depfile = ctx.actions.declare_file(ctx.attr.out + ".d")
            outputs.append(depfile)
            args.add(depfile)
        elif word == "{others}":
            args.add_all(outputs[1:])
        elif word == "{pch}":
            args.add_all(ctx.files.pch)
        elif word == "{objects}":
            args.add_all(ctx.files.objects)
        elif word == "{object_list}":
            members = ctx.actions.declare_file(ctx.attr.out + ".members")
            ctx.actions.write(members, "".join([file.path + "\\n" for file in ctx.files.objects]))
            inputs.append(members)
            args.add(members, format = "@%s")
        else:
            args.add(word)
    ctx.actions.run(
        executable = ctx.file.tool,
        arguments = [args],
        inputs = inputs,
        outputs = outputs,
        env = ctx.attr.env,
        mnemonic = ctx.attr.mnemonic,
        progress_message = ctx.attr.progress,
    )
    results = [file for file in outputs if not file.path.endswith(".d")]
    return [DefaultInfo(files = depset(results))]

lta_action = rule(
    implementation = _impl,
    attrs = {
        "argv": attr.string_list(mandatory = True),
        "env": attr.string_dict(),
        "mnemonic": attr.string(mandatory = True),
        "objects": attr.label_list(allow_files = True),
        "others": attr.string_list(),
        "out": attr.string(mandatory = True),
        "pch": attr.label_list(allow_files = True),
        "progress": attr.string(mandatory = True),
        "srcs": attr.label_list(allow_files = True),
        "tool": attr.label(allow_single_file = True, mandatory = True),
    },
)
"""

# A source directory is an input by what is in it, not by its time.
BAZELRC: Final = """\
# Written by the orchestrator, not to be edited.
startup --host_jvm_args=-DBAZEL_TRACK_SOURCE_DIRECTORIES=1
"""


@dataclass(frozen=True)
class BazelTools:
    """A toolchain in the workspace.

    wrappers  verb -> text of a program that runs the compiler by a path in the workspace
    folders   names below `sources/` that these programs read
    link      flags of every link
    """

    wrappers: Mapping[str, str]
    folders: tuple[str, ...]
    link: tuple[str, ...]


@dataclass(frozen=True)
class BazelVariant:
    """One app for one ABI: what its target delivers.

    link        output of the link that makes the library, in the graph
    archives    outputs of further links that are delivered as they are
    stripped    whether the library is split in one to ship and its symbols
    """

    app: str
    abi: str
    link: str
    archives: tuple[str, ...]
    stripped: bool


@dataclass(frozen=True)
class BazelWorkspace:
    """Contents of a Bazel workspace.

    texts     path -> text
    programs  paths of the executable texts
    folders   names of folders to put below `sources/`, whole
    cached    files and folders of the user's cache to put below `sources/cache/`
    """

    texts: Mapping[str, str]
    programs: frozenset[str]
    folders: tuple[str, ...]
    cached: tuple[str, ...]


@dataclass(frozen=True)
class _Target:
    """One call of the rule."""

    package: str
    name: str
    out: str
    tool: str
    argv: tuple[str, ...]
    mnemonic: str
    progress: str
    srcs: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    pch: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"//{self.package}:{self.name}"

    def text(self) -> str:
        lines = [
            f"    name = {_string(self.name)},",
            f"    argv = {_strings(self.argv)},",
            '    env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},',
            f"    mnemonic = {_string(self.mnemonic)},",
            *((f"    objects = {_strings(self.objects)},",) if self.objects else ()),
            f"    out = {_string(self.out)},",
            *((f"    others = {_strings(self.others)},",) if self.others else ()),
            *((f"    pch = {_strings(self.pch)},",) if self.pch else ()),
            f"    progress = {_string(self.progress)},",
            *((f"    srcs = {_strings(self.srcs)},",) if self.srcs else ()),
            f"    tool = {_string(self.tool)},",
        ]
        return "\nlta_action(\n" + "\n".join(lines) + "\n)\n"


@dataclass(frozen=True)
class _Group:
    """Delivered files of a variant, as one target."""

    package: str
    name: str
    members: tuple[str, ...]

    def text(self) -> str:
        name, members = _string(self.name), _strings(self.members)
        return f"\nfilegroup(\n    name = {name},\n    srcs = {members},\n)\n"


def bazel_workspace(
    graph: ActionGraph,
    variants: Sequence[BazelVariant],
    toolchains: Mapping[str, BazelTools],
    texts: Mapping[str, str],
    folders: Collection[str],
) -> BazelWorkspace:
    """The workspace of a graph: a target `//apps/<app>:<abi>` for each variant.

    texts    file (`$cache/...`) -> text, of what is generated: those that actions read are written
    folders  the names that stand for folders in the graph's paths and flags
    """
    printer = _Printer(folders)
    links = _needed(graph, variants)
    reached = {path for link in links for path in (*link.whole, *link.on_demand)}
    compiles = {name: one for name, one in graph.compiles.items() if name in reached}
    headers = {
        one.pch.output: printer.precompile(one.pch, toolchains[one.abi])
        for one in compiles.values()
        if one.pch
    }
    objects = {name: printer.compile(one, toolchains[one.abi]) for name, one in compiles.items()}
    made = {link.output: printer.link(link, toolchains[link.abi]) for link in links}
    labels = {name: target.label for name, target in (*objects.items(), *made.items())}
    strips = [_strip(one, labels) for one in variants if one.stripped]
    groups = [_group(one, labels) for one in variants]
    targets = [
        *headers.values(),
        *objects.values(),
        *(replace(t, objects=tuple(labels[o] for o in t.objects)) for t in made.values()),
        *strips,
    ]
    start = f"//{SOURCES}:"
    labels_read = {label for target in targets for label in target.srcs}
    below = {label.removeprefix(start) for label in labels_read if label.startswith(start)}
    cached = {name for name in below if name.startswith("cache/")}
    of_apps = tuple(f"${name}/" for name in cached if name.startswith("cache/sources/"))
    generated = {
        path.removeprefix("$"): text
        for path, text in texts.items()
        if path.removeprefix("$") in cached or path.startswith(of_apps)
    }
    copied = {name for name in cached - generated.keys() if f"${name}/" not in of_apps}
    written = {
        ".bazelrc": BAZELRC,
        "WORKSPACE": 'workspace(name = "libtorch_variants")\n',
        "MODULE.bazel": 'module(name = "libtorch_variants")\n',
        "rules/BUILD.bazel": "",
        "rules/action.bzl": RULE,
        "tools/BUILD.bazel": _exports(["code_archive", "python"]),
        "tools/python": _PYTHON,
        f"{SOURCES}/BUILD.bazel": _exports(below),
        "tools/code_archive": _CODE_ARCHIVE,
        **{f"{SOURCES}/{name}": generated[name] for name in sorted(generated)},
        **{
            f"toolchains/{abi}/{verb}": text
            for abi, tools in toolchains.items()
            for verb, text in tools.wrappers.items()
        },
        **{
            f"toolchains/{abi}/BUILD.bazel": _exports(tools.wrappers)
            for abi, tools in toolchains.items()
        },
        **_packages([*targets, *groups]),
    }
    programs = {
        f"toolchains/{abi}/{verb}" for abi in toolchains for verb in toolchains[abi].wrappers
    }
    return BazelWorkspace(
        texts=written,
        programs=frozenset({*programs, "tools/code_archive", "tools/python"}),
        folders=tuple(sorted(below - cached)),
        cached=tuple(sorted(copied)),
    )


# Steps of ours: modules that need nothing but Python's own library.
_PYTHON = """\
#!/bin/sh
PYTHONPATH=sources/orchestrator PYTHONDONTWRITEBYTECODE=1 exec python3 -m "$@"
"""


# Tools that are steps of ours.
_STEPS = frozenset({"code_archive", "python"})
# ar, archive, @list of members: those without bitcode.
_CODE_ARCHIVE = """\
#!/bin/sh
set -eu
"${0%/*}/python" orchestrator.binary.bitcode "${3#@}" "$2.d"
"$1" rcsD "$2" "@$2.d/members"
rm -r "$2.d"
"""


def _needed(graph: ActionGraph, variants: Sequence[BazelVariant]) -> list[Link]:
    """The links behind what is delivered: not those of programs that run models."""
    by_output = {link.output: link for link in graph.links}
    todo = [output for variant in variants for output in (variant.link, *variant.archives)]
    found = dict[str, Link]()
    while todo:
        output = todo.pop()
        if output in by_output and output not in found:
            link = found[output] = by_output[output]
            todo += [*link.whole, *link.on_demand, *link.inputs]
    return [found[output] for output in sorted(found)]


@dataclass(frozen=True)
class _Printer:
    """Prints actions as targets, with these names for folders."""

    folders: Collection[str]

    def precompile(self, header: Precompile, tools: BazelTools) -> _Target:
        words = precompile_words(header.flags, _DEPFILE, header.source, _OUT)
        return _Target(
            package=f"objects/{header.abi}",
            name=f"{header.fingerprint}.pch",
            out=f"{header.fingerprint}.pch",
            tool=f"//toolchains/{header.abi}:cxx",
            argv=self._placed(words, ABSOLUTE_SOURCES),
            mnemonic="LtaPrecompile",
            progress=f"precompile {header.source.rpartition('/')[2]} ({header.abi})",
            srcs=self._read(words, tools.folders),
        )

    def compile(self, action: Compile, tools: BazelTools) -> _Target:
        header = action.pch
        projection = None if action.projection is None else projection_path(action.projection)
        pairs = read_first(None if header is None else _PCH, projection, action.behind)
        first = [word for pair in pairs for word in pair]
        words = compile_words(action.flags, first, _DEPFILE, action.source, _OUT)
        # clang looks again at what a precompiled header was made from
        behind = () if header is None else (*header.flags, header.source)
        return _Target(
            package=f"objects/{action.abi}",
            name=action.fingerprint,
            out=f"{action.fingerprint}.o",
            tool=f"//toolchains/{action.abi}:{'cxx' if action.language == 'c++' else 'cc'}",
            argv=self._placed(words),
            mnemonic="LtaCompile",
            progress=f"{action.unit} ({action.abi})",
            srcs=self._read((*words, *behind), tools.folders),
            pch=() if header is None else (f"//objects/{header.abi}:{header.fingerprint}.pch",),
        )

    def link(self, link: Link, tools: BazelTools) -> _Target:
        """The target of a link; its objects are outputs of the graph, where labels will stand."""
        app, _, file = link.output.removeprefix("$state/variants/").partition("/")
        verb, words, mnemonic = _link_words(link, tools)
        with_ar = link.kind == "code_archive"
        return _Target(
            package=f"apps/{app}",
            name=file.replace("/", "."),
            out=file,
            tool=f"//tools:{verb}" if verb in _STEPS else f"//toolchains/{link.abi}:{verb}",
            argv=self._placed(words),
            mnemonic=mnemonic,
            progress=f"link {app}/{file}",
            srcs=(
                *self._read((*words, *link.inputs), (*tools.folders, "orchestrator")),
                *((f"//toolchains/{link.abi}:ar", "//tools:python") if with_ar else ()),
            ),
            objects=(*link.whole, *link.on_demand),
        )

    def _placed(self, words: Iterable[str], sources: str = SOURCES) -> tuple[str, ...]:
        """Words with their folders as the workspace has them, below `sources`."""

        def folder(found: re.Match[str]) -> str:
            return f"{sources}/{found[1]}" if found[1] in self.folders else found[0]

        return tuple(_VARIABLE.sub(folder, word) for word in words)

    def _read(self, words: Iterable[str], always: Iterable[str]) -> tuple[str, ...]:
        """The labels of the files that these arguments name: folders, and files in the user's
        cache."""
        text = [*words]
        cached = {f"cache/{name}" for word in text for name in _CACHED.findall(word)}
        named = {name for word in text for name in _VARIABLE.findall(word)} & {*self.folders}
        return tuple(
            f"//{SOURCES}:{name}" for name in sorted({*named, *cached, *always} - {"cache"})
        )


def _link_words(link: Link, tools: BazelTools) -> tuple[str, tuple[str, ...], str]:
    """Verb, arguments and mnemonic: the commands of execute/ninja_file.py."""
    match link.kind:
        case "shared":
            words = ("-shared", *link.flags, _OBJECTS, *tools.link, "-o", _OUT)
            return "cxx", words, "LtaLink"
        case "extensible":
            # `export` refuses apps with libraries of this kind
            raise AssertionError(link.output)
        case "executable":
            return "cxx", (*link.flags, _OBJECTS, *tools.link, "-o", _OUT), "LtaLink"
        case "archive":
            return "ar", ("rcsD", _OUT, _LIST), "LtaArchive"
        case "code_archive":
            words = (f"toolchains/{link.abi}/ar", _OUT, _LIST)
            return "code_archive", words, "LtaArchive"
        case "relocatable":
            words = ("-r", "-nostdlib", *link.flags, _OBJECTS, "-o", _OUT)
            return "cxx", words, "LtaLink"
        case "left_out":
            return "python", ("orchestrator.binary.dead_stubs", _OBJECTS, _OUT), "LtaStubs"
        case "object":
            return "cxx", (*link.flags, "-c", _OBJECTS, "-o", _OUT), "LtaCompile"


def _strip(variant: BazelVariant, labels: Mapping[str, str]) -> _Target:
    """The library split as a delivery has it: the one to ship, and its symbols."""
    file = variant.link.rpartition("/")[2]
    module = "orchestrator.binary.elf_strip"
    return _Target(
        package=f"apps/{variant.app}",
        name=f"{variant.abi}.library",
        out=f"{variant.abi}/lib/{file}",
        others=(f"{variant.abi}/symbols/{file}.debug",),
        tool="//tools:python",
        argv=(module, _OBJECTS, _OUT, _OTHERS),
        mnemonic="LtaStrip",
        progress=f"strip {variant.app}/{variant.abi}",
        srcs=(f"//{SOURCES}:orchestrator",),
        objects=(labels[variant.link],),
    )


def _group(variant: BazelVariant, labels: Mapping[str, str]) -> _Group:
    package = f"apps/{variant.app}"
    library = f"//{package}:{variant.abi}.library" if variant.stripped else labels[variant.link]
    return _Group(package, variant.abi, (library, *(labels[path] for path in variant.archives)))


def _packages(targets: Iterable[_Target | _Group]) -> dict[str, str]:
    """BUILD files: one for each ABI's objects, one for each app."""
    found = dict[str, list[str]]()
    for target in sorted(targets, key=lambda target: (target.package, target.name)):
        found.setdefault(target.package, []).append(target.text())
    head = (
        "# Written by the orchestrator, not to be edited.\n"
        'load("//rules:action.bzl", "lta_action")\n\n'
        'package(default_visibility = ["//visibility:public"])\n'
    )
    return {f"{package}/BUILD.bazel": head + "".join(texts) for package, texts in found.items()}


def _exports(names: Iterable[str]) -> str:
    """Return the `exports_files` of a package: its files that other packages may name."""
    inner = "".join(f"    {_string(name)},\n" for name in sorted(names))
    return f"exports_files([\n{inner}])\n"


def _string(text: str) -> str:
    """A Starlark string: JSON's escapes are among Starlark's, and the rest is UTF-8 in both."""
    return json.dumps(text, ensure_ascii=False)


def _strings(texts: Iterable[str]) -> str:
    inner = "".join(f"        {_string(text)},\n" for text in texts)
    return f"[\n{inner}    ]"
