"""What a compiler reads of our own files is what the object's identity names, or less."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from pathlib import Path

import pytest
from real import ROOT

from orchestrator.build.invocation import Invocation, load
from orchestrator.build.native import NATIVE
from orchestrator.build.plan import plan_variants
from orchestrator.cli import make_context
from orchestrator.compilers.resolve import compiler_environment
from orchestrator.values.action import Compile
from orchestrator.values.labels import VariantLabel

pytestmark = [pytest.mark.real, pytest.mark.ci_only]
HOST = "linux-x86_64"
# One of each runtime; the second has int8 layers and several threads.
APPS = ("camera", "listener")


def test_all_that_is_read_is_named(tmp_path: Path) -> None:
    context = make_context(argparse.Namespace(workspace=str(ROOT)), os.environ, ROOT)
    here = load(context, lambda line: None)
    seen = set[str]()
    for app in APPS:
        runtime = here.runtimes.of(app)
        # what stands in all objects' identities: with the runtime's, and the kernel library's
        texts = runtime.parts["native"]
        assert isinstance(texts, dict)
        others = {*texts, *(runtime.library.data.headers if runtime.library else ())}
        (variant,) = plan_variants(here, [VariantLabel(app, HOST)])
        compiles = (*variant.objects.compiles, *variant.links.runner_compiles)
        for action in (c for c in compiles if c.source.startswith("$native/")):
            source = action.source.removeprefix("$native/")
            named = runtime.native.read_by(source)
            assert read(here, action, tmp_path) <= {*named, *others}
            assert action.parts["native"] == runtime.native.digest_of(source)
            seen.add(source)
    folders = {source.partition("/")[0] for source in seen}
    assert folders >= {"capi", "driver", "kernels", "runtime_library", "threads"}


def read(here: Invocation, action: Compile, folder: Path) -> set[str]:
    """The files of ours that a compiler reads for an action, without its precompiled header."""
    depfile = folder / "depfile"
    argv = [str(here.toolchains.of(HOST).cxx), *map(here.runtimes.fill, action.flags)]
    argv += ["-E", "-MD", "-MF", str(depfile), here.runtimes.fill(action.source), "-o", os.devnull]
    env = compiler_environment(here.context.cache, os.environ)
    subprocess.run(argv, env=env, cwd=here.context.cache, check=True, capture_output=True)
    # blanks in a path have a backslash before them
    paths = re.split(r"(?<!\\)\s+", depfile.read_text().replace("\\\n", " "))
    found = (Path(path.replace("\\ ", " ")).resolve() for path in paths)
    return {p.relative_to(NATIVE).as_posix() for p in found if p.is_relative_to(NATIVE)}
