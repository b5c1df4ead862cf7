"""Keys name all that is read: what compilers of real builds read is in their actions' identities.

So a file that changes compiles again all that reads it, whoever wrote the list of what is read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from reads import Coverage, actions_of, coverage_of, logged_reads, preprocessed
from real import ROOT, V1_13, V2_6, workspace_copy

from orchestrator.build.planning.plan import plan_variants
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.context import Context
from orchestrator.load.workspace import cache_folder, load_config
from orchestrator.plan.native_files import NativeFiles, native_files
from orchestrator.values.action import Compile, Precompile
from orchestrator.values.labels import VariantLabel

pytestmark = pytest.mark.ci_only
# Parts of identities that are digests of files of ours.
_OF_OURS = frozenset({"included", "flagged", "own", "threading", "header", "native"})
# The actions of one variant, with what their identities cover.
Actions = tuple[Coverage, dict[str, Compile | Precompile]]


def _load(root: Path) -> Invocation:
    config, places = load_config(root)
    cache = cache_folder(config, places, root, os.environ)
    return load(Context(root, cache, root / ".orchestrator", root / "dist", os.environ), print)


def _planned(here: Invocation, abis: Collection[str]) -> list[Actions]:
    targets = here.workspace.targets.items()
    labels = [VariantLabel(app, abi) for app, own in targets for abi in own if abi in abis]
    planned = plan_variants(here, labels, generate=False)
    return [(coverage_of(here, variant), {**actions_of(variant)}) for variant in planned]


@pytest.fixture(scope="module")
def here(built: Path) -> Invocation:
    return _load(ROOT)


@pytest.fixture(scope="module")
def variants(here: Invocation) -> list[Actions]:
    return _planned(here, here.workspace.toolchains)


def _reads(
    here: Invocation, variants: list[Actions]
) -> Iterator[tuple[Coverage, Compile | Precompile, frozenset[str]]]:
    """What ninja logged of each action, and what one action of each kind reads that it has none of:
    the cache had all of their objects."""
    file = here.context.state / ".ninja_deps"
    log, seen = logged_reads(file) if file.is_file() else {}, set[object]()
    for coverage, actions in variants:
        for output, action in actions.items():
            read = log.get(coverage.runtime.fill(output))
            if read is not None:
                yield coverage, action, read
                seen |= _kinds(coverage, action)
    for coverage, actions in variants:
        for action in actions.values():
            kinds = _kinds(coverage, action) - seen
            if isinstance(action, Compile) and not action.members and kinds:
                read = preprocessed(here, coverage.runtime, action)
                if read is not None:
                    yield coverage, action, read
                    seen |= kinds
    assert {kind for kind in seen if isinstance(kind, str)} == {V1_13, V2_6}


def _kinds(coverage: Coverage, action: Compile | Precompile) -> set[object]:
    """What actions differ by in what they may read: the runtime, the parts of the identity, on this
    machine's ABI the digests of files of ours; the ABI; and the name of the runtime."""
    runtime, parts = coverage.runtime.name, action.identity.parts
    named = frozenset(name for name, part in parts.items() if part is not None)
    ours = frozenset(str(parts[name]) for name in named & _OF_OURS)
    host = {(runtime, named, ours)} if action.abi == "linux-x86_64" else set[object]()
    return {runtime, (runtime, named), (runtime, action.abi), *host}


def _unlisted(here: Invocation, variants: list[Actions]) -> dict[str, str]:
    return {
        path: f"read by {action.source} for {action.abi} on {coverage.runtime.name}"
        for coverage, action, read in _reads(here, variants)
        for path in coverage.of(action, read).misses(read)
    }


def test_what_a_build_reads_is_in_the_keys(here: Invocation, variants: list[Actions]) -> None:
    assert _unlisted(here, variants) == {}


def test_what_a_compiler_of_this_machine_reads_is_in_the_keys(tmp_path: Path) -> None:
    """Its headers are no package's that has a digest: the compiler is asked for them. An app's own
    sources are planned with zig's objects: in those of libstdc++ PyTorch's functions have other
    names than in its index."""
    root = workspace_copy(tmp_path, "scanner", "camera", "inker")
    declared = root / "toolchains/linux-x86_64.yaml"
    toolchain = yaml.safe_load(declared.read_text())
    command = {"compiler": {"command": {"cxx": "g++", "cc": "gcc"}}}
    declared.write_text(yaml.dump({**toolchain, **command}))
    here = _load(root)
    assert _unlisted(here, _planned(here, {"linux-x86_64"})) == {}


def test_a_file_that_a_key_lacks_is_found(here: Invocation, variants: list[Actions]) -> None:
    coverage, actions = variants[0]
    native = coverage.runtime.native
    (one,) = (a for a in actions.values() if a.source == "$native/threads/one.cpp")
    assert isinstance(one, Compile)
    read = preprocessed(here, coverage.runtime, one)
    assert read is not None
    assert [*coverage.of(one, read).misses(read)] == []
    # as if whoever lists what a source includes did not see one of its lines
    blind = _without(native, "threads/one.cpp", b'#include "pool.h"')
    key = blind.digest_of("threads/one.cpp")
    lacking = replace(one, parts={**one.parts, "native": key})
    known = {**coverage.details, key: blind.read_by("threads/one.cpp")}
    misses = replace(coverage, details=known).of(lacking, read).misses(read)
    assert [*misses] == [coverage.runtime.fill("$native/threads/pool.h")]


def _without(native: NativeFiles, name: str, line: bytes) -> NativeFiles:
    assert line in native.texts[name]
    return native_files({**native.texts, name: native.texts[name].replace(line, b"")})
