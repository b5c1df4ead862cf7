"""The native side of an AAR: prefab modules (https://google.github.io/prefab, schema version 2).

    prefab/prefab.json
    prefab/modules/<app>_torch/                 the shared library; libtorch_app.h
    prefab/modules/<app>_torch_core/            static: linked on demand; PyTorch's headers
    prefab/modules/<app>_torch_registrations/   static: alwayslink

The C API's module needs nothing else: its header is C, and no C++ of it is visible, so it suits
every STL. The C++ API is in two static modules, as in every delivered folder. Prefab's targets
support neither definitions nor alwayslink archives; a CMake file next to the headers adds both
(`templates/prefab.cmake.j2`). Whoever links the archives by hand must do the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from orchestrator.deliver import render
from orchestrator.deliver.delivered import Delivery
from orchestrator.deliver.files import File
from orchestrator.deliver.manifest import AndroidFact
from orchestrator.system.templates import environment
from orchestrator.values.packages import library_name

C_HEADER: Final = "libtorch_app.h"
# Prefab takes what CMake takes as a version: up to four numbers.
_VERSION: Final = re.compile(r"\d+(?:\.\d+){0,3}")


@dataclass(frozen=True)
class AndroidVariant:
    """A delivered variant, with its ABI as Android names it (`arm64-v8a`)."""

    abi: str
    delivery: Delivery
    facts: AndroidFact

    def file(self, path: str) -> File:
        return self.delivery.files[path]

    @property
    def library(self) -> File:
        return self.file(self.delivery.manifest.library.file)


def prefab_files(variants: tuple[AndroidVariant, ...]) -> Iterator[File]:
    """All files below `prefab/`."""
    manifest = variants[0].delivery.manifest
    app = manifest.app
    version = _VERSION.match(manifest.version)
    yield _json(
        "prefab/prefab.json",
        {
            "schema_version": 2,
            "name": render.package_name(app),
            "version": version[0] if version else "0",
            "dependencies": [],
        },
    )
    shared = library_name(app)
    core, registrations = f"{shared}_core", f"{shared}_registrations"
    yield from _module(shared)
    yield from _headers(
        shared, {v.abi: {C_HEADER: v.file(f"include/{C_HEADER}")} for v in variants}
    )
    yield from _module(core)
    yield from _headers(core, {v.abi: _cxx_headers(v, variants, core) for v in variants})
    yield from _module(registrations, links=[f":{core}"])
    for variant in variants:
        yield from _library(shared, variant, variant.library, static=False)
        for name in (core, registrations):
            yield from _library(name, variant, variant.file(f"lib/lib{name}.a"), static=True)


def _module(name: str, links: list[str] | None = None) -> Iterator[File]:
    facts: dict[str, Any] = {"export_libraries": links or [], "library_name": f"lib{name}"}
    yield _json(f"prefab/modules/{name}/module.json", facts)


def _library(name: str, variant: AndroidVariant, file: File, *, static: bool) -> Iterator[File]:
    folder = _library_folder(name, variant.abi)
    base = PurePosixPath(file.path).name
    facts = variant.facts
    # libc++ within the shared library is hidden: nobody else's has to suit it
    hidden = not static and facts.stl == "c++_static"
    yield _json(
        f"{folder}/abi.json",
        {
            "abi": variant.abi,
            "api": facts.api,
            # the minimum that prefab requires; the stub sysroot is no NDK release
            "ndk": facts.ndk or 0,
            "stl": "none" if hidden else facts.stl,
            "static": static,
        },
    )
    yield File(f"{folder}/{base}", file.content, file.executable)


def _library_folder(name: str, abi: str) -> str:
    return f"prefab/modules/{name}/libs/android.{abi}"


def _cxx_headers(
    variant: AndroidVariant, variants: tuple[AndroidVariant, ...], core: str
) -> dict[str, File]:
    """PyTorch's headers and the CMake file, by their path in the include folder."""
    manifest = variant.delivery.manifest
    name = render.package_name(manifest.app)
    headers = {
        path.removeprefix("include/"): file
        for path, file in variant.delivery.files.items()
        if path.startswith("include/")
    }
    template = environment("orchestrator.packagers").get_template("prefab.cmake.j2")
    text = template.render(
        name=name,
        core=core,
        registrations=core.removesuffix("_core") + "_registrations",
        definitions={v.abi: v.delivery.manifest.definitions for v in variants},
    )
    cmake = f"{name}-static.cmake"
    headers[cmake] = File(cmake, text.encode())
    return headers


def _headers(module: str, by_abi: Mapping[str, Mapping[str, File]]) -> Iterator[File]:
    """A module's headers: one folder for all ABIs, or one for each where a header differs.

    A folder next to a library replaces the module's own, so each of them is complete.
    """
    digests: dict[str, set[str]] = {}
    for headers in by_abi.values():
        for path, file in headers.items():
            digests.setdefault(path, set()).add(file.sha256())
    if all(len(found) == 1 for found in digests.values()):
        together = {path: file for headers in by_abi.values() for path, file in headers.items()}
        for path, file in together.items():
            yield File(f"prefab/modules/{module}/include/{path}", file.content)
        return
    for abi, headers in by_abi.items():
        for path, file in headers.items():
            yield File(f"{_library_folder(module, abi)}/include/{path}", file.content)


def _json(path: str, value: object) -> File:
    return File(path, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())
