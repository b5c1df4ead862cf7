"""Debian packages of a variant: the library, what is needed to build with it, and its symbols.

    <name>          lib<app>_torch.so, in the machine's library folder
    <name>-dev      headers in /usr/include/<name>, archives, CMake and pkg-config files
    <name>-dbgsym   symbols, where gdb looks for them by build id

Contract: see `delivered.Packager`. The format is deb(5): an `ar` archive of `debian-binary`,
`control.tar.*` and `data.tar.*`, written here in plain Python so that no dpkg is needed. zstd is
read by dpkg 1.21.18 (Debian 12) and by Ubuntu's since 18.04.
"""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from orchestrator.errors import OrchestratorError
from orchestrator.package import render
from orchestrator.package.archives import write_tar_zst
from orchestrator.package.delivered import NOT_FOR_RELEASE, Delivery, read_delivery
from orchestrator.package.files import EPOCH, File, write_package
from orchestrator.package.manifest import MANIFEST, LicenceFact, Manifest

# processor -> (Debian architecture, multiarch folder); https://wiki.debian.org/Multiarch/Tuples
_ARCHITECTURES: Final[Mapping[str, tuple[str, str]]] = {
    "x86_64": ("amd64", "x86_64-linux-gnu"),
    "arm64": ("arm64", "aarch64-linux-gnu"),
    "armv7": ("armhf", "arm-linux-gnueabihf"),
}
_GLIBC: Final = re.compile(r"-gnu[a-z]*\.(\d+\.\d+)")
_MAINTAINER: Final = "libtorch-orchestrator <libtorch-orchestrator@localhost>"


class NotForDebianError(OrchestratorError):
    """A variant whose system is not Debian's: no glibc, or no Linux."""


@dataclass(frozen=True)
class _Package:
    """One .deb: its name, control fields beside the common ones, and files below `/`."""

    name: str
    fields: Mapping[str, str]
    summary: str
    files: tuple[File, ...]


def names(manifest: Manifest) -> tuple[str, ...]:
    """The files' names: library, -dev, -dbgsym. Raises `NotForDebianError`."""
    _refuse_other_systems(manifest)
    architecture, _ = _ARCHITECTURES[manifest.processor]
    mark = "" if manifest.for_release else f"_{NOT_FOR_RELEASE}"
    return tuple(
        f"{manifest.package_name}{part}_{_version(manifest)}_{architecture}{mark}.deb"
        for part in ("", "-dev", "-dbgsym")
    )


def pack(folder: Path, into: Path) -> tuple[Path, ...]:
    """Makes the three packages; raises `NotForDebianError`, and what `read_delivery` and
    `write_package` raise."""
    delivery = read_delivery(folder)
    targets = tuple(into / name for name in names(delivery.manifest))
    packages = (_library(delivery), _development(delivery), _symbols(delivery))
    for target, package in zip(targets, packages, strict=True):
        write_package(
            target,
            f"deb 1 {delivery.digest}",
            partial(_write, package=package, manifest=delivery.manifest),
        )
    return targets


def _refuse_other_systems(manifest: Manifest) -> None:
    target = manifest.toolchain.target or ""
    if manifest.system != "linux" or "musl" in target:
        raise NotForDebianError(
            f"{manifest.abi} is not an ABI of Debian",
            expected="Linux with glibc",
            seen=f"{manifest.system} ({target})" if target else manifest.system,
            hint="take `deb` out of the app's packages, or the ABI out of its targets",
        )


def _version(manifest: Manifest) -> str:
    """`1.2.0-rc1` is before 1.2.0: Debian writes that `1.2.0~rc1`."""
    return manifest.version.replace("-", "~")


