"""Where a model's source names an operator. `golden/fits` has a module, and what torch saved of it:
with the map of call stacks (`mapped.ptl`), as it saves by default, and with damage."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from orchestrator.models.source_lines import operator_places
from orchestrator.values.operators import OperatorName

GOLDEN = Path(__file__).parents[2] / "golden/fits"
NAMES = ("aten::erfinv", "aten::cumprod", "aten::mul.Scalar")
OPERATORS = [OperatorName.parse(name) for name in NAMES]


def places(path: Path) -> dict[str, list[str]]:
    return {
        str(name): [str(place) for place in found]
        for name, found in operator_places(path, OPERATORS).items()
    }


def line(text: str) -> int:
    lines = (GOLDEN / "sample.py").read_text().splitlines()
    return next(number for number, one in enumerate(lines, 1) if text in one)


@pytest.mark.parametrize("name", ["mapped.ptl", "plain.ptl"])
def test_the_lines_are_those_of_the_module(name: str) -> None:
    found = places(GOLDEN / name)
    assert found == {
        "aten::erfinv": [f"/src/sample.py:{line('erfinv')}:13"],
        "aten::cumprod": [f"/src/sample.py:{line('cumprod')}:12"],
        "aten::mul.Scalar": [f"/src/sample.py:{line('cumprod')}:12"],
    }


def test_only_the_map_tells_overloads_apart() -> None:
    other = [OperatorName.parse("aten::mul.Tensor")]
    assert operator_places(GOLDEN / "plain.ptl", other)
    assert operator_places(GOLDEN / "plain.ptl", [OperatorName.parse("aten::matmul")]) == {}


def rewritten(source: Path, target: Path, record: str, data: bytes) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            held = data if entry.filename.endswith(record) else old.read(entry)
            new.writestr(entry.filename, held)
    return target


@pytest.mark.parametrize(
    "record", ["callstack_debug_map.pkl", "mobile_debug_handles.pkl", ".debug_pkl"]
)
@pytest.mark.parametrize("data", [b"", b"\x80\x02N.", b"\x80\x02X\xff\xff\xff\x7f", b"\x80\x02)."])
def test_damaged_debug_information_tells_less(record: str, data: bytes, tmp_path: Path) -> None:
    path = rewritten(GOLDEN / "mapped.ptl", tmp_path / "x.ptl", record, data)
    found = places(path)
    whole = places(GOLDEN / "plain.ptl")
    assert found == ({} if record == ".debug_pkl" else whole)


def test_what_is_no_model_tells_nothing(tmp_path: Path) -> None:
    assert operator_places(tmp_path / "none.ptl", OPERATORS) == {}
    (tmp_path / "text.ptl").write_text("hello")
    assert operator_places(tmp_path / "text.ptl", OPERATORS) == {}
    assert operator_places(GOLDEN / "plain.ptl", []) == {}
