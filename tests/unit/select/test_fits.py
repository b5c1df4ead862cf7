"""Whether a model fits a library, by its manifest: no false yes, and what lacks is told."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest
from shipped_fits import model_facts, offer_of, plan_of, plan_with, runtime
from shipped_index import app_traces, kernels_for, shipped
from variants import every_operator

from orchestrator.plan.variant import VariantPlan
from orchestrator.select.fits import KnownRuntime, ModelFacts, Offer, added, judge
from orchestrator.select.policy import static_selection
from orchestrator.select.tag_code import UnselectedDtypes
from orchestrator.size.estimate import Code, code_of, grown_bytes
from orchestrator.values.fits import Judgement, Lack
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace

APPS = ("assistant", "camera", "keyboard", "listener", "reader", "scanner")
TRACES = {app: app_traces(app) for app in APPS}


def judged(model: ModelFacts, offer: Offer, known: KnownRuntime | None = None) -> Judgement:
    return judge(model, offer, lambda: known or runtime())


def same_library(plan: VariantPlan, other: VariantPlan) -> bool:
    """Whether two plans are of one library: units, projections, registrations."""
    return (
        {one.fingerprint for one in (*plan.whole, *plan.on_demand)}
        == {one.fingerprint for one in (*other.whole, *other.on_demand)}
        and plan.request == other.request
        and plan.needed == other.needed
    )


@pytest.mark.parametrize("app", APPS)
def test_every_model_fits_the_library_of_its_app(app: str) -> None:
    offer = offer_of(plan_of(TRACES[app]))
    for trace in TRACES[app]:
        assert judged(model_facts(trace), offer) == Judgement(
            "by manifest", "it has all that the model's trace names"
        )


def test_a_yes_is_said_only_where_the_library_would_be_the_same() -> None:
    """Of the demo apps, alone and in pairs, against each other's models."""
    verdicts = []
    for count in (1, 2):
        for apps in combinations(APPS, count):
            traces = [trace for app in apps for trace in TRACES[app]]
            plan = plan_of(traces)
            offer = offer_of(plan)
            for trace in (trace for app in APPS for trace in TRACES[app]):
                found = judged(model_facts(trace), offer)
                verdicts.append(found.verdict)
                together = same_library(plan, plan_with(plan, trace))
                assert (found.verdict == "by manifest") == together, (apps, trace.model, found)
                assert bool(found.lacks) == (found.verdict == "does not fit")
    assert verdicts.count("by manifest") > len(TRACES)
    assert verdicts.count("does not fit") > len(TRACES)


@pytest.mark.parametrize("seed", range(40))
def test_no_false_yes_for_models_drawn_at_random(seed: int) -> None:
    """Models of operators that libraries have, in part only because code calls them."""
    source = random.Random(seed)
    traces = TRACES[source.choice(APPS)]
    plan = plan_of(traces, source.choice(("traced", "guarded", "static")))
    offer = offer_of(plan)
    if source.random() < 0.5:
        names = sorted(plan.selection.operators)
    else:
        names = sorted({*plan.selection.operators, *source.sample(every_operator(), 3)})
    roots = source.sample(names, source.randint(1, 6))
    closure = static_selection(shipped(), kernels_for(roots), roots, "m")
    ran = [name for name in closure.operators if source.random() < 0.8]
    tags = {
        tag: dict.fromkeys(source.sample(("Float", "Long", "Bool"), source.randint(1, 2)), 1)
        for tag in sorted(closure.kernel_dtypes)
        if source.random() < 0.3 and tag != "*"
    }
    trace = replace(
        traces[0],
        root_operators=tuple(sorted(roots)),
        called_operators=dict.fromkeys(sorted(ran), 1),
        kernel_tags=tags,
        custom_classes=(),
        build_features=(),
    )
    verdicts = []
    for traced in (True, False):
        found = judged(model_facts(trace, traced=traced), offer)
        verdicts.append(found.verdict)
        if found.verdict == "by manifest":
            assert same_library(plan, plan_with(plan, trace, traced=traced))
    assert verdicts[1] == "unknown" or verdicts[0] == verdicts[1]


def the_model() -> tuple[Trace, VariantPlan]:
    (trace,) = TRACES["camera"]
    return trace, plan_of([trace])


def test_an_operator_that_only_code_calls_cannot_be_named() -> None:
    """The false yes that a list of operators alone would give."""
    trace, plan = the_model()
    offer = offer_of(plan)
    assert offer.resolved
    name = sorted(offer.resolved)[0]
    other = replace(trace, root_operators=(*trace.root_operators, name))
    found = judged(model_facts(other), offer)
    assert found.verdict == "does not fit"
    assert found.lacks == (
        Lack("operator", name, "named", note="only code calls it there: a model cannot name it"),
    )
    # in a library with all of them registered it can
    assert judged(model_facts(other), replace(offer, resolved=frozenset())).verdict == "by manifest"


