"""The files that the result of a build depends on: those that it read, looked for and wrote.

The next build with the same arguments is up to date while all of them are unchanged
(`commands/replay.py`). So this must cover every change that an ordinary build would notice.
Environment variables record themselves (`system/environment.py`).

PyTorch's headers, 4,000 per ABI, are represented by their folders: in the cache they are verified
when they are fetched (`fetch --verify` repeats this), and in dist/ `verify` compares each of them.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.build.delivering.signing_key import key_files
from orchestrator.build.workshop.fetch import MARKER
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.canonical.lock import files_of
from orchestrator.compilers.command import places_of
from orchestrator.compilers.registry import COMPILERS
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.deliver.record import FOLDER
from orchestrator.deliver.variant import DeliverInputs
from orchestrator.load.declared import App
from orchestrator.load.sources import HEADERS, found_sources
from orchestrator.load.workspace import BUILT_IN, FILE, expand
from orchestrator.platforms import PLATFORMS
from orchestrator.trace.lock import lock_path, runs_path
from orchestrator.values.action import ActionGraph
from orchestrator.values.config.toolchain import Emulator
from orchestrator.values.labels import VariantLabel

_HEADERS = "include"


@dataclass(frozen=True)
class InputsRead:
    """Files, and folders, of which the names inside count. All paths are absolute.

    read      what a build reads and did not make
    sought    places at which it looks for something, found or not
    made      what it made, or an earlier one did: in the cache, the workspace's state and dist/
    objects   what it linked, and made of it: hard links of the cache's, which other workspaces link
              too
    patterns  folder and glob pattern: every match is read
    """

    read: frozenset[Path]
    sought: frozenset[Path]
    made: frozenset[Path]
    objects: frozenset[Path]
    patterns: tuple[tuple[Path, str], ...]


def inputs_read(
    here: Invocation,
    labels: Sequence[VariantLabel],
    graph: ActionGraph,
    deliveries: Iterable[DeliverInputs],
) -> InputsRead:
    """All files and patterns whose change can change the result of a build of these labels.

    labels      the variants, which have been built successfully
    graph       the actions of the build
    deliveries  what their folders in dist/ were made from

    `commands/replay.py` compares them at the next build.
    """
    root = here.context.root
    apps = here.workspace.apps_of(labels)
    read = {root / FILE, *_models(here), *_traces(apps), *_python()}
    sought = {*_pins(here), *_launcher(here), *key_files(here)}
    made = {*_runtime(here), *_delivered(here, apps)}
    # what says how they are made
    made.add(here.context.state / "build.ninja")
    outputs = (*graph.compiles, *(link.output for link in graph.links))
    objects = frozenset(map(Path, map(here.runtimes.fill, outputs)))
    for toolchain in (here.toolchains.of(abi) for abi in sorted({one.abi for one in labels})):
        read.update(_compiler(toolchain))
        sought.update(_beside_compiler(toolchain), _looked_for(here, toolchain))
        made.update(files_and_folders(toolchain.cxx.parent))
    for inputs in deliveries:
        made.update(_delivered_from(inputs))
    return InputsRead(
        read=frozenset(read),
        sought=frozenset(sought),
        made=frozenset(made),
        objects=objects,
        # as load_workspace reads them
        patterns=(
            (root, "toolchains/*.y*ml"),
            (root, "apps/*/app.y*ml"),
            (BUILT_IN, "toolchains/*.yaml"),
            *_sources(here),
        ),
    )


def _models(here: Invocation) -> Iterator[Path]:
    """The models of all apps: loading a workspace looks at each."""
    for app in here.workspace.apps.values():
        for model in app.config.models:
            yield from files_of(app, model)


def _sources(here: Invocation) -> Iterator[tuple[Path, str]]:
    """Yield the folders and patterns by which all apps' own sources, their headers and licences are
    found, symbolic links included."""
    for app in here.workspace.apps.values():
        config = app.config.sources
        if config is not None:
            kernels = config.kernels.files if config.kernels else ()
            yield from ((app.folder, pattern) for pattern in (*config.files, *kernels))
            found = found_sources(app, config).files
            folders = {*config.include, *(path.rpartition("/")[0] for path in found)}
            for folder in sorted(folders):
                yield from ((app.folder / folder, f"**/*{ending}") for ending in HEADERS)
            if config.licence is not None:
                yield app.folder, config.licence.file


def _traces(apps: Iterable[App]) -> Iterator[Path]:
    for app in apps:
        for model in app.config.models:
            yield lock_path(app.folder, model.name)
            yield runs_path(app.folder, model.name)


def _python() -> Iterator[Path]:
    """The interpreter, and the folders whose names tell the versions of installed packages."""
    yield Path(sys.executable)
    yield from (Path(sysconfig.get_path(name)) for name in ("purelib", "platlib"))


def _pins(here: Invocation) -> Iterator[Path]:
    """The declared paths to source trees; expanding them notes their variables."""
    context = here.context
    sources = [
        source
        for pin in (runtime.pin for runtime in here.runtimes.prepared)
        for sources in (
            pin.sources,
            *(one.sources for one in pin.third_party.values()),
            *(one.sources for one in pin.libraries.values()),
        )
        for source in sources
    ]
    for source in sources:
        path = None if source.path is None else expand(source.path, context.root, context.env)
        if path is not None:
            yield path


def _runtime(here: Invocation) -> Iterator[Path]:
    """The marks by which the cache's trees are known to be whole, and what was made of them."""
    for runtime in here.runtimes.prepared:
        trees = [runtime.fetched.tree, *runtime.fetched.libraries.values()]
        for name, include in runtime.fetched.third_party.items():
            below = Path(runtime.pin.third_party[name].include)
            trees.append(include.parents[len(below.parts) - 1])
        yield from (tree / MARKER for tree in trees)
        yield from (runtime.generated, runtime.configured)


