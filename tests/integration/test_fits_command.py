"""Whether models run in libraries that were cut for others: each answer is checked by running.

Part of `./check --campaigns`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from real import ROOT, models_of, orchestrator

pytestmark = [pytest.mark.real, pytest.mark.full_only]

HOST = "linux-x86_64"
# of both runtimes, and one with operators of its own
APPS = sorted(path.parent.name for path in ROOT.glob("apps/*/app.yaml"))


def rows(model: Path, *words: str | Path) -> list[dict[str, Any]]:
    ran = orchestrator("fits", str(model), "--json", *map(str, words))
    assert ran.code in (0, 1, 2), ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)["packages"]
    return found


@pytest.mark.parametrize("app", APPS)
def test_every_answer_of_a_manifest_is_what_a_run_shows(app: str, built: Path) -> None:
    """An app's models in the libraries of all apps, its own among them: what is told of a library
    without running it is what running it shows."""
    libraries = [built / one / HOST for one in APPS]
    for model in models_of(app):
        told = rows(model, "--no-run", "--in", *libraries)
        ran = rows(model, "--in", *libraries)
        assert told[APPS.index(app)]["verdict"] == "by manifest"
        for said, proof in zip(told, ran, strict=True):
            assert proof["not_run"] == "", proof
            assert proof["verdict"] in ("proven", "does not fit"), proof
            if said["verdict"] == "by manifest":
                assert proof["verdict"] == "proven", (said, proof)
            if said["verdict"] == "does not fit":
                assert proof["verdict"] == "does not fit", (said, proof)
                assert proof["failures"], proof


@pytest.mark.parametrize("app", ["camera", "scanner"])
def test_a_library_proves_its_own_models_and_so_do_its_packages(app: str, built: Path) -> None:
    packages = built / app / "packages"
    names = [built / app / HOST, *sorted(packages.glob("*-linux-x86_64.tar.zst"))]
    (model,) = models_of(app)
    for row in rows(model, "--run", "--in", *names):
        assert (row["verdict"], row["runs"] > 0, row["failures"]) == ("proven", True, [])
    # without --run, what is said of a package comes from its manifest
    for row in rows(model, "--in", names[-1]):
        assert (row["verdict"], row["runs"]) == ("by manifest", None)
        assert row["not_run"].startswith("a package is a program of its author's")
