"""The packages of an add-on: what an app of each system is made of."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import package_toy as toy
import pytest
from test_deb_and_tar import dpkg, untar

from orchestrator.deliver.files import File, ForeignFileError
from orchestrator.deliver.manifest import AndroidFact, Manifest
from orchestrator.deliver.variant import deliver
from orchestrator.packagers.addons import AddonFiles, pack_addon

LIBRARY = b"\x7fELF, as it were"
FACTS = json.dumps({"name": "pages"}).encode()
FILES = (
    File("lib/libtoy_torch_pages.so", LIBRARY, executable=True),
    File("symbols/libtoy_torch_pages.so.debug", b"symbols"),
    File("addon.json", FACTS),
    File("share/doc/pages/pytorch/LICENSE", b"PyTorch's.\n"),
    File("share/doc/pages/libcxx/LICENSE", b"LLVM's.\n"),
)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("toy")
    return deliver(toy.quick_inputs(folder / "parts"), folder).manifest


def for_android(manifest: Manifest, *, stub: bool = False) -> Manifest:
    facts = manifest.toolchain.model_copy(
        update={"android": AndroidFact(api=24, ndk=26, stl="c++_static"), "target": None}
    )
    changed = {"abi": "android-arm64-v8a", "system": "android", "processor": "arm64"}
    return manifest.model_copy(update={**changed, "toolchain": facts, "for_release": not stub})


def test_a_debian_package_puts_it_beside_its_library(manifest: Manifest, tmp_path: Path) -> None:
    archive, deb = pack_addon(AddonFiles("Pages_2", manifest, FILES), tmp_path)
    assert archive.name == "toy-libtorch-1.2.0-Pages_2-linux-x86_64.tar.zst"
    assert deb.name == "toy-libtorch-pages-2_1.2.0_amd64.deb"
    with untar(archive) as tar:
        files = {m.name.partition("/")[2]: m.mode for m in tar.getmembers() if m.isfile()}
    shipped = [file for file in FILES if not file.path.startswith("symbols/")]
    assert files == {file.path: file.mode for file in shipped}
    fields = dpkg("--field", deb)
    assert "Depends: toy-libtorch (= 1.2.0)\n" in fields
    assert (
        "Description: add-on Pages_2 to PyTorch cut for the app toy\n"
        " For one build of toy-libtorch 1.2.0 (linux-x86_64).\n" in fields
    )
    dpkg("--extract", deb, tmp_path / "root")
    root = tmp_path / "root/usr"
    assert (root / "lib/x86_64-linux-gnu/libtoy_torch_pages.so").read_bytes() == LIBRARY
    documents = root / "share/doc/toy-libtorch-pages-2"
    assert (documents / "addon.json").read_bytes() == FACTS
    assert (documents / "copyright").read_text() == "pytorch\n\nPyTorch's.\n\nlibcxx\n\nLLVM's.\n"
    assert [path.name for path in root.rglob("*.debug")] == []


def test_an_aar_brings_it_into_a_module_of_an_app(manifest: Manifest, tmp_path: Path) -> None:
    android = for_android(manifest)
    archive, aar = pack_addon(AddonFiles("new-pages", android, FILES), tmp_path)
    assert archive.name == "toy-libtorch-1.2.0-new-pages-android-arm64-v8a.tar.zst"
    assert aar.name == "toy-libtorch-1.2.0-new-pages-android-arm64-v8a.aar"
    with zipfile.ZipFile(aar) as held:
        names = held.namelist()
        held_manifest = ElementTree.fromstring(held.read("AndroidManifest.xml"))
        classes = zipfile.ZipFile(io.BytesIO(held.read("classes.jar"))).namelist()
        assert held.read("jni/arm64-v8a/libtoy_torch_pages.so") == LIBRARY
    folder = "META-INF/toy_libtorch/addons/new-pages/arm64-v8a"
    assert names == [
        "AndroidManifest.xml",
        f"{folder}/addon.json",
        f"{folder}/pages/libcxx/LICENSE",
        f"{folder}/pages/pytorch/LICENSE",
        "R.txt",
        "classes.jar",
        "jni/arm64-v8a/libtoy_torch_pages.so",
    ]
    assert classes == ["META-INF/MANIFEST.MF"]
    # the library's own AAR has the namespace libtorch.toy, and another ABI's has another
    assert held_manifest.get("package") == "libtorch.toy.addon_new_pages_arm64_v8a"
    (least,) = held_manifest
    assert list(least.attrib.values()) == ["24"]


def test_what_must_not_ship_says_so(manifest: Manifest, tmp_path: Path) -> None:
    stub = for_android(manifest, stub=True)
    names = [path.name for path in pack_addon(AddonFiles("pages", stub, FILES), tmp_path)]
    stem = "toy-libtorch-1.2.0-pages-android-arm64-v8a-NOT-FOR-RELEASE"
    assert names == [f"{stem}.tar.zst", f"{stem}.aar"]


def test_musl_has_no_debian_package(manifest: Manifest, tmp_path: Path) -> None:
    facts = manifest.toolchain.model_copy(update={"target": "x86_64-linux-musl"})
    musl = manifest.model_copy(update={"toolchain": facts})
    (archive,) = pack_addon(AddonFiles("pages", musl, FILES), tmp_path)
    assert archive.suffixes[-2:] == [".tar", ".zst"]


def test_equal_add_ons_are_equal_packages(manifest: Manifest, tmp_path: Path) -> None:
    android = AddonFiles("pages", for_android(manifest), FILES)
    one = pack_addon(android, tmp_path / "one")
    two = pack_addon(replace(android, files=FILES[::-1]), tmp_path / "two")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_what_somebody_changed_is_not_replaced(manifest: Manifest, tmp_path: Path) -> None:
    android = AddonFiles("pages", for_android(manifest), FILES)
    _, aar = pack_addon(android, tmp_path)
    aar.write_bytes(b"theirs")
    with pytest.raises(ForeignFileError) as caught:
        pack_addon(android, tmp_path)
    assert caught.value.hint == "move it away, or give the add-on another name: --name NAME"
