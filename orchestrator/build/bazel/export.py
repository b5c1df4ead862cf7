"""Exports a plan as a Bazel workspace: a folder that depends on nothing else on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.build.executing.execute import shards_of
from orchestrator.build.planning.links import VariantLinks
from orchestrator.build.planning.plan import Variant, plan_variants
from orchestrator.build.workshop.fetch import MARKER
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.native import NATIVE
from orchestrator.compilers.driver import Driver
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.compilers.stub_sysroot import HEADERS, LIBC
from orchestrator.compilers.wrappers import wrapper_texts
from orchestrator.errors import OrchestratorError
from orchestrator.execute.bazel import (
    ABSOLUTE_SOURCES,
    SOURCES,
    WORKSPACE_MARKS,
    BazelTools,
    BazelVariant,
    BazelWorkspace,
    bazel_workspace,
)
from orchestrator.plan.graph import action_graph, texts_of
from orchestrator.system.folders import ensure_folder, is_ours, remove_folder
from orchestrator.values.labels import VariantLabel

_PACKAGE = NATIVE.parent
# Folders of C libraries that zig brings for systems that no toolchain of ours names: 9,000 files.
_FOREIGN = ("*netbsd*", "*openbsd*", "*freebsd*", "*windows*", "*wasi*", "mingw")


class NotExportedError(OrchestratorError):
    """A variant that only a build here can make."""


def export_bazel(here: Invocation, labels: Sequence[VariantLabel], folder: Path) -> None:
    """Write the plan of all labels into `folder`, which is ours or empty.

    Raises NotExportedError, FolderNotOursError, and what planning raises.
    """
    _require_free(folder)
    variants = plan_variants(here, labels)
    for variant in variants:
        if variant.objects.plan.spec.extensible:
            raise NotExportedError(
                f"{variant.label} takes add-ons, and Bazel does not build such libraries yet",
                place=variant.app.place,
                expected="an app without `extensible: true`",
                seen="extensible: true",
                hint="build it with ./orchestrate build",
            )
    graph = action_graph(
        (variant.objects for variant in variants),
        (link for variant in variants for link in variant.links.all),
    )
    abis = sorted({one.abi for one in graph.compiles.values()})
    toolchains = {abi: here.toolchains.of(abi) for abi in abis}
    places = {abi: _places(here, toolchain) for abi, toolchain in toolchains.items()}
    exported = bazel_workspace(
        graph,
        [_exported(variant) for variant in variants],
        {abi: _tools(toolchain, places[abi]) for abi, toolchain in toolchains.items()},
        {**texts_of(variant.objects for variant in variants), **shards_of(here, graph)},
        here.runtimes.folders,
    )
    sources = {name: Path(path) for name, path in here.runtimes.folders.items()}
    sources |= {name: Path(path) for every in places.values() for path, name in every.items()}
    _write(exported, folder, sources, here.context.texts)


def _require_free(folder: Path) -> None:
    if folder.exists() and not is_ours(folder):
        ensure_folder(folder, "export")


def _exported(variant: Variant) -> BazelVariant:
    app, abi = variant.label.app, variant.label.abi
    links = variant.links
    if isinstance(links, VariantLinks):
        archives = (links.registrations.output, links.core.output)
        return BazelVariant(app, abi, links.shared.output, archives, stripped=True)
    return BazelVariant(app, abi, links.library.output, (), stripped=False)


def _places(here: Invocation, toolchain: ResolvedToolchain) -> dict[str, str]:
    """Absolute paths in the compiler's commands -> names below `sources/`."""
    places = {str(NATIVE): "native", str(HEADERS): "stub_headers"}
    zig = toolchain.driver.zig
    if zig is not None:
        places |= {str(Path(zig).parent / "lib"): "zig", str(zig): "zig_program/zig"}
    cache = here.context.cache / "toolchains"
    words = [word for command in toolchain.driver.commands.values() for word in command]
    # none where the cache is read-only and has no wrappers of this installation
    places |= {str(made): f"toolchain_{toolchain.abi}" for made in cache.glob("*")}
    return {path: name for path, name in places.items() if any(path in word for word in words)}


def _tools(toolchain: ResolvedToolchain, places: Mapping[str, str]) -> BazelTools:
    driver = toolchain.driver
    commands = {
        verb: _relative(driver, command, places) for verb, command in driver.commands.items()
    }
    relink = ("python3", "-I", f"{SOURCES}/orchestrator/orchestrator/compilers/relink.py")
    moved = replace(
        driver,
        commands=commands,
        zig=None if driver.zig is None else f"{ABSOLUTE_SOURCES}/zig_program/zig",
    )
    folders = {name.partition("/")[0] for name in places.values()}
    return BazelTools(
        wrappers=wrapper_texts(moved, relink),
        folders=tuple(sorted(folders | ({"zig"} if driver.zig is not None else set()))),
        link=toolchain.link_flags,
    )


def _relative(driver: Driver, command: Iterable[str], places: Mapping[str, str]) -> tuple[str, ...]:
    """A command with its paths as the workspace has them; zig is told where its library is."""
    words = [_moved(word, places) for word in command]
    library = ["env", f"ZIG_LIB_DIR={ABSOLUTE_SOURCES}/zig"] if driver.zig is not None else []
    return (*library, *words)


def _moved(text: str, places: Mapping[str, str]) -> str:
    for path in sorted(places, key=len, reverse=True):
        text = text.replace(path, f"{ABSOLUTE_SOURCES}/{places[path]}")
    return text


def _write(
    exported: BazelWorkspace, folder: Path, sources: Mapping[str, Path], cache: Path
) -> None:
    """Write it all, `WORKSPACE_MARKS` last: Bazel takes a half-written folder for no workspace."""
    if is_ours(folder):
        remove_folder(folder)
    ensure_folder(folder, "export")
    below = folder / SOURCES
    for name in exported.folders:
        if name == "orchestrator":
            _copy_package(below / name / "orchestrator")
        elif name in sources:
            _copy(sources[name], below / name)
        else:
            _copy(sources[f"{name}/zig"], below / name / "zig")
    for name in exported.cached:
        _copy(cache / name.removeprefix("cache/"), below / name)
    for path in sorted(exported.texts, key=lambda path: (path in WORKSPACE_MARKS, path)):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(exported.texts[path], encoding="utf-8")
        if path in exported.programs:
            target.chmod(0o755)


def _copy_package(target: Path) -> None:
    """Our own modules: what steps of a link run."""
    for file in sorted(_PACKAGE.rglob("*.py")):
        copy = target / file.relative_to(_PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


# What Python made of a source here, and when, and how a tree came here: every action's key would be
# this machine's own.
_of_here = shutil.ignore_patterns("__pycache__", MARKER)


def _unused_zig(folder: str, names: list[str]) -> set[str]:
    """Names to leave out of the copy of zig: those in `_FOREIGN` below `libc/`, and this machine's
    own files. zig needs all others for the libraries that it compiles itself."""
    foreign = _FOREIGN if Path(folder).name in ("libc", "include") else ()
    return _of_here(folder, names) | shutil.ignore_patterns(*foreign)(folder, names)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=_unused_zig if target.name == "zig" else _of_here)
        if (described := target / LIBC).is_file():
            here = f"{ABSOLUTE_SOURCES}/{target.name}"
            described.write_text(
                described.read_text(encoding="utf-8").replace(str(source), here), encoding="utf-8"
            )
    else:
        shutil.copy(source, target)
