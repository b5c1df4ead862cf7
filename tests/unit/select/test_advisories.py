"""Known vulnerabilities: the code that each names is in the index, and a library has the verdict
that its own code gives."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from shipped_index import shipped

from orchestrator.build.delivering.licences import mended_in
from orchestrator.deliver import vex
from orchestrator.errors import OrchestratorError
from orchestrator.load.advisories import (
    OWN,
    AdvisoriesUnreadableError,
    RepeatedAdvisoryError,
    read_advisories,
)
from orchestrator.load.validate import BadValueError, DeclarationErrors, MissingKeyError
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS, load_version
from orchestrator.pytorch.v1_13.dialect import DIALECT as V1_13
from orchestrator.pytorch.v2_6.dialect import DIALECT as V2_6
from orchestrator.report.advisories import ReachableAdvisoryError, require_none, text, values
from orchestrator.select.advisories import LinkedCode, mangled, verdicts
from orchestrator.select.closure import reach, registry
from orchestrator.values.advisories import Advisory, LibraryVerdicts, Verdict
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

ALL = {one.id: one for one in read_advisories(OWN)}
EACH = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
LABEL = VariantLabel("keyboard", "linux-x86_64")


def code(dialect: Dialect, *operators: str, entry: str = "", static: bool = False) -> LinkedCode:
    """A library of some operators, and of what they call; entry: a function of the base."""
    index = shipped(dialect)
    kernels = registry(index, ["CPU"], dialect.keys)
    nodes = [n for n, name in enumerate(index.names) if entry and mangled(entry).match(name)]
    walk = reach(
        index, kernels, entry=nodes, operators=map(Op, operators), units=[], follow_calls=True
    )
    selection = Selection(operators={one: frozenset({"model"}) for one in walk.operators})
    return LinkedCode(index, kernels, selection, walk, whole_units=static)


@EACH
def test_the_code_that_an_advisory_names_is_in_the_index(dialect: Dialect) -> None:
    index = shipped(dialect)
    registered = {one.operator.qualified for one in index.registrations}
    for advisory in ALL.values():
        if not advisory.concerns(dialect.version):
            continue
        assert set(advisory.operators) <= registered, advisory.id
        for function in advisory.functions:
            assert any(map(mangled(function).match, index.names)), (advisory.id, function)


@EACH
def test_an_operator_with_a_vulnerability_is_found(dialect: Dialect) -> None:
    """No false `not present`: each that a model can call is reachable in a library that has it."""
    asked = [one for one in ALL.values() if one.operators and one.concerns(dialect.version)]
    assert len(asked) >= 5
    names = {one.operator for one in shipped(dialect).registrations}
    for advisory in asked:
        for name in (one for one in names if one.qualified in advisory.operators):
            bare = advisory.model_copy(update={"mended": None})
            verdict = code(dialect, name).verdict(bare)
            assert (verdict.state, verdict.justification) == ("exploitable", None), name
            assert any(f"operator {name}" in line for line in verdict.lines), verdict.lines
            if advisory.mended:
                assert code(dialect, name).verdict(advisory).word == "mended"


@EACH
def test_a_library_of_other_operators_has_none_of_it(dialect: Dialect) -> None:
    library = code(dialect, "aten::relu", "aten::conv2d", "aten::lstm.input")
    found = verdicts(ALL.values(), dialect.version, library)
    assert {one.word for one in found.values()} == {"not present"}
    assert "CVE-2025-3001" in found


def test_versions_before_the_reported_one_are_answered() -> None:
    """Databases list 2.6.0 for what was reported of 2.8.0: nobody has looked when it came in."""
    for name in ("CVE-2025-55551", "CVE-2025-55552", "CVE-2025-55554"):
        concerned = [v for v in ("1.13.1", "2.6.0", "2.8.0", "2.9.0") if ALL[name].concerns(v)]
        assert concerned == ["1.13.1", "2.6.0", "2.8.0"], name


@EACH
def test_each_part_of_pytorch_that_is_elsewhere_is_not_in_the_index(dialect: Dialect) -> None:
    """What names a file of PyTorch's names one that no library is made of."""
    units = [one.path for one in shipped(dialect).units]
    for advisory in ALL.values():
        for path in re.findall(r"torch/csrc/[\w/.]+", advisory.elsewhere or ""):
            assert not [one for one in units if one.startswith(path)], (advisory.id, path)


