"""The report of `memory`: what a model takes, when, and because of which layer; as text and as
JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from orchestrator.errors import visible
from orchestrator.report.table import Column, Row, new_table, plain_text
from orchestrator.values.labels import VariantLabel
from orchestrator.values.memory import Block, ModelMemory, RunMemory, Site

# Of an error's details.
_MOST_BLOCKS: Final = 8
_WHEN: Final = (
    Column("when"),
    Column("bytes", is_number=True),
    Column("as loaded", is_number=True),
    Column("kept by runs", is_number=True),
    Column("of this run", is_number=True),
    Column("inputs", is_number=True),
    Column("reached by"),
    Column("where"),
)


def memory_text(label: VariantLabel, found: ModelMemory, top: int, width: int | None = None) -> str:
    """A model's tables. top: rows of the second one."""
    return plain_text(*_parts(label, found, top, width))


def memory_json(label: VariantLabel, found: ModelMemory) -> dict[str, Any]:
    """The same with all that was measured."""
    return {
        "app": label.app,
        "abi": label.abi,
        "model": found.model,
        "file_bytes": found.file,
        "library_bytes": found.library,
        "loaded": {
            "bytes": found.loaded,
            "mapped_bytes": found.mapped,
            "peak_bytes": found.loading,
        },
        "peak_bytes": found.peak,
        "kept_bytes": found.kept,
        "runs": [_run_json(run) for run in found.runs],
    }


def _run_json(run: RunMemory) -> dict[str, Any]:
    return {
        "method": run.method,
        "index": run.index,
        "again": run.again,
        "inputs_bytes": run.inputs,
        "before_bytes": run.before,
        "peak_bytes": run.peak,
        "at": _site_json(run.at),
        "loaded_bytes": run.model,
        "earlier_bytes": run.earlier,
        "own_bytes": run.own,
        "blocks": [
            {
                "bytes": block.bytes,
                "of": block.of,
                "stays": block.stays,
                "at": _site_json(block.at),
                "dtype": block.dtype,
                "shape": None if block.shape is None else list(block.shape),
            }
            for block in run.blocks
        ],
        "others": {"blocks": run.others, "bytes": run.others_bytes},
        "after": {"loaded_bytes": run.loaded, "left_bytes": run.left},
    }


def _site_json(site: Site | None) -> dict[str, str] | None:
    return None if site is None else {"operator": site.operator, "where": site.where}


def peak_text(found: ModelMemory) -> str:
    """The peak, and what reached it: `3,210,000 bytes in forward[0], aten::conv2d, ...`."""
    run = found.worst
    if run is None:
        return f"{found.peak:,} bytes while it is loaded"
    return f"{found.peak:,} bytes in {visible(run.name)}{_at(run.at)}"


def largest_text(found: ModelMemory) -> str:
    """Lines with the largest tensors at the highest peak of a run; empty without runs."""
    run = found.largest
    if run is None:
        return ""
    lines = (
        f"\n  {block.bytes:,} bytes: {visible(block.contents)}{_at(block.at)}"
        for block in run.blocks[:_MOST_BLOCKS]
    )
    return f"the largest at the peak of {visible(run.name)}:" + "".join(lines)


def _at(site: Site | None) -> str:
    return "" if site is None else visible(f", {site.operator}, {site.where}")


def _parts(
    label: VariantLabel, found: ModelMemory, top: int, width: int | None
) -> Iterator[RenderableType]:
    yield Text(f"{label} {found.model}: {peak_text(found)}")
    yield new_table(_WHEN, [Row(cells) for cells in _moments(found)], width)
    run = found.largest
    if run is None:
        return
    columns = (
        Column(f"at the peak of {visible(run.name)}"),
        Column("bytes", is_number=True),
        Column("made by"),
        Column("where"),
    )
    rows = [Row(_block(block)) for block in run.blocks[:top]]
    left = run.blocks[top:]
    others = run.others + len(left)
    if others:
        rest = run.others_bytes + sum(block.bytes for block in left)
        rows.append(Row([f"({others} more)", f"{rest:,}", "", ""]))
    yield new_table(columns, rows, width)


def _moments(found: ModelMemory) -> Iterator[list[str]]:
    """The rows of a model's first table. Inputs are the app's own, and in no sum."""
    yield _moment("in the file", found.file)
    yield _moment("while it is loaded", found.loading)
    yield _moment("loaded", found.loaded, found.loaded)
    for run in found.runs:
        parts = (run.model, run.earlier, run.own, run.inputs)
        yield _moment(run.name, run.peak, *parts, at=run.at)
    if found.runs:
        last = found.runs[-1]
        yield _moment("between runs", last.kept, last.loaded, last.left)


def _moment(when: str, *amounts: int, at: Site | None = None) -> list[str]:
    numbers = [f"{amount:,}" for amount in amounts]
    return [visible(when), *numbers, *[""] * (5 - len(numbers)), *_site(at)]


def _block(block: Block) -> list[str]:
    by = ["(the model)", ""] if block.of == "model" else _site(block.at)
    return [visible(block.contents), f"{block.bytes:,}", *by]


def _site(site: Site | None) -> list[str]:
    return ["", ""] if site is None else [visible(site.operator), visible(site.where)]
