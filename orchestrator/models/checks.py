"""Checks that a runtime can run a model at all, made before anything is traced or compiled.

Contract: each check raises the one error that it checks for, or returns; `check_operators` returns
what may be missing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.bytecode import OperatorUse
from orchestrator.models.info import ModelInfo
from orchestrator.models.offers import Offer, advice, all_newer, owners
from orchestrator.values.config.app import SHIPPED_OPERATORS
from orchestrator.values.operators import Arguments, OperatorName
from orchestrator.values.own_sources import OwnClass

_MOST_NEAR: Final = 3
_MOST_USERS: Final = 2
# Of what a message names, and of a name's characters.
_MOST_SHOWN: Final = 12
_LONGEST: Final = 200
# Operators that newer torch names by itself, and how to write the model without them.
_ADVICE: Final = {
    "aten::scaled_dot_product_attention": (
        "write the attention with matmul and softmax; nn.TransformerEncoderLayer and "
        "nn.MultiheadAttention name the fused operator"
    ),
    "aten::_upsample_lanczos2d_aa": (
        "F.interpolate names every mode when it is scripted: trace that module with "
        "torch.jit.trace, or call the one mode, such as torch._C._nn.upsample_bilinear2d"
    ),
}
# Operators of a delegate that is no part of the runtime, and how to write the model without them.
_NAMESPACE_ADVICE: Final = dict.fromkeys(
    ("vulkan_prepack", "metal_prepack", "metal"),
    "optimize_for_mobile put operators of Vulkan or Metal in place of PyTorch's own, and this "
    "runtime is built without these libraries: save the scripted model as it is, or give "
    'optimize_for_mobile no backend but "CPU"',
)
# Operators that open files by a name, with the rights of whoever runs the model, without overload.
_OF_FILES: Final = frozenset({"aten::from_file", "aten::save"})
# What pack_padded_sequence makes.
_SEQUENCE: Final = "__torch__.torch.nn.utils.rnn.PackedSequence"
_EMPTY: Final = "()"
_NO_TYPE: Final = re.compile(rf"\bUnion\b|{re.escape(_EMPTY)}")
# Namespaces of the classes that hold weights packed for a quantised engine.
_PACKED: Final = frozenset({"quantized", "rnn", "sparse"})
_CLASSES: Final = "__torch__.torch.classes."
_GENERAL_ADVICE: Final = (
    "export it with torch.jit.trace in place of torch.jit.script, or pass the scripted module "
    "through torch.jit.freeze: both drop branches that the model never takes; "
    "or pin a newer runtime in WORKSPACE"
)


class NoInputsError(OrchestratorError):
    """A model that has no inputs inside, and none declared: it cannot be traced or verified."""


class NamedTupleError(OrchestratorError):
    """A model that takes, makes or returns a NamedTuple, which crashes PyTorch's lite runtime."""


class EnumError(OrchestratorError):
    """A model that holds a member of an enum, which PyTorch's lite runtime cannot load."""


class UnsupportedTypeError(OrchestratorError):
    """A model whose types PyTorch's lite runtime cannot read."""


class UnknownOperatorError(OrchestratorError):
    """A model names operators that the runtime does not have."""


class ExtraArgumentsError(OrchestratorError):
    """A model passes more arguments to an operator than it takes in the runtime."""


class MissingArgumentsError(OrchestratorError):
    """A model passes fewer arguments to an operator than it takes in the runtime."""


class ForbiddenOperatorError(OrchestratorError):
    """A model names operators that its app forbids."""


class FileOperatorError(OrchestratorError):
    """A model names operators that open files, which its app does not ask for."""


class LapackMissingError(OrchestratorError):
    """A model needs operators whose kernels are LAPACK's, which the runtime is built without."""


class UnusableClassError(OrchestratorError):
    """A model holds objects of a custom class that the runtime cannot make."""


class OwnClassError(OrchestratorError):
    """A model uses a class of its app's own in a way that the app's sources do not offer."""


class UnknownPackingError(OrchestratorError):
    """A model holds weights that are packed in a format that the runtime does not know."""


