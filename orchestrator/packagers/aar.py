"""An Android library with all of an app's Android ABIs, and its companion files.

    <name>.aar                      Java API, libraries, prefab modules
    <name>-sources.jar              the Java API's sources, as Maven repositories have them
    <name>-native-debug-symbols.zip the libraries' symbols, as app stores take them
    maven/                          a Maven repository of two artifacts (see `maven`): <package>,
                                    the Java API and the libraries; <package>-native, what C and
                                    C++ code links against, which brings the first along

    AndroidManifest.xml, R.txt, proguard.txt
    classes.jar                     the Java API, and PyTorch Android's with `java_api` (`aar_java`)
    jni/<abi>/*.so                  what goes into an app
    assets/<app>_libtorch/models/   the app's models, where it delivers them
    prefab/                         what C and C++ code links against (see `aar_prefab`)
    META-INF/<app>_libtorch/        for each ABI: manifest, licences, SBOM; java.json
                                    (Android's tools put nothing of it into an app)

Contract: see `delivered.Packager`. Every library is checked before anything is written. Where no
javac is found, classes.jar is empty, and the package's name and java.json say so.

The format: https://developer.android.com/studio/projects/android-library#aar-contents
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from orchestrator.binary import elf
from orchestrator.deliver import render
from orchestrator.deliver.delivered import NOT_FOR_RELEASE, Delivery
from orchestrator.deliver.files import File, write_package, write_package_folder
from orchestrator.deliver.manifest import MANIFEST, AndroidFact, LicenceFact, Manifest
from orchestrator.deliver.rules import FOR_ADDONS, shared_library_rules
from orchestrator.errors import OrchestratorError
from orchestrator.packagers.aar_java import (
    RELEASE,
    JavaCompiler,
    compile_java,
    find_java_compiler,
    jar,
    java_package,
    java_sources,
)
from orchestrator.packagers.aar_prefab import C_HEADER, AndroidVariant, prefab_files
from orchestrator.packagers.maven import Artifact, repository
from orchestrator.packagers.zips import write_zip
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.android import LIBRARY
from orchestrator.values.packages import PARTS, artifact_name

JOINS_ABIS: Final = True

WITHOUT_JAVA: Final = "WITHOUT-JAVA"
MAVEN: Final = "maven"
_NATIVE: Final = PARTS["aar"][1]
FIRST: Final = "AndroidManifest.xml"
# processor -> Android's name of the ABI; https://developer.android.com/ndk/guides/abis
_ABIS: Final[Mapping[str, str]] = {
    "arm64": "arm64-v8a",
    "armv7": "armeabi-v7a",
    "x86_64": "x86_64",
}


class NotForAndroidError(OrchestratorError):
    """A variant that is not for Android, or does not say for which API level."""


@dataclass(frozen=True)
class _Parts:
    """Contents of the packages; `version` carries the marks of a build that is incomplete."""

    variants: tuple[AndroidVariant, ...]
    sources: tuple[File, ...]
    compiler: JavaCompiler | None
    classes: Callable[[], tuple[File, ...]]
    version: str

    @property
    def manifest(self) -> Manifest:
        """Manifest of the first variant, for the facts that all variants share."""
        return self.variants[0].delivery.manifest


def names(manifests: Sequence[Manifest], env: Mapping[str, str]) -> tuple[str, ...]:
    """The names: AAR, sources, symbols, the Maven repository. Raises `NotForAndroidError`."""
    for manifest in manifests:
        _facts(manifest)
    stem = f"{manifests[0].package_name}-{_version(manifests, _java_compiler(env))}"
    return (f"{stem}.aar", f"{stem}-sources.jar", f"{stem}-native-debug-symbols.zip", MAVEN)


def pack(deliveries: Sequence[Delivery], into: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Makes the AAR of an app's deliveries, and its companion files.

    Raises `NotForAndroidError`, `JavaCompileError`, the errors of `elf.check`, and what
    `write_package` raises.
    """
    variants = tuple(sorted(map(_variant, deliveries), key=lambda variant: variant.abi))
    for variant in variants:
        _check(variant)
    manifests = [variant.delivery.manifest for variant in variants]
    compiler = _java_compiler(env)
    abis = [variant.abi for variant in variants]
    first = manifests[0]
    sources = java_sources(first.app, _library_name(variants[0]), abis, first.java_api)
    # Both the AAR and the repository hold them.
    classes = cache(lambda: compile_java(sources, compiler) if compiler else ())
    parts = _Parts(variants, sources, compiler, classes, _version(manifests, compiler))
    made_of = _digest(variants, sources, compiler)
    targets = tuple(into / name for name in names(manifests, env))
    writers = (
        partial(_write, contents=lambda: _aar(parts)),
        partial(_write, contents=lambda: sources),
        partial(_write, contents=lambda: _symbols(variants)),
    )
    for target, write in zip(targets, writers, strict=False):
        write_package(target, made_of, write)
    write_package_folder(targets[-1], made_of, lambda: _repository(parts))
    return targets


