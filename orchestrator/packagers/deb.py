"""Debian packages of a variant: the library, what is needed to build with it, and its symbols.

    <name>          lib<app>_torch.so, in the machine's library folder
    <name>-dev      headers in /usr/include/<name>, archives, CMake and pkg-config files
    <name>-dbgsym   symbols, where gdb looks for them by build id

Each contains manifest, licences and SBOM in /usr/share/doc/<its name>. The library has no version
in its soname, because it belongs to the one app that ships it; so -dev needs no second symlink.

Contract: see `delivered.Packager`. The format is deb(5): an `ar` archive of `debian-binary`,
`control.tar.*` and `data.tar.*`, written here in plain Python so that no dpkg is needed. zstd is
read by dpkg 1.21.18 (Debian 12) and by Ubuntu's since 18.04.
"""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from orchestrator.binary.elf_symbols import needed_libraries, needed_versions
from orchestrator.deliver import render
from orchestrator.deliver.delivered import NO_ENVIRONMENT, NOT_FOR_RELEASE, Delivery
from orchestrator.deliver.files import EPOCH, File, write_package
from orchestrator.deliver.manifest import BILL, MANIFEST, LicenceFact, Manifest
from orchestrator.errors import OrchestratorError
from orchestrator.packagers.archives import write_tar_zst
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.linux import c_library_of
from orchestrator.values.packages import PARTS

JOINS_ABIS: Final = False

# processor -> (Debian architecture, multiarch folder); https://wiki.debian.org/Multiarch/Tuples
_ARCHITECTURES: Final[Mapping[str, tuple[str, str]]] = {
    "x86_64": ("amd64", "x86_64-linux-gnu"),
    "arm64": ("arm64", "aarch64-linux-gnu"),
    "armv7": ("armhf", "arm-linux-gnueabihf"),
}
_GLIBC: Final = re.compile(r"-gnu[a-z]*\.(\d+\.\d+)")
# The GCC release that brought a symbol version (libstdc++ manual, "ABI Policy and Guidelines").
_LIBSTDCXX: Final[Mapping[str, str]] = {
    **{"3.4.26": "9.1", "3.4.27": "9.2", "3.4.28": "9.3", "3.4.29": "11.1", "3.4.30": "12.1"},
    **{"3.4.31": "13.1", "3.4.32": "13.2", "3.4.33": "14.1", "3.4.34": "15.1"},
}
_MAINTAINER: Final = "libtorch-orchestrator <libtorch-orchestrator@localhost>"


class NotForDebianError(OrchestratorError):
    """A variant whose system is not Debian's: no glibc, or no Linux."""


@dataclass(frozen=True)
class _Package:
    """One .deb: its name, control fields in addition to the common ones, and files below `/`.
    details: the second line of its description, where that is not the library's."""

    name: str
    fields: Mapping[str, str]
    summary: str
    files: tuple[File, ...]
    details: str = ""


def names(
    manifests: Sequence[Manifest], env: Mapping[str, str] = NO_ENVIRONMENT
) -> tuple[str, ...]:
    """The files' names: library, -dev, -dbgsym. Raises `NotForDebianError`."""
    (manifest,) = manifests
    _refuse_other_systems(manifest)
    architecture, _ = _ARCHITECTURES[manifest.processor]
    mark = "" if manifest.for_release else f"_{NOT_FOR_RELEASE}"
    return tuple(
        f"{manifest.package_name}{part}_{_version(manifest)}_{architecture}{mark}.deb"
        for part in PARTS["deb"]
    )


def pack(
    deliveries: Sequence[Delivery], into: Path, env: Mapping[str, str] = NO_ENVIRONMENT
) -> tuple[Path, ...]:
    """Makes the three packages; raises `NotForDebianError`, and what `write_package` raises."""
    (delivery,) = deliveries
    targets = tuple(into / name for name in names([delivery.manifest]))
    packages = (_library(delivery), _development(delivery), _symbols(delivery))
    for target, package in zip(targets, packages, strict=True):
        write_package(
            target,
            f"deb 2 {delivery.digest}",
            partial(_write, package=package, manifest=delivery.manifest),
        )
    return targets


def addon_name(manifest: Manifest, name: str) -> str:
    """The file of an add-on's package. manifest: of the library that it is for. Raises
    `NotForDebianError`."""
    _refuse_other_systems(manifest)
    architecture, _ = _ARCHITECTURES[manifest.processor]
    mark = "" if manifest.for_release else f"_{NOT_FOR_RELEASE}"
    return f"{_addon_package(manifest, name)}_{_version(manifest)}_{architecture}{mark}.deb"


