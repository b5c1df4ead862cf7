"""One real build for all integration tests: this repository's own workspace, in the user's cache.

From an empty cache the first build takes minutes; later ones reuse every object. Nothing here is
skipped: where a component is missing, the fixture fails and says which.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from java_programs import Programs, compile_jni
from real import ROOT, orchestrator

from orchestrator.packagers.aar_java import find_java_compiler


@pytest.fixture(scope="session")
def built() -> Path:
    """`dist/` after `orchestrator build //...` of this repository."""
    ran = orchestrator("build", "//...", "--quiet")
    assert ran.code == 0, ran.err
    return ROOT / "dist"


@pytest.fixture(scope="session")
def programs(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    compiler = find_java_compiler(os.environ)
    assert compiler, "the Java API needs a JDK: apt-get install default-jdk-headless"
    folder = tmp_path_factory.mktemp("java")
    natives = compile_jni("natives", folder / "natives.o")
    return Programs(folder, built, compiler, natives)
