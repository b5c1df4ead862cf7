"""Reads and writes files of selected operators.

Contract: `read_selected` reads each of these formats, recognised by its content, and
`selected_text` writes the last three. Equal values give equal bytes, and reading returns the
written value, as far as the format can express it.

    a lock of ours       `traces/<model>.yaml`; who asked is its model, `//apps/camera classifier`
    pytorch              `SelectiveBuilder.from_yaml_dict` (torchgen/selective_build/selector.py)
    list                 `SELECTED_OP_LIST` of before tracing: a YAML list of operators
    executorch           `selected_operators.yaml`: as pytorch, with `et_kernel_metadata`

Names must match the forms in `values/forms.py`: such a file may come from anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.yaml import clipped
from orchestrator.system.yaml_text import yaml_text
from orchestrator.trace.reading import LONGEST, UnreadableYamlError, parse_lock, plain_yaml
from orchestrator.values.forms import Class, Dtype, Feature, Operator, Tag, form, held_to
from orchestrator.values.operators import OperatorName
from orchestrator.values.selected import Selected, SelectedOperator

Form = Literal["pytorch", "list", "executorch"]

_LONGEST_INFO: Final = 1000


class SelectionUnreadableError(OrchestratorError):
    """A file that is no selection, or says something that no form of one has."""


class UnwritableSelectionError(OrchestratorError):
    """A selection says more than the wanted form can."""


Flag = Literal["true", "false", "True", "False"]
Info = Annotated[str, Field(max_length=_LONGEST_INFO)]
# ExecuTorch's ETKernelKey: `default`, or `v1/` and of each argument a dtype and its dim order
Key = Annotated[
    str,
    held_to(
        "a kernel key, such as v1/6;0,1|6;0,1 or default",
        form(r"default|v1/[0-9]{1,3};[0-9,]{0,64}(?:\|[0-9]{1,3};[0-9,]{0,64}){0,31}"),
    ),
]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class _OperatorPart(_Part):
    name: str | None = None
    is_root_operator: Flag = "true"
    is_used_for_training: Flag = "true"
    include_all_overloads: Flag = "true"
    debug_info: list[Info] = []


class _FilePart(_Part):
    """The defaults are upstream's."""

    include_all_operators: Flag = "false"
    include_all_non_op_selectives: Flag = "false"
    debug_info: list[Info] = []
    operators: dict[Operator, _OperatorPart] = {}
    kernel_metadata: dict[Tag, list[Dtype]] = {}
    et_kernel_metadata: dict[Operator, list[Key]] = {}
    custom_classes: list[Class] = []
    build_features: list[Feature] = []


_LIST: Final[TypeAdapter[list[str]]] = TypeAdapter(
    Annotated[list[Operator], AfterValidator(lambda names: names)]
)


def read_selected(text: str, file: str) -> Selected:
    """The selection in a file's text. Raises SelectionUnreadableError, TraceDamagedError."""
    if len(text) > LONGEST:
        raise _unreadable(file, f"at most {LONGEST:,} characters", f"{len(text):,}")
    try:
        value = plain_yaml(text, file)
    except (yaml.YAMLError, UnreadableYamlError) as error:
        seen = str(error).splitlines()[0] if str(error) else "a key that is there twice"
        raise _unreadable(file, "YAML with unique names as keys", seen) from None
    if isinstance(value, dict) and "selected_operators" in value:
        return _of_lock(text, file)
    try:
        if not isinstance(value, list | dict):
            raise _unreadable(file, "a mapping, or a list of operators", "another value")
        if isinstance(value, list):
            names = _LIST.validate_python(value)
            return Selected(
                operators={
                    n: SelectedOperator(root=True, all_overloads=not _has_overload(n))
                    for n in names
                },
                all_others=True,
            )
        return _of_file(_FilePart.model_validate(value), file)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        expected = first.get("ctx", {}).get("expected") or first["msg"]
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            keys = ", ".join(_FilePart.model_fields)
            raise _unreadable(file, f"the keys {keys}", f"the key {clipped(where)}") from None
        seen = f"{where}: {clipped(str(first['input']))!a}" if where else "another value"
        raise _unreadable(file, str(expected), seen) from None


