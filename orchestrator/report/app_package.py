"""Contents of an Android app's package, as text and as JSON: for `doctor --apk`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Literal

from orchestrator.errors import OrchestratorError, visible

LibraryKind = Literal["pytorch_mobile", "pytorch_inside", "executorch", "ours", "other"]
_KINDS: Final[Mapping[LibraryKind, str]] = {
    "pytorch_mobile": "PyTorch Mobile",
    "pytorch_inside": "another library with PyTorch inside",
    "executorch": "ExecuTorch",
    "ours": "a library of this project",
    "other": "another library",
}
# Libraries that an app does not get from this project.
_OF_OTHERS: Final = frozenset({"executorch", "other"})
_MOST: Final = 5
_GUIDE: Final = "docs/guide/from-pytorch-mobile.md"


@dataclass(frozen=True)
class FoundLibrary:
    """A native library.

    path    in the package
    name    of its file
    wide    whether its ABI has 64 bits
    faults  why a device with pages of 16 KB does not load it; empty for ABIs of 32 bits, which
            have none
    place   where it lies in the APK, if it cannot be mapped there: the app's fault, not its own
    """

    path: str
    name: str
    abi: str
    wide: bool
    kind: LibraryKind
    faults: tuple[str, ...] = ()
    place: int | None = None

    @property
    def all_faults(self) -> tuple[str, ...]:
        """Its own, and that of its place."""
        return (
            self.faults
            if self.place is None
            else (*self.faults, f"lies at {self.place:#x} in the APK")
        )


@dataclass(frozen=True)
class FoundModel:
    """A model.

    operators  how many it names
    runs       PyTorch versions that have all of them, oldest first
    missing    version -> the operators that it lacks
    error      why it is no model that can be read
    """

    path: str
    bytecode: int | None = None
    operators: int = 0
    runs: tuple[str, ...] = ()
    missing: Mapping[str, tuple[str, ...]] | None = None
    error: OrchestratorError | None = None


@dataclass(frozen=True)
class AppPackageReport:
    """All of a package."""

    package: str
    libraries: tuple[FoundLibrary, ...]
    models: tuple[FoundModel, ...]

    @property
    def well(self) -> bool:
        """True if the libraries load on all systems, and all models would run in ours."""
        return not any(one.all_faults for one in self.libraries) and all(
            one.runs for one in self.models
        )

    def to_json(self) -> str:
        """See schemas/output.schema.json."""
        value = {
            "format": 1,
            "package": self.package,
            "libraries": [_library_json(one) for one in self.libraries],
            "models": [_model_json(one) for one in self.models],
            "do": list(self._advice()),
        }
        return json.dumps(value, indent=2) + "\n"

    def text(self) -> str:
        """For people, with a last newline."""
        return "".join(f"{visible(line)}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        shown = [one for one in self.libraries if one.kind != "other"]
        if not shown:
            count = f"none of its {len(self.libraries)} libraries is" if self.libraries else "no"
            yield f"{self.package}: {count} PyTorch"
        for name, same in groupby(sorted(shown, key=_by_name), lambda one: (one.name, one.kind)):
            yield f"{name[0]}: {_KINDS[name[1]]}"
            for one in same:
                yield f"  {one.abi}: {_aligned(one)}"
        yield from _others(self.libraries)
        for model in self.models:
            yield from _model_lines(model)
        for advice in self._advice():
            yield f"do: {advice}"

    def _advice(self) -> Iterator[str]:
        kinds = {one.kind for one in self.libraries}
        if any(one.faults for one in self.libraries if one.kind not in _OF_OTHERS):
            yield (
                "Google Play refuses these libraries: build one that is aligned, for the app's"
                f" models alone ({_GUIDE})"
            )
        if any(one.faults for one in self.libraries if one.kind in _OF_OTHERS):
            yield "get newer releases of the other libraries, aligned to 16 KB"
        misplaced = sorted({one.name for one in self.libraries if one.place is not None})
        if misplaced:
            yield (
                "package with the Android Gradle plugin 8.5.1 or newer, or run zipalign -P 16"
                f" before signing: not at multiples of 16 KB in the APK are {_some(misplaced)}"
            )
        runs = [one for one in self.models if one.runs]
        if runs:
            yield (
                f"unpack a model ({runs[0].path}) and run: ./orchestrate new-app NAME --model FILE"
            )
        if "pytorch_mobile" in kinds:
            yield "java_api: org.pytorch in its app.yaml gives an AAR that has the same classes"


def _by_name(one: FoundLibrary) -> tuple[str, str, str]:
    return (one.name, one.kind, one.path)


def _aligned(one: FoundLibrary) -> str:
    if one.all_faults:
        return "; ".join(one.all_faults)
    return "loads with pages of 16 KB" if one.wide else "32 bits, whose pages have 4 KB"


def _others(libraries: tuple[FoundLibrary, ...]) -> Iterator[str]:
    """Other libraries that are refused."""
    names = sorted({one.name for one in libraries if one.kind == "other" and one.faults})
    if names:
        yield f"other libraries that are not aligned to 16 KB: {_some(names)}"


def _model_lines(model: FoundModel) -> Iterator[str]:
    if model.error is not None:
        yield f"{model.path}: {model.error.what}"
        if model.error.hint:
            yield f"  do: {model.error.hint}"
        return
    versions = " and ".join(f"PyTorch {one}" for one in model.runs)
    runs = f"runs in {versions}" if model.runs else "runs in no version here"
    yield f"{model.path}: bytecode {model.bytecode}, {model.operators} operators; {runs}"
    for version, missing in (model.missing or {}).items():
        yield f"  PyTorch {version} lacks {_some(missing)}"


def _some(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def _library_json(one: FoundLibrary) -> dict[str, Any]:
    return {
        "path": one.path,
        "abi": one.abi,
        "kind": one.kind,
        "aligned_to_16_kb": not one.all_faults,
        "faults": list(one.all_faults),
    }


def _model_json(one: FoundModel) -> dict[str, Any]:
    return {
        "path": one.path,
        "bytecode": one.bytecode,
        "operators": one.operators,
        "runs_in": list(one.runs),
        "missing": {version: list(names) for version, names in (one.missing or {}).items()},
        "error": one.error and one.error.to_json(),
    }