def test_dtypes_are_told_with_those_that_are_there() -> None:
    trace, plan = the_model()
    tag = next(t for t, dtypes in trace.kernel_tags.items() if {*dtypes} == {"Float"})
    other = replace(trace, kernel_tags={**trace.kernel_tags, tag: {"Float": 1, "Double": 2}})
    found = judged(model_facts(other), offer_of(plan))
    assert found.lacks == (Lack("kernel tag", tag, "called", ("Double",), ("Float",)),)
    sizes, total = added(model_facts(other), offer_of(plan), found.lacks, runtime())
    (size, at_most) = sizes[found.lacks[0]]
    assert at_most
    assert 0 < size < 100_000
    assert total == size


def test_what_an_operator_adds_is_estimated() -> None:
    trace, plan = the_model()
    other = replace(
        trace,
        root_operators=(*trace.root_operators, Op("aten::sort")),
        called_operators={**trace.called_operators, Op("aten::sort"): 1},
    )
    found = judged(model_facts(other), offer_of(plan))
    assert [(one.name, one.needed) for one in found.lacks] == [("aten::sort", "named")]
    sizes, total = added(model_facts(other), offer_of(plan), found.lacks, runtime())
    bigger = plan_of([other]).needed.bytes - plan.needed.bytes
    assert sizes[found.lacks[0]] == (total, False)
    assert total is not None
    assert abs(total - bigger) < 0.02 * bigger + 2000


def code_in(plan: VariantPlan) -> Code:
    """What `plan` estimates a library from."""
    needed = plan.needed
    switched = UnselectedDtypes(shipped()).switched(needed.switches, plan.selection)
    return code_of(needed.bytes, switched, 0, 0)


@pytest.mark.parametrize("app", ["keyboard", "listener", "scanner"])
def test_what_a_library_grows_by_is_estimated_as_plans_are(app: str) -> None:
    (camera,), traces = TRACES["camera"], TRACES[app]
    before, after = plan_of([camera]), plan_with(plan_of([camera]), traces[0])
    offer, model = offer_of(before), model_facts(traces[0])
    found = judged(model, offer)
    lacks = (*found.lacks, *found.unknown)
    dtypes = {tag: {*of} for tag, of in offer.kernel_dtypes.items()}
    for one in lacks:
        if one.kind == "kernel tag":
            dtypes.setdefault(one.name, set()).update(one.dtypes)
    more = {Op(one.name) for one in lacks if one.kind == "operator"}
    trace = replace(traces[0], hot_tags=())
    was, will = runtime().grown(more, dtypes, offer, model.roots, trace)
    size = grown_bytes(code_of(*was, 0, 0), code_of(*will, 0, 0), 1.0)
    assert size == pytest.approx(grown_bytes(code_in(before), code_in(after), 1.0), rel=0.02)


def test_an_operator_that_the_runtime_does_not_have_cannot_be_added() -> None:
    trace, plan = the_model()
    other = replace(trace, root_operators=(*trace.root_operators, Op("inker::draw")))
    found = judged(model_facts(other), offer_of(plan))
    assert found.lacks[0].note == "PyTorch 1.13.1 does not have it"
    assert added(model_facts(other), offer_of(plan), found.lacks, runtime()) == ({}, None)


def test_an_operator_of_the_interpreter_that_every_library_has() -> None:
    trace, plan = the_model()
    name = Op("prim::is_cuda")
    assert name not in plan.selection.operators
    other = replace(
        trace,
        root_operators=(*trace.root_operators, name),
        called_operators={**trace.called_operators, name: 1},
    )
    assert judged(model_facts(other), offer_of(plan)).verdict == "by manifest"


def test_without_a_trace_nobody_can_tell() -> None:
    trace, plan = the_model()
    found = judged(model_facts(trace, traced=False), offer_of(plan))
    assert (found.verdict, found.lacks) == ("unknown", ())
    assert found.reason == "it has no trace, and static analysis alone cannot tell"
    assert {one.needed for one in found.unknown} == {"possible"}
    # the library of the static closure has all that it may call
    whole = offer_of(plan_of([trace], "static"))
    found = judged(model_facts(trace, traced=False), whole)
    assert (found.verdict, found.reason) == (
        "by manifest",
        "it has all that the model's operators may call",
    )
    unchecked = replace(model_facts(trace, traced=False), unchecked="nobody counted")
    found = judged(unchecked, whole)
    assert (found.verdict, found.reason) == ("unknown", "it has no trace, and nobody counted")


def test_an_operator_that_no_input_ran_is_guarded() -> None:
    trace, plan = the_model()
    ran = {name: n for name, n in trace.called_operators.items() if name != "aten::conv2d"}
    found = judged(model_facts(replace(trace, called_operators=ran)), offer_of(plan))
    assert (found.verdict, found.reason) == ("unknown", "no input of its trace ran aten::conv2d")
    assert found.unknown


