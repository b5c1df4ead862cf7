"""A library's bytes by who asks for them, where they are from, and what they are: a value, small
enough to keep beside the library.

What operators or classes refer to is theirs alone, or of several. The rest is there whatever is
asked for. On disk: JSON, sorted, so that equal libraries give equal bytes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_args

from orchestrator.binary.elf_layout import Kind
from orchestrator.size.dtypes import ANY, dtypes_of
from orchestrator.size.graph import LinkedGraph

T = TypeVar("T")
_FORMAT: Final = 2
# Without dtypes, as histories have it.
_FIRST_FORMAT: Final = 1
# The unit of a library of which only the size is known.
UNATTRIBUTED: Final = "(not attributed)"


@dataclass(frozen=True)
class Share:
    """Bytes of one kind, of one unit, that these ask for, each for itself; nobody: they are there
    in any case.

    dtype  that they are there for; ANY and SEVERAL of `size.dtypes` stand for none and for more
    """

    asked: tuple[str, ...]
    unit: str
    kind: Kind
    bytes: int
    dtype: str = ANY


@dataclass(frozen=True)
class Asked:
    """An operator or a class that models ask for.

    sites  model -> where its source does: `forward at net.py:13`; none where that is not known
    """

    sites: Mapping[str, tuple[str, ...]]

    @property
    def models(self) -> tuple[str, ...]:
        """The models."""
        return tuple(self.sites)


@dataclass(frozen=True)
class Attribution:
    """All bytes of a library.

    library the digest of the file; "" where it is not known
    packed  its size compressed (zstd, level 19); None where what an app links of it is a part
    made    what it was made with, by name: compiler, flags, options
    asked   what models ask for, by name
    shares  sorted; their sum is `size`
    """

    app: str
    abi: str
    library: str
    size: int
    packed: int | None
    made: Mapping[str, str]
    asked: Mapping[str, Asked]
    shares: tuple[Share, ...]

    @property
    def is_total(self) -> bool:
        """True if only the size is known, and not what it is of."""
        return any(share.unit == UNATTRIBUTED for share in self.shares)

    def alone(self) -> dict[str, int]:
        """Bytes that only one operator or class asks for, by its name, largest first: the library
        would be smaller by these without it."""
        found = Counter[str](dict.fromkeys(self.asked, 0))
        for share in self.shares:
            if len(share.asked) == 1:
                found[share.asked[0]] += share.bytes
        return _largest(found)

    def shared(self) -> dict[str, int]:
        """Bytes that an operator or class asks for together with others, by its name."""
        found = Counter[str](dict.fromkeys(self.asked, 0))
        for share in self.shares:
            if len(share.asked) > 1:
                for name in share.asked:
                    found[name] += share.bytes
        return dict(found)

    @property
    def base(self) -> int:
        """Bytes that are in the library whatever is asked for."""
        return sum(share.bytes for share in self.shares if not share.asked)

    @property
    def several(self) -> int:
        """Bytes that several operators or classes ask for."""
        return sum(share.bytes for share in self.shares if len(share.asked) > 1)

    def models_of(self, share: Share) -> tuple[str, ...]:
        """The models that ask for a share."""
        return tuple(sorted({model for name in share.asked for model in self.asked[name].sites}))

    def by_models(self) -> dict[tuple[str, ...], int]:
        """Bytes by the models that ask for them, each alone or together, largest first; no models:
        the base."""
        found = Counter[tuple[str, ...]]()
        for share in self.shares:
            found[self.models_of(share)] += share.bytes
        return _largest(found)

    def by_unit(self) -> dict[str, int]:
        """Bytes of each unit, largest first."""
        found = Counter[str]()
        for share in self.shares:
            found[share.unit] += share.bytes
        return _largest(found)

    def by_dtype(self) -> dict[str, int]:
        """Bytes by the dtype that they are there for, largest first."""
        found = Counter[str]()
        for share in self.shares:
            found[share.dtype] += share.bytes
        return _largest(found)

    def dtypes_alone(self) -> dict[str, dict[str, int]]:
        """The bytes of `alone`, of each operator and class by dtype, largest first."""
        found = {name: Counter[str]() for name in self.asked}
        for share in self.shares:
            if len(share.asked) == 1:
                found[share.asked[0]][share.dtype] += share.bytes
        return {name: _largest(of) for name, of in found.items()}

    def text(self) -> str:
        """The file's text."""
        claims = sorted({share.asked for share in self.shares})
        units = sorted({share.unit for share in self.shares})
        dtypes = sorted({share.dtype for share in self.shares})
        kinds = get_args(Kind)
        names = list(self.asked)
        value = {
            "format": _FORMAT,
            "app": self.app,
            "abi": self.abi,
            "library": self.library,
            "size": self.size,
            "packed": self.packed,
            "made": dict(sorted(self.made.items())),
            "asked": {
                name: {model: list(sites) for model, sites in one.sites.items()}
                for name, one in self.asked.items()
            },
            "claims": [[names.index(name) for name in claim] for claim in claims],
            "units": units,
            "dtypes": dtypes,
            "shares": [
                [
                    claims.index(s.asked),
                    units.index(s.unit),
                    kinds.index(s.kind),
                    s.bytes,
                    dtypes.index(s.dtype),
                ]
                for s in self.shares
            ],
        }
        lines = (
            f"{json.dumps(key)}:{json.dumps(value[key], separators=(',', ':'))}" for key in value
        )
        return "{" + ",\n".join(lines) + "}\n"

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> Attribution:
        """The value of a file's JSON. Raises ValueError where it is another's."""
        try:
            return cls._parsed(value)
        except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as cause:
            raise ValueError("no sizes of a library") from cause

    @classmethod
    def _parsed(cls, value: Mapping[str, Any]) -> Attribution:
        if value["format"] not in (_FIRST_FORMAT, _FORMAT):
            raise ValueError(f"format {value['format']!r}, where {_FORMAT} is known")
        dtypes = [ANY] if value["format"] == _FIRST_FORMAT else list(map(str, value["dtypes"]))
        names = list(value["asked"])
        claims = [tuple(str(names[number]) for number in claim) for claim in value["claims"]]
        kinds = get_args(Kind)
        if any(number < 0 for one in (*value["claims"], *value["shares"]) for number in one):
            raise ValueError("it has negative numbers")
        found = cls(
            app=str(value["app"]),
            abi=str(value["abi"]),
            library=str(value["library"]),
            size=int(value["size"]),
            packed=None if value["packed"] is None else int(value["packed"]),
            made={str(name): str(made) for name, made in value["made"].items()},
            asked={
                str(name): Asked({str(m): tuple(map(str, sites)) for m, sites in by.items()})
                for name, by in value["asked"].items()
            },
            shares=tuple(
                Share(
                    claims[claim],
                    str(value["units"][unit]),
                    kinds[kind],
                    int(amount),
                    dtypes[dtype[0] if dtype else 0],
                )
                for claim, unit, kind, amount, *dtype in value["shares"]
            ),
        )
        if sum(share.bytes for share in found.shares) != found.size:
            raise ValueError("its shares do not add up to its size")
        return found


