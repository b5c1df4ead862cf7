"""Keys of caches by identity, for values that take long to compare."""

from __future__ import annotations


class Same:
    """Equal to another key of the same object, whatever its value. Holds the object, so that no
    other takes its place in memory, and with it its identity, while the key is in use."""

    __slots__ = ("_one",)

    def __init__(self, one: object) -> None:
        self._one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._one is other._one

    def __hash__(self) -> int:
        return id(self._one)
