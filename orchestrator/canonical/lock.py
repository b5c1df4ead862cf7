"""A canonical model and its lock: `<name>.canonical.ptl` and `.yaml`, beside the declared file.

The lock binds both files by their digests, and says what was done and how it was compared, for
review. A build reads it, and needs no torch. Inputs that are bundled in the declared file are
recorded in `<name>.canonical.inputs.zst`, since the canonical file has none: the model runner's
`--inputs` (native/driver/driver.h) as JSON, tied to the lock by its digest.

Lock and inputs are untrusted, as traces are: anyone can propose them.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import zstandard
from pydantic import Field

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.load.validate import validated
from orchestrator.load.yaml import LONGEST, PlaceIndex, load_located
from orchestrator.system.reading import file_sha256, open_file, read_text
from orchestrator.system.staging import write_bytes
from orchestrator.system.yaml_text import yaml_text
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.config.forms import NAME, Declared, Line, Tuple
from orchestrator.values.config.workspace import Sha256

# JSON of inputs; and of what they pack to.
LARGEST_INPUTS: Final = 2**28
DECLARED: Final = "declared"
_HEADER: Final = "# Written by `orchestrator canonical`; commit it with the files that it names.\n"


class CanonicalMissingError(OrchestratorError):
    """A model that is to be canonical has not been made so."""


class CanonicalStaleError(OrchestratorError):
    """A canonical model was made of another file than the one that is declared."""


class CanonicalChangedError(OrchestratorError):
    """A canonical model, or its recorded inputs, are not those of its lock."""


class CanonicalDamagedError(OrchestratorError):
    """A lock is not what `orchestrator canonical` writes."""


class CanonicalMisplacedError(OrchestratorError):
    """A lock belongs to another app or model than its path says."""


class Rewrite(Declared):
    """Calls of one operator that became others, and why."""

    name: Line
    old: Line = Field(alias="from")
    new: Tuple[Line] = Field(alias="to")
    calls: int = Field(ge=1)
    why: Line


class ComparedCall(Declared):
    """A call of both models. `largest` is the largest difference, rounded up; `not taken`: the
    model does not take such inputs, `differs by itself`: it gives other values each time. Two are
    the same, but prove little: `flat` is one number everywhere, `too small` has numbers that are as
    small as the tolerance, and nobody knows the model's rounding error. `refused`: a check of the
    canonical model stopped it, for the reason `why`."""

    call: Line
    inputs: Tuple[Line]
    result: Literal["same", "flat", "too small", "not taken", "differs by itself", "refused"]
    largest: float | None = Field(None, ge=0)
    why: Line | None = None


class Operators(Declared):
    """Root operators."""

    before: Tuple[Line]
    after: Tuple[Line]


class CanonicalLock(Declared):
    """The lock of a canonical model.

    original   sha256 of the declared file
    canonical  sha256 of the file that was made of it
    inputs     sha256 of the recorded inputs' JSON, or `declared`
    torch      the version that made it; `worker` is a digest of our part
    exporter   the version that wrote the declared file, where that is a program of torch.export
    notes      what its conversion tells people: sizes that stay fixed, and the like
    kind       how it was made
    left       names of rewrites that were left out, since they make the app's library larger
    folded     whether factors and norms were folded into weights, which rounds
    """

    format: Literal[1]
    app: str = Field(pattern=NAME)
    model: str = Field(pattern=NAME)
    kind: Literal["static", "traced", "exported"]
    original: Sha256
    canonical: Sha256
    inputs: Sha256 | Literal["declared"]
    torch: Line
    exporter: Line | None = None
    worker: str = Field(pattern=r"^[0-9a-f]{16}$")
    folded: bool
    largest: float = Field(ge=0)
    operators: Operators
    rewrites: Tuple[Rewrite]
    left: Tuple[Line] | None = None
    notes: Tuple[Line] | None = None
    comparison: Tuple[ComparedCall]


@dataclass(frozen=True)
class Shipped:
    """The file of a model that is traced, verified and shipped.

    declared  the file in app.yaml; the same where the model is not canonical
    inputs    the model runner's inputs, JSON, where those bundled in `declared` are not in `path`
    """

    path: Path
    declared: Path
    inputs: bytes | None = None

    @property
    def is_canonical(self) -> bool:
        return self.path != self.declared


def canonical_path(app: App, model: ModelConfig) -> Path:
    """The canonical file of a model."""
    return _sibling(app, model, "ptl")


def lock_path(app: App, model: ModelConfig) -> Path:
    """Its lock."""
    return _sibling(app, model, "yaml")


def inputs_path(app: App, model: ModelConfig) -> Path:
    """Its recorded inputs."""
    return _sibling(app, model, "inputs.zst")


def _sibling(app: App, model: ModelConfig, ending: str) -> Path:
    return app.model_path(model).parent / f"{model.name}.canonical.{ending}"


def files_of(app: App, model: ModelConfig) -> tuple[Path, ...]:
    """The files of a model that a build reads: the declared one, that of its inputs, and those of
    its canonical one."""
    beside = app.inputs_path(model)
    own = (app.model_path(model), *([] if beside is None else [beside]))
    if not app.is_canonical(model):
        return own
    canonical = [canonical_path(app, model), lock_path(app, model)]
    if model.inputs == "bundled":
        canonical.append(inputs_path(app, model))
    return (*own, *canonical)


def shipped_model(app: App, model: ModelConfig, root: Path) -> Shipped:
    """Return the file that is traced, verified and shipped for a model; a canonical one is checked
    to be current.

    Raises CanonicalMissingError, CanonicalStaleError, CanonicalChangedError, CanonicalDamagedError,
    CanonicalMisplacedError.
    """
    declared = app.model_path(model)
    if not app.is_canonical(model):
        return Shipped(declared, declared)
    return _shipped(app, model, root, read_lock(app, model, root), file_sha256(declared))


def is_written(app: App, model: ModelConfig, lock: CanonicalLock, root: Path) -> bool:
    """True if this lock of the declared file, as it is now, is on disk already, with its files."""
    try:
        there = read_lock(app, model, root) == lock
        return there and _shipped(app, model, root, lock, lock.original).is_canonical
    except OrchestratorError:
        return False


def _shipped(
    app: App, model: ModelConfig, root: Path, lock: CanonicalLock, original: str
) -> Shipped:
    """The canonical model of a lock, whose declared file has the digest `original`."""
    place, command = Place(_shown(lock_path(app, model), root)), _command(app)
    if lock.original != original:
        raise CanonicalStaleError(
            f"the canonical model of {model.name} is stale: {model.file} changed since",
            place=place,
            expected=lock.original,
            seen=original,
            hint=f"run: {command}",
        )
    if lock.kind != app.canonical_kind(model):
        raise CanonicalStaleError(
            f"the canonical model of {model.name} is of another kind than app.yaml says",
            place=place,
            expected=app.canonical_kind(model),
            seen=lock.kind,
            hint=f"run: {command}",
        )
    wanted = "bundled" if model.inputs == "bundled" else DECLARED
    made = DECLARED if lock.inputs == DECLARED else "bundled"
    if wanted != made:
        raise CanonicalStaleError(
            f"the canonical model of {model.name} is stale: its inputs are {wanted} now",
            place=place,
            expected=made,
            seen=wanted,
            hint=f"run: {command}",
        )
    path = canonical_path(app, model)
    if not path.is_file():
        raise _missing(app, model, path, root)
    seen = file_sha256(path)
    if lock.canonical != seen:
        raise _changed("the canonical model", path, root, lock.canonical, seen, command)
    inputs = None if lock.inputs == DECLARED else _read_inputs(app, model, lock.inputs, root)
    return Shipped(path, app.model_path(model), inputs)


def read_lock(app: App, model: ModelConfig, root: Path) -> CanonicalLock:
    """A model's lock. Raises CanonicalMissingError, CanonicalDamagedError,
    CanonicalMisplacedError."""
    path = lock_path(app, model)
    shown = _shown(path, root)
    try:
        text = read_text(path, LONGEST)
    except FileNotFoundError:
        raise _missing(app, model, path, root) from None
    except OSError as error:
        raise CanonicalDamagedError(
            "this canonical model's lock cannot be read",
            place=Place(shown),
            expected="what `orchestrator canonical` writes",
            seen=error.strerror or type(error).__name__,
            hint=f"run: {_command(app)}",
        ) from None
    lock, places = parse_lock(text, shown, _command(app))
    for key, seen, wanted in (("app", lock.app, app.name), ("model", lock.model, model.name)):
        if seen != wanted:
            raise CanonicalMisplacedError(
                f"this lock belongs to another {key}",
                place=places.value((key,)),
                expected=wanted,
                seen=seen,
                hint=f"run: {_command(app)}",
            )
    return lock


def parse_lock(text: str, file: str, command: str) -> tuple[CanonicalLock, PlaceIndex]:
    """The lock in a text, and its places. Raises CanonicalDamagedError."""
    try:
        data, places = load_located(text, file)
        lock, faults = validated(CanonicalLock, data, places)
    except OrchestratorError as error:
        lock, places, faults = None, PlaceIndex(file, None), [error]
    if lock is None:
        first = faults[0]
        raise CanonicalDamagedError(
            "this canonical model's lock cannot be read",
            place=first.place or Place(file),
            expected=first.expected or "what `orchestrator canonical` writes",
            seen=first.seen or first.what,
            hint=f"run: {command}",
        )
    return lock, places


def lock_text(lock: CanonicalLock) -> str:
    """The lock file's text; equal locks give equal bytes."""
    value: dict[str, Any] = lock.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _HEADER + yaml_text(value)


