"""Trace locks: the same bytes for the same trace, told clearly where stale, damaged or missing."""

from __future__ import annotations

import hashlib
import json
import os
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
import zstandard
from core_toy import GOLDEN, ROOT
from golden_files import Golden
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_index import VERSION, shipped
from trace_toy import DIGEST, IDENTITY, RESULT, RUN, RUNS, TRACE

from orchestrator.build.workshop.trace_identity import vocabulary_of
from orchestrator.errors import OrchestratorError
from orchestrator.pytorch.dialects import load_version
from orchestrator.trace.form import Vocabulary
from orchestrator.trace.lock import (
    TraceConflictError,
    TraceDamagedError,
    TraceMisplacedError,
    TraceMissingError,
    TraceStaleError,
    TraceUnknownError,
    UnfitRecordingError,
    changes,
    lock_path,
    lock_text,
    pack_runs,
    parse_lock,
    read_lock,
    read_runs,
    runs_path,
    trace_before,
    write_lock,
)
from orchestrator.trace.reading import check_vocabulary
from orchestrator.trace.runs import LARGEST
from orchestrator.values.coverage import FunctionCoverage
from orchestrator.values.forms import DTYPES
from orchestrator.values.labels import AppLabel
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace, TraceIdentity


@pytest.fixture
def app(tmp_path: Path) -> Path:
    folder = tmp_path / "apps/camera"
    write_lock(folder, TRACE, RUNS)
    return folder


def read(app: Path, identity: TraceIdentity = IDENTITY) -> Trace:
    return read_lock(app, "classifier", identity, AppLabel("camera"), app.parents[1])


def refused(app: Path, identity: TraceIdentity = IDENTITY) -> OrchestratorError:
    with pytest.raises(OrchestratorError) as caught:
        read(app, identity)
    return caught.value


def test_the_exact_text(golden: Golden) -> None:
    golden(GOLDEN / "classifier.yaml", lock_text(TRACE))


def test_what_is_written_is_read(app: Path) -> None:
    assert read(app) == TRACE
    assert read_runs(app, TRACE, app.parents[1]) == RESULT
    assert sorted(p.name for p in (app / "traces").iterdir()) == [
        "classifier.runs.zst",
        "classifier.yaml",
    ]


COVERED = replace(
    TRACE,
    coverage={
        "__torch__.M.forward": FunctionCoverage(40, 4, ((3, 5), (9, 9)), ((6, 6),), ((7, 7),)),
        "__torch__.M.other": FunctionCoverage(7, 0),
    },
)
COVERAGE = """\
coverage:
  __torch__.M.forward:
    instructions: 40
    ways: 4
    unrun: 3-5 9
    never_held: '6'
    never_failed: '7'
  __torch__.M.other:
    instructions: 7
    ways: 0
"""


def test_coverage_is_in_a_lock_where_it_was_recorded() -> None:
    text = lock_text(COVERED)
    assert COVERAGE in text
    assert text.replace(COVERAGE, "") == lock_text(TRACE)
    assert parse_lock(text, "lock") == COVERED
    assert parse_lock(lock_text(TRACE), "lock").coverage is None


@pytest.mark.parametrize(
    ("old", "new", "expected", "seen"),
    [
        ("3-5 9", "9 3-5", "ascending instructions, such as 3-5 9", "'9 3-5'"),
        ("3-5 9", "3-5000000", "ascending instructions, such as 3-5 9", "'3-5000000'"),
        ("ways: 4", "ways: -4", "a number of instructions", "'-4'"),
        ("  __torch__.M.other", "  a b", "a function's name, such as "
         "__torch__.net.Classifier.forward", "'a b'"),
        ("ways: 0", "ways: 0\n    runs: 1", "no such key", "'runs'"),
        ("instructions: 40", "instructions: 3", "consistent sections",
         "`instructions` contradicts the recorded calls"),
        ("ways: 4", "ways: 1", "consistent sections", "`ways` contradicts the recorded calls"),
        ("ways: 4", "ways: 81", "at most two ways for each instruction", "81"),
        ("instructions: 7", "instructions: 249961", "at most 250,000 instructions of a model",
         "more"),
    ],
)  # fmt: skip
def test_what_a_lock_may_not_say_of_coverage(old: str, new: str, expected: str, seen: str) -> None:
    text = lock_text(COVERED)
    assert old in text
    with pytest.raises(TraceDamagedError) as caught:
        parse_lock(text.replace(old, new, 1), "lock")
    assert (caught.value.expected, caught.value.seen) == (expected, seen)