def require_inputs(info: ModelInfo, declared: bool) -> None:
    """Raises `NoInputsError` unless the model holds inputs or its app declares some."""
    if info.has_bundled_inputs or declared:
        return
    raise NoInputsError(
        "this model has no inputs to run it with",
        place=info.place,
        expected="inputs bundled in the model, or `inputs:` for it in app.yaml",
        seen=f"the methods {_some(info.methods)}" if info.methods else "no method",
        hint="bundle some with torch.utils.bundled_inputs.bundle_inputs before saving, "
        "or declare their shapes and dtypes in app.yaml",
    )


def require_no_named_tuples(info: ModelInfo) -> None:
    """Raises `NamedTupleError`: PyTorch 1.13.1 crashes on such a model without a message."""
    found = info.named_tuples
    if not found:
        return
    functions = sorted({function for function, _ in found})
    classes = sorted({name for _, name in found})
    hint = "return a plain tuple (Tuple[Tensor, Tensor]) and export the model again"
    if _SEQUENCE in classes:
        hint = (
            "torch.jit.trace the part that packs sequences in place of scripting it: what it"
            " writes passes plain tensors; or run the layer on the padded tensor"
        )
    raise NamedTupleError(
        "this model uses a NamedTuple, which crashes the lite runtime",
        place=info.place,
        expected="tensors, and tuples, lists and dictionaries of them",
        seen=f"{_some(classes)} in {_some(functions)}",
        hint=hint,
    )


def require_no_enums(info: ModelInfo) -> None:
    """Raises `EnumError`: the lite runtime's loader takes any object for a module, and fails
    (torch/csrc/jit/mobile/import.cpp, `obj_loader`)."""
    if not info.enums:
        return
    raise EnumError(
        "this model holds a member of an enum, which the lite runtime cannot load",
        place=info.place,
        expected="tensors, numbers, texts, and tuples, lists and dictionaries of them",
        seen=_some(info.enums),
        hint="hold, compare and return the member's value, a number or a text, and export the model"
        " again",
    )


def require_types(info: ModelInfo) -> None:
    """Raises `UnsupportedTypeError` where the runtime cannot read the text of a type.

    `Union` is taken alone, for an argument or a result, and not inside of another type; nor is the
    empty tuple (torch/csrc/jit/mobile/type_parser.cpp, `TypeParser::parse`).
    """
    # a model may give one long text to all of its arguments
    signatures = {
        text
        for function in info.functions
        for text in (*function.returns, *(argument.type for argument in function.arguments))
    }
    held = {*info.list_types, *chain(*(function.types for function in info.functions))}
    wrong = sorted(
        {text for text in signatures if _NO_TYPE.search(text, 1)}
        | {text for text in held if _NO_TYPE.search(text)}
    )
    if not wrong:
        return
    empty = any(_EMPTY in text for text in wrong)
    raise UnsupportedTypeError(
        "this model has a type that the lite runtime cannot read",
        place=info.place,
        expected="types without Union and without Tuple[()]",
        seen=_some(wrong),
        hint="a method without arguments needs no bundled inputs: save the model without them, and"
        " declare in app.yaml `inputs: [{args: []}]`; return None in place of an empty tuple"
        if empty
        else "pass and return one type for each value, such as Tensor alone, or Optional; in place"
        " of a Dict of several types return a tuple, or one Dict for each type",
    )