def write_canonical(
    app: App, model: ModelConfig, lock: CanonicalLock, made: bytes, inputs: bytes | None
) -> None:
    """Write the files of a canonical model, each all or nothing, the lock last."""
    write_bytes(canonical_path(app, model), made)
    if inputs is None:
        inputs_path(app, model).unlink(missing_ok=True)
    else:
        packer = zstandard.ZstdCompressor(level=19, write_content_size=True)
        write_bytes(inputs_path(app, model), packer.compress(inputs))
    write_bytes(lock_path(app, model), lock_text(lock).encode())


def _read_inputs(app: App, model: ModelConfig, digest: str, root: Path) -> bytes:
    path = inputs_path(app, model)
    try:
        with open_file(path) as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
            inputs: bytes = io.BufferedReader(reader).read(LARGEST_INPUTS + 1)
        seen = hashlib.sha256(inputs).hexdigest()
        if len(inputs) > LARGEST_INPUTS:
            seen = f"more than {LARGEST_INPUTS:,} bytes"
    except FileNotFoundError:
        raise _missing(app, model, path, root) from None
    except zstandard.ZstdError as error:
        seen = str(error)
    except OSError as error:
        seen = error.strerror or type(error).__name__
    if seen != digest:
        raise _changed("the recorded inputs", path, root, digest, seen, _command(app))
    return inputs


def _missing(app: App, model: ModelConfig, path: Path, root: Path) -> CanonicalMissingError:
    return CanonicalMissingError(
        f"the model {model.name} of //apps/{app.name} has no canonical model",
        expected=_shown(path, root),
        hint=f"run: {_command(app)}",
    )


def _changed(
    what: str, path: Path, root: Path, expected: str, seen: str, command: str
) -> CanonicalChangedError:
    return CanonicalChangedError(
        f"{what} changed since it was made",
        place=Place(_shown(path, root)),
        expected=expected,
        seen=seen,
        hint=f"check it out again, or run: {command}",
    )


def _command(app: App) -> str:
    return f"./orchestrate canonical //apps/{app.name} --write"


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
