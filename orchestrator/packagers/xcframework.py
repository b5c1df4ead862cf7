"""An app's iOS variants as one XCFramework, and as a Swift package around it.

    <Name>-<version>.xcframework.zip   <Name>.xcframework/: for Xcode, CMake, and SwiftPM's `url:`
    <Name>-<version>-swift.zip         <Name>/Package.swift and podspec, with the XCFramework beside
                                       them, and a Swift API over it

    <Name>.xcframework/
      Info.plist                       as `xcodebuild -create-xcframework` writes it
      ios-arm64/, ios-arm64_x86_64-simulator/
        lib<app>_torch.a               universal where there are several processors
        Headers/<Name>/                the C API and its module map
      PrivacyInfo.xcprivacy, README.md, manifest.json, sbom.cdx.json, licences/
      Models/                          the app's models, where it delivers them

With `cxx_api: LibTorch-Lite`, `Headers` has that pod's headers too (`native/pod`), and the Swift
package a podspec of that name.

Contract: see `delivered.Packager`. Every object in it is checked: platform, least version,
processor, and that the library exports the C API and nothing else. The headers are in a folder with
the module's name: Xcode copies all `Headers` into one place, where two module maps would clash.
"""

from __future__ import annotations

import json
import plistlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from orchestrator.binary import macho
from orchestrator.binary.macho_universal import universal
from orchestrator.deliver import sbom
from orchestrator.deliver.app_samples import is_called_in_swift, swift_function
from orchestrator.deliver.delivered import NO_ENVIRONMENT, NOT_FOR_RELEASE, Delivery
from orchestrator.deliver.files import File, write_package
from orchestrator.deliver.manifest import BILL, Manifest
from orchestrator.deliver.render import methods_by_model, package_name
from orchestrator.deliver.rules import static_library_rules
from orchestrator.deliver.sample import c_program, sampled
from orchestrator.errors import OrchestratorError
from orchestrator.packagers.privacy import privacy_manifest
from orchestrator.packagers.zips import write_zip
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.platform import StaticLibrary
from orchestrator.system.templates import environment
from orchestrator.values import packages
from orchestrator.values.config.toolchain import System

JOINS_ABIS: Final = True

_HEADER: Final = "include/libtorch_app.h"
_NATIVE: Final = Path(__file__).parents[1] / "native"
_POD_INCLUDES: Final = (
    "ATen/ATen.h",
    "torch/csrc/jit/mobile/import.h",
    "torch/csrc/jit/mobile/module.h",
    "torch/script.h",
    "torch/torch.h",
)
# `aarch64-ios.15.0-simulator` (zig), `arm64-apple-ios15.0-simulator` (Xcode)
_TARGET: Final = re.compile(r"-ios\.?(\d+(?:\.\d+)*)(?:-simulator)?$")


class MixedVariantsError(OrchestratorError):
    """Variants that one XCFramework cannot hold together."""


@dataclass(frozen=True)
class _Slice:
    """The variants of one platform, by processor."""

    system: System
    variants: Mapping[str, Delivery]

    @property
    def _simulator(self) -> bool:
        library = PLATFORMS[self.system].library
        return isinstance(library, StaticLibrary) and library.simulator

    @property
    def identifier(self) -> str:
        """`ios-arm64_x86_64-simulator`."""
        suffix = "-simulator" if self._simulator else ""
        return f"ios-{'_'.join(sorted(self.variants))}{suffix}"

    def library(self) -> bytes:
        return universal({cpu: _content(one, _library(one)) for cpu, one in self.variants.items()})

    def entry(self, file: str) -> dict[str, object]:
        """Its dictionary in `AvailableLibraries`."""
        entry: dict[str, object] = {
            "BinaryPath": file,
            "HeadersPath": "Headers",
            "LibraryIdentifier": self.identifier,
            "LibraryPath": file,
            "SupportedArchitectures": sorted(self.variants),
            "SupportedPlatform": "ios",
        }
        if self._simulator:
            entry["SupportedPlatformVariant"] = "simulator"
        return entry


def names(
    manifests: Sequence[Manifest], env: Mapping[str, str] = NO_ENVIRONMENT
) -> tuple[str, ...]:
    """The XCFramework's file name and the Swift package's. Raises MixedVariantsError."""
    _refuse_mixed(manifests)
    stem = f"{module_name(manifests[0])}-{manifests[0].version}"
    if not all(manifest.for_release for manifest in manifests):
        stem += f"-{NOT_FOR_RELEASE}"
    return (f"{stem}.xcframework.zip", f"{stem}-swift.zip")