def check_operators(
    info: ModelInfo,
    known: Collection[OperatorName],
    runtime_version: str,
    others: Iterable[Offer] = (),
    declared: str = "app.yaml",
    lowered: Collection[str] = (),
    command: str | None = None,
    unreachable: Callable[[], Collection[OperatorName]] = tuple,
) -> frozenset[OperatorName]:
    """The operators that `known` does not hold and that no input of the model reaches.

    Raises `UnknownOperatorError` if the model names another one that `known` does not hold.

    unreachable: the operators that it names only in calls that no input reaches; asked for only
    where one is missing
    others: other runtimes, which are asked for only where one is missing
    declared: the app's app.yaml
    lowered: operators that `canonical` replaces for this runtime, in this model
    command: what would make the app, where it is not there yet
    """
    missing = [operator for operator in info.root_operators if operator not in known]
    left_out = frozenset(missing).intersection(unreachable() if missing else ())
    missing = [operator for operator in missing if operator not in left_out]
    if not missing:
        return left_out
    offers = tuple(others)
    namespaces = {name.namespace for name in known}
    # An operator of a delegate may well be PyTorch's: it is this build that is without it.
    build = "" if all(o.namespace in namespaces for o in missing) else "this build of "
    some = "an operator" if len(missing) == 1 else f"{len(missing)} operators"
    what = f"this model names {some} that {build}PyTorch {runtime_version} does not have"
    if all_newer(missing, runtime_version, offers):
        what = f"this model names {some} newer than PyTorch {runtime_version}"
    elsewhere = advice(missing, offers, declared, command)
    if all(operator in lowered for operator in missing):
        otherwise = _lowering(info, len(missing), declared, command)
    else:
        otherwise = _advice(missing, namespaces, declared, general=elsewhere is None)
    raise UnknownOperatorError(
        what,
        place=info.place,
        expected=f"operators of PyTorch {runtime_version}",
        seen=_some(missing),
        hint="; or ".join(filter(None, (elsewhere, otherwise))),
        details="\n".join(_whereabouts(info, missing[:_MOST_SHOWN], sorted(known), offers)),
    )


def _lowering(info: ModelInfo, count: int, declared: str, command: str | None) -> str:
    again = "" if info.has_torchscript else "export it again with its TorchScript, and "
    app = declared.rpartition("/")[0]
    choose = f"`canonical: static` for the model in {declared}"
    return (
        f"{again}`canonical` replaces {'it' if count == 1 else 'them'} by operators that are there:"
        f" {choose if command is None else f'{command} --canonical'}, then ./orchestrate canonical "
        f"//{app or '...'} --write"
    )


def _whereabouts(
    info: ModelInfo,
    missing: Sequence[OperatorName],
    known: list[OperatorName],
    offers: Iterable[Offer],
) -> Iterator[str]:
    """Yield for each missing operator: its libraries, the nearest known names, and the methods that
    name it."""
    users = _users(info, missing)
    for operator in missing:
        near = _nearest(operator, known)
        its = owners(operator, offers)
        parts = [f"in {its}"] if its else []
        parts.append(f"nearest {', '.join(near)}" if near else "none near")
        yield f"{operator}: {'; '.join(parts)}"
        yield f"  named in {users[operator]}"


def forbidden_operators(
    info: ModelInfo, forbidden: Mapping[str, str]
) -> Mapping[OperatorName, str]:
    """The forbidden operators that a model names, each with the reason.

    forbidden: operator -> reason; a name without an overload stands for all overloads
    """
    return {
        operator: reason
        for operator in info.root_operators
        if (reason := forbidden.get(operator, forbidden.get(operator.qualified)))
    }


def require_allowed(
    info: ModelInfo,
    found: Mapping[OperatorName, str],
    places: Mapping[OperatorName, Sequence[Place]],
) -> None:
    """Raises `ForbiddenOperatorError` where a model names operators that it may not.

    places: where the model's source names them, as far as it is known
    """
    if not found:
        return
    users = _users(info, found)
    lines = [
        f"{operator}: {reason}; named in {users[operator]}"
        + "".join(f", at {place.file}:{place.line}" for place in places.get(operator, ()))
        for operator, reason in found.items()
    ]
    count = len(found)
    raise ForbiddenOperatorError(
        f"this model names {'an operator' if count == 1 else f'{count} operators'} "
        "that its app forbids",
        place=info.place,
        expected="none of those under `forbid:` in app.yaml",
        seen=_some(map(str, found)),
        hint="express that part of the model in other operators, or take them out of `forbid:`",
        details="\n".join(lines[:_MOST_SHOWN]),
    )


def file_operators(info: ModelInfo, asked: Collection[str] = ()) -> tuple[OperatorName, ...]:
    """The operators of a model that open files; asked: those that its app names under `extra:`."""
    return tuple(
        operator
        for operator in info.root_operators
        if operator.qualified in _OF_FILES and not {operator, operator.qualified} & {*asked}
    )


