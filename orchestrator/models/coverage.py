"""Coverage of a model's instructions and branches by its inputs. Pure.

Code that no input can run does not count: code that always ends in an error (a failed assertion),
since a model that raises one is not traced, and unreachable code, also that of branches that go one
way in every run (`settled.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.errors import Place
from orchestrator.models.bytecode import Function
from orchestrator.models.listing import Listing
from orchestrator.models.methods import is_bundling
from orchestrator.values.coverage import (
    FunctionCoverage,
    MethodCoverage,
    Ranges,
    numbers_in,
    ranges_of,
    ranges_text,
    sum_of,
)

# The digits of native/coverage/coverage.h.
_RAN: Final = 1
_WENT_ON: Final = 2
_JUMPED: Final = 4
_DIGITS: Final = frozenset("01234567")

_RAISING: Final = "prim::RaiseException"
# Of a function, in a text.
_MOST_OPERATORS: Final = 4


class MisfitCoverageError(Exception):
    """A recording does not match this model's instructions."""


@dataclass(frozen=True)
class Counted:
    """Instructions and branches of a function that count.

    instructions  numbers of the instructions that can run
    held, failed  numbers of the branches whose condition can hold, or fail
    """

    instructions: frozenset[int]
    held: frozenset[int]
    failed: frozenset[int]


def counted(listing: Listing) -> Counted:
    """The instructions and ways of a function that inputs can run."""
    after = _all_after(listing)
    reached = _reached(after, _doomed(listing, after))
    branches = [at for at in reached if listing.names[at] in ("JF", "LOOP")]
    return Counted(
        reached,
        frozenset(at for at in branches if at + 1 in reached and at + 1 in after[at]),
        frozenset(
            at for at in branches if listing.jumps[at] in reached and listing.jumps[at] in after[at]
        ),
    )


def reachable(listing: Listing) -> frozenset[int]:
    """The instructions of a function that some input may reach, also those that end in an error."""
    return _reached(_all_after(listing), frozenset())


def _all_after(listing: Listing) -> list[tuple[int, ...]]:
    return [tuple(_after(listing, at)) for at in range(len(listing.names))]


def _reached(after: Sequence[Sequence[int]], doomed: frozenset[int]) -> frozenset[int]:
    reached: set[int] = set()
    left = [0] if after else []
    while left:
        at = left.pop()
        if at not in reached and at not in doomed:
            reached.add(at)
            left += after[at]
    return frozenset(reached)


def _raises(listing: Listing, at: int) -> bool:
    return listing.names[at] == "RAISE_EXCEPTION" or listing.operators.get(at) == _RAISING


def _after(listing: Listing, at: int) -> Iterator[int]:
    """The instructions that may follow one."""
    name, end = listing.names[at], len(listing.names)
    if name == "RET" or _raises(listing, at):
        return
    way = listing.settled.get(at)
    if name != "JMP" and at + 1 < end and way is not False:
        yield at + 1
    if at in listing.jumps and 0 <= listing.jumps[at] < end and way is not True:
        yield listing.jumps[at]


def _doomed(listing: Listing, after: Sequence[Sequence[int]]) -> frozenset[int]:
    """The instructions from which every way leads to an error."""
    before: dict[int, list[int]] = {}
    ways = [len(set(targets)) for targets in after]
    for at, targets in enumerate(after):
        for target in set(targets):
            before.setdefault(target, []).append(at)
    doomed = {at for at in range(len(after)) if _raises(listing, at)}
    left = list(doomed)
    while left:
        for at in before.get(left.pop(), ()):
            ways[at] -= 1
            if not ways[at] and at not in doomed:
                doomed.add(at)
                left.append(at)
    return frozenset(doomed)


def own_listings(listings: Iterable[Listing]) -> tuple[Listing, ...]:
    """The functions of the model itself, without those that bundling of inputs added."""
    return tuple(one for one in listings if not is_bundling(one.method))