def pack(
    deliveries: Sequence[Delivery], into: Path, env: Mapping[str, str] = NO_ENVIRONMENT
) -> tuple[Path, ...]:
    """Makes both packages of an app's deliveries.

    Raises MixedVariantsError, UnexplainedCallError, and what `macho.check` and `write_package`
    raise.
    """
    manifests = [delivery.manifest for delivery in deliveries]
    for delivery in deliveries:
        library = delivery.files[delivery.manifest.library.file].content
        assert isinstance(library, Path)
        macho.check(library, _rules(delivery))
    files = _xcframework(deliveries)
    targets = tuple(into / name for name in names(manifests))
    contents = (files, [*files, *_swift_package(manifests, files)])
    prefixes = ("", f"{module_name(manifests[0])}/")
    digest = sha256("".join(sorted(one.digest for one in deliveries)).encode()).hexdigest()
    for target, content, prefix in zip(targets, contents, prefixes, strict=True):
        made_of = f"xcframework 4 {digest}"
        write_package(target, made_of, partial(_write, files=content, prefix=prefix))
    return targets


def module_name(manifest: Manifest) -> str:
    """Name of the Swift and C modules."""
    return packages.module_name(manifest.package_name)


def minimum_of(manifest: Manifest) -> str:
    """The minimum iOS version of a variant, from its toolchain's target."""
    match = _TARGET.search(manifest.toolchain.target or "")
    if match is None:
        raise MixedVariantsError(
            f"the variant for {manifest.abi} is not for iOS",
            expected="a toolchain whose target is an iOS version",
            seen=manifest.toolchain.target or "no target",
        )
    return match[1]


def _write(target: BinaryIO, files: Iterable[File], prefix: str) -> None:
    write_zip(target, [File(prefix + f.path, f.content, f.executable) for f in files])


def _refuse_mixed(manifests: Sequence[Manifest]) -> None:
    first = manifests[0]
    for manifest in manifests:
        same = [
            (one.app, one.package_name, one.version, one.fingerprint) for one in (first, manifest)
        ]
        if same[0] != same[1]:
            raise MixedVariantsError(
                "the variants come from different builds",
                expected=f"{first.package_name} {first.version}, as for {first.abi}",
                seen=f"{manifest.package_name} {manifest.version} for {manifest.abi}",
                hint="build them together",
            )
    seen: dict[tuple[str, str], str] = {}
    for manifest in manifests:
        key = (manifest.system, manifest.processor)
        if key in seen:
            raise MixedVariantsError(
                f"two variants are for {manifest.system} on {manifest.processor}",
                expected="one variant for each platform and processor",
                seen=f"{seen[key]} and {manifest.abi}",
                hint="remove one of them from the app's targets, or package them separately",
            )
        seen[key] = manifest.abi


def _rules(variant: Delivery) -> macho.MachoRules:
    header, minimum = _content(variant, _HEADER).decode(), minimum_of(variant.manifest)
    return static_library_rules(variant.manifest, header, minimum=minimum)


def _slices(variants: Iterable[Delivery]) -> list[_Slice]:
    by_system: dict[System, dict[str, Delivery]] = {}
    for variant in variants:
        manifest = variant.manifest
        by_system.setdefault(manifest.system, {})[manifest.processor] = variant
    return [_Slice(system, by_system[system]) for system in sorted(by_system)]


def _xcframework(variants: Sequence[Delivery]) -> list[File]:
    first = variants[0]
    module, slices = module_name(first.manifest), _slices(variants)
    library = PurePosixPath(_library(first)).name
    manifests = sorted((variant.manifest for variant in variants), key=lambda one: one.abi)
    symbols = {
        symbol
        for variant in variants
        for symbol in macho.needed_symbols(_path(variant, _library(variant)))
    }
    context = _context(manifests)
    libraries = {f"{one.identifier}/{library}": one.library() for one in slices}
    digests = {path: sha256(content).hexdigest() for path, content in libraries.items()}
    files = {
        "Info.plist": _info(slices, library),
        "PrivacyInfo.xcprivacy": privacy_manifest(symbols),
        "README.md": _render("README.md.j2", context),
        "manifest.json": _manifests(manifests),
        BILL: sbom.text(_joined(manifests), digests).encode(),
        **_licences(variants),
        **libraries,
    }
    files |= {f"Models/{name}.ptl": content for name, content in _models(first).items()}
    for one in slices:
        headers = f"{one.identifier}/Headers/{module}"
        files[f"{headers}/libtorch_app.h"] = _content(first, _HEADER)
        files[f"{headers}/module.modulemap"] = _render("module.modulemap.j2", context)
        if first.manifest.cxx_api is not None:
            files |= pod_headers(f"{one.identifier}/Headers", module)
    return [File(f"{module}.xcframework/{path}", content) for path, content in files.items()]


