"""Puts a linked variant into `dist/<app>/<abi>/`: libraries, headers, CMake package, manifest.

Contract: atomic. The folder is complete and verified before it appears; a folder that we did not
write is never touched. Equal inputs give an equal folder, including timestamps and modes; a folder
that is already equal is not replaced.

    lib/lib<app>_torch.so                     stripped; exports the C API only
    lib/lib<app>_torch_{registrations,core}.a
    lib/lib<app>_torch.a                      iOS: in place of these three, and of lib/cmake
    lib/cmake/<app>_libtorch/, lib/pkgconfig/
    include/libtorch_app.h, include/...       the C API; PyTorch's headers
    symbols/lib<app>_torch.so.debug           found by .gnu_debuglink or build id
    share/doc/<app>_libtorch/                 licence texts, SBOM
    share/<app>/models/<model>.ptl            the models, where the app delivers them
    manifest.json, README.md
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.binary.elf import soname_of
from orchestrator.binary.elf_strip import NotStrippableError, split
from orchestrator.binary.elf_symbols import needed_libraries, needed_versions
from orchestrator.binary.macho_live import linked_bytes
from orchestrator.deliver import render, sbom
from orchestrator.deliver.files import (
    File,
    files_below,
    in_order,
    refuse_foreign_folder,
    replacing_folder,
    tidy_folder,
    writing,
)
from orchestrator.deliver.headers import HeaderFile
from orchestrator.deliver.manifest import (
    BILL,
    MANIFEST,
    FileFact,
    KernelsFact,
    LibraryFact,
    LicenceFact,
    Manifest,
    ModelFact,
    RuntimeFact,
    SelectionFact,
    SourceFact,
    ToolchainFact,
)
from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.folders import MARKER
from orchestrator.values.config.app import CxxApi, JavaApi
from orchestrator.values.config.toolchain import Processor, System
from orchestrator.values.labels import VariantLabel
from orchestrator.values.packages import library_name

C_HEADER = "libtorch_app.h"


class MissingPartError(OrchestratorError):
    """A file that the delivery is made of cannot be read."""


@dataclass(frozen=True)
class Licence:
    """A part that was linked: its licence (an SPDX expression) and the texts by file name.

    A text is its bytes, or the file that holds it; `version` is empty where the part has none.
    `source` is what it was compiled from, where that is known; `mended` as of a `LicenceFact`.
    """

    component: str
    version: str
    licence: str
    texts: Mapping[str, bytes | Path]
    source: SourceFact | None = None
    mended: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeliverInputs:
    """All inputs of a delivery.

    `shared_library` is unstripped; consumers link `registrations` alwayslink, `core` on demand.
    Where apps link no shared library (iOS), there is `static_library` in place of the three.
    `headers` are PyTorch's (destinations below `include/`), `definitions` the macros that they need
    (`NAME`, `NAME=value`). `system` and `processor` are the toolchain's. `fingerprint` identifies
    what the app's variants for all ABIs have in common, and is the same on every machine.
    `sources` are the app's own, where it has some; `source_calls` are symbols that
    they refer to and do not define.
    `beside` are libraries that the shared one needs and the app carries (libc++_shared.so).
    `model_files` are those of the models that say in `models` where they are delivered, by name.
    """

    app: str
    abi: str
    version: str
    package_name: str
    system: System
    processor: Processor
    shared_library: Path | None
    registrations: Path | None
    core: Path | None
    c_header: Path
    headers: tuple[HeaderFile, ...]
    definitions: tuple[str, ...]
    models: tuple[ModelFact, ...]
    selection: SelectionFact
    runtime: RuntimeFact
    toolchain: ToolchainFact
    licences: tuple[Licence, ...]
    for_release: bool = True
    keep_dwarf: bool = False
    fingerprint: str = ""
    static_library: Path | None = None
    beside: tuple[Path, ...] = ()
    kernels: KernelsFact | None = None
    maven_group: str | None = None
    java_api: JavaApi | None = None
    cxx_api: CxxApi | None = None
    threads: int = 1
    sources: SourceFact | None = None
    source_calls: tuple[str, ...] = ()
    model_files: Mapping[str, bytes | Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Delivered:
    """A delivered variant; `changed` is False where the folder was up to date.

    stripped_bytes: the shared library's, or what an app's linker takes of the static one.
    """

    folder: Path
    manifest: Manifest
    stripped_bytes: int
    changed: bool

    @property
    def shared_library(self) -> Path:
        """The path of the library that apps link: shared, or the static one where there is no other
        (iOS)."""
        return self.folder / self.manifest.library.file

    @property
    def models(self) -> Mapping[str, Path]:
        """The delivered models, by name."""
        return models_in(self.folder, self.manifest)


def models_in(folder: Path, manifest: Manifest) -> Mapping[str, Path]:
    """Model name -> path in a delivered folder; only models that the app delivers."""
    return {m.name: folder / m.delivered for m in manifest.models if m.delivered is not None}


def deliver(inputs: DeliverInputs, dist: Path) -> Delivered:
    """Writes `dist/<app>/<abi>/` without verification. Raises what `delivering` raises."""
    with delivering(inputs, dist) as delivered:
        pass
    return replace(delivered, folder=dist / VariantLabel(inputs.app, inputs.abi).delivered)


@contextmanager
def delivering(inputs: DeliverInputs, dist: Path) -> Iterator[Delivered]:
    """A staged delivery to verify; at the end it is `dist/<app>/<abi>/`.

    What is raised inside leaves `dist/<app>/<abi>/` as it was, and so does a kill at any moment.
    Where that folder is up to date, it is the one to verify.
    Raises `MissingPartError`, `NotStrippableError`, and `files.ForeignFolderError`,
    `files.DuplicateFileError`, `files.UnwritableError`; then nothing has changed.
    """
    folder = dist / VariantLabel(inputs.app, inputs.abi).delivered
    refuse_foreign_folder(folder)
    manifest, files = assemble(inputs)
    with writing(folder):
        tidy_folder(folder)
    if _is_there(folder, files, manifest):
        yield _delivered(folder, manifest, changed=False)
        return
    with replacing_folder(folder, files) as stage:
        yield _delivered(stage, manifest, changed=True)


def _delivered(folder: Path, manifest: Manifest, changed: bool) -> Delivered:
    library = manifest.library
    size = manifest.files[library.file].bytes
    if library.is_static:
        size = linked_bytes(folder / library.file)
    return Delivered(folder, manifest, size, changed)


def assemble(inputs: DeliverInputs) -> tuple[Manifest, tuple[File, ...]]:
    """The manifest and all files of a delivery, sorted by path, without writing any.

    Equal inputs give equal bytes. The manifest lists every file but itself, with size and sha256.
    Raises MissingPartError where an input file cannot be read.
    """
    name = render.package_name(inputs.app)
    libraries, library = _libraries(inputs)
    bare = _manifest(inputs, library)
    texts = {
        f"share/doc/{name}/{BILL}": sbom.text(bare, _digests(libraries)),
        "README.md": render.readme(bare, libraries[0].size()),
    }
    if not library.is_static:
        texts |= _below(f"lib/cmake/{name}", render.cmake_files(bare, render.FOLDER))
        texts |= _below("lib/pkgconfig", render.pkgconfig_files(bare, render.FOLDER))
    files = in_order(
        [
            *libraries,
            *(File(path, text.encode()) for path, text in texts.items()),
            File(f"include/{C_HEADER}", inputs.c_header),
            *(File(f"include/{h.destination}", Path(h.source)) for h in inputs.headers),
            *_licence_texts(inputs.licences, name),
            *_model_files(inputs),
        ]
    )
    facts = {file.path: _fact(file) for file in files}
    manifest = bare.model_copy(update={"files": facts})
    return manifest, in_order([*files, File(MANIFEST, manifest.text().encode())])


def _libraries(inputs: DeliverInputs) -> tuple[list[File], LibraryFact]:
    """The library files, the stripped one first, and what the manifest says about it."""
    name = f"lib{library_name(inputs.app)}"
    if inputs.static_library is not None:
        fact = LibraryFact(file=f"lib/{name}.a", soname=None, build_id=None, symbols=None)
        return [File(fact.file, inputs.static_library)], fact
    assert inputs.shared_library
    assert inputs.registrations
    assert inputs.core
    file = f"lib/{name}.so"
    symbols = f"symbols/{name}.so.debug"
    with _part(inputs.shared_library):
        unstripped = inputs.shared_library.read_bytes()
    try:
        parts = split(unstripped, Path(symbols).name, keep_dwarf=inputs.keep_dwarf)
    except NotStrippableError as error:
        error.place = Place(str(inputs.shared_library))
        raise
    fact = LibraryFact(
        file=file,
        soname=soname_of(parts.stripped) or Path(file).name,
        build_id=parts.build_id,
        symbols=symbols,
        needed=needed_libraries(inputs.shared_library),
        versions=needed_versions(inputs.shared_library),
    )
    return [
        File(file, parts.stripped, executable=True),
        File(symbols, parts.debug),
        File(f"lib/{render.registrations_archive(inputs.app)}", inputs.registrations),
        File(f"lib/{render.core_archive(inputs.app)}", inputs.core),
        *(File(f"lib/{path.name}", path, executable=True) for path in inputs.beside),
    ], fact


def _digests(files: Iterable[File]) -> dict[str, str]:
    """sha256 by path, without that of the symbols, which are not linked."""
    return {file.path: _fact(file).sha256 for file in files if file.path.startswith("lib/")}


def _manifest(inputs: DeliverInputs, library: LibraryFact) -> Manifest:
    """The manifest without its files."""
    licences = tuple(
        LicenceFact(
            component=part.component,
            version=part.version,
            licence=part.licence,
            files=tuple(sorted(part.texts)),
            source=part.source,
            mended=part.mended,
        )
        for part in sorted(inputs.licences, key=lambda part: part.component)
    )
    return Manifest(
        app=inputs.app,
        abi=inputs.abi,
        version=inputs.version,
        package_name=inputs.package_name,
        maven_group=inputs.maven_group,
        java_api=inputs.java_api,
        cxx_api=inputs.cxx_api,
        system=inputs.system,
        processor=inputs.processor,
        for_release=inputs.for_release,
        fingerprint=inputs.fingerprint,
        models=tuple(sorted(inputs.models, key=lambda model: model.name)),
        selection=inputs.selection,
        selection_digest=inputs.selection.digest,
        runtime=inputs.runtime,
        sources=inputs.sources,
        source_calls=inputs.source_calls,
        kernels=inputs.kernels,
        threads=inputs.threads,
        toolchain=inputs.toolchain,
        definitions=inputs.definitions,
        library=library,
        licences=licences,
    )


def _licence_texts(licences: Iterable[Licence], name: str) -> list[File]:
    return [
        File(f"share/doc/{name}/licences/{part.component}/{text}", path)
        for part in licences
        for text, path in part.texts.items()
    ]


def model_path(app: str, model: str) -> str:
    """A delivered model's path in its folder: `share/<app>/models/<model>.ptl`."""
    return f"{render.models_folder(app)}/{model}.ptl"