def _of_lock(text: str, file: str) -> Selected:
    trace = parse_lock(text, file)
    who = frozenset({f"//apps/{trace.app} {trace.model}"})
    roots = {*trace.root_operators}
    return Selected(
        operators={
            name: SelectedOperator(root=name in roots, debug_info=who)
            for name in {*roots, *trace.called_operators}
        },
        kernel_dtypes={tag: frozenset(dtypes) for tag, dtypes in trace.kernel_tags.items()},
        classes=frozenset(trace.custom_classes),
        features=frozenset(trace.build_features),
        debug_info=who,
    )


def _of_file(part: _FilePart, file: str) -> Selected:
    for name, one in part.operators.items():
        if one.name not in (None, name):
            raise _unreadable(file, name, f"operators.{name}.name: {clipped(str(one.name))!a}")
    return Selected(
        all_operators=_true(part.include_all_operators),
        all_others=_true(part.include_all_non_op_selectives),
        operators={
            name: SelectedOperator(
                _true(one.is_root_operator),
                _true(one.is_used_for_training),
                _true(one.include_all_overloads),
                frozenset(one.debug_info),
            )
            for name, one in part.operators.items()
        },
        kernel_dtypes={tag: frozenset(dtypes) for tag, dtypes in part.kernel_metadata.items()},
        kernel_keys={name: frozenset(keys) for name, keys in part.et_kernel_metadata.items()},
        classes=frozenset(part.custom_classes),
        features=frozenset(part.build_features),
        debug_info=frozenset(part.debug_info),
    )


def _true(flag: Flag) -> bool:
    return flag.lower() == "true"


def _has_overload(name: str) -> bool:
    return bool(OperatorName.parse(name).overload)


def selected_text(selected: Selected, as_form: Form) -> str:
    """The file's text. Raises UnwritableSelectionError where the form cannot say it."""
    return yaml_text(selected_value(selected, as_form))


def selected_value(selected: Selected, as_form: Form) -> object:
    """Return the content of the file. Raises UnwritableSelectionError if the form cannot express
    it."""
    if as_form == "list":
        if selected.all_operators or selected.kernel_keys:
            raise _unwritable("a list of operators", "all operators, or kernel keys")
        return sorted(selected.operators)
    value = builder_value(selected)
    if as_form == "executorch":
        if selected.kernel_dtypes:
            raise _unwritable("kernel keys", "dtypes of PyTorch's kernel tags")
        value["et_kernel_metadata"] = _sorted(selected.kernel_keys)
    elif selected.kernel_keys:
        raise _unwritable("dtypes of kernel tags", "ExecuTorch's kernel keys")
    return value


def builder_value(selected: Selected) -> dict[str, Any]:
    """Return the value that `SelectiveBuilder.from_yaml_dict` reads."""
    value: dict[str, Any] = {
        "include_all_non_op_selectives": selected.all_others,
        "include_all_operators": selected.all_operators,
    }
    if selected.debug_info:
        value["debug_info"] = sorted(selected.debug_info)
    return value | {
        "build_features": sorted(selected.features),
        "custom_classes": sorted(selected.classes),
        "kernel_metadata": _sorted(selected.kernel_dtypes),
        "operators": {
            name: _operator_value(selected.operators[name]) for name in sorted(selected.operators)
        },
    }


def _operator_value(one: SelectedOperator) -> dict[str, Any]:
    value: dict[str, Any] = {
        "is_root_operator": one.root,
        "is_used_for_training": one.training,
        "include_all_overloads": one.all_overloads,
    }
    return value | ({"debug_info": sorted(one.debug_info)} if one.debug_info else {})


def _sorted(table: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    return {name: sorted(table[name]) for name in sorted(table)}


def _unreadable(file: str, expected: str, seen: str) -> SelectionUnreadableError:
    return SelectionUnreadableError(
        "this is not a file of selected operators",
        place=Place(file),
        expected=expected,
        seen=clipped(seen),
        hint="name a lock, or a file of PyTorch's or ExecuTorch's selective build",
    )


def _unwritable(says: str, holds: str) -> UnwritableSelectionError:
    return UnwritableSelectionError(
        "this format cannot express all that is selected",
        expected=f"a selection of {says}",
        seen=holds,
        hint="choose another format with --as",
    )
