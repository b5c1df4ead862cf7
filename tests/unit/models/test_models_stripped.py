"""A model without what only debuggers read."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
from pathlib import Path

import pytest

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import open_archive
from orchestrator.models.info import read_model
from orchestrator.models.stripped import without_debug
from orchestrator.values.versions import ModelVersions

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "apps/camera/models/classifier.ptl"
DEBUG = ("code/__torch__.py.debug_pkl", "callstack_debug_map.pkl", "mobile_debug_handles.pkl")


def records(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def with_debug(path: Path) -> Path:
    """The model as PyTorch writes it with debug information, text compressed."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, (name, content) in enumerate(records(MODEL.read_bytes()).items()):
            if number == 3:
                for debug in DEBUG:
                    archive.writestr(f"classifier/{debug}", b"lines" * 99)
                text = b"def forward(self): ...\n" * 99
                archive.writestr("classifier/code/a.py", text, zipfile.ZIP_DEFLATED)
            archive.writestr(name, content)
    return path


def test_only_debug_records_go(tmp_path: Path) -> None:
    path = with_debug(tmp_path / "model.ptl")
    made = without_debug(path)
    assert made is not None
    before = records(path.read_bytes())
    gone = {f"classifier/{name}" for name in DEBUG}
    assert list(records(made).items()) == [(k, v) for k, v in before.items() if k not in gone]
    assert made == without_debug(path)


def test_what_is_left_is_read_as_before(tmp_path: Path) -> None:
    path = with_debug(tmp_path / "model.ptl")
    made = without_debug(path)
    assert made is not None
    stripped = tmp_path / "stripped.ptl"
    stripped.write_bytes(made)
    with stripped.open("rb") as file, open_archive(file, Place("stripped.ptl")) as archive:
        assert not {*DEBUG}.intersection(archive.names)
    versions = ModelVersions(range(4, 10), range(1, 11))
    one, two = read_model(MODEL, versions), read_model(stripped, versions)
    assert (one.functions, one.own_methods) == (two.functions, two.own_methods)
    assert two.sha256 == hashlib.sha256(made).hexdigest()


def test_every_record_begins_at_a_multiple_of_64(tmp_path: Path) -> None:
    made = without_debug(with_debug(tmp_path / "model.ptl"))
    assert made is not None
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        for entry in archive.infolist():
            name, extra = struct.unpack_from("<2H", made, entry.header_offset + 26)
            assert (entry.header_offset + 30 + name + extra) % 64 == 0


def test_a_model_without_them_stays_as_it_is() -> None:
    assert without_debug(MODEL) is None


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = with_debug(tmp_path / "model.ptl")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(OrchestratorError, match="truncated or damaged"):
        without_debug(path)