def test_the_trace_before(app: Path) -> None:
    assert trace_before(app, "classifier") == TRACE
    assert trace_before(app, "another") is None
    lock_path(app, "classifier").write_bytes(b"format: \xff")
    assert trace_before(app, "classifier") is None
    lock_path(app, "classifier").write_text("format: 0\n")
    assert trace_before(app, "classifier") is None


# Names of which YAML could take some for numbers, dates or booleans.
names = st.sampled_from(["yes", "null", "e5", "on", "y", "_1", "x_1e5", "NaN"]) | st.from_regex(
    r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True
)
operators = st.builds(
    "{}::{}{}".format, names, names, names.map(lambda n: f".{n}") | st.just("")
).map(Op)
digests = st.sampled_from(["0" * 64, "1e5" + "0" * 61, "12" * 32]) | st.from_regex(
    r"[0-9a-f]{64}", fullmatch=True
)
counts = st.integers(0, 2**40)
tables = st.dictionaries(operators, counts, max_size=3)
dtypes = st.dictionaries(st.sampled_from(DTYPES), counts, max_size=3)


@settings(deadline=None)
@given(
    st.builds(
        TraceIdentity,
        digests,
        digests,
        digests | st.just("bundled"),
        st.lists(names, max_size=2, unique=True).map(tuple),
        st.sampled_from(["0" * 16, "1e5" + "0" * 13, "ab" * 8]),
    ),
    st.sets(operators, max_size=3),
    tables,
    st.dictionaries(names | st.just("slow_conv_dilated<>"), dtypes, max_size=2),
    st.lists(names, max_size=2, unique=True).map(tuple),
)
def test_every_trace_survives_its_file(
    identity: TraceIdentity,
    roots: set[Op],
    called: dict[Op, int],
    tags: dict[str, dict[str, int]],
    classes: tuple[str, ...],
) -> None:
    trace = replace(
        TRACE,
        identity=identity,
        root_operators=tuple(sorted(roots)),
        called_operators={name: called[name] for name in sorted(called)},
        kernel_tags=tags,
        custom_classes=classes,
        build_features=classes,
    )
    assert parse_lock(lock_text(trace), "x") == trace


def test_a_trace_of_another_runtime_of_the_workspace(app: Path) -> None:
    pins = {IDENTITY.runtime: "stable", "d" * 64: "next"}
    with pytest.raises(TraceStaleError) as caught:
        read_lock(
            app,
            "classifier",
            replace(IDENTITY, runtime="d" * 64),
            AppLabel("camera"),
            app.parents[1],
            runtimes=pins,
        )
    assert caught.value.render() == (
        "apps/camera/traces/classifier.yaml: error: the trace of classifier is stale: runtime"
        " changed since\n"
        "  expected: a trace made with runtime next\n"
        "  seen:     one of runtime stable\n"
        "  do:       run: ./orchestrate trace //apps/camera"
    )


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("model", "d" * 64),
        ("runtime", "d" * 64),
        ("inputs", "d" * 64),
        ("backends", ("CPU",)),
        ("tracer", "d" * 16),
        ("sources", "d" * 64),
    ],
)
def test_a_stale_trace_names_what_changed(app: Path, part: str, value: object) -> None:
    error = refused(app, replace(IDENTITY, **{part: value}))  # type: ignore[arg-type]
    assert isinstance(error, TraceStaleError)
    assert error.render() == (
        f"apps/camera/traces/classifier.yaml: error: the trace of classifier is stale: {part}"
        " changed since\n"
        "  do:       run: ./orchestrate trace //apps/camera"
    )


