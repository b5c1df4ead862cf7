"""What preparing a runtime does again in a cache that has nearly all of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from core_toy import this_checkout

from orchestrator.build.workshop.prepare import prepare_runtime

pytestmark = pytest.mark.real


def test_a_header_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    """A full disk or a kill while it was written must not break the cache for good."""
    here = this_checkout()
    users = here.runtimes.default
    assert users.configured.parent == here.context.cache / "configured"
    (tmp_path / "generated").mkdir()
    for place in (here.context.cache / "runtime", users.generated):
        kept = tmp_path / place.relative_to(here.context.cache)
        kept.symlink_to(place)
    context = replace(here.context, cache=tmp_path)

    def configured() -> dict[str, bytes]:
        folder = prepare_runtime(here.workspace, users.name, context, print).configured
        assert folder.parent == tmp_path / "configured"
        files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.h")}
        return {name: path.read_bytes() for name, path in sorted(files.items())}

    whole = configured()
    assert "c10/macros/cmake_macros.h" in whole
    folder = tmp_path / "configured" / users.configured.name
    (folder / "c10/macros/cmake_macros.h").write_bytes(b"#ifndef")
    (folder / min(whole)).unlink()
    assert configured() == whole
