"""The models that an add-on is proven with: its own, and every one that its library was built for.

A model of the library is the file whose digest the library's manifest has: the package's, where the
app delivers its models, else that of an app in this workspace. With the add-on it must give what a
lock of that file has recorded; where no lock here is of it, what it gives in the library alone. A
model whose file or inputs are not here is told as such, with the reason: none is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from orchestrator.build.shipped.fits import every_version
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.canonical.lock import Shipped
from orchestrator.deliver.manifest import ModelFact
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.models.info import read_model
from orchestrator.packagers.contents import Packaged, take_model
from orchestrator.system.reading import read_text
from orchestrator.trace.lock import lock_path, read_runs, trace_before
from orchestrator.trace.reading import LONGEST
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.trace import Trace, TraceIdentity
from orchestrator.verify.nondeterminism import deterministic_part
from orchestrator.verify.verdict import RunnerResult, Status, VerifyResult, not_run, verify

Owner = Literal["add-on", "library"]
Basis = Literal["recorded outputs", "the library alone"]
# The model controls what its runner says.
_LONGEST_REASON: Final = 200


class UnverifiedAddonError(OrchestratorError):
    """An add-on would be written though models of its library cannot be run with it."""


@dataclass(frozen=True)
class Ready:
    """A model that can be run.

    path      its file
    config    says whether its inputs are bundled, or which they are
    inputs    recorded ones, as the model runner's JSON, where they are neither
    expected  what it must give: the runner's result
    basis     where `expected` is from; with none yet, it is still to be found in the library alone
    like      a later file of this model, whose bundled inputs it takes: it has none itself
    """

    of: Owner
    model: str
    sha256: str
    path: Path
    config: ModelConfig
    inputs: bytes | None
    expected: Mapping[str, Any] | None
    basis: Basis
    like: Path | None = None


@dataclass(frozen=True)
class NotHere:
    """A model of the library that cannot be run, and why: a clause."""

    model: str
    sha256: str
    reason: str


@dataclass(frozen=True)
class Proof:
    """Result of proving an add-on with a model.

    of             owner of the model
    compared_with  source of the outputs that its outputs were compared with; None if it did not run
    result         the verdict; None if the model is not here, which `reason` explains
    """

    of: Owner
    model: str
    sha256: str
    result: VerifyResult | None
    compared_with: Basis | None = None
    why_not: str = ""

    @property
    def status(self) -> Status | Literal["not here"]:
        """Status of the run: only `ok` and `ok in part` have run, and passed."""
        return "not here" if self.result is None else self.result.status

    @property
    def reason(self) -> str:
        """Why it did not run, as a clause; empty where it did."""
        return self.why_not if self.result is None else self.result.reason

    @property
    def fact(self) -> dict[str, Any]:
        """As `addon.json` has it."""
        return {
            "of": self.of,
            "model": self.model,
            "sha256": self.sha256,
            "status": self.status,
            "reason": self.reason,
            "compared_with": self.compared_with,
        }

    def to_json(self) -> dict[str, Any]:
        """`addon_model` of schemas/output.schema.json."""
        verdict = self.result or not_run(self.model, self.why_not)
        return {**asdict(verdict), **self.fact}


def proof(one: Ready, seen: RunnerResult) -> Proof:
    """The proof by a model that ran with the add-on."""
    assert one.expected is not None
    result = verify(one.model, one.expected, seen)
    return Proof(one.of, one.model, one.sha256, result, one.basis)


def no_proof(one: Ready | NotHere, why_not: str) -> Proof:
    """Proof for a model that did not run, because nothing runs the ABI's binaries here, or because
    the model itself is not here."""
    if isinstance(one, NotHere):
        return Proof("library", one.model, one.sha256, None, why_not=one.reason)
    return Proof(one.of, one.model, one.sha256, not_run(one.model, why_not))


def require_all_here(
    models: Iterable[Ready | NotHere], described: str, place: Place, *, unverified: bool
) -> None:
    """Raises UnverifiedAddonError if models of the library are not here, unless the caller takes an
    add-on that is `unverified` with them. described: the library."""
    missing = [one for one in models if isinstance(one, NotHere)]
    if unverified or not missing:
        return
    raise UnverifiedAddonError(
        f"not all models of {described} are here to be run with the add-on",
        place=place,
        expected="each model that the library was built for: in the package, or in an app here",
        seen="; ".join(f"{one.model}, sha256 {one.sha256[:12]}: {one.reason}" for one in missing),
        hint="declare that file in an app of this workspace, under a name of its own, and trace it;"
        " or pass --unverified: the add-on then says what it was not run with",
    )


def library_models(here: Invocation, one: Packaged, folder: Path) -> tuple[Ready | NotHere, ...]:
    """Every model in a package's manifest, in its order.

    folder: where models of the package are unpacked to. Raises what reading a package, a model and
    recorded runs raise.
    """
    models = one.manifest.models
    return tuple(_library_model(here, one, m, folder / f"{n}.ptl") for n, m in enumerate(models))


def _library_model(
    here: Invocation, one: Packaged, model: ModelFact, unpacked: Path
) -> Ready | NotHere:
    app, found = one.manifest.app, [*_declared(here, one.manifest.app, model)]
    # what was delivered has no inputs inside: the file that it was made of may
    path = next((d.shipped.path for d in found if d.now.model == model.sha256), None)
    path = path or (unpacked if take_model(one, model, unpacked) else None)
    if path is None:
        return NotHere(model.name, model.sha256, _why_not_here(here, app, model))
    bare = Ready(
        *("library", model.name, model.sha256, path, ModelConfig(file=f"{model.name}.ptl"), None),
        expected=None,
        basis="the library alone",
    )
    for known in found:
        if known.trace is not None and known.trace.identity.inputs == known.now.inputs:
            runs = read_runs(known.app.folder, known.trace, here.context.root)
            return replace(known.feeding(bare), expected=runs, basis="recorded outputs")
    if _has_inputs(path):
        return bare
    for known in found:
        if known.app.name == app and known.has_inputs:
            return known.feeding(bare)
        if known.app.name == app and _has_inputs(known.shipped.path):
            return replace(bare, like=known.shipped.path)
    return NotHere(model.name, model.sha256, "it holds no inputs, and no app here declares any")


def _has_inputs(path: Path) -> bool:
    return read_model(path, every_version()).has_bundled_inputs


@dataclass(frozen=True)
class _Declared:
    """A model of an app here that may be one of the library's.

    now    digests of its file and inputs as they are
    trace  its lock, if that is of the library's model, whatever the file is now
    """

    app: App
    config: ModelConfig
    shipped: Shipped
    now: TraceIdentity
    trace: Trace | None

    @property
    def has_inputs(self) -> bool:
        """True if its inputs are known apart from its file."""
        return self.config.inputs != "bundled" or self.shipped.inputs is not None

    def feeding(self, model: Ready) -> Ready:
        """A model with the inputs of this one."""
        return replace(model, config=self.config, inputs=self.shipped.inputs)


def _declared(here: Invocation, app: str, model: ModelFact) -> Iterator[_Declared]:
    """Yield the workspace's declarations that may be of a model in an app's library: found by the
    model's lock in any app, or by its name in that app."""
    for one in here.workspace.apps.values():
        for config in one.config.models:
            trace = _lock_of(one, config, model.sha256)
            if trace is None and (one.name, config.name) != (app, model.name):
                continue
            try:
                shipped = here.models.shipped(one, config)
                now = here.models.trace_identity(one, config)
            except OrchestratorError:
                continue  # `_why_not_here` tells
            yield _Declared(one, config, shipped, now, trace)


