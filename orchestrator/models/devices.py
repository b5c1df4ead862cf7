"""Devices that a model names and no library has: `cuda:0` of the machine that exported it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from orchestrator.errors import Place
from orchestrator.models.info import ModelInfo
from orchestrator.models.listing import Listing


def foreign_devices(info: ModelInfo, listings: Iterable[Listing]) -> tuple[str, ...]:
    """`cuda:0 in forward at net.py:12`, of each first; also where no input leads to it.

    listings  of the same file: the lines, as far as it has them
    """
    places = {one.qualified: one.places for one in listings}
    return tuple(dict.fromkeys(_named(info, places)))


def _named(info: ModelInfo, places: Mapping[str, Mapping[int, Place]]) -> Iterator[str]:
    for function in info.functions:
        seen = set[str]()
        for number, device in function.devices:
            if _is_foreign(device) and device not in seen:
                seen.add(device)
                place = places.get(function.qualified, {}).get(number)
                where = f" at {place.file}:{place.line}" if place else ""
                yield f"{device} in {function.name}{where}"
    for device in info.held_devices:
        if _is_foreign(device):
            yield f"{device} in an attribute"


def _is_foreign(device: str) -> bool:
    return device.partition(":")[0] != "cpu"