@EACH
def test_the_profiler_is_judged_by_its_code(dialect: Dialect) -> None:
    """Its unit is in the index, so that libraries can have it."""
    advisory = ALL["CVE-2025-2148"]
    assert code(dialect, "aten::relu").verdict(advisory).word == "not present"
    ended = code(dialect, entry=advisory.functions[0])
    assert ended.verdict(advisory).word == "not reachable"


def test_functions_are_found_by_their_own_names_alone() -> None:
    pattern = mangled("at::native::lstm_cell")
    assert pattern.match("_ZN2at6native9lstm_cellERKNS_6TensorE")
    assert pattern.match("_ZN2at6native9lstm_cellIfEEvv")
    assert not pattern.match("_ZN2at6native14lstm_cell_implERKNS_6TensorE")
    assert not pattern.match("_ZN2at6native9lstm_cell5innerEv")


def test_what_stands_before_the_unit_mends_it() -> None:
    run = "torch::jit::mobile::InterpreterState::run"
    verdict = code(V1_13, entry=run).verdict(ALL["CVE-2024-31583"])
    assert verdict.word == "mended"
    bare = ALL["CVE-2024-31583"].model_copy(update={"mended": None})
    assert code(V1_13, entry=run).verdict(bare).lines == ("loading a model reaches it",)
    assert code(V1_13, "aten::relu").verdict(bare).word == "not present"


@EACH
def test_each_mend_is_read_by_a_unit(dialect: Dialect) -> None:
    """The one that holds the function, where an operator calls it."""
    index, rules = shipped(dialect), load_version(dialect.version).include
    mended = [one for one in ALL.values() if one.mended and one.concerns(dialect.version)]
    assert {"CVE-2025-2998", "CVE-2025-2999", "CVE-2025-3001"} <= {one.id for one in mended}
    for advisory in mended:
        assert advisory.mended is not None
        units = [rule.unit for rule in rules if rule.header == advisory.mended.header]
        assert units, advisory.id
        assert advisory.id in mended_in(load_version(dialect.version), units)
        assert advisory.id not in mended_in(load_version(dialect.version), ["c10/util/env.cpp"])
        if advisory.operators:
            owners = {
                index.units[index.owners[node]].path
                for function in advisory.functions
                for node, name in enumerate(index.names)
                if mangled(function).match(name)
            }
            assert owners <= set(units), advisory.id


def test_code_that_no_model_reaches() -> None:
    advisory = ALL["CVE-2025-3001"]
    function = "at::native::lstm_cell"
    assert advisory.mended is not None
    assert code(V2_6, "aten::relu", entry=function).verdict(advisory).lines == (
        "no operator or class of a model leads to it",
    )
    # an archive has the whole unit, of which a recurrent layer needs a part
    whole = code(V2_6, "aten::lstm.input", static=True).verdict(advisory)
    assert (whole.word, whole.lines) == (
        "not reachable",
        ("the archive has its unit, and nothing refers to it",),
    )


def test_a_class_of_the_models_reaches_what_its_unit_does() -> None:
    library = code(V2_6, "aten::relu")
    index = library.index
    unit = next(one for one in index.units if "quantized/cpu/fbgemm_utils" in one.path)
    node = unit.init[0]
    walk = replace(library.walk, parents={**library.walk.parents, node: -1})
    selection = Selection(custom_classes={unit.classes[0]: frozenset({"model"})})
    kernels = registry(index, ["CPU"], V2_6.keys)
    with_class = LinkedCode(index, kernels, selection, walk)
    assert with_class._way(node).startswith(f"class {unit.classes[0]} -> ")


def test_versions() -> None:
    one = Advisory(id="CVE-1-2", title="t", source="https://x", elsewhere="e", below="2.10.0")
    assert [one.concerns(v) for v in ("1.13.1", "2.9.1", "2.10.0", "2.11.0")] == [
        *(True, True, False, False)
    ]
    later = Advisory.model_validate(
        {"id": "CVE-1-3", "title": "t", "source": "https://x", "elsewhere": "e", "from": "2.8.0"}
    )
    assert [later.concerns(v) for v in ("2.6.0", "2.8.0", "2.14.0")] == [False, True, True]


def library(*verdicts: Verdict) -> LibraryVerdicts:
    return LibraryVerdicts(LABEL, "2.6.0", verdicts, 1)