def require_no_files(
    info: ModelInfo,
    found: Sequence[OperatorName],
    places: Mapping[OperatorName, Sequence[Place]],
) -> None:
    """Raises `FileOperatorError` where there are such operators, before anything runs them.

    places: as in `require_allowed`
    """
    if not found:
        return
    users = _users(info, found)
    raise FileOperatorError(
        "this model opens files, with the rights of whoever runs it",
        place=info.place,
        expected="a model that computes from its arguments and weights",
        seen=_some(
            f"{operator} in {users[operator]}"
            + "".join(f", at {one.file}:{one.line}" for one in places.get(operator, ()))
            for operator in found
        ),
        hint="read the file outside of the model, and pass a tensor; if the app means it, name the"
        " operator under `extra:` in app.yaml, with the reason",
    )


def check_lapack(info: ModelInfo, lapack: Collection[str], runtime_version: str) -> None:
    """Raises `LapackMissingError` if the model names an operator of `lapack`, names without
    overloads: each of them fails wherever it is called."""
    wanted = [one for one in info.root_operators if one.qualified in lapack]
    if wanted:
        users = _users(info, wanted[:_MOST_SHOWN])
        raise _lapack_missing(
            "names",
            wanted,
            info.place,
            runtime_version,
            "\n".join(f"{operator}: named in {where}" for operator, where in users.items()),
        )


def require_no_lapack(
    failed_in: Sequence[str], lapack: Collection[str], place: Place, runtime_version: str
) -> None:
    """Raises `LapackMissingError` if a model failed in an operator of `lapack`.

    failed_in: operators, each of which called the next, where the error was raised
    """
    wanted = [name for name in failed_in if OperatorName(name).qualified in lapack]
    if wanted:
        path = ", which called ".join(failed_in)
        raise _lapack_missing("calls", wanted[:1], place, runtime_version, f"raised in {path}")


def _lapack_missing(
    verb: str, operators: Sequence[str], place: Place, runtime_version: str, details: str
) -> LapackMissingError:
    count = len(operators)
    return LapackMissingError(
        f"this model {verb} {'an operator' if count == 1 else f'{count} operators'} "
        "of LAPACK, which this runtime is built without",
        place=place,
        expected=f"operators of PyTorch {runtime_version} that have kernels without LAPACK",
        seen=_some(operators),
        hint="compute results of constants before the export; compute others outside of"
        " the model, or express them in other operators, such as the closed form for the inverse"
        " of a small matrix",
        details=details,
    )


@dataclass(frozen=True, order=True)
class Misfit:
    """An operator call with a number of arguments that the runtime's operator does not take.

    `method` is the first that does so.
    """

    operator: str
    arguments: int
    method: str
    takes: Arguments = field(compare=False)

    def __str__(self) -> str:
        return f"{self.operator} with {self.arguments} in {self.method}"


def misfits(info: ModelInfo, taken: Mapping[str, Arguments]) -> tuple[Misfit, ...]:
    """The calls of a model that the runtime loads and cannot execute; sorted.

    taken: operator -> arguments in the runtime; other operators are ignored.
    With too many the interpreter calls the operator with the last ones, and leaves the others where
    the result should be; with too few it fails where the call is reached
    (torch/csrc/jit/mobile/function.cpp, `makeOperatorFunction`). A call that no input reaches does
    no harm.
    """
    methods: dict[OperatorUse, str] = {}
    for function in info.functions:
        for use in function.operators:
            methods.setdefault(use, function.name)
    found = []
    for use, method in methods.items():
        takes = taken.get(str(use.operator))
        # below 0: the file does not say
        if takes and use.arguments not in (*range(takes.least, takes.most + 1), -1):
            found.append(Misfit(str(use.operator), use.arguments, method, takes))
    return tuple(sorted(found))


