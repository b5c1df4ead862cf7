"""Files of selected operators: each form is read as it is meant, and merging is a union."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from core_toy import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import cli
from orchestrator.trace.lock import parse_lock
from orchestrator.trace.selected import (
    Form,
    SelectionUnreadableError,
    UnwritableSelectionError,
    read_selected,
    selected_text,
)
from orchestrator.values.selected import (
    Selected,
    SelectedChange,
    SelectedOperator,
    changes_of,
    merge_selected,
)

LOCK = ROOT / "apps/camera/traces/classifier.yaml"
UPSTREAM = """\
include_all_non_op_selectives: False
include_all_operators: false
debug_info: [model_a]
operators:
  aten::add.Tensor:
    name: aten::add.Tensor
    is_root_operator: true
    is_used_for_training: false
    include_all_overloads: false
    debug_info: ['model_a@1']
  aten::cat: {}
kernel_metadata:
  add_stub: [Float, '6'-]
custom_classes: [LinearPackedParamsBase]
build_features: []
"""
EXECUTORCH = """\
include_all_non_op_selectives: true
include_all_operators: false
debug_info: []
operators:
  aten::add.out:
    is_root_operator: true
    is_used_for_training: true
    include_all_overloads: false
    debug_info: [//apps/a]
et_kernel_metadata:
  aten::add.out: ['v1/6;0,1|6;0,1|6;0,1', default]
kernel_metadata: {}
custom_classes: []
build_features: []
"""

names = st.frozensets(st.sampled_from(("a", "b", "//apps/c model")), max_size=2)
operators = st.builds(SelectedOperator, st.booleans(), st.booleans(), st.booleans(), names)
selections = st.builds(
    Selected,
    st.booleans(),
    st.booleans(),
    st.dictionaries(
        st.sampled_from(("aten::add.Tensor", "aten::cat", "quantized::linear")), operators
    ),
    st.dictionaries(
        st.sampled_from(("add_stub", "cat_serial_kernel")),
        st.frozensets(st.sampled_from(("Float", "Long", "Bool")), max_size=3),
    ),
    st.dictionaries(
        st.sampled_from(("aten::add.out", "aten::cat")),
        st.frozensets(st.sampled_from(("v1/6;0,1|6;0,1", "v1/4;0|6;", "default"))),
    ),
    st.frozensets(st.sampled_from(("Packed", "Other"))),
    st.frozensets(st.sampled_from(("F", "G"))),
    names,
)


@settings(deadline=None)
@given(selections, selections, selections)
def test_merging_is_a_union(one: Selected, two: Selected, three: Selected) -> None:
    assert one.merge(one) == one
    assert one.merge(two) == two.merge(one)
    assert one.merge(two).merge(three) == one.merge(two.merge(three))
    assert one.merge(Selected()) == one
    both = one.merge(two)
    assert all(change.added for change in changes_of(one, both))
    for file in (one, two):
        for name, operator in file.operators.items():
            assert operator.debug_info <= both.operators[name].debug_info
        assert all(keys <= both.kernel_keys[name] for name, keys in file.kernel_keys.items())
    assert both.debug_info == one.debug_info | two.debug_info


@settings(deadline=None, max_examples=50)
@given(selections)
def test_what_is_written_is_read_again(one: Selected) -> None:
    forms: Mapping[Form, Selected] = {
        "pytorch": replace(one, kernel_keys={}),
        "executorch": replace(one, kernel_dtypes={}),
    }
    for form, selected in forms.items():
        text = selected_text(selected, form)
        assert read_selected(text, "x") == selected
        assert selected_text(read_selected(text, "x"), form) == text


def test_pytorchs_own_form() -> None:
    found = read_selected(UPSTREAM.replace(", '6'-", ""), "x")
    assert found == Selected(
        operators={
            "aten::add.Tensor": SelectedOperator(root=True, debug_info=frozenset({"model_a@1"})),
            # the defaults are upstream's: a name alone selects all
            "aten::cat": SelectedOperator(True, True, True),
        },
        kernel_dtypes={"add_stub": frozenset({"Float"})},
        classes=frozenset({"LinearPackedParamsBase"}),
        debug_info=frozenset({"model_a"}),
    )


def test_the_list_of_operators() -> None:
    found = read_selected("- aten::add.Tensor\n- aten::cat\n", "x")
    assert found.all_others
    assert found.operators["aten::cat"] == SelectedOperator(root=True, all_overloads=True)
    assert selected_text(found, "list") == "- aten::add.Tensor\n- aten::cat\n"


def test_executorchs_form() -> None:
    found = read_selected(EXECUTORCH, "x")
    assert found.kernel_keys == {
        "aten::add.out": frozenset({"v1/6;0,1|6;0,1|6;0,1", "default"}),
    }
    assert read_selected(selected_text(found, "executorch"), "x") == found
    with pytest.raises(UnwritableSelectionError):
        selected_text(found, "pytorch")
    with pytest.raises(UnwritableSelectionError):
        selected_text(found, "list")
    mixed = found.merge(Selected(kernel_dtypes={"add_stub": frozenset({"Float"})}))
    with pytest.raises(UnwritableSelectionError):
        selected_text(mixed, "executorch")


def test_a_lock_keeps_its_model_as_who_asked() -> None:
    found = read_selected(LOCK.read_text(), "x")
    trace = parse_lock(LOCK.read_text(), "x")
    who = frozenset({"//apps/camera classifier"})
    assert found.debug_info == who
    assert {one.debug_info for one in found.operators.values()} == {who}
    roots = {name for name, one in found.operators.items() if one.root}
    assert roots == {*trace.root_operators}
    # the same entries as upstream's tools read in the lock
    part = yaml.safe_load(LOCK.read_text())["selected_operators"]
    again = read_selected(yaml.safe_dump(part), "x")
    assert changes_of(found, again) == ()


@pytest.mark.parametrize(
    ("text", "expected", "seen"),
    [
        ("just a text\n", "a mapping, or a list of operators", "another value"),
        ("operators: {'add': {}}\n", "an operator, such as", "operators.add.[key]: 'add'"),
        ("kernel_metadata: {a: [Flot]}\n", "a dtype: Byte", "kernel_metadata.a.0: 'Flot'"),
        ("surprise: 1\n", "the keys ", "the key surprise"),
        ("operators: {aten::a: {name: aten::b}}\n", "aten::a", "operators.aten::a.name: 'aten::b'"),
        ("et_kernel_metadata: {aten::a: [v2]}\n", "a kernel key", "et_kernel_metadata.aten::a.0"),
        ("a: 1\na: 2\n", "YAML with unique names", "a key that is there twice"),
        ("a: [\n", "YAML with unique names", "while parsing"),
        ("- 'x\x07'\n", "YAML with unique names", "unacceptable character"),
    ],
)
def test_what_is_no_selection(text: str, expected: str, seen: str) -> None:
    with pytest.raises(SelectionUnreadableError) as caught:
        read_selected(text, "x.yaml")
    assert str(caught.value.place) == "x.yaml"
    assert (caught.value.expected or "").startswith(expected)
    assert (caught.value.seen or "").startswith(seen)


def test_a_selection_is_a_plain_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["select", "show", "/dev/zero"], cwd=ROOT) == 1
    assert "seen:     Not a plain file" in capsys.readouterr().err


def test_differences() -> None:
    one = read_selected("operators: {aten::cat: {}}\nkernel_metadata: {k: [Float]}\n", "x")
    two = read_selected("operators: {aten::cat: {is_root_operator: false}}\n", "x")
    assert changes_of(one, two) == (
        SelectedChange("kernel tag", "k Float", added=False),
        SelectedChange("operator's root", "aten::cat", added=False),
    )
    assert merge_selected([one, two]) == one


def run(*words: object) -> int:
    return cli.main(["select", *map(str, words)], env={"ORCHESTRATOR_CACHE": "/x"}, cwd=ROOT)


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = ROOT / "apps/scanner/traces/pages.yaml"
    assert run("merge", LOCK, other) == 0
    merged = capsys.readouterr().out
    assert run("merge", other, LOCK, other) == 0
    assert capsys.readouterr().out == merged
    (tmp_path / "merged.yaml").write_text(merged)
    assert run("show", tmp_path / "merged.yaml") == 0
    assert capsys.readouterr().out == merged
    assert "- //apps/camera classifier\n" in merged
    assert run("diff", LOCK, tmp_path / "merged.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "+ operator aten::hardswish" in lines
    assert all(line.startswith("+ ") for line in lines)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            lambda: ("show", LOCK, LOCK),
            "error: `select show` takes one file\n  seen:     2\n"
            "  do:       `select merge` takes several\n",
        ),
        (
            lambda: ("diff", LOCK),
            "error: `select diff` takes two files\n  seen:     1\n"
            "  do:       write `select diff OLD NEW`\n",
        ),
        (
            lambda: ("show", "/none.yaml"),
            "/none.yaml: error: this file cannot be read\n"
            "  expected: a file of selected operators\n"
            "  seen:     No such file or directory\n"
            "  do:       check the path, and the file's permissions\n",
        ),
    ],
)
def test_wrong_use(
    words: Callable[[], tuple[object, ...]], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words()) == 1
    assert capsys.readouterr().err == error
