"""`<package_name>-<version>-py3-none-<platform>.whl`: a Python package over the C API of a variant.

    <package_name>/               Model, load(), the exceptions; typed (py.typed)
      lib<app>_torch.so           called through ctypes: one wheel for every Python 3
      models/<model>.ptl          where the app delivers its models
      manifest.json               without the headers
    <package_name>-<version>.dist-info/
      METADATA, WHEEL, RECORD
      licenses/                   the texts of all parts (PEP 639)
      sboms/sbom.cdx.json         (PEP 770)

Contract: see `delivered.Packager`. The platform in the name is what the library needs: the highest
version of glibc that its symbols ask for (manylinux, PEP 600), or musl (musllinux, PEP 656).

The format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from orchestrator.deliver import render
from orchestrator.deliver.delivered import NO_ENVIRONMENT, Delivery
from orchestrator.deliver.files import File, write_package
from orchestrator.deliver.manifest import BILL, MANIFEST, Manifest, ModelFact
from orchestrator.deliver.sample import python_call
from orchestrator.deliver.sbom import licence_of_all
from orchestrator.errors import OrchestratorError
from orchestrator.packagers.zips import write_zip
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.linux import wheel_platform
from orchestrator.system.templates import environment
from orchestrator.values.packages import (
    PYTHON_NAME_WORDS,
    PYTHON_VERSION_WORDS,
    python_name,
    python_version,
)

JOINS_ABIS: Final = False

_MODULES: Final = (
    *("__init__.py", "_app.py", "_errors.py", "_library.py", "_model.py", "_types.py"),
    "_values.py",
)
_NOT_FOR_RELEASE: Final = "not.for.release"


class NotForPythonError(OrchestratorError):
    """A variant whose name, version or system no wheel can have."""


def names(
    manifests: Sequence[Manifest], env: Mapping[str, str] = NO_ENVIRONMENT
) -> tuple[str, ...]:
    """The wheel's file name. Raises NotForPythonError."""
    (manifest,) = manifests
    return (f"{_stem(manifest)}-{_tag(manifest)}.whl",)


def pack(
    deliveries: Sequence[Delivery], into: Path, env: Mapping[str, str] = NO_ENVIRONMENT
) -> tuple[Path, ...]:
    """Makes the wheel of a delivery; raises NotForPythonError, and what `write_package` raises."""
    (delivery,) = deliveries
    (name,) = names([delivery.manifest])
    texts = _texts(delivery.manifest)
    digest = hashlib.sha256("".join(f"{p}\0{texts[p]}\0" for p in sorted(texts)).encode())
    target = into / name
    write_package(
        target,
        f"wheel 2 {delivery.digest} {digest.hexdigest()}",
        partial(_write, delivery=delivery, texts=texts),
    )
    return (target,)


def _name(manifest: Manifest) -> str:
    name = python_name(manifest.package_name)
    if name is None:
        raise NotForPythonError(
            f"{manifest.package_name} is not a valid name of a Python package",
            expected=PYTHON_NAME_WORDS,
            seen=manifest.package_name,
            hint="give the app another `package_name`, or remove `wheel` from its packages",
        )
    return name


def _version(manifest: Manifest) -> str:
    """Version of the wheel. One that must not ship gets a local version (PEP 440), which package
    indices refuse. Raises NotForPythonError."""
    version = python_version(manifest.version)
    if version is None:
        raise NotForPythonError(
            f"{manifest.version} is not a valid version of a Python package",
            expected=PYTHON_VERSION_WORDS,
            seen=manifest.version,
            hint="give the app another `version`, or remove `wheel` from its packages",
        )
    if manifest.for_release:
        return version
    return version + ("." if "+" in version else "+") + _NOT_FOR_RELEASE


def _stem(manifest: Manifest) -> str:
    return f"{_name(manifest)}-{_version(manifest)}"


def _tag(manifest: Manifest) -> str:
    platform = PLATFORMS[manifest.system]
    if not platform.has_package("wheel", None):
        raise NotForPythonError(
            f"{manifest.abi} is not for a system that has wheels",
            expected="Linux",
            seen=manifest.system,
            hint="remove `wheel` from the app's packages, or the ABI from its targets",
        )
    library = manifest.library
    system = wheel_platform(
        platform.cmake_processors[manifest.processor],
        manifest.toolchain.target or "",
        library.needed,
        library.versions,
    )
    return f"py3-none-{system}"


