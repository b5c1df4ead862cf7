"""Two attributions of one library, compared: what grew, by what asks for it, where it is, and what
it was made with. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.size.attribution import Attribution

# Names beside operators' and units'.
ANY = "(in any library)"
SEVERAL = "(for several operators)"


@dataclass(frozen=True)
class Change:
    """Bytes of a named part of a library, before and after."""

    name: str
    before: int
    after: int

    @property
    def difference(self) -> int:
        """Bytes more."""
        return self.after - self.before


@dataclass(frozen=True)
class Comparison:
    """A library before and after; None where there is none."""

    before: Attribution | None
    after: Attribution | None

    @property
    def _sides(self) -> tuple[Attribution | None, Attribution | None]:
        return self.before, self.after

    @property
    def is_total(self) -> bool:
        """True if only the sizes can be compared: of a side no more is known."""
        return any(one is not None and one.is_total for one in self._sides)

    @property
    def label(self) -> str:
        """The variant's."""
        one = self.after or self.before
        assert one is not None
        return f"//apps/{one.app}:{one.abi}"

    @property
    def size(self) -> Change:
        """The whole."""
        return Change(self.label, _size(self.before), _size(self.after))

    @property
    def packed(self) -> Change | None:
        """The same compressed; None where that is not known of both."""
        before, after = (0 if one is None else one.packed for one in self._sides)
        return None if before is None or after is None else Change(self.label, before, after)

    def operators(self) -> tuple[Change, ...]:
        """Changes of the bytes that each operator or class has for itself alone, of those that
        several ask for, and of the rest: the differences add up to the library's. Largest first."""
        return () if self.is_total else _changes(*map(_by_operator, self._sides))

    def units(self) -> tuple[Change, ...]:
        """Changes of each unit's bytes."""
        if self.is_total:
            return ()
        return _changes(*(one.by_unit() if one else {} for one in self._sides))

    def models(self) -> tuple[Change, ...]:
        """Changes of the bytes that models ask for, each alone or together."""
        return () if self.is_total else _changes(*map(_by_models, self._sides))

    def made(self) -> dict[str, tuple[str, str]]:
        """Settings of the build that differ, by name: before and after."""
        if self.before is None or self.after is None:
            return {}
        before, after = self.before.made, self.after.made
        known = {*before} & {*after} if self.is_total else {*before, *after}
        return {
            name: (before.get(name, ""), after.get(name, ""))
            for name in sorted(known)
            if before.get(name, "") != after.get(name, "")
        }

    def asked(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Operators and classes that models ask for after and not before, and before and not
        after."""
        if self.before is None or self.after is None or self.is_total:
            return (), ()
        before, after = self.before.asked.keys(), self.after.asked.keys()
        return tuple(sorted(after - before)), tuple(sorted(before - after))

    def sites(self, operator: str) -> str:
        """Models that ask for an operator, each with its first site: `detector: forward at
        detector.py:41`."""
        for one in (self.after, self.before):
            if one is not None and operator in one.asked:
                sites = one.asked[operator].sites
                return ", ".join(f"{m}: {at[0]}" if at else m for m, at in sites.items())
        return ""


def compared(
    before: Mapping[tuple[str, str], Attribution], after: Mapping[tuple[str, str], Attribution]
) -> tuple[Comparison, ...]:
    """Each library of either, by app and ABI, sorted."""
    keys = sorted({*before, *after})
    return tuple(Comparison(before.get(key), after.get(key)) for key in keys)


def grown(found: Iterable[Comparison], bytes_more: int) -> tuple[Comparison, ...]:
    """Comparisons of libraries that existed before and have grown by more than `bytes_more`
    bytes."""
    return tuple(
        one for one in found if one.before and one.after and one.size.difference > bytes_more
    )


def _size(one: Attribution | None) -> int:
    return 0 if one is None else one.size


def _by_operator(one: Attribution | None) -> dict[str, int]:
    return {} if one is None else {ANY: one.base, SEVERAL: one.several, **one.alone()}


def _by_models(one: Attribution | None) -> dict[str, int]:
    return {} if one is None else {", ".join(w) or ANY: n for w, n in one.by_models().items()}


def _changes(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Change, ...]:
    names = {*before, *after}
    found = [Change(name, before.get(name, 0), after.get(name, 0)) for name in names]
    different = (one for one in found if one.difference)
    return tuple(sorted(different, key=lambda one: (-abs(one.difference), one.name)))
