"""Judges whether a model fits a library that was built for other models, from its manifest. Pure.

A model fits *by the manifest* if the library's plan would be the same with this model in the app: a
build with both would then deliver the same library. So what the model's trace selects, with the
static closure of the operators that its inputs never ran (`policy.py`, guarded), must be in the
library's selection; and whatever else its root operators decide (backends, units that are excluded)
must already be decided the same way. Without a trace, the library must have the static closure of
all its operators: that is more than the model runs, and rare.

Nothing less counts as fitting. Neither trace nor manifest shows what a kernel calls for other
inputs or dtypes than the traced ones; the same holds for the app that the library was built for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain

from orchestrator.index.model import RuntimeIndex
from orchestrator.pytorch.dialect import Dialect
from orchestrator.select.backends import (
    cut_units,
    reachable_backends,
    tensor_kinds,
)
from orchestrator.select.closure import Reach, Registry, reach, registry
from orchestrator.select.needs import Needed, added_bytes, needed
from orchestrator.select.policy import select, static_selection, traced_selection
from orchestrator.select.tag_code import Switched, UnselectedDtypes, size_of_tag
from orchestrator.values.fits import Judgement, Lack, Need
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import ALL_CLASSES, ALL_DTYPES, Selection
from orchestrator.values.trace import Trace

_MODEL = "the model"
_WHO = frozenset({_MODEL})
# What a model without a trace computes in, most probably.
_USUAL = "Float"


@dataclass(frozen=True)
class Offer:
    """Contents of a library, by its manifest; see `deliver.manifest.SelectionFact`.

    roots, resolved  None if the manifest is older than these fields
    models           sha256 of the models that the library was built for
    left_out         operators without which it loads a model that cannot reach them
    """

    pytorch: str
    tree: str
    operators: frozenset[OperatorName]
    kernel_dtypes: Mapping[str, frozenset[str]]
    classes: frozenset[str]
    features: frozenset[str]
    roots: frozenset[OperatorName] | None
    resolved: frozenset[OperatorName] | None
    backends: tuple[str, ...]
    bytecode: tuple[int, int] | None
    archive: tuple[int, int] | None
    models: frozenset[str]
    left_out: frozenset[OperatorName] = frozenset()


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model, as one library needs it: see `Trace.loaded_by`.

    classes    custom classes of the objects in it, without their namespaces
    trace      record of what it used when it ran; None without a current one
    no_trace   reason why there is none
    faults     reasons why the runtime cannot run it, with any library: from static checks
    unchecked  what those checks could not examine
    upgraded   root operators that it uses in the meaning of an earlier PyTorch
    """

    sha256: str
    bytecode: int
    archive: int
    roots: frozenset[OperatorName]
    classes: frozenset[str]
    trace: Trace | None
    no_trace: str = ""
    faults: tuple[str, ...] = ()
    unchecked: str = ""
    upgraded: frozenset[OperatorName] = frozenset()


