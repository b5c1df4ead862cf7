"""What an add-on has itself, and what it takes from the library."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from core_toy import CONVOLUTION, CORE, GUARD, LINEAR, MINIZ, REGISTER_CPU, make_index

from orchestrator.build.development.addon_link import Extended
from orchestrator.compilers.relink import EXPORTED, exported_name
from orchestrator.deliver.rules import FOR_ADDONS
from orchestrator.index.model import Registration
from orchestrator.plan.addon import (
    AddonNeeds,
    AddonRoots,
    addon_needs,
    entry_request,
    registration_request,
)
from orchestrator.plan.extension import (
    exports_file,
    extension_symbols,
    respelled,
    version_script,
)
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import Registry, registry
from orchestrator.values.operators import OperatorName as Op

INDEX = make_index()
KERNELS = registry(INDEX, ("CPU",), DIALECT.keys)
NUMBERS = {unit.path: number for number, unit in enumerate(INDEX.units)}
ADD = "_ZN2at4_ops10add_Tensor4callEv"


def needs(
    *operators: str,
    has: Collection[str] = (),
    entered: Collection[str] = (),
    own: Collection[str] = (),
    cut: Collection[str] = (),
    by_hand: bool = False,
    there: Collection[str] = (),
    whole: Collection[str] = (),
) -> AddonNeeds:
    roots = AddonRoots(
        operators=tuple(map(Op, operators)),
        has=has.__contains__,
        entered=tuple(map(Op, entered)),
        own=frozenset(NUMBERS[path] for path in own),
        cut=frozenset(NUMBERS[path] for path in cut),
        by_hand=by_hand,
        there=frozenset(NUMBERS[path] for path in there),
        whole=frozenset(NUMBERS[path] for path in whole),
    )
    return addon_needs(INDEX, DIALECT, KERNELS, roots)


def paths(found: AddonNeeds) -> set[str]:
    return {INDEX.units[number].path for number in found.units}


def test_of_a_library_that_exports_nothing_all_is_brought() -> None:
    found = needs("aten::linear")
    assert paths(found) == {LINEAR, CORE}
    assert found.called == {"aten::add.Tensor"}


def test_kernel_tags_are_those_of_code_that_is_reached_in_the_add_on() -> None:
    assert needs("aten::linear").tags == {"linear_tag", "shared_tag"}
    assert needs("aten::linear", has=("linear_kernel",)).tags == set()


def test_the_walk_ends_where_the_library_has_something() -> None:
    found = needs("aten::linear", has=("tensor_new", ADD), entered=("aten::add.Tensor",))
    assert paths(found) == {LINEAR}
    assert found.called == set()


def test_an_entry_point_of_an_operator_that_the_library_lacks_is_not_taken_from_it() -> None:
    """What it exports under that name raises an error at once."""
    assert needs("aten::linear", has=("tensor_new", ADD)).called == {"aten::add.Tensor"}


def test_a_unit_of_its_own_is_brought_whatever_the_library_has_of_it() -> None:
    has = ("linear_kernel", "tensor_new", ADD)
    entered = ("aten::add.Tensor",)
    assert paths(needs("aten::linear", has=has, entered=entered)) == set()
    assert paths(needs("aten::linear", has=has, entered=entered, own=(LINEAR,))) == {LINEAR}


def test_an_operator_that_is_registered_by_hand_is_named() -> None:
    assert needs("toy::conv").by_hand == {"toy::conv": CONVOLUTION}


def test_a_shard_takes_the_units_that_register_by_hand() -> None:
    assert CONVOLUTION not in paths(needs("toy::conv"))
    found = needs("toy::conv", by_hand=True)
    assert CONVOLUTION in paths(found)
    assert found.by_hand == {"toy::conv": CONVOLUTION}


def test_a_unit_that_the_library_has_whole_is_not_brought() -> None:
    assert CONVOLUTION not in paths(needs("toy::conv", by_hand=True, there=(CONVOLUTION,)))


def test_a_unit_that_is_linked_whole_is_brought_whatever_refers_to_it() -> None:
    assert paths(needs()) == set()
    assert paths(needs(whole=(GUARD,))) == {GUARD, CORE}
    assert paths(needs(whole=(GUARD,), has=("tensor_new",))) == {GUARD}


def test_a_factory_needs_its_own_entry_point() -> None:
    """Its BackendSelect kernel, which no index has, calls the operator again."""
    select = DIALECT.keys.backend_select
    made = Registration(Op("aten::empty"), select, NUMBERS[REGISTER_CPU], ())
    registry_of = Registry({Op("aten::empty"): (made,)})
    roots = AddonRoots(
        (Op("aten::empty"),),
        lambda _: True,
        (Op("aten::empty"),),
        frozenset(),
        frozenset(),
    )
    assert addon_needs(INDEX, DIALECT, registry_of, roots).called == {"aten::empty"}


def test_registrations_are_of_its_operators_and_entry_points_of_what_it_calls() -> None:
    found = needs("aten::linear")
    request = registration_request(
        INDEX, DIALECT, KERNELS, (Op("aten::linear"), Op("toy::conv")), found
    )
    assert (request.operators, request.calls) == (("aten::linear",), ())
    assert request.kernels == (("CPU", ("aten::linear",)),)
    entries = entry_request(found, (Op("aten::linear"), Op("aten::add.Tensor")))
    assert (entries.calls, entries.kernels) == (("aten::add.Tensor",), ())


def test_a_library_exports_what_other_units_refer_to() -> None:
    symbols = extension_symbols(INDEX)
    # referred to by its own unit and by an inline function; by registrations; by another unit
    assert {"tensor_new", "linear_kernel", "inflate", ADD} <= set(symbols)
    # of inline functions each unit has its own copy
    assert not {"template_copy", "never_defined_elsewhere"} & set(symbols)
    assert MINIZ in NUMBERS


def test_a_library_of_another_inline_namespace_has_other_symbols() -> None:
    text = "12basic_stringIcNS1_11char_traitsIcEENS1_9allocatorIcEEEE"
    symbol = f"_ZN5torch3jit11parseSchemaERKNSt3__1{text}"
    assert respelled(symbol, "__1") == symbol
    # clang++ --target=aarch64-linux-android24
    assert respelled(symbol, "__ndk1") == f"_ZN5torch3jit11parseSchemaERKNSt6__ndk1{text}"


def test_packages_may_export_what_the_linker_is_told_to() -> None:
    assert FOR_ADDONS == EXPORTED


def test_what_an_extended_library_exports_is_told_by_the_indexs_names() -> None:
    """As Android has them: in the NDK's namespace, and objects for threads' own variables."""
    here = ("_ZN2at3addESt6__ndk1", "__emutls_v._ZN3c1010per_threadE")
    has = frozenset(exported_name("toy", name) for name in here)
    library = Extended("toy", Path("libtoy.so"), has, 40 * "0", "toy", "__ndk1")
    asked = ("_ZN2at3addESt3__1", "_ZN3c1010per_threadE", "_ZN2at3subEv")
    assert list(map(library.exports, asked)) == [True, True, False]


def test_the_version_script_names_the_app_and_the_symbols() -> None:
    text = version_script("toy", ("one", "two"))
    assert text == ("/* extensible: toy */\n/*\none\ntwo\n*/\n{ global: lta_*; l_*; local: *; };\n")
    assert exports_file(text).startswith("$cache/exports/")
    assert version_script("toy", ("one",), frozenset({"JNI_OnLoad"})) == (
        "/* extensible: toy */\n/*\none\n*/\n{ global: lta_*; JNI_OnLoad; l_*; local: *; };\n"
    )