def test_a_lock_names_the_sources_that_there_are(app: Path) -> None:
    trace = parse_lock(lock_path(app, "classifier").read_text(), "l")
    assert "sources" not in lock_text(trace)
    own = replace(trace, identity=replace(trace.identity, sources="d" * 64))
    assert parse_lock(lock_text(own), "l") == own
    with pytest.raises(TraceDamagedError):
        parse_lock(lock_text(own).replace("d" * 64, "d" * 63), "l")


def test_several_changes_are_all_named() -> None:
    other = replace(IDENTITY, tracer="x", model="y")
    assert changes(IDENTITY, other) == ["model", "tracer"]
    assert changes(IDENTITY, IDENTITY) == []


def test_a_missing_trace(app: Path) -> None:
    lock_path(app, "classifier").unlink()
    error = refused(app)
    assert isinstance(error, TraceMissingError)
    assert error.render() == (
        "error: the model classifier of //apps/camera has not been traced\n"
        "  expected: apps/camera/traces/classifier.yaml\n"
        "  do:       run: ./orchestrate trace //apps/camera"
    )


GOOD = lock_text(TRACE)


def line_of(text: str, words: str) -> int:
    """The first line that holds some words."""
    return next(n for n, line in enumerate(text.splitlines(), 1) if words in line)


def told(text: str) -> list[str]:
    """What is wrong with a lock's text: place, expected, seen."""
    with pytest.raises(TraceDamagedError) as caught:
        parse_lock(text, "lock")
    head, expected, seen, hint = caught.value.render().splitlines()
    assert hint == "  do:       trace the model again: ./orchestrate trace"
    place, _, what = head.partition(": error: ")
    assert what == "this trace cannot be read"
    return [place, expected.removeprefix("  expected: "), seen.removeprefix("  seen:     ")]


def test_a_damaged_lock_is_told_in_full(app: Path) -> None:
    lock_path(app, "classifier").write_bytes(GOOD.replace("- Long", "- Longer").encode())
    error = refused(app)
    assert error.render() == (
        f"apps/camera/traces/classifier.yaml:{line_of(GOOD, '- Long')}:7: error: this trace cannot"
        " be read\n"
        "  expected: a dtype: Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf,"
        " ComplexFloat, ComplexDouble, Bool, QInt8, QUInt8, QInt32, BFloat16, QUInt4x2, QUInt2x4\n"
        "  seen:     'Longer'\n"
        "  do:       trace the model again: ./orchestrate trace //apps/camera"
    )


A_DTYPE = f"a dtype: {', '.join(DTYPES)}"
A_TAG = "a kernel tag: letters, digits and `_.<>`"
AN_OPERATOR = "an operator, such as aten::add.Tensor"
A_CLASS = "a custom class, such as LinearPackedParamsBase"
A_COUNT = "a count: a whole number"
ONCE = "unique names as keys"
# in YAML's double quotes, and as it is
CODE = "Float; }\\n  return false;\\n}\\n}\\nint x = system(0);"
TAG = 'x\\") == 0) return true; if (tag.compare(\\"y'