def _library(delivery: Delivery) -> _Package:
    manifest = delivery.manifest
    glibc = _GLIBC.search(manifest.toolchain.target or "")
    library = delivery.files[manifest.library.file]
    fields = {
        "Section": "libs",
        "Depends": f"libc6 (>= {glibc[1]})" if glibc else "libc6",
    }
    if manifest.toolchain.cxx_library == "libstdc++":
        fields["Depends"] += ", libstdc++6"
    return _Package(
        manifest.package_name,
        fields,
        f"PyTorch {manifest.runtime.pytorch} cut for the app {manifest.app}",
        (
            File(f"{_lib(manifest)}/{_base(library)}", library.content),
            *_documents(delivery, manifest.package_name, (MANIFEST,)),
        ),
    )


def _development(delivery: Delivery) -> _Package:
    manifest = delivery.manifest
    name = f"{manifest.package_name}-dev"
    lib = _lib(manifest)
    ups = "/".join(".." for _ in PurePosixPath(lib).parts[1:])
    layout = render.Layout(f"{ups}/include/{manifest.package_name}")
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
    bill = f"share/doc/{render.package_name(manifest.app)}/sbom.cdx.json"
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
            *_documents(delivery, name, (MANIFEST, bill)),
        ),
    )


def _symbols(delivery: Delivery) -> _Package:
    manifest = delivery.manifest
    name = f"{manifest.package_name}-dbgsym"
    build_id = manifest.library.build_id
    if build_id:
        path = f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    else:
        base = PurePosixPath(manifest.library.symbols).name
        path = f"usr/lib/debug/{_lib(manifest)}/{base}"
    return _Package(
        name,
        {
            "Section": "debug",
            "Depends": f"{manifest.package_name} (= {_version(manifest)})",
        },
        f"PyTorch {manifest.runtime.pytorch} cut for the app {manifest.app}: symbols",
        (
            File(path, delivery.files[manifest.library.symbols].content),
            *_documents(delivery, name, ()),
        ),
    )


def _lib(manifest: Manifest) -> str:
    return f"usr/lib/{_ARCHITECTURES[manifest.processor][1]}"


def _base(file: File) -> str:
    return PurePosixPath(file.path).name


def _documents(delivery: Delivery, package: str, paths: Iterable[str]) -> list[File]:
    """`copyright`, which every package must have, and files of the delivery."""
    folder = f"usr/share/doc/{package}"
    name = render.package_name(delivery.manifest.app)
    text = b"".join(
        _licence(delivery, f"share/doc/{name}/licences", part)
        for part in delivery.manifest.licences
    )
    documents = [File(f"{folder}/copyright", text)]
    documents += [
        File(f"{folder}/{PurePosixPath(path).name}", delivery.files[path].content) for path in paths
    ]
    return documents


def _licence(delivery: Delivery, folder: str, part: LicenceFact) -> bytes:
    head = f"{part.component} {part.version}: {part.licence}\n\n".encode()
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
    """The control files: `control`, and the digests that `dpkg --verify` compares."""
    kib = sum(-(-file.size() // 1024) for file in package.files)
    fields = {
        "Package": package.name,
        "Source": manifest.package_name,
        "Version": _version(manifest),
        "Architecture": _ARCHITECTURES[manifest.processor][0],
        "Maintainer": _MAINTAINER,
        "Installed-Size": str(kib),
        "Priority": "optional",
        **package.fields,
        "Description": f"{package.summary}\n"
        f" {len(manifest.selection.operators)} operators for"
        f" {', '.join(model.name for model in manifest.models)} ({manifest.abi}).",
    }
    if not manifest.for_release:
        fields["Description"] += f"\n {NOT_FOR_RELEASE}: built with a stand-in toolchain."
    text = "".join(f"{field}: {value}\n" for field, value in fields.items())
    sums = "".join(
        f"{_md5(file)}  {file.path}\n" for file in sorted(package.files, key=lambda f: f.path)
    )
    return [File("control", text.encode()), File("md5sums", sums.encode())]


def _md5(file: File) -> str:
    if isinstance(file.content, bytes):
        return hashlib.md5(file.content, usedforsecurity=False).hexdigest()
    with file.content.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
