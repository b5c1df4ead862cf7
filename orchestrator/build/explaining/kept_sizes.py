"""Reads attributions that were kept, and what manifests tell of a library without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orchestrator.deliver.manifest import MANIFEST, Manifest
from orchestrator.errors import OrchestratorError, Place
from orchestrator.packagers.contents import read_packages
from orchestrator.size.attribution import UNATTRIBUTED, Asked, Attribution, Share
from orchestrator.system.reading import read_json

SIZES = "sizes"


class NoSizesError(OrchestratorError):
    """A file or folder holds no sizes and no library of ours."""


def sizes_in(path: Path) -> dict[tuple[str, str], Attribution]:
    """App and ABI -> the attribution of each library at a path: a file of `size`, a folder of such
    files, `dist/` or a part of it, a manifest, a package.

    Of a library for which none was kept, all is `(not attributed)`. Raises NoSizesError, and what
    reading packages raises.
    """
    found = {(one.app, one.abi): one for one in _kept(path)}
    if not found and path.exists():
        whole = path.parent if path.name == MANIFEST else path
        if whole.suffix != ".json":
            found = {
                (p.manifest.app, p.manifest.abi): bare(p.manifest) for p in read_packages(whole)
            }
    if not found:
        raise NoSizesError(
            "there are no sizes of libraries here",
            place=Place(str(path)),
            expected="a file that `size` kept, a folder with such files, a delivered folder or a"
            " package",
            hint="run `./orchestrate size` after the build: it keeps dist/<app>/sizes/<abi>.json",
        )
    return found


def bare(manifest: Manifest) -> Attribution:
    """Attribution of a library from its manifest alone."""
    size = manifest.files[manifest.library.file].bytes
    return Attribution(
        app=manifest.app,
        abi=manifest.abi,
        size=size,
        packed=None,
        made={
            "compiler": f"{manifest.toolchain.compiler} {manifest.toolchain.version}"
            f" ({manifest.toolchain.identity[:12]})",
            "runtime": f"PyTorch {manifest.runtime.pytorch}",
        },
        asked={name: Asked({}) for name in manifest.selection.root_operators or ()},
        shares=(Share((), UNATTRIBUTED, "data", size),),
    )


def _kept(path: Path) -> Iterator[Attribution]:
    files = [path]
    if path.name == MANIFEST or (path / MANIFEST).is_file():
        folder = path.parent if path.name == MANIFEST else path
        files = [folder.parent / SIZES / f"{folder.name}.json"]
    elif path.is_dir():
        files = sorted({*path.glob("*.json"), *path.glob(f"**/{SIZES}/*.json")})
    for file in files:
        if file.suffix == ".json":
            try:
                yield Attribution.parse(read_json(file))
            except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
                continue