@pytest.mark.parametrize(
    ("old", "new", "words", "column", "expected", "seen"),
    [
        # what would be code in a projection
        ("    Long: 1", f'    "{CODE}": 1', "system", 5, A_DTYPE, f"'{CODE}'"),
        ("    - Long", f'    - "{CODE}"', "system", 7, A_DTYPE, f"'{CODE}'"),
        ("    Long: 1", '    "*": 1', '"*"', 5, A_DTYPE, "'*'"),
        ("  copy_:", f'  "{TAG}":', "compare", 3, A_TAG, "'" + TAG.replace("\\", "") + "'"),
        ("- add_stub", "- [add_stub]", "[add", 3, "a name", "a list"),
        ("- add_stub", "- add stub", "add stub", 3, A_TAG, "'add stub'"),
        ("- add_stub", "- add_stub\n- add_stub", "- add_stub", 1, "unique entries", "a list"),
        ("  - quantized.Linear", '  - a"); //', "//", 5, A_CLASS, "'a\"); //'"),
        ("  - quantized.Linear", "  - [a, b]", "[a, b]", 5, "a name", "a list"),
        ("  - quantized.Linear", "  - é", "é", 5, A_CLASS, r"'\xe9'"),
        (
            "  - PROTOBUF",
            "  - A;B",
            "A;B",
            5,
            "a build feature: letters, digits and `_`",
            "'A;B'",
        ),
        # operators
        ("  aten::copy_: 12", "  copy_: 12", "  copy_: 12", 3, AN_OPERATOR, "'copy_'"),
        ("  aten::copy_: 12", "  aten::a b: 1", "a b", 3, AN_OPERATOR, "'aten::a b'"),
        ("    aten::copy_:\n", "    aten::copy_;x:\n", ";x", 5, AN_OPERATOR, "'aten::copy_;x'"),
        ("- aten::len.t", "- aten::len.", "- aten::len.", 3, AN_OPERATOR, "'aten::len.'"),
        # counts
        ("aten::copy_: 12", "aten::copy_: -1", ": -1", 16, A_COUNT, "'-1'"),
        ("aten::copy_: 12", "aten::copy_: 0x1", ": 0x1", 16, A_COUNT, "'0x1'"),
        ("aten::copy_: 12", "aten::copy_: 1_2", ": 1_2", 16, A_COUNT, "'1_2'"),
        ("aten::copy_: 12", "aten::copy_: [1]", ": [1]", 16, "a name", "a list"),
        ("aten::copy_: 12", f"aten::copy_: {10**40}", "0000", 16, A_COUNT, f"'{10**40}'"),
        # who and of what
        ("app: camera", "app: ../../x", "../", 6, "a name", "'../../x'"),
        ("model: classifier", "model: /abs/x", "/abs", 8, "a name", "'/abs/x'"),
        (f"  model: {'a' * 64}", "  model: abc", ": abc", 10, "a sha256 digest", "'abc'"),
        (f"outputs: {DIGEST}", "outputs: abc", ": abc", 10, "a sha256 digest", "'abc'"),
        ("inputs: bundled", "inputs: x", ": x", 11, "`bundled`, or a sha256 digest", "'x'"),
        ("  - CPU\n", "  - CPU CPU\n", "CPU CPU", 5, "a dispatch key, such as CPU", "'CPU CPU'"),
        ("  - CPU\n", "  - CPU\n  - CPU\n", "- CPU", 3, "unique entries", "a list"),
        (
            "tracer: cccc",
            "tracer: cxcc",
            "cxcc",
            11,
            "16 hexadecimal digits",
            "'cx" + "c" * 14 + "'",
        ),
        # the form
        ("format: 1", "format: 2", "format: 2", 9, "'1'", "'2'"),
        ("outputs:", "output:", "format: 1", 1, "a key `outputs`", "none"),
        ("hot_tags:", "more: 1\nhot_tags:", "more", 1, "no such key", "'more'"),
        ("hot_tags:", "multiply_adds: -1\nhot_tags:", "-1", 16, A_COUNT, "'-1'"),
        ("hot_tags:", "multiply_adds: many\nhot_tags:", "many", 16, A_COUNT, "'many'"),
        (
            "is_root_operator: true",
            "is_root_operator: yes",
            "yes",
            25,
            "'true' or 'false'",
            "'yes'",
        ),
        (
            "include_all_overloads: false",
            "include_all_overloads: true",
            "s: true",
            30,
            "'false'",
            "'true'",
        ),
        ("calls:\n", "calls: x\nmore:\n", "calls: x", 8, "a mapping", "'x'"),
        ("hot_tags:\n- add_stub", "hot_tags: {a: b}", "hot_tags", 11, "a list", "a mapping"),
        # YAML
        ("app: camera", 'app: camera\n"app": x', '"app"', 1, ONCE, "'app'"),
        ("    Long: 1", "    Float: 1", "Float: 1", 5, ONCE, "'Float'"),
        ("app: camera", "[app]: camera", "[app]", 1, ONCE, "a part"),
        ("app: camera", "app: &a camera\nb: *a", "*a", 4, "no alias", "*a"),
        ("app: camera", "app: !!str camera", "!!str", 6, "no tag", "tag:yaml.org,2002:str"),
        (
            "app: camera",
            "app: [[[[[[[x]]]]]]]",
            "[[[",
            10,
            "the nesting of a lock",
            "deeper nesting",
        ),
        ("app: camera", "---\napp: camera", "---", 1, "one document", "another one"),
        # what is said twice
        (
            "    - Long\n",
            "",
            "kernel_metadata",
            3,
            "consistent sections",
            "`kernel_metadata` contradicts the recorded calls",
        ),
        (
            "    aten::copy_:\n",
            "    aten::other:\n",
            "  operators:",
            3,
            "consistent sections",
            "`operators` contradicts the recorded calls",
        ),
        (
            "- aten::len.t",
            "- aten::relu",
            "unrun",
            1,
            "consistent sections",
            "`unrun_operators` contradicts the recorded calls",
        ),
    ],
)
def test_what_a_lock_may_not_say(
    old: str, new: str, words: str, column: int, expected: str, seen: str
) -> None:
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    assert told(text)[1:] == [expected, seen]
    place = told(text)[0]
    assert place == f"lock:{line_of(text, words)}:{column}"


