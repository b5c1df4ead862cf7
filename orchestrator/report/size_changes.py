"""The reports of libraries that are compared: for a terminal, as JSON, and as a comment on a pull
request.

The comment is Markdown as GitHub and GitLab show it, shorter than what either takes. Libraries that
grew most come first, and those for which there is no room are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from orchestrator.errors import visible
from orchestrator.size.attribution import Attribution
from orchestrator.size.changes import ANY, SEVERAL, Change, Comparison

# GitHub takes 65,536 characters in a comment.
MOST_CHARACTERS: Final = 60_000
_ROOM_FOR_THE_END: Final = 2_500
_CONTRIBUTORS: Final = 10
_CAUSES: Final = 5
_UNITS: Final = 3
_NAMES: Final = 10
_TOTAL: Final = "what its bytes are of is not known of both: run `./orchestrate size` after a build"


def text(found: Sequence[Comparison], top: int) -> str:
    """A paragraph for each library that changed, and a line for the others."""
    lines = list[str]()
    for one in _changed(found):
        lines.append(f"{one.label}: {_sizes(one.size)}{_packed(one)}")
        lines += [f"  {made}" for made in _made(one)]
        lines += [f"  {heading}: {', '.join(names)}" for heading, names in _asked(one)]
        if one.is_total:
            lines.append(f"  {_TOTAL}")
        for heading, changes in _views(one):
            if changes:
                lines.append(f"  by {heading}:")
            lines += [f"    {_cause(one, change)}" for change in changes[:top]]
            if len(changes) > top:
                rest = sum(change.difference for change in changes[top:])
                lines.append(f"    {rest:+,}: {len(changes) - top} more")
    same = len(found) - len(_changed(found))
    lines.append(f"{same} {'library is' if same == 1 else 'libraries are'} the same")
    return "".join(f"{visible(line)}\n" for line in lines)


def budget_details(found: Attribution, before: Attribution | None) -> str:
    """Details of a library that is over its budget: the largest contributors, and the growth since
    the last recorded sizes."""
    one = Comparison(before, found)
    largest = list(found.alone().items())[:_CONTRIBUTORS]
    lines = ["what would be gone without it:"]
    lines += [f"  {n:,}: {name}, {one.sites(name)}".rstrip(", ") for name, n in largest if n]
    if before is not None:
        lines.append(f"since sizes were last kept: {_sizes(one.size)}")
        lines += [f"  {made}" for made in _made(one)]
        lines += [f"  {_cause(one, change)}" for change in one.operators()[:_CONTRIBUTORS]]
    return "\n".join(lines)


def as_json(found: Sequence[Comparison], grown: Sequence[Comparison]) -> list[dict[str, Any]]:
    """See `schemas/output.schema.json`. grown: those that grew by more than they may."""
    return [
        {
            "label": one.label,
            "before_bytes": one.before and one.before.size,
            "after_bytes": one.after and one.after.size,
            "before_compressed_bytes": one.before and one.before.packed,
            "after_compressed_bytes": one.after and one.after.packed,
            "grew_too_much": one in grown,
            "made": {name: list(pair) for name, pair in one.made().items()},
            **{
                f"{heading}s": [
                    {
                        "name": c.name,
                        "before": c.before,
                        "after": c.after,
                        "sites": one.sites(c.name),
                    }
                    for c in changes
                ]
                for heading, changes in _views(one)
            },
        }
        for one in found
    ]


def markdown(
    found: Sequence[Comparison], growth: int | None, verified: Mapping[str, str] | None = None
) -> str:
    """A comment: a table, and below it why.

    growth    bytes that a library may grow by
    verified  label -> how the library was verified, where that is known
    """
    changed = _changed(found)
    rows = [_row(one, growth) for one in changed]
    whys = [_why(one) for one in changed]
    head = _head(found, changed)
    room = MOST_CHARACTERS - len(head) - _ROOM_FOR_THE_END
    shown_rows = _fitting(rows, room * 2 // 3)
    room -= sum(map(len, shown_rows))
    shown_whys = _fitting(whys[: len(shown_rows)], room)
    parts = [head, *shown_rows]
    if len(shown_rows) < len(rows):
        parts.append(f"\n{len(rows) - len(shown_rows)} more that changed less are left out.\n")
    if verified and changed:
        parts += [f"\n{line}\n" for line in _verified(verified)]
    if shown_whys:
        parts += ["\n### Why\n", *shown_whys]
    if len(shown_whys) < len(shown_rows):
        parts.append(
            f"\nOf {len(shown_rows) - len(shown_whys)} more: `orchestrate size OLD NEW`.\n"
        )
    return "".join(parts)


def _verified(verified: Mapping[str, str]) -> Iterator[str]:
    """Count the libraries by how they were verified, and name a few of those that did not run."""
    ran = sum(said == "ok" for said in verified.values())
    many = "1 library ran in it" if ran == 1 else f"{ran} libraries ran in them"
    yield f"Verified: the models of {many} here."
    others = sorted(label for label, said in verified.items() if said != "ok")
    if others:
        more = f" and {len(others) - _NAMES} more" if len(others) > _NAMES else ""
        named = ", ".join(
            f"{_code(label.removeprefix('//apps/'))} ({visible(verified[label])})"
            for label in others[:_NAMES]
        )
        yield f"Of the others: {named}{more}."


def _head(found: Sequence[Comparison], changed: Sequence[Comparison]) -> str:
    total = sum(one.size.difference for one in found)
    if not changed:
        same = "1 library is" if len(found) == 1 else f"All {len(found)} libraries are"
        return f"## Library sizes\n\n{same} as large as before.\n"
    return (
        "## Library sizes\n\n"
        f"{len(changed)} of {len(found)} libraries changed, {total:+,} bytes in all.\n\n"
        "| library | before | after | difference | compressed | |\n"
        "|---|---:|---:|---:|---:|---|\n"
    )


def _row(one: Comparison, growth: int | None) -> str:
    size, packed = one.size, one.packed
    before = "new" if one.before is None else f"{size.before:,}"
    after = "gone" if one.after is None else f"{size.after:,}"
    compressed = "" if packed is None else f"{packed.difference:+,}"
    verdict = _verdict(one, growth)
    name = _code(one.label.removeprefix("//apps/"))
    return f"| {name} | {before} | {after} | {_difference(size)} | {compressed} | {verdict} |\n"


def _verdict(one: Comparison, growth: int | None) -> str:
    if one.after is None or one.before is None:
        return ""
    if growth is not None and one.size.difference > growth:
        return f":x: more than {growth:,} bytes"
    return ":white_check_mark:" if growth is not None else ""


def _why(one: Comparison) -> str:
    lines = [f"\n{_code(one.label)}\n"]
    lines += [f"- {name}: {_code(change)}\n" for name, change in _settings(one)]
    for heading, names in _asked(one):
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        lines.append(f"- {heading}: {', '.join(map(_code, names[:_NAMES]))}{more}\n")
    if one.is_total:
        lines.append(f"- {_TOTAL}\n")
    lines += [f"- {_told(one, change)}\n" for change in one.operators()[:_CAUSES]]
    units = [f"{unit.difference:+,} {_code(unit.name)}" for unit in one.units()[:_UNITS]]
    if units:
        lines.append(f"- most of it in {', '.join(units)}\n")
    return "".join(lines)


def _changed(found: Sequence[Comparison]) -> list[Comparison]:
    """Libraries that differ, largest growth first."""
    different = (
        one
        for one in found
        if one.size.difference or one.operators() or one.made() or any(one.asked())
    )
    return sorted(different, key=lambda one: (-one.size.difference, one.label))


def _fitting(texts: Sequence[str], room: int) -> list[str]:
    found = list[str]()
    for one in texts:
        room -= len(one)
        if room < 0:
            break
        found.append(one)
    return found


def _views(one: Comparison) -> Iterator[tuple[str, tuple[Change, ...]]]:
    yield "operator", one.operators()
    yield "model", one.models()
    yield "unit", one.units()


def _cause(one: Comparison, change: Change) -> str:
    who = one.sites(change.name)
    return f"{change.difference:+,}: {change.name}{f', {who}' if who else ''}"


def _told(one: Comparison, change: Change) -> str:
    who = one.sites(change.name)
    name = change.name if change.name in (ANY, SEVERAL) else _code(change.name)
    return f"{change.difference:+,}: {name}{f', {_code(who)}' if who else ''}"


def _code(text: str) -> str:
    """A text of a model or a source, as it is: in Markdown `__getitem__` would be bold, and `@name`
    call a person."""
    plain = visible(text).replace("`", "'").replace("|", "\u00a6")
    return f"`{plain}`"


def _made(one: Comparison) -> Iterator[str]:
    return (f"{name}: {change}" for name, change in _settings(one))


def _asked(one: Comparison) -> Iterator[tuple[str, tuple[str, ...]]]:
    new, gone = one.asked()
    if new:
        yield "asked for now", new
    if gone:
        yield "no longer asked for", gone


def _settings(one: Comparison) -> Iterator[tuple[str, str]]:
    for name, (before, after) in one.made().items():
        yield name, f"{before or 'none'} -> {after or 'none'}"


def _difference(size: Change) -> str:
    if not size.before or not size.after:
        return f"{size.difference:+,}"
    return f"{size.difference:+,} ({100 * size.difference / size.before:+.2f} %)"


def _sizes(size: Change) -> str:
    return f"{size.before:,} -> {size.after:,} bytes, {_difference(size)}"


def _packed(one: Comparison) -> str:
    packed = one.packed
    return "" if packed is None else f"; compressed {packed.difference:+,}"
