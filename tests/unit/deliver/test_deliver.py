"""Delivered folders: their content, their stability, and real consumers of them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import package_toy as toy
import pytest
from guide import listed
from zig_tool import zig

from orchestrator.binary.elf import ElfRules, check
from orchestrator.binary.elf_strip import NotStrippableError
from orchestrator.compilers.resolve import compiler_environment
from orchestrator.deliver.files import File, ForeignFolderError
from orchestrator.deliver.headers import HeaderFile
from orchestrator.deliver.manifest import (
    Manifest,
    SelectionFact,
    SourceFact,
    UnreadableManifestError,
    read_manifest,
)
from orchestrator.deliver.variant import (
    Delivered,
    DeliverInputs,
    Licence,
    MissingPartError,
    deliver,
    delivering,
)
from orchestrator.load.workspace import load_workspace
from orchestrator.platforms.linux import LIBRARY
from orchestrator.system.folders import MARKER


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> DeliverInputs:
    return toy.quick_inputs(tmp_path_factory.mktemp("quick"))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> DeliverInputs:
    return toy.variant(tmp_path_factory.mktemp("full"))


def test_a_manifest_has_the_digest_of_its_selection(quick: DeliverInputs, tmp_path: Path) -> None:
    manifest = deliver(quick, tmp_path).manifest
    assert manifest.selection_digest == manifest.selection.digest
    text = json.loads((tmp_path / "toy/linux-x86_64/manifest.json").read_text())
    canonical = json.dumps(text["selection"], sort_keys=True, separators=(",", ":"))
    assert text["selection_digest"] == hashlib.sha256(canonical.encode()).hexdigest()


def test_the_digest_is_of_the_selection_alone_in_any_order() -> None:
    parts: dict[str, Any] = {
        "operators": ("aten::mul.Tensor", "aten::add.Tensor", "aten::add.Tensor"),
        "kernel_dtypes": {"mul": ("Long", "Float"), "add": ("*",)},
        "custom_classes": (),
        "build_features": (),
        "root_operators": ("aten::mul.Tensor",),
        "resolved_operators": None,
        "backends": ("QuantizedCPU", "CPU"),
    }
    digest = SelectionFact(**parts).digest
    other = dict(parts)
    other["operators"] = ("aten::add.Tensor", "aten::mul.Tensor")
    other["kernel_dtypes"] = {"add": ("*",), "mul": ("Float", "Long")}
    assert SelectionFact(**other).digest == digest
    other["kernel_dtypes"] = {"add": ("*",), "mul": ("Float",)}
    assert SelectionFact(**other).digest != digest
    # it was shipped in libraries, which go on saying it
    assert digest == "c3f69c61dc41d78a768be9486f7b4e6753ad5dd8308ce068e93b4aac768c318f"


def test_a_manifest_with_the_digest_of_another_selection_is_none(
    quick: DeliverInputs, tmp_path: Path
) -> None:
    deliver(quick, tmp_path)
    path = tmp_path / "toy/linux-x86_64/manifest.json"
    text = json.loads(path.read_text())
    path.write_text(json.dumps(text | {"selection_digest": None}))
    assert read_manifest(path.parent).selection_digest is None
    path.write_text(json.dumps(text | {"selection_digest": 64 * "0"}))
    with pytest.raises(UnreadableManifestError):
        read_manifest(path.parent)


def content(folder: Path) -> dict[str, tuple[str, int, float]]:
    return {
        str(path.relative_to(folder)): (
            File("", path).sha256() if path.is_file() else "",
            path.stat().st_mode,
            path.stat().st_mtime,
        )
        for path in sorted(folder.rglob("*"))
    }


def test_folder_has_the_documented_shape(quick: DeliverInputs, tmp_path: Path) -> None:
    done = deliver(quick, tmp_path)
    assert done.folder == tmp_path / "toy/linux-x86_64"
    assert sorted(done.manifest.files) == [
        "README.md",
        "include/libtorch_app.h",
        "include/toy/core.h",
        "lib/cmake/toy_libtorch/toolchain.cmake",
        "lib/cmake/toy_libtorch/toy_libtorch-config-version.cmake",
        "lib/cmake/toy_libtorch/toy_libtorch-config.cmake",
        "lib/libtoy_torch.so",
        "lib/libtoy_torch_core.a",
        "lib/libtoy_torch_registrations.a",
        "lib/pkgconfig/toy_libtorch-static.pc",
        "lib/pkgconfig/toy_libtorch.pc",
        "share/doc/toy_libtorch/licences/miniz/LICENSE",
        "share/doc/toy_libtorch/licences/pytorch/LICENSE",
        "share/doc/toy_libtorch/sbom.cdx.json",
        "symbols/libtoy_torch.so.debug",
    ]
    found = {path for path, entry in content(done.folder).items() if entry[0]}
    assert found == {*done.manifest.files, "manifest.json", MARKER}
    assert done.stripped_bytes == done.shared_library.stat().st_size
    assert done.shared_library.stat().st_mode & 0o777 == 0o755
    # the guide names each, or the folder that it is in
    lines = listed("docs/guide/use-the-library.md", "lib/libcamera_torch.so")
    named = [one for line in lines for one in line.replace("camera", "toy").split(", ")]
    prefixes = tuple(one.removesuffix("...") for one in named if one.endswith(("/", "...")))
    assert {path for path in found if path not in named and not path.startswith(prefixes)} == {
        MARKER
    }
    for one in named:
        assert any(path == one or path.startswith(one.removesuffix("...")) for path in found), one


def test_manifest_tells_the_truth_and_round_trips(quick: DeliverInputs, tmp_path: Path) -> None:
    done = deliver(quick, tmp_path)
    assert read_manifest(done.folder) == done.manifest
    assert Manifest.parse(done.manifest.text()) == done.manifest
    for path, fact in done.manifest.files.items():
        assert fact.sha256 == File("", done.folder / path).sha256()
        assert fact.bytes == (done.folder / path).stat().st_size
    seen = json.loads((done.folder / "manifest.json").read_text())
    assert seen["selection"] == {
        "backends": [],
        "build_features": [],
        "custom_classes": [],
        "kernel_dtypes": {"add_kernel": ["Float", "Long"]},
        "operators": ["aten::add.Tensor", "aten::mul.Tensor"],
        "resolved_operators": None,
        "root_operators": None,
    }
    assert seen["library"]["symbols"] == "symbols/libtoy_torch.so.debug"


def test_the_bill_tells_the_libraries_by_their_digests(
    quick: DeliverInputs, tmp_path: Path
) -> None:
    source = SourceFact(sha256="12" * 32, files=("c10/**",))
    part = Licence("part", "1", "MIT", {"LICENSE": b"text"}, source, ("CVE-1-2", "CVE-1-1"))
    done = deliver(replace(quick, licences=(part,)), tmp_path)
    bill = json.loads((done.folder / "share/doc/toy_libtorch/sbom.cdx.json").read_text())
    root = bill["metadata"]["component"]
    told = {one["name"]: one["hashes"][0]["content"] for one in root["components"]}
    assert told == {
        path: fact.sha256
        for path, fact in done.manifest.files.items()
        if Path(path).suffix in (".so", ".a")
    }
    assert root["licenses"] == [{"license": {"id": "MIT"}}]
    assert done.manifest.licences[0].source == source
    (told_part,) = [one for one in bill["components"] if one["name"] == "part"]
    assert told_part["hashes"] == [{"alg": "SHA-256", "content": source.sha256}]
    assert told_part["pedigree"] == {
        "patches": [
            {"type": "unofficial", "resolves": [{"type": "security", "id": name}]}
            for name in ("CVE-1-1", "CVE-1-2")
        ]
    }


def test_equal_inputs_from_two_folders_give_equal_bytes(
    quick: DeliverInputs, tmp_path: Path
) -> None:
    library, whole, core = quick.shared_library, quick.registrations, quick.core
    assert library is not None
    assert whole is not None
    assert core is not None
    elsewhere = shutil.copytree(library.parent, tmp_path / "copy")
    moved = toy.inputs(
        elsewhere, elsewhere / library.name, elsewhere / whole.name, elsewhere / core.name
    )
    one = deliver(quick, tmp_path / "one")
    two = deliver(moved, tmp_path / "two")
    assert content(one.folder) == content(two.folder)


def test_no_path_of_this_machine_is_delivered(full: DeliverInputs, tmp_path: Path) -> None:
    done = deliver(full, tmp_path)
    for path in done.folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert str(tmp_path).encode() not in data, path
            assert str(toy.ROOT).encode() not in data, path


def test_nothing_is_written_twice(quick: DeliverInputs, tmp_path: Path) -> None:
    first = deliver(quick, tmp_path)
    before = first.folder.stat().st_ino
    again = deliver(quick, tmp_path)
    assert (first.changed, again.changed) == (True, False)
    assert again.folder.stat().st_ino == before
    assert again.manifest == first.manifest


def test_a_lost_file_comes_back(quick: DeliverInputs, tmp_path: Path) -> None:
    done = deliver(quick, tmp_path)
    before = content(done.folder)
    (done.folder / "README.md").unlink()
    (done.folder / "notes.txt").write_text("mine")
    assert deliver(quick, tmp_path).changed
    assert content(done.folder) == before


def put_bytes(path: Path) -> None:
    """Another byte in the middle; size and time stay."""
    status, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def put_link(path: Path) -> None:
    """A link to the same content."""
    elsewhere = path.parents[3] / path.name
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "name", ["lib/libtoy_torch.so", "lib/libtoy_torch_core.a", "include/toy/core.h"]
)
@pytest.mark.parametrize("change", [put_bytes, put_link, lambda path: path.chmod(0o700)])
def test_a_changed_file_is_put_right(
    change: Callable[[Path], None], name: str, quick: DeliverInputs, tmp_path: Path
) -> None:
    done = deliver(quick, tmp_path)
    before = content(done.folder)
    change(done.folder / name)
    assert content(done.folder) != before
    assert deliver(quick, tmp_path).changed
    assert content(done.folder) == before
    assert not deliver(quick, tmp_path).changed


def test_what_is_not_proven_is_not_delivered(quick: DeliverInputs, tmp_path: Path) -> None:
    before = content(deliver(quick, tmp_path).folder)
    other = replace(quick, version="1.3.0")

    def prove(delivered: Delivered) -> None:
        assert delivered.folder.parent == tmp_path / "toy"
        assert delivered.folder.name.startswith(".linux-x86_64.new-")
        assert read_manifest(delivered.folder).version == "1.3.0"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), delivering(other, tmp_path) as delivered:
        prove(delivered)
    assert content(tmp_path / "toy/linux-x86_64") == before
    assert [path.name for path in (tmp_path / "toy").iterdir()] == ["linux-x86_64"]


def test_what_is_there_is_proven_in_its_place(quick: DeliverInputs, tmp_path: Path) -> None:
    first = deliver(quick, tmp_path)
    with delivering(quick, tmp_path) as delivered:
        assert delivered == replace(first, changed=False)


def test_what_a_killed_build_left_is_cleared_away_in_any_case(
    quick: DeliverInputs, tmp_path: Path
) -> None:
    done = deliver(quick, tmp_path)
    shutil.copytree(done.folder, done.folder.with_name(".linux-x86_64.new-12"))
    assert not deliver(quick, tmp_path).changed
    done.folder.rename(done.folder.with_name(".linux-x86_64.old-34"))
    assert not deliver(quick, tmp_path).changed
    assert [path.name for path in (tmp_path / "toy").iterdir()] == ["linux-x86_64"]


def test_another_selection_replaces_the_folder(quick: DeliverInputs, tmp_path: Path) -> None:
    deliver(quick, tmp_path)
    other = replace(quick, selection=SelectionFact(operators=("aten::add",), kernel_dtypes={}))
    done = deliver(other, tmp_path)
    assert done.changed
    assert read_manifest(done.folder).selection.operators == ("aten::add",)


def test_a_foreign_folder_is_refused(quick: DeliverInputs, tmp_path: Path) -> None:
    folder = tmp_path / "toy/linux-x86_64"
    folder.mkdir(parents=True)
    (folder / "mine").write_text("mine")
    with pytest.raises(ForeignFolderError):
        deliver(quick, tmp_path)
    assert [path.name for path in folder.iterdir()] == ["mine"]


@pytest.mark.parametrize("part", ["shared_library", "core", "c_header"])
def test_a_missing_part_is_told(part: str, quick: DeliverInputs, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    inputs = {
        "shared_library": replace(quick, shared_library=absent),
        "core": replace(quick, core=absent),
        "c_header": replace(quick, c_header=absent),
    }[part]
    with pytest.raises(MissingPartError) as caught:
        deliver(inputs, tmp_path / "dist")
    assert caught.value.render() == (
        f"{absent}: error: a part of the delivery cannot be read\n"
        "  expected: a file made by the build\n"
        "  seen:     No such file or directory\n"
        "  do:       build again; if the error persists, run `./orchestrate clean` first"
    )
    assert not (tmp_path / "dist").exists()


def test_a_missing_header_is_told(quick: DeliverInputs, tmp_path: Path) -> None:
    inputs = replace(quick, headers=(HeaderFile(str(tmp_path / "absent.h"), "absent.h"),))
    with pytest.raises(MissingPartError) as caught:
        deliver(inputs, tmp_path / "dist")
    assert str(caught.value.place) == str(tmp_path / "absent.h")


def test_a_library_that_is_none_is_told(quick: DeliverInputs, tmp_path: Path) -> None:
    with pytest.raises(NotStrippableError) as caught:
        deliver(replace(quick, shared_library=quick.core), tmp_path)
    assert str(caught.value.place) == str(quick.core)


@pytest.mark.parametrize("text", [None, "{}", "not JSON", '{"format": 2}'])
def test_an_unreadable_manifest_is_told(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(UnreadableManifestError) as caught:
        read_manifest(tmp_path)
    assert caught.value.hint == "build the variant again"


# --- consumers ---


class Consumer:
    """A CMake project from `golden/package/consumers`, configured against a delivered folder."""

    def __init__(self, name: str, build: Path) -> None:
        workspace = load_workspace(toy.ROOT, os.environ)
        self.source = toy.GOLDEN / "consumers" / name
        self.build = build
        tools = Path(sys.executable).parent
        self.env = {
            **compiler_environment(workspace.cache, os.environ),
            "PATH": f"{tools}:{os.environ['PATH']}",
        }

    def configure(self, prefix: Path, *more: str) -> subprocess.CompletedProcess[str]:
        return self.run(
            "cmake", "-G", "Ninja", "-S", self.source, "-B", self.build,
            f"-DCMAKE_PREFIX_PATH={prefix}", *more,
        )  # fmt: skip

    def output(self) -> str:
        built = self.run("cmake", "--build", self.build)
        assert built.returncode == 0, built.stdout + built.stderr
        return self.run(self.build / "app").stdout

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, command)), env=self.env, capture_output=True, text=True, check=False
        )


def test_delivered_library_obeys_the_rules(full: DeliverInputs, tmp_path: Path) -> None:
    check(
        deliver(full, tmp_path).shared_library,
        ElfRules(
            soname="libtoy_torch.so",
            processor="x86_64",
            exports=frozenset(("lta_add", "lta_version")),
            system_libraries=LIBRARY.system_libraries["gnu"],
        ),
    )


def test_c_consumer_links_the_shared_library(full: DeliverInputs, tmp_path: Path) -> None:
    consumer = Consumer("c_shared", tmp_path / "build")
    # A path with a blank, and moved after it was delivered.
    done = deliver(full, tmp_path / "dist")
    moved = Path(shutil.move(done.folder, tmp_path / "somewhere else"))
    configured = consumer.configure(moved)
    assert configured.returncode == 0, configured.stderr
    assert consumer.output() == "5 toy 1\n"


def test_cxx_consumer_links_the_archives_with_the_toolchain_file(
    full: DeliverInputs, tmp_path: Path
) -> None:
    consumer = Consumer("cxx_static", tmp_path / "build")
    done = deliver(full, tmp_path / "dist")
    moved = Path(shutil.move(done.folder, tmp_path / "somewhere else"))
    toolchain = moved / "lib/cmake/toy_libtorch/toolchain.cmake"
    configured = consumer.configure(moved, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}")
    assert configured.returncode == 0, configured.stderr
    # Registered, although nothing names the registration.
    assert consumer.output() == "5 7 aten::add;\n"
    assert full.core is not None
    assert b"this text must not be in an app" in full.core.read_bytes()
    assert b"this text must not be in an app" not in (tmp_path / "build/app").read_bytes()
    # The archive that is linked whole is not in the link's libraries, yet a change relinks.
    os.utime(moved / "lib/libtoy_torch_registrations.a")
    assert "Linking" in consumer.run("cmake", "--build", consumer.build).stdout


def test_another_standard_library_is_told(full: DeliverInputs, tmp_path: Path) -> None:
    done = deliver(full, tmp_path / "dist")
    consumer = Consumer("cxx_static", tmp_path / "build")
    run = consumer.configure(done.folder, "-DCMAKE_CXX_COMPILER=g++")
    assert run.returncode != 0
    said = " ".join(run.stderr.split())
    assert "the static libraries were built with libc++, and" in said
    assert "uses another C++ standard library. Either link toy_libtorch::shared" in said
    assert f"-DCMAKE_TOOLCHAIN_FILE={done.folder}/lib/cmake/toy_libtorch/toolchain.cmake" in said


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("REQUIRED COMPONENTS static", "add CXX to the project's languages"),
        ("REQUIRED COMPONENTS fast", "it has the components shared and static, not fast"),
        ("2.0 REQUIRED", "toy_libtorch-config.cmake, version: 1.2.0"),
        ("1.3 REQUIRED", "toy_libtorch-config.cmake, version: 1.2.0"),
    ],
)
def test_what_cannot_be_had_is_told(
    wanted: str, said: str, quick: DeliverInputs, tmp_path: Path
) -> None:
    done = deliver(quick, tmp_path / "dist")
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.19)\n"
        "project(p LANGUAGES C)\n"
        f"find_package(toy_libtorch {wanted})\n"
    )
    consumer = Consumer("c_shared", tmp_path / "build")
    consumer.source = project
    run = consumer.configure(done.folder)
    assert run.returncode != 0
    assert said in " ".join(run.stderr.split())


def test_pkg_config_gives_what_links(full: DeliverInputs, tmp_path: Path) -> None:
    done = deliver(full, tmp_path / "dist")
    consumer = Consumer("c_shared", tmp_path / "build")
    consumer.env["PKG_CONFIG_PATH"] = str(done.folder / "lib/pkgconfig")
    flags = consumer.run("pkg-config", "--cflags", "--libs", "toy_libtorch-static").stdout.split()
    app = tmp_path / "app"
    source = toy.GOLDEN / "consumers/cxx_static/main.cpp"
    zig("c++", "-target", toy.TARGET, "-g0", source, *flags, "-o", app)
    assert consumer.run(app).stdout == "5 7 aten::add;\n"