def _delivered_from(inputs: DeliverInputs) -> Iterator[Path]:
    yield from {Path(header.source).parent for header in inputs.headers}
    yield inputs.c_header
    for part in inputs.licences:
        yield from (text for text in part.texts.values() if isinstance(text, Path))
    yield from inputs.beside


def _delivered(here: Invocation, apps: Iterable[App]) -> Iterator[Path]:
    """The apps' folders in dist/, of all their ABIs: packages join them."""
    for app in apps:
        folder = here.context.dist / app.name
        yield from files_and_folders(folder / FOLDER)
        for abi in app.config.targets:
            yield from files_and_folders(folder / abi, by_folder=folder / abi / _HEADERS)


def files_and_folders(folder: Path, by_folder: Path | None = None) -> Iterator[Path]:
    """The folder, there or not, and all that is below it; of what is in `by_folder` only folders.

    A link to a folder is not followed.
    """
    yield folder
    headers = None if by_folder is None else str(by_folder)
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in folders)
        if headers is None or not f"{place}/".startswith(f"{headers}/"):
            yield from (Path(place, name) for name in files)


def _compiler(toolchain: ResolvedToolchain) -> Iterator[Path]:
    """The programs of a toolchain, and the files that say which release they are of."""
    driver = toolchain.driver
    yield from _programs(toolchain)
    yield from driver.beside
    yield from COMPILERS[toolchain.config.compiler.kind].release_files(driver, toolchain.runner)


def _programs(toolchain: ResolvedToolchain) -> Iterator[Path]:
    """Yield the programs that a toolchain's wrappers run, but for those named without a path (`env
    ZIG_LIBC=... zig`)."""
    words = (Path(argv[0]) for argv in toolchain.driver.commands.values())
    return (word for word in words if word.is_absolute())


def _beside_compiler(toolchain: ResolvedToolchain) -> Iterator[Path]:
    """Yield files that a toolchain may have: licence texts, and the linker that its compiler
    runs."""
    for part in toolchain.driver.linked:
        yield from part.texts.values()
    yield from (program.with_name("ld.lld") for program in _programs(toolchain))


def _looked_for(here: Invocation, toolchain: ResolvedToolchain) -> Iterator[Path]:
    """Yield the paths at which programs of this machine were looked for, by name."""
    env, config = here.context.env, toolchain.config
    yield from COMPILERS[config.compiler.kind].searched(
        config, toolchain.driver, env, toolchain.runner
    )
    if PLATFORMS[config.system].java:
        yield from _java(env)
    if isinstance(config.run, Emulator):
        yield from places_of(config.run.emulator[0], env.get("PATH"))
        yield from (Path(path) for path in [config.run.sysroot] if path is not None)
    if config.run != "none":
        prefix = here.toolchains.running(config.abi).prefix or ()
        yield from (Path(word) for word in prefix if word.startswith("/"))


def _java(env: Mapping[str, str]) -> Iterator[Path]:
    """javac, which makes an AAR's classes, and what says which JDK it is of."""
    home = env.get("JAVA_HOME")
    places = [*([Path(home, "bin/javac")] if home else []), *places_of("javac", env.get("PATH"))]
    yield from places
    for program in places:
        if program.is_file():
            jdk = program.resolve().parent.parent
            yield from (jdk / "release", jdk / "lib/modules")


def _launcher(here: Invocation) -> Iterator[Path]:
    launcher = here.workspace.config.launcher
    if launcher is not None:
        path = launcher.env.get("PATH") or here.context.env.get("PATH")
        yield from places_of(launcher.command[0], path)
