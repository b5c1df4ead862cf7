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
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import zstandard
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from real import ROOT, V1_13, V2_6, models_of, orchestrator, workspace_copy
from zig_tool import zig

from orchestrator.build.workshop.fetch import tree_folder
from orchestrator.load.workspace import load_workspace

pytestmark = pytest.mark.real

# App -> the runtime that it is built from, and how many numbers its model gives.
APPS = {"camera": (V1_13, 10), "scanner": (V2_6, 4)}
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


@dataclass(frozen=True)
class Packages:
    """The packages of an app in a workspace.

    report  what the build printed for machines
    """

    app: str
    root: Path
    report: str = ""

    @property
    def label(self) -> str:
        return f"//apps/{self.app}:linux-x86_64"

    @property
    def folder(self) -> Path:
        return self.root / "dist" / self.app / "packages"

    @property
    def stem(self) -> str:
        return f"{self.app}-libtorch-0.1.0-linux-x86_64"

    @property
    def tarballs(self) -> tuple[Path, ...]:
        return tuple(self.folder / f"{self.stem}{part}.tar.zst" for part in ("", "-symbols"))

    @property
    def debs(self) -> tuple[Path, ...]:
        names = (f"{self.app}-libtorch{part}_0.1.0_amd64.deb" for part in ("", "-dev", "-dbgsym"))
        return tuple(self.folder / name for name in names)

    @property
    def statements(self) -> tuple[Path, ...]:
        return tuple(
            one.with_name(f"{one.name}.intoto.json") for one in (self.tarballs[0], self.debs[0])
        )


@pytest.fixture(
    scope="module", params=[pytest.param("camera", marks=pytest.mark.ci_only), "scanner"]
)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """An app's packages in a workspace of its own."""
    one = Packages(request.param, workspace_copy(tmp_path_factory.mktemp("one"), request.param))
    ran = orchestrator("build", one.label, "--json", "--quiet", cwd=one.root)
    assert ran.code == 0, ran.err
    return replace(one, report=ran.out)


def test_the_report_tells_the_packages(made: Packages) -> None:
    told = json.loads(made.report)["packages"]
    assert [(one["kind"], one["abis"], one["missing"]) for one in told] == [
        ("tar", ["linux-x86_64"], []),
        ("deb", ["linux-x86_64"], []),
    ]
    files = {file["path"]: file["bytes"] for one in told for file in one["files"]}
    assert files == {
        one.relative_to(made.root).as_posix(): one.stat().st_size
        for one in (*made.tarballs, *made.debs)
    }


