"""The packages of a real app: equal from two folders, installable, and usable once they are."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from real import ROOT, V1_13, models_of, orchestrator, workspace_copy
from zig_tool import zig

from orchestrator.build.workshop.fetch import tree_folder
from orchestrator.load.workspace import load_workspace

pytestmark = pytest.mark.real

LABEL = "//apps/camera:linux-x86_64"
STEM = "camera-libtorch-0.1.0-linux-x86_64"
TARBALLS = (f"{STEM}.tar.zst", f"{STEM}-symbols.tar.zst")
STATEMENTS = (f"{STEM}.tar.zst.intoto.json", "camera-libtorch_0.1.0_amd64.deb.intoto.json")
DEBS = tuple(f"camera-libtorch{part}_0.1.0_amd64.deb" for part in ("", "-dev", "-dbgsym"))
TRIPLET = "x86_64-linux-gnu"
CONSUMERS = Path(__file__).parent / "consumers"
TOOLS = Path(sys.executable).parent
ENV = {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}


def run(*command: str | Path, **env: str) -> str:
    done = subprocess.run(
        list(map(str, command)), env={**ENV, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of its own with the packages of camera."""
    root = workspace_copy(tmp_path_factory.mktemp("one"), "camera")
    ran = orchestrator("build", LABEL, "--json", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    (root / "report.json").write_text(ran.out)
    return root


@pytest.fixture(scope="module")
def packages(workspace: Path) -> Path:
    return workspace / "dist/camera/packages"


def test_the_report_tells_the_packages(workspace: Path, packages: Path) -> None:
    told = json.loads((workspace / "report.json").read_text())["packages"]
    assert [(one["kind"], one["abis"], one["missing"]) for one in told] == [
        ("tar", ["linux-x86_64"], []),
        ("deb", ["linux-x86_64"], []),
    ]
    files = {file["path"]: file["bytes"] for one in told for file in one["files"]}
    assert files == {
        f"dist/camera/packages/{name}": (packages / name).stat().st_size
        for name in (*TARBALLS, *DEBS)
    }


def test_two_folders_and_two_times_give_equal_packages(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "a/folder/of/another/depth").mkdir(parents=True)
    root = workspace_copy(tmp_path / "a/folder/of/another/depth", "camera")
    time.sleep(1.1)
    for file in root.rglob("*"):
        os.utime(file)
    ran = orchestrator("build", LABEL, "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    second = root / "dist/camera/packages"
    for name in (*TARBALLS, *DEBS, *STATEMENTS):
        assert (second / name).read_bytes() == (packages / name).read_bytes(), name
        assert (second / name).stat().st_mtime == (packages / name).stat().st_mtime


def test_no_folder_of_this_machine_is_told(workspace: Path, packages: Path) -> None:
    """Objects are shared by content, so equal packages alone do not show this."""
    cache = Path(os.environ.get("ORCHESTRATOR_CACHE", "~/.cache/libtorch-orchestrator"))
    folders = (workspace, ROOT, cache.expanduser(), Path(sys.prefix))
    held = list(members(*(packages / name for name in TARBALLS)))
    assert len(held) > 1000
    for name, data in held:
        for folder in folders:
            assert str(folder).encode() not in data, f"{name} names {folder}"


def members(*archives: Path) -> Iterator[tuple[str, bytes]]:
    for path in archives:
        data = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar.getmembers():
                content = tar.extractfile(member)
                if content is not None:
                    yield member.name, content.read()


def test_every_package_holds_manifest_licences_and_bill(packages: Path, tmp_path: Path) -> None:
    held = [
        {name.partition("/")[2]: data for name, data in members(packages / t)} for t in TARBALLS
    ]
    for name in DEBS:
        package = name.partition("_")[0]
        run("dpkg-deb", "--extract", packages / name, tmp_path / package)
        folder = tmp_path / package / "usr/share/doc" / package
        documents = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert documents.keys() == {"copyright", "manifest.json", "sbom.cdx.json"}
        assert b"PyTorch 1.13.1: BSD-3-Clause" in documents["copyright"]
        assert b"libunwind " in documents["copyright"]
        held.append(documents)
    validator = JsonStrictValidator(SchemaVersion.V1_5)
    for one in held:
        manifest = json.loads(one["manifest.json"])
        assert manifest["models"][0]["name"] == "classifier"
        bill = one.get("sbom.cdx.json") or one["share/doc/camera_libtorch/sbom.cdx.json"]
        assert validator.validate_str(bill.decode()) is None
        parts = {c["name"] for c in json.loads(bill)["components"] if c["type"] == "library"}
        assert parts == {part["component"] for part in manifest["licences"]}
        assert parts >= {"PyTorch", "miniz", "libcxx", "libcxxabi", "libunwind"}
        # what no unit of camera holds, and what nothing of it was linked with
        assert not parts & {"fmt", "musl"}


# Of the kernel library that camera's layers run on: component, version, licence and its tree's pin.
KERNELS = (
    ("XNNPACK", "0.0~git20241108", "BSD-3-Clause", "xnnpack"),
    ("pthreadpool", "0.0~git20240616", "BSD-2-Clause", "pthreadpool"),
    ("FXdiv", "0.0~git20200417", "MIT", "fxdiv"),
)


def test_the_kernel_librarys_licences_are_in_each_package(packages: Path, tmp_path: Path) -> None:
    """Their texts as the pinned trees have them, and what manifest, bill and copyright say."""
    pinned = load_workspace(ROOT, os.environ)
    held = {name.partition("/")[2]: data for name, data in members(packages / TARBALLS[0])}
    manifest = {part["component"]: part for part in json.loads(held["manifest.json"])["licences"]}
    bill = json.loads(held["share/doc/camera_libtorch/sbom.cdx.json"])
    components = {one["name"]: one for one in bill["components"]}
    run("dpkg-deb", "--extract", packages / DEBS[0], tmp_path)
    copyright = (tmp_path / "usr/share/doc/camera-libtorch/copyright").read_text()
    for component, version, licence, tree in KERNELS:
        digest = pinned.config.pins[V1_13].libraries[tree].tree
        text = (tree_folder(pinned.cache, tree, digest) / "LICENSE").read_bytes()
        assert held[f"share/doc/camera_libtorch/licences/{component}/LICENSE"] == text
        assert (manifest[component]["version"], manifest[component]["licence"]) == (
            version,
            licence,
        )
        (told,) = components[component]["licenses"]
        assert (components[component]["version"], told["license"]["id"]) == (version, licence)
        assert f"{component} {version}: {licence}" in copyright


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for words, block in found if words == language]


def test_the_readmes_call_can_be_pasted(packages: Path, tmp_path: Path) -> None:
    """As it is written, but for the place of the model."""
    for name, data in members(packages / TARBALLS[0]):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    folder = tmp_path / STEM
    text = (folder / "README.md").read_text()
    methods, shell = blocks(text, "")[:2]
    assert methods == "classifier\n  forward(Tensor images) -> Tensor\n"
    (program,) = blocks(text, "c")
    (folder / "call.c").write_text(program)
    assert "/path/to/classifier.ptl" in shell
    shell = shell.replace("/path/to/classifier.ptl", shlex.quote(str(models_of("camera")[0])))
    assert run("sh", "-euc", f"cd '{folder}'\n{shell}") == "10 numbers of float32\n"


def consume(prefix: Path, build: Path, *options: str) -> str:
    run("cmake", "-G", "Ninja", "-S", CONSUMERS / "c_shared", "-B", build, "-DAPP=camera",
        f"-DCMAKE_PREFIX_PATH={prefix}", *options)  # fmt: skip
    run("cmake", "--build", build)
    return run(build / "consumer", models_of("camera")[0])


def test_the_tarballs_are_the_delivered_folder(
    workspace: Path, packages: Path, tmp_path: Path
) -> None:
    for name, data in members(*(packages / tarball for tarball in TARBALLS)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    delivered = workspace / "dist/camera/linux-x86_64"
    for path in delivered.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            unpacked = tmp_path / STEM / path.relative_to(delivered)
            assert unpacked.read_bytes() == path.read_bytes()
    assert consume(tmp_path / STEM, tmp_path / "build")


@pytest.mark.ci_only
def test_the_debian_packages_install_serve_and_go(packages: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    database = root / "var/lib/dpkg"
    for folder in ("info", "updates", "triggers"):
        (database / folder).mkdir(parents=True)
    (database / "available").touch()
    (database / "status").write_text(
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.28-10\n"
        "Maintainer: nobody <nobody@localhost>\nDescription: of the machine\n\n"
    )
    dpkg = ("dpkg", f"--root={root}", "--force-not-root", "--force-script-chrootless",
            f"--log={tmp_path}/log")  # fmt: skip
    run(*dpkg, "--install", *(packages / name for name in DEBS))
    assert run(*dpkg, "--verify") == ""

    lib = root / "usr/lib" / TRIPLET
    said = consume(root / "usr", tmp_path / "build", f"-DCMAKE_LIBRARY_ARCHITECTURE={TRIPLET}")
    flags = run("pkg-config", "--cflags", "--libs", "camera_libtorch",
                PKG_CONFIG_PATH=str(lib / "pkgconfig")).split()  # fmt: skip
    app = tmp_path / "app"
    zig("cc", "-O2", CONSUMERS / "c_shared/main.c", *flags, "-o", app)
    assert run(app, models_of("camera")[0], LD_LIBRARY_PATH=str(lib)) == said

    manifest = json.loads((root / "usr/share/doc/camera-libtorch/manifest.json").read_text())
    build_id = manifest["library"]["build_id"]
    assert (root / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug").is_file()

    run(*dpkg, "--purge", *(name.partition("_")[0] for name in reversed(DEBS)))
    assert [path for path in (root / "usr").rglob("*") if path.is_file()] == []


def test_a_deleted_package_comes_back(workspace: Path, packages: Path) -> None:
    before = (packages / DEBS[0]).read_bytes()
    (packages / DEBS[0]).unlink()
    ran = orchestrator("build", LABEL, "--quiet", cwd=workspace)
    assert ran.code == 0, ran.err
    assert (packages / DEBS[0]).read_bytes() == before


def test_what_is_in_the_way_is_told_and_stays(packages: Path, tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    into = root / "dist/camera/packages"
    into.mkdir(parents=True)
    (root / "dist/.made-by-orchestrator").touch()
    mine = into / TARBALLS[0]
    mine.write_text("mine")
    ran = orchestrator("build", LABEL, "--quiet", cwd=root)
    assert ran.code == 1
    assert ran.err.startswith(
        f"{mine}: error: this file was not written by the orchestrator, so it is not replaced\n"
    )
    assert mine.read_text() == "mine"
    shutil.rmtree(into)
    into.write_text("mine")
    ran = orchestrator("build", LABEL, "--quiet", cwd=root)
    assert ran.code == 1
    assert ran.err == (
        f"{into}: error: cannot create dist/camera/packages: a file or symlink is in the way\n"
        "  expected: a folder, or nothing\n"
        "  seen:     a file\n"
        "  do:       move it away, and build again\n"
    )
