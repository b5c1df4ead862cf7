"""Plain data to a declared model, with every fault reported at its place in the file.

pydantic finds the faults; here they become our errors: its location becomes file:line:column, its
words ours, and an unknown key is answered with the nearest known one or with where it belongs.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeGuard, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.keys import containers_at, fields_at, sections_with
from orchestrator.load.yaml import PlaceIndex, clipped
from orchestrator.values.config.forms import PATTERN_WORDS, Example, Expected, Short
from orchestrator.values.names import did_you_mean

MOST_ERRORS: Final = 10
# Faults of one file that are reported in full; the others of thousands are only counted.
MOST_DETAILED: Final = 100
# A value that a hint may repeat.
_SHORT: Final = 80

# PyTorch's and NumPy's words for element types and fills, which may look like others of ours.
_ELSEWHERE: Final = {
    "byte": "uint8",
    "char": "int8",
    "double": "float64",
    "empty": "zeros",
    "float": "float32",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "rand": "uniform",
    "randn": "normal",
    "random": "uniform",
    "range": "arange",
    "short": "int16",
}

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

_TYPES: Final = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "float_type": "a number",
    "int_type": "an integer",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "string_type": "text",
    "tuple_type": "a list",
}
_BOUNDS: Final = {
    "greater_than_equal": ("ge", "at least {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
    "string_too_long": ("max_length", "at most {} characters"),
}


class UnknownKeyError(OrchestratorError):
    """A key that nothing in this file has."""


class MisplacedKeyError(OrchestratorError):
    """A key that belongs in another section of the file."""


class MissingKeyError(OrchestratorError):
    """A required key is not there."""


class BadValueError(OrchestratorError):
    """A value is not what its key takes."""


class FurtherFaultError(OrchestratorError):
    """A fault beyond the first ones of a file, reported without details."""


class FurtherFaultsError(OrchestratorError):
    """Faults of a list beyond its first ones, reported as a number: `facts["faults"]`."""


class DeclarationErrors(OrchestratorError):
    """Several faults, reported together: the first `MOST_ERRORS`, in the order of places."""

    def __init__(self, errors: Sequence[OrchestratorError]) -> None:
        super().__init__(f"{sum(map(faults_of, errors)):,} errors in the workspace files")
        self.errors = tuple(sorted(errors, key=lambda error: error.place or Place("")))

    @property
    def parts(self) -> tuple[OrchestratorError, ...]:
        return self.errors

    def render(self) -> str:
        """The errors one after another, and how many there are."""
        shown = [error.render() for error in self.errors[:MOST_ERRORS]]
        left = sum(map(faults_of, self.errors[MOST_ERRORS:]))
        more = f", {left:,} not shown" if left else ""
        return "\n".join([*shown, f"{self.what}{more}"])


def faults_of(error: OrchestratorError) -> int:
    """Number of faults that an error reports."""
    return int(error.facts["faults"]) if isinstance(error, FurtherFaultsError) else 1


def detailed(
    faulty: Sequence[T], fault: Callable[[T], OrchestratorError], place: Callable[[T], Place]
) -> Iterator[OrchestratorError]:
    """The faults of a list's entries: the first `MOST_DETAILED` in full, then how many there are
    beyond them, at the place of the next one."""
    yield from map(fault, faulty[:MOST_DETAILED])
    if left := len(faulty[MOST_DETAILED:]):
        yield FurtherFaultsError(
            f"and {left:,} more such faults" if left > 1 else "and 1 more such fault",
            place=place(faulty[MOST_DETAILED]),
            facts={"faults": left},
        )


def raise_all(errors: Sequence[OrchestratorError]) -> None:
    """Raise one error as it is, several as `DeclarationErrors`, none not at all."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise DeclarationErrors(errors)


def validated(
    model: type[M], data: Any, places: PlaceIndex
) -> tuple[M | None, list[OrchestratorError]]:
    """The value that the data declares, or None and the faults."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, _translated(model, error.errors(include_url=False), places)


def valid_part(model: type[M], data: Any, instead: Mapping[str, Any]) -> M | None:
    """The valid part of faulty data, by its top-level keys: the others count as missing.

    It lets the checks of valid values report in the same run as these faults. `instead` has a
    valid value for each required key, all of them lists: a missing one is empty in the result.
    None where nothing is valid.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faulty = {detail["loc"][0] for detail in error.errors() if detail["loc"]}
    if not isinstance(data, dict) or not faulty:
        return None
    kept = {key: value for key, value in data.items() if key not in faulty}
    try:
        value = model.model_validate({**instead, **kept})
    except ValidationError:
        return None
    return value.model_copy(update=dict.fromkeys(instead.keys() - kept, ()))


