"""Two add-ons in one process, for the library of an app with sources of its own. Both register
operators that only code calls in that library."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from clean_python import NUMPY, environment, run
from real import orchestrator, workspace_copy

pytestmark = pytest.mark.real

ADDITIONS = Path(__file__).parent / "apps/additions"
TARGET = "//apps/inker:linux-x86_64"
POINTS = [[0.5, -1.0, 2.0], [1.0, 3.0, -20.0]]

# In inker's wheel: its own models, and those of the add-ons in the order in which they are named.
IN_PYTHON = """
import json, sys
import inker_libtorch as inker
import numpy
points = numpy.array(json.loads(sys.argv[1]), numpy.float32)
told = []
for model, addon in zip(sys.argv[2::2], sys.argv[3::2]):
    try:
        inker.Model(model)
        told.append([])
    except inker.MissingOperatorError as error:
        told.append(sorted(error.operators))
    inker.extend(addon)
for model in sys.argv[2::2]:
    told.append(inker.Model(model)(points).tolist())
print(json.dumps(told))
"""


@pytest.mark.ci_only
def test_two_add_ons_that_want_the_same_of_the_library(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "inker")
    with (root / "apps/inker/app.yaml").open("a") as app:
        app.write("extensible: true\npackages: [wheel]\n")
    shutil.copytree(ADDITIONS, root / "apps/additions")
    for words in (("build", TARGET), ("trace", "//apps/additions")):
        ran = orchestrator(*words, "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    named = {"angles": "aten::atan2", "waves": "aten::sinh"}
    given = list[Path]()
    for model, own in named.items():
        file = f"apps/additions/models/{model}.ptl"
        ran = orchestrator("addon", "--for", "dist/inker/linux-x86_64", file, cwd=root)
        assert ran.code == 0, ran.err
        operators = ", ".join(sorted((own, "aten::clamp", "aten::select.int")))
        assert f"\n  operators: {operators}\n" in ran.out
        for of in (model, "its own strokes", "its own outline"):
            assert f"\n  with the library, {of}: ok\n" in ran.out
        addon = f"dist/inker/addons/linux-x86_64/{model}/lib/libinker_torch_{model}.so"
        given += [root / file, root / addon]
    (wheel,) = (root / "dist/inker/packages").glob("*.whl")
    python = environment(tmp_path / "venv", [wheel, NUMPY])
    angles = [math.atan2(y, x) for x, y in zip(*POINTS, strict=True)]
    waves = [max(-3.0, min(3.0, math.sinh(y))) for y in POINTS[1]]
    points = json.dumps(POINTS)
    told = json.loads(run(python, "-c", IN_PYTHON, points, *given))
    assert told[:2] == [
        ["aten::atan2", "aten::clamp", "aten::select.int"],
        ["aten::sinh"],
    ]
    assert told[2] == pytest.approx(angles, rel=1e-6)
    assert told[3] == pytest.approx(waves, rel=1e-6)
    told = json.loads(run(python, "-c", IN_PYTHON, points, *given[2:], *given[:2]))
    assert told[1] == ["aten::atan2"]
    assert told[2] == pytest.approx(waves, rel=1e-6)
    assert told[3] == pytest.approx(angles, rel=1e-6)