def require_arguments(
    found: Iterable[Misfit], reached: Collection[str], place: Place, runtime_version: str
) -> None:
    """Raises `ExtraArgumentsError` or `MissingArgumentsError` where `reached` has an operator of
    `found`: those that a model called, or failed in."""
    wrong = [misfit for misfit in found if misfit.operator in reached]
    extra = [misfit for misfit in wrong if misfit.arguments > misfit.takes.most]
    if not wrong:
        return
    if extra:
        error: type[OrchestratorError] = ExtraArgumentsError
        what = f"this model passes more arguments than PyTorch {runtime_version}'s operators take"
        limits = {misfit.operator: f"at most {misfit.takes.most}" for misfit in extra}
        # a constant that is the default is not written; a function's own parameter is no constant
        first = (
            "pass the scripted module through torch.jit.freeze before it is saved, which leaves out"
            " arguments that have their defaults; or "
        )
    else:
        error = MissingArgumentsError
        what = f"this model passes fewer arguments than PyTorch {runtime_version}'s operators need"
        limits = {misfit.operator: f"at least {misfit.takes.least}" for misfit in wrong}
        first = ""
    raise error(
        what,
        place=place,
        expected=_some(f"{name} with {limit}" for name, limit in limits.items()),
        seen=_some(str(misfit) for misfit in extra or wrong),
        hint=f"a newer PyTorch wrote it: {first}export it with PyTorch {runtime_version}, or write "
        "that part of the model in other operators",
    )


def check_classes(info: ModelInfo, usable: Collection[str], runtime_version: str) -> None:
    """Raises `UnusableClassError` if the model holds an object of a class outside of `usable`.

    usable: names such as `quantized.EmbeddingPackedParamsBase`. The loader makes such an object
    before anything runs, and crashes on one that it cannot create.
    """
    names = [name.removeprefix(_CLASSES) for name in info.custom_classes]
    missing = [name for name in names if name not in usable]
    if not missing:
        return
    packed = all(name.split(".")[0] in _PACKED for name in missing)
    raise UnusableClassError(
        f"this model holds objects that this build of PyTorch {runtime_version} cannot create",
        place=info.place,
        expected=f"objects of {', '.join(sorted(usable))}, or none" if usable else "none",
        seen=_some(missing),
        hint="these are weights packed for layers that QNNPACK, this runtime's quantised engine,"
        " does not have, such as convolutions in three dimensions and sparse ones: export these"
        " layers in float32"
        if packed
        else "they belong to a library that this runtime does not include: add its C++ to the app's"
        " `sources:`, or export the model without them",
    )


def check_own_classes(info: ModelInfo, own: Mapping[str, OwnClass], declared: str) -> None:
    """Raises `OwnClassError` if the model uses a class of the app's own, or of one of its
    namespaces, and the app's sources do not have it, its method, or what reads its objects.

    own: the classes by their names, such as `ink.Brush`; declared: the app's app.yaml
    """
    names = [name.removeprefix(_CLASSES) for name in info.custom_classes]
    namespaces = {name.partition(".")[0] for name in own}
    missing = [n for n in names if n not in own and n.partition(".")[0] in namespaces]
    if missing:
        raise OwnClassError(
            "this model uses a class that its app's own sources do not register",
            place=info.place,
            expected=f"the classes under `sources:` in {declared}: {_some(sorted(own))}",
            seen=_some(missing),
            hint="register it, by `class_<...>` and its name in quotes, in one of them",
        )
    for name in info.held_classes:
        held = own.get(name.removeprefix(_CLASSES))
        if held is not None and not held.may_have("__setstate__"):
            raise OwnClassError(
                "this model holds an object of a class that cannot be read from a file",
                place=info.place,
                expected="a class with `def_pickle`",
                seen=_registered(held),
                hint="add `.def_pickle(...)` to its registration, with the state that the model"
                " was exported with",
            )
    _check_methods(info, [own[name] for name in names if name in own], names)


def _check_methods(info: ModelInfo, used: Sequence[OwnClass], names: Sequence[str]) -> None:
    """Raises `OwnClassError` if no class has a method that the model calls by name."""
    # a class of the runtime's may have it: their methods are not known
    if not used or len(used) < len(names):
        return
    ours = {function.name for function in info.functions}
    for function in info.functions:
        for _, method in function.methods:
            if method not in ours and not any(one.may_have(method) for one in used):
                raise OwnClassError(
                    "this model calls a method that no class of its app's own has",
                    place=info.place,
                    expected=_some(f"{m} of {one.name}" for one in used for m in one.methods),
                    seen=f"{method[:_LONGEST]}, called in {function.name}; "
                    + _some(map(_registered, used)),
                    hint="add it to the registration, by `.def(...)` and its name in quotes, or"
                    " export the model with the sources as they are",
                )


