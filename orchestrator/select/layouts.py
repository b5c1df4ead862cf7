"""Selects what operators use for sizes and layouts of tensors that were not traced.

Pure. A slice, a tensor in channels-last order and one without elements are no new operators: an
operator's own code, which is reached without a call of another operator, switches on other kernel
tags for them, and calls some operators that a trace did not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from orchestrator.index.model import Registration, RuntimeIndex
from orchestrator.pytorch.versions import LayoutsData
from orchestrator.select.closure import Registry
from orchestrator.values.operators import OperatorName
from orchestrator.values.same import Same
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace

# Registered so, an operator is the interpreter's own: it takes tensors of all layouts.
_INTERPRETED = frozenset({"jit", "promoted", "schema"})
_COPY = OperatorName("aten::copy_")
_FLOATS = frozenset({"BFloat16", "Double", "Float", "Half"})


@dataclass(frozen=True)
class _OwnCode:
    """The operators that it calls, and the kernel tags that it switches on, by unit."""

    calls: frozenset[OperatorName]
    tags: Mapping[int, frozenset[str]]


def of_other_layouts(
    index: RuntimeIndex, kernels: Registry, trace: Trace, data: LayoutsData
) -> Selection:
    """Selection of what the operators that ran use for other layouts, in the dtypes of their
    traces.

    Tags in `data.tags` count, and all tags of an operator that is added and computes. A tag gets
    the dtypes that were traced for any tag that counts of the same operator; beside a tag of a
    copy, all dtypes that the model computes in; and where that is none, those of an operator that
    computes get the floating-point dtypes that the model computes in.
    """
    ran = trace.called_operators.keys()
    new, left = set[OperatorName](), list(ran)
    code = dict[OperatorName, _OwnCode]()
    wanted = frozenset(map(OperatorName.known, data.calls))
    computing = frozenset(map(OperatorName.known, data.computing))
    while left:
        operator = left.pop()
        code[operator] = own = _own_code(index, kernels, operator)
        of_its_own = map(OperatorName.known, data.by_operator.get(str(operator), ()))
        more = (own.calls & wanted.union(of_its_own)) - ran - new
        new |= more
        left += more
    copies = frozenset[str]().union(*_own_code(index, kernels, _COPY).tags.values())
    computed = _dtypes(trace, trace.kernel_tags.keys() - copies)
    dtypes = dict[str, set[str]]()
    for operator, own in code.items():
        counted = frozenset(filter(_among(data.tags), frozenset[str]().union(*own.tags.values())))
        traced = _dtypes(trace, counted - copies)
        for of_unit in own.tags.values():
            computes = operator in new and operator in computing
            tags = of_unit if computes else of_unit & counted
            found = computed if tags & copies else traced
            if computes:
                found = found or computed & _FLOATS
            for tag in tags:
                dtypes.setdefault(tag, set()).update(found)
    who = frozenset({trace.model})
    return Selection(
        operators=dict.fromkeys(sorted(new), who),
        kernel_dtypes={
            tag: dict.fromkeys(sorted(dtypes[tag]), who) for tag in sorted(dtypes) if dtypes[tag]
        },
    )


def _dtypes(trace: Trace, tags: Iterable[str]) -> frozenset[str]:
    """Dtypes that were traced for any of these tags."""
    return frozenset[str]().union(*(trace.kernel_tags.get(tag, ()) for tag in tags))


def _among(globs: Iterable[str]) -> Callable[[str], bool]:
    return lambda tag: any(fnmatchcase(tag, glob) for glob in globs)


def _own_code(index: RuntimeIndex, kernels: Registry, operator: OperatorName) -> _OwnCode:
    registrations = kernels.kernels(operator)
    if all(one.key in _INTERPRETED for one in registrations):
        return _OwnCode(frozenset(), {})
    key = (Same(index), "own code", operator, registrations)
    found = kernels.kept.get(key)
    if not isinstance(found, _OwnCode):
        found = kernels.kept[key] = _find(index, registrations)
    return found


def _find(index: RuntimeIndex, registrations: Iterable[Registration]) -> _OwnCode:
    left = [node for one in registrations for node in one.targets]
    seen, calls, tags = set(left), set[OperatorName](), dict[int, set[str]]()
    while left:
        node = left.pop()
        called = index.operator_calls.get(node)
        if called is not None:
            calls.add(called)
            continue
        if node in index.kernel_tags:
            tags.setdefault(index.owners[node], set()).update(index.kernel_tags[node])
        new = set(index.targets(node)) - seen
        seen |= new
        left += new
    return _OwnCode(frozenset(calls), {unit: frozenset(some) for unit, some in tags.items()})
