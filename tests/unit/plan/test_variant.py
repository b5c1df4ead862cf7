"""Planning a variant of the toy runtime: which units, which of them whole, which text they see."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_toy import (
    CONVOLUTION,
    CORE,
    FACTS,
    FUNCTIONS,
    GUARD,
    LINEAR,
    MINIZ,
    REGISTER_CPU,
    REGISTRATIONS,
    STUBS,
    compile_unit,
    make_index,
    spec,
)

from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.index.model import RuntimeIndex, UnitFacts
from orchestrator.plan.planner import Planner, UnitUnknownError, entry_nodes
from orchestrator.plan.variant import OwnHeader, RuntimeFacts, VariantPlan, VariantSpec
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.values.action import Compile
from orchestrator.values.config.forms import Optimize
from orchestrator.values.fingerprint import text_digest
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

INDEX = make_index()
LEAN = OwnHeader("lean.h", "e" * 64, by_choice=True)
M = frozenset({"m"})


def selection(*operators: str, **dtypes: tuple[str, ...]) -> Selection:
    return Selection(
        operators=dict.fromkeys(map(Op, sorted(operators)), M),
        kernel_dtypes={tag: dict.fromkeys(dtypes[tag], M) for tag in sorted(dtypes)},
    )


def plan(
    selected: Selection,
    how: VariantSpec | None = None,
    facts: RuntimeFacts = FACTS,
    index: RuntimeIndex = INDEX,
) -> VariantPlan:
    return Planner(index, facts).plan(
        registry(index, ["CPU"], DIALECT.keys), selected, how or spec()
    )


def names(compiles: tuple[Compile, ...]) -> list[str]:
    return [one.unit for one in compiles]


# what the template of RegisterBackendSelect.cpp calls, and what the kernel of `linear` does
CALLED = (Op("aten::_pin_memory"), Op("aten::add.Tensor"), Op("aten::is_pinned"))


def test_the_least_variant_is_what_the_entry_and_the_runtime_need() -> None:
    least = plan(Selection())
    assert (names(least.whole), names(least.on_demand)) == ([GUARD], [CORE])
    # what the template of RegisterBackendSelect.cpp calls, whatever is selected
    assert least.request == RegistrationRequest(
        (), (Op("aten::_pin_memory"), Op("aten::is_pinned")), ()
    )


def test_a_kernel_brings_its_unit_by_need() -> None:
    found = plan(selection("aten::linear"))
    assert (names(found.whole), names(found.on_demand)) == ([GUARD], [CORE, LINEAR])


def test_a_hand_written_registration_is_linked_whole() -> None:
    found = plan(selection("toy::conv"))
    assert names(found.whole) == [GUARD, CONVOLUTION]
    assert names(found.on_demand) == [CORE, MINIZ]


def test_calls_get_entry_points_but_only_the_selected_are_registered() -> None:
    found = plan(selection("aten::linear"))
    assert found.request == RegistrationRequest(
        operators=(Op("aten::linear"),),
        calls=CALLED,
        kernels=(("CPU", (Op("aten::linear"),)),),
    )


# --- kernels that code calls in C++, without the dispatcher ---

MUL_OUT = "_ZN2at3cpu7mul_outEv"
DIRECT_NODES = {
    "capi_needs": (CORE, 10, ()),
    "cpu_addmv": (REGISTER_CPU, 24, ["addmv_kernel"]),
    "addmv_kernel": (LINEAR, 100, [MUL_OUT]),
    MUL_OUT: (REGISTER_CPU, 5, ["cpu_mul_out"]),
    "cpu_mul_out": (REGISTER_CPU, 24, ["mul_kernel"]),
    "mul_kernel": (STUBS, 100, []),
}
DIRECT = make_index(
    DIRECT_NODES,
    registrations=[
        ("aten::addmv", "CPU", REGISTER_CPU, ["cpu_addmv"]),
        ("aten::mul.out", "CPU", REGISTER_CPU, ["cpu_mul_out"]),
        # the same node under another key is no kernel of this file
        ("aten::mul.other", "Meta", REGISTER_CPU, ["cpu_mul_out"]),
    ],
    initialisers={},
)


def test_a_kernel_that_is_called_directly_is_written_and_not_registered() -> None:
    found = plan(selection("aten::addmv"), index=DIRECT)
    assert found.request.operators == ("aten::addmv",)
    assert found.request.kernels == (("CPU", ("aten::addmv",)),)
    assert found.request.direct == (("CPU", ("aten::mul.out",)),)
    # and what it needs is compiled
    assert STUBS in names(found.on_demand)


def test_a_kernel_that_is_registered_anyhow_is_written_once() -> None:
    found = plan(selection("aten::addmv", "aten::mul.out"), index=DIRECT)
    assert found.request.kernels == (("CPU", ("aten::addmv", "aten::mul.out")),)
    assert found.request.direct == ()


def test_a_kernel_whose_caller_is_not_selected_is_not_written() -> None:
    assert plan(selection("aten::mul.out"), index=DIRECT).request.direct == ()
    assert plan(Selection(), index=DIRECT).request.direct == ()


# --- operators that only code calls ---


def straight(*roots: str, called: tuple[str, ...] = (), **changes: object) -> RegistrationRequest:
    """The request of a variant whose models name `roots`, and whose kernels ran `called`."""
    index = changes.pop("index", INDEX)
    facts = changes.pop("facts", FACTS)
    assert isinstance(index, RuntimeIndex)
    assert isinstance(facts, RuntimeFacts)
    wanted = replace(selection(*roots, *called), root_operators=frozenset(map(Op, roots)))
    how = spec(**({"dispatch": "direct"} | changes))
    return plan(wanted, how, facts, index).request


def add_registered(*more: tuple[str, str]) -> RuntimeIndex:
    """The toy, where `add.Tensor` has more registrations: each a key and a unit."""
    others = [
        ("aten::linear", "CPU", REGISTER_CPU, ["cpu_linear"]),
        ("aten::add.Tensor", "CPU", REGISTER_CPU, ["cpu_add"]),
    ]
    others += [("aten::add.Tensor", key, unit, ["cpu_add"]) for key, unit in more]
    return make_index(registrations=others)


def test_an_operator_that_only_code_calls_is_not_registered() -> None:
    assert straight("aten::linear", called=("aten::add.Tensor",)) == RegistrationRequest(
        operators=(Op("aten::linear"),),
        calls=CALLED,
        kernels=(("CPU", (Op("aten::linear"),)),),
        direct=(("CPU", (Op("aten::add.Tensor"),)),),
        resolved=((Op("aten::add.Tensor"), "CPU"),),
    )


def test_an_operator_that_a_model_names_is_registered() -> None:
    found = straight("aten::add.Tensor", "aten::linear")
    assert (found.operators, found.resolved) == (("aten::add.Tensor", "aten::linear"), ())


def test_an_operator_that_no_live_code_calls_is_left_out() -> None:
    found = straight(called=("aten::add.Tensor",))
    assert found == RegistrationRequest((), (Op("aten::_pin_memory"), Op("aten::is_pinned")), ())


@pytest.mark.parametrize("changes", [{"dispatch": "table"}, {"purpose": "tracer"}])
def test_a_table_has_every_operator(changes: dict[str, str]) -> None:
    wanted = selection("aten::linear", "aten::add.Tensor")
    found = plan(replace(wanted, root_operators=frozenset({Op("aten::linear")})), spec(**changes))
    assert found.request.operators == ("aten::add.Tensor", "aten::linear")
    assert found.request.resolved == ()


def test_the_library_of_all_operators_has_a_table() -> None:
    wanted = replace(selection("aten::linear", "aten::add.Tensor"), everything=True)
    assert plan(wanted, spec(dispatch="direct")).request.resolved == ()


@pytest.mark.parametrize(
    ("more", "resolved"),
    [
        # finds the backend, and calls the operator again
        (("BackendSelect", REGISTER_CPU), True),
        # two kernels
        (("CompositeExplicitAutograd", REGISTER_CPU), False),
        # written by hand: no function at::<key>::X
        (("CPU", LINEAR), False),
    ],
)
def test_only_one_generated_kernel_is_called_directly(
    more: tuple[str, str], resolved: bool
) -> None:
    index = add_registered(more)
    found = straight("aten::linear", called=("aten::add.Tensor",), index=index)
    assert found.resolved == ((("aten::add.Tensor", "CPU"),) if resolved else ())
    assert ("aten::add.Tensor" in found.operators) is not resolved


def test_a_key_with_a_fallback_leaves_all_to_the_table() -> None:
    conjugate = ("aten::_conj", "fallback", GUARD, ())
    index = make_index(registrations=[*REGISTRATIONS, conjugate])
    without = straight("aten::linear", called=("aten::add.Tensor",), index=index)
    assert without.resolved == (("aten::add.Tensor", "CPU"),)
    called = ("aten::_conj", "aten::add.Tensor")
    assert straight("aten::linear", called=called, index=index).resolved == ()


def test_what_is_looked_up_by_name_is_registered() -> None:
    facts = replace(FACTS, by_name={CORE: frozenset({"aten::add.Tensor"})})
    planner = Planner(INDEX, facts)
    kernels, named = registry(INDEX, ["CPU"], DIALECT.keys), frozenset({Op("aten::linear")})
    wanted = replace(selection("aten::linear", "aten::add.Tensor"), root_operators=named)
    how = spec(dispatch="direct")
    assert planner.plan(kernels, wanted, how).request.resolved == ()
    # a unit that has nothing to look up in this variant
    lean = replace(how, lean=frozenset({CORE}))
    assert planner.plan(kernels, wanted, lean).request.resolved == (("aten::add.Tensor", "CPU"),)


def test_generated_units_that_do_not_depend_on_the_selection_are_compiled_whole() -> None:
    found = plan(selection("aten::add.Tensor"))
    assert names(found.on_demand) == [CORE, FUNCTIONS, STUBS]
    (functions,) = [c for c in found.compiles if c.unit == FUNCTIONS]
    assert functions.source == "$generated/ATen/Functions.cpp"


def test_a_tracer_has_what_recording_needs_besides() -> None:
    found = plan(Selection(), spec(purpose="tracer"))
    assert names(found.whole) == [GUARD, STUBS]
    flags = found.whole[0].flags
    assert "-DENABLE_RECORD_KERNEL_FUNCTION_DTYPE" in flags
    assert "-DPYTORCH_DISABLE_PER_OP_PROFILING" not in flags


def test_a_backend_select_kernel_calls_its_own_operator() -> None:
    factory = ("aten::empty", "BackendSelect", "generated/RegisterCPU.cpp", ())
    index = make_index(registrations=[factory])
    found = plan(selection("aten::empty"), index=index)
    assert found.request.operators == ("aten::empty",)
    assert "aten::empty" in found.request.calls
    assert found.request.kernels == ()


def test_flags_follow_language_heat_and_upstreams_kernels() -> None:
    how = spec(optimize="balanced", hot=frozenset({STUBS, LINEAR}), compile_flags=("-march=x",))
    found = plan(selection("aten::linear", "aten::add.Tensor", "toy::conv"), how)
    flags = {c.unit: c.flags for c in found.compiles}
    checked = ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2")
    hardened = ("-fstack-protector", *checked)
    assert {unit: one[: one.index("-fPIC")] for unit, one in flags.items()} == {
        CORE: (*hardened, "-march=x", "-Oz"),
        FUNCTIONS: (*hardened, "-march=x", "-Oz"),
        GUARD: (*hardened, "-march=x", "-Oz"),
        CONVOLUTION: (*hardened, "-march=x", "-Oz"),
        LINEAR: (*hardened, "-march=x", "-O2"),
        # a kernel
        STUBS: (*checked, "-march=x", "-O3"),
        MINIZ: (*hardened, "-march=x", "-Oz"),
    }
    (miniz,) = [c for c in found.compiles if c.unit == MINIZ]
    assert (miniz.language, miniz.projection, miniz.source) == ("c", None, "$tree/third/miniz.c")
    assert not any(flag.startswith("-std=") for flag in miniz.flags)


def test_projections_are_the_texts_that_the_compilations_name() -> None:
    found = plan(selection("aten::linear", "toy::conv", linear_tag=("Float",)))
    named = {c.projection for c in found.compiles if c.projection is not None}
    assert named == set(found.projections)
    assert all(text_digest(text) == digest for digest, text in found.projections.items())
    assert {c.unit for c in found.compiles if c.projection} == {LINEAR, CONVOLUTION}


def changed_units(old: Selection, new: Selection) -> set[str]:
    before, after = plan(old), plan(new)
    assert names(before.compiles) == names(after.compiles)
    pairs = zip(before.compiles, after.compiles, strict=True)
    return {b.unit for b, a in pairs if b.fingerprint != a.fingerprint}


ALL = ("aten::add.Tensor", "aten::linear", "toy::conv")


def test_another_dtype_changes_only_the_units_that_mention_its_tag() -> None:
    old = selection(*ALL, linear_tag=("Float",), shared_tag=("Float",))
    # the unit that computes its tags' names sees all of them
    assert changed_units(
        old, selection(*ALL, linear_tag=("Float", "Long"), shared_tag=("Float",))
    ) == {
        LINEAR,
        STUBS,
    }
    assert changed_units(old, selection(*ALL, linear_tag=("Float",), shared_tag=("Long",))) == {
        LINEAR,
        CONVOLUTION,
        STUBS,
    }


def test_who_asked_changes_nothing() -> None:
    other = Selection(operators=dict.fromkeys(map(Op, sorted(ALL)), frozenset({"another", "m"})))
    assert changed_units(selection(*ALL), other) == set()


LINEAR_UNIT = next(unit for unit in INDEX.units if unit.path == LINEAR)


@pytest.mark.parametrize(
    ("facts", "how"),
    [
        (replace(FACTS, identity="another runtime"), {}),
        (FACTS, {"toolchain": "another toolchain"}),
        (FACTS, {"compile_flags": ("-march=x",)}),
        (FACTS, {"optimize": "speed"}),
        (FACTS, {"purpose": "tracer"}),
    ],
)
def test_a_fingerprint_changes_with_each_part(facts: RuntimeFacts, how: dict[str, object]) -> None:
    selected = selection("aten::linear")
    base = compile_unit(FACTS, selected, spec(), LINEAR_UNIT)
    other = compile_unit(facts, selected, spec(**how), LINEAR_UNIT)
    assert other.fingerprint != base.fingerprint
    again = compile_unit(FACTS, selected, spec(), LINEAR_UNIT)
    assert again == base


def test_what_cannot_change_an_object_is_not_in_its_fingerprint() -> None:
    base = compile_unit(FACTS, Selection(), spec(), LINEAR_UNIT)
    for other in (
        compile_unit(FACTS, Selection(), spec(entry=frozenset()), LINEAR_UNIT),
        compile_unit(FACTS, Selection(), spec(), replace(LINEAR_UNIT, cost=99.0)),
        compile_unit(FACTS, selection("toy::conv"), spec(), LINEAR_UNIT),
    ):
        assert other.fingerprint == base.fingerprint


def test_an_objects_place_is_its_fingerprint() -> None:
    one = compile_unit(FACTS, Selection(), spec(), LINEAR_UNIT)
    assert one.object == f"$state/objects/{one.fingerprint[:2]}/{one.fingerprint}.o"


ATEN = UnitFacts("aten/Linear.cpp", 1.0, tags=("linear_tag",))
PCH_FACTS = replace(FACTS, languages={"aten/c.c": "c"}, kernels=frozenset({"aten/Kernel.cpp"}))


@pytest.mark.parametrize(
    ("unit", "facts", "how"),
    [
        (UnitFacts("c10/Device.cpp", 1.0), {}, {}),
        (UnitFacts("aten/c.c", 1.0), {}, {}),
        # its list is a macro, which a header expands when it is read
        (UnitFacts("aten/f.cpp", 1.0, features=("F",)), {}, {}),
        (ATEN, {"unlike": frozenset({ATEN.path})}, {}),
        (ATEN, {"included": {ATEN.path: OwnHeader("header.h", "h" * 64, first=True)}}, {}),
        (ATEN, {}, {"precompile": False}),
    ],
)
def test_units_without_the_precompiled_header(
    unit: UnitFacts, facts: dict[str, object], how: dict[str, object]
) -> None:
    assert compile_unit(replace(PCH_FACTS, **facts), Selection(), spec(**how), unit).pch is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("unit", "how"),
    [
        (ATEN, {"optimize": "balanced"}),
        (ATEN, {"optimize": "speed"}),
        (ATEN, {"optimize": "balanced", "hot": frozenset({ATEN.path})}),
        (UnitFacts("aten/Kernel.cpp", 1.0), {"optimize": "speed"}),
        (
            UnitFacts("aten/Kernel.cpp", 1.0),
            {"optimize": "balanced", "hot": frozenset({"aten/Kernel.cpp"})},
        ),
        (UnitFacts("aten/o.cpp", 1.0, operators=(Op("a::b"),)), {}),
        (UnitFacts("aten/c.cpp", 1.0, classes=("C",)), {}),
    ],
)
def test_units_with_a_precompiled_header(unit: UnitFacts, how: dict[str, object]) -> None:
    action = compile_unit(PCH_FACTS, Selection(), spec(**how), unit)
    assert action.pch is not None
    assert action.flags[-2:] == ("-Xclang", "-fno-validate-pch")
    # of the level and the guards of the stack, the header has what all have
    assert "-fstack-protector" not in action.pch.flags
    assert [one for one in action.pch.flags if one.startswith("-O")] == ["-Os"]
    others = {"-O2", "-O3", "-Os", "-Oz", "-fstack-protector", "-Xclang", "-fno-validate-pch"}
    assert [one for one in action.pch.flags if one != "-Os"] == [
        one for one in action.flags if one not in others
    ]


def test_all_levels_and_ways_to_link_have_one_header() -> None:
    ways: list[dict[str, object]] = [
        {"optimize": "size"},
        {"optimize": "size", "lto": True},
        {"optimize": "balanced", "hot": frozenset({ATEN.path})},
        {"optimize": "speed"},
    ]
    units = [compile_unit(PCH_FACTS, Selection(), spec(**how), ATEN) for how in ways]
    assert len({unit.flags for unit in units}) == 3, "balanced and hot is speed"
    assert len({unit.pch for unit in units}) == 1
    guarded = compile_unit(PCH_FACTS, Selection(), spec(), UnitFacts("aten/Kernel.cpp", 1.0))
    assert guarded.pch == units[0].pch


def test_most_units_share_one_precompiled_header() -> None:
    kernel = UnitFacts("aten/Other.cpp", 1.0, open_tags=True)
    actions = [compile_unit(PCH_FACTS, Selection(), spec(), one) for one in (ATEN, kernel)]
    assert actions[0].pch is not None
    assert actions[0].pch == actions[1].pch
    assert actions[0].pch.output == f"$pch/{actions[0].pch.fingerprint}.pch"


@pytest.mark.parametrize(
    ("optimize", "level"), [("size", "-Oz"), ("balanced", "-O2"), ("speed", "-O2")]
)
def test_what_makes_the_results_of_operators_is_hot(optimize: Optimize, level: str) -> None:
    facts = replace(FACTS, making=frozenset({ATEN.path}))
    assert level in compile_unit(facts, Selection(), spec(optimize=optimize), ATEN).flags


@pytest.mark.parametrize(
    ("facts", "how"),
    [({"pch": "another header"}, {}), ({}, {"precompile": False})],
)
def test_the_precompiled_header_counts(facts: dict[str, object], how: dict[str, object]) -> None:
    base = compile_unit(PCH_FACTS, Selection(), spec(), ATEN)
    other = compile_unit(replace(PCH_FACTS, **facts), Selection(), spec(**how), ATEN)  # type: ignore[arg-type]
    assert other.fingerprint != base.fingerprint


def test_a_header_of_ours_is_read_after_the_precompiled_one() -> None:
    header = OwnHeader("capi/kept_messages.h", "c" * 64)
    action = compile_unit(
        replace(PCH_FACTS, included={ATEN.path: header}), Selection(), spec(), ATEN
    )
    assert action.pch is not None
    assert action.flags[-4:] == (
        *("-Xclang", "-fno-validate-pch"),
        *("-include", "$native/capi/kept_messages.h"),
    )


def test_a_header_of_ours_is_read_first() -> None:
    header = OwnHeader("capi/kept_messages.h", "c" * 64)
    facts = replace(PCH_FACTS, included={ATEN.path: header})
    action = compile_unit(facts, Selection(), spec(), ATEN)
    assert action.flags[-2:] == ("-include", "$native/capi/kept_messages.h")
    other = replace(facts, included={ATEN.path: replace(header, digest="d" * 64)})
    assert compile_unit(other, Selection(), spec(), ATEN).fingerprint != action.fingerprint


def test_a_header_of_ours_is_read_behind_the_projection() -> None:
    header = OwnHeader("runtime_library/selected_operators.h", "c" * 64, behind=True)
    facts = replace(PCH_FACTS, included={ATEN.path: header})
    action = compile_unit(facts, Selection(), spec(), ATEN)
    assert "-include" not in action.flags
    assert action.behind == ("$native/runtime_library/selected_operators.h",)
    other = replace(facts, included={ATEN.path: replace(header, digest="d" * 64)})
    assert compile_unit(other, Selection(), spec(), ATEN).fingerprint != action.fingerprint


def test_a_tracer_reads_its_own_header_where_it_has_one() -> None:
    header, traced = OwnHeader("capi/checked.h", "c" * 64), OwnHeader("coverage/told.h", "d" * 64)
    facts = replace(PCH_FACTS, included={ATEN.path: header})
    more = replace(facts, traced={ATEN.path: traced})
    release = compile_unit(more, Selection(), spec(), ATEN)
    assert release == compile_unit(facts, Selection(), spec(), ATEN)
    tracer = compile_unit(more, Selection(), spec(purpose="tracer"), ATEN)
    assert tracer.flags[-2:] == ("-include", "$native/coverage/told.h")
    other = compile_unit(facts, Selection(), spec(purpose="tracer"), ATEN)
    assert other.flags[-2:] == ("-include", "$native/capi/checked.h")
    assert other.fingerprint != tracer.fingerprint


def test_a_header_of_ours_for_models_that_need_less_of_a_unit() -> None:
    facts = replace(PCH_FACTS, included={ATEN.path: LEAN})
    whole = compile_unit(facts, Selection(), spec(), ATEN)
    assert "-include" not in whole.flags
    assert whole.fingerprint == compile_unit(PCH_FACTS, Selection(), spec(), ATEN).fingerprint
    lean = compile_unit(facts, Selection(), spec(lean=frozenset({ATEN.path})), ATEN)
    assert lean.flags[-2:] == ("-include", "$native/lean.h")
    assert lean.fingerprint != whole.fingerprint
    # what is said of other units changes nothing
    assert compile_unit(facts, Selection(), spec(lean=frozenset({"other"})), ATEN) == whole


def test_a_variant_has_the_lean_units_of_its_models() -> None:
    facts = replace(FACTS, included={CORE: LEAN})
    for lean in (frozenset[str](), frozenset({CORE})):
        planned = plan(Selection(), spec(lean=lean), facts)
        (core,) = (c for c in planned.compiles if c.unit == CORE)
        assert ("$native/lean.h" in core.flags) == bool(lean)


def test_entry_nodes_are_found_by_symbol_whatever_unit_owns_them() -> None:
    nodes = {"f@a.cpp": (None, 1, ()), "f2": (None, 1, ()), "g": (None, 1, ())}
    index = make_index(nodes, [], [])
    assert [index.names[n] for n in entry_nodes(index, ["f", "g", "malloc"], DIALECT.symbols)] == [
        "f@a.cpp",
        "g",
    ]


def test_entry_nodes_are_found_by_any_name_of_a_constructor() -> None:
    index = make_index({"_ZN1AC2Ei@a.cpp": (None, 1, []), "_ZN1AD2Ev": (None, 1, [])}, [], [])
    assert entry_nodes(index, ["_ZN1AC1Ei"], DIALECT.symbols) == [0]
    assert entry_nodes(index, ["_ZN1AD0Ev"], DIALECT.symbols) == [1]
    assert entry_nodes(index, ["_ZN1BC1Ei"], DIALECT.symbols) == []


def test_data_and_index_that_do_not_belong_together() -> None:
    with pytest.raises(UnitUnknownError) as caught:
        plan(Selection(), facts=replace(FACTS, always=frozenset({"core/Gone.cpp"})))
    assert caught.value.render() == (
        "error: the runtime index has no unit core/Gone.cpp\n"
        "  do:       run: ./orchestrate runtime index"
    )
