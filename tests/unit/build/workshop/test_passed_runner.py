"""The runner that is passed in is the one that is used: another machine's would be, too."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from core_toy import ROOT
from refused import EffectRefusedError, RefusingRunner

from orchestrator.build.workshop.invocation import load
from orchestrator.ci.git_tree import git_tree
from orchestrator.codegen.registrations import generate_registrations
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.compilers.resolve import resolve_toolchain
from orchestrator.context import Context
from orchestrator.errors import Place
from orchestrator.execute.ninja_run import run_ninja
from orchestrator.packagers.aar_java import JavaCompiler, compile_java
from orchestrator.pytorch.generated import generate_sources
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.source.debian import binary_packages
from orchestrator.source.git_clone import clone
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.config.toolchain import ToolchainConfig
from orchestrator.values.config.workspace import GitSource
from orchestrator.verify.model_runner import run_model

RUNNER = RefusingRunner()
GIT = GitSource(remote="r", tag="t")
REQUEST = RegistrationRequest(operators=(), calls=(), kernels=())


def said(line: str) -> None:
    """Nobody listens."""


def command_toolchain(folder: Path) -> object:
    for name in ("c++", "cc", "ar"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    programs = {verb: str(folder / name) for verb, name in (("cxx", "c++"), ("cc", "cc"))}
    config = ToolchainConfig.model_validate(
        {
            "abi": "linux-x86_64",
            "system": "linux",
            "processor": "x86_64",
            "format": "elf",
            "run": "native",
            "compiler": {"command": {**programs, "ar": str(folder / "ar")}},
        }
    )
    return resolve_toolchain(config, Place("x"), folder, os.environ, RUNNER)


def capabilities(folder: Path) -> object:
    """Of this repository's own toolchain, which is found without a process, in an empty cache."""
    context = Context(ROOT, folder, folder / "state", folder / "dist", os.environ, RUNNER)
    return load(context, said).toolchains.of("linux-x86_64").capabilities


def emulation(folder: Path) -> object:
    context = Context(ROOT, folder, folder / "state", folder / "dist", os.environ, RUNNER)
    return load(context, said).toolchains.running("linux-x86_64")


@pytest.mark.parametrize(
    "start",
    [
        command_toolchain,
        capabilities,
        emulation,
        lambda folder: git_tree(folder, os.environ, RUNNER),
        lambda folder: clone(GIT, folder / "into", folder, os.environ, said, RUNNER),
        lambda folder: binary_packages(["p"], folder / "p", os.environ, said, RUNNER),
        lambda folder: generate_sources(
            DIALECT.generated, folder, "d" * 64, folder / "c", os.environ, said, RUNNER
        ),
        lambda folder: generate_registrations(
            [REQUEST], DIALECT, folder, folder / "c", os.environ, RUNNER
        ),
        lambda folder: compile_java([], JavaCompiler("javac", "javac 17"), RUNNER),
        lambda folder: run_model(
            ["m"], folder / "m.ptl", ModelConfig(file="m.ptl"), os.environ, runner=RUNNER
        ),
        lambda folder: run_ninja(
            folder / "build.ninja",
            [],
            env=os.environ,
            folder=folder,
            jobs=1,
            keep_going=False,
            feed=said,
            runner=RUNNER,
        ),
    ],
)
def test_nothing_goes_around_it(start: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(EffectRefusedError, match=r"^(run|stream) "):
        start(tmp_path)
