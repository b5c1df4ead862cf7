"""A model's pickles without the inputs that `torch/utils/bundled_inputs.py` put into it.

Contract: pure; what stays has the same bytes, but for texts that a later opcode takes from one that
goes. Bundling appends its attributes to the module: they are the end of a list, so that those to
which code refers by number keep theirs. Where they are no end, as in a file that was changed since,
None says so. Its methods may stand anywhere: code refers to others by name.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.models.methods import is_bundling

_ATTRIBUTE: Final = "_bundled_inputs_deflated_"


@dataclass(frozen=True)
class Cut:
    """A pickle that was cut. kept, gone: keys of storages that it names, and that only the rest
    named."""

    data: bytes
    kept: frozenset[str]
    gone: frozenset[str]


def code_without_inputs(pickle: bytes) -> Cut | None:
    """`bytecode.pkl`, without the methods that bundling adds; None where there are none."""
    read = _read(pickle)
    if read is None or not read.outermost or read.outermost[-1].opcode != "TUPLE":
        return None
    items = read.outermost[-1]
    ends = (*items.starts[1:], items.at)
    ranges = [
        (start, end)
        for start, end in zip(items.starts, ends, strict=True)
        if is_bundling(read.texts_in.get(start, "").rpartition(".")[2])
    ]
    return _cut(pickle, read, ranges) if ranges else None


def data_without_inputs(pickle: bytes) -> Cut | None:
    """`data.pkl`, without the attributes that hold inputs."""
    read = _read(pickle)
    if read is None or not read.outermost or read.outermost[-1].opcode != "SETITEMS":
        return None
    attributes = read.outermost[-1]
    keys = attributes.starts[::2]
    at = _end(keys, lambda key: read.text_at.get(key, "").startswith(_ATTRIBUTE))
    if at is None:
        return None
    return _cut(pickle, read, [(at, attributes.at)])


def _cut(pickle: bytes, read: _Read, ranges: Sequence[tuple[int, int]]) -> Cut | None:
    """Without these ranges; None where what stays takes more than a text from them."""

    def goes(at: int) -> bool:
        return any(start <= at < end for start, end in ranges)

    changes = [(start, end, b"") for start, end in ranges]
    for at, end, taken in read.gets:
        if goes(taken) and not goes(at):
            if taken not in read.text_at:
                return None
            text = read.text_at[taken].encode("utf-8", "surrogatepass")
            changes.append((at, end, b"X" + len(text).to_bytes(4, "little") + text))
    made, done = bytearray(), 0
    for start, end, new in sorted(changes):
        made += pickle[done:start] + new
        done = end
    kept = frozenset(key for where, key in read.storages if not goes(where))
    gone = frozenset(key for _, key in read.storages) - kept
    return Cut(bytes(made + pickle[done:]), kept, gone)


def _end(starts: Sequence[int], added: Callable[[int], bool]) -> int | None:
    """Return the place where the added items begin; None if another item follows them."""
    first = next((number for number, start in enumerate(starts) if added(start)), None)
    if first is None or not all(map(added, starts[first:])):
        return None
    return starts[first]


@dataclass(frozen=True)
class _Items:
    """Items that an opcode takes from the stack, by the place where each begins; `at`: the opcode's
    place."""

    opcode: str
    at: int
    starts: tuple[int, ...]


@dataclass
class _Read:
    """A pickle by its places.

    outermost  opcodes that take all items since a mark with no other mark below
    text_at    place -> the text that is pushed there
    texts_in   place of a tuple -> its first item, a text
    storages   place of a tensor's storage, and its key
    gets       place and end of an opcode that takes a value again, and that value's place
    """

    outermost: list[_Items] = field(default_factory=list)
    text_at: dict[int, str] = field(default_factory=dict)
    texts_in: dict[int, str] = field(default_factory=dict)
    storages: list[tuple[int, str]] = field(default_factory=list)
    gets: list[tuple[int, int, int]] = field(default_factory=list)


def _read(pickle: bytes) -> _Read | None:
    """None where an opcode is not understood."""
    read, stack, memo = _Read(), list[int](), dict[int, int]()
    marks = list[int]()
    before = 0
    for opcode, argument, at in _opcodes(pickle):
        name = opcode.name
        if name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
            continue
        if name == "MARK":
            marks.append(len(stack))
            stack.append(at)
            continue
        taken = list(opcode.stack_before)
        if pickletools.markobject in taken:
            below = marks.pop()
            items = stack[below + 1 :]
            if not marks:
                read.outermost.append(_Items(name, at, tuple(items)))
            start = stack[below]
            del stack[below:]
            taken = taken[: taken.index(pickletools.markobject)]
        else:
            items, start = stack[len(stack) - len(taken) :], at
        if taken:
            start = stack[len(stack) - len(taken)]
            del stack[len(stack) - len(taken) :]
        if name == "BINUNICODE":
            read.text_at[at] = argument
        elif name in ("BINGET", "LONG_BINGET"):
            known = memo[argument]
            read.gets.append((at, at + (2 if name == "BINGET" else 5), known))
            if known in read.text_at:
                read.text_at[at] = read.text_at[known]
        elif name.startswith("TUPLE") and items:
            if items[0] in read.text_at:
                read.texts_in[start] = read.text_at[items[0]]
            before = items[2] if len(items) > 2 else -1
        elif name == "BINPERSID":
            if before not in read.text_at:
                return None
            read.storages.append((start, read.text_at[before]))
        stack += [start] * len(opcode.stack_after)
    return read


def _opcodes(pickle: bytes) -> Iterator[tuple[Any, Any, int]]:
    for opcode, argument, at in pickletools.genops(pickle):
        yield opcode, argument, at or 0