def _largest(found: Mapping[T, int]) -> dict[T, int]:
    return dict(sorted(found.items(), key=lambda one: (-one[1], str(one[0]))))


def claims(graph: LinkedGraph) -> dict[int, tuple[str, ...]]:
    """Node -> who asks for it; without those that are there in any case."""
    base = graph.reached(graph.base, graph.selected)
    found = defaultdict[int, list[str]](list)
    for name in sorted(graph.asked):
        for node in graph.reached([graph.asked[name]]):
            if node not in base:
                found[node].append(name)
    return {node: tuple(names) for node, names in found.items()}


def shares_of(graph: LinkedGraph) -> tuple[Share, ...]:
    """The shares of a library, sorted."""
    of, dtypes = claims(graph), dtypes_of(graph)
    found = Counter[tuple[tuple[str, ...], str, Kind, str]]()
    for number, node in enumerate(graph.nodes):
        for kind, amount in node.bytes.items():
            found[of.get(number, ()), node.unit, kind, dtypes.get(number, ANY)] += amount
    _share_copies(graph, of, found)
    return tuple(
        Share(asked, unit, kind, amount, dtype)
        for (asked, unit, kind, dtype), amount in sorted(found.items())
        if amount
    )


def _share_copies(
    graph: LinkedGraph,
    of: Mapping[int, tuple[str, ...]],
    found: Counter[tuple[tuple[str, ...], str, Kind, str]],
) -> None:
    """Account for functions of which another object's copy is linked without an operator: move to
    the operator the bytes by which that copy is smaller; from the code that is its alone to those
    who ask for the function those by which it is larger."""
    gone = defaultdict[tuple[str, ...], set[int]](set)
    for node, asked in of.items():
        if len(asked) == 1:
            gone[asked].add(node)
    for alone, nodes in sorted(gone.items()):
        for node, amount in graph.replaced(nodes):
            others, unit = of.get(node, ()), graph.nodes[node].unit
            giver, taker, whose = (others, alone, unit) if amount > 0 else (alone, others, None)
            _move(found, giver, taker, whose, abs(amount))


def _move(
    found: Counter[tuple[tuple[str, ...], str, Kind, str]],
    giver: tuple[str, ...],
    taker: tuple[str, ...],
    unit: str | None,
    amount: int,
) -> None:
    """Move up to `amount` bytes of code from the shares of one to those of another, of a unit or of
    any, the largest first."""
    its = [one for one in found if one[0] == giver and one[2] == "code" and unit in (None, one[1])]
    for share in sorted(its, key=lambda one: (-found[one], one)):
        part = min(amount, found[share])
        found[share] -= part
        found[(taker, *share[1:])] += part
        amount -= part


def exclusive(graph: LinkedGraph, nodes: Collection[int]) -> int:
    """The bytes that are there for these nodes alone: without them nothing refers to them."""
    left = graph.reached(graph.base, graph.selected | {*nodes})
    left |= graph.reached(graph.asked.values(), nodes)
    return graph.bytes(range(len(graph.nodes))) - graph.bytes(left)