@dataclass(frozen=True)
class KnownRuntime:
    """A runtime whose index is at hand; `entry`: nodes that our own native code refers to."""

    dialect: Dialect
    index: RuntimeIndex
    entry: tuple[int, ...]
    _kept: dict[object, Registry] = field(default_factory=dict, compare=False, repr=False)
    _reached: dict[
        tuple[tuple[str, ...], OperatorName], tuple[frozenset[OperatorName], frozenset[str]]
    ] = field(default_factory=dict, compare=False, repr=False)
    _units: dict[object, frozenset[int]] = field(default_factory=dict, compare=False, repr=False)
    _sizes: dict[tuple[str, int], int] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def promoted(self) -> frozenset[OperatorName]:
        """The operators that every library registers."""
        always = self._always
        return frozenset(
            OperatorName.known(name)
            for number in always
            for name, _ in self.index.units[number].promoted
        )

    @cached_property
    def _always(self) -> tuple[int, ...]:
        paths = {one.unit for one in self.dialect.facts.always if not one.tracer_only}
        return tuple(n for n, unit in enumerate(self.index.units) if unit.path in paths)

    @cached_property
    def operators(self) -> frozenset[OperatorName]:
        """All that the runtime has, under any backend."""
        return frozenset(one.operator for one in self.index.registrations)

    def kernels(self, backends: Iterable[str], roots: Collection[OperatorName]) -> Registry:
        """The registrations that models with these root operators can reach."""
        wanted = reachable_backends(backends, roots)
        if wanted not in self._kept:
            self._kept[wanted] = registry(self.index, wanted, self.dialect.keys)
        return self._kept[wanted]

    def linked(
        self,
        operators: Iterable[OperatorName],
        roots: Collection[OperatorName],
        backends: Iterable[str],
        symbols: Iterable[str],
    ) -> tuple[Registry, Reach]:
        """The registrations that count for a library of these operators, and the walk of its plan.

        roots: those that its models name; symbols: PyTorch's, to which code refers that this
        library has of its own
        """
        kernels = self.kernels(backends, roots)
        walk = reach(
            self.index,
            kernels,
            entry={*self.entry, *self.index.defining(symbols)},
            operators=operators,
            units=self._always,
            cut=self._cut(roots),
            follow_calls=False,
        )
        return kernels, walk

    def static(
        self, operators: Iterable[OperatorName], offer: Offer, roots: Collection[OperatorName]
    ) -> Selection:
        """The static closure of operators, for the backends that models with the roots enter."""
        kernels = self.kernels(offer.backends, roots)
        return static_selection(self.index, kernels, operators, _MODEL)

    def _cut(self, roots: Collection[OperatorName]) -> tuple[int, ...]:
        cuts = cut_units(self.dialect.facts, roots)
        return tuple(n for n, unit in enumerate(self.index.units) if unit.path in cuts)

    def added(
        self, more: Collection[OperatorName], offer: Offer, roots: Collection[OperatorName]
    ) -> tuple[Mapping[OperatorName, int], int]:
        """About how many bytes each operator adds to a library, and all of them."""
        return added_bytes(
            self.index,
            self.kernels(offer.backends, roots),
            entry=self.entry,
            operators=sorted(offer.operators),
            units=self._always,
            cut=self._cut(roots),
            more=sorted(more),
        )

    def grown(
        self,
        more: Collection[OperatorName],
        dtypes: Mapping[str, Collection[str]],
        offer: Offer,
        roots: Collection[OperatorName],
        trace: Trace | None,
    ) -> tuple[tuple[int, Switched], tuple[int, Switched]]:
        """Bytes of the index that a library needs, and of these the code for dtypes; before and
        after it gets more operators and dtypes. roots, trace: of the model that needs them.

        With a trace of this runtime, a library has what a build selects by it, also for operators
        that no input ran. Without one nobody knows the dtypes of a new switch: it counts with one.
        """
        own, wanted = offer.roots or offer.operators, Selection()
        every = own | {*roots}
        if trace is not None and trace.identity.runtime != offer.tree:
            trace = None
        if trace is not None:
            wanted = select(self.index, self.kernels(offer.backends, every), [trace], "guarded")
        more = {*more, *wanted.operators}
        dtypes = {
            tag: {*dtypes.get(tag, ()), *wanted.kernel_dtypes.get(tag, ())}
            for tag in (*dtypes, *wanted.kernel_dtypes)
        }
        before = self._needed(offer, own, offer.operators)
        after = self._needed(offer, every, offer.operators | more)
        new = (self.index.kernel_tags[node] for node in after.switches - before.switches)
        usual = {} if trace else dict.fromkeys(chain.from_iterable(new), (_USUAL,))
        hot = frozenset(trace.hot_tags if trace else ())
        units = {n for n, unit in enumerate(self.index.units) if not hot.isdisjoint(unit.tags)}
        code = partial(self._switched, units)
        return (
            (before.bytes, code(before.switches, offer.kernel_dtypes)),
            (after.bytes, code(after.switches, {**usual, **dtypes})),
        )

    def _needed(
        self, offer: Offer, roots: Collection[OperatorName], operators: Collection[OperatorName]
    ) -> Needed:
        return needed(
            self.index,
            self.kernels(offer.backends, roots),
            entry=self.entry,
            operators=sorted(operators),
            units=self._always,
            cut=self._cut(roots),
            follow_calls=False,
        )

    def _switched(
        self, hot: set[int], switches: frozenset[int], dtypes: Mapping[str, Collection[str]]
    ) -> Switched:
        selected = {tag: dict.fromkeys(of, _WHO) for tag, of in dtypes.items()}
        return self._dtypes.switched(switches, Selection(kernel_dtypes=selected), hot)

    @cached_property
    def _dtypes(self) -> UnselectedDtypes:
        return UnselectedDtypes(self.index)

    def callers(
        self, lack: Lack, roots: Collection[OperatorName], offer: Offer
    ) -> tuple[OperatorName, ...]:
        """The root operators whose static closure has an operator or a kernel tag."""
        kernels = self.kernels(offer.backends, roots)
        found = []
        for root in sorted(roots):
            key = (reachable_backends(offer.backends, roots), root)
            if key not in self._reached:
                walk = needed(self.index, kernels, entry=(), operators=(root,), follow_calls=True)
                self._reached[key] = (walk.operators, walk.tags)
            operators, tags = self._reached[key]
            if lack.name in (tags if lack.kind == "kernel tag" else operators):
                found.append(root)
        return tuple(found)

    def tag_bytes(self, tag: str, offer: Offer, roots: Collection[OperatorName]) -> int:
        """At most how many bytes the code of a kernel tag has in a library."""
        key = (offer.backends, offer.operators)
        if key not in self._units:
            self._units[key] = self._needed(offer, roots, offer.operators).units
        return sum(
            self._size_of_tag(tag, number)
            for number in sorted(self._units[key])
            if tag in self.index.units[number].tags
        )

    def _size_of_tag(self, tag: str, unit: int) -> int:
        if (tag, unit) not in self._sizes:
            self._sizes[tag, unit] = size_of_tag(self.index, tag, unit)
        return self._sizes[tag, unit]