def coverage_of(recorded: object, listings: Sequence[Listing]) -> Mapping[str, FunctionCoverage]:
    """Function -> its coverage, from what the tracer recorded; functions sorted by name.

    recorded: the tracer's `coverage` (native/coverage/coverage.h). Raises MisfitCoverageError: the
    tracer runs the model, which may make it write anything.
    """
    if not isinstance(recorded, list) or len(recorded) != len(listings):
        raise MisfitCoverageError("it is not of the functions of the model")
    found = {}
    for text, listing in zip(recorded, listings, strict=True):
        if not isinstance(text, str) or len(text) != len(listing.names) or {*text} - _DIGITS:
            raise MisfitCoverageError("it is not of the instructions of a function")
        reached = reachable(listing)
        if any(int(digit) & _RAN and at not in reached for at, digit in enumerate(text)):
            raise MisfitCoverageError("an instruction ran that was taken for unreachable")
        if not is_bundling(listing.method):
            found[listing.qualified] = _coverage(text, listing)
    return {name: found[name] for name in sorted(found)}


def _coverage(text: str, listing: Listing) -> FunctionCoverage:
    of = counted(listing)

    def without(numbers: Iterable[int], bit: int) -> Ranges:
        return ranges_of(at for at in numbers if not int(text[at]) & bit)

    return FunctionCoverage(
        instructions=len(of.instructions),
        ways=len(of.held) + len(of.failed),
        unrun=without(of.instructions, _RAN),
        never_held=without(of.held, _WENT_ON),
        never_failed=without(of.failed, _JUMPED),
    )


def methods_covered(
    coverage: Mapping[str, FunctionCoverage], listings: Sequence[Listing]
) -> tuple[MethodCoverage, ...]:
    """A row for each function, in the order of the file; `listings` may have none of them."""
    by_name = {one.qualified: one for one in own_listings(listings)}
    ordered = [name for name in by_name if name in coverage]
    ordered += [name for name in coverage if name not in by_name]
    short = [name.rpartition(".")[2] for name in ordered]
    return tuple(
        MethodCoverage(
            method=last if short.count(last) == 1 else name.removeprefix("__torch__."),
            sum=sum_of(coverage[name]),
            missing=tuple(_missing(coverage[name], by_name.get(name))),
        )
        for name, last in zip(ordered, short, strict=True)
    )


def unrun_methods(
    functions: Iterable[Function], coverage: Mapping[str, FunctionCoverage] | None
) -> frozenset[str]:
    """The methods that are looked up by name on an object, and that no input ran, as far as is
    known."""
    run, every = set[str](), set[str]()
    for function in functions:
        covered = None if coverage is None else coverage.get(function.qualified)
        unrun = None if covered is None else frozenset(numbers_in(covered.unrun))
        every.update(name for _, name in function.methods)
        if unrun is not None:
            run.update(name for at, name in function.methods if at not in unrun)
    return frozenset(every - run)


def _missing(coverage: FunctionCoverage, listing: Listing | None) -> Iterator[str]:
    """Yield the code that no input ran: lines, else instructions, with the operators there; then
    branches."""
    lines = tuple(_missing_lines(coverage, listing))
    unrun = frozenset(numbers_in(coverage.unrun))
    if lines:
        yield from lines
    elif coverage.unrun:
        called = {} if listing is None else listing.operators
        names = list(dict.fromkeys(called[at] for at in sorted(unrun) if at in called))
        more = len(names) - _MOST_OPERATORS
        listed = ", ".join(names[:_MOST_OPERATORS]) + (f" and {more} more" if more > 0 else "")
        numbers = ranges_text(coverage.unrun).replace(" ", ", ")
        yield f"instructions {numbers}" + (f" ({listed})" if listed else "")
    for branches, ways in ((coverage.never_held, _HELD), (coverage.never_failed, _FAILED)):
        for at in numbers_in(branches):
            if at not in unrun:
                name = "JF" if listing is None else listing.names[at]
                place = None if listing is None else listing.places.get(at)
                where = f"instruction {at}" if place is None else _line(place)
                yield f"{_KIND[name]} at {where} {ways[name]}"