def _lock_of(app: App, config: ModelConfig, sha256: str) -> Trace | None:
    """A model's lock, if it is of a file with this digest."""
    path = lock_path(app.folder, config.name)
    if not path.is_file() or sha256 not in read_text(path, LONGEST):
        return None
    trace = trace_before(app.folder, config.name)
    return trace if trace is not None and trace.identity.model == sha256 else None


def _why_not_here(here: Invocation, app: str, model: ModelFact) -> str:
    """Why the workspace does not have the file of a model of an app's library."""
    workspace = here.workspace
    if app in workspace.broken:
        return f"apps/{app}/app.yaml has errors"
    if app not in workspace.apps:
        return f"this workspace has no app {app}"
    declared = workspace.apps[app]
    config = next((one for one in declared.config.models if one.name == model.name), None)
    if config is None:
        return f"//apps/{app} has no model {model.name}"
    try:
        path = here.models.shipped(declared, config).path
        _ = here.models.trace_identity(declared, config)
    except OrchestratorError as error:
        return error.what
    return f"{path.relative_to(here.context.root).as_posix()} is another file"


def settled(
    models: Sequence[Ready | NotHere], run: Callable[[Ready], RunnerResult]
) -> tuple[Ready | NotHere, ...]:
    """The models, each with what it must give. run: runs one in the library alone."""
    return tuple(
        _alone(one, run) if isinstance(one, Ready) and one.expected is None else one
        for one in models
    )


def _alone(one: Ready, run: Callable[[Ready], RunnerResult]) -> Ready | NotHere:
    """A model with what it gives in the library alone, of which what differs from run to run is not
    compared."""
    seen = (run(one), run(one))
    for result in seen:
        alone = verify(one.model, result.result or {"runs": []}, result)
        if alone.failures:
            # the library was verified with it: these are not the inputs that it had then
            said = str(alone.failures[0]).splitlines()[0][:_LONGEST_REASON]
            reason = f"with the inputs that are here it fails in the library alone: {said}"
            return NotHere(one.model, one.sha256, reason)
    return replace(one, expected=deterministic_part([r.result for r in seen if r.result]))
