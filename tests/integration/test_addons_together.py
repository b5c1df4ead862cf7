"""Two add-ons in one process, for the library of an app with sources of its own. They register
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
# What each model's add-on registers.
ADDED = {
    "angles": ("aten::atan2", "aten::clamp", "aten::select.int"),
    "waves": ("aten::clamp", "aten::select.int", "aten::sinh"),
}

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
    shutil.copytree(ADDITIONS, root / "apps/additions")
    for words in (("build", TARGET), ("trace", "//apps/additions")):
        ran = orchestrator(*words, "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    given = list[Path]()
    for model, operators in ADDED.items():
        file = f"apps/additions/models/{model}.ptl"
        ran = orchestrator("addon", "--for", "dist/inker/linux-x86_64", file, cwd=root)
        assert ran.code == 0, ran.err
        assert f"\n  operators: {', '.join(operators)}\n" in ran.out
        for of in (model, "its own strokes", "its own outline", "its own marks_of_pens"):
            assert f"\n  with the library, {of}: ok\n" in ran.out
        addon = f"dist/inker/addons/linux-x86_64/{model}/lib/libinker_torch_{model}.so"
        given += [root / file, root / addon]
    (wheel,) = (root / "dist/inker/packages").glob("*.whl")
    python = environment(tmp_path / "venv", [wheel, NUMPY])
    results = {
        "angles": [math.atan2(y, x) for x, y in zip(*POINTS, strict=True)],
        "waves": [max(-3.0, min(3.0, math.sinh(y))) for y in POINTS[1]],
    }
    for order in (given, [*given[2:], *given[:2]]):
        told = json.loads(run(python, "-c", IN_PYTHON, json.dumps(POINTS), *order))
        models, registered = [path.stem for path in order[::2]], set[str]()
        for model, missing, values in zip(models, told[:2], told[2:], strict=True):
            assert missing == sorted({*ADDED[model]} - registered)
            registered.update(ADDED[model])
            assert values == pytest.approx(results[model], rel=1e-6)