def pod_headers(folder: str, module: str) -> dict[str, bytes]:
    """The headers that apps of the pod LibTorch-Lite include: its umbrella and those of PyTorch's
    that its demos name, each of which is the umbrella."""
    classes = (_NATIVE / "pod/classes.h").read_bytes()
    umbrella = f'#include "../{module}/libtorch_app.h"\n#include "classes.h"\n'
    files = {f"{folder}/Libtorch-Lite/classes.h": classes}
    files[f"{folder}/Libtorch-Lite/Libtorch-Lite.h"] = umbrella.encode()
    for path in _POD_INCLUDES:
        files[f"{folder}/{path}"] = b"#include <Libtorch-Lite/Libtorch-Lite.h>\n"
    return files


def _info(slices: Iterable[_Slice], library: str) -> bytes:
    return plistlib.dumps(
        {
            "AvailableLibraries": [one.entry(library) for one in slices],
            "CFBundlePackageType": "XFWK",
            "XCFrameworkFormatVersion": "1.0",
        },
        sort_keys=True,
    )


def _manifests(manifests: Iterable[Manifest]) -> bytes:
    """The variants' manifests by ABI; their files are those of the delivered folders."""
    text = {manifest.abi: manifest.model_dump(mode="json") for manifest in manifests}
    whole = {"format": 1, "variants": text}
    return (json.dumps(whole, indent=2, sort_keys=True) + "\n").encode()


def _joined(manifests: Sequence[Manifest]) -> Manifest:
    """One manifest for the bill of materials: all ABIs, all parts."""
    parts = {(part.component, part.version): part for one in manifests for part in one.licences}
    abis = " ".join(manifest.abi for manifest in manifests)
    licences = tuple(parts[key] for key in sorted(parts))
    return manifests[0].model_copy(update={"abi": abis, "licences": licences})


def _licences(variants: Iterable[Delivery]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for variant in variants:
        folder = f"share/doc/{package_name(variant.manifest.app)}/"
        for path in variant.files:
            if path.startswith(f"{folder}licences/"):
                found[path.removeprefix(folder)] = _content(variant, path)
    return found


def _models(variant: Delivery) -> dict[str, bytes]:
    """The models that the app delivers, which are the same for every ABI."""
    return {
        model.name: _content(variant, model.delivered)
        for model in variant.manifest.models
        if model.delivered is not None
    }


def _swift_package(manifests: Sequence[Manifest], files: Sequence[File]) -> list[File]:
    context = _context(manifests)
    module = module_name(manifests[0])
    sources = f"Sources/{module}Swift"
    privacy = next(file for file in files if file.path.endswith("/PrivacyInfo.xcprivacy"))
    models = [
        File(f"{sources}/Models/{PurePosixPath(file.path).name}", file.content)
        for file in files
        if PurePosixPath(file.path).parent.name == "Models"
    ]
    if models:
        models.append(File(f"{sources}/Delivered.swift", _render("Delivered.swift.j2", context)))
    old = manifests[0].cxx_api
    pod = [File(f"{old}.podspec", _render("lite_podspec.j2", context))] if old else []
    return [
        *models,
        File("Package.swift", _render("Package.swift.j2", context)),
        File(f"{module}.podspec", _render("podspec.j2", context)),
        *pod,
        File(f"{sources}/Model.swift", _render("Model.swift.j2", context)),
        File(f"{sources}/PrivacyInfo.xcprivacy", privacy.content),
    ]


def _context(manifests: Sequence[Manifest]) -> dict[str, object]:
    minimums = {manifest.abi: minimum_of(manifest) for manifest in manifests}
    models = manifests[0].models
    model = sampled([one for one in models if is_called_in_swift(one)] or models)
    return {
        "m": manifests[0],
        "module": module_name(manifests[0]),
        "minimums": sorted(minimums.items()),
        "minimum": max(minimums.values(), key=lambda text: [int(n) for n in text.split(".")]),
        "for_release": all(manifest.for_release for manifest in manifests),
        "toolchains": sorted(
            {f"{one.toolchain.compiler} {one.toolchain.version}" for one in manifests}
        ),
        "archive": names(manifests)[0],
        "swift_archive": names(manifests)[1],
        "methods": methods_by_model(manifests[0]),
        "sampled": model.name,
        "is_called": is_called_in_swift(model),
        "swift": swift_function(model),
        "program": c_program(model, f"{module_name(manifests[0])}/libtorch_app.h"),
        "delivered": [one.name for one in manifests[0].models if one.delivered is not None],
        # RubyGems' versions, which CocoaPods has, know no `~`.
        "pod_version": manifests[0].version.replace("~", "-"),
    }


def _library(variant: Delivery) -> str:
    return variant.manifest.library.file


def _path(variant: Delivery, path: str) -> Path:
    content = variant.files[path].content
    assert isinstance(content, Path)
    return content


def _content(variant: Delivery, path: str) -> bytes:
    return _path(variant, path).read_bytes()


def _render(template: str, context: Mapping[str, object]) -> bytes:
    templates = environment("orchestrator.packagers", "templates/xcframework")
    text = templates.get_template(template).render(context)
    return (text.rstrip("\n") + "\n").encode()
