"""The operators that are refused because their kernels are LAPACK's: asked of the shipped index."""

from __future__ import annotations

import pytest
from shipped_index import shipped

from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.select.closure import reach, registry
from orchestrator.values.operators import OperatorName as Op

KERNELS = "aten/src/ATen/native/BatchLinearAlgebraKernel.cpp"
# The only kernel of that unit which calls neither LAPACK nor BLAS.
PLAIN = "unpack_pivots_stub"
# Kernels that call LAPACK themselves.
DIRECT = ("_cholesky_solve_helper_cpu", "_symeig_helper_cpu")


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_the_list_is_of_operators_that_need_lapack_and_misses_none(dialect: Dialect) -> None:
    index = shipped(dialect)
    kernels = registry(index, ["CPU"], dialect.keys)
    unit = next(n for n, one in enumerate(index.units) if one.path == KERNELS)
    stubs = {
        node
        for node, name in enumerate(index.names)
        if index.owners[node] == unit and "7DEFAULTE" in name and PLAIN not in name
    }
    assert len(stubs) == 14
    direct = {n for n, name in enumerate(index.names) if any(one in name for one in DIRECT)}
    listed = set(dialect.facts.lapack)

    def enters(*operators: str, follow_calls: bool) -> bool:
        found = reach(
            index, kernels, entry=(), operators=map(Op, operators), follow_calls=follow_calls
        )
        return not (stubs | direct).isdisjoint(found.parents)

    others = [one for one in kernels.by_operator if one.partition(".")[0] not in listed]
    # one walk from all of them, which are thousands; each alone only to tell which it was
    if enters(*others, follow_calls=False):
        assert [one for one in others if enters(one, follow_calls=False)] == []
    by_name: dict[str, list[str]] = {}
    for operator in kernels.by_operator:
        by_name.setdefault(operator.partition(".")[0], []).append(operator)
    for name in sorted(listed):
        assert all(enters(one, follow_calls=True) for one in by_name[name]), name
