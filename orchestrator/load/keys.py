"""Keys that a declaration may have, and their places: read from the models, for error messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def fields_at(model: type[BaseModel], path: Sequence[str | int]) -> dict[str, FieldInfo]:
    """The keys that the mapping at a path may have; none where there is no mapping."""
    kinds = _kinds_at(model, path)
    return {name: field for kind in kinds if _is_model(kind) for name, field in _fields(kind)}


def containers_at(model: type[BaseModel], path: Sequence[str | int]) -> tuple[str, ...]:
    """The containers that the value at a path may be: "a list", "a mapping"."""
    kinds = _kinds_at(model, path)
    return tuple(sorted({"a list" if get_origin(kind) is tuple else "a mapping" for kind in kinds}))


def sections_with(model: type[BaseModel], key: str) -> tuple[str, ...]:
    """The sections that may have a key, as `runtime`, `models[]`; "" is the file's top level."""
    return tuple(section for section, kind in _sections(model, "") if key in kind.model_fields)


def _kinds_at(model: type[BaseModel], path: Sequence[str | int]) -> list[Any]:
    kinds: list[Any] = [model]
    for part in path:
        kinds = [inner for kind in kinds for inner in _step(kind, part)]
    return kinds


def _fields(kind: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    yield from kind.model_fields.items()


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _arms(kind: Any) -> Iterator[Any]:
    """The models, lists and mappings that a type stands for, through Annotated and unions."""
    origin = get_origin(kind)
    if _is_model(kind) or origin in (tuple, Mapping, dict):
        yield kind
    elif origin is Annotated:
        yield from _arms(get_args(kind)[0])
    else:
        for arm in get_args(kind):
            yield from _arms(arm)


def _step(kind: Any, part: str | int) -> Iterator[Any]:
    if _is_model(kind):
        if part in kind.model_fields:
            yield from _arms(kind.model_fields[part].annotation)
    elif isinstance(part, int) == (get_origin(kind) is tuple):
        yield from _arms(_inner(kind))


def _inner(kind: Any) -> Any:
    """The type of a list's entries, or of a mapping's values."""
    return get_args(kind)[0] if get_origin(kind) is tuple else get_args(kind)[1]


def _sections(kind: Any, name: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for arm in _arms(kind):
        if _is_model(arm):
            yield name, arm
            for key, field in _fields(arm):
                yield from _sections(field.annotation, f"{name}.{key}" if name else key)
        else:
            yield from _sections(_inner(arm), name + ("[]" if get_origin(arm) is tuple else ".*"))
