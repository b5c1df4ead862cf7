"""The packages of an add-on: an archive of its folder, and what its system's apps are made of.

    <package>-<version>-<add-on>-<abi>.tar.zst       all but the symbols
    <package>-<version>-<add-on>-<abi>.aar           Android: for a module of an app, such as a
                                                     dynamic feature
    <package>-<add-on>_<version>_<architecture>.deb  Linux with glibc: beside the library's own

Contract: the files are those of the add-on's folder, so that equal add-ons are equal packages. What
must not be released says so in its name, as the library's own packages do. The AAR has no classes
and nothing but the add-on's library goes into an app; its namespace is its own, since two modules
of an app may not have one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from orchestrator.deliver import render
from orchestrator.deliver.delivered import NOT_FOR_RELEASE
from orchestrator.deliver.files import File, write_package
from orchestrator.deliver.manifest import Manifest
from orchestrator.packagers import aar, deb
from orchestrator.packagers.aar_java import jar, java_package
from orchestrator.packagers.archives import write_tar_zst
from orchestrator.packagers.zips import write_zip
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.linux import c_library_of

_LIBRARY: Final = "lib/"
_SYMBOLS: Final = "symbols/"
_HINT: Final = "move it away, or give the add-on another name: --name NAME"


@dataclass(frozen=True)
class AddonFiles:
    """An add-on to pack.

    manifest  of the library that it is for
    files     its folder: the library in `lib/`, `addon.json`, licences, symbols
    """

    name: str
    manifest: Manifest
    files: tuple[File, ...]

    @property
    def library(self) -> File:
        (found,) = (file for file in self.files if file.path.startswith(_LIBRARY))
        return found

    @property
    def texts(self) -> tuple[File, ...]:
        """Files that describe the add-on, and its licences: all but the library and its symbols."""
        apart = (_LIBRARY, _SYMBOLS)
        return tuple(file for file in self.files if not file.path.startswith(apart))

    @property
    def stem(self) -> str:
        library = self.manifest
        stem = f"{library.package_name}-{library.version}-{self.name}-{library.abi}"
        return stem if library.for_release else f"{stem}-{NOT_FOR_RELEASE}"


def pack_addon(addon: AddonFiles, into: Path) -> tuple[Path, ...]:
    """Makes the packages, the archive first; raises what `write_package` raises."""
    packers: list[tuple[str, Callable[[BinaryIO], None]]] = [
        (f"{addon.stem}.tar.zst", lambda target: _tar(target, addon))
    ]
    manifest = addon.manifest
    platform = PLATFORMS[manifest.system]
    if "aar" in platform.packages:
        packers.append((f"{addon.stem}.aar", lambda target: _aar(target, addon)))
    if platform.has_package("deb", c_library_of(manifest.toolchain.target or "")):
        packers.append(
            (deb.addon_name(manifest, addon.name), lambda target: _deb(target, addon)),
        )
    made_of = f"addon 2 {_digest(addon.files)}"
    for name, write in packers:
        write_package(into / name, made_of, write, hint=_HINT)
    return tuple(into / name for name, _ in packers)


def _tar(target: BinaryIO, addon: AddonFiles) -> None:
    write_tar_zst(target, (addon.library, *addon.texts), f"{addon.stem}/")


def _deb(target: BinaryIO, addon: AddonFiles) -> None:
    deb.write_addon(target, addon.manifest, addon.name, addon.library, addon.texts)


def _aar(target: BinaryIO, addon: AddonFiles) -> None:
    manifest = addon.manifest
    abi = aar.android_abi(manifest)
    package = java_package(manifest.app)
    namespace = f"{package}.{_identifier(f'addon_{addon.name}_{abi}')}"
    folder = f"META-INF/{render.package_name(manifest.app)}/addons/{addon.name}/{abi}"
    files = [
        File(aar.FIRST, aar.android_manifest(namespace, manifest).encode()),
        File("R.txt", b""),
        File("classes.jar", jar(())),
        File(
            f"jni/{abi}/{PurePosixPath(addon.library.path).name}",
            addon.library.content,
            executable=True,
        ),
        *(
            File(f"{folder}/{file.path.removeprefix('share/doc/')}", file.content)
            for file in addon.texts
        ),
    ]
    write_zip(target, files, first=aar.FIRST)


def _identifier(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def _digest(files: Sequence[File]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.path} {file.sha256()}\n".encode())
    return digest.hexdigest()
