"""The licences of what a variant holds: parts of PyTorch by its units, libraries by its symbols."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from orchestrator.package.deliver import Licence
from orchestrator.package.symbols import defined_symbols
from orchestrator.pipeline.session import Session
from orchestrator.runtime.tree import TreeRules
from orchestrator.runtime.versions import LicenceRule
from orchestrator.toolchain.driver import LinkedPart


def licences(
    session: Session, abi: str, units: Collection[str], linked: Path | None
) -> tuple[Licence, ...]:
    """The licences of a variant of these units, and of what its linker put into it.

    `linked` is the unstripped shared library; None where archives alone are delivered, into which
    a linker puts nothing.
    """
    return (
        *_of_runtime(session, units),
        *(of_linked(session.toolchain(abi).driver.linked, linked) if linked else ()),
    )


def held_parts(rules: Iterable[LicenceRule], units: Collection[str]) -> Iterator[LicenceRule]:
    """The parts of PyTorch that one of the units holds."""
    for rule in rules:
        holding = TreeRules(rule.units)
        if any(holding.counts(unit) for unit in units):
            yield rule


def of_linked(parts: Iterable[LinkedPart], library: Path) -> Iterator[Licence]:
    """The toolchain's libraries that an unstripped library holds: one of their symbols tells."""
    symbols = defined_symbols(library)
    for part in parts:
        if any(symbol.startswith(part.witnesses) for symbol in symbols):
            yield Licence(part.name, part.version, part.licence, part.texts)


def _of_runtime(session: Session, units: Collection[str]) -> Iterator[Licence]:
    for rule in held_parts(session.runtime.version.licences, units):
        folder = _folder(session, rule.third_party)
        yield Licence(
            rule.component,
            rule.version,
            rule.licence,
            {name: text.read(folder) for name, text in rule.texts.items()},
        )


def _folder(session: Session, third_party: str | None) -> Path:
    """The folder that a rule's texts are relative to; a header set's lies above its `include`."""
    fetched = session.runtime.fetched
    if third_party is None:
        return fetched.tree
    include = session.workspace.config.runtime.third_party[third_party].include
    return fetched.third_party[third_party].parents[len(PurePosixPath(include).parts) - 1]
