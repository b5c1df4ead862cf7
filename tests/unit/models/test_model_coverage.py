"""What of a model's instructions counts, and how what no input ran is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.errors import Place
from orchestrator.models.coverage import (
    MisfitCoverageError,
    called_at,
    counted,
    coverage_of,
    methods_covered,
    sites_unrun,
    unrun_methods,
)
from orchestrator.models.info import read_model
from orchestrator.models.listing import Listing, read_listings
from orchestrator.pytorch.v1_13.dialect import DIALECT as V1_13
from orchestrator.pytorch.v2_6.dialect import DIALECT as V2_6
from orchestrator.values.coverage import FunctionCoverage

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests/golden/fits"


def listing(text: str, **more: object) -> Listing:
    """Of `JF+3 OP RET`: a branch says how far it jumps."""
    names, jumps = [], {}
    for at, word in enumerate(text.split()):
        name, _, far = word.partition("+")
        names.append(name)
        if far:
            jumps[at] = at + int(far)
    return Listing("__torch__.M.forward", tuple(names), jumps, **more)  # type: ignore[arg-type]


# if c: relu() else: sin()
IF = listing("LOAD JF+3 OP JMP+2 OP RET", operators={2: "aten::relu", 4: "aten::sin"})
# for ...: relu()
LOOP = listing("LOAD LOOP+3 OP JMP+-2 RET", operators={2: "aten::relu"})
# assert c
ASSERT = listing("LOAD JF+3 OP JMP+4 LOADC RAISE_EXCEPTION JMP+1 RET")


def test_all_counts_that_inputs_can_run() -> None:
    of = counted(IF)
    assert of.instructions == {0, 1, 2, 3, 4, 5}
    assert of.held == of.failed == {1}
    assert counted(LOOP).instructions == {0, 1, 2, 3, 4}


def test_what_leads_to_an_error_alone_does_not_count() -> None:
    of = counted(ASSERT)
    assert of.instructions == {0, 1, 2, 3, 7}
    assert of.held == {1}
    assert not of.failed
    by_name = listing("LOAD OP RET", operators={1: "prim::RaiseException"})
    assert counted(by_name).instructions == frozenset()


def test_what_nothing_leads_to_does_not_count() -> None:
    assert counted(listing("JMP+2 OP RET")).instructions == {0, 2}
    assert counted(listing("")).instructions == frozenset()
    # for ever: no way leads to an error
    assert counted(listing("OP JMP+-1 RET")).instructions == {0, 1}


def test_coverage_is_what_the_digits_tell() -> None:
    found = coverage_of(["131101"], [IF])
    assert found == {
        "__torch__.M.forward": FunctionCoverage(
            6, 2, unrun=((4, 4),), never_held=(), never_failed=((1, 1),)
        )
    }
    assert coverage_of(["171111"], [IF])["__torch__.M.forward"] == FunctionCoverage(6, 2)
    nothing = coverage_of(["000000"], [IF])["__torch__.M.forward"]
    assert (nothing.unrun_count, nothing.untaken) == (6, 2)


def test_methods_that_bundling_added_are_left_out() -> None:
    added = Listing("__torch__.M.get_all_bundled_inputs", ("RET",))
    assert [*coverage_of(["1", "000000"], [added, IF])] == ["__torch__.M.forward"]


@pytest.mark.parametrize(
    "recorded", [None, "1", [], ["1"], ["11111x"], ["111118"], [111111], ["111111", "1"]]
)
def test_what_is_not_of_the_model_is_refused(recorded: object) -> None:
    with pytest.raises(MisfitCoverageError):
        coverage_of(recorded, [IF])


def told(recorded: str, of: Listing) -> tuple[str, ...]:
    (row,) = methods_covered(coverage_of([recorded], [of]), [of])
    assert row.method == "forward"
    return row.missing


def test_methods_of_objects_that_no_input_ran() -> None:
    functions = read_model(ROOT / "apps/inker/models/outline.ptl", V1_13.models).functions
    assert functions[0].methods[0] == (31, "width_getter")
    name = functions[0].qualified
    every = {"width_getter", "__init__", "widths", "scaled"}
    assert unrun_methods(functions, None) == every
    assert unrun_methods(functions, {}) == every
    assert unrun_methods(functions, {name: FunctionCoverage(73, 0)}) == set()
    # `widths` is called twice, and once is enough
    half = FunctionCoverage(73, 0, unrun=((31, 47), (54, 72)))
    assert unrun_methods(functions, {name: half}) == {"width_getter", "__init__"}


def test_without_lines_instructions_and_operators_are_told() -> None:
    assert told("171111", IF) == ()
    assert told("131101", IF) == (
        "instructions 4 (aten::sin)",
        "if at instruction 1 never false",
    )
    assert told("150011", IF) == (
        "instructions 2-3 (aten::relu)",
        "if at instruction 1 never true",
    )
    assert told("15001", LOOP) == (
        "instructions 2-3 (aten::relu)",
        "loop at instruction 1 never entered",
    )
    # both ways of a branch that never ran are its line's matter
    assert told("000000", IF) == ("instructions 0-5 (aten::relu, aten::sin)",)


def test_with_lines_those_are_told() -> None:
    lines = {0: 3, 1: 4, 2: 5, 3: 5, 4: 9, 5: 12}
    places = {at: Place("/src/net.py", line, 1) for at, line in lines.items()}
    of = listing("LOAD JF+3 OP JMP+2 OP RET", operators=IF.operators, places=places)
    assert told("131101", of) == ("net.py:9", "if at net.py:4 never false")
    # no line of code is between 4 and 5, 5 and 9, 9 and 12
    assert told("100000", of) == ("net.py:4-12",)
    assert told("100110", of) == ("net.py:4-5, 12",)
    assert sites_unrun(coverage_of(["131101"], [of]), [of], "aten::sin") == ("forward at net.py:9",)
    assert sites_unrun(coverage_of(["131101"], [of]), [of], "aten::relu") == ()


def test_functions_of_one_name_have_their_classes() -> None:
    one = Listing("__torch__.net.A.run", ("RET",))
    other = Listing("__torch__.net.B.run", ("RET",))
    found = coverage_of(["1", "0"], [one, other])
    assert [row.method for row in methods_covered(found, [one, other])] == [
        "net.A.run",
        "net.B.run",
    ]
    # of a model that cannot be read any more
    assert [row.missing for row in methods_covered(found, [])] == [(), ("instructions 0",)]


def test_a_models_own_listing() -> None:
    forward, *added = read_listings(GOLDEN / "mapped.ptl")
    assert forward.qualified == "__torch__.Sample.forward"
    assert forward.operators == {3: "aten::erfinv", 5: "aten::cumprod", 7: "aten::mul.Scalar"}
    assert forward.places[3].file == "/src/sample.py"
    assert len(added) == 5
    (plain,) = (one for one in read_listings(GOLDEN / "plain.ptl") if one.method == "forward")
    assert (plain.names, plain.places) == (forward.names, {})


def test_a_models_checks_do_not_count() -> None:
    suggest = next(
        one
        for one in read_listings(ROOT / "apps/keyboard/models/next_word.ptl")
        if one.method == "suggest"
    )
    of = counted(suggest)
    raising = {at for at, name in enumerate(suggest.names) if name == "RAISE_EXCEPTION"}
    assert raising
    assert not raising & of.instructions


def test_what_is_no_model_has_no_listing(tmp_path: Path) -> None:
    assert read_listings(tmp_path / "none.ptl") == ()
    (tmp_path / "text.ptl").write_text("hello")
    assert read_listings(tmp_path / "text.ptl") == ()


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT / "apps").glob("*/models/*.ptl")), ROOT / "tests/golden/models/quantised.ptl"],
    ids=lambda path: path.stem,
)
def test_every_function_of_a_model_is_listed(path: Path) -> None:
    """Also of one whose functions have tensors as constants."""
    dialect = V2_6 if path.stem == "sentences" else V1_13
    functions = read_model(path, dialect.models).functions
    listings = read_listings(path)
    assert [one.qualified for one in listings] == [one.qualified for one in functions]
    for listing, function in zip(listings, functions, strict=True):
        assert {*listing.operators.values()} <= {str(use.operator) for use in function.operators}


def test_the_place_of_an_instruction_that_runs_as_a_later_one() -> None:
    """A layer of several instructions is called at its last one."""
    names = ("OP", "OP", "OP", "OP")
    called = {0: "aten::conv2d", 1: "aten::conv2d", 2: "aten::relu", 3: "aten::add"}
    places = {at: Place("net.py", 10 + at) for at in called}
    of = Listing("__torch__.M.forward", names, operators=called, places=places)
    assert called_at([of], 0, 2, "aten::conv2d") == "forward at net.py:11"
    assert called_at([of], 0, 2, "aten::relu") == "forward at net.py:12"
    assert called_at([of], 0, 1, "aten::add") == "forward at net.py:11"
    assert called_at([replace(of, places={})], 0, 0, "aten::conv2d") == "forward at instruction 0"
    assert called_at([of], 1, 3, "aten::add") == "instruction 3"
