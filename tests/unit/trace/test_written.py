"""The reader of locks as they are written: what the YAML reader finds, or nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from core_toy import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.trace import reading
from orchestrator.trace.lock import lock_text, parse_lock
from orchestrator.trace.reading import TraceDamagedError, yaml_trace
from orchestrator.trace.written import written_trace
from orchestrator.values.coverage import FunctionCoverage
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace, TraceIdentity

TRACE = Trace(
    app="camera",
    model="classifier",
    identity=TraceIdentity("a" * 64, "b" * 64, "bundled", ("CPU", "QuantizedCPU"), "c" * 16),
    root_operators=(
        Op("aten::add.Tensor"),
        Op("aten::len.t"),
        Op("aten::relu"),
    ),
    called_operators={Op("aten::add.Tensor"): 3, Op("aten::copy_"): 12},
    kernel_tags={"add_stub": {"Float": 3, "Long": 1}, "slow_conv_dilated<>": {"Bool": 2}},
    custom_classes=("quantized.Linear", "A"),
    build_features=("PROTOBUF", "SECOND"),
    hot_tags=("add_stub", "copy_"),
    multiply_adds=300_000_000,
    outputs="d" * 64,
    coverage={
        "__torch__.M.forward": FunctionCoverage(400, 4, ((3, 5), (9, 9)), ((6, 6),), ((7, 7),)),
        # goes on in further lines
        "__torch__.M.long": FunctionCoverage(999, 1, tuple((n, n) for n in range(0, 300, 2))),
        "__torch__.M.other": FunctionCoverage(7, 0),
    },
)
TEXT = lock_text(TRACE)
LINES = TEXT.splitlines(keepends=True)
BARE = replace(
    TRACE,
    identity=replace(TRACE.identity, sources="e" * 64, backends=()),
    root_operators=(),
    called_operators={},
    kernel_tags={},
    custom_classes=(),
    build_features=(),
    hot_tags=(),
    multiply_adds=None,
    coverage=None,
)


def same(one: Trace, other: Trace) -> bool:
    """Whether traces are equal, and have their entries in the same order."""
    return one == other and repr(one) == repr(other)


def require_agreement(text: str) -> bool:
    """That the text has one meaning; whether the quick reader told it."""
    found = written_trace(text)
    if found is not None:
        assert same(found, yaml_trace(text, "lock"))
    return found is not None


LEFT_OUT = replace(TRACE, unreachable_operators=(Op("aten::sin"), Op("aten::sort.stable")))


@pytest.mark.parametrize("trace", [TRACE, BARE, replace(BARE, coverage={}), LEFT_OUT])
def test_what_is_written_is_read(trace: Trace) -> None:
    found = written_trace(lock_text(trace))
    assert found is not None
    assert same(found, trace)
    assert require_agreement(lock_text(trace))


def test_committed_locks_are_in_the_form() -> None:
    locks = [*ROOT.glob("apps/*/traces/*.yaml"), *ROOT.glob("tests/golden/traces/**/*.yaml")]
    assert len(locks) > 10
    assert all(require_agreement(path.read_text()) for path in locks)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- aten::sin\n", "- aten::relu\n"),
        ("- aten::sin\n", "- aten::sort.stable\n"),
        ("- aten::sin\n", f"- aten::{'x' * 300}\n"),
        ("- aten::sin\n", "- sin\n"),
    ],
)
def test_what_a_lock_may_not_say_of_what_is_left_out(old: str, new: str) -> None:
    text = lock_text(LEFT_OUT)
    assert text.count(old) == 1
    assert written_trace(text.replace(old, new)) is None
    with pytest.raises(TraceDamagedError):
        parse_lock(text.replace(old, new), "lock")


def test_the_yaml_reader_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "plain_yaml", None)
    assert same(parse_lock(TEXT, "lock"), TRACE)


def test_equal_dtypes_are_one_value() -> None:
    tags = {"a": {"Float": 1}, "b": {"Float": 1}}
    found = written_trace(lock_text(replace(TRACE, kernel_tags=tags)))
    assert found is not None
    assert found.kernel_tags["a"] is found.kernel_tags["b"]


OTHER = "  aten::zeros: 1\n"
MANY = "".join(f"  aten::x{n}: 1\n" for n in range(50_000))
LONG = "x" * 129


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # YAML of another style
        ("app: camera", "app:  camera"),
        ("app: camera", "app: 'camera'"),
        ("app: camera", "app: camera # not that one"),
        ("# PyTorch's", "# Our"),
        ("format: 1\n", "format: 1\r\n"),
        ("instructions: 7", "instructions: '7'"),
        ("unrun: 3-5 9", "unrun: '3-5 9'"),
        ("- add_stub", "-  add_stub"),
        # a name twice
        ("  aten::copy_: 12\n", "  aten::copy_: 12\n  aten::copy_: 12\n"),
        ("    Long: 1\n", "    Long: 1\n    Long: 1\n"),
        ("  - SECOND\n", "  - SECOND\n  - SECOND\n"),
        ("  __torch__.M.other:", "  __torch__.M.long:"),
        # what does not follow
        ("  aten::copy_: 12\n", ""),
        ("  aten::copy_: 12\n", "  aten::copy_: 12\n" + OTHER),
        ("- aten::len.t\n", ""),
        ("    - Long\n", ""),
        ("    - Long\n", "    - Lon\u00e9\n"),
        ("is_root_operator: true", "is_root_operator: false"),
        ("instructions: 7\n    ways: 0", "instructions: 7\n    ways: 0\n    unrun: 0-7"),
        ("instructions: 7\n    ways: 0", "instructions: 7\n    ways: 0\n    never_held: '5'"),
        ("instructions: 7\n    ways: 0", "instructions: 7\n    ways: 0\n    unrun: 5-3"),
        # what is no name, or too long or too much
        ("aten::copy_", "aten::" + "x" * 251),
        ("__torch__.M.other", LONG),
        ("  aten::copy_: 12\n", MANY),
        ("Bool: 2", "Boole: 2"),
        ("aten::copy_: 12", "aten::copy_: 012"),
        (TEXT[-8:], ""),
    ],
)
def test_other_texts_are_left_to_the_yaml_reader(old: str, new: str) -> None:
    assert old in TEXT
    assert written_trace(TEXT.replace(old, new)) is None


def test_a_text_that_says_the_same_in_another_style_is_read() -> None:
    text = TEXT.replace("app: camera", "app: 'camera'")
    assert same(parse_lock(text, "lock"), TRACE)


def test_coverage_of_more_than_a_model_may_have_is_refused() -> None:
    with pytest.raises(TraceDamagedError, match="this trace cannot be read"):
        parse_lock(TEXT.replace("instructions: 999", "instructions: 999999"), "lock")


@st.composite
def edited(draw: st.DrawFn) -> str:
    """A lock's text with some lines or characters changed: mostly it stays near the form."""
    lines = list(LINES)
    at = st.integers(0, len(lines) - 1)
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["drop", "repeat", "swap", "character", "word"]))
        one, other = draw(at), draw(at)
        if kind == "drop":
            lines[one] = ""
        elif kind == "repeat":
            lines[other] += lines[one]
        elif kind == "swap":
            lines[one], lines[other] = lines[other], lines[one]
        elif kind == "character":
            place = draw(st.integers(0, len(lines[one])))
            new = draw(st.sampled_from([*" :-'\"#?!&*|>%@{}[],.~_09aZ\t\n\r\x85\u2028\xe9\0", ""]))
            lines[one] = lines[one][:place] + new + lines[one][place + 1 :]
        else:
            words = re.findall(r"[\w:.]+", lines[other])
            if words:
                word = draw(st.sampled_from(words))
                lines[one] = re.sub(r"[\w:.]+", word, lines[one], count=1)
    return "".join(lines)


