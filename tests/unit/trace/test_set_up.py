"""What a model called itself, without the recorder's set-up calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.plan.development import wide_tags
from orchestrator.trace.lock import parse_lock
from orchestrator.trace.set_up import (
    KERNEL_TAGS,
    OPERATORS,
    called_by_model,
    dtypes_of_model,
)
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace

ROOT = Path(__file__).parents[3]
LOCKS = sorted((*ROOT.glob("apps/*/traces/*.yaml"), *ROOT.glob("tests/golden/traces/**/*.yaml")))


def lock_of(path: Path) -> Trace:
    return parse_lock(path.read_text(encoding="utf-8"), path.name)


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_trace_has_the_set_up_calls(path: Path) -> None:
    trace = lock_of(path)
    for name, calls in OPERATORS.items():
        assert trace.called_operators[Op(name)] >= calls, name
    for tag, dtypes in KERNEL_TAGS.items():
        for dtype, calls in dtypes.items():
            assert trace.kernel_tags[tag][dtype] >= calls, (tag, dtype)


def test_what_only_they_run_is_not_the_models() -> None:
    trace = lock_of(ROOT / "apps/camera/traces/classifier.yaml")
    mine = called_by_model(trace)
    assert set(trace.called_operators) - mine == {
        "aten::_local_scalar_dense",
        "aten::div.Scalar",
        "aten::div.Tensor",
        "aten::eq.Tensor",
        "aten::item",
        "aten::new_empty_strided",
        "aten::ones",
        "aten::zero_",
        "aten::zeros",
    }
    # it copies, fills and narrows more often than they do
    assert {"aten::copy_", "aten::fill_.Scalar", "aten::narrow"} <= mine


def test_a_dtype_that_only_they_copy_is_not_the_models() -> None:
    trace = lock_of(ROOT / "apps/camera/traces/classifier.yaml")
    assert wide_tags(trace.kernel_tags) == {"copy_"}
    assert wide_tags(dtypes_of_model(trace)) == frozenset()
    more = {**trace.kernel_tags, "copy_": {**trace.kernel_tags["copy_"], "Byte": 4}}
    assert wide_tags(dtypes_of_model(replace(trace, kernel_tags=more))) == {"copy_"}
