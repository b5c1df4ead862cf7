"""Selects what operators use for sizes and layouts of tensors that were not traced.

Pure. A slice, a tensor in channels-last order and one without elements are no new operators: an
operator's own code, which is reached without a call of another operator, switches on other kernel
tags for them, and calls some operators that a trace did not see.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain

from orchestrator.index.model import Registration, RuntimeIndex
from orchestrator.pytorch.versions import LayoutsData
from orchestrator.select.closure import Registry
from orchestrator.select.needs import Registrations
from orchestrator.values.operators import OperatorName
from orchestrator.values.same import Same
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace

# Registered so, an operator is the interpreter's own: it takes tensors of all layouts.
_INTERPRETED = frozenset({"jit", "promoted", "schema"})
_COPY = OperatorName("aten::copy_")
_FLOATS = frozenset({"BFloat16", "Double", "Float", "Half"})
_OF_QNNPACK = frozenset({"QUInt8"})


@dataclass(frozen=True)
class _OwnCode:
    """The operators that it calls, the kernel tags that it switches on, and those by unit."""

    calls: frozenset[OperatorName]
    tags: frozenset[str]
    of_units: tuple[frozenset[str], ...]


def of_other_layouts(
    index: RuntimeIndex, kernels: Registry, trace: Trace, data: LayoutsData
) -> Selection:
    """Selection of what the operators that ran use for other layouts, in the dtypes of their
    traces.

    Tags in `data.tags` count, and all tags of an operator that is added and computes. A tag gets
    the dtypes that were traced for any tag that counts of the same operator; beside a tag of a
    copy, all dtypes that the model computes in; and where that is none, those of an operator that
    computes get the floating-point dtypes that the model computes in. A tag in
    `data.beside_qnnpack` has the dtype of QNNPACK, if the model computes in it.
    """
    ran = trace.called_operators.keys()
    new, left = set[OperatorName](), list(ran)
    codes, code = _own_codes(index, kernels), dict[OperatorName, _OwnCode]()
    wanted = frozenset(map(OperatorName.known, data.calls))
    computing = frozenset(map(OperatorName.known, data.computing))
    while left:
        operator = left.pop()
        code[operator] = own = codes[operator]
        of_its_own = map(OperatorName.known, data.by_operator.get(str(operator), ()))
        more = (own.calls & wanted.union(of_its_own)) - ran - new
        new |= more
        left += more
    copies = codes[_COPY].tags
    counting = _counting(index, kernels, data)
    of_trace = frozenset(trace.kernel_tags)
    computed = _dtypes(trace, of_trace - copies)
    of_qnnpack = computed & _OF_QNNPACK
    dtypes = dict[str, set[str]]()
    for operator, own in code.items():
        counted = own.tags & counting
        traced = _dtypes(trace, (counted & of_trace) - copies)
        for of_unit in own.of_units:
            computes = operator in new and operator in computing
            tags = of_unit if computes else of_unit & counted
            found = computed if tags & copies else traced
            if computes:
                found = found or computed & _FLOATS
            for tag in tags if found else ():
                dtypes.setdefault(tag, set()).update(found)
        for tag in own.tags.intersection(data.beside_qnnpack) if of_qnnpack else ():
            dtypes.setdefault(tag, set()).update(of_qnnpack)
    who = frozenset({trace.model})
    return Selection(
        operators=dict.fromkeys(sorted(new), who),
        kernel_dtypes={tag: dict.fromkeys(sorted(dtypes[tag]), who) for tag in sorted(dtypes)},
    )


def _dtypes(trace: Trace, tags: Iterable[str]) -> frozenset[str]:
    """Dtypes that were traced for any of these traced tags."""
    return frozenset[str]().union(*map(trace.kernel_tags.__getitem__, tags))


def _counting(index: RuntimeIndex, kernels: Registry, data: LayoutsData) -> frozenset[str]:
    """The runtime's kernel tags that count for other layouts."""
    key = (Same(index), "counting", tuple(data.tags))
    found = kernels.kept.get(key)
    if not isinstance(found, frozenset):
        every = frozenset(chain.from_iterable(index.kernel_tags.values()))
        some = (tag for tag in every if any(fnmatchcase(tag, glob) for glob in data.tags))
        found = kernels.kept[key] = frozenset(some)
    return found


class _OwnCodes(dict[OperatorName, _OwnCode]):
    """The own code of a registry's operators, found when it is first asked for."""

    def __init__(self, index: RuntimeIndex, registrations: Registrations) -> None:
        self._index = index
        self._registrations = registrations

    def __missing__(self, operator: OperatorName) -> _OwnCode:
        registrations = self._registrations.get(operator, ())
        if all(one.key in _INTERPRETED for one in registrations):
            registrations = ()
        found = self[operator] = _find(self._index, registrations)
        return found


def _own_codes(index: RuntimeIndex, kernels: Registry) -> _OwnCodes:
    """Memoised with the registry."""
    key = (Same(index), "own code", Same(kernels.by_operator))
    found = kernels.kept.get(key)
    if not isinstance(found, _OwnCodes):
        found = kernels.kept[key] = _OwnCodes(index, kernels.by_operator)
    return found


def _find(index: RuntimeIndex, registrations: Iterable[Registration]) -> _OwnCode:
    leading = index.calling_or_switching
    seen = {node for one in registrations for node in one.targets if node in leading}
    left, calls, tags = list(seen), set[OperatorName](), dict[int, set[str]]()
    while left:
        node = left.pop()
        called = index.operator_calls.get(node)
        if called is not None:
            calls.add(called)
            continue
        if node in index.kernel_tags:
            tags.setdefault(index.owners[node], set()).update(index.kernel_tags[node])
        new = leading.intersection(index.targets(node)) - seen
        seen |= new
        left += new
    of_units = tuple(map(frozenset, tags.values()))
    return _OwnCode(frozenset(calls), frozenset[str]().union(*of_units), of_units)
