"""The text of the benchmark of canonical models and `fits`; nothing is measured here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.functional import HERE, answers, app_names, fits, render

APP = {"before": ["a", "b", "c", "d"], "after": ["a", "b"], "library_before": 2_000_000}
GOOD: dict[str, Any] = {
    "machine": {"cores": "2"},
    "corpus": {
        "static": {
            "models": 50,
            "converted": 50,
            "largest_difference": 1e-6,
            "cpu_seconds": 5.0,
            "operators": {"x": [["a", "b", "c"], ["b"]], "y": [["b", "d"], ["b", "c"]]},
        },
        "traced": {
            "models": 50,
            "converted": 40,
            "largest_difference": 2e-6,
            "operators": {"x": [["a", "b"], ["b"]]},
        },
    },
    "apps": {
        "static one": {**APP, "library_after": 1_900_000},
        "static two": {**APP, "library_before": 0, "library_after": 0},
        "traced one": {**APP, "library_after": 1_800_000},
        "traced two": {"refused": "aten::item"},
    },
    "built": {
        "one": {
            "library_before": 1_000_000,
            "library_after": 940_000,
            "models": {
                "x": {"before": 1000.0, "after": 1020.0, "ratio": 1.02},
                "y": {"before": 10.0, "after": 6.14, "ratio": 0.614},
            },
        },
        "two": {"library_before": 1_000_000, "library_after": 960_000, "models": {}},
    },
    "fits": {"packages": 100, "different": 3, "wall_seconds": 4.9},
    "answers": {
        "one x": {"one": ["by manifest", "proven"], "two": ["does not fit", "does not fit"]},
        "two y": {"one": ["unknown", "does not fit"], "two": ["by manifest", "proven"]},
    },
}
OPERATORS = "| `static`: distinct root operators of all apps | at most 70 % of before |"
TRACED = "| `traced`: the same, of the apps that can be traced | at most 55 % of before |"
SIZE = "| `static`: sum of the libraries, estimated by the index | at least 5 % less |"
BUILT = "| `static`: sum of the libraries, as built | at least 5 % less |"
SLOWER = "| `static`: CPU time of each model | at most 2 % more |"
COST = "| `static`: 40 small models, torch loaded | 4 CPU s |"
CONVERT = "| `static`: small models that convert and compute the same | all, of at least 40 |"
TRACES = "| `traced`: small models that convert and compute the same | at least 40 |"
NAMES = "| `static`: distinct root operators of these | at most 70 % of before |"
TRACED_NAMES = "| `traced`: distinct root operators of these | at most 59 % of before |"
ANSWERS = "| `fits` without a run, of each other's libraries | no wrong yes, no wrong no |"
FITS = "| `fits`, 100 packages | 5 s |"


def test_what_is_met() -> None:
    lines = render(GOOD).splitlines()
    assert f"{CONVERT} 50 of 50, difference at most 1e-06 | yes |" in lines
    assert f"{NAMES} 4 to 2, 50 % | yes |" in lines
    assert f"{TRACES} 40 of 50, difference at most 2e-06 | yes |" in lines
    assert f"{TRACED_NAMES} 2 to 1, 50 % | yes |" in lines
    assert f"{ANSWERS} 0 of 2 yes wrong, 0 of 1 no, 1 not told | yes |" in lines
    assert f"{COST} 4.0 CPU s | yes |" in lines
    assert f"{OPERATORS} 4 to 2, 50 %, 2 apps | yes |" in lines
    assert f"{TRACED} 4 to 2, 50 %, 1 apps | yes |" in lines
    assert f"{SIZE} 2.00 MB to 1.90 MB, 5.0 % less | yes |" in lines
    assert f"{BUILT} 2.00 MB to 1.90 MB, 5.0 % less | yes |" in lines
    assert f"{SLOWER} 0.61 (one's y) to 1.02 (one's x) | yes |" in lines
    assert "| one | 1.000 to 0.940 MB | y | 10.0 to 6.1 µs | 0.614 |" in lines
    assert f"{FITS} 4.9 s, 100 packages | yes |" in lines
    assert "| two | traced | refused: aten::item | |" in lines
    assert "| one | static | 4 to 2 | 2.00 to 1.90 MB |" in lines


@pytest.mark.parametrize(
    ("step", "one", "value", "line"),
    [
        ("corpus", "static", {"converted": 49}, CONVERT),
        ("corpus", "static", {"models": 39, "converted": 39}, CONVERT),
        ("corpus", "static", {"cpu_seconds": 5.1}, COST),
        ("corpus", "static", {"operators": {"x": [["a", "b"], ["a", "b"]]}}, NAMES),
        ("corpus", "traced", {"converted": 39}, TRACES),
        ("corpus", "traced", {"operators": {"x": [["a", "b"], ["a", "b"]]}}, TRACED_NAMES),
        ("apps", "static one", {"after": ["a", "b", "x"]}, OPERATORS),
        ("apps", "traced one", {"after": ["a", "b", "x"]}, TRACED),
        ("apps", "static one", {"library_after": 1_900_001}, SIZE),
        ("built", "two", {"library_after": 960_001}, BUILT),
        ("built", "two", {"models": {"z": {"before": 1.0, "after": 1.03, "ratio": 1.03}}}, SLOWER),
        ("fits", "", {"wall_seconds": 5.1}, FITS),
        ("fits", "", {"packages": 99}, FITS),
        ("answers", "one x", {"one": ["by manifest", "does not fit"]}, ANSWERS),
        ("answers", "one x", {"one": ["by manifest", "unknown"]}, ANSWERS),
        ("answers", "two y", {"one": ["does not fit", "proven"]}, ANSWERS),
    ],
)
def test_what_is_not(step: str, one: str, value: dict[str, Any], line: str) -> None:
    found = GOOD[step]
    changed = {**found, one: {**found[one], **value}} if one else {**found, **value}
    (row,) = [row for row in render({**GOOD, step: changed}).splitlines() if row.startswith(line)]
    assert row.endswith("| no |")


def test_what_was_not_measured_is_not_met() -> None:
    text = render({"machine": {}})
    assert text.count("| not measured | not known |") == 12
    busy = {**GOOD, "fits": {**GOOD["fits"], "wall_seconds": None}}
    assert f"{FITS} not measured | not known |" in render(busy)
    only_sizes = {"two": GOOD["built"]["two"]}
    assert f"{SLOWER} not measured | not known |" in render({**GOOD, "built": only_sizes})


def test_nothing_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="has no packages"):
        fits(tmp_path, tmp_path / "packages", times=True)
    with pytest.raises(RuntimeError, match="has no libraries"):
        answers(tmp_path)


def test_apps_with_sources_are_left_out() -> None:
    names = app_names(HERE.parent)
    assert "camera" in names
    assert "inker" not in names


def test_the_committed_text_is_of_the_committed_figures() -> None:
    results = json.loads((HERE / "functional.json").read_text(encoding="utf-8"))
    assert (HERE / "FUNCTIONAL.md").read_text(encoding="utf-8") == render(results)