def test_two_folders_and_two_times_give_equal_packages(made: Packages, tmp_path: Path) -> None:
    (tmp_path / "a/folder/of/another/depth").mkdir(parents=True)
    root = workspace_copy(tmp_path / "a/folder/of/another/depth", made.app)
    time.sleep(1.1)
    for file in root.rglob("*"):
        os.utime(file)
    ran = orchestrator("build", made.label, "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    second = Packages(made.app, root).folder
    for first in (*made.tarballs, *made.debs, *made.statements):
        again = second / first.name
        assert again.read_bytes() == first.read_bytes(), first.name
        assert again.stat().st_mtime == first.stat().st_mtime


def test_no_folder_of_this_machine_is_told(made: Packages) -> None:
    """Objects are shared by content, so equal packages alone do not show this."""
    cache = Path(os.environ.get("ORCHESTRATOR_CACHE", "~/.cache/libtorch-orchestrator"))
    folders = (made.root, ROOT, cache.expanduser(), Path(sys.prefix))
    held = list(members(*made.tarballs))
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


def test_every_package_holds_manifest_licences_and_bill(made: Packages, tmp_path: Path) -> None:
    held = [{name.partition("/")[2]: data for name, data in members(one)} for one in made.tarballs]
    pin = load_workspace(ROOT, os.environ).config.pins[APPS[made.app][0]]
    for deb in made.debs:
        package = deb.name.partition("_")[0]
        run("dpkg-deb", "--extract", deb, tmp_path / package)
        folder = tmp_path / package / "usr/share/doc" / package
        documents = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert documents.keys() == {"copyright", "manifest.json", "sbom.cdx.json"}
        assert f"PyTorch {pin.pytorch}: BSD-3-Clause".encode() in documents["copyright"]
        assert b"libunwind " in documents["copyright"]
        held.append(documents)
    validator = JsonStrictValidator(SchemaVersion.V1_5)
    for one in held:
        manifest = json.loads(one["manifest.json"])
        assert manifest["models"][0]["name"] == models_of(made.app)[0].stem
        bill = one.get("sbom.cdx.json") or one[f"share/doc/{made.app}_libtorch/sbom.cdx.json"]
        assert validator.validate_str(bill.decode()) is None
        parts = {c["name"] for c in json.loads(bill)["components"] if c["type"] == "library"}
        assert parts == {part["component"] for part in manifest["licences"]}
        assert parts >= {"PyTorch", "miniz", "libcxx", "libcxxabi", "libunwind"}
        # what no unit of the app holds, and what nothing of it was linked with
        assert parts & {"fmt", "musl"} == ({"fmt"} if APPS[made.app][0] == V2_6 else set())


# Of the kernel library that layers run on: component, version, licence and its tree's pin.
KERNELS = (
    ("XNNPACK", "0.0~git20241108", "BSD-3-Clause", "xnnpack"),
    ("pthreadpool", "0.0~git20240616", "BSD-2-Clause", "pthreadpool"),
    ("FXdiv", "0.0~git20200417", "MIT", "fxdiv"),
)


def test_the_kernel_librarys_licences_are_in_each_package(made: Packages, tmp_path: Path) -> None:
    """Their texts as the pinned trees have them, and what manifest, bill and copyright say."""
    pinned = load_workspace(ROOT, os.environ)
    held = {name.partition("/")[2]: data for name, data in members(made.tarballs[0])}
    manifest = {part["component"]: part for part in json.loads(held["manifest.json"])["licences"]}
    bill = json.loads(held[f"share/doc/{made.app}_libtorch/sbom.cdx.json"])
    components = {one["name"]: one for one in bill["components"]}
    run("dpkg-deb", "--extract", made.debs[0], tmp_path)
    copyright = (tmp_path / f"usr/share/doc/{made.app}-libtorch/copyright").read_text()
    for component, version, licence, tree in KERNELS:
        digest = pinned.config.pins[APPS[made.app][0]].libraries[tree].tree
        text = (tree_folder(pinned.cache, tree, digest) / "LICENSE").read_bytes()
        assert held[f"share/doc/{made.app}_libtorch/licences/{component}/LICENSE"] == text
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


def test_the_readmes_call_can_be_pasted(made: Packages, tmp_path: Path) -> None:
    """As it is written, but for the place of the model."""
    (model,) = models_of(made.app)
    for name, data in members(made.tarballs[0]):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    folder = tmp_path / made.stem
    text = (folder / "README.md").read_text()
    methods, shell = blocks(text, "")[:2]
    assert methods == f"{model.stem}\n  forward(Tensor images) -> Tensor\n"
    (program,) = blocks(text, "c")
    (folder / "call.c").write_text(program)
    assert f"/path/to/{model.name}" in shell
    shell = shell.replace(f"/path/to/{model.name}", shlex.quote(str(model)))
    assert (
        run("sh", "-euc", f"cd '{folder}'\n{shell}") == f"{APPS[made.app][1]} numbers of float32\n"
    )


def consume(app: str, prefix: Path, build: Path, *options: str) -> str:
    run("cmake", "-G", "Ninja", "-S", CONSUMERS / "c_shared", "-B", build, f"-DAPP={app}",
        f"-DCMAKE_PREFIX_PATH={prefix}", *options)  # fmt: skip
    run("cmake", "--build", build)
    return run(build / "consumer", models_of(app)[0])


def test_the_tarballs_are_the_delivered_folder(made: Packages, tmp_path: Path) -> None:
    for name, data in members(*made.tarballs):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    delivered = made.root / "dist" / made.app / "linux-x86_64"
    for path in delivered.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            unpacked = tmp_path / made.stem / path.relative_to(delivered)
            assert unpacked.read_bytes() == path.read_bytes()
    assert consume(made.app, tmp_path / made.stem, tmp_path / "build")


@pytest.mark.ci_only
def test_the_debian_packages_install_serve_and_go(made: Packages, tmp_path: Path) -> None:
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
    run(*dpkg, "--install", *made.debs)
    assert run(*dpkg, "--verify") == ""

    lib = root / "usr/lib" / TRIPLET
    options = f"-DCMAKE_LIBRARY_ARCHITECTURE={TRIPLET}"
    said = consume(made.app, root / "usr", tmp_path / "build", options)
    flags = run("pkg-config", "--cflags", "--libs", f"{made.app}_libtorch",
                PKG_CONFIG_PATH=str(lib / "pkgconfig")).split()  # fmt: skip
    app = tmp_path / "app"
    zig("cc", "-O2", CONSUMERS / "c_shared/main.c", *flags, "-o", app)
    assert run(app, models_of(made.app)[0], LD_LIBRARY_PATH=str(lib)) == said

    manifest = json.loads((root / f"usr/share/doc/{made.app}-libtorch/manifest.json").read_text())
    build_id = manifest["library"]["build_id"]
    assert (root / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug").is_file()

    run(*dpkg, "--purge", *(one.name.partition("_")[0] for one in reversed(made.debs)))
    assert [path for path in (root / "usr").rglob("*") if path.is_file()] == []


def test_a_deleted_package_comes_back(made: Packages) -> None:
    before = made.debs[0].read_bytes()
    made.debs[0].unlink()
    ran = orchestrator("build", made.label, "--quiet", cwd=made.root)
    assert ran.code == 0, ran.err
    assert made.debs[0].read_bytes() == before


def test_what_is_in_the_way_is_told_and_stays(tmp_path: Path) -> None:
    one = Packages("scanner", workspace_copy(tmp_path, "scanner"))
    into, mine = one.folder, one.tarballs[0]
    into.mkdir(parents=True)
    (one.root / "dist/.made-by-orchestrator").touch()
    mine.write_text("mine")
    ran = orchestrator("build", one.label, "--quiet", cwd=one.root)
    assert ran.code == 1
    assert ran.err.startswith(
        f"{mine}: error: this file was not written by the orchestrator, so it is not replaced\n"
    )
    assert mine.read_text() == "mine"
    shutil.rmtree(into)
    into.write_text("mine")
    ran = orchestrator("build", one.label, "--quiet", cwd=one.root)
    assert ran.code == 1
    assert ran.err == (
        f"{into}: error: cannot create dist/scanner/packages: a file or symlink is in the way\n"
        "  expected: a folder, or nothing\n"
        "  seen:     a file\n"
        "  do:       move it away, and build again\n"
    )
