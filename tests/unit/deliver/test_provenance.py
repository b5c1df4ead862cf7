"""The statement about a package's provenance, compared with golden files."""

from __future__ import annotations

import json

import package_toy as toy
import pytest
from golden_files import Golden
from test_render import manifest

from orchestrator.deliver import provenance
from orchestrator.deliver.manifest import (
    AndroidFact,
    KernelsFact,
    LicenceFact,
    Manifest,
    SourceFact,
    ToolchainFact,
)

STATEMENTS = toy.GOLDEN / "provenance"
OWN = SourceFact(sha256="67" * 32, files=("sources/nms.cpp", "sources/nms.h"))
ARCHIVES = {
    "camera-libtorch-1.2.0-linux-arm64.tar.zst": "a1" * 32,
    "camera-libtorch-1.2.0-linux-arm64-symbols.tar.zst": "a2" * 32,
}
AAR = {"camera-libtorch-1.2.0.aar": "a3" * 32, "maven/app/camera/maven-metadata.xml": "a4" * 32}


def part(component: str, version: str, source: SourceFact | None) -> LicenceFact:
    return LicenceFact(
        component=component, version=version, licence="MIT", files=("LICENSE",), source=source
    )


def android(abi: str, target: str) -> Manifest:
    """Of an app with sources, a licence of them, a delivered model and kernels of a library."""
    plain = manifest()
    (model,) = plain.models
    tree = part("XNNPACK", "0.0~git20241108", SourceFact(sha256="89" * 32))
    return manifest(
        abi=abi,
        system="android",
        fingerprint="0a" * 32,
        maven_group="org.example",
        java_api="org.pytorch",
        cxx_api="LibTorch-Lite",
        threads=0,
        models=(model.model_copy(update={"delivered": "share/camera/models/classifier.ptl"}),),
        sources=OWN,
        kernels=KernelsFact(
            features=("gemm",), library="xnnpack", version="0.0~git20241108", levels=("dotprod",)
        ),
        toolchain=ToolchainFact(
            compiler="ndk",
            version="clang version 19.0.1",
            identity="ef" * 32,
            cxx_library="libc++",
            target=target,
            android=AndroidFact(api=24, ndk=29, stl="c++_static"),
        ),
        licences=(
            *plain.licences[1:],
            part("PyTorch", "1.13.1", SourceFact(sha256="cd" * 32)),
            part("camera-sources", "1.2.0", OWN),
            part("libcxx", "19.0.1", SourceFact(sha256="45" * 32, files=("libcxx/**",))),
            tree,
        ),
    )


ANDROID = (
    android("android-x86_64", "x86_64-linux-android24"),
    android("android-arm64-v8a", "aarch64-linux-android24"),
)


def texts() -> dict[str, str]:
    return {
        "tar.json": provenance.text("tar", [manifest(licences=())], ARCHIVES, "0.1.0"),
        "aar.json": provenance.text("aar", ANDROID, AAR, "0.1.0"),
    }


@pytest.mark.parametrize("name", sorted(texts()))
def test_statement_is_golden(name: str, golden: Golden) -> None:
    golden(STATEMENTS / name, texts()[name])


def test_every_golden_statement_is_tested() -> None:
    assert {path.name for path in STATEMENTS.iterdir()} == set(texts())


def test_equal_packages_have_equal_statements() -> None:
    """In whatever order they come; another digest, source or orchestrator is another statement."""
    first = texts()["aar.json"]
    turned = dict(reversed(AAR.items()))
    assert provenance.text("aar", ANDROID[::-1], turned, "0.1.0") == first
    other = [one.model_copy(update={"sources": None}) for one in ANDROID]
    changed = {
        first,
        provenance.text("aar", ANDROID, AAR | {"camera-libtorch-1.2.0.aar": "00" * 32}, "0.1.0"),
        provenance.text("aar", other, AAR, "0.1.0"),
        provenance.text("aar", ANDROID, AAR, "0.1.1"),
    }
    assert len(changed) == 4


def test_what_tells_a_dependency_is_in_it_once() -> None:
    """The specification asks for a URI or a digest; variants have their sources in common."""
    built = json.loads(texts()["aar.json"])["predicate"]["buildDefinition"]
    known = built["resolvedDependencies"]
    assert all({"uri", "digest"} & one.keys() for one in known)
    assert [one["name"] for one in known] == [
        *("PyTorch", "XNNPACK", "camera-sources", "libcxx", "models/classifier.ptl"),
        *("ndk", "ndk"),
    ]