REACHABLE = Verdict(ALL["CVE-2025-3001"], "exploitable", None, ("operator aten::lstm_cell: m",))
ABSENT = Verdict(ALL["CVE-2025-3000"], "not_affected", "code_not_present", ("it is in x",))


def test_what_people_see() -> None:
    other = replace(library(ABSENT), label=VariantLabel("camera", "ios-arm64"))
    assert text([library(ABSENT, REACHABLE), other]) == (
        "//apps/keyboard (linux-x86_64), PyTorch 2.6.0\n"
        "  CVE-2025-3001: reachable: memory corruption in lstm_cell\n"
        "    operator aten::lstm_cell: m\n"
        "  not present: CVE-2025-3000\n"
        "//apps/camera (ios-arm64), PyTorch 2.6.0\n"
        "  not present: CVE-2025-3000\n"
    )
    assert values([other])[0]["advisories"][0]["verdict"] == "not present"
    require_none([other])
    with pytest.raises(ReachableAdvisoryError) as raised:
        require_none([library(REACHABLE), other])
    assert raised.value.seen == "CVE-2025-3001 (//apps/keyboard:linux-x86_64)"


def test_vex() -> None:
    """CycloneDX has its own words; the serial number is of the contents."""
    made = vex.text(library(ABSENT, REACHABLE))
    assert made == vex.text(library(ABSENT, REACHABLE)) != vex.text(library(ABSENT))
    seen = json.loads(made)
    assert [one["id"] for one in seen["vulnerabilities"]] == ["CVE-2025-3000", "CVE-2025-3001"]
    assert [one["analysis"] for one in seen["vulnerabilities"]] == [
        {"state": "not_affected", "justification": "code_not_present", "detail": "it is in x"},
        {"state": "exploitable", "detail": "operator aten::lstm_cell: m"},
    ]
    (component,) = seen["components"]
    assert component["purl"] == "pkg:github/pytorch/pytorch@v2.6.0"
    assert component["cpe"] == "cpe:2.3:a:linuxfoundation:pytorch:2.6.0:*:*:*:*:*:*:*"
    assert seen["vulnerabilities"][0]["affects"] == [{"ref": component["bom-ref"]}]


ENTRY = "  - {id: CVE-1-2, title: t, source: 'https://x', elsewhere: e}\n"


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        (ENTRY * 2, RepeatedAdvisoryError),
        ("  - {id: CVE-1-2, title: t, source: 'https://x'}\n", BadValueError),
        ("  - {id: CVE-1-2, source: 'https://x', elsewhere: e}\n", MissingKeyError),
        (ENTRY.replace("https", "file"), BadValueError),
        (ENTRY.replace("title: t", 'title: "a\\e[2J"'), BadValueError),
        (ENTRY.replace("elsewhere: e", "functions: ['a::b()']"), BadValueError),
        (ENTRY.replace("elsewhere: e", "elsewhere: e, operators: ['aten::a']"), BadValueError),
        (ENTRY.replace("elsewhere: e", "elsewhere: e, below: '2'"), BadValueError),
    ],
)
def test_a_file_of_others(entries: str, error: type[OrchestratorError], tmp_path: Path) -> None:
    file = tmp_path / "advisories.yaml"
    file.write_text(f"format: 1\nadvisories:\n{entries}")
    with pytest.raises((error, DeclarationErrors)) as raised:
        read_advisories(file)
    parts = raised.value.parts if isinstance(raised.value, DeclarationErrors) else [raised.value]
    assert {type(one) for one in parts} == {error}
    assert all(one.place and one.place.line > 2 for one in parts)


def test_messages_about_a_file_of_others(tmp_path: Path) -> None:
    file = tmp_path / "advisories.yaml"
    with pytest.raises(AdvisoriesUnreadableError, match="cannot be read") as none:
        read_advisories(file)
    assert none.value.seen == "No such file or directory"
    file.write_text(f"format: 1\nadvisories:\n{ENTRY.replace('CVE-1-2', 'cve')}")
    with pytest.raises(BadValueError) as raised:
        read_advisories(file)
    assert raised.value.render() == (
        f"{file}:3:10: error: `id` is not valid: other characters\n"
        "  expected: a name such as CVE-2025-3001\n"
        '  seen:     "cve"'
    )
    file.write_text("format: 1\n")
    with pytest.raises(MissingKeyError) as missing:
        read_advisories(file)
    assert missing.value.expected == "a list of advisories"
