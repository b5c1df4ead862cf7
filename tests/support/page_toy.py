"""Libraries, commits and a build for pages: names that would break out of HTML where they can."""

from __future__ import annotations

from orchestrator.report.events import Event
from orchestrator.report.page.document import page
from orchestrator.report.page.history import Recorded
from orchestrator.size.attribution import Asked, Attribution, Share

DTYPES = ("", "Float", "several", "Long", "Half", "Bool", *(f"Dtype{n}" for n in range(12)))
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;`</td>"


def library(app: str, abi: str, units: int = 60, operators: int = 20) -> Attribution:
    """A library of as many source files and operators as real ones have."""
    names = [HOSTILE, *(f"aten::operator_{number}" for number in range(operators - 1))]
    shares = [
        Share(
            (names[number % operators],) if number % 3 else (),
            f"aten/src/ATen/native/{HOSTILE if number == 1 else 'Unit'}{number}.cpp",
            "code",
            100 + 10 * number,
            DTYPES[number % len(DTYPES)],
        )
        for number in range(units)
    ]
    shares += [Share(tuple(sorted(names[:2])), "c10/core/own of " + app, "unwinding", 5000)]
    asked = {name: Asked({HOSTILE: ("forward at net.py:3",), "other": ()}) for name in names}
    size = sum(share.bytes for share in shares)
    return Attribution(app, abi, "", size, size // 2, {}, asked, tuple(sorted(shares, key=str)))


EVENTS = (
    Event("begun", 0.0, said=f"//apps/{HOSTILE}:a"),
    Event("action", 2.0, f"a.cpp {HOSTILE}", 2.0),
    Event("action", 3.0, "b.cpp", 3.0),
    Event("action", 4.0, "link", 1.0),
    Event("stage", 4.0, "compile and link", 4.0),
    Event("changed", 4.0, "a.cpp", said=f"a.cpp: {HOSTILE}"),
)
RECORDED = (
    Recorded("0123456789ab", "2026-01-02", {("camera", "linux-x86_64"): 1000}),
    Recorded("123456789abc", "2026-01-03", {("camera", "linux-x86_64"): 1000}),
    Recorded("23456789abcd", "2026-01-04", {("camera", "linux-x86_64"): 1250}),
)


def toy_page(apps: int = 2, abis: int = 2, units: int = 60) -> str:
    """A page of so many apps."""
    names = ["camera", *(f"app-{number}" for number in range(1, apps))]
    found = [
        library(app, f"linux-{abi}" if abi else "linux-x86_64", units)
        for app in names
        for abi in range(abis)
    ]
    return page(found, {("camera", "linux-x86_64"): 1000}, RECORDED, EVENTS)