def android_abi(manifest: Manifest) -> str:
    """Android's name of a variant's ABI. Raises `NotForAndroidError`."""
    _facts(manifest)
    return _ABIS[manifest.processor]


def android_manifest(namespace: str, manifest: Manifest) -> str:
    """The text of an AndroidManifest.xml for a variant. Raises `NotForAndroidError`."""
    return _ANDROID_MANIFEST.format(package=namespace, least=_facts(manifest).api)


def _check(variant: AndroidVariant) -> None:
    library = variant.library.content
    assert isinstance(library, Path)
    header = variant.file(f"include/{C_HEADER}").content
    assert isinstance(header, Path)
    rules = shared_library_rules(
        variant.delivery.manifest,
        LIBRARY,
        header.read_text(encoding="utf-8"),
        c_library="bionic",
        holds_cxx_library=variant.facts.stl == "c++_static",
        # which is allowed to those that it was built for (build/delivering/library_rules.py)
        besides=FOR_ADDONS,
    )
    elf.check(library, rules)


def _facts(manifest: Manifest) -> AndroidFact:
    facts = manifest.toolchain.android
    if "aar" not in PLATFORMS[manifest.system].packages or facts is None:
        raise NotForAndroidError(
            f"{manifest.abi} is not an Android ABI",
            expected="a variant for Android, with a minimum API level",
            seen=manifest.system if facts else f"{manifest.system}, no API level",
            hint="remove `aar` from the app's packages, or the ABI from its targets",
        )
    return facts


def _variant(delivery: Delivery) -> AndroidVariant:
    return AndroidVariant(_ABIS[delivery.manifest.processor], delivery, _facts(delivery.manifest))


def _version(manifests: Sequence[Manifest], compiler: JavaCompiler | None) -> str:
    marks = [] if all(manifest.for_release for manifest in manifests) else [NOT_FOR_RELEASE]
    marks += [] if compiler else [WITHOUT_JAVA]
    return "-".join([manifests[0].version, *marks])


def _java_compiler(env: Mapping[str, str]) -> JavaCompiler | None:
    return _found_in(env.get("JAVA_HOME", ""), env.get("PATH", ""))


@cache
def _found_in(home: str, path: str) -> JavaCompiler | None:
    return find_java_compiler({"JAVA_HOME": home, "PATH": path})


def _library_name(variant: AndroidVariant) -> str:
    """`camera_torch` for `libcamera_torch.so`."""
    return PurePosixPath(variant.library.path).stem.removeprefix("lib")


def _digest(
    variants: Iterable[AndroidVariant], sources: Iterable[File], compiler: JavaCompiler | None
) -> str:
    """Digest of all inputs of the packages."""
    parts = [variant.delivery.digest for variant in variants]
    parts += [f"{file.path} {file.sha256()}" for file in sources]
    parts.append(compiler.version if compiler else "no javac")
    return "aar 3 " + hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _write(target: BinaryIO, contents: Callable[[], Iterable[File]]) -> None:
    write_zip(target, contents(), first=FIRST)


def _aar(parts: _Parts) -> Iterator[File]:
    """All in one file, for adding it by hand."""
    yield from _texts(parts, java_package(parts.manifest.app))
    yield from _java_side(parts)
    yield from prefab_files(parts.variants)


def _repository(parts: _Parts) -> tuple[File, ...]:
    """The same as two artifacts: few apps want the headers and archives."""
    manifest = parts.manifest
    package = java_package(manifest.app)
    name = artifact_name(manifest.package_name)
    java = [*_texts(parts, package), *_java_side(parts)]
    # Two modules of an app may not have one namespace.
    native = [
        *_texts(parts, f"{package}.prefab"),
        File("classes.jar", jar(())),
        *prefab_files(parts.variants),
    ]
    artifact = partial(
        Artifact,
        group=manifest.maven_group or package,
        version=parts.version,
        licences=tuple(sorted({f.licence for v in parts.variants for f in _licences(v)})),
    )
    what = f"PyTorch {manifest.runtime.pytorch}, cut for the app {manifest.app}"
    artifacts = (
        artifact(
            name=name,
            title=manifest.package_name,
            description=f"{what}: Java API and native libraries.",
            files={".aar": _zipped(java), "-sources.jar": _zipped(parts.sources)},
        ),
        artifact(
            name=f"{name}{_NATIVE}",
            title=f"{manifest.package_name}{_NATIVE}",
            description=f"{what}: prefab modules for C and C++.",
            files={".aar": _zipped(native)},
            depends_on=(name,),
        ),
    )
    return (File("README.md", _readme(parts).encode()), *repository(artifacts))


