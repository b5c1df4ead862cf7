"""The Maven repository beside an AAR, as its consumers read it: Maven's own resolver, offline.

The toy variants of the package tests; nothing of PyTorch is compiled. A JDK must be there, as for
the Java API; Maven's libraries come from Debian's packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from test_aar import inputs, members, packed

from orchestrator.packagers.aar_java import find_java_compiler
from tests.debian import MAVEN, java_libraries

pytestmark = pytest.mark.ci_only

PROGRAM = Path(__file__).parent / "consumers/maven/Resolve.java"
ABI = "android-arm64-v8a"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """(AAR, sources, symbols, Maven repository) of a toy app for one ABI."""
    folder = tmp_path_factory.mktemp("toy")
    made = replace(inputs(folder / ABI, ABI), maven_group="com.example")
    return packed([made], folder)


def resolve(repository: Path, local: Path, wanted: str) -> subprocess.CompletedProcess[str]:
    """What Maven's resolver says of a dependency."""
    compiler = find_java_compiler(os.environ)
    assert compiler, "the Java API needs a JDK: apt-get install default-jdk-headless"
    java = str(Path(compiler.program).with_name("java"))
    libraries = os.pathsep.join(map(str, java_libraries(*MAVEN)))
    argv = [java, "-cp", libraries, str(PROGRAM), str(repository), str(local), wanted]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def resolved(repository: Path, local: Path, wanted: str) -> dict[str, Path]:
    """Coordinates -> the file in the local repository, of all that a dependency brings."""
    done = resolve(repository, local, wanted)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (line.split(" ") for line in done.stdout.splitlines())
    return {name: Path(file) for name, file in lines}


def test_maven_resolves_the_aar_by_its_coordinates(
    packages: tuple[Path, ...], tmp_path: Path
) -> None:
    whole, sources, _, maven = packages
    # a range: the version is what maven-metadata.xml lists
    native = resolved(maven, tmp_path / "a", "com.example:toy-libtorch-native:aar:[1.0,2.0)")
    assert [*native] == [
        "com.example:toy-libtorch-native:aar:1.2.0",
        "com.example:toy-libtorch:aar:1.2.0",
    ]
    assert all((tmp_path / "a") in file.parents for file in native.values())
    both = [members(file) for file in native.values()]
    assert {**both[0], **both[1]}.keys() == members(whole).keys()
    java = resolved(maven, tmp_path / "b", "com.example:toy-libtorch:aar:1.2.0")
    assert [*java] == ["com.example:toy-libtorch:aar:1.2.0"]
    jar = "com.example:toy-libtorch:jar:sources:1.2.0"
    assert resolved(maven, tmp_path / "b", jar)[jar].read_bytes() == sources.read_bytes()


def test_maven_refuses_another_byte(packages: tuple[Path, ...], tmp_path: Path) -> None:
    maven = tmp_path / "maven"
    shutil.copytree(packages[3], maven)
    (aar,) = maven.rglob("toy-libtorch-1.2.0.aar")
    aar.write_bytes(aar.read_bytes() + b"x")
    done = resolve(maven, tmp_path / "local", "com.example:toy-libtorch:aar:1.2.0")
    assert done.returncode != 0
    assert "Checksum validation failed" in done.stderr
