"""Reads what the model runner that counts memory tells (native/memory/watch.h).

Contract: pure. The runner is another process, in which a model ran: what it tells is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.values.memory import Block, ModelMemory, Origin, RunMemory, Site

_Count = Annotated[int, Field(ge=0, lt=2**63)]
# Frees of the library's own memory count against a model.
_Difference = Annotated[int, Field(gt=-(2**63), lt=2**63)]


class MemoryUnreadableError(Exception):
    """Why a result does not tell what a model takes of memory."""


class _Told(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class _Place(_Told):
    function: _Count
    instruction: _Count
    operator: Annotated[str, Field(max_length=500)]


class _Block(_Told):
    bytes: _Count
    of: Origin
    stays: bool
    at: _Place | None
    dtype: Annotated[str, Field(max_length=40)] | None
    shape: Annotated[list[_Count], Field(max_length=64)] | None


class _Others(_Told):
    blocks: _Count
    bytes: _Count


class _Parts(_Told):
    model: _Count
    earlier: _Count
    run: _Count


class _After(_Told):
    model: _Count
    runs: _Count


class _Run(_Told):
    method: str
    index: _Count
    again: bool
    ended: bool
    before: _Difference
    inputs: _Count
    peak: _Difference
    at: _Place | None
    of: _Parts
    blocks: list[_Block]
    others: _Others
    after: _After


class _Loaded(_Told):
    heap: _Difference
    mapped: _Count
    peak: _Difference


class _Memory(_Told):
    library: _Count
    loaded: _Loaded
    runs: list[_Run]


@dataclass(frozen=True)
class Located:
    """An instruction of a model's file: the function's number, and its own."""

    function: int
    instruction: int
    operator: str


def memory_of(
    model: str, file: int, result: Mapping[str, Any] | None, site: Callable[[Located], str]
) -> ModelMemory:
    """A model's memory, from the runner's result.

    file: bytes of the tensors in its file; site: gives where the model's source has an instruction
    Raises MemoryUnreadableError.
    """
    try:
        found = _Memory.model_validate((result or {}).get("memory"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise MemoryUnreadableError(f"{where or 'memory'}: {first['msg']}") from None

    def at(place: _Place | None) -> Site | None:
        if place is None:
            return None
        located = Located(place.function, place.instruction, place.operator)
        return Site(place.operator, site(located))

    def run(one: _Run) -> RunMemory:
        return RunMemory(
            method=one.method,
            index=one.index,
            again=one.again,
            before=one.before,
            inputs=one.inputs,
            peak=one.peak,
            at=at(one.at),
            model=one.of.model,
            earlier=one.of.earlier,
            own=one.of.run,
            blocks=tuple(
                Block(
                    bytes=block.bytes,
                    of=block.of,
                    stays=block.stays,
                    at=at(block.at),
                    dtype=block.dtype,
                    shape=None if block.shape is None else tuple(block.shape),
                )
                for block in one.blocks
            ),
            others=one.others.blocks,
            others_bytes=one.others.bytes,
            loaded=one.after.model,
            left=one.after.runs,
        )

    return ModelMemory(
        model=model,
        file=file,
        library=found.library,
        loaded=found.loaded.heap + found.loaded.mapped,
        mapped=found.loaded.mapped,
        loading=found.loaded.peak,
        runs=tuple(run(one) for one in found.runs if one.ended),
    )
