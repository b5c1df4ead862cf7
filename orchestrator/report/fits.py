"""The report of `fits`: one row per library, as text and as JSON.

Contract: `FitsReport` is a value; `to_json` is its documented form and `text` what people read.
Names in it come from models and packages: the caller that prints it must escape them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.errors import OrchestratorError, visible
from orchestrator.report.table import human_bytes
from orchestrator.values.fits import FITTING, Lack, Verdict
from orchestrator.verify.verdict import VerifyResult

_SHOWN: Final = 12
_WORDS: Final = {
    "proven": "fits, proven",
    "by manifest": "fits by its manifest",
    "unknown": "cannot tell",
    "does not fit": "does not fit",
}


@dataclass(frozen=True)
class FitRow:
    """The answer about one library; with an `error` there is no verdict.

    package   as it was named
    added_bytes  about what all that lacks would add; None where that is not known
    estimated_bytes  about what the library would have with it
    ran       how the model ran in it; None where it did not, and `not_run` says why
    """

    package: str
    app: str = ""
    abi: str = ""
    version: str = ""
    pytorch: str = ""
    verdict: Verdict | None = None
    reason: str = ""
    lacks: tuple[Lack, ...] = ()
    unknown: tuple[Lack, ...] = ()
    added_bytes: int | None = None
    estimated_bytes: int | None = None
    ran: VerifyResult | None = None
    not_run: str = ""
    error: OrchestratorError | None = None


@dataclass(frozen=True)
class FitsReport:
    """A model and all libraries that it was compared with; `trace`: the lock that was used, or why
    there was none."""

    model: str
    sha256: str
    operators: int
    trace: str | None
    no_trace: str
    rows: tuple[FitRow, ...]

    @property
    def all_fit(self) -> bool:
        """True if every library is known to run the model."""
        return all(row.verdict in FITTING for row in self.rows)

    @property
    def undecided(self) -> bool:
        """True if no verdict is worse than `unknown`."""
        return all(row.verdict in (*FITTING, "unknown") for row in self.rows)

    def to_json(self) -> str:
        """See schemas/output.schema.json."""
        value = {
            "format": 1,
            "model": {
                "file": self.model,
                "sha256": self.sha256,
                "operators": self.operators,
                "trace": self.trace,
                "no_trace": self.no_trace,
            },
            "packages": [_row_json(row) for row in self.rows],
        }
        return json.dumps(value, indent=2) + "\n"

    def text(self) -> str:
        """For people, with a last newline."""
        return "".join(f"{visible(line)}\n" for row in self.rows for line in _lines(row))


def _row_json(row: FitRow) -> dict[str, Any]:
    return {
        "package": row.package,
        "app": row.app,
        "abi": row.abi,
        "version": row.version,
        "pytorch": row.pytorch,
        "verdict": row.verdict,
        "reason": row.reason,
        "lacks": [_lack_json(one) for one in row.lacks],
        "unknown": [_lack_json(one) for one in row.unknown],
        "added_bytes": row.added_bytes,
        "estimated_bytes": row.estimated_bytes,
        "runs": None if row.ran is None else row.ran.runs,
        "failures": [] if row.ran is None else [str(one) for one in row.ran.failures],
        "not_run": row.not_run,
        "error": row.error and row.error.to_json(),
    }


def _lack_json(lack: Lack) -> dict[str, Any]:
    return {
        "kind": lack.kind,
        "name": lack.name,
        "needed": lack.needed,
        "dtypes": list(lack.dtypes),
        "has": list(lack.has),
        "asked_by": list(lack.asked_by),
        "methods": list(lack.methods),
        "places": [
            {"file": place.file, "line": place.line or None, "column": place.column or None}
            for place in lack.places
        ],
        "bytes": lack.bytes,
        "at_most": lack.at_most,
        "note": lack.note,
    }


def _lines(row: FitRow) -> Iterator[str]:
    if row.error is not None:
        yield f"{row.package}: {row.error.what}"
        return
    assert row.verdict is not None
    what = f"{row.app} {row.version} for {row.abi}, PyTorch {row.pytorch}"
    reason = f": {row.reason}" if row.reason else ""
    yield f"{row.package} ({what}): {_WORDS[row.verdict]}{reason}"
    if row.ran is not None:
        yield from (f"  {failure}" for failure in row.ran.failures[:_SHOWN])
    elif row.not_run:
        yield f"  not run: {row.not_run}"
    for some, word in ((row.lacks, "lacks"), (row.unknown, "not known to have")):
        yield from (f"  {word} {_lack_line(lack)}" for lack in some[:_SHOWN])
        if len(some) > _SHOWN:
            yield f"  {word} {len(some) - _SHOWN} more"
    if row.added_bytes is not None and row.verdict == "does not fit":
        whole = "" if row.estimated_bytes is None else f", {human_bytes(row.estimated_bytes)}"
        larger = human_bytes(row.added_bytes)
        yield f"  with all of it the library would be about {larger} larger{whole}"


def _lack_line(lack: Lack) -> str:
    parts = [f"{lack.kind} {lack.name}"]
    if lack.kind == "kernel tag":
        has = f", which has {', '.join(lack.has)}" if lack.has else ""
        dtypes = "all dtypes" if lack.dtypes == ("*",) else ", ".join(lack.dtypes)
        parts = [f"dtype {dtypes} of kernel tag {lack.name}{has}"]
    if lack.note:
        parts.append(f" ({lack.note})")
    if lack.methods:
        parts.append(f", named in {', '.join(lack.methods)}")
    if lack.asked_by:
        parts.append(f", for {', '.join(lack.asked_by)}")
    if lack.places:
        parts.append(f", at {', '.join(f'{one.file}:{one.line}' for one in lack.places)}")
    if lack.bytes is not None:
        parts.append(f": {'at most' if lack.at_most else 'about'} {human_bytes(lack.bytes)}")
    return "".join(parts)
