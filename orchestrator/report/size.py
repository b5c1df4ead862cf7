"""The reports of `size`: what the bytes of a library are there for, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

from rich.console import RenderableType
from rich.text import Text

from orchestrator.errors import visible
from orchestrator.report.table import Column, Row, new_table, plain_text
from orchestrator.size.areas import by_area
from orchestrator.size.attribution import Attribution
from orchestrator.size.dtypes import ANY, SEVERAL
from orchestrator.size.graph import LinkedGraph

By = Literal["area", "operator", "dtype", "model", "unit", "symbol"]
_NOBODY: Final = "(in any library)"
_SEVERAL: Final = "(for several of these)"
_DTYPES: Final = {ANY: "(for any dtype)", SEVERAL: "(for several dtypes)"}
# Dtypes of an operator that are told in its row.
_MOST_DTYPES: Final = 2


def sizes_text(
    found: Attribution, graph: LinkedGraph, by: By, top: int, width: int | None = None
) -> str:
    """A library's table; its bytes add up to the library. top: of how many rows it has."""
    return plain_text(*_parts(found, graph, by, top, width))


def sizes_json(found: Attribution, graph: LinkedGraph, by: By) -> dict[str, Any]:
    """The same with all rows: `{name, bytes, shared_bytes, dtypes, sites}`."""
    shared, dtypes = found.shared(), found.dtypes_alone()
    rows = [
        {
            "name": name,
            "bytes": amount,
            "shared_bytes": shared.get(name) if by == "operator" else None,
            "dtypes": named_dtypes(dtypes.get(name, {})) if by == "operator" else {},
            "sites": {model: list(sites) for model, sites in found.asked[name].sites.items()}
            if by == "operator" and name in found.asked
            else {},
        }
        for name, amount in _VIEWS[by](found, graph).items()
    ]
    return {
        "app": found.app,
        "abi": found.abi,
        "bytes": found.size,
        "compressed_bytes": found.packed,
        "by": by,
        "rows": rows,
    }


def _parts(
    found: Attribution, graph: LinkedGraph, by: By, top: int, width: int | None
) -> Iterator[RenderableType]:
    packed = "" if found.packed is None else f", {found.packed:,} compressed"
    yield Text(f"//apps/{found.app}:{found.abi}: {found.size:,} bytes{packed}")
    amounts = _VIEWS[by](found, graph)
    shared = found.shared() if by == "operator" else {}
    dtypes = found.dtypes_alone()
    shown = list(amounts.items())[:top]
    left = sum(amounts.values()) - sum(amount for _, amount in shown)
    columns = [Column(by), Column("bytes", is_number=True), Column("%", is_number=True)]
    if shared:
        columns += [Column("by dtype"), Column("shared", is_number=True), Column("asked by")]
    rows = []
    for name, amount in shown:
        cells = [visible(name), f"{amount:,}", f"{100 * amount / max(found.size, 1):.1f}"]
        if shared:
            told = told_dtypes(dtypes.get(name, {}))
            cells += [told, f"{shared[name]:,}" if name in shared else "", asked_by(found, name)]
        rows.append(Row(cells))
    if len(amounts) > top:
        cells = [f"({len(amounts) - top} more)", f"{left:,}", f"{100 * left / found.size:.1f}"]
        rows.append(Row([*cells, *([""] * 3 if shared else [])]))
    yield new_table(columns, rows, width)


def named_dtypes(dtypes: Mapping[str, int]) -> dict[str, int]:
    """Bytes by dtype, without those for any: `several` stands for bytes that several need."""
    return {dtype: amount for dtype, amount in dtypes.items() if dtype != ANY}


def told_dtypes(dtypes: Mapping[str, int]) -> str:
    """The same as a text, the largest first: `Float 29,467, Long 300, 2 more`."""
    named = [f"{dtype} {amount:,}" for dtype, amount in named_dtypes(dtypes).items()]
    more = [f"{len(named) - _MOST_DTYPES} more"] if len(named) > _MOST_DTYPES else []
    return ", ".join([*named[:_MOST_DTYPES], *more])


def asked_by(found: Attribution, name: str) -> str:
    """The models that ask for an operator, and the first place in each."""
    asked = found.asked.get(name)
    if asked is None:
        return ""
    who = (f"{m}: {sites[0]}" if sites else m for m, sites in asked.sites.items())
    return visible(", ".join(who))


def _by_area(found: Attribution, _: LinkedGraph) -> Mapping[str, int]:
    return by_area(found)


def _by_operator(found: Attribution, _: LinkedGraph) -> Mapping[str, int]:
    return {_NOBODY: found.base, _SEVERAL: found.several, **found.alone()}


def _by_dtype(found: Attribution, _: LinkedGraph) -> Mapping[str, int]:
    return {dtype_row(dtype): amount for dtype, amount in found.by_dtype().items()}


def dtype_row(dtype: str) -> str:
    """The name of a dtype's row."""
    return _DTYPES.get(dtype, dtype)


def _by_model(found: Attribution, _: LinkedGraph) -> Mapping[str, int]:
    return {", ".join(who) or _NOBODY: amount for who, amount in found.by_models().items()}


def _by_unit(found: Attribution, _: LinkedGraph) -> Mapping[str, int]:
    return {unit or "registrations": amount for unit, amount in found.by_unit().items()}


def _by_symbol(_: Attribution, graph: LinkedGraph) -> Mapping[str, int]:
    amounts: dict[str, int] = {}
    for node in graph.nodes:
        if node.total:
            amounts[node.name] = amounts.get(node.name, 0) + node.total
    return dict(sorted(amounts.items(), key=lambda one: (-one[1], one[0])))


_VIEWS: Final[Mapping[By, Callable[[Attribution, LinkedGraph], Mapping[str, int]]]] = {
    "area": _by_area,
    "operator": _by_operator,
    "dtype": _by_dtype,
    "model": _by_model,
    "unit": _by_unit,
    "symbol": _by_symbol,
}