def _zipped(files: Iterable[File]) -> bytes:
    target = io.BytesIO()
    write_zip(target, files, first=FIRST)
    return target.getvalue()


def _licences(variant: AndroidVariant) -> tuple[LicenceFact, ...]:
    return variant.delivery.manifest.licences


def _texts(parts: _Parts, namespace: str) -> Iterator[File]:
    """Yield the texts that every AAR has, and the documents."""
    manifest = parts.manifest
    least = max(variant.facts.api for variant in parts.variants)
    folder = f"META-INF/{render.package_name(manifest.app)}"
    texts = {
        "AndroidManifest.xml": _ANDROID_MANIFEST.format(package=namespace, least=least),
        "R.txt": "",
        f"{folder}/README.md": _readme(parts),
        f"{folder}/java.json": _java_facts(java_package(manifest.app), parts.compiler),
    }
    yield from (File(path, text.encode()) for path, text in texts.items())
    yield from _documents(parts.variants)


def _java_side(parts: _Parts) -> Iterator[File]:
    """Yield the files that an app runs: Java classes, libraries, models."""
    package = java_package(parts.manifest.app)
    yield File("proguard.txt", KEPT.format(package=package).encode())
    yield File("classes.jar", jar(parts.classes()))
    yield from _jni(parts.variants)
    yield from _assets(parts.variants[0])


def _readme(parts: _Parts) -> str:
    manifest = parts.manifest
    package = java_package(manifest.app)
    return render.readme_aar(
        manifest,
        package=package,
        group=manifest.maven_group or package,
        artifact=artifact_name(manifest.package_name),
        version=parts.version,
        abis=[variant.abi for variant in parts.variants],
        for_release=all(v.delivery.manifest.for_release for v in parts.variants),
    )


_ANDROID_MANIFEST: Final = """\
<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android"
    package="{package}">

    <uses-sdk android:minSdkVersion="{least}" />

</manifest>
"""
KEPT: Final = """\
# Native code binds the methods of this class by their names, and calls one of them.
-keep class {package}.Native {{ *; }}
"""


def _java_facts(package: str, compiler: JavaCompiler | None) -> str:
    facts = {
        "package": package,
        "compiler": compiler.version if compiler else None,
        "release": RELEASE,
    }
    if compiler is None:
        facts["note"] = "no javac was found: classes.jar is empty; compile the sources.jar"
    return json.dumps(facts, indent=2, sort_keys=True) + "\n"


def _jni(variants: Iterable[AndroidVariant]) -> Iterator[File]:
    """The shared libraries: the app's, and the NDK's libc++ where it is not inside."""
    for variant in variants:
        for path, file in variant.delivery.files.items():
            if path.startswith("lib/") and path.endswith(".so"):
                name = f"jni/{variant.abi}/{PurePosixPath(path).name}"
                yield File(name, file.content, executable=True)


def _assets(variant: AndroidVariant) -> Iterator[File]:
    """The models that the app delivers, which are the same for every ABI."""
    manifest = variant.delivery.manifest
    for model in manifest.models:
        if model.delivered is not None:
            path = f"assets/{render.package_name(manifest.app)}/models/{model.name}.ptl"
            yield File(path, variant.file(model.delivered).content)


def _documents(variants: Iterable[AndroidVariant]) -> Iterator[File]:
    for variant in variants:
        name = render.package_name(variant.delivery.manifest.app)
        folder = f"share/doc/{name}/"
        for path, file in variant.delivery.files.items():
            if path == MANIFEST or path.startswith(folder):
                inner = path.removeprefix(folder)
                yield File(f"META-INF/{name}/{variant.abi}/{inner}", file.content)


def _symbols(variants: Iterable[AndroidVariant]) -> Iterator[File]:
    """`<abi>/<library>.so.dbg`, as Play Console takes them."""
    for variant in variants:
        library = variant.delivery.manifest.library
        if library.symbols is not None:
            path = f"{variant.abi}/{PurePosixPath(library.file).name}.dbg"
            yield File(path, variant.file(library.symbols).content)
