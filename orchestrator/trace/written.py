"""Reads a lock that is in the very form in which `lock_text` writes it, without a YAML parser.

A plan reads the locks of every app, and YAML's events take nine tenths of that. Contract: a text is
left to the YAML reader (None), or its trace is the one that this reader makes of it. So the form is
stricter than YAML and than `trace.form`: one style for each scalar, a single order of keys, and no
fault of any kind. All faults are told by the YAML reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Final

from orchestrator.trace.form import COUNT, FUNCTION, INSTRUCTION_COUNT, TRACER
from orchestrator.values.config.forms import IDENTIFIER, NAME, SHA256
from orchestrator.values.coverage import FunctionCoverage, parse_ranges
from orchestrator.values.forms import CLASS, DTYPES, FEATURE, LONGEST_OPERATOR, TAG
from orchestrator.values.operators import OPERATOR_NAME, OperatorName
from orchestrator.values.trace import Trace, TraceIdentity

HEADER: Final = (
    "# Written by `orchestrator trace`; commit it. `selected_operators` is in the format of\n"
    "# PyTorch's SelectiveBuilder.\n"
)
# A line of the form holds at most two scalars and a collection: far from what is too many values.
_MOST_LINES: Final = 50_000
# YAML's writer gives longer keys another style.
_LONGEST_KEY: Final = 128


def _bare(pattern: str) -> str:
    """A pattern whose groups capture nothing."""
    return re.sub(r"\((?!\?)", "(?:", pattern)


def _plain(pattern: str) -> str:
    """A form as a part of a pattern: without its anchors, and with groups that capture nothing."""
    return f"(?:{_bare(pattern).removeprefix('^').removesuffix('$')})"


_OPERATOR, _TAG, _COUNT = map(_plain, (OPERATOR_NAME, TAG, COUNT))
_DTYPE = f"(?:{'|'.join(DTYPES)})"
_RANGE = "[0-9]+(?:-[0-9]+)?"
# a number alone is quoted, a long text goes on in further lines
_RANGES = rf"(?:'[0-9]+'|{_RANGE}(?:(?: |\n {{6}}){_RANGE})*+)"
_COVERED: Final = (
    f"  ({FUNCTION}):\n"
    f"    instructions: ({_plain(INSTRUCTION_COUNT)})\n"
    f"    ways: ({_plain(INSTRUCTION_COUNT)})\n"
    f"(?:    unrun: ({_RANGES})\n)?"
    f"(?:    never_held: ({_RANGES})\n)?"
    f"(?:    never_failed: ({_RANGES})\n)?"
)
_SELECTED: Final = (
    f"    ({_OPERATOR}):\n"
    "      is_root_operator: (true|false)\n"
    "      is_used_for_training: false\n"
    "      include_all_overloads: false\n"
)


def _list(name: str, entry: str, indent: str = "") -> str:
    return rf"{indent}{name}:(?P<{name}> \[\]\n|\n(?:{indent}- {entry}\n)++)"


def _mapping(name: str, entry: str, indent: str = "") -> str:
    return rf"{indent}{name}:(?P<{name}> {{}}\n|\n(?:{_bare(entry)})++)"


_CALL: Final = f"  ({_OPERATOR}): ({_COUNT})\n"
_DTYPE_CALL: Final = f"    ({_DTYPE}): ({_COUNT})\n"
_KERNEL: Final = f"  ({_TAG}):\n((?:{_bare(_DTYPE_CALL)})++)"
_FORM: Final = re.compile(
    re.escape(HEADER)
    + "format: 1\n"
    + f"app: (?P<app>{_plain(NAME)})\n"
    + f"model: (?P<model>{_plain(NAME)})\n"
    + "identity:\n"
    + f"  model: (?P<digest>{_plain(SHA256)})\n"
    + f"  runtime: (?P<runtime>{_plain(SHA256)})\n"
    + f"  inputs: (?P<inputs>bundled|{_plain(SHA256)})\n"
    + _list("backends", _plain(IDENTIFIER), "  ")
    + f"  tracer: (?P<tracer>{_plain(TRACER)})\n"
    + f"(?:  sources: (?P<sources>{_plain(SHA256)})\n)?"
    + f"outputs: (?P<outputs>{_plain(SHA256)})\n"
    + _list("hot_tags", _TAG)
    + f"(?:multiply_adds: (?P<multiply_adds>{_COUNT})\n)?"
    + _list("unrun_operators", _OPERATOR)
    + f"(?:{_list('unreachable_operators', _OPERATOR)})?"
    + _mapping("calls", _CALL)
    + _mapping("kernel_calls", _KERNEL)
    + f"(?:{_mapping('coverage', _COVERED)})?"
    + "selected_operators:\n"
    + "  include_all_non_op_selectives: false\n"
    + _list("build_features", _plain(FEATURE), "  ")
    + _list("custom_classes", _plain(CLASS), "  ")
    # it follows from the calls, and is compared as text
    + r"  kernel_metadata:(?P<kernel_metadata> {}\n|\n(?:    .++\n)++)"
    + _mapping("operators", _SELECTED, "  "),
    re.ASCII,
)
_LISTS: Final = (
    "backends",
    "hot_tags",
    "unrun_operators",
    "unreachable_operators",
    "build_features",
    "custom_classes",
)
_CALLS, _DTYPE_CALLS, _KERNELS, _FUNCTIONS, _OPERATORS = (
    re.compile(entry, re.ASCII) for entry in (_CALL, _DTYPE_CALL, _KERNEL, _COVERED, _SELECTED)
)


def written_trace(text: str) -> Trace | None:
    """The trace in a lock of this form; None for any other text, whether or not it is a lock."""
    found = _FORM.fullmatch(text)
    if found is None or text.count("\n") > _MOST_LINES:
        return None
    lists = {
        name: tuple(map(intern, found[name].replace("- ", "").split()))
        for name in _LISTS
        if found[name] not in (None, " []\n")
    }
    calls = _CALLS.findall(found["calls"])
    called = {intern(name): int(count) for name, count in calls}
    kernels = _KERNELS.findall(found["kernel_calls"])
    tags = {intern(tag): _dtype_calls(dtypes) for tag, dtypes in kernels}
    operators = _OPERATORS.findall(found["operators"])
    selected = {intern(name) for name, _ in operators}
    coverage = None if found["coverage"] is None else _coverage(found["coverage"])
    trace = Trace(
        app=found["app"],
        model=found["model"],
        identity=TraceIdentity(
            model=found["digest"],
            runtime=intern(found["runtime"]),
            inputs=intern(found["inputs"]),
            backends=lists.get("backends", ()),
            tracer=intern(found["tracer"]),
            sources=found["sources"] or "",
        ),
        root_operators=tuple(
            OperatorName.known(name) for name, is_root in operators if is_root == "true"
        ),
        called_operators={OperatorName.known(name): count for name, count in called.items()},
        kernel_tags={tag: dtypes for tag, dtypes in tags.items() if dtypes is not None},
        custom_classes=lists.get("custom_classes", ()),
        build_features=lists.get("build_features", ()),
        hot_tags=lists.get("hot_tags", ()),
        multiply_adds=None if found["multiply_adds"] is None else int(found["multiply_adds"]),
        outputs=found["outputs"],
        coverage=coverage,
        unreachable_operators=tuple(
            map(OperatorName.known, lists.get("unreachable_operators", ()))
        ),
    )
    is_one = (
        # no name twice
        (len(called), len(tags), len(selected)) == (len(calls), len(kernels), len(operators))
        and all(
            len({*lists[name]}) == len(lists[name]) for name in lists if name != "unrun_operators"
        )
        and (found["coverage"] is None or coverage is not None)
        and max(map(len, selected), default=0) <= LONGEST_OPERATOR
        # what follows from the rest; of a tag with a dtype twice the metadata does not
        and selected == {*trace.root_operators, *called}
        and not {*trace.root_operators}.intersection(trace.unreachable_operators)
        and max(map(len, trace.unreachable_operators), default=0) <= LONGEST_OPERATOR
        and lists.get("unrun_operators", ()) == trace.unrun_operators
        and found["kernel_metadata"] == _metadata(trace)
    )
    return trace if is_one else None


@lru_cache(maxsize=4096)
def _dtype_calls(text: str) -> Mapping[str, int] | None:
    """Dtype -> calls, one value for all tags of all apps with the same; None where one is there
    twice."""
    calls = _DTYPE_CALLS.findall(text)
    found = {intern(dtype): int(count) for dtype, count in calls}
    return found if len(found) == len(calls) else None


def _metadata(trace: Trace) -> str:
    """The text of the dtypes of each tag."""
    if not trace.kernel_tags:
        return " {}\n"
    lines = [
        f"    {tag}:\n{_dtype_lines(tuple(dtypes))}"
        for tag, dtypes in sorted(trace.kernel_tags.items())
    ]
    return "\n" + "".join(lines)


@lru_cache(maxsize=4096)
def _dtype_lines(dtypes: tuple[str, ...]) -> str:
    return "".join(f"    - {dtype}\n" for dtype in sorted(dtypes))


def _coverage(text: str) -> dict[str, FunctionCoverage] | None:
    """The functions' coverage; None where something is not as it is written."""
    functions = _FUNCTIONS.findall(text)
    found = {}
    for name, instructions, ways, *missed in functions:
        ranges = [parse_ranges(" ".join(one.strip("'").split())) for one in missed]
        unrun, never_held, never_failed = (() if one is None else one for one in ranges)
        one = FunctionCoverage(int(instructions), int(ways), unrun, never_held, never_failed)
        if None in ranges or one.unrun_count > one.instructions or one.untaken > one.ways:
            return None
        found[name] = one
    fits = len(found) == len(functions) and max(map(len, found), default=0) <= _LONGEST_KEY
    return found if fits else None
