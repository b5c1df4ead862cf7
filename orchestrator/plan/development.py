"""The contents of the development library's base: everything of the runtime except operators'
kernels. The base is the same for every model. Pure.

A unit is in the base or in shards, never in both. All definitions of the base's units are kept,
even unreferenced ones, unless they need further units. So no variable exists twice, and no
initialiser runs twice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.index.model import COMDAT, RuntimeIndex, aliases
from orchestrator.plan.planner import Planner
from orchestrator.plan.variant import VariantPlan, VariantSpec
from orchestrator.select.closure import Registry
from orchestrator.select.needs import needed
from orchestrator.select.policy import recorded_selection
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import ALL_TAGS, ANY_OPERATOR, Selection

# What the base is called where an app's library has its name: in files and exported symbols.
NAME = "development"
# What kernels call to tell observers of their dtypes where they are compiled for tracing; the index
# has them without (at::detail::record_kernel_function_dtype, ATen/Dispatch.cpp).
RECORDING = (
    "_ZN2at6detail28record_kernel_function_dtypeE"
    "NSt3__112basic_stringIcNS1_11char_traitsIcEENS1_9allocatorIcEEEE",
)
# What unoptimised code calls and optimised code, of which the index is made, has inline: it is for
# sizes that are no numbers (c10::SymInt::SymInt(int64_t), c10/core/SymInt.h).
NOT_INLINE = ("_ZN3c106SymInt19promote_to_negativeEv",)
# A function that zig's compiler-rt alone has, the quotient of numbers of 128 bits. One reference
# brings all of it, such as the `exp` and `log` of tracers, whose last bits are not the system's.
COMPILER_RT = "__udivti3"
# Of PyTorch's classes: tables of virtual functions, which shards' objects point to.
_TABLES = "_ZTV"
# Tables, type information and their names, guards; see 5.1.4 of the Itanium C++ ABI.
_DATA = ("_ZTV", "_ZTI", "_ZTS", "_ZTT", "_ZGV")
# A function's mangled name goes on behind the nested name's `E` with its parameters' types.
_PARAMETERS = re.compile(r"E[A-Za-z]")
_LENGTH = re.compile(r"\d+")
# The folders of PyTorch's core: tensors, the dispatcher and the hooks of autograd, without kernels.
_CORE = ("c10/", "aten/src/ATen/core/")


# The dtypes that a shard's kernels have at first: those that nearly all kernels of models run in.
USUAL_DTYPES = frozenset({"Bool", "Float", "Int", "Long"})


@dataclass(frozen=True)
class BasePlan:
    """The base's units, and what it is told of registrations.

    kept       symbols of the runtime's index that its link keeps whatever refers to them
    own        the registrations of its own calls without the dispatcher
    entries    its typed entry points, and those of the recorder's set-up calls: each asks the
               dispatcher, since shards bring the kernels
    """

    plan: VariantPlan
    kept: tuple[str, ...]
    own: RegistrationRequest
    entries: RegistrationRequest

    @property
    def called(self) -> frozenset[OperatorName]:
        """The operators whose typed entry points the base defines."""
        return frozenset(self.entries.calls)


def usual_dtypes(selection: Selection, wide: Collection[str]) -> Selection:
    """A selection of all dtypes with the usual ones alone, but for the kernel tags in `wide` and
    for units that compute the names of theirs."""
    usual = dict.fromkeys(sorted(USUAL_DTYPES), frozenset({NAME}))
    kept = {*wide, ALL_TAGS}
    dtypes = {
        tag: every if tag in kept else usual for tag, every in selection.kernel_dtypes.items()
    }
    return replace(selection, kernel_dtypes=dtypes)


def of_tags(selection: Selection, tags: Collection[str]) -> Selection:
    """A selection with these kernel tags alone; units that compute the names of theirs keep all.

    A kernel whose tag is left out costs no time to compile. One that runs nevertheless says so by
    its tag, as one that lacks a dtype does.
    """
    kept = {*tags, ALL_TAGS}
    dtypes = {tag: its for tag, its in selection.kernel_dtypes.items() if tag in kept}
    return replace(selection, kernel_dtypes=dtypes)


def wide_tags(kernel_dtypes: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """The kernel tags that ran in a dtype outside of `USUAL_DTYPES`: shards compile these for all
    dtypes."""
    return frozenset(
        tag for tag, dtypes in kernel_dtypes.items() if not USUAL_DTYPES.issuperset(dtypes)
    )


def exported_symbols(
    index: RuntimeIndex, extension: Collection[str], layered: Collection[str]
) -> tuple[str, ...]:
    """Symbols that the base of a runtime exports if it defines them; sorted.

    extension, layered: symbols that an extensible library exports, by the runtime's index and by
    that index with an app's own sources, which may call functions that no code of PyTorch calls
    """
    missing = frozenset(layered).difference(extension)
    if not missing:
        return tuple(extension)
    own = {name for node in index.names for name in aliases(node.split("@", 1)[0])}
    return tuple(sorted({*extension, *(missing & own)}))


def own_operators(
    index: RuntimeIndex, kernels: Registry, operators: Iterable[OperatorName], own: Collection[str]
) -> frozenset[OperatorName]:
    """Operators out of `operators` that an app's own units register; `own`: paths of these
    units."""
    return frozenset(
        name
        for name in operators
        if any(index.units[one.unit].path in own for one in kernels.kernels(name))
    )


def every_dtype(index: RuntimeIndex, kernels: Registry) -> Selection:
    """No operator, and all dtypes, classes and features: so objects do not depend on a model."""
    whole = recorded_selection(index, kernels, (), NAME, entry=(), units=(), cut=())
    return replace(whole, operators={}, root_operators=frozenset())


def plan_base(
    planner: Planner, kernels: Registry, spec: VariantSpec, exported: Collection[str]
) -> BasePlan:
    """The base of a runtime.

    spec: as a tracer's, with its entry symbols; exported: the symbols that it exports, where it has
    them
    """
    index = planner.index
    # operators come as models call them, and of some that a model names there are none
    left_out = {ANY_OPERATOR: frozenset({NAME})}
    selection = replace(every_dtype(index, kernels), left_out=left_out)
    calls = entered_operators(index, spec.entry)
    spec = replace(spec, entry=frozenset(spec.entry - calls.keys()))
    found = planner.walk(kernels, selection, spec)
    owners = {index.owners[node] for node in found.parents} - {COMDAT}
    selected = planner.facts.dialect.generated.selected
    found_units = {unit for unit in owners if not index.units[unit].path.startswith(selected)}
    units = with_core(index, found_units)
    kept = kept_symbols(index, units, exported)
    whole = planner.plan(kernels, selection, replace(spec, entry=spec.entry | frozenset(kept)))
    request = whole.request
    entries = tuple(sorted({*request.calls, *calls.values()}))
    return BasePlan(
        whole, kept, replace(request, calls=()), RegistrationRequest(entries, entries, ())
    )


def entered_operators(index: RuntimeIndex, entry: Collection[str]) -> dict[str, OperatorName]:
    """The operators that our own code calls: typed entry point -> operator, of those in `entry`."""
    calls = {
        index.names[node].split("@", 1)[0]: operator
        for node, operator in index.operator_calls.items()
    }
    return {symbol: calls[symbol] for symbol in entry if symbol in calls}


def with_core(index: RuntimeIndex, units: Collection[int]) -> frozenset[int]:
    """`units`, and those of PyTorch's core that they refer to, themselves or through each other.

    A function that needs a unit outside of the base is not in the base, and no shard compiles a
    unit of the base. Nothing in the core is a kernel, so it belongs to the base.
    """
    core = {n for n, unit in enumerate(index.units) if unit.path.startswith(_CORE)}
    here = {COMDAT, *core, *units}
    waiting = [node for node in range(len(index.names)) if index.owners[node] in units]
    seen = set(waiting)
    while waiting:
        for target in index.targets(waiting.pop()):
            outside = index.owners[target] not in here or target in index.operator_calls
            if target not in seen and not outside:
                seen.add(target)
                waiting.append(target)
    return frozenset(units) | {index.owners[node] for node in seen} - {COMDAT}


def kept_symbols(
    index: RuntimeIndex, units: Collection[int], exported: Collection[str]
) -> tuple[str, ...]:
    """The functions, and tables of virtual ones, of those that are to be exported, that `units`
    define and that need no other unit, sorted. A typed entry point is any plan's own, and no unit.
    """
    callers: dict[int, list[int]] = {}
    outside = []
    for node, owner in enumerate(index.owners):
        if node in index.operator_calls:
            continue
        if owner >= 0 and owner not in units:
            outside.append(node)  # what it refers to does not matter
            continue
        for target in index.targets(node):
            callers.setdefault(target, []).append(node)
    reaching = set(outside)
    while outside:
        for node in callers.get(outside.pop(), ()):
            if node not in reaching:
                reaching.add(node)
                outside.append(node)
    named = frozenset(exported)
    found = {
        index.names[node].split("@", 1)[0]
        for node in range(len(index.names))
        if index.owners[node] in units and node not in reaching
    }
    return tuple(sorted(filter(_can_be_kept, found & named)))


def _can_be_kept(symbol: str) -> bool:
    """True if the address of a symbol can be taken as any other's: by its name a function or a
    table, and no thread-local variable. A wrong guess is harmless: data is only kept in addition,
    and the linker refuses a thread-local variable."""
    named = symbol.startswith(_TABLES) or _is_function(symbol)
    return named and symbol.isidentifier() and symbol.isascii()


def _is_function(symbol: str) -> bool:
    if not symbol.startswith("_Z") or symbol.startswith(_DATA) or _is_plain_datum(symbol):
        return False
    # a static member of the template DispatchStub
    return not symbol.endswith("7DEFAULTE") and _PARAMETERS.search(symbol) is not None


def _is_plain_datum(symbol: str) -> bool:
    """`_ZN2at8indexing8EllipsisE`: nothing follows a nested name of identifiers."""
    at = len("_ZN")
    while length := _LENGTH.match(symbol, at):
        at = length.end() + int(length[0])
    return symbol.startswith("_ZN") and symbol[at:] == "E"


def keeping_text(symbols: Iterable[str]) -> str:
    """The unit that keeps symbols in a link that drops what nothing refers to, and compiler-rt,
    which is left out where it can be (`compilers/relink.py`)."""
    names = list(symbols)
    declared = (
        f'extern const char kept_{number} __asm__("{name}") __attribute__((weak));'
        for number, name in enumerate(names)
    )
    lines = [
        "// Keeps what shards may refer to. Weak: a function that was inlined everywhere is gone.",
        'extern "C" {',
        *declared,
        f'extern const char compiler_rt __asm__("{COMPILER_RT}");',
        "__attribute__((used, retain)) const char* const lta_kept[] = {",
        "    &compiler_rt,",
        *(f"    &kept_{number}," for number in range(len(names))),
        "    nullptr,",
        "};",
        "}",
    ]
    return "\n".join(lines) + "\n"


def guess(
    roots: Iterable[OperatorName], closure: Collection[str], called: Collection[OperatorName]
) -> frozenset[OperatorName]:
    """The operators that a model probably calls: those it names, and of those that they may call
    the ones that other models were seen to."""
    return frozenset(roots) | frozenset(name for name in called if name in closure)


def with_known_code(
    index: RuntimeIndex,
    kernels: Registry,
    operators: Collection[OperatorName],
    closure: Collection[OperatorName],
    there: Collection[str],
) -> frozenset[OperatorName]:
    """`operators`, and those of `closure` that need no unit and no kernel tag besides: their code
    is compiled anyway, and one that comes up missing costs a link and another run.

    there: the paths of units that are compiled already
    """
    chosen = frozenset(operators)
    units, tags = _needed(index, kernels, chosen)
    units |= {n for n, unit in enumerate(index.units) if unit.path in there}
    more = {name: _needed(index, kernels, (name,)) for name in frozenset(closure) - chosen}
    return chosen | {name for name, one in more.items() if one[0] <= units and one[1] <= tags}


def _needed(
    index: RuntimeIndex, kernels: Registry, operators: Iterable[OperatorName]
) -> tuple[frozenset[int], frozenset[str]]:
    """The units and kernel tags that these operators need without a call of another."""
    found = needed(index, kernels, entry=(), operators=operators, follow_calls=False)
    tags = (index.kernel_tags.get(node, ()) for node in found.switches)
    return found.units, frozenset(tag for some in tags for tag in some)


def groups_of(
    operators: Collection[OperatorName], known: Sequence[frozenset[OperatorName]]
) -> tuple[frozenset[OperatorName], ...]:
    """Operators in groups that are registered by objects of their own: those that earlier runs made
    objects for, as far as they fit, and one group of the rest.

    So a model with an operator more recompiles the registration of that one alone.
    """
    left, found = set(operators), []
    for group in sorted(known, key=lambda one: (-len(one), sorted(one))):
        if group and group <= left:
            found.append(group)
            left -= group
    if left:
        found.append(frozenset(left))
    return tuple(found)
