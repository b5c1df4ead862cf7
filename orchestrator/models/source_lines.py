"""Places of operators in a model's source: file and line, if the file has them.

Contract: `operator_places` returns places and never raises: debug information is only for messages,
and a `.ptl` without it, or with a damaged one, is as good as any other. Time and memory are bounded
as for the other pickles of a model (`pickles.Steps`).

PyTorch writes it in two ways, both of which give a line of the exported Python file:

    callstack_debug_map.pkl  an instruction's handle -> range (`_save_mobile_debug_info=True`); the
                             handles are in mobile_debug_handles.pkl
    code/*.py.debug_pkl      a place in the TorchScript of code/*.py -> range; there an operator is
                             found by its name, without its overload

Sources: torch/csrc/jit/serialization/source_range_serialization.cpp and
callstack_debug_info_serialization.cpp.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import Archive, open_archive
from orchestrator.models.inert import Value
from orchestrator.models.pickles import MAX_STEPS, Steps, read_pickle
from orchestrator.models.tensors import Tensors, constants_folder
from orchestrator.values.operators import OperatorName

_BYTECODE: Final = "bytecode.pkl"
_DATA: Final = "data.pkl"
_HANDLES: Final = "mobile_debug_handles.pkl"
_CALLSTACKS: Final = "callstack_debug_map.pkl"
_SUFFIX: Final = ".debug_pkl"
_WITH_TABLE: Final = "FORMAT_WITH_STRING_TABLE"
# Of one operator; the first are enough to find it.
MOST_PLACES: Final = 4
_LONGEST: Final = 300
# How TorchScript's code names an operator (torch/csrc/jit/serialization/python_print.cpp).
_NAMED: Final = re.compile(r"\b(?:torch\.([A-Za-z_]\w*)|ops\.(\w+)\.([A-Za-z_]\w*))\(")


def operator_places(
    path: Path, operators: Collection[OperatorName]
) -> Mapping[OperatorName, tuple[Place, ...]]:
    """Operator -> the places that name it, the first `MOST_PLACES` that are known."""
    if not operators:
        return {}
    try:
        with path.open("rb") as file, open_archive(file, Place(str(path))) as archive:
            found = {name: dict[Place, None]() for name in operators}
            for name, place in DebugReader(archive).places(frozenset(operators)):
                if len(found[name]) < MOST_PLACES:
                    found[name][place] = None
    except (OSError, OrchestratorError):
        return {}
    return {name: tuple(places) for name, places in found.items() if places}


@dataclass(frozen=True)
class _Ranges:
    """A file of ranges: tag -> place, and the sorted starts in its text with their places."""

    tagged: Mapping[int, Place]
    starts: tuple[int, ...]
    places: tuple[Place | None, ...]

    def at(self, offset: int) -> Place | None:
        """The place that generated what is at a byte of the text."""
        before = bisect_right(self.starts, offset) - 1
        return self.places[before] if before >= 0 else None


class DebugReader:
    """Reads the existing records; one that PyTorch would not write gives no lines."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._steps = Steps(MAX_STEPS)
        # constants of functions are tensors too
        self._tensors = {
            _BYTECODE: Tensors(archive.sizes, constants_folder(archive.names)),
            _DATA: Tensors(archive.sizes, _DATA.removesuffix(".pkl") + "/"),
        }

    def places(self, operators: frozenset[OperatorName]) -> Iterator[tuple[OperatorName, Place]]:
        ranges = self._all_ranges()
        found = set[OperatorName]()
        for name, place in self._by_handles(ranges.values(), operators):
            found.add(name)
            yield name, place
        for file, inside in ranges.items():
            if file in self._archive.sizes:
                text = self._archive.read(file)
                yield from _in_code(text, inside, operators - found)

    def code(self) -> tuple[Value, ...]:
        """The record of functions."""
        return _entries(self._value(_BYTECODE))

    def data(self) -> Value:
        """The module: its attributes, and the objects that it holds; None where it cannot be
        read."""
        return self._value(_DATA)

    def handles(self) -> tuple[Value, ...]:
        """The handles of instructions, as the functions are listed; none where it has none."""
        return _entries(self._value(_HANDLES))

    def places_of_handles(self) -> Mapping[int, Place]:
        """The handle of an instruction -> where the model's source has it."""
        if _CALLSTACKS not in self._archive.sizes:
            return {}
        tagged = _tagged(self._all_ranges().values())
        tags = _tags_of_handles(self._value(_CALLSTACKS))
        return {handle: tagged[tag] for handle, tag in tags.items() if tag in tagged}

    def _all_ranges(self) -> dict[str, _Ranges]:
        return {
            name.removesuffix(_SUFFIX): _ranges(self._value(name))
            for name in self._archive.names
            if name.endswith(_SUFFIX)
        }

    def _value(self, record: str) -> Value:
        if record not in self._archive.sizes or self._steps.left <= 0:
            return None
        try:
            data = self._archive.read(record)
            tensors = self._tensors.get(record)
            return read_pickle(
                data, record, self._archive.place, tensors=tensors, steps=self._steps
            ).value
        except OrchestratorError:
            return None

    def _by_handles(
        self, ranges: Collection[_Ranges], operators: frozenset[OperatorName]
    ) -> Iterator[tuple[OperatorName, Place]]:
        """By the handles of the instructions that call an operator."""
        if _CALLSTACKS not in self._archive.sizes or _HANDLES not in self._archive.sizes:
            return
        tagged = _tagged(ranges)
        tags = _tags_of_handles(self._value(_CALLSTACKS))
        code, handles = self._value(_BYTECODE), self._value(_HANDLES)
        if not isinstance(code, tuple) or not isinstance(handles, tuple):
            return
        for function, row in zip(code, handles, strict=False):
            for handle, name in _operators_of(function, row):
                place = tagged.get(tags.get(handle, -1))
                if name in operators and place is not None:
                    yield name, place