def write_addon(
    target: BinaryIO, manifest: Manifest, name: str, library: File, texts: Sequence[File]
) -> None:
    """Writes the package of an add-on, which puts it beside the library that it is for.

    texts: its licences, each in a folder of its component's name, and what else says what it is
    """
    called = _addon_package(manifest, name)
    folder = f"usr/share/doc/{called}"
    licences = [file for file in texts if file.path.startswith("share/doc/")]
    package = _Package(
        called,
        {
            "Section": "libs",
            # a version may have several builds: the library compares build ids when it loads one
            "Depends": f"{manifest.package_name} (= {_version(manifest)})",
        },
        f"add-on {name} to PyTorch cut for the app {manifest.app}",
        (
            File(f"{_lib(manifest)}/{_base(library)}", library.content),
            File(f"{folder}/copyright", b"\n".join(map(_text, licences))),
            *(
                File(f"{folder}/{_base(file)}", file.content)
                for file in texts
                if file not in licences
            ),
        ),
        f"For one build of {manifest.package_name} {manifest.version} ({manifest.abi}).",
    )
    _write(target, package, manifest)


def _addon_package(manifest: Manifest, name: str) -> str:
    """Debian's names have no `_` and no capitals (Debian Policy, 5.6.1)."""
    return f"{manifest.package_name}-{name.lower().replace('_', '-')}"


def _refuse_other_systems(manifest: Manifest) -> None:
    target = manifest.toolchain.target or ""
    if not PLATFORMS[manifest.system].has_package("deb", c_library_of(target)):
        raise NotForDebianError(
            f"{manifest.abi} is not a Debian architecture",
            expected="Linux with glibc",
            seen=f"{manifest.system} ({target})" if target else manifest.system,
            hint="remove `deb` from the app's packages, or the ABI from its targets",
        )


def _version(manifest: Manifest) -> str:
    """`1.2.0-rc1` is before 1.2.0: Debian writes that `1.2.0~rc1`."""
    return manifest.version.replace("-", "~")


def _library(delivery: Delivery) -> _Package:
    manifest = delivery.manifest
    library = delivery.files[manifest.library.file]
    return _Package(
        manifest.package_name,
        {"Section": "libs", "Depends": _system_packages(delivery)},
        f"PyTorch {manifest.runtime.pytorch} cut for the app {manifest.app}",
        (
            File(f"{_lib(manifest)}/{_base(library)}", library.content),
            *_models(delivery),
            *_documents(delivery, manifest.package_name),
        ),
    )


def _models(delivery: Delivery) -> list[File]:
    """Models that the app delivers, in a folder that is named after the package."""
    paths = [model.delivered for model in delivery.manifest.models if model.delivered is not None]
    folder = _models_folder(delivery.manifest)
    return [File(f"{folder}/{PurePosixPath(p).name}", delivery.files[p].content) for p in paths]


def _models_folder(manifest: Manifest) -> str:
    return f"usr/share/{manifest.package_name}/models"


def _system_packages(delivery: Delivery) -> str:
    """The packages of the system that the library needs, as `dpkg-shlibdeps` would find them.

    glibc's version is the one that the toolchain promises, else what the symbols need.
    """
    toolchain = delivery.manifest.toolchain
    library = delivery.files[delivery.manifest.library.file].content
    assert isinstance(library, Path)
    versions = needed_versions(library)
    promised = _GLIBC.search(toolchain.target or "")
    glibc = promised[1] if promised else versions.get("GLIBC")
    found = [f"libc6 (>= {glibc})" if glibc else "libc6"]
    needed = needed_libraries(library)
    if "libgcc_s.so.1" in needed:
        found.append("libgcc-s1")
    if "libstdc++.so.6" in needed:
        gcc = _LIBSTDCXX.get(versions.get("GLIBCXX", ""))
        found.append(f"libstdc++6 (>= {gcc})" if gcc else "libstdc++6")
    return ", ".join(found)


def _development(delivery: Delivery) -> _Package:
    manifest = delivery.manifest
    name = f"{manifest.package_name}-dev"
    lib = _lib(manifest)
    ups = "/".join(".." for _ in PurePosixPath(lib).parts[1:])
    models = _models_folder(manifest).removeprefix("usr/")
    layout = render.Layout(f"{ups}/include/{manifest.package_name}", f"{ups}/{models}")
    cmake = f"{lib}/cmake/{render.package_name(manifest.app)}"
    texts = {
        f"{cmake}/{file}": text for file, text in render.cmake_files(manifest, layout).items()
    } | {
        f"{lib}/pkgconfig/{file}": text
        for file, text in render.pkgconfig_files(manifest, layout).items()
    }
    headers = [
        File(f"usr/include/{manifest.package_name}/{path.removeprefix('include/')}", file.content)
        for path, file in delivery.files.items()
        if path.startswith("include/")
    ]
    archives = [
        File(f"{lib}/{_base(file)}", file.content)
        for path, file in delivery.files.items()
        if path.endswith(".a")
    ]
    return _Package(
        name,
        {
            "Section": "libdevel",
            "Depends": f"{manifest.package_name} (= {_version(manifest)})",
        },
        f"PyTorch {manifest.runtime.pytorch} cut for the app {manifest.app}: headers and archives",
        (
            *headers,
            *archives,
            *(File(path, text.encode()) for path, text in texts.items()),
            *_documents(delivery, name),
        ),
    )


