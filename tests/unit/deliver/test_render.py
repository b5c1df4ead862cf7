"""The delivered texts, compared with golden files, and the bill of materials with its schema.

To write the golden files again after a wanted change: `python tests/unit/deliver/test_render.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import package_toy as toy
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from golden_files import Golden

from orchestrator.deliver import render, sbom
from orchestrator.deliver.manifest import (
    LibraryFact,
    LicenceFact,
    Manifest,
    ModelFact,
    RuntimeFact,
    SelectionFact,
    SourceFact,
    ToolchainFact,
    UnreadableManifestError,
    read_manifest,
)
from orchestrator.values.methods import Call, Input, Method, Parameter

TEXTS = toy.GOLDEN / "texts"
DEB = render.Layout("../../include/camera-libtorch")

CLASSIFIER = ModelFact(
    name="classifier",
    file="models/classifier.ptl",
    sha256="ab" * 32,
    methods=(
        Method(
            name="forward",
            parameters=(Parameter(name="images", type="Tensor"),),
            returns=("Tensor",),
        ),
        Method(name="old", parameters=None),
    ),
    call=Call(
        method="forward",
        arguments=(Input(kind="tensor", dtype="float32", shape=(1, 3, 96, 96)),),
    ),
)
LIBRARIES = {"lib/libcamera_torch.so": "23" * 32, "lib/libcamera_torch_core.a": "45" * 32}


def manifest(**changes: object) -> Manifest:
    facts = Manifest(
        app="camera",
        abi="linux-arm64",
        version="1.2.0",
        package_name="camera-libtorch",
        system="linux",
        processor="arm64",
        for_release=True,
        models=(CLASSIFIER,),
        selection=SelectionFact(
            operators=("aten::conv2d", "aten::add.Tensor"),
            kernel_dtypes={"softmax": ("Float",)},
        ),
        runtime=RuntimeFact(pytorch="1.13.1", tree="cd" * 32),
        toolchain=ToolchainFact(
            compiler="zig",
            version="0.17.0",
            identity="ef" * 32,
            cxx_library="libc++",
            target="aarch64-linux-gnu.2.28",
        ),
        definitions=("C10_MOBILE", "AT_LEVEL=2"),
        library=LibraryFact(
            file="lib/libcamera_torch.so",
            soname="libcamera_torch.so",
            build_id="12" * 20,
            symbols="symbols/libcamera_torch.so.debug",
        ),
        licences=(
            LicenceFact(
                component="pytorch",
                version="1.13.1",
                licence="BSD-3-Clause",
                files=("LICENSE",),
                source=SourceFact(sha256="cd" * 32),
            ),
            LicenceFact(
                component="optional",
                version="",
                licence="BSL-1.0 AND MIT",
                files=("LICENSE",),
                source=SourceFact(sha256="01" * 32, files=("c10/Optional.h", "c10/Half.h")),
            ),
            LicenceFact(
                component="libc++",
                version="22.1.8",
                licence="Apache-2.0 WITH LLVM-exception",
                files=("LICENSE.libcxx",),
            ),
        ),
    )
    return facts.model_copy(update=changes)


def _for_nobody() -> Manifest:
    """Of a stub toolchain, with its model, of which no call is known."""
    delivered = "share/camera/models/classifier.ptl"
    model = CLASSIFIER.model_copy(update={"call": None, "delivered": delivered})
    return manifest(for_release=False, models=(model,))


def texts() -> dict[str, str]:
    """All golden texts by their path below `texts/`."""
    facts = manifest()
    folder = {
        **render.cmake_files(facts, render.FOLDER),
        **render.pkgconfig_files(facts, render.FOLDER),
        "README.md": render.readme(facts, 1_317_024),
        "sbom.cdx.json": sbom.text(facts, LIBRARIES),
        "manifest.json": facts.text(),
    }
    library = LibraryFact(file="lib/libcamera_torch.a", soname=None, build_id=None, symbols=None)
    static = manifest(abi="ios-arm64", system="ios", library=library)
    deb = {**render.cmake_files(facts, DEB), **render.pkgconfig_files(facts, DEB)}
    readmes = {
        "static/README.md": render.readme(static, 20_317_024),
        "not-for-release/README.md": render.readme(_for_nobody(), 1_317_024),
    }
    return (
        {f"folder/{name}": text for name, text in folder.items()}
        | readmes
        | {f"deb/{name}": text for name, text in deb.items() if name != "toolchain.cmake"}
    )


@pytest.mark.parametrize("path", sorted(texts()))
def test_text_is_golden(path: str, golden: Golden) -> None:
    golden(TEXTS / path, texts()[path])


def test_every_golden_text_is_tested() -> None:
    found = {path.relative_to(TEXTS).as_posix() for path in TEXTS.rglob("*") if path.is_file()}
    assert found == set(texts())


def test_other_compilers_get_no_toolchain_file() -> None:
    facts = manifest(
        toolchain=ToolchainFact(
            compiler="command", version="12", identity="ef" * 32, cxx_library="libstdc++"
        )
    )
    files = render.cmake_files(facts, render.FOLDER)
    assert sorted(files) == ["camera_libtorch-config-version.cmake", "camera_libtorch-config.cmake"]
    assert "#ifndef __GLIBCXX__" in files["camera_libtorch-config.cmake"]
    assert '"a compiler that uses libstdc++")' in files["camera_libtorch-config.cmake"]
    assert "toolchain.cmake" not in render.readme(facts, 1)


def test_what_may_not_be_released_says_so() -> None:
    assert "**NOT FOR RELEASE**" in render.readme(manifest(for_release=False), 1)


def test_bill_of_materials_obeys_its_schema() -> None:
    assert (
        JsonStrictValidator(SchemaVersion.V1_5).validate_str(sbom.text(manifest(), LIBRARIES))
        is None
    )


def test_bill_of_materials_is_stable_and_of_this_variant() -> None:
    one, two = sbom.text(manifest(), LIBRARIES), sbom.text(manifest(), LIBRARIES)
    other = sbom.text(manifest(version="1.2.1"), LIBRARIES)
    assert one == two
    assert json.loads(one)["serialNumber"] != json.loads(other)["serialNumber"]
    rebuilt = sbom.text(manifest(), {"lib/libcamera_torch.so": "99" * 32})
    assert json.loads(one)["serialNumber"] != json.loads(rebuilt)["serialNumber"]


def test_the_whole_is_under_the_licences_of_all_parts() -> None:
    bill = json.loads(sbom.text(manifest(), LIBRARIES))
    assert bill["metadata"]["component"]["licenses"] == [
        {"expression": "Apache-2.0 WITH LLVM-exception AND BSD-3-Clause AND BSL-1.0 AND MIT"}
    ]


def write_golden() -> None:
    for path, text in texts().items():
        target = Path(TEXTS / path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("package_name", "camera\nDepends: other"),
        ("package_name", "../camera"),
        ("app", "../camera"),
        ("abi", "linux arm64"),
        ("version", "1\n2"),
    ],
)
def test_a_manifest_that_names_more_than_a_package(key: str, text: str, tmp_path: Path) -> None:
    """These are written into control files, and are parts of paths."""
    value = manifest().model_dump(mode="json") | {key: text}
    (tmp_path / "manifest.json").write_text(json.dumps(value))
    with pytest.raises(UnreadableManifestError):
        read_manifest(tmp_path)


if __name__ == "__main__":
    write_golden()