def _entries(value: Value) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else ()


def _tagged(ranges: Collection[_Ranges]) -> dict[int, Place]:
    return {tag: place for one in ranges for tag, place in one.tagged.items()}


def _operators_of(function: Value, row: Value) -> Iterator[tuple[int, OperatorName]]:
    """The handles of a function's instructions that call operators."""
    match function, row:
        case (
            (_, (("instructions", tuple(rows)), ("operators", tuple(names)), *_), *_),
            (_, (("function_debug_handles", (list(handles),)),)),
        ):
            for instruction, handle in zip(rows, handles, strict=False):
                match instruction:
                    case ("OP" | "OPN", int(number), _) if 0 <= number < len(names):
                        operator = names[number]
                    case _:
                        continue
                match operator, handle:
                    case (str(name), str(overload), *_), int(found):
                        try:
                            yield found, OperatorName.of(name, overload)
                        except OrchestratorError:
                            continue


def _tags_of_handles(value: Value) -> dict[int, int]:
    found = {}
    for row in value if isinstance(value, tuple) else ():
        match row:
            case (int(handle), int(tag), *_):
                found[handle] = tag
    return found


def _ranges(value: Value) -> _Ranges:
    """The ranges of one record: (start, (source, first, last), tag), the sources' lines in a table
    or as they are."""
    table: tuple[Value, ...] = ()
    match value:
        case (str(head), tuple(texts), tuple(rows)) if head == _WITH_TABLE:
            table = texts
        case tuple(rows):
            pass
        case _:
            rows = ()
    tagged: dict[int, Place] = {}
    found: dict[int, Place | None] = {}
    sources: dict[int, _Source | None] = {}
    for row in rows:
        match row:
            case (int(start), (source, int(first), int()), *rest):
                pass
            case _:
                continue
        if id(source) not in sources:
            sources[id(source)] = _source(source, table)
        known = sources[id(source)]
        place = None if known is None else known.at(first)
        found.setdefault(start, place)
        match rest:
            case [int(tag), *_] if place is not None:
                tagged.setdefault(tag, place)
    starts = tuple(sorted(found))
    return _Ranges(tagged, starts, tuple(found[start] for start in starts))


@dataclass(frozen=True)
class _Source:
    """A piece of a Python file: where its lines end, in characters, and its first line's number."""

    file: str
    first: int
    ends: tuple[int, ...]

    def at(self, offset: int) -> Place | None:
        line = bisect_right(self.ends, offset)
        if offset < 0 or line >= len(self.ends):
            return None
        return Place(
            self.file, self.first + line, 1 + offset - (self.ends[line - 1] if line else 0)
        )


def _source(value: Value, table: tuple[Value, ...]) -> _Source | None:
    match value:
        case (list(numbers), int(name), int(first)):
            lines = [_text(table, number) for number in numbers]
            file = _text(table, name)
        case (str(text), str(file), int(first)):
            lines = text.splitlines(keepends=True)
        case _:
            return None
    if not file or not 0 <= first < 2**31:
        return None
    ends, at = [], 0
    for line in lines:
        at += len(line)
        ends.append(at)
    return _Source(file[-_LONGEST:], max(1, first), tuple(ends))


def _text(table: tuple[Value, ...], number: Value) -> str:
    if isinstance(number, int) and 0 <= number < len(table):
        text = table[number]
        return text if isinstance(text, str) else ""
    return ""


def _in_code(
    data: bytes, ranges: _Ranges, operators: frozenset[OperatorName]
) -> Iterator[tuple[OperatorName, Place]]:
    """Yield the places where the TorchScript names an operator, of any overload."""
    by_name: dict[str, list[OperatorName]] = {}
    for operator in sorted(operators):
        by_name.setdefault(operator.qualified, []).append(operator)
    if not by_name:
        return
    # ranges count bytes
    for match in _NAMED.finditer(data.decode("latin-1")):
        plain, namespace, name = match.groups()
        place = ranges.at(match.start())
        for operator in by_name.get(f"aten::{plain}" if plain else f"{namespace}::{name}", ()):
            if place is not None:
                yield operator, place
