"""A model as it is delivered: without what only debuggers read, and without inputs."""

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
from orchestrator.models.methods import is_bundling
from orchestrator.models.stripped import stripped
from orchestrator.models.unbundled import code_without_inputs, data_without_inputs
from orchestrator.values.versions import ModelVersions

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "apps/camera/models/classifier.ptl"
EVERY = sorted(
    path
    for folder in (ROOT / "apps", ROOT / "tests/integration/apps")
    for path in folder.glob("*/models/*.ptl")
)
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


def test_only_debug_records_and_inputs_go(tmp_path: Path) -> None:
    path = with_debug(tmp_path / "model.ptl")
    made = stripped(path)
    assert made is not None
    before = records(path.read_bytes())
    # the tensors of both inputs
    gone = {f"classifier/{name}" for name in (*DEBUG, "data/0", "data/1")}
    cut = {"classifier/bytecode.pkl", "classifier/data.pkl"}
    after = records(made)
    assert list(after) == [name for name in before if name not in gone]
    assert {name for name, content in after.items() if content != before[name]} == cut
    assert made == stripped(path)


def test_what_is_left_is_read_as_before(tmp_path: Path) -> None:
    path = with_debug(tmp_path / "model.ptl")
    made = stripped(path)
    assert made is not None
    file_of_it = tmp_path / "stripped.ptl"
    file_of_it.write_bytes(made)
    with file_of_it.open("rb") as file, open_archive(file, Place("stripped.ptl")) as archive:
        assert not {*DEBUG}.intersection(archive.names)
    versions = ModelVersions(range(4, 10), range(1, 11))
    one, two = read_model(MODEL, versions), read_model(file_of_it, versions)
    assert two.functions == tuple(f for f in one.functions if not is_bundling(f.name))
    assert (one.own_methods, two.has_bundled_inputs) == (two.own_methods, False)
    assert len(two.root_operators) == len(one.root_operators) - 2
    assert two.sha256 == hashlib.sha256(made).hexdigest()


def test_every_record_begins_at_a_multiple_of_64(tmp_path: Path) -> None:
    made = stripped(with_debug(tmp_path / "model.ptl"))
    assert made is not None
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        for entry in archive.infolist():
            name, extra = struct.unpack_from("<2H", made, entry.header_offset + 26)
            assert (entry.header_offset + 30 + name + extra) % 64 == 0


def test_a_model_without_them_stays_as_it_is(tmp_path: Path) -> None:
    made, again = stripped(MODEL), tmp_path / "again.ptl"
    assert made is not None
    again.write_bytes(made)
    assert stripped(again) is None


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_no_input_is_left_in_any_model(path: Path, tmp_path: Path) -> None:
    """Of each model in this repository: scripted, traced, quantised, with several methods."""
    versions = ModelVersions(range(4, 10), range(1, 12))
    file = tmp_path / "model.ptl"
    # None: there was nothing to take out
    file.write_bytes(stripped(path) or path.read_bytes())
    one, two = read_model(path, versions), read_model(file, versions)
    assert (two.own_methods, two.has_bundled_inputs) == (one.own_methods, False)
    assert two.functions == tuple(f for f in one.functions if not is_bundling(f.name))


def test_inputs_that_are_no_end_stay() -> None:
    """What is behind them would have another number, by which code refers to it."""
    pickled = zipfile.ZipFile(MODEL).read("classifier/data.pkl")
    assert data_without_inputs(pickled) is not None
    behind = pickled.rindex(b"ub")
    more = b"X\x04\x00\x00\x00moreK\x01"
    assert data_without_inputs(pickled[:behind] + more + pickled[behind:]) is None
    assert data_without_inputs(b"\x80\x02N.") is None
    assert code_without_inputs(b"\x80\x02N.") is None


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = with_debug(tmp_path / "model.ptl")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(OrchestratorError, match="truncated or damaged"):
        stripped(path)
