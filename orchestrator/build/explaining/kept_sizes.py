"""Reads attributions that were kept, and what manifests tell of a library without one."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from orchestrator.binary.macho_live import linked_bytes
from orchestrator.deliver.manifest import MANIFEST, read_manifest
from orchestrator.errors import OrchestratorError, Place
from orchestrator.packagers.contents import Packaged, read_packages
from orchestrator.size.attribution import UNATTRIBUTED, Asked, Attribution, Share
from orchestrator.system.reading import read_json

SIZES: Final = "sizes"
_HINT: Final = "run `./orchestrate size` after the build: it keeps dist/<app>/sizes/<abi>.json"


class NoSizesError(OrchestratorError):
    """A file or folder holds no sizes and no library of ours."""


class UnreadableSizesError(OrchestratorError):
    """A file of sizes is damaged, or of another version."""


def sizes_in(path: Path) -> dict[tuple[str, str], Attribution]:
    """App and ABI -> the attribution of each library at a path: a file of `size`, a folder of such
    files, `dist/` or a part of it, a manifest, a package.

    Of a delivered library for which none was kept, or that of an earlier build, all is `(not
    attributed)`. Raises NoSizesError, UnreadableSizesError, and what reading manifests and packages
    raises.
    """
    folder = path.parent if path.name == MANIFEST else path
    delivered = [
        one.parent for depth in ("", "*/", "*/*/") for one in folder.glob(depth + MANIFEST)
    ]
    kept = list(map(_read, _files(folder, delivered)))
    found = {(one.app, one.abi): one for one in kept}
    for one in delivered:
        manifest = read_manifest(one)
        own = found.get((manifest.app, manifest.abi))
        fact = manifest.files.get(manifest.library.file)
        if own is None or fact is None or own.library != fact.sha256:
            found |= _wholes(one)
    if not found and path.exists() and path.suffix != ".json":
        found = _wholes(path)
    if not found:
        raise NoSizesError(
            "there are no sizes of libraries here",
            place=Place(str(path)),
            expected="a file that `size` kept, a folder with such files, a delivered folder or a"
            " package",
            hint=_HINT,
        )
    return found


def _wholes(package: Path) -> dict[tuple[str, str], Attribution]:
    return {(p.manifest.app, p.manifest.abi): _whole(p) for p in read_packages(package)}


def _whole(one: Packaged) -> Attribution:
    """Attribution of a library from its package alone."""
    manifest = one.manifest
    file = manifest.files[manifest.library.file]
    size = file.bytes
    if one.inside.endswith(".a"):
        if not one.path.is_dir():
            raise NoSizesError(
                "a package with a static library does not tell what an app links of it",
                place=Place(str(one.path)),
                expected="dist/ or a part of it, or a file that `size` kept",
                hint=_HINT,
            )
        size = linked_bytes(one.path / one.inside)
    return Attribution(
        app=manifest.app,
        abi=manifest.abi,
        library=file.sha256,
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


def _files(path: Path, delivered: Collection[Path]) -> list[Path]:
    """The files of sizes at a path: itself, those of a folder, or that of a delivered library."""
    if path in delivered:
        kept = path.parent / SIZES / f"{path.name}.json"
        return [kept] if kept.is_file() else []
    if path.is_file():
        return [path] if path.suffix == ".json" else []
    own = path.glob("*.json") if path.name == SIZES or not delivered else ()
    return sorted({*own, *path.glob(f"**/{SIZES}/*.json")})


def _read(file: Path) -> Attribution:
    try:
        return Attribution.parse(read_json(file))
    except (OSError, ValueError) as cause:
        raise UnreadableSizesError(
            "this is no file of sizes that this version can read",
            place=Place(str(file)),
            expected="what `./orchestrate size` keeps in dist/<app>/sizes/<abi>.json",
            seen=str(cause),
            hint="run `./orchestrate size` again, or remove the file",
        ) from cause