@settings(deadline=None, max_examples=400)
@given(edited())
def test_no_text_has_two_meanings(text: str) -> None:
    require_agreement(text)


@settings(deadline=None, max_examples=100)
@given(st.permutations(sorted(TRACE.called_operators)), st.permutations(sorted(TRACE.kernel_tags)))
def test_the_order_of_entries_stays(called: list[Op], tags: list[str]) -> None:
    trace = replace(
        TRACE,
        called_operators={name: TRACE.called_operators[name] for name in called},
        kernel_tags={tag: TRACE.kernel_tags[tag] for tag in tags},
    )
    found = written_trace(lock_text(trace))
    assert found is not None
    assert same(found, trace)


def test_a_lock_of_too_many_values_is_left_to_the_yaml_reader() -> None:
    many = "".join(f"- t{number}\n" for number in range(200_000))
    text = TEXT.replace("hot_tags:\n", f"hot_tags:\n{many}")
    assert written_trace(text) is None
    with pytest.raises(TraceDamagedError) as caught:
        parse_lock(text, "lock")
    assert caught.value.expected == "at most 200,000 values"


def test_a_hostile_text_is_refused_quickly() -> None:
    """As many lines as a lock may have, and what fits until the last one."""
    start, middle, end = TEXT.partition("  aten::copy_: 12\n")
    assert written_trace(start + middle * 200_000 + end) is None
    assert written_trace(start + middle * 200_000 + "x" + end) is None
