"""Packages of the variants that a build has delivered and verified, in `dist/<app>/packages/`.

A package of several ABIs is made once every one of its ABIs is delivered, verified and built from
the same state of the app as this build; otherwise the report names the missing ABIs. So a build of
one label makes a complete package or none, never one that mixes two states of an app. Beside the
packages of each kind is a statement about their provenance, and the verdicts on known
vulnerabilities for scanners (VEX); these go when they go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from orchestrator.build.delivering.signing_key import signing_key
from orchestrator.build.explaining.advisories import Judge
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.deliver import provenance, vex
from orchestrator.deliver.delivered import Delivery, read_delivery
from orchestrator.deliver.files import ForeignFolderError, sha256_of, write_package
from orchestrator.deliver.manifest import Manifest, UnreadableManifestError, read_manifest
from orchestrator.deliver.record import FOLDER, claim_packages, drop_packages, slot_of
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.advisories import OWN, read_advisories
from orchestrator.load.declared import App
from orchestrator.packagers.contents import bills_in
from orchestrator.packagers.registry import PACKAGERS
from orchestrator.packagers.sums import SLOT, files_of, write_sums
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.declared import default_packages, suitable_packages
from orchestrator.platforms.platform import C_LIBRARIES
from orchestrator.report.packages import MissingAbi, PackageFile, PackageReport
from orchestrator.values.advisories import LibraryVerdicts
from orchestrator.values.config.app import PackageKind
from orchestrator.values.labels import VariantLabel

# Marks a variant's folder in the state, see `mark_unproven`.
UNPROVEN = "unproven"


class OtherCLibraryError(OrchestratorError):
    """An app wants a package of a library that is for another C library than the package."""


class OnePackageError(OrchestratorError):
    """Packages of two targets of an app have the same name."""


def make_packages(here: Invocation, labels: Sequence[VariantLabel]) -> tuple[PackageReport, ...]:
    """Make the packages of variants that this build delivered and proved, and sum them up.

    Packages of ours that the app's declaration no longer gives are removed. What fails for one app
    leaves the others' packages made; then the first failure is raised: what the packagers and
    `read_delivery` raise, and `signing_key` and `write_sums`.
    """
    reports: list[PackageReport] = []
    failures: list[OrchestratorError] = []
    judge = Judge(read_advisories(OWN))
    for name in sorted({label.app for label in labels}):
        app = here.workspace.apps[name]
        built = frozenset(label.abi for label in labels if label.app == name and label.abi)
        try:
            refuse_blocked_folder(here, name)
        except OrchestratorError as failure:
            failures.append(failure)
            continue
        try:
            reports += _of_app(here, app, built, judge)
        except OrchestratorError as failure:
            failures.append(failure)
        # also of what was made before another kind failed
        try:
            _sum_up(here, app)
        except OrchestratorError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
    return tuple(reports)


def refuse_blocked_folder(here: Invocation, app: str) -> None:
    """Raises `ForeignFolderError` where the folder for an app's packages is something else."""
    folder = here.context.dist / app / FOLDER
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ForeignFolderError(
            f"cannot create dist/{app}/{FOLDER}: a file or symlink is in the way",
            place=Place(str(folder)),
            expected="a folder, or nothing",
            seen="a link" if folder.is_symlink() else "a file",
            hint="move it away, and build again",
        )


def packages_to_make(app: App, here: Invocation) -> Mapping[PackageKind, tuple[str, ...]]:
    """Kind -> ABIs of the app that are put in packages of it, in the order of the declaration."""
    wanted: dict[PackageKind, tuple[str, ...]] = {}
    for abi in app.config.targets:
        toolchain = here.workspace.toolchains[abi].config
        suitable = suitable_packages(toolchain)
        kinds = app.config.packages or default_packages(toolchain)
        for kind in (k for k in kinds if k in suitable):
            wanted[kind] = (*wanted.get(kind, ()), abi)
    return wanted


def mark_unproven(here: Invocation, label: VariantLabel) -> None:
    """Mark a variant's folder in dist/ as unverified: its last build has not passed yet."""
    mark = _mark(here, label)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def mark_proven(here: Invocation, label: VariantLabel) -> None:
    """Remove the mark that `mark_unproven` sets: the variant has passed its checks and is in dist/.
    Does nothing where there is no mark."""
    _mark(here, label).unlink(missing_ok=True)


def is_proven(here: Invocation, label: VariantLabel) -> bool:
    """True if the variant's last build passed all checks: then dist/ has its result."""
    return not _mark(here, label).exists()


def _mark(here: Invocation, label: VariantLabel) -> Path:
    return here.context.state / label.linked / UNPROVEN


def _of_app(
    here: Invocation, app: App, built: frozenset[str], judge: Judge
) -> Iterator[PackageReport]:
    folder = here.context.dist / app.name
    into = folder / FOLDER
    # read once for packages of all kinds
    delivery = cache(lambda abi: read_delivery(folder / abi))
    judged = cache(lambda abi: judge.library(delivery(abi).manifest, Place(str(folder / abi))))
    slots = {
        (kind if PACKAGERS[kind].JOINS_ABIS else f"{kind} {together[0]}"): (kind, together)
        for kind, abis in packages_to_make(app, here).items()
        for together in ([abis] if PACKAGERS[kind].JOINS_ABIS else [(abi,) for abi in abis])
    }
    for slot, (kind, together) in slots.items():
        if not built.isdisjoint(together) and _fits(here, app, kind, together):
            if not PACKAGERS[kind].JOINS_ABIS:
                _refuse_taken(here, app, kind, together[0], slots)
            missing = tuple(_missing(here, app.name, together, built))
            files: tuple[PackageFile, ...] = ()
            if not missing:
                deliveries, verdicts = map(delivery, together), [*map(judged, together)]
                files = _pack(here, kind, deliveries, verdicts, into, slot)
            yield PackageReport(app.name, kind, together, files, missing)
    if into.is_dir():
        drop_packages(into, but={*slots, SLOT})


