"""What a workspace keeps of variants that are declared no more."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from toy_workspace import toy_invocation

from orchestrator.build.delivering.dropped import forget_dropped

APP = "models: [{file: models/m.ptl}]\ntargets: [linux-x86_64]\n"
WEEK = 7 * 24 * 3600


def add(state: Path, variant: str, age: float) -> Path:
    folder = state / "variants" / variant
    folder.mkdir(parents=True)
    for name in ("libtoy_torch.so", "unproven"):
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age,) * 2)
    return folder


def test_what_is_not_declared_and_not_used_goes(tmp_path: Path) -> None:
    """Not the mark of what was never verified: dist/ may have it."""
    here = toy_invocation(tmp_path, {"toy": APP})
    state = here.context.state
    declared = add(state, "toy/linux-x86_64", 2 * WEEK)
    dropped = [add(state, name, 2 * WEEK) for name in ("toy/linux-arm64", "gone/linux-x86_64")]
    used = add(state, "toy/android-x86_64", WEEK - 3600)
    forget_dropped(here)
    found = [sorted(path.name for path in one.iterdir()) for one in (declared, *dropped, used)]
    both, mark = ["libtoy_torch.so", "unproven"], ["unproven"]
    assert found == [both, mark, mark, both]


def test_variants_of_an_app_that_is_faulty_for_now_stay(tmp_path: Path) -> None:
    here = toy_invocation(tmp_path, {"toy": APP})
    folder = add(here.context.state, "toy/linux-arm64", 2 * WEEK)
    broken = replace(here.workspace, apps={}, broken={"toy": ()})
    forget_dropped(replace(here, workspace=broken))
    assert (folder / "libtoy_torch.so").exists()