def _delivered(manifest: Manifest) -> list[ModelFact]:
    return [model for model in manifest.models if model.delivered is not None]


def _texts(manifest: Manifest) -> Mapping[str, str]:
    """The package's modules and the files of its dist-info but RECORD: path -> text."""
    package, info = _name(manifest), f"{_stem(manifest)}.dist-info"
    library = PurePosixPath(manifest.library.file).name
    delivered = [model.name for model in _delivered(manifest)]
    context = {
        "m": manifest,
        "package": package,
        "version": _version(manifest),
        "tag": _tag(manifest),
        "library": library,
        "models": delivered,
        "sample": python_call((_delivered(manifest) or manifest.models)[0]),
        "methods": render.methods_by_model(manifest),
        "licence": licence_of_all(manifest),
        "licence_files": [
            f"{part.component}/{name}" for part in manifest.licences for name in part.files
        ],
    }
    templates = environment("orchestrator.packagers", "templates/wheel")
    texts = {f"{package}/{name}": f"{name}.j2" for name in _MODULES}
    texts |= {f"{info}/{name}": f"{name}.j2" for name in ("METADATA", "WHEEL")}
    made = {path: templates.get_template(name).render(context) for path, name in texts.items()}
    # PEP 561
    return made | {f"{package}/py.typed": ""}


def _write(target: BinaryIO, delivery: Delivery, texts: Mapping[str, str]) -> None:
    manifest = delivery.manifest
    info = f"{_stem(manifest)}.dist-info/"
    files = [
        *(File(path, text.encode()) for path, text in texts.items()),
        *_contents(delivery, _name(manifest)),
        *_documents(delivery, info),
    ]
    record = File(f"{info}RECORD", _record(files, f"{info}RECORD"))
    write_zip(target, [*files, record], last=info)


def _contents(delivery: Delivery, package: str) -> list[File]:
    manifest = delivery.manifest
    models = [
        File(f"{package}/models/{model.name}.ptl", delivery.files[str(model.delivered)].content)
        for model in _delivered(manifest)
    ]
    libraries = [
        File(f"{package}/{PurePosixPath(path).name}", file.content, executable=True)
        for path, file in delivery.files.items()
        if path.startswith("lib/") and path.endswith(".so")
    ]
    return [
        *libraries,
        *models,
        File(f"{package}/{MANIFEST}", _manifest(delivery).text().encode()),
    ]


def _manifest(delivery: Delivery) -> Manifest:
    """The manifest, of whose files only those in the wheel, by their paths in the delivered folder:
    thousands of headers are not."""
    manifest = delivery.manifest
    kept = {model.delivered for model in manifest.models}
    documents = f"share/doc/{render.package_name(manifest.app)}/"
    files = {
        path: fact
        for path, fact in manifest.files.items()
        if path.endswith(".so") or path in kept or path.startswith(documents)
    }
    return manifest.model_copy(update={"files": files})


def _documents(delivery: Delivery, info: str) -> list[File]:
    folder = f"share/doc/{render.package_name(delivery.manifest.app)}/"
    licences = [
        File(f"{info}licenses/{path.removeprefix(f'{folder}licences/')}", file.content)
        for path, file in delivery.files.items()
        if path.startswith(f"{folder}licences/")
    ]
    return [*licences, File(f"{info}sboms/{BILL}", delivery.files[folder + BILL].content)]


def _record(files: Iterable[File], own: str) -> bytes:
    """Path, digest and size of each file, sorted; of RECORD itself the path alone."""
    lines = [f"{_quoted(file.path)},sha256={_digest(file)},{file.size()}" for file in files]
    return ("\n".join(sorted([*lines, f"{_quoted(own)},,"])) + "\n").encode()


def _quoted(path: str) -> str:
    """As a field of CSV (RFC 4180)."""
    return '"' + path.replace('"', '""') + '"' if {",", '"'}.intersection(path) else path


def _digest(file: File) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(file.sha256())).decode().rstrip("=")