def test_a_trace_of_another_runtime_proves_nothing() -> None:
    trace, plan = the_model()
    other = replace(trace, identity=replace(trace.identity, runtime="0" * 64))
    found = judged(model_facts(other), offer_of(plan))
    assert (found.verdict, found.reason) == (
        "unknown",
        "its trace was made with another runtime, and static analysis alone cannot tell",
    )
    offer = replace(offer_of(plan), tree="0" * 64)
    found = judge(model_facts(trace), offer, lambda: None)
    assert (found.verdict, found.reason) == (
        "unknown",
        "its trace was made with another runtime, and no index of the library's PyTorch is at hand",
    )
    # what lacks is told all the same
    lacking = replace(offer, operators=offer.operators - {"aten::conv2d"})
    assert judge(model_facts(trace), lacking, lambda: None).lacks == (
        Lack("operator", "aten::conv2d", "named"),
    )


def test_a_trace_of_more_backends_proves_nothing() -> None:
    trace, plan = the_model()
    name = Op("aten::to_sparse")
    identity = replace(trace.identity, backends=("CPU", "QuantizedCPU", "SparseCPU"))
    other = replace(trace, identity=identity, root_operators=(*trace.root_operators, name))
    offer = offer_of(plan)
    offer = replace(
        offer,
        operators=offer.operators | {name},
        roots=(offer.roots or frozenset()) | {name},
    )
    other = replace(other, called_operators={**trace.called_operators, name: 1})
    found = judged(model_facts(other), offer)
    assert (found.verdict, found.reason) == ("unknown", "its trace is of the backend SparseCPU too")


def test_code_that_other_roots_leave_out() -> None:
    """A library whose models have no quantised tensors has no kernels of them."""
    trace, plan = the_model()
    offer = offer_of(plan)
    name = Op("quantized::relu6")
    offer = replace(offer, operators=offer.operators | {name})
    other = replace(
        trace,
        root_operators=tuple(sorted({*trace.root_operators, name})),
        called_operators={**trace.called_operators, name: 1},
    )
    found = judged(model_facts(other), offer)
    assert (found.verdict, found.reason) == (
        "unknown",
        "the library omits code that only models with other operators reach",
    )


def test_a_model_that_means_what_an_earlier_pytorch_did() -> None:
    trace, plan = the_model()
    offer, old = offer_of(plan), frozenset({Op("aten::gelu"), Op("aten::div.Tensor")})
    other = replace(model_facts(trace), sha256="other", upgraded=old)
    assert judged(replace(other, upgraded=frozenset()), offer).verdict == "by manifest"
    found = judged(other, offer)
    assert (found.verdict, found.reason) == (
        "unknown",
        "it means by aten::div.Tensor, aten::gelu what an earlier PyTorch did: few libraries know"
        " that",
    )
    # what it was built for has what it needs
    known = replace(offer, models=offer.models | {"other"})
    assert judged(other, known).verdict == "by manifest"


def test_classes_features_and_versions() -> None:
    trace, plan = the_model()
    offer = offer_of(plan)
    other = replace(trace, custom_classes=("Packed",), build_features=("F",))
    found = judged(replace(model_facts(other), bytecode=10), offer)
    assert found.lacks == (
        Lack("runtime", "bytecode version 10", "named", note="the library loads 4 to 9"),
        Lack("custom class", "Packed", "named"),
        Lack("build feature", "F", "called"),
    )
    everything = replace(offer, classes=frozenset("*"), features=frozenset("F"))
    assert judged(model_facts(other), everything).verdict == "by manifest"


def test_the_model_that_a_library_was_cut_for() -> None:
    trace, plan = the_model()
    model = model_facts(trace, traced=False)
    found = judged(model, offer_of(plan, models=[model.sha256]))
    assert (found.verdict, found.reason) == (
        "by manifest",
        "the library was built for exactly this model",
    )


def test_a_manifest_from_before() -> None:
    trace, plan = the_model()
    old = replace(offer_of(plan), roots=None, resolved=None, backends=())
    found = judged(model_facts(trace), old)
    assert (found.verdict, found.reason) == (
        "unknown",
        "its manifest is older than what this takes",
    )
    found = judged(model_facts(trace), replace(old, operators=frozenset()))
    assert found.verdict == "does not fit"


def test_a_fault_is_a_no() -> None:
    trace, plan = the_model()
    model = replace(model_facts(trace), faults=("it crashes",))
    assert judged(model, offer_of(plan)).lacks == (Lack("model", "it crashes", "named"),)


def test_a_library_loads_what_names_an_operator_that_it_left_out() -> None:
    """If the model cannot reach it: `fits` takes the trace as the library needs it."""
    (trace,) = TRACES["camera"]
    name = Op("aten::sort")
    trace = replace(trace, unreachable_operators=(name,))
    offer = offer_of(plan_of([trace]))
    assert judged(model_facts(trace), offer).verdict == "by manifest"
    other = judged(model_facts(trace.loaded_by(())), offer)
    assert other.verdict == "does not fit"
    assert [(one.kind, one.name) for one in other.lacks] == [("operator", name)]
