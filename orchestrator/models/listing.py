"""A model's instructions, with the lines of its source if the file has them.

Contract: pass `read_listings` a file that `read_model` has read. A record that the runtime would
not accept gives no listing; missing or damaged debug information gives no lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import open_archive
from orchestrator.models.inert import Value
from orchestrator.models.settled import settled_branches
from orchestrator.models.source_lines import DebugReader


@dataclass(frozen=True)
class Listing:
    """One function.

    names      of its instructions, `OP`, `JF`
    jumps      instruction that may jump -> the one that it jumps to
    operators  instruction -> the operator that it calls: `aten::add.Tensor`
    places     instruction -> where the model's own source has it
    settled    branch that goes one way in every run -> whether its condition holds
    """

    qualified: str
    names: tuple[str, ...]
    jumps: Mapping[int, int] = field(default_factory=dict)
    operators: Mapping[int, str] = field(default_factory=dict)
    places: Mapping[int, Place] = field(default_factory=dict)
    settled: Mapping[int, bool] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """Its name for people: `forward`."""
        return self.qualified.rpartition(".")[2]


def read_listings(path: Path) -> tuple[Listing, ...]:
    """The functions of a `.ptl`, in the order of the file; none where it cannot be read."""
    try:
        with path.open("rb") as file, open_archive(file, Place(str(path))) as archive:
            return _listings(DebugReader(archive))
    except (OSError, OrchestratorError):
        return ()


def _listings(reader: DebugReader) -> tuple[Listing, ...]:
    code, handles, places = reader.code(), reader.handles(), reader.places_of_handles()
    settled = settled_branches(code, reader.data())
    found = []
    for number, function in enumerate(code):
        if isinstance(function, int):  # the first entry is the version
            continue
        of = handles[number] if number < len(handles) else None
        listing = _listing(function, of, places)
        if listing is None:
            return ()
        found.append(replace(listing, settled=settled.get(listing.qualified, {})))
    return tuple(found)


def _listing(function: Value, handles: Value, places: Mapping[int, Place]) -> Listing | None:
    match function:
        case (str(qualified), (("instructions", tuple(rows)), ("operators", tuple(named)), *_), *_):
            pass
        case _:
            return None
    names, jumps, operators = [], {}, {}
    for at, row in enumerate(rows):
        match row:
            case (str(name), int(x), int()):
                names.append(name)
            case _:
                return None
        if name in ("JF", "JMP", "LOOP"):
            jumps[at] = at + x
        elif name in ("OP", "OPN") and 0 <= x < len(named):
            match named[x]:
                case (str(operator), str(overload), *_):
                    operators[at] = f"{operator}.{overload}" if overload else operator
    return Listing(
        str(qualified), tuple(names), jumps, operators, _placed(handles, len(names), places)
    )


def _placed(handles: Value, instructions: int, places: Mapping[int, Place]) -> dict[int, Place]:
    match handles:
        case (_, (("function_debug_handles", (list(of),)),)):
            pairs = enumerate(of[:instructions])
            return {at: places[one] for at, one in pairs if isinstance(one, int) and one in places}
    return {}