@pytest.mark.parametrize(
    ("text", "place", "expected", "seen"),
    [
        ("", "lock:1:1", "a mapping", "nothing"),
        ("- 1", "lock:1:1", "a mapping", "a list"),
        ("x", "lock:1:1", "a mapping", "'x'"),
        (
            "a: [",
            "lock:1:5",
            "YAML",
            "invalid YAML: expected the node content, but found '<stream end>', while parsing"
            " a flow"
            " node",
        ),
        (
            'a: "\\U00110000"',
            "lock:1:7",
            "YAML",
            "invalid YAML: found invalid Unicode character escape code,"
            " while parsing a quoted scalar",
        ),
        ("a: \x01", "lock:1:4", "YAML", "invalid YAML: a control character"),
        ("x" * (2**22 + 1), "lock", "at most 4,194,304 characters", "4,194,305"),
        ("[" * 100_000, "lock:1:6", "the nesting of a lock", "deeper nesting"),
        (
            "x: {a: 1, a: 1}\ny: " + "[" * 100_000,
            "lock:2:8",
            "the nesting of a lock",
            "deeper nesting",
        ),
    ],
    ids=["empty", "list", "word", "cut", "escape", "control", "long", "deep", "deep later"],
)
def test_what_is_no_lock_at_all(text: str, place: str, expected: str, seen: str) -> None:
    assert told(text) == [place, expected, seen]


def test_a_lock_of_too_many_values() -> None:
    """Each could be at fault: a million took 1.4 GB to tell of one."""
    text = "hot_tags:\n" + "- .\n" * 10**6
    assert told(text) == ["lock:199999:3", "at most 200,000 values", "more"]


def test_a_trace_before_that_is_a_device(app: Path) -> None:
    path = lock_path(app, "classifier")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert trace_before(app, "classifier") is None


def test_bytes_that_are_no_text(app: Path) -> None:
    lock_path(app, "classifier").write_bytes(b"\xff\xfe")
    assert isinstance(refused(app), TraceDamagedError)


def test_a_merge_conflict(app: Path) -> None:
    text = GOOD.replace("- add_stub\n", "<<<<<<< HEAD\n- add_stub\n=======\n- copy_\n>>>>>>> x\n")
    lock_path(app, "classifier").write_text(text)
    error = refused(app)
    assert isinstance(error, TraceConflictError)
    assert error.render() == (
        f"apps/camera/traces/classifier.yaml:{line_of(text, '<<<<')}:1: error: unresolved merge"
        " conflict in this trace\n"
        "  do:       keep one side's lock with its recorded runs, or trace the model again:"
        " ./orchestrate trace //apps/camera"
    )


