"""A target of `test_fuzzed_readers.py`, as a program of its own: what atheris counts branches of is
instrumented when it is imported. Arguments: the target, a folder to write into, and libFuzzer's.
"""

from __future__ import annotations

import io
import shutil
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import atheris
from pydantic import ValidationError

with atheris.instrument_imports(include=["orchestrator", "elftools"]):
    from test_models import examine
    from test_trace_locks import use

    from orchestrator.build.explaining.advisories import Judge
    from orchestrator.build.shipped import app_package as app_packages
    from orchestrator.build.shipped.app_package import app_package
    from orchestrator.build.workshop.offers import offers
    from orchestrator.build.workshop.trace_identity import vocabulary_of
    from orchestrator.deliver.manifest import Manifest
    from orchestrator.errors import OrchestratorError, Place
    from orchestrator.index.model import load_index
    from orchestrator.load.advisories import OWN, read_advisories
    from orchestrator.load.workspace import load_workspace
    from orchestrator.packagers.contents import read_packages
    from orchestrator.pytorch.dialects import load_version
    from orchestrator.pytorch.v1_13.dialect import DIALECT
    from orchestrator.source.unpack import unpack
    from orchestrator.trace.lock import parse_lock, read_lock
    from orchestrator.values.labels import AppLabel

from crafted import archive
from fuzzed_records import LOCK, RECORDS, ROOT, SEPARATOR

TARGET: Final = sys.argv[1]
FOLDER: Final = Path(sys.argv[2])


def model(data: bytes) -> None:
    """The records of a model."""
    path = FOLDER / "model.ptl"
    records = dict(zip(RECORDS, data.split(SEPARATOR), strict=False))
    path.write_bytes(archive({"version": b"3\n", **records}))
    examine(path)


def file_of_a_model(data: bytes) -> None:
    path = FOLDER / "model.ptl"
    path.write_bytes(data)
    examine(path)


def lock(data: bytes) -> None:
    path = FOLDER / "app/traces" / LOCK.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    use(read_lock(path.parents[1], LOCK.stem, IDENTITY, AppLabel("x"), FOLDER, KNOWN))


def source_archive(data: bytes) -> None:
    path, into = FOLDER / "archive", FOLDER / "staging/into"
    path.write_bytes(data)
    into.mkdir(parents=True)
    try:
        unpack(path, into, lambda name: True)
    finally:
        beside = [one.name for one in FOLDER.iterdir()]
        shutil.rmtree(into.parent)
    assert sorted(beside) == ["archive", "staging"]


def package(data: bytes) -> None:
    path = FOLDER / "package"
    path.write_bytes(data)
    read_packages(path)


def verdicts(data: bytes) -> None:
    """The manifest of a library, as a package's is judged."""
    try:
        manifest = Manifest.parse(data.decode("utf-8", "replace"))
    except ValidationError:
        return
    JUDGE.library(manifest, Place("manifest.json"))


def app(data: bytes) -> None:
    path = FOLDER / "app.apk"
    path.write_bytes(data)
    app_package(path, WORKSPACE)


def library_of_an_app(data: bytes) -> None:
    """A library as it lies in a package: not compressed, where the linker maps it."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as written:
        written.writestr("AndroidManifest.xml", b"")
        written.writestr("lib/arm64-v8a/libpytorch_jni_lite.so", data)
    app(held.getvalue())


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "model": model,
    "model-file": file_of_a_model,
    "lock": lock,
    "archive": source_archive,
    "package": package,
    "verdicts": verdicts,
    "app": app,
    "app-library": library_of_an_app,
}


def once(data: bytes) -> None:
    """Read, or refused by an error of ours."""
    try:
        TARGETS[TARGET](data)
    except OrchestratorError as error:
        error.render()


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    if TARGET == "lock":
        IDENTITY = parse_lock(LOCK.read_text(), LOCK.name).identity
        KNOWN = vocabulary_of(load_index(DIALECT.index), load_version(DIALECT.version))
    if TARGET == "verdicts":
        JUDGE = Judge(read_advisories(OWN))
    if TARGET.startswith("app"):
        WORKSPACE = load_workspace(ROOT, {})
        config = WORKSPACE.config
        offered = tuple(offers(config.pins, config.defaults.backends))
        # reading the indices for each input would take half a second
        vars(app_packages)["offers"] = lambda *_: offered
    atheris.Setup([sys.argv[0], *sys.argv[3:]], once)
    atheris.Fuzz()