def _symbols(delivery: Delivery) -> _Package:
    manifest = delivery.manifest
    name = f"{manifest.package_name}-dbgsym"
    build_id, symbols = manifest.library.build_id, manifest.library.symbols
    assert symbols is not None
    if build_id:
        path = f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    else:
        path = f"usr/lib/debug/{_lib(manifest)}/{PurePosixPath(symbols).name}"
    return _Package(
        name,
        {
            "Section": "debug",
            "Depends": f"{manifest.package_name} (= {_version(manifest)})",
            # by these, tools find the symbols of a library (DebugPackage in Debian's wiki)
            "Auto-Built-Package": "debug-symbols",
            **({"Build-Ids": build_id} if build_id else {}),
        },
        f"PyTorch {manifest.runtime.pytorch} cut for the app {manifest.app}: symbols",
        (
            File(path, delivery.files[symbols].content),
            *_documents(delivery, name),
        ),
    )


def _lib(manifest: Manifest) -> str:
    return f"usr/lib/{_ARCHITECTURES[manifest.processor][1]}"


def _base(file: File) -> str:
    return PurePosixPath(file.path).name


def _documents(delivery: Delivery, package: str) -> list[File]:
    """Documents of every package: `copyright`, the manifest and the SBOM."""
    folder = f"usr/share/doc/{package}"
    source = f"share/doc/{render.package_name(delivery.manifest.app)}"
    text = b"".join(
        _licence(delivery, f"{source}/licences", part) for part in delivery.manifest.licences
    )
    return [
        File(f"{folder}/copyright", text),
        *(
            File(f"{folder}/{PurePosixPath(path).name}", delivery.files[path].content)
            for path in (MANIFEST, f"{source}/{BILL}")
        ),
    ]


def _licence(delivery: Delivery, folder: str, part: LicenceFact) -> bytes:
    name = f"{part.component} {part.version}" if part.version else part.component
    head = f"{name}: {part.licence}\n\n".encode()
    texts = []
    for name in part.files:
        content = delivery.files[f"{folder}/{part.component}/{name}"].content
        texts.append(content if isinstance(content, bytes) else content.read_bytes())
    return head + b"\n".join(texts) + b"\n"


def _write(target: BinaryIO, package: _Package, manifest: Manifest) -> None:
    """Writes a .deb. The data go through a file: an archive of libraries may be large."""
    control = io.BytesIO()
    write_tar_zst(control, _control(package, manifest), "./")
    with tempfile.TemporaryFile() as data:
        write_tar_zst(data, package.files, "./")
        target.write(b"!<arch>\n")
        _member(target, "debian-binary", io.BytesIO(b"2.0\n"))
        _member(target, "control.tar.zst", control)
        _member(target, "data.tar.zst", data)


def _member(target: BinaryIO, name: str, content: BinaryIO) -> None:
    """One member in the common `ar` format: a header of 60 bytes, and an even number of bytes."""
    size = content.seek(0, io.SEEK_END)
    content.seek(0)
    target.write(f"{name:<16}{EPOCH:<12}{0:<6}{0:<6}{'100644':<8}{size:<10}`\n".encode())
    while chunk := content.read(1 << 20):
        target.write(chunk)
    if size % 2:
        target.write(b"\n")


def _control(package: _Package, manifest: Manifest) -> list[File]:
    """The control files: `control`, the digests that `dpkg --verify` compares, triggers."""
    kib = sum(-(-file.size() // 1024) for file in package.files)
    details = package.details or (
        f"{len(manifest.selection.operators)} operators for"
        f" {', '.join(model.name for model in manifest.models)} ({manifest.abi})."
    )
    fields = {
        "Package": package.name,
        "Source": manifest.package_name,
        "Version": _version(manifest),
        "Architecture": _ARCHITECTURES[manifest.processor][0],
        "Maintainer": _MAINTAINER,
        "Installed-Size": str(kib),
        "Priority": "optional",
        **package.fields,
        "Description": f"{package.summary}\n {details}",
    }
    if not manifest.for_release:
        fields["Description"] += f"\n {NOT_FOR_RELEASE}: built against a stub sysroot."
    text = "".join(f"{field}: {value}\n" for field, value in fields.items())
    sums = "".join(
        f"{_md5(file)}  {file.path}\n" for file in sorted(package.files, key=lambda f: f.path)
    )
    files = [File("control", text.encode()), File("md5sums", sums.encode())]
    if package.fields["Section"] == "libs":
        # the loader's cache must learn about a new library (deb-triggers(5))
        files.append(File("triggers", b"activate-noawait ldconfig\n"))
    return files


def _text(licence: File) -> bytes:
    content = licence.content
    text = content if isinstance(content, bytes) else content.read_bytes()
    return f"{PurePosixPath(licence.path).parent.name}\n\n".encode() + text


def _md5(file: File) -> str:
    if isinstance(file.content, bytes):
        return hashlib.md5(file.content, usedforsecurity=False).hexdigest()
    with file.content.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