@pytest.mark.parametrize(
    ("part", "value", "line", "column"), [("app", "scanner", 4, 6), ("model", "pages", 5, 8)]
)
def test_a_lock_of_another_app_or_model(
    app: Path, part: str, value: str, line: int, column: int
) -> None:
    trace = replace(TRACE, **{part: value})  # type: ignore[arg-type]
    lock_path(app, "classifier").write_text(lock_text(trace))
    error = refused(app)
    assert isinstance(error, TraceMisplacedError)
    assert error.render() == (
        f"apps/camera/traces/classifier.yaml:{line}:{column}: error: this trace belongs to another"
        f" {part}\n"
        f"  expected: {getattr(TRACE, part)}\n"
        f"  seen:     {value}\n"
        "  do:       trace the model again: ./orchestrate trace //apps/camera"
    )


KNOWN = Vocabulary(
    "0.1.0",
    frozenset((Op("aten::add.Tensor"), Op("aten::len.t"), Op("aten::copy_"))),
    frozenset(("add_stub", "copy_")),
)


@pytest.mark.parametrize(
    ("known", "what", "words", "column", "seen"),
    [
        (
            replace(KNOWN, operators=frozenset((Op("aten::copy_"),))),
            "operators",
            "    aten::add.Tensor:",
            5,
            "aten::add.Tensor, aten::len.t",
        ),
        (replace(KNOWN, tags=frozenset(("add_stub",))), "kernel tags", "  copy_:", 3, "copy_"),
        (replace(KNOWN, tags=frozenset(("copy_",))), "kernel tags", "  add_stub:", 3, "add_stub"),
    ],
)
def test_names_that_the_runtime_does_not_have(
    app: Path, known: Vocabulary, what: str, words: str, column: int, seen: str
) -> None:
    def read_with(known: Vocabulary, identity: TraceIdentity = IDENTITY) -> Trace:
        return read_lock(app, "classifier", identity, AppLabel("camera"), app.parents[1], known)

    assert read_with(KNOWN) == TRACE
    with pytest.raises(TraceUnknownError) as caught:
        read_with(known)
    assert caught.value.render() == (
        f"apps/camera/traces/classifier.yaml:{line_of(GOOD, words)}:{column}: error: this trace"
        f" names {what} that PyTorch 0.1.0 does not have\n"
        f"  expected: {what} of PyTorch 0.1.0\n"
        f"  seen:     {seen}\n"
        "  do:       trace the model again: ./orchestrate trace //apps/camera"
    )
    # after a change of the runtime that is what is told
    with pytest.raises(TraceStaleError):
        read_with(known, replace(IDENTITY, runtime="d" * 64))


def test_all_that_the_shipped_runtime_has_can_be_said() -> None:
    known = vocabulary_of(shipped(), load_version(VERSION))
    trace = replace(
        TRACE,
        root_operators=tuple(sorted(known.operators)),
        called_operators={},
        kernel_tags={tag: dict.fromkeys(sorted(DTYPES), 1) for tag in sorted(known.tags)},
        hot_tags=tuple(sorted(known.tags)),
    )
    text = lock_text(trace)
    assert parse_lock(text, "x") == trace
    assert len(text) < 2**22 / 4
    check_vocabulary(trace, known, text, "x")
    assert "triu" in known.tags


def test_what_is_written_can_be_read(app: Path) -> None:
    """A model may do to the tracer what it likes."""
    before = lock_path(app, "classifier").read_bytes()
    with pytest.raises(UnfitRecordingError) as caught:
        write_lock(app, replace(TRACE, custom_classes=("a b",)), b"other runs")
    assert caught.value.render() == (
        "error: the recording of classifier does not fit the lock format\n"
        f"  expected: {A_CLASS}\n"
        "  seen:     'a b'\n"
        "  do:       run the model in PyTorch on the same inputs; where it runs, report this"
    )
    assert lock_path(app, "classifier").read_bytes() == before
    assert runs_path(app, "classifier").read_bytes() == RUNS


def test_a_truncated_trace_never_loses_anything_silently(app: Path) -> None:
    refused = 0
    for cut in range(0, len(GOOD), 7):
        try:
            trace = parse_lock(GOOD[:cut], "x")
        except TraceDamagedError:
            refused += 1
        else:
            # what upstream's reader wants in the last lines
            assert (trace, cut > len(GOOD) - 120) == (TRACE, True)
    assert refused > 150


