"""The packages of an add-on: what an app of each system is made of."""

from __future__ import annotations

import fnmatch
import io
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import package_toy as toy
import pytest
from guide import FENCE, ROOT
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


def guide_file(language: str, name: str) -> str:
    """A file that the guide shows: its name is in a comment."""
    text = (ROOT / "docs/guide/add-ons.md").read_text(encoding="utf-8")
    fences = (one["body"] for one in FENCE.finditer(text) if one["info"] == language)
    (found,) = (body for body in fences if re.search(f"(//|<!--) {re.escape(name)}\\b", body))
    return found


def test_the_guides_dynamic_feature_has_the_libraries_of_all_aars(
    manifest: Manifest, tmp_path: Path
) -> None:
    """As Gradle and bundletool take it: `jni/<abi>/` of what a module depends on is its own."""
    android, dist = (
        f"{{http://schemas.android.com/apk/{one}}}" for one in ("res/android", "distribution")
    )
    app = guide_file("kotlin", "app/build.gradle.kts")
    (name,) = re.findall(r'dynamicFeatures \+= ":(\w+)"', app)
    assert f'include(":{name}")' in guide_file("kotlin", "settings.gradle.kts")
    root = ElementTree.fromstring(guide_file("xml", f"{name}/src/main/AndroidManifest.xml"))
    (module,) = root.findall(f"{dist}module")
    assert module.get(f"{dist}title", "").startswith("@string/")
    assert [one.tag for one in module.findall(f"{dist}delivery/*")] == [f"{dist}on-demand"]
    assert [one.get(f"{dist}include") for one in module.findall(f"{dist}fusing")] == ["false"]
    # the AARs bring no classes, and bundletool refuses a module that does not say so
    assert [one.get(f"{android}hasCode") for one in root.findall("application")] == ["false"]
    built = guide_file("kotlin", f"{name}/build.gradle.kts")
    assert 'id("com.android.dynamic-feature")' in built
    (pattern,) = re.findall(r'fileTree\("libs"\) \{ include\("(.*)"\) \}', built)
    found, namespaces = set(), set()
    for abi, processor in (("android-arm64-v8a", "arm64"), ("android-x86_64", "x86_64")):
        library = for_android(manifest).model_copy(update={"abi": abi, "processor": processor})
        packages = pack_addon(AddonFiles(name, library, FILES), tmp_path)
        (aar,) = (one for one in packages if fnmatch.fnmatch(one.name, pattern))
        with zipfile.ZipFile(aar) as held:
            found |= {one for one in held.namelist() if one.startswith("jni/")}
            text = held.read("AndroidManifest.xml")
            namespaces.add(ElementTree.fromstring(text).get("package"))
    assert found == {f"jni/{abi}/libtoy_torch_{name}.so" for abi in ("arm64-v8a", "x86_64")}
    # two AARs of one namespace are an error of Gradle's
    (own,) = re.findall(r'namespace = "(.*)"', built)
    assert len({*namespaces, own}) == 3
    loading = guide_file("kotlin", "app/src/main/java/com/example/camera/Pages.kt")
    assert f'requestInstall(listOf("{name}"))' in loading
    assert re.findall(r'findLibrary\("(.*)"\)', loading) == [f"camera_torch_{name}"]


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