_KIND: Final = {"JF": "if", "LOOP": "loop"}
_HELD: Final = {"JF": "never true", "LOOP": "never entered"}
_FAILED: Final = {"JF": "never false", "LOOP": "never ended"}


def _line(place: Place) -> str:
    return f"{_file(place)}:{place.line}"


def _file(place: Place) -> str:
    return place.file.replace("\\", "/").rpartition("/")[2]


def _missing_lines(coverage: FunctionCoverage, listing: Listing | None) -> Iterator[str]:
    """`net.py:12-14, 20`: the lines of what never ran; nothing is between the lines of a range."""
    if listing is None or not listing.places:
        return
    of = counted(listing).instructions
    unrun = frozenset(numbers_in(coverage.unrun))
    every: dict[str, set[int]] = {}
    missing: dict[str, set[int]] = {}
    for at, place in listing.places.items():
        if at in of:
            every.setdefault(_file(place), set()).add(place.line)
            if at in unrun:
                missing.setdefault(_file(place), set()).add(place.line)
    for file in sorted(missing):
        lines = sorted(every[file])
        numbers = {line: number for number, line in enumerate(lines)}
        ranges = ranges_of(numbers[line] for line in missing[file])
        shown = [(lines[first], lines[last]) for first, last in ranges]
        yield f"{file}:" + ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in shown)


def sites_unrun(
    coverage: Mapping[str, FunctionCoverage], listings: Sequence[Listing], operator: str
) -> tuple[str, ...]:
    """The calls of an operator that no input ran: `forward at net.py:13`, or its instruction."""
    unrun = {name: frozenset(numbers_in(one.unrun)) for name, one in coverage.items()}
    return tuple(
        dict.fromkeys(
            site(listing, at)
            for listing, at, name in _calls(listings)
            if name == operator and at in unrun.get(listing.qualified, ())
        )
    )


def unreachable_operators(listings: Sequence[Listing]) -> dict[str, tuple[str, ...]]:
    """Operators that only calls name which no input can reach -> those calls, in the order of the
    file."""
    can_run, found = set[str](), dict[str, dict[str, None]]()
    for listing in listings:
        reached = reachable(listing)
        for at, name in listing.operators.items():
            if at in reached:
                can_run.add(name)
            else:
                found.setdefault(name, {})[site(listing, at)] = None
    return {name: tuple(found[name]) for name in sorted(found.keys() - can_run)}


def sites_of(listings: Sequence[Listing]) -> dict[str, tuple[str, ...]]:
    """Operator -> its calls, in the order of the file: `forward at net.py:13`, or its
    instruction."""
    found = dict[str, dict[str, None]]()
    for listing, at, name in _calls(listings):
        found.setdefault(name, {})[site(listing, at)] = None
    return {name: tuple(sites) for name, sites in found.items()}


def called_at(listings: Sequence[Listing], function: int, at: int, operator: str) -> str:
    """The place of an instruction, told by its function's number in the file, that calls an
    operator. A layer that was made of several instructions (native/kernels/rewrite.cpp) is called
    at its last one: its own is the nearest before that names the operator."""
    if not 0 <= function < len(listings):
        return f"instruction {at}"
    listing = listings[function]
    own = (n for n in range(at, -1, -1) if listing.operators.get(n) == operator)
    return site(listing, next(own, at))


def _calls(listings: Sequence[Listing]) -> Iterator[tuple[Listing, int, str]]:
    for listing in own_listings(listings):
        for at, name in listing.operators.items():
            yield listing, at, name


def site(listing: Listing, at: int) -> str:
    """The place of an instruction: `forward at net.py:13`, or its number."""
    place = listing.places.get(at)
    return f"{listing.method} at {f'instruction {at}' if place is None else _line(place)}"