def _registered(own: OwnClass) -> str:
    return f"{own.name}, registered at {own.place}" if own.place else own.name


def check_packings(
    info: ModelInfo, readable: Mapping[str, Collection[str]], runtime_version: str
) -> None:
    """Raises `UnknownPackingError` if weights of a class of `readable` are packed otherwise.

    readable: class -> versions of its format that the loader reads. It ends with an assertion that
    names neither at any other.
    """
    packings = [(name.removeprefix(_CLASSES), version) for name, version in info.packings]
    wrong = [
        (name, version)
        for name, version in packings
        if name in readable and version not in readable[name]
    ]
    if not wrong:
        return
    classes = dict.fromkeys(name for name, _ in wrong)
    raise UnknownPackingError(
        f"this model's weights are packed in a format that PyTorch {runtime_version} does not read",
        place=info.place,
        expected=_some(f"{name} of version {' or '.join(readable[name])}" for name in classes),
        seen=_some(f"{name} of version {version}" for name, version in wrong),
        hint="another PyTorch packed them: quantise and export the model with PyTorch"
        f" {runtime_version}, or with any that writes one of these versions",
    )


def _nearest(operator: OperatorName, known: list[OperatorName]) -> list[str]:
    """Other overloads of the same operator before names that only look alike."""
    same = [name for name in known if name.qualified == operator.qualified]
    # Without the namespace, which would make every two short names look alike.
    prefix = f"{operator.namespace}::"
    texts = [name.removeprefix(prefix) for name in known if name.namespace == operator.namespace]
    wanted = operator.removeprefix(prefix)
    alike = [prefix + text for text in difflib.get_close_matches(wanted, texts, n=_MOST_NEAR)]
    return list(dict.fromkeys((*same, *alike)))[:_MOST_NEAR]


def _users(info: ModelInfo, operators: Iterable[OperatorName]) -> Mapping[OperatorName, str]:
    """The first methods that name an operator, in file order: the model's own come before what
    bundling added."""
    names: dict[OperatorName, list[str]] = {operator: [] for operator in operators}
    for function in info.functions:
        for operator in dict.fromkeys(use.operator for use in set(function.operators)):
            if operator in names:
                names[operator].append(function.name)
    return {operator: _some(users, _MOST_USERS, " and") for operator, users in names.items()}


def _some(texts: Iterable[str], most: int = _MOST_SHOWN, before: str = ", and") -> str:
    """The first of some texts, clipped, and how many more there are: a hostile file has many."""
    every = list(texts)
    more = f"{before} {len(every) - most} more" if len(every) > most else ""
    return ", ".join(text[:_LONGEST] for text in every[:most]) + more


def _advice(
    missing: Iterable[OperatorName],
    namespaces: Collection[str],
    declared: str,
    *,
    general: bool,
) -> str:
    named = list(missing)
    off = sorted(SHIPPED_OPERATORS.intersection(named))
    texts = [_advice_on(operator, namespaces) for operator in named if operator not in off]
    if off:
        texts.insert(
            0, f"write `sources: {{operators: [{', '.join(off)}]}}` in {declared} to switch it on"
        )
    found = "; ".join(dict.fromkeys(text for text in texts if text))
    return found or (_GENERAL_ADVICE if general else "")


def _advice_on(operator: OperatorName, namespaces: Collection[str]) -> str | None:
    if operator.qualified in _ADVICE:
        return _ADVICE[operator.qualified]
    if operator.namespace in _NAMESPACE_ADVICE:
        return _NAMESPACE_ADVICE[operator.namespace]
    if operator.namespace in namespaces:
        return None
    return (
        f"{operator} belongs to a library other than PyTorch, which this runtime does not include: "
        "add its C++ to the app's `sources:`, or write that part of the model in PyTorch's own "
        "operators"
    )