def judge(model: ModelFacts, offer: Offer, runtime: Callable[[], KnownRuntime | None]) -> Judgement:
    """Judge by a library's manifest whether a model fits it.

    runtime: returns the library's runtime; None if we ship no index of it
    """
    trace = model.trace if model.trace and model.trace.identity.runtime == offer.tree else None
    lacks = tuple(_lacks(model, offer, trace, runtime))
    if lacks:
        return Judgement("does not fit", "the library lacks what it needs", lacks)
    if model.sha256 in offer.models:
        return Judgement("by manifest", "the library was built for exactly this model")
    if model.upgraded:
        named = ", ".join(sorted(model.upgraded))
        return _unknown(f"it means by {named} what an earlier PyTorch did: few libraries know that")
    if offer.roots is None or offer.resolved is None or not offer.backends:
        return _unknown("its manifest is older than what this takes")
    selected = None if trace is None else traced_selection(trace)
    rest = trace.unrun_operators if trace else tuple(sorted(model.roots))
    if rest or not model.roots <= offer.roots:
        return _by_index(model, offer, trace, selected, rest, runtime())
    assert trace is not None
    other = _other_backends(trace, offer, model.roots)
    if other:
        return _unknown(other)
    return Judgement("by manifest", "it has all that the model's trace names")


def _by_index(
    model: ModelFacts,
    offer: Offer,
    trace: Trace | None,
    selected: Selection | None,
    rest: tuple[OperatorName, ...],
    runtime: KnownRuntime | None,
) -> Judgement:
    """The same, where the trace alone does not tell."""
    why = model.no_trace if model.trace is None else "its trace was made with another runtime"
    if runtime is None:
        known = "its trace is not enough" if trace else why
        return _unknown(f"{known}, and no index of the library's PyTorch is at hand")
    assert offer.roots is not None
    if tensor_kinds(offer.roots | model.roots) != tensor_kinds(offer.roots):
        return _unknown("the library omits code that only models with other operators reach")
    if trace is not None and (other := _other_backends(trace, offer, model.roots)):
        return _unknown(other)
    if selected is None and model.unchecked:
        return _unknown(f"{why}, and {model.unchecked}")
    closure = runtime.static(rest, offer, offer.roots | model.roots) if rest else Selection()
    lacks = tuple(_uncovered(closure, offer, runtime, "possible"))
    if trace is None:
        if not lacks:
            return Judgement("by manifest", "it has all that the model's operators may call")
        return _unknown(f"{why}, and static analysis alone cannot tell", lacks)
    if not lacks:
        return Judgement("by manifest", "it has all that the model's trace names")
    named = ", ".join(rest[:3]) + (f" and {len(rest) - 3} more" if len(rest) > 3 else "")
    return _unknown(f"no input of its trace ran {named}", lacks)


