"""Verdicts on known vulnerabilities for people, and as values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from orchestrator.errors import OrchestratorError, visible
from orchestrator.values.advisories import LibraryVerdicts, Verdict


class ReachableAdvisoryError(OrchestratorError):
    """A model reaches code with a known vulnerability."""


def text(libraries: Sequence[LibraryVerdicts]) -> str:
    """Each app's verdicts, those that ask for something first; ends with a newline."""
    return "".join(f"{line}\n" for line in _lines(libraries))


def _lines(libraries: Sequence[LibraryVerdicts]) -> Iterator[str]:
    # the verdicts of an app are mostly the same for every ABI
    for (where, verdicts), same in groupby(libraries, key=lambda one: (_place(one), one.verdicts)):
        its = list(same)
        abis = ", ".join(one.label.abi for one in its)
        yield f"{visible(where)} ({abis}), PyTorch {its[0].pytorch}"
        absent = [one for one in verdicts if one.justification == "code_not_present"]
        for one in sorted(verdicts, key=lambda one: one.word != "reachable"):
            if one not in absent:
                yield f"  {one.advisory.id}: {one.word}: {visible(one.advisory.title)}"
                yield from (f"    {visible(line)}" for line in one.lines)
        yield f"  not present: {', '.join(one.advisory.id for one in absent) or 'none'}"


def _place(library: LibraryVerdicts) -> str:
    """Place of a library: an app of the workspace, or a package, of whatever app."""
    app = library.label.app
    return f"{library.package}: {app}" if library.package else f"//apps/{app}"


def values(libraries: Sequence[LibraryVerdicts]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "label": str(library.label),
            **({"package": library.package} if library.package else {}),
            "pytorch": library.pytorch,
            "advisories": [_value(one) for one in library.verdicts],
        }
        for library in libraries
    ]


def _value(verdict: Verdict) -> dict[str, Any]:
    return {
        "id": verdict.advisory.id,
        "verdict": verdict.word,
        "title": verdict.advisory.title,
        "source": verdict.advisory.source,
        "lines": list(verdict.lines),
    }


def require_none(libraries: Sequence[LibraryVerdicts]) -> None:
    """Raises ReachableAdvisoryError where a model of a library reaches a vulnerability."""
    found = {
        one.advisory.id: library.package or library.label
        for library in libraries
        for one in library.verdicts
        if one.state == "exploitable"
    }
    if found:
        shown = ", ".join(f"{name} ({label})" for name, label in sorted(found.items()))
        raise ReachableAdvisoryError(
            "models reach code with known vulnerabilities",
            expected="none",
            seen=shown,
            hint="the lines above name the operators: use others in the models, or run no inputs"
            " of strangers; `forbid` in app.yaml keeps an operator out",
        )