def _translated(
    model: type[BaseModel], details: list[ErrorDetails], places: PlaceIndex
) -> list[OrchestratorError]:
    errors: list[OrchestratorError] = []
    types: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
    details = sorted(details, key=lambda detail: places.value(detail["loc"]))
    errors += [
        FurtherFaultError("a value is not valid", place=places.value(detail["loc"]))
        for detail in details[MOST_DETAILED:]
    ]
    for detail in details[:MOST_DETAILED]:
        if detail["type"] in _TYPES:
            # A union reports once for each of its types that the value has another.
            types.setdefault(places.find(detail["loc"]).path, []).append(detail)
        elif not _is_echo(detail):
            errors.append(_error(model, detail, places))
    errors.extend(_wrong_type(model, group, places) for group in types.values())
    return errors


def _is_echo(detail: ErrorDetails) -> bool:
    """True if a fault only follows from another one, which is reported itself."""
    if detail["type"] == "default_factory_not_called":
        return True
    # A list of which no entry is valid counts as empty.
    return detail["type"] == "too_short" and bool(detail["input"])


def _error(model: type[BaseModel], detail: ErrorDetails, places: PlaceIndex) -> OrchestratorError:
    if detail["type"] == "extra_forbidden":
        return _unknown_key(model, detail["loc"], places)
    if detail["type"] == "missing":
        return _missing_key(model, detail["loc"], places)
    return _bad_value(model, detail, places)


def _unknown_key(
    model: type[BaseModel], loc: Sequence[str | int], places: PlaceIndex
) -> OrchestratorError:
    key, place = str(loc[-1]), places.key(loc)
    known = fields_at(model, places.find(loc[:-1]).path)
    belongs = sections_with(model, key)
    if belongs:
        where = " or ".join(f"under `{part}`" if part else "at the top level" for part in belongs)
        return MisplacedKeyError(
            f"key `{key}` is in the wrong place",
            place=place,
            expected="one of " + ", ".join(known),
            hint=f"`{key}` belongs {where}",
        )
    return UnknownKeyError(
        f"unknown key `{clipped(key)}`",
        place=place,
        expected="one of " + ", ".join(known),
        hint=did_you_mean(key, known),
    )


def _missing_key(
    model: type[BaseModel], loc: Sequence[str | int], places: PlaceIndex
) -> MissingKeyError:
    key = str(loc[-1])
    found = places.find(loc[:-1])
    field = fields_at(model, found.path).get(key)
    words = get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()
    value = words[0] if len(words) == 1 else "..."
    return MissingKeyError(
        f"key `{key}` is missing",
        place=found.place,
        expected=_expected(field) if field else None,
        hint=f"add `{key}: {value}` here",
    )


def _expected(field: FieldInfo) -> str:
    """Describe the values of a key: its words, else the field's `Expected`, else its pattern in
    words."""
    if get_origin(field.annotation) is Literal:
        return _either([str(word) for word in get_args(field.annotation)])
    declared = [item.text for item in field.metadata if isinstance(item, Expected)]
    patterns = [getattr(item, "pattern", None) for item in field.metadata]
    return next(iter(declared), None) or next(PATTERN_WORDS[p] for p in patterns if p)


def _wrong_type(
    model: type[BaseModel], group: Sequence[ErrorDetails], places: PlaceIndex
) -> BadValueError:
    detail = group[0]
    containers = containers_at(model, places.find(detail["loc"]).path)
    wanted = list(dict.fromkeys([*(_TYPES[each["type"]] for each in group), *containers]))
    value = detail["input"]
    path = places.find(detail["loc"]).path
    entry = "an entry of " if path and isinstance(path[-1], int) else ""
    return BadValueError(
        f"{entry}{_subject(model, detail, places)} has the wrong type",
        place=places.value(detail["loc"]),
        expected=_either(wanted),
        seen=_shown(value),
        hint=_rewritten(model, detail, wanted, places),
    )