def _unknown(reason: str, unknown: tuple[Lack, ...] = ()) -> Judgement:
    return Judgement("unknown", reason, unknown=unknown)


def _other_backends(trace: Trace, offer: Offer, roots: Collection[OperatorName]) -> str:
    """Why a trace says nothing of a library with other backends."""
    traced = reachable_backends(trace.identity.backends, roots)
    has = reachable_backends(offer.backends, offer.roots or ())
    missing = [name for name in traced if name not in has]
    return f"its trace is of the backend {', '.join(missing)} too" if missing else ""


def _lacks(
    model: ModelFacts,
    offer: Offer,
    trace: Trace | None,
    runtime: Callable[[], KnownRuntime | None],
) -> Iterator[Lack]:
    """Yield what the library lacks for certain: requirements of loading the model, and what the
    model used when it was traced."""
    yield from (Lack("model", fault, "named") for fault in model.faults)
    for what, version, has in (
        ("bytecode", model.bytecode, offer.bytecode),
        ("archive", model.archive, offer.archive),
    ):
        if has is not None and not has[0] <= version <= has[1]:
            note = f"the library loads {has[0]} to {has[1]}"
            yield Lack("runtime", f"{what} version {version}", "named", note=note)
    named = model.roots - (offer.operators - (offer.resolved or frozenset()))
    known = runtime() if named else None
    promoted = known.promoted if known else frozenset[OperatorName]()
    yield from (
        Lack("operator", name, "named", note=_note(name, offer, known))
        for name in sorted(named - promoted)
    )
    if ALL_CLASSES not in offer.classes:
        for name in sorted(model.classes - offer.classes):
            yield Lack("custom class", name, "named")
    if trace is not None:
        traced = _uncovered(traced_selection(trace), offer, known, "called")
        yield from (
            one
            for one in traced
            # reported already
            if not (one.kind == "operator" and one.name in model.roots)
            and not (one.kind == "custom class" and one.name in model.classes)
        )


def _note(name: OperatorName, offer: Offer, runtime: KnownRuntime | None) -> str:
    if name in (offer.resolved or ()):
        return "only code calls it there: a model cannot name it"
    if runtime is not None and name not in runtime.operators:
        return f"PyTorch {offer.pytorch} does not have it"
    return ""


def _uncovered(
    wanted: Selection, offer: Offer, runtime: KnownRuntime | None, reason: Need
) -> Iterator[Lack]:
    """Yield the entries of a selection that a library does not have."""
    promoted = runtime.promoted if runtime else frozenset[OperatorName]()
    yield from (
        Lack("operator", name, reason)
        for name in sorted(wanted.operators.keys() - offer.operators - promoted)
    )
    for tag in sorted(wanted.kernel_dtypes):
        has = offer.kernel_dtypes.get(tag, frozenset())
        missing = () if ALL_DTYPES in has else sorted(wanted.kernel_dtypes[tag].keys() - has)
        if missing:
            yield Lack("kernel tag", tag, reason, dtypes=tuple(missing), has=tuple(sorted(has)))
    if ALL_CLASSES not in offer.classes:
        for name in sorted(wanted.custom_classes.keys() - offer.classes):
            yield Lack("custom class", name, reason)
    for name in sorted(wanted.build_features.keys() - offer.features):
        yield Lack("build feature", name, reason)


def added(
    model: ModelFacts, offer: Offer, lacks: Collection[Lack], runtime: KnownRuntime
) -> tuple[Mapping[Lack, tuple[int, bool]], int | None]:
    """About what each lack would add to a library, and whether that is only a bound; and all of
    them together. Operators that the runtime does not have cannot be added: then there is no sum.
    """
    roots = (offer.roots or offer.operators) | model.roots
    names = {
        OperatorName(one.name)
        for one in lacks
        if one.kind == "operator" and one.name in runtime.operators
    }
    each, total = runtime.added(names, offer, roots)
    found: dict[Lack, tuple[int, bool]] = {}
    for one in lacks:
        if one.kind == "operator" and one.name in each:
            found[one] = (each[OperatorName(one.name)], False)
        # the code of a tag that is all new comes with its operators
        elif one.kind == "kernel tag" and one.has:
            size = runtime.tag_bytes(one.name, offer, roots)
            found[one] = (size, True)
            total += size
    addable = all(one in found or one.kind not in ("operator", "model", "runtime") for one in lacks)
    return found, total if addable else None
