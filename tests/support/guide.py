"""What the documents say that commands print, for the tests that compare it with what they print.

In README.md and docs/guide, a fence with `sh` holds commands, one with `text` a listing of files
that no command prints, and one without a language an output, unless all of its lines begin with
`./`. Each output and each listing is asked for by a test, by `shown(page, start)`; that all are
asked for is a test as well (`test_guide_outputs.py`). `shown_json` gives what a fence with
`json` holds.

How they are compared: values that a machine or a version decides are masked by `rough`, and `...`
in a line of a document stands for anything. In JSON, `differences` masks what a run
decides. All else is the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
# In JSON: what depends on the machine's speed, or on its cache.
OF_A_RUN = {"actions_run", "seconds", "units_compiled", "units_reused"}


@dataclass(frozen=True)
class Shown:
    """An output or a listing that a page shows, its path relative to the repository."""

    page: str
    output: str
    is_listing: bool = False


def outputs() -> Iterator[Shown]:
    """Every output and listing in README.md and the guides."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md"))):
        for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
            lines = fence["body"].splitlines()
            is_listing = fence["info"].split(" ")[0] == "text"
            is_output = not fence["info"] and not all(line.startswith("./") for line in lines)
            if is_output or is_listing:
                yield Shown(page.relative_to(ROOT).as_posix(), fence["body"], is_listing)


def shown(page: str, start: str) -> str:
    """The output of a page that begins with `start`."""
    (found,) = (
        one.output for one in outputs() if one.page == page and one.output.startswith(start)
    )
    return found


def listed(page: str, start: str) -> list[str]:
    """The files of the listing of a page that begins with `start`: its lines without what is said
    of them, which stands behind two blanks."""
    return [re.split("  +", line.strip())[0] for line in shown(page, start).splitlines()]


def rough(output: str) -> str:
    """An output without its numbers (sizes, times, counts) and the widths of its columns."""
    return re.sub(r"[ -]{2,}", "  ", re.sub(r"[0-9][0-9,.]*", "0", output))


def agrees(said: str, printed: str) -> bool:
    """Whether a command printed what a document says, in which `...` stands for anything."""
    pattern = r"[^\n]*".join(map(re.escape, said.split("...")))
    return re.fullmatch(pattern, printed) is not None


def shown_json(page: str, key: str) -> dict[str, Any]:
    """The JSON object of a page that has `key`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    values = [
        json.loads(fence["body"]) for fence in FENCE.finditer(text) if fence["info"] == "json"
    ]
    (found,) = (one for one in values if isinstance(one, dict) and key in one)
    return found


def differences(said: Any, printed: Any, place: str = "") -> list[str]:
    """Where a document's JSON is not what a command printed: keys in their order, and values.

    Of what a run decides, only the type counts. Sizes, which each change of our code moves by a
    little, may be 1 % off: renew the document's above that.
    """
    key = re.sub(r".*[.\]]", "", place)
    same: bool
    match said, printed:
        case dict(), dict() if [*said] == [*printed]:
            return [
                one
                for name in said
                for one in differences(said[name], printed[name], f"{place}.{name}")
            ]
        case list(), list() if len(said) == len(printed):
            return [
                one
                for index, (a, b) in enumerate(zip(said, printed, strict=True))
                for one in differences(a, b, f"{place}[{index}]")
            ]
        case dict(), dict():
            same = False
        case str(), str():
            same = agrees(said, printed)
        case ((int() | float()), (int() | float())) if key in OF_A_RUN:
            same = type(said) is type(printed)
        case ((int() | float()), (int() | float())) if key.endswith(("bytes", "percent")):
            same = abs(said - printed) <= printed / 100
        case _:
            same = type(said) is type(printed) and said == printed
    return [] if same else [f"{place}: {said!r}, printed {printed!r}"]