def _refuse_taken(
    here: Invocation, app: App, kind: PackageKind, abi: str, slots: Collection[str]
) -> None:
    """Raises OnePackageError where the packages of another of the app's targets have the names of
    this one's: a Debian package is named after its processor alone."""
    folder = here.context.dist / app.name
    for name in PACKAGERS[kind].names([read_manifest(folder / abi)], here.context.env):
        owner = slot_of(folder / FOLDER, name)
        if owner is not None and owner in slots and owner != f"{kind} {abi}":
            raise OnePackageError(
                f"two targets of {app.name} have one package of kind {kind}",
                place=app.places.value(("targets",)),
                expected="a name for each",
                seen=f"{name}, for {owner.partition(' ')[2]} and {abi}",
                hint=f"list `packages:` without `{kind}`, or build one of them as another app",
            )


def _fits(here: Invocation, app: App, kind: PackageKind, abis: Sequence[str]) -> bool:
    """True if packages of the kind can hold libraries for the C library of the compilers that were
    found; for zig, the check of the declarations covers its target. Raises OtherCLibraryError if
    the app names the kind and they cannot."""
    for abi in abis:
        platform = PLATFORMS[here.workspace.toolchains[abi].config.system]
        wanted = platform.package_needs.get(kind)
        if wanted is None or here.toolchains.of(abi).driver.c_library == wanted:
            continue
        if app.config.packages:
            toolchain = here.toolchains.of(abi)
            raise OtherCLibraryError(
                f"a library for {abi} cannot be in a package of kind {kind}",
                place=toolchain.place,
                expected=f"a compiler for {C_LIBRARIES[wanted]}",
                seen=f"one for {C_LIBRARIES[toolchain.driver.c_library]}: {toolchain.version}",
                hint=f"take `{kind}` out of {app.name}'s packages, or {abi} out of its targets",
            )
        return False
    return True


def _sum_up(here: Invocation, app: App) -> None:
    """Update the list of the packages' digests, and sign it if a key is declared."""
    into = here.context.dist / app.name / FOLDER
    if not into.is_dir():
        return
    key = signing_key(here)
    comment = f"{app.package_name} {app.config.version}"
    if write_sums(into, key, comment) and key is not None:
        here.log(f"//apps/{app.name}: SHA256SUMS of its packages is signed")


def _pack(
    here: Invocation,
    kind: PackageKind,
    deliveries: Iterable[Delivery],
    verdicts: Sequence[LibraryVerdicts],
    into: Path,
    slot: str,
) -> tuple[PackageFile, ...]:
    together = [*deliveries]
    paths = PACKAGERS[kind].pack(together, into, here.context.env)
    names = [path.name for path in paths]
    manifests = [one.manifest for one in together]
    statement = _write_statement(kind, manifests, into, names)
    answers = _write_verdicts(manifests[0], verdicts, into, names[0])
    claim_packages(into, slot, [*names, statement, answers])
    return tuple(
        PackageFile(
            path.relative_to(here.context.root).as_posix(),
            _bytes(path),
            None if path.is_dir() else sha256_of(path),
        )
        for path in paths
    )


def _write_statement(
    kind: PackageKind, manifests: Sequence[Manifest], into: Path, packages: Sequence[str]
) -> str:
    """Write the provenance of packages beside them; returns its file's name.

    Raises `ForeignFileError`, `UnwritableError`.
    """
    subjects = {
        name: sha256_of(into / name) for package in packages for name in files_of(into, package)
    }
    text = provenance.text(kind, manifests, subjects, metadata.version(provenance.BUILDER))
    return _write(text, into, packages[0] + provenance.SUFFIX)


def _write_verdicts(
    first: Manifest, verdicts: Sequence[LibraryVerdicts], into: Path, package: str
) -> str:
    """Write what known vulnerabilities mean for a package's libraries beside it; returns its file's
    name. `advisories` says the same of the package. Raises as `_write_statement`."""
    bills = bills_in(into / package)
    text = vex.text_of_package(first.package_name, first.version, bills, verdicts)
    return _write(text, into, package + vex.SUFFIX)


def _write(text: str, into: Path, name: str) -> str:
    content = text.encode()
    write_package(
        into / name, hashlib.sha256(content).hexdigest(), lambda file: file.write(content)
    )
    return name


def _bytes(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def _missing(
    here: Invocation, app: str, abis: Sequence[str], built: frozenset[str]
) -> Iterator[MissingAbi]:
    """The ABIs whose delivered folders do not go together with what this build made."""
    dist = here.context.dist / app
    now = {read_manifest(dist / abi).fingerprint for abi in abis if abi in built}
    for abi in (abi for abi in abis if abi not in built):
        try:
            seen = read_manifest(dist / abi).fingerprint
        except UnreadableManifestError:
            yield MissingAbi(abi, "is not built")
            continue
        if {seen} != now:
            yield MissingAbi(abi, "was built from a different state of the app")
        elif not is_proven(here, VariantLabel(app, abi)):
            yield MissingAbi(abi, "has not passed its checks")
