"""A second build's files, compared with the delivered ones."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.build.delivering import rebuilt as module
from orchestrator.build.delivering.rebuilt import (
    RebuildDiffersError,
    Rebuilt,
    compared,
    rebuilt,
    require_same,
)
from orchestrator.context import Context
from orchestrator.values.labels import VariantLabel

CAMERA = VariantLabel("camera", "linux-x86_64")


def dist(folder: Path, **files: str) -> Path:
    """A `dist` folder; in names `__` stands for `/`."""
    for name, text in files.items():
        path = folder / "camera" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


DELIVERED = {
    "linux-x86_64__lib__a": "code",
    "linux-x86_64__manifest": "{}",
    "packages__tarball": "x86",
    "packages__SUMS.minisig": "signed today",
    # of an ABI that was not built again, and made of both
    "linux-arm64__lib__a": "other code",
    "packages__aar": "both",
}
AGAIN = {
    "linux-x86_64__lib__a": "code",
    "linux-x86_64__manifest": "{}",
    "packages__tarball": "x86",
    "packages__SUMS.minisig": "signed again",
}


def test_the_same_bytes(tmp_path: Path) -> None:
    found = compared(CAMERA, dist(tmp_path / "a", **DELIVERED), dist(tmp_path / "b", **AGAIN))
    assert found == Rebuilt(CAMERA, 3, ())
    require_same(found)


def test_what_differs_and_what_one_lacks(tmp_path: Path) -> None:
    again = {**AGAIN, "linux-x86_64__lib__a": "cold", "linux-x86_64__new": ""}
    del again["linux-x86_64__manifest"]
    found = compared(CAMERA, dist(tmp_path / "a", **DELIVERED), dist(tmp_path / "b", **again))
    assert found.same == 1
    with pytest.raises(RebuildDiffersError) as caught:
        require_same(found)
    assert caught.value.render() == (
        "error: //apps/camera:linux-x86_64 built again has other bytes\n"
        "  expected: the delivered files, byte by byte\n"
        "  seen:     camera/linux-x86_64/lib/a, camera/linux-x86_64/manifest,"
        " camera/linux-x86_64/new\n"
        "  do:       build it here first, from the files as they are now: another state of the app,"
        " another compiler or another version of the orchestrator gives other bytes"
    )


def test_not_every_file_is_named() -> None:
    names = tuple(f"camera/linux-x86_64/{number:02}" for number in range(12))
    with pytest.raises(RebuildDiffersError) as caught:
        require_same(Rebuilt(CAMERA, 0, names))
    assert f"seen:     {', '.join(names[:10])}, and 2 more\n" in caught.value.render()


def test_a_second_build_has_folders_of_its_own_that_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Context(tmp_path, tmp_path / "cache", tmp_path / "state", tmp_path / "dist", {})
    tree = own.cache / "runtime/2.6.0-abc/file"
    tree.parent.mkdir(parents=True)
    tree.touch()
    (own.cache / "objects").mkdir()
    seen = list[Context]()

    def load(context: Context, log: object) -> None:
        seen.append(context)
        folders = (context.cache, context.state, context.dist)
        assert all(folder.is_dir() and folder.is_relative_to(own.state) for folder in folders)
        assert not [*context.dist.glob("[!.]*")]
        assert [one.name for one in context.cache.glob("[!.]*")] == ["runtime"]
        assert (context.cache / "runtime/2.6.0-abc/file").is_file()
        raise RebuildDiffersError("it ends here")

    monkeypatch.setattr(module, "load", load)
    here: Any = SimpleNamespace(context=own, log=print)
    view: Any = None
    with pytest.raises(RebuildDiffersError, match="it ends here"):
        rebuilt(here, [CAMERA], view)
    assert len(seen) == 1
    assert not [*own.state.glob("rebuild-*")]
    assert tree.is_file()