@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage", "another run", "a pipe"])
def test_runs_that_are_not_the_locks(app: Path, damage: str) -> None:
    path = runs_path(app, "classifier")
    if damage == "missing":
        path.unlink()
    elif damage == "a pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        other, _ = pack_runs({"runs": []})
        path.write_bytes({"truncated": RUNS[:-4], "garbage": b"no", "another run": other}[damage])
    with pytest.raises(TraceDamagedError) as caught:
        read_runs(app, TRACE, app.parents[1])
    lines = caught.value.render().splitlines()
    assert lines[:2] == [
        "apps/camera/traces/classifier.runs.zst: error: the recorded runs of classifier do not"
        " match its trace",
        f"  expected: {DIGEST}",
    ]
    assert lines[-1] == "  do:       run: ./orchestrate trace //apps/camera"


def of_text(app: Path, text: bytes, *, packed: bytes | None = None) -> tuple[str, float, int]:
    """What reading says of runs whose digest is their lock's; CPU seconds, and bytes at most."""
    compressed = zstandard.ZstdCompressor().compress(text) if packed is None else packed
    runs_path(app, "classifier").write_bytes(compressed)
    trace = replace(TRACE, outputs=hashlib.sha256(text).hexdigest())
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(TraceDamagedError) as caught:
        read_runs(app, trace, app.parents[1])
    seconds, (_, most) = time.process_time() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.seen
    return caught.value.seen, seconds, most


NO_RUNS = "not a list of runs, or values of more than 100 levels"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (b"[" * 200_000, "invalid JSON: nested too deeply"),
        (b"[" + b"0," * 10**6 + b"0]", "more than 1,000,000 values"),
        (b"{", "invalid JSON: Expecting property name"),
        (b"\xff\xfe", "invalid JSON: "),
        (b"[]", NO_RUNS),
        (b'{"runs":{}}', NO_RUNS),
        (b'{"runs":[1]}', NO_RUNS),
        *(
            (
                f'{{"runs":[{{"method":"f","index":0,"error":null,"output":{value}}}]}}'.encode(),
                NO_RUNS,
            )
            for value in (
                *("null", "1", "{}", "[]", '{"what":1}', '{"list":1}', '{"list":[1]}'),
                *('{"dict":[[{"int":1}]]}', '{"dict":[1]}', '{"tensor":1}'),
                '{"tensor":{"dtype":"float32","shape":[-1],"data":""}}',
                '{"tensor":{"dtype":"float32","shape":[true],"data":""}}',
                '{"tensor":{"dtype":"float32","shape":[1]}}',
                '{"tensor":{"dtype":1,"shape":[1],"data":""}}',
            )
        ),
        (b'{"runs":[{"method":1,"index":0,"error":null,"output":{"int":1}}]}', NO_RUNS),
        (b'{"runs":[{"method":"f","index":"0","error":null,"output":{"int":1}}]}', NO_RUNS),
        (b'{"runs":[{"method":"f","index":0,"error":"no","output":null}]}', NO_RUNS),
    ],
)
def test_runs_that_are_none_although_their_digest_is_right(
    app: Path, text: bytes, seen: str
) -> None:
    said, seconds, _ = of_text(app, text)
    assert said.startswith(seen)
    assert seconds < 2


def test_runs_that_claim_or_unfold_to_too_much(app: Path) -> None:
    # a frame's header with a content size of 2**40 (RFC 8878, 3.1.1.1), and one block of nothing
    claim = bytes.fromhex("28b52ffd e0 0000000000010000 010000".replace(" ", ""))
    said, _, most = of_text(app, b"x", packed=claim)
    assert said
    assert most < 50 * 2**20
    bomb = zstandard.ZstdCompressor().compress(b"0" * (2**28 + 1))
    said, _, most = of_text(app, b"x", packed=bomb)
    assert said == "more than 67,108,864 bytes"
    assert most < 50 * 2**20


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"int": 1}
    for _ in range(levels - 1):
        value = {"tuple": [value]}
    return {"runs": [{**RUN, "output": value}], "error": None}


RUN_OF_A_TEXT = {"method": "f", "index": 0, "output": {"string": "?\U0001f600"}}


