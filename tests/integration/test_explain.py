"""`explain` on real builds: what it says will happen is what the next build does."""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path

import pytest
from real import orchestrator, workspace_copy

pytestmark = pytest.mark.real

LABEL = "//apps/camera:linux-x86_64"
UNIT = "aten/src/ATen/native/Linear.cpp"
# Part of the identity of links, and of nothing in them: no other run's are in the cache.
OWN_LINKS = {"SOURCE_DATE_EPOCH": str(secrets.randbelow(2**36))}


@pytest.fixture(scope="module")
def camera(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workspace_copy(tmp_path_factory.mktemp("explain"), "camera")


def explained(root: Path, name: str) -> list[str]:
    ran = orchestrator("explain", LABEL, name, "--quiet", cwd=root, **OWN_LINKS)
    assert ran.code == 0, ran.err
    return ran.out.splitlines()


def built(root: Path) -> int:
    """Build; the number of actions that were run."""
    ran = orchestrator("build", LABEL, "--json", "--quiet", cwd=root, **OWN_LINKS)
    assert ran.code == 0, ran.err
    return int(json.loads(ran.out)["actions_run"])


def test_it_foretells_builds(camera: Path) -> None:
    first = f"{UNIT} of {LABEL}: never built here; "
    assert explained(camera, UNIT)[0].startswith(first)
    built(camera)
    assert explained(camera, UNIT) == [f"{UNIT} of {LABEL}: up to date"]
    every = explained(camera, "link")
    assert {line.rpartition(": ")[2] for line in every} == {"up to date"}

    with (camera / "apps/camera/app.yaml").open("a") as file:
        file.write("self_relocation: false\n")
    library = f"libcamera_torch.so of {LABEL}: "
    differs = [
        "flags: removed -Wl,--pack-dyn-relocs=relr, -Wl,--use-android-relr-tags",
        "objects: removed native/runtime_library/relocate.cpp",
    ]
    assert explained(camera, "libcamera_torch.so") == [
        f"{library}to be linked again; since the last build:",
        *(f"  {line}" for line in differs),
    ]
    to_link = [line for line in explained(camera, "link") if "to be linked again" in line]
    assert built(camera) == len(to_link) == 3
    assert explained(camera, "libcamera_torch.so") == [
        f"{library}up to date",
        "  what differed when it was last made:",
        *(f"    {line}" for line in differs),
    ]


def files(root: Path) -> dict[str, str]:
    """What is linked and what is delivered, without records and lists of the build: path ->
    sha256."""
    found = (*(root / ".orchestrator/variants").rglob("*"), *(root / "dist").rglob("*"))
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in found
        if path.is_file()
        and path.name not in {"actions.log", ".packages.json"}
        and path.suffix != ".members"
    }


def test_a_second_workspace_on_the_same_cache_links_nothing(camera: Path, tmp_path: Path) -> None:
    built(camera)
    second = workspace_copy(tmp_path, "camera")
    (second / "apps/camera/app.yaml").write_text((camera / "apps/camera/app.yaml").read_text())
    foretold = {line.rpartition(": ")[2] for line in explained(second, "link")}
    assert foretold == {"never built here; not to be linked, the cache has the file"}
    assert built(second) == 0
    assert files(second) == files(camera)
    assert {line.rpartition(": ")[2] for line in explained(second, "link")} == {"up to date"}
    # and what nobody has linked so far is linked
    with (second / "apps/camera/app.yaml").open("a") as file:
        file.write("threads: 2\n")
    assert built(second) > 0


def test_another_compiler_compiles_everything_again(camera: Path) -> None:
    built(camera)
    declared = camera / "toolchains/linux-x86_64.yaml"
    before = declared.read_text()
    declared.write_text(before.replace("gnu.2.28", "gnu.2.31"))
    try:
        told = explained(camera, UNIT)
    finally:
        declared.write_text(before)
    assert told[1:] == [
        "  compiler, arguments of cc: added x86_64-linux-gnu.2.31",
        "  compiler, arguments of cc: removed x86_64-linux-gnu.2.28",
        "  compiler, arguments of cxx: added x86_64-linux-gnu.2.31",
        "  compiler, arguments of cxx: removed x86_64-linux-gnu.2.28",
    ]