def _rewritten(
    model: type[BaseModel], detail: ErrorDetails, wanted: Sequence[str], places: PlaceIndex
) -> str | None:
    """Return a hint that rewrites a value of the wrong type; None if no rewriting is known."""
    value, path = detail["input"], places.find(detail["loc"]).path
    if not path and value is None:
        required = ", ".join(k for k, one in model.model_fields.items() if one.is_required())
        return f"declare at least: {required}" if required else None
    if wanted == ["text"] and isinstance(value, bool | int | float | datetime.date):
        return "put it in quotes"
    if wanted == ["a list"] and (entry := _in_mapping(model, (*path, 0), value)):
        return f"write `[{{{entry}}}]`"
    if wanted == ["a list"] and _is_short(value):
        return f"write [{', '.join(_parts(value))}]"
    if wanted == ["a mapping"] and (short := _in_mapping(model, path, value)):
        return f"write `{short}`"
    if wanted == ["a list"] and isinstance(value, dict) and containers_at(model, (*path, 0)):
        return "put `- ` before the first key of each entry"
    example = _example(model, path)
    return f"write it as `{example}`" if example else None


def _is_short(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and "\n" not in value and len(value) <= _SHORT


def _in_mapping(model: type[BaseModel], path: Sequence[str | int], value: object) -> str | None:
    """A value as its mapping would have it: by the key that is marked so, else the first one that
    is required."""
    fields = fields_at(model, path).items()
    marked = [key for key, field in fields if any(isinstance(one, Short) for one in field.metadata)]
    key = next(iter([*marked, *(key for key, field in fields if field.is_required())]), None)
    if key is None:
        return None
    if _is_short(value):
        is_list = containers_at(model, (*path, key)) == ("a list",)
        return f"{key}: {f'[{value}]' if is_list else value}"
    if marked and isinstance(value, list) and value and all(map(_is_short, value)):
        return f"{key}: [{', '.join(value)}]"
    return None


def _parts(text: str) -> list[str]:
    """The entries of a list that was written as one text: `1x3x96x96`, `1,3,96,96`."""
    return re.findall("[0-9]+", text) if re.fullmatch("[0-9]+([x, ]+[0-9]+)+", text) else [text]


def _example(model: type[BaseModel], path: Sequence[str | int]) -> str | None:
    """A value of the field that a path leads to, or whose entries it leads to."""
    keys = path[:-1] if path and isinstance(path[-1], int) else path
    field = fields_at(model, keys[:-1]).get(str(keys[-1])) if keys else None
    found = field.metadata if field else []
    return next((item.text for item in found if isinstance(item, Example)), None)


def _bad_value(model: type[BaseModel], detail: ErrorDetails, places: PlaceIndex) -> BadValueError:
    kind, context = detail["type"], detail.get("ctx", {})
    what, expected, hint = "is not valid", str(detail["msg"]), None
    if kind == "literal_error":
        words = str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
        expected = _either([*words, *containers_at(model, places.find(detail["loc"]).path)])
        hint = _meant(str(detail["input"]), words)
        example = _example(model, places.find(detail["loc"]).path)
        if hint is None and example:
            hint = f"write it as `{example}`"
    elif kind == "string_pattern_mismatch":
        expected = PATTERN_WORDS[context["pattern"]]
    elif kind in ("too_short", "string_too_short"):
        what, expected = "is empty", "at least one entry" if kind == "too_short" else "text"
    elif kind in _BOUNDS:
        key, bound = _BOUNDS[kind]
        expected = bound.format(context[key])
    elif "expected" in context:
        what, expected = f"is not valid: {detail['msg']}", str(context["expected"])
        hint = context.get("hint")
    return BadValueError(
        f"{_subject(model, detail, places)} {what}",
        place=places.value(detail["loc"]),
        expected=expected,
        seen=str(context.get("seen") or _shown(detail["input"])),
        hint=hint,
    )


def _meant(word: str, known: Sequence[str]) -> str | None:
    """The advice for an unknown word: what other tools call by it, else the nearest known one."""
    like = _ELSEWHERE.get(word.removeprefix("torch."))
    return f"did you mean `{like}`?" if like in known else did_you_mean(word, known)


def _subject(model: type[BaseModel], detail: ErrorDetails, places: PlaceIndex) -> str:
    """Return the subject of a fault: the innermost key of its path, present or missing."""
    path, last = places.find(detail["loc"]).path, detail["loc"][-1:]
    if last and last[0] in fields_at(model, path):
        path += last
    names = [part for part in path if isinstance(part, str)]
    return f"`{names[-1]}`" if names else "the file"


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _shown(value: object) -> str:
    """A value as its file may have written it; only the kind of a list or a mapping."""
    if value is None:
        return "nothing"
    if isinstance(value, datetime.date):
        return f"{value.isoformat()} (a date)"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return clipped(json.dumps(value, ensure_ascii=False))
