"""What a compiler reads is what the object's identity names, or less: on every runtime and ABI."""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from real import ROOT

from orchestrator.build.executing.execute import shards_of
from orchestrator.build.explaining.action_details import shared_details
from orchestrator.build.planning.plan import plan_variants
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.native import NATIVE
from orchestrator.cli import make_context
from orchestrator.compilers.resolve import compiler_environment
from orchestrator.plan.graph import action_graph, texts_of
from orchestrator.system.staging import write_if_changed
from orchestrator.values.action import Compile, projection_path
from orchestrator.values.fingerprint import Identity
from orchestrator.values.labels import VariantLabel

pytestmark = [pytest.mark.real, pytest.mark.ci_only]
HOST = "linux-x86_64"
# For other ABIs than this machine's, of the ways in which units are compiled for a runtime.
MOST = 8


@dataclass(frozen=True)
class Planned:
    """Every app for every ABI. details: digest among identities' parts -> what it is made of."""

    here: Invocation
    actions: tuple[Compile, ...]
    details: Mapping[str, Mapping[str, object]]


@pytest.fixture(scope="module")
def planned() -> Planned:
    context = make_context(argparse.Namespace(workspace=str(ROOT)), os.environ, ROOT)
    here = load(context, lambda line: None)
    labels = [
        VariantLabel(name, target)
        for name, app in here.workspace.apps.items()
        for target in app.config.targets
    ]
    here.runtimes.prepare({label.app for label in labels})
    variants = plan_variants(here, labels)
    graph = action_graph((one.objects for one in variants), ())
    runners = (action for one in variants for action in one.links.runner_compiles)
    texts = {**texts_of(one.objects for one in variants), **shards_of(here, graph)}
    for file, text in texts.items():
        write_if_changed(Path(here.runtimes.fill(file)), text)
    abis = {label.abi for label in labels}
    return Planned(here, (*graph.compiles.values(), *runners), shared_details(here, abis))


def test_all_that_is_read_is_named(planned: Planned, tmp_path: Path) -> None:
    chosen = list(one_of_each_way(planned.actions))
    assert {
        "linux-x86_64",
        "linux-arm64",
        "linux-arm64-musl",
        "ios-arm64",
        "android-arm64-v8a",
    } <= {action.abi for action in chosen}

    def read(numbered: tuple[int, Compile]) -> list[str]:
        number, action = numbered
        return unnamed(planned, action, tmp_path / f"{number}.d")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [*pool.map(read, enumerate(chosen))]
    assert {f"{a.abi} {a.unit}": f for a, f in zip(chosen, found, strict=True) if f} == {}
    read_first = {one.unit for one in chosen if "included" in one.parts}
    assert {"c10/util/StringUtil.cpp", "torch/csrc/jit/mobile/import.cpp"} <= read_first


def one_of_each_way(actions: Iterable[Compile]) -> Iterator[Compile]:
    """An action for each way of compiling: same flags, same headers of ours."""
    ways = defaultdict[tuple[str, str], dict[object, Compile]](dict)
    for action in actions:
        if action.members or action.source.startswith(("$cache/", "$zig/")):
            continue
        own = tuple(f"{k} {v}" for k, v in action.parts.items() if k in _OF_OURS)
        runtime = str(action.parts.get("runtime"))
        ways[action.abi, runtime].setdefault((action.flags, own), action)
    chance = random.Random(1)
    for (abi, _), several in sorted(ways.items()):
        all_ways = sorted(several.values(), key=lambda one: (one.unit, one.flags))
        yield from all_ways if abi == HOST else chance.sample(all_ways, min(MOST, len(all_ways)))


_OF_OURS = frozenset({"included", "flagged", "own", "threading", "native"})


def unnamed(planned: Planned, action: Compile, depfile: Path) -> list[str]:
    """The files that a compiler reads for an action, without its precompiled header, and that the
    action's identity does not name."""
    here = planned.here
    fill = here.runtimes.fill
    first = list(action.behind)
    if action.projection is not None:
        first.insert(0, projection_path(action.projection))
    argv = [str(here.toolchains.of(action.abi).cxx), *map(fill, action.flags)]
    argv += [word for path in first for word in ("-include", fill(path))]
    argv += ["-M", "-MF", str(depfile), fill(action.source)]
    env = compiler_environment(here.context.cache, os.environ)
    done = subprocess.run(argv, env=env, cwd=here.context.cache, capture_output=True, text=True)
    assert done.returncode == 0, f"{action.unit}: {done.stderr}"
    # blanks in a path have a backslash before them
    words = re.split(r"(?<!\\)\s+", depfile.read_text().replace("\\\n", " ").partition(": ")[2])
    paths = {Path(here.context.cache, word.replace("\\ ", " ")).resolve() for word in words if word}
    named = names_in(planned, action.identity)
    return sorted(str(path) for path in paths if not is_named(here, action, path, named))


def is_named(here: Invocation, action: Compile, path: Path, named: frozenset[str]) -> bool:
    commands = here.toolchains.of(action.abi).driver.commands.values()
    if any(str(path) == word for command in commands for word in command):
        return True  # the compiler's own identity has it: see compilers/stub_sysroot.py
    if path.is_relative_to(NATIVE):
        return path.relative_to(NATIVE).as_posix() in named
    folders = {name: Path(folder).resolve() for name, folder in here.runtimes.folders.items()}
    for name, folder in folders.items():
        if name.startswith("overlay") and path.is_relative_to(folder):
            return f"overlay/{path.relative_to(folder).as_posix()}" in named
    of_library = [f for name, f in folders.items() if name.startswith("library_")]
    if any(path.is_relative_to(folder) for folder in of_library):
        return "library" in parts_in(action.identity)
    # whole trees, by their digests: the runtime's, and the compiler's
    parts = ("tree", "generated", "configured", "third_party")
    trees = [f for name, f in folders.items() if name.startswith(parts)]
    cache = here.context.cache.resolve()
    of_compiler = [folders["zig"], NATIVE.parent / "compilers", cache / "toolchains"]
    by_digest = cache / "projections"
    if any(path.is_relative_to(tree) for tree in trees):
        return "runtime" in parts_in(action.identity)
    return any(path.is_relative_to(folder) for folder in (*of_compiler, by_digest))


def parts_in(identity: Identity) -> frozenset[str]:
    """The names of an identity's parts, and of those that it is made of."""
    nested = [one for one in identity.parts.values() if isinstance(one, Identity)]
    return frozenset(identity.parts).union(*map(parts_in, nested))


def names_in(planned: Planned, identity: Identity) -> frozenset[str]:
    """The files of ours behind the digests in an identity."""
    found = set[str]()
    for part in identity.parts.values():
        if isinstance(part, Identity):
            found |= names_in(planned, part)
        elif isinstance(part, str):
            found |= {name.removeprefix("native ") for name in planned.details.get(part, ())}
    return frozenset(found)
