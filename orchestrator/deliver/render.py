"""The texts of a delivery, from its manifest: CMake package, pkg-config files, README.

Contract: pure. A text depends only on the manifest and the `Layout`, and contains no path of the
build machine: every path is relative to the file itself. Raises UnfitTextError if a text cannot
hold a value of the manifest.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from orchestrator.deliver.app_samples import java_class
from orchestrator.deliver.manifest import Manifest
from orchestrator.deliver.sample import c_program, sampled
from orchestrator.platforms import PLATFORMS
from orchestrator.system.templates import environment
from orchestrator.values.packages import library_name

_CXX_LIBRARY_MACROS: Final = {"libc++": "_LIBCPP_VERSION", "libstdc++": "__GLIBCXX__"}


@dataclass(frozen=True)
class Layout:
    """The relative locations of a package's parts; the CMake and pkg-config folders are in
    `lib`. `models_from_lib`: None where they are as in a delivered folder."""

    include_from_lib: str
    models_from_lib: str | None = None


# The delivered folder, and the tarball.
FOLDER: Final = Layout("../include")


def package_name(app: str) -> str:
    """An app's name for CMake's `find_package` and for pkg-config: `<app>_libtorch`."""
    return f"{app}_libtorch"


def models_folder(app: str) -> str:
    """The folder of delivered models, relative to the delivery: `share/<app>/models`."""
    return f"share/{app}/models"


def registrations_archive(app: str) -> str:
    """The file name of the archive of registrations, which consumers link with --whole-archive:
    nothing references a static initialiser."""
    return f"lib{library_name(app)}_registrations.a"


def core_archive(app: str) -> str:
    """The file name of the archive of all other objects, of which a linker takes what is referred
    to."""
    return f"lib{library_name(app)}_core.a"


def cmake_files(manifest: Manifest, layout: Layout) -> dict[str, str]:
    """The CMake package: file name -> text. It includes `toolchain.cmake` if zig compiled."""
    name = package_name(manifest.app)
    files = {
        f"{name}-config.cmake": _render("config.cmake.j2", manifest, layout),
        f"{name}-config-version.cmake": _render("config-version.cmake.j2", manifest, layout),
    }
    if manifest.toolchain.compiler == "zig":
        files["toolchain.cmake"] = _render("toolchain.cmake.j2", manifest, layout)
    return files


def pkgconfig_files(manifest: Manifest, layout: Layout) -> dict[str, str]:
    """File name -> text of two .pc files, for the shared library and for the static archives.

    The format: https://people.freedesktop.org/~dbn/pkg-config-guide.html
    """
    name = package_name(manifest.app)
    return {
        f"{name}.pc": _render("shared.pc.j2", manifest, layout),
        f"{name}-static.pc": _render("static.pc.j2", manifest, layout),
    }


def readme(manifest: Manifest, library_bytes: int) -> str:
    """The README for users of the library; `library_bytes` is the size of the file to link."""
    template = "README-static.md.j2" if manifest.library.is_static else "README.md.j2"
    model = sampled(manifest.models)
    return _render(
        template,
        manifest,
        FOLDER,
        library_bytes=library_bytes,
        methods=methods_by_model(manifest),
        program=c_program(model),
        is_known=model.call is not None,
        sampled=model.name,
        link_name=PurePosixPath(manifest.library.file).stem.removeprefix("lib"),
    )


def readme_aar(manifest: Manifest, **facts: Any) -> str:
    """The README of an AAR and of its Maven repository; `facts` are the template's own, `package`
    among them: the Java package."""
    model = sampled(manifest.models)
    return _render(
        "README-aar.md.j2",
        manifest,
        FOLDER,
        methods=methods_by_model(manifest),
        program=java_class(model, facts["package"]),
        sampled=model.name,
        is_known=model.call is not None,
        **facts,
    )


def methods_by_model(manifest: Manifest) -> dict[str, list[str]]:
    """Model -> the signatures of its callable methods, in the manifest's order."""
    return {one.name: [method.text() for method in one.methods] for one in manifest.models}


def _render(template: str, manifest: Manifest, layout: Layout, **more: Any) -> str:
    app, platform = manifest.app, PLATFORMS[manifest.system]
    text = (
        environment("orchestrator.deliver")
        .get_template(template)
        .render(
            m=manifest,
            name=package_name(app),
            library_file=PurePosixPath(manifest.library.file).name,
            registrations=registrations_archive(app),
            core=core_archive(app),
            include_from_lib=layout.include_from_lib,
            delivered=[model.name for model in manifest.models if model.delivered is not None],
            models_from_lib=layout.models_from_lib or f"../{models_folder(app)}",
            has_toolchain_file=manifest.toolchain.compiler == "zig",
            cxx_library_macro=_CXX_LIBRARY_MACROS[manifest.toolchain.cxx_library],
            cmake_system=platform.cmake_name,
            cmake_processor=platform.cmake_processors[manifest.processor],
            pointer_bytes=4 if manifest.processor == "armv7" else 8,
            **more,
        )
    )
    return text.rstrip("\n") + "\n"