def _model_files(inputs: DeliverInputs) -> list[File]:
    return [
        File(model.delivered, inputs.model_files[model.name])
        for model in inputs.models
        if model.delivered is not None
    ]


def _below(folder: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {f"{folder}/{file}": text for file, text in texts.items()}


def _fact(file: File) -> FileFact:
    with _part(file.content if isinstance(file.content, Path) else Path(file.path)):
        return FileFact(bytes=file.size(), sha256=file.sha256())


@contextmanager
def _part(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise MissingPartError(
            "a part of the delivery cannot be read",
            place=Place(str(path)),
            expected="a file made by the build",
            seen=cause.strerror or str(cause),
            hint="build again; if the error persists, run `./orchestrate clean` first",
        ) from cause


def _is_there(folder: Path, files: Iterable[File], manifest: Manifest) -> bool:
    """True if the folder holds these very files and no others: same contents and modes."""
    wanted = {file.path: file for file in files}
    digests = {path: fact.sha256 for path, fact in manifest.files.items()}
    digests[MANIFEST] = wanted[MANIFEST].sha256()
    try:
        return set(files_below(folder)) - {MARKER} == wanted.keys() and all(
            _is_same(folder / path, file, digests[path]) for path, file in wanted.items()
        )
    except OSError:
        return False


def _is_same(path: Path, wanted: File, digest: str) -> bool:
    status = path.lstat()
    return (
        stat.S_ISREG(status.st_mode)
        and stat.S_IMODE(status.st_mode) == wanted.mode
        and File("", path).sha256() == digest
    )