def test_recorded_text_is_escaped(app: Path) -> None:
    text = json.dumps({"runs": [RUN_OF_A_TEXT]}, ensure_ascii=False).encode()
    runs_path(app, "classifier").write_bytes(zstandard.compress(text))
    trace = replace(TRACE, outputs=hashlib.sha256(text).hexdigest())
    with pytest.raises(TraceDamagedError) as caught:
        read_runs(app, trace, app.parents[1])
    assert caught.value.seen == "invalid JSON: a character that is not escaped"


def test_the_largest_runs_take_bounded_memory(app: Path) -> None:
    start, end = json.dumps({"runs": [RUN_OF_A_TEXT]}).encode().split(b"?")
    text = start + b"x" * (LARGEST - len(start) - len(end)) + end
    runs_path(app, "classifier").write_bytes(zstandard.compress(text))
    trace = replace(TRACE, outputs=hashlib.sha256(text).hexdigest())
    del text
    tracemalloc.start()
    try:
        assert read_runs(app, trace, app.parents[1])["runs"]
        # of which 100 MB are reserved for a text that grows, and never touched
        assert tracemalloc.get_traced_memory()[1] < 580e6
    finally:
        tracemalloc.stop()


def test_what_could_not_be_read_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    pack_runs(nested(100))
    with pytest.raises(UnfitRecordingError) as caught:
        pack_runs(nested(101))
    assert caught.value.render() == (
        "error: the outputs of the model cannot be recorded\n"
        "  expected: at most 67,108,864 bytes of JSON with at most a million values\n"
        "  seen:     not a list of runs, or values of more than 100 levels\n"
        "  do:       use smaller or fewer inputs"
    )
    monkeypatch.setattr("orchestrator.trace.runs.LARGEST", 10)
    with pytest.raises(UnfitRecordingError):
        pack_runs(RESULT)


def test_values_of_every_kind_are_runs(app: Path) -> None:
    values: list[object] = [
        {"none": True},
        {"list": [{"int": 1}, {"tuple": [{"double": "nan"}]}]},
        {"dict": [[{"string": "a"}, {"bool": True}]]},
        {"tensor": {"dtype": "float32", "shape": [0, 2], "data": ""}},
        {"tensor": {"dtype": "float32", "shape": [2], "unsteady": True}},
        {"unsteady": "any"},
        {"other": True},
    ]
    runs = [
        *({"method": "f", "index": n, "error": None, "output": v} for n, v in enumerate(values)),
        {"method": "f", "index": 99, "error": {"code": "RUN_FAILED", "text": ""}, "output": None},
    ]
    packed, digest = pack_runs({"runs": runs, "error": None})
    trace = replace(TRACE, outputs=digest)
    write_lock(app, trace, packed)
    assert read_runs(app, trace, app.parents[1])["runs"] == runs


def test_runs_are_packed_the_same_whatever_the_order() -> None:
    turned = json.loads(json.dumps({"error": None, "runs": RESULT["runs"]}))
    assert pack_runs(turned) == (RUNS, DIGEST)
    assert json.loads(zstandard.ZstdDecompressor().decompress(RUNS)) == RESULT


def test_tracing_again_replaces_both_files(app: Path) -> None:
    runs, digest = pack_runs({"runs": [], "error": None})
    again = replace(TRACE, outputs=digest)
    write_lock(app, again, runs)
    assert read(app) == again
    assert read_runs(app, again, app.parents[1]) == {"runs": [], "error": None}
    assert len(list((app / "traces").iterdir())) == 2


COMMITTED = sorted((ROOT / "apps").glob("*/traces/*.yaml"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_traces_are_what_we_write(path: Path) -> None:
    app = path.parents[1]
    trace = parse_lock(path.read_text(), path.name)
    assert (trace.app, trace.model) == (app.name, path.stem)
    assert lock_text(trace) == path.read_text()
    assert read_runs(app, trace, ROOT)["runs"]
    value = yaml.safe_load(path.read_text())
    assert sorted(value["selected_operators"]["operators"]) == sorted(
        {*trace.root_operators, *trace.called_operators}
    )


def test_traces_are_committed() -> None:
    assert COMMITTED
