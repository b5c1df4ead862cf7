"""Which kernel tags are hot: work that is counted, weighed against bytes."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest
from shipped_index import shipped

from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.pytorch.versions import WorkData, WorkRule
from orchestrator.select.tag_code import size_of_tag
from orchestrator.trace.hot import Scales, hot_tags, multiply_adds

WORK = WorkData(
    call=0,
    kernel=0,
    element=1.0,
    rules=(
        WorkRule(tags=("none*",), of="elements", steps=0.0),
        WorkRule(tags=("gemm", "dot*"), of="products", steps=0.5),
        WorkRule(tags=("rows",), of="results", steps=2.0),
        WorkRule(tags=("*p", "gemm"), of="elements", steps=10.0),
    ),
)


def recorded(
    calls: int = 1, **work: int | tuple[int, int] | tuple[int, int, int]
) -> dict[str, Any]:
    """A recording with one call of each tag; work: inputs and outputs, or (inputs, outputs,
    products)."""
    kinds = ("inputs", "outputs", "products")
    return {
        "called_operators": {"aten::a": calls},
        "kernel_tags": {tag: {"Float": 1} for tag in work},
        "work": {
            tag: dict(zip(kinds, (*(n if isinstance(n, tuple) else (n, n)), 0), strict=False))
            for tag, n in work.items()
        },
    }


def hot(
    recording: Mapping[str, Any],
    work: WorkData = WORK,
    sizes: Mapping[str, Mapping[str, int]] | None = None,
    dtypes: int = 12,
) -> tuple[str, ...]:
    tags = {tag: [str(n) for n in range(dtypes)] for tag in {*recording["work"], *(sizes or {})}}
    return hot_tags(recording, tags, Scales(work, lambda tag: (sizes or {}).get(tag, {})))


@pytest.mark.parametrize(
    ("work", "tags"),
    [
        ({}, ()),
        ({"a": 0}, ()),
        ({"a": 5}, ("a",)),
        # from half a percent of the work on
        ({"b": 995, "a": 5}, ("a", "b")),
        ({"b": 996, "a": 4}, ("b",)),
        # the larger of what is given and what comes out
        ({"b": 995, "a": (0, 5)}, ("a", "b")),
        ({"b": 995, "a": (5, 0)}, ("a", "b")),
        # a table is large, and what is taken of it small
        ({"b": 996, "rows": (10**9, 2)}, ("b",)),
        ({"b": 995, "rows": (10**9, 3)}, ("b", "rows")),
        # multiply-adds; the first rule counts
        ({"b": 995, "gemm": (9, 9, 10)}, ("b", "gemm")),
        ({"b": 995, "gemm": (9, 9, 9)}, ("b",)),
        # functions take longer, and some kernels leave the work to others
        ({"b": 1980, "exp": 1}, ("b", "exp")),
        ({"b": 995, "none_of_it": 10**9}, ("b",)),
    ],
)
def test_work(work: dict[str, Any], tags: tuple[str, ...]) -> None:
    assert hot(recorded(**work)) == tags


def test_calls_and_starts_of_kernels_are_work() -> None:
    calls = WORK.model_copy(update={"call": 5})
    assert hot(recorded(199, a=5), calls) == ("a",)
    assert hot(recorded(200, a=5), calls) == ()
    starts = WORK.model_copy(update={"kernel": 5})
    assert hot(recorded(b=990, a=0), starts) == ("a", "b")
    assert hot(recorded(b=991, a=0), starts) == ("b",)


@pytest.mark.parametrize(
    ("share", "sizes", "dtypes", "is_hot"),
    [
        # a percent of the work for 20 KB
        (100, {"a": {"u": 20_000}}, 12, True),
        (100, {"a": {"u": 20_100}}, 12, False),
        (100, {"a": {"u": 10_000, "v": 10_100}}, 12, False),
        # of a kernel with all dtypes, as many as the model has
        (100, {"a": {"u": 40_000}}, 6, True),
        # what else the unit has gets as large, whether it ran or not; what it does counts too
        (100, {"a": {"u": 100}, "idle": {"u": 20_000}}, 12, False),
        (100, {"a": {"u": 100}, "idle": {"v": 20_000}}, 12, True),
        (100, {"a": {"u": 20_000}, "b": {"u": 20_000}}, 12, True),
    ],
)
def test_work_is_weighed_against_bytes(
    share: int, sizes: dict[str, dict[str, int]], dtypes: int, is_hot: bool
) -> None:
    recording = recorded(a=share, b=10_000 - share)
    assert ("a" in hot(recording, sizes=sizes, dtypes=dtypes)) is is_hot


def test_the_size_of_a_kernels_own_code() -> None:
    """Of CopyKernel.cpp most belongs to `copy_`, and some to its other tag."""
    index = shipped()
    numbers = {unit.path: number for number, unit in enumerate(index.units)}
    unit = numbers["aten/src/ATen/native/cpu/CopyKernel.cpp"]
    whole = sum(size for size, own in zip(index.sizes, index.owners, strict=True) if own == unit)
    assert whole > size_of_tag(index, "copy_", unit) > 0.8 * whole
    assert 0 < size_of_tag(index, "copy_kernel", unit) < 0.2 * whole
    assert size_of_tag(index, "copy_", numbers["aten/src/ATen/native/Copy.cpp"]) < 0.2 * whole
    assert size_of_tag(index, "add_stub", unit) == 0


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_the_shipped_rules_match_tags_of_the_runtime(dialect: Dialect) -> None:
    """A glob that matches nothing is a mistake; the first rule counts, so each has its own."""
    index, version = shipped(dialect), dialect.facts
    tags = {tag for unit in index.units for tag in unit.tags}.union(*version.computed_tags.values())
    globs = [glob for rule in version.work.rules for glob in rule.tags]
    assert [g for g in globs if not any(fnmatchcase(tag, g) for tag in tags)] == []


@pytest.mark.parametrize(
    ("work", "runs", "found"),
    [
        ({}, 0, 0),
        ({"a": (9, 9, 9)}, 1, 0),
        ({"gemm": (9, 9, 400)}, 1, 400),
        ({"gemm": (9, 9, 401)}, 4, 100),
        # one product of matrices in two kernels
        ({"gemm": (9, 9, 400), "dots": (9, 9, 401)}, 1, 401),
        # it is of the operator that the kernel is a part of
        ({"gemm": (9, 9, 400), "a": (9, 9, 500)}, 1, 400),
    ],
)
def test_multiply_adds(work: dict[str, Any], runs: int, found: int) -> None:
    assert multiply_adds(recorded(**work), runs, WORK) == found
